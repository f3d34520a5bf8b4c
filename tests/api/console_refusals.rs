//! What the console does with forms that come twice or too late, and with lists whose query the API refuses.

use serde_json::json;

use tenantd_console::Desk;

use crate::{
    console::{and, browser, hidden, send, tokens},
    console_office::{Office, with_office},
    harness::{Actor, Reply},
    key_owners::person,
    workflows::PATH,
};

/// The deletions with their lists. `{organization}` is the organization of the office.
const DELETIONS: [(&str, &str); 7] = [
    ("/webhooks/{id}/delete", "/webhooks"),
    ("/settings/secrets/{id}/delete", "/settings/secrets"),
    ("/settings/identity-providers/{id}/delete", "/settings/identity-providers"),
    ("/settings/users/{id}/delete", "/settings/users"),
    ("/workflows/{id}/delete", "/workflows"),
    ("/devices/{id}/delete", "/devices"),
    ("/contacts/{id}/delete", "/organizations/{organization}"),
];

/// The fields of the form of a deletion, as the page has them.
fn deletion(page: &Reply, more: &[(&str, &str)]) -> Vec<(String, String)> {
    assert_eq!(page.status, 200, "{}", page.text);
    let fields = and(&tokens(page), &[("version", hidden(page, "version")), ("list", hidden(page, "list"))]);
    and(&fields, more)
}

async fn send_twice(actor: &Actor, path: &str, fields: &[(String, String)]) -> (Reply, Reply) {
    (send(actor, path, fields).await, send(actor, path, fields).await)
}

#[tokio::test]
async fn a_deletion_that_is_sent_twice_leads_to_the_list() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let other = app.tenant("beta").await.admin().await;
        let foreign = tokens(&browser(&other).get("/profile").send().await);
        for (path, list) in DELETIONS {
            let route = Desk::routes().find(|route| route.path == path).unwrap_or_else(|| panic!("no route {path}"));
            let (path, list) = (office.path(route), list.replace("{organization}", &office.organization));
            let page = browser(&office.admin).get(&path).send().await;
            let fields = deletion(&page, &[("cancel_runs", "true")]);
            let with_list = and(&foreign, &[("list", &list)]);
            let strange = send(&other, &path, &with_list).await;
            assert!(strange.status == 303 && strange.header("location").contains("already_deleted"), "{path}: {}", strange.text);
            let (first, again) = send_twice(&office.admin, &path, &fields).await;
            assert_eq!(first.status, 303, "{path}: {}", first.text);
            assert_eq!(
                (again.status, again.header("location")),
                (303, format!("{list}?notice=already_deleted").as_str()),
                "{path}"
            );
            let shown = browser(&office.admin).get(again.header("location")).send().await;
            assert_eq!(shown.status, 200, "{path}: {}", shown.text);
            assert!(shown.text.contains("It was already deleted."), "{path}");
            let without = send(&office.admin, &path, &tokens(&page)).await;
            let is_archived = path.starts_with("/workflows/");
            assert_eq!(without.status, if is_archived { 303 } else { 404 }, "{path}: a form without its list: {}", without.text);
        }
        for evil in ["https://evil.example/", "//evil.example", "/\\evil.example"] {
            let page = tokens(&browser(&office.admin).get("/profile").send().await);
            let fields = and(&page, &[("list", evil)]);
            let refused = send(&office.admin, "/devices/dev_01k9z7w3v5e8g9m2n4p6r8t0x1/delete", &fields).await;
            assert_eq!(refused.status, 404, "{evil}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_tenant_and_a_key_that_are_deleted_twice_are_deleted_once() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let operator = app.operator().await;
        let find = |path: &str| Desk::routes().find(|route| route.path == path).unwrap();
        let revoke = office.path(find("/settings/keys/{id}/revoke"));
        let page = browser(&office.admin).get(&revoke).send().await;
        let fields = and(&tokens(&page), &[("version", hidden(&page, "version"))]);
        let (first, again) = send_twice(&office.admin, &revoke, &fields).await;
        assert_eq!((first.status, again.status, first.header("location")), (303, 303, again.header("location")), "{}", again.text);
        let delete = office.path(find("/operator/tenants/{id}/delete"));
        let page = browser(&operator).get(&delete).send().await;
        let (first, again) = send_twice(&operator, &delete, &deletion(&page, &[("confirm", "acme")])).await;
        assert_eq!((first.status, again.status), (303, 303), "{}", again.text);
        assert!(again.header("location").starts_with("/operator/tenants"), "{}", again.header("location"));
    })
    .await;
}

#[tokio::test]
async fn a_list_with_a_wrong_query_is_shown_with_what_is_wrong() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let operator = app.operator().await;
        let mut refused = 0;
        for route in Desk::routes().filter(|route| route.is_shown()) {
            let path = office.path(route);
            let actor = browser(if route.path.starts_with("/operator") { &operator } else { &office.admin });
            let right = actor.get(&path).send().await;
            let heading =
                |page: &Reply| page.text.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next().map(str::to_owned));
            for wrong in ["limit=0", "cursor=nonsense", "status=zz<b>", "sort=zz", "zz_unknown=1"] {
                let page = actor.get(&format!("{path}?{wrong}")).send().await;
                if page.status == 200 {
                    continue;
                }
                assert_eq!(page.status, 422, "{path}?{wrong}: {}", page.text);
                assert_eq!(heading(&page), heading(&right), "{path}?{wrong} is an error page");
                assert!(page.text.contains("role=\"alert\"") && !page.text.contains("zz<b>"), "{path}?{wrong}: {}", page.text);
                refused += 1;
            }
        }
        assert!(refused > 40, "only {refused} queries were refused");
        let part = browser(&office.admin).get("/live?types=no.such.kind").send().await;
        assert!(matches!(part.status, 400 | 422) && part.header("content-type") != "text/event-stream", "{}", part.text);
        let page = browser(&office.admin).get("/organizations?name=Acme&limit=900").send().await;
        assert_eq!(page.status, 422, "{}", page.text);
        assert!(page.text.contains("value=\"Acme\"") && page.text.contains("<code>limit</code>"), "{}", page.text);
    })
    .await;
}

