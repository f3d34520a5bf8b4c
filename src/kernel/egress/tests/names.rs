//! Names: attacks by DNS answers, and what the operator's log shows.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

use super::{
    dns::{Answer, DnsServer},
    receiver::Receiver,
    *,
};
use crate::Blocked;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

fn named(receiver: &Receiver) -> String {
    format!("http://receiver.test:{}/", receiver.address.port())
}

#[tokio::test]
async fn an_exchange_uses_a_single_lookup() {
    let receiver = Receiver::answering(OK).await;
    // Every answer except the first would lead elsewhere.
    let dns = DnsServer::start(|_, before| {
        let address = if before == 0 { "127.0.0.1" } else { "127.0.0.2" };
        Answer::Addresses(vec![ip(address)], 0)
    })
    .await;
    let egress = egress(&open_settings(&[dns.address]));
    let exchange = egress.send(post(&named(&receiver))).await;
    assert!(!exchange.timings.dns.is_zero());
    assert_eq!(exchange.remote_ip, Some(ip("127.0.0.1")));
    assert_eq!(answer(exchange).status, 200);
    assert_eq!(dns.questions(), 1);
    // The name now points to a forbidden address. The open connection must not help.
    assert_eq!(egress.waiting_connections(), 1);
    assert_eq!(error(egress.send(post(&named(&receiver))).await).code(), "blocked");
    assert_eq!(dns.questions(), 2);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_vetted_name_is_checked_again_when_sending() {
    let receiver = Receiver::answering(OK).await;
    let dns = DnsServer::start(|_, before| {
        let address = if before == 0 { "8.8.8.8" } else { "127.0.0.1" };
        Answer::Addresses(vec![ip(address)], 0)
    })
    .await;
    let egress = egress(&config::Egress { dns_servers: vec![dns.address], ..settings() });
    assert_eq!(egress.vet(&url(&named(&receiver)), Audience::default()).await, Ok(()));
    assert_eq!(error(egress.send(post(&named(&receiver))).await).code(), "blocked");
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn an_answer_is_cached_for_its_ttl() {
    let receiver = Receiver::answering(OK).await;
    for (ttl, questions) in [(300, 1), (0, 4)] {
        let dns = DnsServer::start(move |_, _| Answer::Addresses(vec![ip("127.0.0.1")], ttl)).await;
        let egress = egress(&open_settings(&[dns.address]));
        for _ in 0..4 {
            answer(egress.send(post(&named(&receiver))).await);
        }
        assert_eq!(dns.questions(), questions, "time to live {ttl}");
    }
}

#[tokio::test]
async fn one_forbidden_address_refuses_the_name() {
    let receiver = Receiver::answering(OK).await;
    for answers in [
        ["127.0.0.1", "169.254.169.254"],
        ["10.0.0.1", "127.0.0.1"],
        ["127.0.0.1", "fe80::1"],
        ["127.0.0.1", "::ffff:10.0.0.1"],
        ["127.0.0.1", "2002:a9fe:a9fe::1"],
    ] {
        let dns = DnsServer::answering(&answers).await;
        let egress = egress(&open_settings(&[dns.address]));
        assert_eq!(egress.vet(&url(&named(&receiver)), Audience::default()).await, Err(Blocked), "{answers:?}");
        assert_eq!(error(egress.send(post(&named(&receiver))).await).code(), "blocked", "{answers:?}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_does_not_answer() {
    let receiver = Receiver::answering(OK).await;
    let dns = DnsServer::answering(&["127.0.0.2", "127.0.0.1"]).await;
    let mut settings = open_settings(&[dns.address]);
    settings.allowed_addresses.push(ip("127.0.0.2"));
    let exchange = egress(&settings).send(post(&named(&receiver))).await;
    assert_eq!(exchange.remote_ip, Some(ip("127.0.0.1")));
    assert_eq!(answer(exchange).status, 200);
}

#[tokio::test]
async fn an_unresolvable_name_fails_only_when_sending() {
    let missing = DnsServer::start(|_, _| Answer::NoSuchName).await;
    let empty = DnsServer::start(|_, _| Answer::Addresses(Vec::new(), 60)).await;
    let silent = DnsServer::start(|_, _| Answer::Silence).await;
    for dns in [missing, empty, silent] {
        let egress = hasty(&open_settings(&[dns.address]));
        let started = Instant::now();
        assert_eq!(egress.vet(&url("http://nowhere.test/"), Audience::default()).await, Ok(()));
        assert_eq!(error(egress.send(post("http://nowhere.test/")).await).code(), "dns");
        assert!(started.elapsed() < AMPLE / 2);
        assert!(dns.questions() > 0);
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_names_the_reason_and_the_setting() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let dns = DnsServer::answering(&["10.1.2.3"]).await;
    let egress = egress(&config::Egress { dns_servers: vec![dns.address], ..settings() });
    assert_eq!(error(egress.send(post("http://inside.test/secret-path")).await).to_string(), "target_not_allowed");
    assert_eq!(error(egress.send(post("http://[64:ff9b::a9fe:a9fe]/")).await).to_string(), "target_not_allowed");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for expected in
        ["inside.test", "10.1.2.3", "egress.allowed_networks", "169.254.169.254", "link-local", "egress.allowed_addresses"]
    {
        assert!(log.contains(expected), "{expected} is not in {log}");
    }
    assert!(!log.contains("secret-path"));
}

#[tokio::test]
async fn texts_are_joined_and_not_cached() {
    let long = "x".repeat(70);
    let shown = Arc::new(Mutex::new(vec![long.clone(), "v=spf1 -all".to_owned()]));
    let texts = shown.clone();
    let dns = DnsServer::start(move |name, _| match name {
        "gone.test." => Answer::NoSuchName,
        "broken.test." => Answer::Failure,
        _ => Answer::Texts(texts.lock().unwrap().clone()),
    })
    .await;
    let egress = egress(&config::Egress { dns_servers: vec![dns.address], ..settings() });
    assert_eq!(egress.texts("acme.test").await.unwrap(), [long.as_str(), "v=spf1 -all"]);
    shown.lock().unwrap().clear();
    for none in ["acme.test", "gone.test"] {
        assert!(egress.texts(none).await.unwrap().is_empty(), "{none}");
    }
    assert_eq!(egress.texts("broken.test").await.unwrap_err().code(), "dns");
}
