//! Transport failures, for every kind: nothing listens, no response, an untrusted certificate. Also the verification of a provider
//! without machines.

use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{
    super::{azure::Azure, digitalocean::DigitalOcean, gcp::Gcp, hetzner::Hetzner, openstack::OpenStack, proxmox::Proxmox, verify},
    certificates::{leaf, server},
    receiver::{Receiver, answer_all, read_request},
    *,
};
use crate::model::{Outcome, Warning};

/// The time limit for a server that never responds.
const SHORT: Duration = Duration::from_millis(300);
const VERSION: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 29\r\n\r\n{\"data\":{\"version\":\"9.0.1\"}} ";

/// Every kind that calls out, with a valid credential, and with `url` as all of its addresses.
fn kinds(url: &str) -> Vec<(Box<dyn Adapter>, ProviderConfig, Credential)> {
    let config = ProviderConfig { endpoint: Some(url.to_owned()), ..ProviderConfig::default() };
    let with_login = ProviderConfig { auth_url: Some(url.to_owned()), ..config.clone() };
    let account = json!({"client_email": "a@b", "project_id": "lab-1", "private_key": include_str!("gcp_account_key.pem"),
        "token_uri": format!("{url}/token")});
    let principal = json!({"tenant_id": "t", "client_id": "c", "client_secret": "secret", "subscription_id": "s"});
    let application = json!({"application_credential_id": "i", "application_credential_secret": "secret"});
    let token = json!({"api_token": "secret"});
    vec![
        (Box::new(Azure::new()), with_login.clone(), credential(ProviderKind::Azure, principal)),
        (Box::new(DigitalOcean), config.clone(), credential(ProviderKind::Digitalocean, token.clone())),
        (Box::new(Gcp::new()), config.clone(), credential(ProviderKind::Gcp, json!({"service_account_json": account.to_string()}))),
        (Box::new(Hetzner), config.clone(), credential(ProviderKind::Hetzner, token)),
        (Box::new(OpenStack::new()), with_login, credential(ProviderKind::Openstack, application)),
        (Box::new(Proxmox), config, credential(ProviderKind::Proxmox, json!({"token_id": "u@pve!t", "token_secret": "secret"}))),
    ]
}

/// The failure class of the authentication for each kind, run concurrently because some kinds retry.
async fn outcomes(url: &str, time: Duration) -> Vec<FailureClass> {
    let attempts = kinds(url).into_iter().map(|(adapter, config, credential)| async move {
        let access = access_for(config, credential, Clock::movable(now()), time);
        adapter.authenticate(&access).await.unwrap_err().class
    });
    futures_util::future::join_all(attempts).await
}

#[tokio::test]
async fn a_missing_provider_is_unreachable() {
    let url = {
        let receiver = Receiver::answering(b"").await;
        format!("http://{}", receiver.address)
    };
    tokio::task::yield_now().await;
    assert_eq!(outcomes(&url, AMPLE).await, [FailureClass::Unreachable; 6]);
}

#[tokio::test]
async fn a_silent_provider_is_a_timeout() {
    let receiver = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    assert_eq!(outcomes(&format!("http://{}", receiver.address), SHORT).await, [FailureClass::Timeout; 6]);
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    let acceptor = TlsAcceptor::from(server(leaf(&["127.0.0.1"]), None));
    let receiver = Receiver::start(move |stream: TcpStream, _| {
        let acceptor = acceptor.clone();
        async move { drop(acceptor.accept(stream).await) }
    })
    .await;
    assert_eq!(outcomes(&format!("https://{}", receiver.address), AMPLE).await, [FailureClass::TlsError; 6]);
}

#[tokio::test]
async fn a_certificate_with_the_pinned_fingerprint_is_trusted() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = leaf(&["elsewhere.example"]).self_signed(&key).unwrap();
    let fingerprint = tenantd_base::secrets::digest(certificate.der());
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let builder = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = builder.with_single_cert(vec![certificate.der().clone()], key.into()).unwrap();
    let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
    let receiver = Receiver::start(move |stream: TcpStream, _| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer_all(stream, VERSION).await;
            }
        }
    })
    .await;
    let credential = || credential(ProviderKind::Proxmox, json!({"token_id": "u@pve!t", "token_secret": "secret"}));
    let endpoint = Some(format!("https://{}", receiver.address));
    let pinned = |tls_fingerprint| {
        access(ProviderConfig { endpoint: endpoint.clone(), tls_fingerprint, ..ProviderConfig::default() }, credential())
    };
    assert_eq!(Proxmox.authenticate(&pinned(Some(fingerprint))).await.unwrap().0, "u@pve!t on Proxmox VE 9.0.1");
    assert_eq!(Proxmox.authenticate(&pinned(Some([7; 32]))).await.unwrap_err().class, FailureClass::TlsError);
    assert_eq!(Proxmox.authenticate(&pinned(None)).await.unwrap_err().class, FailureClass::TlsError);
}

#[tokio::test]
async fn an_empty_fleet_is_valid_with_a_warning() {
    let bearer = |step: Step| step.bearer("secret");
    let empty = json!({"servers": [], "meta": {"pagination": {"next_page": null}}});
    let provider = Provider::start(|_| {
        vec![
            bearer(Step::get("/v1/locations?per_page=1")).answer(200, json!({"locations": []})),
            bearer(Step::get("/v1/servers?page=1&per_page=50")).answer(200, empty),
            bearer(Step::post("/v1/servers"))
                .json(json!({}))
                .answer(403, json!({"error": {"code": "token_readonly", "message": "no"}})),
        ]
    })
    .await;
    let config = ProviderConfig { endpoint: Some(provider.url()), ..ProviderConfig::default() };
    let access = access(config, credential(ProviderKind::Hetzner, json!({"api_token": "secret"})));
    let verification = verify(&Hetzner, &access, AMPLE).await;
    assert_eq!((verification.outcome, verification.warnings), (Outcome::ValidLimited, vec![Warning::EmptyInventory]));
    assert!(verification.capabilities.read && !verification.capabilities.provision);
}

#[tokio::test]
async fn a_credential_of_another_kind_is_refused_before_anything_is_sent() {
    let provider = Provider::start(|_| Vec::new()).await;
    let url = provider.url();
    let credentials: Vec<Credential> = kinds(&url).into_iter().map(|(_, _, credential)| credential).collect();
    for (place, (adapter, config, _)) in kinds(&url).into_iter().enumerate() {
        // Every kind gets the credential of Azure, and Azure the one of Proxmox.
        let strange = if place == 0 { credentials[5].clone() } else { credentials[0].clone() };
        let failure = adapter.authenticate(&access(config, strange)).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::InvalidCredentials, "wrong_type"));
    }
}
