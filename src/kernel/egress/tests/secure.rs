//! TLS: which certificates are trusted.

use std::sync::Arc;

use rcgen::{CertificateParams, date_time_ymd};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use super::{
    certificates::{Authority, authority, leaf, server},
    dns::DnsServer,
    receiver::{Receiver, answer_all},
    *,
};
use crate::check_ca_pem;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A receiver behind TLS with a certificate from `issuer`, or a self-signed one.
async fn receiver(params: CertificateParams, issuer: Option<&Authority>) -> Receiver {
    let acceptor = TlsAcceptor::from(server(params, issuer));
    Receiver::start(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer_all(stream, OK).await;
            }
        }
    })
    .await
}

fn secure_post(receiver: &Receiver, host: &str, ca_pem: Option<&str>) -> Request {
    Request { ca_pem: ca_pem.map(Arc::from), ..post(&format!("https://{host}:{}/", receiver.address.port())) }
}

#[tokio::test]
async fn a_private_authority_is_trusted_for_its_names() {
    let dns = DnsServer::answering(&["127.0.0.1"]).await;
    let egress = egress(&open_settings(&[dns.address]));
    let authority = authority();
    let pem = authority.pem();
    let receiver = receiver(leaf(&["receiver.test", "127.0.0.1"]), Some(&authority)).await;
    for host in ["receiver.test", "receiver.test.", "127.0.0.1", "127.1"] {
        let exchange = egress.send(secure_post(&receiver, host, Some(&pem))).await;
        assert_eq!(host == "127.1", exchange.timings.tls.is_zero(), "only 127.1 reuses the connection of the same host");
        assert_eq!(answer(exchange).status, 200, "{host}");
    }
    let opened = receiver.connections();
    let reused = egress.send(secure_post(&receiver, "receiver.test", Some(&pem))).await;
    assert!(reused.timings.tls.is_zero() && reused.timings.connect.is_zero());
    assert_eq!(answer(reused).status, 200);
    assert_eq!(receiver.connections(), opened);
    // A connection that was opened with a private authority is not used for callers that do not trust it.
    assert_eq!(error(egress.send(secure_post(&receiver, "receiver.test", None)).await).code(), "tls");
    let other = self::authority().pem();
    assert_eq!(error(egress.send(secure_post(&receiver, "receiver.test", Some(&other))).await).code(), "tls");
    assert_eq!(receiver.connections(), opened + 2);
}

#[tokio::test]
async fn invalid_certificates_are_refused() {
    let dns = DnsServer::answering(&["127.0.0.1"]).await;
    let egress = egress(&open_settings(&[dns.address]));
    let authority = authority();
    let pem = authority.pem();
    let mut expired = leaf(&["receiver.test"]);
    (expired.not_before, expired.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let mut early = leaf(&["receiver.test"]);
    (early.not_before, early.not_after) = (date_time_ymd(2200, 1, 1), date_time_ymd(2201, 1, 1));
    for (case, params, issuer) in [
        ("expired", expired, Some(&authority)),
        ("not yet valid", early, Some(&authority)),
        ("wrong name", leaf(&["other.test"]), Some(&authority)),
        ("self-signed", leaf(&["receiver.test"]), None),
    ] {
        let receiver = receiver(params, issuer).await;
        let exchange = egress.send(secure_post(&receiver, "receiver.test", Some(&pem))).await;
        assert_eq!(exchange.remote_ip, Some(ip("127.0.0.1")));
        assert_eq!(error(exchange).code(), "tls", "{case}");
    }
    // A receiver that speaks plain HTTP where TLS is expected.
    let plain = Receiver::start(|mut stream, _| async move { stream.write_all(OK).await.unwrap() }).await;
    assert_eq!(error(egress.send(secure_post(&plain, "receiver.test", Some(&pem))).await).code(), "tls");
}

#[tokio::test]
async fn the_operators_authorities_are_trusted_too() {
    let authority = authority();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority.pem()).unwrap();
    let settings = config::Egress { ca_file: Some(file.path().to_owned()), ..open_settings(&[]) };
    let receiver = receiver(leaf(&["127.0.0.1"]), Some(&authority)).await;
    assert_eq!(answer(egress(&settings).send(secure_post(&receiver, "127.0.0.1", None)).await).status, 200);
    std::fs::write(file.path(), "nothing").unwrap();
    assert!(Egress::new(&settings, &[]).is_err_and(|problem| problem.contains("has no certificate")));
}

#[tokio::test]
async fn an_invalid_authority_is_refused() {
    assert_eq!(check_ca_pem(&authority().pem()), Ok(()));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (pem, problem) in [("", "has no certificate"), (broken, "cannot be used"), (&"x".repeat(70_000), "longer")] {
        assert!(check_ca_pem(pem).is_err_and(|error| error.contains(problem)), "{problem}");
    }
    let refused = error(egress(&open_settings(&[])).send(Request { ca_pem: Some("x".into()), ..post("https://127.0.0.1/") }).await);
    assert_eq!(refused.code(), "tls");
}

#[tokio::test]
async fn only_the_pinned_certificate_is_trusted() {
    let egress = egress(&open_settings(&[]));
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = leaf(&["not.its.name"]).self_signed(&key).unwrap();
    let acceptor = TlsAcceptor::from(pinned_server(certificate.der().clone(), &key));
    let receiver = Receiver::start(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer_all(stream, OK).await;
            }
        }
    })
    .await;
    let pin: [u8; 32] = sha2::Digest::finalize(sha2::Digest::chain_update(sha2::Sha256::default(), certificate.der())).into();
    let pinned = |pin| Request { pinned_certificate: Some(pin), ..secure_post(&receiver, "127.0.0.1", None) };
    assert_eq!(answer(egress.send(pinned(pin)).await).status, 200);
    assert_eq!(error(egress.send(pinned([7; 32])).await).code(), "tls");
    // A connection that was opened with the pin is not used for callers without it.
    assert_eq!(error(egress.send(secure_post(&receiver, "127.0.0.1", None)).await).code(), "tls");
}

fn pinned_server(certificate: rustls::pki_types::CertificateDer<'static>, key: &rcgen::KeyPair) -> Arc<rustls::ServerConfig> {
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(builder.with_single_cert(vec![certificate], key.into()).unwrap())
}
