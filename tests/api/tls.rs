//! TLS: the generated certificate of the first start, HTTP/1.1 and HTTP/2, and a new certificate without a restart.

use serde_json::json;

use crate::harness::{Actor, Reply, Setup, with_setup};

fn tls() -> Setup {
    Setup::default().with("listen.tls", true).with("rate_limits.enabled", false)
}

#[tokio::test]
async fn the_first_start_creates_a_pinnable_certificate() {
    with_setup(tls(), async |app| {
        let reply = app.anonymous().get("/healthz").send().await;
        reply.ok(200);
        assert_eq!(reply.version, reqwest::Version::HTTP_2);
        assert!(reply.header("strict-transport-security").starts_with("max-age="));
        let acme = app.tenant("acme").await;
        let (key, _) = acme.new_key("k", &["*"]).await;
        key.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn the_session_cookie_is_bound_to_host_and_tls() {
    with_setup(tls(), async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let session = admin.get("/api/auth/session").send().await;
        session.ok(200);
        let body = json!({"email": "admin@acme.example", "password": crate::harness::PASSWORD});
        let login = app.anonymous().post("/api/auth/login").json(body).send().await;
        let cookie = login.header("set-cookie");
        assert!(cookie.starts_with("__Host-tenantd_session=") && cookie.contains("; Secure"), "{cookie}");
        let token = cookie.split(';').next().unwrap().split_once('=').unwrap().1.to_owned();
        let plain = app.anonymous().with("cookie", &format!("tenantd_session={token}"));
        assert_eq!(plain.get("/api/auth/session").send().await.problem(401), "missing_credentials");
    })
    .await;
}

#[tokio::test]
async fn renewed_certificates_are_loaded_and_broken_ones_ignored() {
    with_setup(tls(), async |app| {
        let files = [app.data_directory().join("tls/certificate.pem"), app.data_directory().join("tls/private-key.pem")];
        let old: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
        std::fs::write(&files[0], "not a certificate").unwrap();
        assert!(app.reload(&tls()).unwrap_err().contains("certificate.pem"));
        app.anonymous().get("/healthz").send().await.ok(200);

        let key = rcgen::KeyPair::generate().unwrap();
        let renewed = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(&files[0], renewed.pem()).unwrap();
        std::fs::write(&files[1], key.serialize_pem()).unwrap();
        app.reload(&tls()).unwrap();
        let pinned = |pem: &[u8]| {
            let root = reqwest::Certificate::from_pem(pem).unwrap();
            reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap()
        };
        let url = format!("{}/healthz", app.base_url());
        assert!(pinned(renewed.pem().as_bytes()).get(&url).send().await.unwrap().status().is_success());
        assert!(pinned(&old[0]).get(&url).send().await.is_err(), "a new connection gets the new certificate");
        app.anonymous().get("/healthz").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn plain_http_redirects_pages_and_refuses_the_api() {
    with_setup(tls().with("listen.redirect_address", "127.0.0.1:0"), async |app| {
        let addresses = app.running().addresses;
        let client =
            reqwest::Client::builder().no_proxy().tls_certs_only([]).redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let actor = Actor::new(client, format!("http://{}", addresses.redirect.unwrap()));
        let guarded = |reply: &Reply| {
            assert_eq!(reply.header("x-content-type-options"), "nosniff");
            assert!(reply.header("content-security-policy").contains("frame-ancestors 'none'"));
            assert_eq!((reply.header("referrer-policy"), reply.header("strict-transport-security")), ("no-referrer", ""));
            assert!(reply.header("x-request-id").starts_with("req_"));
        };
        let page = actor.get("/sign-in?return_to=/status/").send().await;
        let target = format!("https://127.0.0.1:{}/sign-in?return_to=/status/", addresses.api.port());
        assert_eq!((page.status, page.header("location")), (308, target.as_str()));
        guarded(&page);
        let acme = app.tenant("acme").await;
        let (_, record) = acme.new_key("k", &["*"]).await;
        let program = actor.bearer(record["key"].as_str().unwrap());
        let paths = ["/api/events?after=5", "/api/auth/sso/callback", "/internal/ingest", "/metrics", "/healthz", "/readyz"];
        for path in paths {
            for call in [program.get(path), program.post(path).json(json!({}))] {
                let refused = call.header("accept", "text/html").send().await;
                assert_eq!(refused.problem(403), "https_required", "{path}");
                assert_eq!(refused.header("location"), "", "{path}");
                guarded(&refused);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_authority_admits_only_its_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let authority_file = directory.path().join("authority.pem");
    std::fs::write(&authority_file, authority_certificate.pem()).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    with_setup(tls().with("tls.client_ca_file", authority_file.display()), async |app| {
        let server = std::fs::read(app.data_directory().join("tls/certificate.pem")).unwrap();
        let url = format!("{}/healthz", app.base_url());
        let client = |identity: Option<String>| {
            let root = reqwest::Certificate::from_pem(&server).unwrap();
            let mut builder = reqwest::Client::builder().no_proxy().tls_certs_only([root]);
            if let Some(pem) = identity {
                builder = builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
            }
            builder.build().unwrap()
        };
        let certified = |issuer: Option<&rcgen::Issuer<'_, rcgen::KeyPair>>| {
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(vec!["automation.example".to_owned()]).unwrap();
            let certificate = match issuer {
                Some(issuer) => params.signed_by(&key, issuer).unwrap(),
                None => params.self_signed(&key).unwrap(),
            };
            format!("{}{}", key.serialize_pem(), certificate.pem())
        };
        assert!(client(Some(certified(Some(&issuer)))).get(&url).send().await.unwrap().status().is_success());
        assert!(client(None).get(&url).send().await.is_err(), "without a certificate");
        assert!(client(Some(certified(None))).get(&url).send().await.is_err(), "with a certificate of its own making");
    })
    .await;
}
