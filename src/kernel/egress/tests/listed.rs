//! The list of the only targets: what it refuses, at which moment, and that it opens nothing.

use super::{
    dns::{Answer, DnsServer},
    receiver::Receiver,
    *,
};
use crate::Blocked;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

fn listing(settings: config::Egress, entries: &[&str]) -> config::Egress {
    let only_targets = entries.iter().map(|entry| (*entry).to_owned().try_into().unwrap()).collect();
    config::Egress { only_targets, ..settings }
}

#[tokio::test]
async fn only_listed_names_are_looked_up_and_contacted() {
    let receiver = Receiver::answering(OK).await;
    let dns = DnsServer::start(|_, _| Answer::Addresses(vec![ip("127.0.0.1")], 0)).await;
    let port = receiver.address.port();
    let egress = egress(&listing(open_settings(&[dns.address]), &["hooks.test", &format!("*.inside.test:{port}")]));
    for host in ["hooks.test", "a.inside.test", "A.b.inside.test."] {
        let target = format!("http://{host}:{port}/");
        assert_eq!(egress.vet(&url(&target), Audience::default()).await, Ok(()), "{host}");
        assert_eq!(egress.vet_address(&url(&target), Audience::default()), Ok(()), "{host}");
        assert_eq!(answer(egress.send(post(&target)).await).status, 200, "{host}");
    }
    let (questions, connections) = (dns.questions(), receiver.connections());
    for target in [
        format!("http://inside.test:{port}/"),
        format!("http://hooks.test.evil.test:{port}/"),
        format!("http://127.0.0.1:{port}/"),
        "http://a.inside.test:1/".to_owned(),
    ] {
        assert_eq!(egress.vet(&url(&target), Audience::default()).await, Err(Blocked), "{target}");
        assert_eq!(egress.vet_address(&url(&target), Audience::default()), Err(Blocked), "{target}");
        assert_eq!(error(egress.send(post(&target)).await).code(), "blocked", "{target}");
    }
    assert_eq!((dns.questions(), receiver.connections()), (questions, connections), "a refused target was asked for");
}

#[tokio::test]
async fn all_addresses_of_a_name_must_be_in_a_listed_network() {
    let receiver = Receiver::answering(OK).await;
    let target = format!("http://somewhere.test:{}/", receiver.address.port());
    for (answers, expected) in [(["127.0.0.1", "127.0.0.1"], Ok(())), (["127.0.0.1", "127.0.0.9"], Err(Blocked))] {
        let dns = DnsServer::answering(&answers).await;
        let mut settings = open_settings(&[dns.address]);
        settings.allowed_addresses.push(ip("127.0.0.9"));
        let egress = egress(&listing(settings, &["127.0.0.0/29"]));
        assert_eq!(egress.vet_address(&url(&target), Audience::default()), Ok(()), "a rehearsal does not know the addresses");
        assert_eq!(egress.vet(&url(&target), Audience::default()).await, expected, "{answers:?}");
        assert_eq!(egress.send(post(&target)).await.outcome.is_ok(), expected.is_ok(), "{answers:?}");
    }
}

#[tokio::test]
async fn the_list_opens_nothing_that_the_policy_forbids() {
    let dns = DnsServer::answering(&["169.254.169.254"]).await;
    let closed = config::Egress { dns_servers: vec![dns.address], ..settings() };
    let egress = egress(&listing(closed, &["meta.test", "0.0.0.0/0", "::/0"]));
    for host in ["meta.test", "127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[fd00::1]", "[64:ff9b::a9fe:a9fe]", "0.0.0.0"] {
        let target = format!("http://{host}/");
        assert_eq!(egress.vet(&url(&target), Audience::default()).await, Err(Blocked), "{host}");
        assert_eq!(error(egress.send(post(&target)).await).code(), "blocked", "{host}");
    }
}
