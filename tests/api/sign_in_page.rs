//! The sign-in pages in a browser without scripts.

use serde_json::json;

use crate::{
    harness::{Actor, PASSWORD, Reply, TestApp, with_app},
    sso::{Scene, ada, session},
};

fn browser(app: &TestApp) -> Actor {
    app.anonymous().with("accept", "text/html").with("sec-fetch-site", "same-origin")
}

async fn submit(actor: &Actor, path: &str, fields: &[(&str, &str)]) -> Reply {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    actor.post(path).text("application/x-www-form-urlencoded", body).send().await
}

#[tokio::test]
async fn an_address_redirects_to_its_identity_provider() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let page = browser(app).get("/sign-in?return_to=/status/").send().await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
        let policy = page.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'")
                && policy.contains("form-action 'self'")
                && policy.contains("frame-ancestors 'none'")
        );
        assert!(page.text.contains("<label for=\"email\">") && page.text.contains("name=\"return_to\" value=\"/status/\""));
        assert!(policy.contains("script-src 'self'") && page.header("cache-control") == "no-store");
        assert!(page.text.matches("<script").count() == 1 && page.text.contains("<script src=\"/assets/"), "{}", page.text);
        assert!(!page.text.contains("type=\"password\""));
        let on = submit(&browser(app), "/sign-in", &[("email", "ada@acme.example"), ("return_to", "/status/")]).await;
        assert_eq!(on.status, 200, "a form is not redirected to another host: {}", on.text);
        let link = on.text.split("<a href=\"").find(|part| part.contains("/authorize?")).unwrap().split('"').next().unwrap();
        let url = link.replace("&amp;", "&");
        assert_eq!(on.header("refresh"), format!("0;url={url}"));
        assert!(url.contains("login_hint=ada%40acme.example"));
        let cookie = on.header("set-cookie").split(';').next().unwrap();
        let back = browser(app).with("cookie", cookie).get(&scene.provider.authorize(&url, ada())).send().await;
        assert_eq!((back.status, back.header("location")), (303, "/status/"), "{}", back.text);
        let signed_in = browser(app).with("cookie", &session(&back).unwrap());
        for (page, target) in [("/sign-in?return_to=/status/", "/status/"), ("/sign-in", "/")] {
            let on = signed_in.get(page).send().await;
            assert_eq!((on.status, on.header("location")), (303, target), "{}", on.text);
        }
        let evil = signed_in.get("/sign-in?return_to=//evil.example").send().await;
        assert_eq!((evil.status, evil.text.contains("evil")), (422, false), "{}", evil.text);
        // Somebody who is signed in confirms who they are.
        let asked = signed_in.get("/sign-in?fresh=true&return_to=/settings").send().await;
        assert!(asked.status == 200 && asked.text.contains("Confirm that it is you"), "{}", asked.text);
        let on = submit(&signed_in, "/sign-in", &[("fresh", "true"), ("return_to", "/settings")]).await;
        assert!(on.status == 200 && on.header("refresh").contains("prompt=login"), "{}", on.text);
        // A tenant that is named offers its providers.
        let offered = browser(app).get("/sign-in?tenant=acme").send().await;
        assert!(offered.text.contains("Continue to Acme") && !offered.text.contains("acme.example"), "{}", offered.text);
        let id = scene.record["id"].as_str().unwrap();
        let on = submit(&browser(app), "/sign-in", &[("tenant", "acme"), ("provider", id)]).await;
        assert!(on.status == 200 && on.header("refresh").contains("/authorize?"), "{}", on.text);
        let none = submit(&browser(app), "/sign-in", &[("tenant", "nobody"), ("provider", id)]).await;
        assert_eq!((none.status, none.text.contains("role=\"alert\"")), (422, true), "{}", none.text);
        let out = submit(&signed_in, "/sign-out", &[]).await;
        assert_eq!(out.status, 200, "{}", out.text);
        assert!(out.text.contains("Sign out of Acme") && out.text.contains("/end-session?client_id="), "{}", out.text);
        assert_eq!(out.header("clear-site-data"), "\"cache\", \"storage\"");
        assert_eq!(signed_in.get("/api/auth/session").send().await.problem(401), "session_expired");
    })
    .await;
}

