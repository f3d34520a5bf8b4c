//! Receivers that misbehave, and targets that are not allowed.

use std::sync::{Arc, Mutex};

use tokio::{
    io::AsyncWriteExt,
    sync::oneshot,
    time::{Instant, interval},
};

use super::{
    receiver::{Receiver, read_request, until_closed},
    *,
};
use crate::{MAX_BODY_BYTES, MAX_HEAD_BYTES};

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Receiver::answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let location = target.url();
    for status in [301, 302, 303, 307, 308] {
        let location = location.clone();
        let receiver = Receiver::start(move |mut stream, _| {
            let answer = format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
            async move {
                read_request(&mut stream).await;
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        })
        .await;
        assert_eq!(answer(egress(&open_settings(&[])).send(post(&receiver.url())).await).status.as_u16(), status);
    }
    assert_eq!(target.connections(), 0);
}

/// Writes forever, and reports how much it wrote until the client closed.
async fn flood(head: &'static str, piece: &'static [u8]) -> (Receiver, oneshot::Receiver<usize>) {
    let (sender, written) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let receiver = Receiver::start(move |mut stream, _| {
        let sender = sender.lock().unwrap().take();
        async move {
            read_request(&mut stream).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut bytes = 0;
            while stream.write_all(piece).await.is_ok() {
                bytes += piece.len();
            }
            if let Some(sender) = sender {
                sender.send(bytes).unwrap();
            }
        }
    })
    .await;
    (receiver, written)
}

#[tokio::test]
async fn a_huge_body_is_truncated() {
    for head in ["HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
        let (receiver, written) = flood(head, &[b'x'; 8192]).await;
        let egress = egress(&open_settings(&[]));
        let response = answer(egress.send(post(&receiver.url())).await);
        assert_eq!((response.body.len(), response.truncated), (MAX_BODY_BYTES, true));
        assert!(written.await.unwrap() < 1 << 26);
        assert_eq!(egress.waiting_connections(), 0);
    }
}

#[tokio::test]
async fn a_body_at_the_limit_is_complete() {
    static EXACT: [u8; MAX_BODY_BYTES] = [b'y'; MAX_BODY_BYTES];
    let receiver = Receiver::start(|mut stream, _| async move {
        while read_request(&mut stream).await.is_some() {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {MAX_BODY_BYTES}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&EXACT).await.unwrap();
        }
    })
    .await;
    let egress = egress(&open_settings(&[]));
    for _ in 0..2 {
        let response = answer(egress.send(post(&receiver.url())).await);
        assert_eq!((response.body.as_ref(), response.truncated), (EXACT.as_ref(), false));
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn an_endless_head_is_refused() {
    for piece in [b"x-header: 0123456789\r\n".as_ref(), b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".as_ref()] {
        let (receiver, written) = flood("HTTP/1.1 200 OK\r\nx: ", piece).await;
        let refused = error(egress(&open_settings(&[])).send(post(&receiver.url())).await);
        assert_eq!(refused.code(), "protocol", "{refused}");
        assert!(written.await.unwrap() > MAX_HEAD_BYTES / 32);
    }
}

#[tokio::test]
async fn a_slow_answer_times_out() {
    for (head, drop_of) in [("HTTP/1.1 200 OK\r\n\r\n", b"x".as_ref()), ("HTTP/1.1 200 OK\r\nx: ", b"y".as_ref())] {
        let receiver = Receiver::start(move |mut stream, _| async move {
            read_request(&mut stream).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut drip = interval(Duration::from_millis(20));
            while stream.write_all(drop_of).await.is_ok() {
                drip.tick().await;
            }
        })
        .await;
        let started = Instant::now();
        let exchange = egress(&open_settings(&[])).send(Request { timeout: SHORT, ..post(&receiver.url()) }).await;
        assert!(exchange.timings.total >= SHORT && started.elapsed() < AMPLE / 2);
        assert_eq!(exchange.remote_ip, Some(ip("127.0.0.1")));
        assert!(!exchange.timings.connect.is_zero());
        assert_eq!(error(exchange), EgressError::Timeout);
    }
}

#[tokio::test]
async fn a_silent_receiver_times_out() {
    let receiver = Receiver::start(|mut stream, _| async move { until_closed(&mut stream).await }).await;
    let request = Request { timeout: SHORT, body: Bytes::from(vec![b'z'; 1 << 20]), ..post(&receiver.url()) };
    assert_eq!(error(egress(&open_settings(&[])).send(request).await), EgressError::Timeout);
}

#[tokio::test]
async fn invalid_answers_have_different_codes() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "reset"),
        (b"HTTP/1.1 200 O", "reset"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", "reset"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "reset"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "protocol"),
        (b"<html>no status line</html>\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "protocol"),
        (b"\x16\x03\x01\x00\x05hello\r\n\r\n", "protocol"),
    ];
    for (bytes, code) in cases {
        let receiver = Receiver::answering_once(bytes).await;
        let refused = error(egress(&open_settings(&[])).send(post(&receiver.url())).await);
        assert_eq!(refused.code(), code, "{}: {refused}", bytes.escape_ascii());
        assert_eq!(receiver.connections(), 1);
    }
}

#[tokio::test]
async fn refused_and_unanswered_connections_fail_to_connect() {
    let closed = {
        let receiver = Receiver::answering(b"").await;
        receiver.url()
    };
    let egress = hasty(&config::Egress { allowed_addresses: vec![ip("127.0.0.1"), ip("192.0.2.1")], ..settings() });
    tokio::task::yield_now().await;
    assert_eq!(error(egress.send(post(&closed)).await).code(), "connect");
    assert_eq!(error(egress.send(post("http://192.0.2.1:81/")).await).code(), "connect");
}

#[tokio::test]
async fn a_target_that_is_not_allowed_is_not_contacted() {
    let receiver = Receiver::answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let port = receiver.address.port();
    let closed = egress(&settings());
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "[::ffff:127.0.0.1]",
        "localhost",
        "a.localhost.",
        "0.0.0.0",
        "[::]",
        "[64:ff9b::7f00:1]",
    ] {
        let target = format!("http://{host}:{port}/");
        assert_eq!(closed.vet(&url(&target), Audience::default()).await, Err(crate::Blocked), "{host}");
        let exchange = closed.send(post(&target)).await;
        assert_eq!(exchange.remote_ip, None);
        assert_eq!(error(exchange).to_string(), "target_not_allowed", "{host}");
    }
    assert_eq!(receiver.connections(), 0);
    let evaluation = Audience { allow_loopback: true };
    assert_eq!(closed.vet(&url(&receiver.url()), evaluation).await, Ok(()));
    for host in ["127.0.0.1", "localhost"] {
        let request = Request { audience: evaluation, ..post(&format!("http://{host}:{port}/")) };
        assert_eq!(answer(closed.send(request).await).status, 200);
    }
    // A pooled connection does not help other callers to reach the target.
    assert_eq!(error(closed.send(post(&receiver.url())).await).code(), "blocked");
    closed.set_listening(&[receiver.address]);
    let own = Request { audience: evaluation, ..post(&receiver.url()) };
    assert_eq!(error(closed.send(own).await).code(), "blocked");
}
