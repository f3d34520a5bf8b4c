//! Receivers with TLS: which certificates are trusted, and the result of a delivery to an untrusted one.

use rcgen::date_time_ymd;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::harness::{
    Endpoint, Receiver, Script, Setup, TestApp,
    certificates::{authority, leaf, server},
    dns::DnsServer,
    with_setup,
};

/// An attempt at a receiver at this URL, with these authorities instead of those of the web.
async fn attempt(app: &TestApp, slug: &str, url: &str, authorities: Option<&str>) -> Value {
    let tenant = app.evaluation_tenant(slug).await;
    let mut more = json!({"timeout_seconds": 5});
    if let Some(pem) = authorities {
        more["ca_certificate_pem"] = json!(pem);
    }
    let endpoint = Endpoint::new(&tenant, url, more).await;
    tenant.new_key("event", &["*"]).await;
    let delivery = endpoint.until_attempts(1).await;
    let mut attempts = endpoint.attempts(&delivery).await;
    let attempt = attempts.remove(0);
    assert_eq!(delivery["status"], if attempt["status"] == 200 { "delivered" } else { "retrying" });
    attempt
}

#[tokio::test]
async fn only_configured_authorities_are_trusted() {
    let dns = DnsServer::answering(&["127.0.0.1"]).await;
    let setup = Setup::default().with("rate_limits.enabled", false).with("egress.dns_servers", format!("[\"{}\"]", dns.address));
    with_setup(setup, async |app| {
        let (ours, theirs) = (authority(), authority());
        let (pem, other) = (ours.pem(), theirs.pem());
        let mut expired = leaf(&["hooks.test"]);
        (expired.not_before, expired.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        let both = format!("{other}{pem}");
        let cases = [
            ("believed", leaf(&["hooks.test"]), Some(&ours), Some(pem.as_str()), None),
            ("one of two", leaf(&["hooks.test"]), Some(&ours), Some(both.as_str()), None),
            ("wrong authority", leaf(&["hooks.test"]), Some(&ours), Some(other.as_str()), Some("tls")),
            ("only the web's", leaf(&["hooks.test"]), Some(&ours), None, Some("tls")),
            ("wrong name", leaf(&["elsewhere.test"]), Some(&ours), Some(pem.as_str()), Some("tls")),
            ("expired", expired, Some(&ours), Some(pem.as_str()), Some("tls")),
            ("self-signed", leaf(&["hooks.test"]), None, Some(pem.as_str()), Some("tls")),
        ];
        for (name, params, issuer, authorities, error) in cases {
            let receiver = Receiver::secure(server(params, issuer), |_, _| Script::status(200)).await;
            let url = format!("https://hooks.test:{}/hook", receiver.port());
            let attempt = attempt(app, &name.replace([' ', '\''], "-"), &url, authorities).await;
            assert_eq!(attempt["error"].as_str(), error, "{name}: {attempt}");
            assert_eq!(attempt["remote_ip"], "127.0.0.1", "{name}");
            assert_eq!(receiver.connections(), 1, "{name}");
            // An untrusted receiver gets no part of the event.
            assert_eq!(receiver.is_quiet().await, error.is_some(), "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn tls_and_plain_http_are_not_confused() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let ours = authority();
        let secure = Receiver::secure(server(leaf(&["127.0.0.1"]), Some(&ours)), |_, _| Script::status(200)).await;
        let plain_to_tls = attempt(app, "plain-to-tls", &secure.url(), None).await;
        assert!(matches!(plain_to_tls["error"].as_str(), Some("protocol" | "reset")), "{plain_to_tls}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plain = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            stream
        });
        let tls_to_plain = attempt(app, "tls-to-plain", &format!("https://{address}/hook"), Some(&ours.pem())).await;
        assert_eq!(tls_to_plain["error"], "tls", "{tls_to_plain}");
        drop(plain.await);
    })
    .await;
}