#[tokio::test]
async fn an_address_without_a_provider_asks_for_the_password() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        acme.admin().await;
        let page = submit(&browser(app), "/sign-in", &[("email", "admin@acme.example"), ("return_to", "/status/")]).await;
        assert!(page.text.contains("type=\"password\"") && page.text.contains("value=\"admin@acme.example\""), "{}", page.text);
        let fields = |password| [("email", "admin@acme.example"), ("password", password), ("return_to", "/status/")];
        let wrong = submit(&browser(app), "/sign-in", &fields("wrong wrong wrong")).await;
        assert_eq!((wrong.status, session(&wrong)), (401, None));
        assert!(wrong.text.contains("role=\"alert\"") && wrong.text.contains("aria-describedby=\"problem\""), "{}", wrong.text);
        assert!(!wrong.text.contains("wrong wrong wrong"));
        let right = submit(&browser(app), "/sign-in", &fields(PASSWORD)).await;
        assert_eq!((right.status, right.header("location")), (303, "/status/"));
        let me = app.anonymous().with("cookie", &session(&right).unwrap()).get("/api/auth/session").send().await;
        assert_eq!(me.ok(200)["email"], "admin@acme.example");
        let elsewhere = [("email", "admin@acme.example"), ("password", PASSWORD), ("return_to", "//evil.example")];
        assert_eq!(submit(&browser(app), "/sign-in", &elsewhere).await.status, 422);
        let before = session(&right).unwrap();
        let home = submit(&browser(app).with("cookie", &before), "/sign-in", &elsewhere[..2]).await;
        assert_eq!(home.header("location"), "/");
        let before = app.anonymous().with("cookie", &before).get("/api/auth/session").send().await;
        assert_eq!(before.problem(401), "session_expired", "one browser has one session");
        let nonsense = submit(&browser(app), "/sign-in", &[("email", "<b>nobody\"")]).await;
        assert_eq!(nonsense.status, 422);
        assert!(
            nonsense.text.contains("value=\"&lt;b&gt;nobody&quot;\"") && nonsense.text.contains("role=\"alert\""),
            "{}",
            nonsense.text
        );
        let unknown = submit(&browser(app), "/sign-in", &[("email", "a@b.example"), ("mail", "x")]).await;
        assert_eq!((unknown.status, unknown.header("content-type")), (422, "text/html; charset=utf-8"));
    })
    .await;
}

#[tokio::test]
async fn cross_site_sign_in_and_sign_out_are_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let site = app.anonymous().with("accept", "text/html").with("sec-fetch-site", "cross-site");
        let fields = [("email", "admin@acme.example"), ("password", PASSWORD)];
        for path in ["/sign-in", "/set-password"] {
            let fields: &[(&str, &str)] = if path == "/sign-in" { &fields } else { &[("token", "x"), ("password", PASSWORD)] };
            let forged = submit(&site, path, fields).await;
            assert_eq!((forged.status, session(&forged)), (403, None), "{path}");
        }
        let out = admin.clone().with("origin", "https://evil.example");
        assert_eq!(out.post("/sign-out").send().await.problem(403), "csrf_failed");
        admin.get("/api/auth/session").send().await.ok(200);
        let json = app.anonymous().post("/sign-in").json(json!({"email": "admin@acme.example", "password": PASSWORD}));
        assert_eq!(json.send().await.problem(415), "unsupported_media_type");
    })
    .await;
}

#[tokio::test]
async fn a_link_sets_a_password_once() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let body = json!({"email": "ada@acme.example", "name": "Ada", "role": "viewer"});
        let link = admin.post("/api/admin/users").json(body).send().await.ok(201)["password_link"].as_str().unwrap().to_owned();
        let path = link.strip_prefix(app.base_url()).unwrap();
        let token = path.split("token=").nth(1).unwrap();
        let page = browser(app).get(path).send().await;
        assert!(page.text.contains(&format!("name=\"token\" value=\"{token}\"")) && page.text.contains("new-password"));
        let short = submit(&browser(app), "/set-password", &[("token", token), ("password", "short")]).await;
        assert_eq!(short.status, 422);
        assert!(short.text.contains("at least 12 characters") && short.text.contains("role=\"alert\""), "{}", short.text);
        let set = submit(&browser(app), "/set-password", &[("token", token), ("password", PASSWORD)]).await;
        assert_eq!((set.status, set.header("location")), (303, "/sign-in?password=true"), "{}", set.text);
        app.sign_in("ada@acme.example").await;
        let again = submit(&browser(app), "/set-password", &[("token", token), ("password", PASSWORD)]).await;
        for unusable in [again, browser(app).get(path).send().await, browser(app).get("/set-password").send().await] {
            assert_eq!(unusable.status, 401);
            assert!(unusable.text.contains("Ask an administrator") && !unusable.text.contains("<form"), "{}", unusable.text);
        }
    })
    .await;
}

