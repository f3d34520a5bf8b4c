//! Successful exchanges: the bytes on the wire, and the reuse of connections.

use std::sync::{Arc, Mutex};

use http::HeaderValue;
use tokio::io::AsyncWriteExt;

use tenantd_store::tasks::Task;

use super::{
    receiver::{Receiver, answer_all, read_request, until_closed},
    *,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-seen: yes\r\n\r\nok";

#[tokio::test]
async fn a_request_is_sent_unchanged_and_timed() {
    let seen = Arc::new(Mutex::new(String::new()));
    let note = seen.clone();
    let receiver = Receiver::start(move |mut stream, _| {
        let note = note.clone();
        async move {
            let request = read_request(&mut stream).await.unwrap();
            *note.lock().unwrap() = request;
            stream.write_all(OK).await.unwrap();
            until_closed(&mut stream).await;
        }
    })
    .await;
    let mut request = post(&receiver.url());
    for (name, value) in [("webhook-id", "evt_1"), ("host", "elsewhere"), ("content-length", "5"), ("transfer-encoding", "chunked")]
    {
        request.headers.insert(name, HeaderValue::from_static(value));
    }
    let exchange = egress(&open_settings(&[])).send(request).await;
    assert_eq!(exchange.remote_ip, Some(ip("127.0.0.1")));
    let timings = exchange.timings;
    assert!(timings.dns.is_zero() && timings.tls.is_zero() && !timings.connect.is_zero() && !timings.first_byte.is_zero());
    assert!(timings.total >= timings.connect + timings.first_byte, "{timings:?}");
    let response = answer(exchange);
    assert_eq!((response.status.as_u16(), response.body.as_ref(), response.truncated), (200, b"ok".as_ref(), false));
    assert_eq!(response.headers["x-seen"], "yes");
    let seen = seen.lock().unwrap().clone();
    let (head, body) = seen.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /hook?x=1 HTTP/1.1");
    lines.sort_unstable();
    assert_eq!(lines, ["content-length: 11", &format!("host: {}", receiver.address), "webhook-id: evt_1"]);
    assert_eq!(body, "{\"hello\":1}");
}

#[tokio::test]
async fn a_connection_is_reused() {
    let receiver = Receiver::answering(OK).await;
    let egress = egress(&open_settings(&[]));
    for turn in 0..5 {
        let exchange = egress.send(post(&receiver.url())).await;
        let (dns, connect, tls) = (exchange.timings.dns, exchange.timings.connect, exchange.timings.tls);
        assert_eq!(turn == 0, !connect.is_zero());
        assert!(dns.is_zero() && tls.is_zero());
        assert_eq!(answer(exchange).status, 200);
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_connection_is_reused_only_for_its_host() {
    let receiver = Receiver::answering(OK).await;
    let dns = dns::DnsServer::answering(&["127.0.0.1"]).await;
    let egress = egress(&open_settings(&[dns.address]));
    for host in ["127.0.0.1", "one.test", "two.test", "two.test"] {
        answer(egress.send(post(&format!("http://{host}:{}/", receiver.address.port()))).await);
    }
    assert_eq!(receiver.connections(), 3);
    assert_eq!(egress.waiting_connections(), 3);
}

#[tokio::test]
async fn pooled_connections_are_limited() {
    let receiver = Receiver::answering(OK).await;
    let few = config::Egress { pool_connections: 3, pool_connections_per_target: 2, ..open_settings(&[]) };
    let egress = egress(&few);
    let burst = |url: String| {
        let egress = egress.clone();
        async move {
            let sent: Vec<_> = (0..4).map(|_| egress.send(post(&url))).collect();
            for exchange in futures_util::future::join_all(sent).await {
                answer(exchange);
            }
        }
    };
    burst(receiver.url()).await;
    assert_eq!(receiver.connections(), 4);
    assert_eq!(egress.waiting_connections(), 2);
    let other = Receiver::answering(OK).await;
    burst(other.url()).await;
    assert_eq!(egress.waiting_connections(), 3);
    let none = super::egress(&config::Egress { pool_connections: 0, ..open_settings(&[]) });
    answer(none.send(post(&receiver.url())).await);
    assert_eq!(none.waiting_connections(), 0);
}

#[tokio::test]
async fn a_connection_is_not_used_beyond_its_time() {
    for over in [
        config::Egress { pool_idle_seconds: 0, ..open_settings(&[]) },
        config::Egress { pool_lifetime_seconds: 0, ..open_settings(&[]) },
    ] {
        let receiver = Receiver::answering(OK).await;
        let egress = egress(&over);
        for _ in 0..3 {
            answer(egress.send(post(&receiver.url())).await);
        }
        assert_eq!(receiver.connections(), 3);
    }
}

#[tokio::test]
async fn closed_connections_are_removed() {
    let receiver = Receiver::answering_once(OK).await;
    let egress = egress(&open_settings(&[]));
    answer(egress.send(post(&receiver.url())).await);
    let upkeep = egress.upkeep();
    let cleared = async {
        while egress.waiting_connections() > 0 {
            upkeep.activate().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(AMPLE, cleared).await.unwrap();
}

#[tokio::test]
async fn a_request_on_a_dead_connection_is_repeated() {
    // The first connection answers one request, reads the second and closes.
    let start = || {
        Receiver::start(|mut stream, number| async move {
            read_request(&mut stream).await;
            stream.write_all(OK).await.unwrap();
            if number == 0 {
                read_request(&mut stream).await;
            } else {
                answer_all(stream, OK).await;
            }
        })
    };
    let receiver = start().await;
    let egress = egress(&open_settings(&[]));
    answer(egress.send(post(&receiver.url())).await);
    let again = egress.send(post(&receiver.url())).await;
    assert!(!again.timings.connect.is_zero());
    assert_eq!(answer(again).status, 200);
    assert_eq!(receiver.connections(), 2);

    // It is unknown whether the receiver acted on the request, so this one is not repeated.
    let receiver = start().await;
    answer(egress.send(post(&receiver.url())).await);
    let once = Request { repeatable: false, ..post(&receiver.url()) };
    assert_eq!(error(egress.send(once).await), EgressError::Reset);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_request_is_not_repeated_after_the_first_byte_of_an_answer() {
    let receiver = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(OK).await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 2").await.unwrap();
    })
    .await;
    let egress = egress(&open_settings(&[]));
    answer(egress.send(post(&receiver.url())).await);
    assert_eq!(error(egress.send(post(&receiver.url())).await), EgressError::Reset);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn unusual_but_valid_answers_are_accepted() {
    let cases: [(&[u8], u16, &[u8]); 9] = [
        (b"HTTP/1.0 200 OK\r\n\r\nto the end", 200, b"to the end"),
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", 200, b"to the end"),
        (b"HTTP/1.0 503 Busy\r\ncontent-length: 4\r\n\r\nbusy", 503, b"busy"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200, b"abcde"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", 202, b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 299\r\ncontent-length: 0\r\n\r\n", 299, b""),
        (b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", 410, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00", 200, b"\x1f\x8b\x08\x00"),
    ];
    for (bytes, status, body) in cases {
        let receiver = Receiver::answering_once(bytes).await;
        let response = answer(egress(&open_settings(&[])).send(post(&receiver.url())).await);
        assert_eq!((response.status.as_u16(), response.body.as_ref()), (status, body), "{}", bytes.escape_ascii());
    }
}