#[tokio::test]
async fn a_late_approval_keeps_its_comment_on_the_page() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let ((ada, _), (bo, _)) =
            (person(app, &office.admin, "dora", "admin").await, person(app, &office.admin, "bo", "admin").await);
        let runs = format!("{PATH}?view=runs&limit=10");
        let run = office.admin.get(&runs).send().await.ok(200)["data"][0]["id"].as_str().unwrap().to_owned();
        let reading =
            async { while office.admin.get(&format!("{PATH}/runs/{run}")).send().await.ok(200)["waiting_on"] != "approval" {} };
        tokio::time::timeout(std::time::Duration::from_secs(30), reading).await.unwrap();
        let path = format!("/workflows/runs/{run}");
        let decide = async |actor: &Actor, page: &Reply, comment: &str| {
            let fields = [("version", hidden(page, "version")), ("step", "ask"), ("action", "approve"), ("comment", comment)];
            send(actor, &format!("{path}/decisions"), &and(&tokens(page), &fields)).await
        };
        let (of_ada, of_bo) = (browser(&ada).get(&path).send().await, browser(&bo).get(&path).send().await);
        let first = decide(&ada, &of_ada, "Fine.").await;
        assert_eq!(first.status, 303, "{}", first.text);
        assert_eq!(decide(&ada, &of_ada, "Fine.").await.status, 303, "the same form again");
        let late = decide(&bo, &of_bo, "Wait <b>for me").await;
        assert!(matches!(late.status, 409 | 412), "{}", late.text);
        assert!(late.text.contains("approved the step ask on") && late.text.contains("was not recorded"), "{}", late.text);
        assert!(late.text.contains("Wait &lt;b&gt;for me</textarea>"), "{}", late.text);
        let other_words = decide(&ada, &of_ada, "And one more thing").await;
        assert!(other_words.text.contains("And one more thing</textarea>"), "{} {}", other_words.status, other_words.text);
    })
    .await;
}

#[tokio::test]
async fn a_replay_by_time_shows_its_limits() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let find = |path: &str| office.path(Desk::routes().find(|route| route.path == path).unwrap());
        let form = browser(&office.admin).get(&find("/webhooks/{id}/replay")).send().await;
        assert!(form.text.contains("at most four replays") && form.text.contains("The oldest event"), "{}", form.text);
        let fields = and(&tokens(&form), &[("only", "all"), ("since", "2026-01-01T00:00"), ("until", "2027-01-31T12:30")]);
        let started = send(&office.admin, &find("/webhooks/{id}/replay"), &fields).await;
        assert_eq!(started.status, 303, "{}", started.text);
        let page = browser(&office.admin).get(started.header("location")).send().await;
        assert!(page.text.contains(">1 Jan 2026, 00:00<") && page.text.contains(">31 Jan 2027, 12:30<"), "{}", page.text);
        let api = started.header("location").replace("/webhooks/", "/api/admin/webhooks/");
        let replay = office.admin.get(&api).send().await.ok(200).clone();
        assert_eq!((&replay["since"], &replay["until"]), (&json!("2026-01-01T00:00:00.000Z"), &json!("2027-01-31T12:30:00.000Z")));
        let events = replay["to_seq"].as_u64().unwrap() + 1 - replay["from_seq"].as_u64().unwrap();
        assert!(page.text.contains(&format!("{events} events")), "{}", page.text);
    })
    .await;
}

#[tokio::test]
async fn texts_that_nobody_sees_are_refused() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let organization = office.organization.as_str();
        for blank in ["\u{200b}\u{2060}", "\u{3164}", "\u{2800} \u{ad}", "\u{e0041}\u{e0042}"] {
            for (path, place, body) in [
                ("/api/directory/organizations", "/name", json!({"name": blank})),
                ("/api/directory/contacts", "/name", json!({"name": blank, "organization_id": organization})),
                ("/api/directory/devices", "/name", json!({"name": blank, "organization_id": organization})),
                ("/api/psa/tickets", "/subject", json!({"subject": blank, "organization_id": organization})),
                ("/api/admin/api-keys", "/name", json!({"name": blank, "scopes": ["tickets:read"]})),
                ("/api/admin/webhooks", "/name", json!({"name": blank, "url": "https://a.example", "events": ["*"]})),
                ("/api/admin/users", "/name", json!({"name": blank, "email": "b@b.example", "role": "viewer"})),
            ] {
                let refused = office.admin.post(path).json(body).send().await;
                assert_eq!(refused.problem(422), "validation_failed", "{path}");
                assert!(
                    refused.field_errors().iter().any(|(at, code)| at == place && code == "wrong_form"),
                    "{path}: {}",
                    refused.text
                );
                assert!(refused.text.contains("must not be blank"), "{path}: {}", refused.text);
            }
        }
        let family = json!({"name": "\u{1f468}\u{200d}\u{1f469} Meyer\u{ad}hof"});
        office.admin.post("/api/directory/organizations").json(family).send().await.ok(201);
    })
    .await;
}