#[tokio::test]
async fn a_sign_in_link_works_once_and_only_where_a_person_opens_it() {
    with_app(async |app| {
        // Something that looks at the link, such as a preview, must not use it up. It gets a form.
        let shown = app.anonymous().get("/sign-in?link=abc").send().await;
        assert_eq!((shown.status, session(&shown), shown.header("cache-control")), (200, None, "no-store"));
        assert!(shown.text.contains("<input type=\"hidden\" name=\"link\" value=\"abc\">"), "{}", shown.text);
        let site = app.anonymous().with("sec-fetch-site", "cross-site").with("sec-fetch-mode", "navigate");
        assert_eq!(site.get("/sign-in?link=abc").send().await.status, 200, "another site cannot sign a browser in");
        assert_eq!(submit(&site, "/sign-in", &[("link", "abc")]).await.status, 403);
        let person = app.anonymous().with("sec-fetch-site", "none").with("sec-fetch-mode", "navigate");
        for refused in [person.get("/sign-in?link=abc").send().await, submit(&browser(app), "/sign-in", &[("link", "abc")]).await] {
            assert_eq!((refused.status, session(&refused)), (401, None));
            assert!(refused.text.contains("role=\"alert\"") && refused.text.contains("type=\"password\""), "{}", refused.text);
        }
    })
    .await;
}

#[tokio::test]
async fn a_sign_out_without_a_session_removes_the_cookie() {
    with_app(async |app| {
        let out = submit(&browser(app).with("cookie", "tenantd_session=abc"), "/sign-out", &[]).await;
        assert_eq!((out.status, out.header("location")), (303, "/sign-in"), "{}", out.text);
        assert!(out.header("set-cookie").contains("Max-Age=0"), "{}", out.header("set-cookie"));
        assert_eq!(browser(app).get("/sign-out").send().await.status, 405);
    })
    .await;
}

#[tokio::test]
async fn a_password_of_two_tenants_offers_a_choice() {
    with_app(async |app| {
        for slug in ["acme", "beta"] {
            let path = format!("/internal/admin/tenants/{}/users", app.tenant(slug).await.id);
            let body = json!({"email": "ada@people.example", "name": "Ada", "role": "admin", "password": PASSWORD});
            app.local().post(&path).json(body).send().await.ok(201);
        }
        let fields = [("email", "ada@people.example"), ("password", PASSWORD)];
        let page = submit(&browser(app), "/sign-in", &fields).await;
        assert_eq!((page.status, session(&page)), (409, None));
        assert!(page.text.contains("<select id=\"tenant\"") && page.text.contains(">beta (beta)</option>"), "{}", page.text);
        assert!(!page.text.contains(PASSWORD), "{}", page.text);
        let wrong = submit(&browser(app), "/sign-in", &[("email", "ada@people.example"), ("password", "wrong wrong wrong")]).await;
        assert!(wrong.status == 401 && !wrong.text.contains("beta"), "{}", wrong.text);
        let chosen = submit(&browser(app), "/sign-in", &[fields[0], fields[1], ("tenant", "beta")]).await;
        let me = app.anonymous().with("cookie", &session(&chosen).unwrap()).get("/api/auth/session").send().await;
        assert_eq!((chosen.status, &me.ok(200)["tenant"]["name"]), (303, &json!("beta")));
        // A link can contain the tenant.
        let page = browser(app).get("/sign-in?password=true&tenant=be%22ta").send().await;
        assert!(page.text.contains("<input type=\"hidden\" name=\"tenant\" value=\"be&quot;ta\">"), "{}", page.text);
    })
    .await;
}
