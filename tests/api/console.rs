//! The desk of the console: who reaches which page, that forms act only from a page of this site and only once, and what the pages show.

use std::time::Duration;

use serde_json::json;

use tenantd_console::Desk;

use crate::{
    console_office::{Office, with_office},
    harness::{Actor, Reply, Setup, with_setup},
};

/// Reads the pages of the desk as a browser does.
pub(crate) fn browser(actor: &Actor) -> Actor {
    actor.clone().with("accept", "text/html")
}

/// The value of a hidden field of a page.
pub(crate) fn hidden<'a>(page: &'a Reply, name: &str) -> &'a str {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.text.split(start.as_str()).nth(1).unwrap_or_else(|| panic!("no field {name} in {}", page.text));
    rest.split('"').next().unwrap()
}

/// The tokens of a form of a page.
pub(crate) fn tokens(page: &Reply) -> Vec<(String, String)> {
    ["form_token", "once"].map(|name| (name.to_owned(), hidden(page, name).to_owned())).to_vec()
}

pub(crate) async fn send(actor: &Actor, path: &str, fields: &[(String, String)]) -> Reply {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    actor.post(path).header("accept", "text/html").text("application/x-www-form-urlencoded", body).send().await
}

pub(crate) fn and(tokens: &[(String, String)], fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let more = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    tokens.iter().cloned().chain(more).collect()
}

#[tokio::test]
async fn every_page_refuses_strangers_and_people_without_its_scope() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let other = app.tenant("beta").await.admin().await;
        let viewer = office.tenant.user("viewer").await;
        let viewer_tokens = tokens(&browser(&viewer).get("/profile").send().await);
        let lacking = office.tenant.key(&["secrets:use"]).await;
        let operator = app.operator().await;
        for route in Desk::routes() {
            let path = office.path(route);
            let shared = ["/", "/settings", "/webhooks/events"].contains(&route.path) || route.path.starts_with("/profile");
            let is_operators = route.path.starts_with("/operator");
            if route.is_shown() {
                let stranger = browser(&app.anonymous()).get(&path).send().await;
                assert_eq!(stranger.status, 303, "{path}");
                assert!(stranger.header("location").starts_with("/sign-in"), "{path}: {}", stranger.header("location"));
                let without = browser(&lacking).get(&path).send().await;
                assert_eq!(without.status, if shared { 200 } else { 403 }, "{path}: {}", without.text);
                let own = browser(if is_operators { &operator } else { &office.admin }).get(&path).send().await;
                assert_eq!(own.status, 200, "{path}: {}", own.text);
                assert!(!own.text.contains("<b>jams"), "{path}: text of a record is markup");
                let foreign = browser(&other).get(&path).send().await;
                let is_record = route.path.contains("{id}");
                let expected = if is_operators {
                    403
                } else if is_record {
                    404
                } else {
                    200
                };
                assert_eq!(foreign.status, expected, "{path}: {}", foreign.text);
                assert!(!foreign.text.contains("QX7"), "{path} shows another tenant's record");
            }
            if route.takes_forms() {
                let stranger = send(&app.anonymous(), &path, &[]).await;
                assert_eq!(stranger.status, 401, "{path}");
                // A viewer may change only what is their own.
                let own = shared || route.path.contains("/views") || route.path == "/vms/refresh";
                let refused = send(&viewer, &path, &viewer_tokens).await;
                assert_eq!(refused.status == 403, !own, "{path}: {} {}", refused.status, refused.text);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn every_form_needs_the_token_of_its_own_session_and_this_site() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let other = app.tenant("beta").await.admin().await;
        let foreign = tokens(&browser(&other).get("/profile").send().await);
        let operator = app.operator().await;
        let both = [&office.admin, &operator].map(async |actor| tokens(&browser(actor).get("/profile").send().await));
        let [of_admin, of_operator] = futures_util::future::join_all(both).await.try_into().unwrap();
        for route in Desk::routes().filter(|route| route.takes_forms()) {
            let path = office.path(route);
            let is_operators = route.path.starts_with("/operator");
            let (actor, own) = if is_operators { (&operator, &of_operator) } else { (&office.admin, &of_admin) };
            for (fields, case) in [(Vec::new(), "no token"), (foreign.clone(), "the token of another session")] {
                let refused = send(actor, &path, &fields).await;
                assert_eq!(refused.status, 403, "{path} with {case}: {}", refused.text);
                assert!(refused.text.contains("csrf_failed"), "{path} with {case}");
            }
            for (name, value) in
                [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("origin", "https://evil.example")]
            {
                let refused = send(&actor.clone().with(name, value), &path, own).await;
                assert_eq!(refused.status, 403, "{path} with {name}: {value}");
            }
            let as_foreign = send(&other, &path, &foreign).await;
            assert!(
                !route.path.contains("{id}") || matches!(as_foreign.status, 403 | 404 | 422),
                "{path}: {} {}",
                as_foreign.status,
                as_foreign.text
            );
        }
        assert_eq!(office.admin.get("/api/psa/tickets?limit=10").send().await.ok(200)["data"].as_array().unwrap().len(), 1);
        // A key is no browser: it reads pages, and forms do not act for it.
        let key = app.tenant("gamma").await.key(&["tickets:read", "tickets:write"]).await;
        assert_eq!(browser(&key).get("/tickets").send().await.status, 200);
        assert_eq!(send(&key, "/tickets", &of_admin).await.status, 403);
    })
    .await;
}

#[tokio::test]
async fn a_viewer_sees_no_form_that_the_api_would_refuse() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let viewer = office.tenant.user("viewer").await;
        for route in Desk::routes().filter(|route| route.is_shown()) {
            let page = browser(&viewer).get(&office.path(route)).send().await;
            let forms = page.text.matches("method=\"post\"").count();
            let allowed = 1
                + page.text.matches("action=\"/profile").count()
                + ["tickets", "devices"]
                    .map(|area| page.text.matches(&format!("action=\"/{area}/views")).count())
                    .iter()
                    .sum::<usize>()
                + page.text.matches("action=\"/vms/refresh").count();
            if page.status == 200 && route.path != "/tickets" {
                assert!(forms <= allowed, "{} shows {forms} forms: {}", route.path, page.text);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn signing_in_leads_back_to_the_page_that_was_asked_for() {
    with_office(async |app| {
        let page = browser(&app.anonymous()).get("/tickets?status=open&q=a%20b").send().await;
        assert_eq!(page.header("location"), "/sign-in?return_to=%2Ftickets%3Fstatus%3Dopen%26q%3Da%2520b");
        let form = browser(&app.anonymous()).get(page.header("location")).send().await;
        assert!(form.text.contains("/tickets?status=open&amp;q=a%20b"), "{}", form.text);
        assert_eq!(browser(&app.anonymous()).get("/").send().await.header("location"), "/sign-in");
        let program = app.anonymous().bearer("tck_wrong").get("/tickets").send().await;
        assert_eq!(program.problem(401), "invalid_credentials", "a program that sends a key gets an error");
    })
    .await;
}

#[tokio::test]
async fn a_list_takes_the_parameters_of_the_api_and_changes_several_tickets_once() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let admin = browser(&office.admin);
        let page = admin.get("/tickets").send().await;
        assert!(page.text.contains("Printer &lt;b&gt;jams&lt;/b&gt;") && page.text.contains("1 ticket"), "{}", page.text);
        assert!(!admin.get("/tickets?priority=low").send().await.text.contains("Printer"));
        let wrong = admin.get("/tickets?priority=purple").send().await;
        assert_eq!(wrong.status, 422);
        assert!(wrong.text.contains("must be one of"), "{}", wrong.text);
        let id = office.ticket["id"].as_str().unwrap();
        let changed = send(&admin, "/tickets?priority=high", &and(&tokens(&page), &[("ids", id), ("priority", "low")])).await;
        assert_eq!((changed.status, changed.header("location")), (303, "/tickets?priority=high"));
        assert_eq!(office.admin.get(&format!("/api/psa/tickets/{id}")).send().await.ok(200)["priority"], "low");
        let none = send(&admin, "/tickets", &and(&tokens(&page), &[("priority", "low")])).await;
        assert_eq!(none.status, 422, "no ticket is chosen: {}", none.text);
    })
    .await;
}

#[tokio::test]
async fn an_open_page_hears_of_changes_in_its_own_tenant_and_misses_none() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let other = Office::new(app, "beta").await;
        let live = "/live?types=ticket.*";
        let first = browser(&office.admin).get(live).send().await;
        assert_eq!((first.status, first.header("content-type")), (200, "text/event-stream"));
        let last_seen = first.text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
        assert!(!first.text.contains("data:"), "{}", first.text);
        let (id, foreign) = (office.ticket["id"].as_str().unwrap(), other.ticket["id"].as_str().unwrap());
        for (actor, id) in [(&other.admin, foreign), (&office.admin, id)] {
            actor.patch(&format!("/api/psa/tickets/{id}")).json(json!({"priority": "low"})).send().await.ok(200);
        }
        let next = browser(&office.admin).get(live).header("last-event-id", &last_seen).send().await;
        assert!(next.text.contains(&format!("data: [\"{id}\"]\n\n")) && !next.text.contains(foreign), "{}", next.text);
        let lacking = office.tenant.key(&["events:read"]).await;
        assert_eq!(browser(&lacking).get(live).send().await.status, 403, "events of tickets need a scope of their own");
    })
    .await;
}

#[tokio::test]
async fn a_view_is_saved_where_it_is_used_and_deleted_again() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let admin = browser(&office.admin);
        for (list, query) in [("/tickets", "priority=high"), ("/devices", "class=server")] {
            let (at, views) = (format!("{list}?{query}"), format!("{list}/views?{query}"));
            let page = tokens(&admin.get(&at).send().await);
            let saved = send(&admin, &views, &and(&page, &[("name", "Mine <i>")])).await;
            assert_eq!((saved.status, saved.header("location")), (303, at.as_str()), "{}", saved.text);
            let page = admin.get(&at).send().await;
            assert!(page.text.contains("Saved: Mine &lt;i&gt;"), "{}", page.text);
            let again = send(&admin, &views, &and(&tokens(&page), &[("name", "mine <I>")])).await;
            assert_eq!(again.status, 409, "{}", again.text);
            assert!(again.text.contains("value=\"mine &lt;I&gt;\""), "{}", again.text);
            let delete = page.text.split(&format!("action=\"{list}/views/")).nth(1).unwrap().split(['"', '?']).next().unwrap();
            let deleted = send(&admin, &format!("{list}/views/{delete}?{query}"), &tokens(&page)).await;
            assert_eq!((deleted.status, deleted.header("location")), (303, at.as_str()), "{}", deleted.text);
            assert!(!admin.get(&at).send().await.text.contains("Saved: "));
        }
    })
    .await;
}

#[tokio::test]
async fn times_are_in_the_zone_of_the_profile_or_else_of_the_browser() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let with_cookie = |cookie: &str, zone: &str| browser(&office.admin).with("cookie", &format!("{cookie}={zone}"));
        let with_zone = |zone: &str| with_cookie("time_zone", zone);
        assert!(browser(&office.admin).get("/").send().await.text.contains(" · UTC"));
        assert!(with_zone("Asia/Tokyo").get("/").send().await.text.contains(" · Asia/Tokyo"));
        assert!(with_cookie("__Host-time_zone", "Asia/Tokyo").get("/").send().await.text.contains(" · Asia/Tokyo"));
        assert!(with_zone("../../etc/passwd").get("/").send().await.text.contains(" · UTC"));
        office.admin.patch("/api/auth/preferences").json(json!({"time_zone": "Europe/Berlin"})).send().await.ok(200);
        assert!(with_zone("Asia/Tokyo").get("/").send().await.text.contains(" · Europe/Berlin"));
    })
    .await;
}

#[tokio::test]
async fn searches_and_reports_of_pages_count_against_their_limits() {
    let limit = "{ credential = 2, tenant = 100 }";
    let setup = Setup::default().with("rate_limits.search", limit).with("rate_limits.report", limit);
    with_setup(setup, async |app| {
        let admin = browser(&app.tenant("acme").await.admin().await);
        for path in ["/search?q=printer", "/devices?group_by=os"] {
            assert_eq!([admin.get(path).send().await.status, admin.get(path).send().await.status], [200, 200], "{path}");
            let refused = admin.get(path).send().await;
            assert_eq!(refused.status, 429, "{path}: {}", refused.text);
            assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0, "{path}");
        }
    })
    .await;
}

/// The comments and the way to earlier ones on a page of a ticket.
fn conversation(page: &Reply) -> (Vec<usize>, Option<String>) {
    let numbers = page.text.split("Comment number ").skip(1).filter_map(|rest| rest.split('.').next()?.parse().ok()).collect();
    let earlier = page.text.split("rel=\"prev\"").next().filter(|_| page.text.contains("rel=\"prev\""));
    let way = earlier.and_then(|before| before.rsplit("href=\"").next()?.split('"').next().map(|way| way.replace("&amp;", "&")));
    (numbers, way)
}

#[tokio::test]
async fn a_long_conversation_has_pages_without_gap_or_repetition() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let api = format!("/api/psa/tickets/{}", office.ticket["id"].as_str().unwrap());
        for number in 1..=230 {
            let comment = json!({"body": format!("Comment number {number}."), "visibility": "internal"});
            office.admin.post(&format!("{api}/comments")).json(comment).send().await.ok(201);
            app.advance(Duration::from_secs(1));
            office.admin.patch(&api).json(json!({"queue": format!("q{number}")})).send().await.ok(200);
            app.advance(Duration::from_secs(1));
        }
        let admin = browser(&office.admin);
        let (mut found, mut changes, mut way) =
            (Vec::new(), 0, Some(format!("/tickets/{}", office.ticket["ref"].as_str().unwrap())));
        while let Some(path) = way {
            let page = admin.get(path.split('#').next().unwrap()).send().await;
            assert_eq!(page.status, 200, "{path}: {}", page.text);
            let (numbers, earlier) = conversation(&page);
            assert!(numbers.len() <= 100 && numbers.is_sorted(), "{path}: {numbers:?}");
            changes += page.text.matches("entry event").count();
            found.splice(0..0, numbers);
            way = earlier;
        }
        assert_eq!(found, (1..=230).collect::<Vec<_>>());
        assert_eq!(changes, 230);
    })
    .await;
}

#[tokio::test]
async fn a_form_for_a_ticket_that_is_sent_twice_leads_to_the_same_ticket() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let page = browser(&office.admin).get(&format!("/tickets/new?organization_id={}", office.organization)).send().await;
        let opened_at = hidden(&page, "opened_at");
        let fields = [
            ("organization_id", office.organization.as_str()),
            ("opened_at", opened_at),
            ("subject", "The scanner is offline"),
            ("type", "incident"),
            ("priority", "low"),
        ];
        let first = send(&office.admin, "/tickets/new", &and(&tokens(&page), &fields)).await;
        let again = send(&office.admin, "/tickets/new", &and(&tokens(&page), &fields)).await;
        assert_eq!((first.status, first.header("location")), (303, "/tickets/T-2"), "{}", first.text);
        assert_eq!((again.status, again.header("location")), (303, "/tickets/T-2"), "{}", again.text);
        app.advance(Duration::from_secs(1));
        let later = browser(&office.admin).get(&format!("/tickets/new?organization_id={}", office.organization)).send().await;
        let opened_at = hidden(&later, "opened_at");
        let fields = fields.map(|(name, value)| if name == "opened_at" { (name, opened_at) } else { (name, value) });
        let warned = send(&office.admin, "/tickets/new", &and(&tokens(&later), &fields)).await;
        assert_eq!(warned.status, 200);
        assert!(warned.text.contains("similar tickets") && warned.text.contains("T-2"), "{}", warned.text);
    })
    .await;
}

#[tokio::test]
async fn a_change_of_several_tickets_that_is_refused_keeps_what_was_chosen() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let id = office.ticket["id"].as_str().unwrap();
        let page = browser(&office.admin).get("/tickets").send().await;
        office.admin.patch(&format!("/api/psa/tickets/{id}")).json(json!({"status": "cancelled"})).send().await.ok(200);
        let fields = and(&tokens(&page), &[("ids", id), ("status", "in_progress"), ("priority", "high")]);
        let refused = send(&office.admin, "/tickets?sort=number", &fields).await;
        assert_eq!(refused.status, 409, "{}", refused.text);
        assert!(refused.text.contains(&format!("value=\"{id}\" checked")), "{}", refused.text);
        assert!(refused.text.contains("value=\"in_progress\" selected"), "{}", refused.text);
    })
    .await;
}

#[tokio::test]
async fn a_retry_that_is_sent_twice_starts_one_run() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let runs = "/api/psa/workflows/trigger?view=runs&limit=10";
        let run = office.admin.get(runs).send().await.ok(200)["data"][0]["id"].as_str().unwrap().to_owned();
        office.admin.delete(&format!("/api/psa/workflows/trigger/runs/{run}")).send().await.ok(200);
        let page = browser(&office.admin).get(&format!("/workflows/runs/{run}")).send().await;
        let fields = and(&tokens(&page), &[("action", "retry")]);
        let first = send(&office.admin, &format!("/workflows/runs/{run}/actions"), &fields).await;
        let again = send(&office.admin, &format!("/workflows/runs/{run}/actions"), &fields).await;
        assert_eq!((first.status, again.status), (303, 303), "{}", first.text);
        assert_eq!(first.header("location"), again.header("location"));
        assert_eq!(office.admin.get(runs).send().await.ok(200)["data"].as_array().unwrap().len(), 2);
        let later = browser(&office.admin).get(&format!("/workflows/runs/{run}")).send().await;
        let meant =
            send(&office.admin, &format!("/workflows/runs/{run}/actions"), &and(&tokens(&later), &[("action", "retry")])).await;
        assert_ne!(meant.header("location"), first.header("location"), "a new page retries again");
    })
    .await;
}
