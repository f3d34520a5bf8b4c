//! The asset inventory: filters, sections, counts, totals, pages, and access.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use crate::{
    backup::until,
    harness::{Actor, Tenant, TestApp, with_app},
    workflows::{Desk, PATH as WORKFLOWS, step},
};

pub const REPORT: &str = "/api/rmm/reports/asset-inventory";

pub async fn ingest(actor: &Actor, values: &[Value]) -> Vec<Value> {
    let body: String = values.iter().map(|value| format!("{value}\n")).collect();
    let answers = actor.post("/internal/ingest").text("application/x-ndjson", body).send().await.lines(200);
    assert_eq!(answers.last().unwrap()["failed"], 0, "{answers:?}");
    answers
}

/// Four different devices: two well-known ones of which one is backed up, one without any data, and one that was added an hour
/// later. Returns the ids of their organizations.
pub async fn fleet(app: &TestApp, tenant: &Tenant<'_>) -> (String, String) {
    let key = tenant.key(&["ingest:write", "inventory:read"]).await;
    let desk = json!({
        "kind": "device", "external_id": "x-desk", "name": "desk", "class": "workstation", "organization_external_id": "acme",
        "site": "Basel", "owner_external_id": "zoe", "tags": ["VIP", "façade"], "custom_fields": {"rack": "B7"},
        "agent": {"version": "5.1", "last_seen_at": "2026-01-01T00:00:00Z"}, "health": "healthy",
        "hardware": {"manufacturer": "Dell, Inc.", "model": "Latitude 5450", "serial": "DL-1", "cpu": {"model": "Core", "cores": 8},
            "memory_bytes": 1024, "disks": [{"model": "D", "bytes": 5, "kind": "nvme"}],
            "volumes": [{"name": "C:", "bytes": 5, "free_bytes": 1, "encrypted": true}, {"name": "D:", "bytes": 6}]},
        "os": {"family": "windows", "name": "Windows 11 Pro", "version": "24H2", "build": "26100", "reboot_required": false,
            "eol_at": "2027-10-12T00:00:00Z", "last_boot_at": "2025-12-31T00:00:00Z"},
        "network": {"hostname": "ws-zrh-001", "primary_ip": "10.1.0.5", "public_ip": "203.0.113.9",
            "interfaces": [{"name": "eth0", "mac": "D4:BE:D9:01:02:0A", "ips": ["10.1.0.5", "2001:db8::5"]}, {"name": "lo"}]},
        "security": {"antivirus": "Defender", "firewall": true, "disk_encryption": true},
        "patch": {"status": "compliant", "missing_critical": 0, "missing_other": 2, "last_scan_at": "2025-12-31T00:00:00Z"},
        "software": [{"name": "Google Chrome", "version": "131.0.6778.86", "publisher": "Google"}, {"name": "7-Zip", "version": "24.09"}],
        "warranty": {"status": "active", "ends_at": "2027-05-01T00:00:00Z"},
    });
    let rack = json!({
        "kind": "device", "external_id": "x-rack", "name": "rack", "class": "server", "lifecycle": "in_repair",
        "organization_external_id": "beta", "site": "Genève", "tags": ["critical"],
        "agent": {"version": "5.0", "last_seen_at": "2025-12-31T23:50:00Z"}, "health": "unhealthy",
        "hardware": {"manufacturer": "HPE", "model": "ProLiant DL380", "serial": "HP-2", "volumes": [{"name": "/", "encrypted": false}]},
        "os": {"family": "linux", "name": "Debian GNU/Linux", "version": "10", "reboot_required": true, "eol_at": "2024-06-30T00:00:00Z"},
        "network": {"hostname": "sql01", "primary_ip": "192.0.2.7", "interfaces": [{"mac": "94-40-C9-00-00-01", "ips": []}]},
        "patch": {"status": "failing", "missing_critical": 3, "missing_other": 4},
        "software": [{"name": "nginx", "version": "1.24.0"}, {"name": "Google Chrome", "version": "99.1"}, {"name": "nginx", "version": "1.9"}],
        "warranty": {"status": "expired", "ends_at": "2025-06-01T00:00:00Z"},
    });
    let bare = json!({
        "kind": "device", "external_id": "x-bare", "name": "bare", "class": "printer", "lifecycle": "spare",
        "organization_external_id": "acme",
    });
    let organization = |id: &str| json!({"kind": "organization", "external_id": id, "name": format!("The {id} company")});
    let zoe = json!({"kind": "user", "external_id": "zoe", "name": "Zoë Ångström", "organization_external_id": "acme"});
    let answers = ingest(&key, &[organization("acme"), organization("beta"), zoe]).await;
    for device in [desk, rack, bare] {
        // Ids are ordered by time. Within one millisecond their order is random.
        app.advance(Duration::from_millis(1));
        ingest(&key, &[device]).await;
    }
    let restorable = json!({"kind": "backup_job", "external_id": "night", "device": "x-desk", "status": "success",
        "started_at": "2025-12-31T00:00:00Z"});
    ingest(&key, &[restorable]).await;
    until(&key, &format!("{REPORT}?summary=true"), |report| report["totals"]["backup_eligible"] == 2).await;
    app.advance(Duration::from_hours(1));
    let late = json!({
        "kind": "device", "external_id": "x-late", "name": "late", "class": "mobile", "organization_external_id": "beta",
        "agent": {"last_seen_at": "2026-01-01T00:59:00Z"}, "health": "needs_attention",
        "hardware": {"manufacturer": "Apple", "model": "iPhone 16", "serial": "AP-4"}, "os": {"family": "ios", "name": "iOS", "version": "18.2"},
        "patch": {"status": "pending", "missing_critical": 1, "missing_other": 0},
        "warranty": {"status": "expiring_soon", "ends_at": "2026-02-01T00:00:00Z"},
    });
    let back =
        json!({"kind": "device", "external_id": "x-desk", "agent": {"version": "5.1", "last_seen_at": "2026-01-01T00:50:00Z"}});
    ingest(&key, &[late, back]).await;
    let id = |place: usize| answers[place]["id"].as_str().unwrap().to_owned();
    (id(0), id(1))
}

async fn report(actor: &Actor, query: &str) -> Value {
    actor.get(&format!("{REPORT}?{query}")).send().await.ok(200).clone()
}

fn names(report: &Value) -> String {
    let names: Vec<&str> = report["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.join(" ")
}

/// Each filter with values and the matching devices, in the order of creation. `{acme}` and `{beta}` are organizations. At 01:00
/// the agent of `desk` has been offline for ten minutes, that of `rack` is overdue, and that of `late` is online.
pub const CASES: &[(&str, &str, &str)] = &[
    ("organization_id", "{acme}", "desk bare"),
    ("organization_id", "{acme},{beta}", "desk rack bare late"),
    ("organization_id", "org_00000000000000000000000000", ""),
    ("site", "GENEVE", "rack"),
    ("site", "basel,geneve", "desk rack"),
    ("site", "base", ""),
    ("class", "printer", "bare"),
    ("class", "printer,mobile", "bare late"),
    ("os_family", "windows", "desk"),
    ("os_family", "linux,ios", "rack late"),
    ("os_name", "windows 11", "desk"),
    ("os_name", "debian,IOS", "rack late"),
    ("agent_status", "online", "late"),
    ("agent_status", "offline", "desk"),
    ("agent_status", "overdue,never", "rack bare"),
    ("last_seen_before", "2026-01-01T00:50:00Z", "rack"),
    ("last_seen_before", "2026-01-01T00:50:00.001Z", "desk rack"),
    ("last_seen_after", "2026-01-01T00:50:00Z", "late"),
    ("last_seen_after", "2026-01-01T00:49:59.999Z", "desk late"),
    ("manufacturer", "dell", "desk"),
    ("manufacturer", "hpe,apple", "rack late"),
    ("model", "latitude", "desk"),
    ("model", "dl380,iphone", "rack late"),
    ("serial", "dl-1", "desk"),
    ("serial", "HP-2,AP-4", "rack late"),
    ("serial", "HP", ""),
    ("ip", "203.0.113.9", "desk"),
    ("ip", "2001:db8::/64", "desk"),
    ("ip", "192.0.2.0/24,10.1.0.5", "desk rack"),
    ("mac", "d4bed901020a", "desk"),
    ("mac", "9440.c9", "rack"),
    ("tag", "vip", "desk"),
    ("tag", "facade,critical", "desk rack"),
    ("lifecycle", "in_repair", "rack"),
    ("lifecycle", "spare,in_repair", "rack bare"),
    ("warranty_status", "active", "desk"),
    ("warranty_status", "unknown,expired", "rack bare"),
    ("warranty_ends_before", "2026-01-15T00:00:00Z", "rack"),
    ("warranty_ends_before", "2026-02-01T00:00:00.001Z", "rack late"),
    ("patch_status", "failing", "rack"),
    ("patch_status", "compliant,unknown", "desk bare"),
    ("reboot_required", "true", "rack"),
    ("reboot_required", "false", "desk bare late"),
    ("protected", "true", "desk"),
    ("protected", "false", "rack"),
    ("software", "google chrome", "desk rack"),
    ("software", "google*", "desk rack"),
    ("software", "google", ""),
    ("software", "google chrome>=131", "desk"),
    ("software", "google chrome<131", "rack"),
    ("software", "google chrome>131.0.6778.86", ""),
    ("software", "google chrome<=99.1", "rack"),
    ("software", "7-zip=24.9", "desk"),
    ("software", "7-zip,nginx>1.10", "desk rack"),
    ("software_missing", "google chrome", "bare late"),
    ("software_missing", "google chrome>=131", "rack bare late"),
    ("software_missing", "7-zip,nginx", "desk rack bare late"),
    ("health", "unknown", "bare"),
    ("health", "unhealthy,needs_attention", "rack late"),
    ("q", "ESK", "desk"),
    ("q", "SQL0", "rack"),
    ("q", "ap-4", "late"),
    ("q", "proliant", "rack"),
    ("q", "angstrom", "desk"),
    ("q", "faca", "desk"),
    ("q", "nothing has this", ""),
    ("updated_after", "2026-01-01T00:00:00.001Z", "desk rack bare late"),
    ("updated_after", "2026-01-01T00:00:00.002Z", "desk bare late"),
    ("updated_after", "2026-01-01T01:00:00.002Z", "desk late"),
    ("updated_after", "2026-01-01T01:00:00.003Z", ""),
    ("updated_before", "2026-01-01T00:30:00Z", "rack bare"),
    ("created_after", "2026-01-01T00:30:00Z", "late"),
    ("created_before", "2026-01-01T00:30:00Z", "desk rack bare"),
    ("name", "RACK,bare", "rack bare"),
    ("name", "rac", ""),
    ("external_id", "x-late,x-rack", "rack late"),
    ("hostname", "SQL01", "rack"),
    ("owner_id", "usr_00000000000000000000000000", ""),
    ("custom_field", "b7", "desk"),
    ("os_version", "24h2,10", "desk rack"),
];

/// Parameters that change the form of a report, but not its devices.
const FORM: [&str; 8] = ["sections", "group_by", "summary", "rows", "format", "limit", "cursor", "include_total"];

#[tokio::test]
async fn every_filter_works_alone_and_combined() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (acme, beta) = fleet(app, &tenant).await;
        let key = tenant.key(&["inventory:read"]).await;
        assert_eq!(names(&report(&key, "").await), "desk rack bare late");
        for (filter, value, expected) in CASES {
            let value = value.replace("{acme}", &acme).replace("{beta}", &beta);
            let pair: String = form_urlencoded::Serializer::new(String::new()).append_pair(filter, &value).finish();
            assert_eq!(names(&report(&key, &pair).await), *expected, "{filter}={value}");
            // This reveals an ignored filter even if the first devices matched by chance.
            let other = if *filter == "class" { "lifecycle=in_repair" } else { "class=server" };
            let both = names(&report(&key, &format!("{pair}&{other}")).await);
            assert_eq!(both, if expected.contains("rack") { "rack" } else { "" }, "{filter}={value}&{other}");
            let total = report(&key, &format!("{pair}&include_total=true&limit=1")).await["page"]["total"].clone();
            assert_eq!(total, expected.split_whitespace().count(), "the total of {filter}={value}");
        }
    })
    .await;
}

#[tokio::test]
async fn every_documented_parameter_is_tested() {
    with_app(async |app| {
        let document = app.anonymous().get("/api/openapi.json").send().await.ok(200).clone();
        let parameters = document["paths"][REPORT]["get"]["parameters"].as_array().unwrap().clone();
        let documented: BTreeSet<&str> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "query")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let tried: BTreeSet<&str> = CASES.iter().map(|(filter, ..)| *filter).chain(FORM).collect();
        assert_eq!(documented, tried);
    })
    .await;
}

#[tokio::test]
async fn all_errors_are_reported_with_suggestions() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let key = tenant.key(&["inventory:read"]).await;
        let reported = |reply: crate::harness::Reply| -> Vec<(String, String, Value)> {
            assert_eq!(reply.problem(422), "validation_failed");
            let errors = reply.body["errors"].as_array().unwrap().clone();
            let mut reported: Vec<_> = errors
                .iter()
                .map(|error| {
                    let text = |name: &str| error[name].as_str().unwrap().to_owned();
                    (text("parameter"), text("code"), error["suggestion"].clone())
                })
                .collect();
            reported.sort_by(|left, right| left.0.cmp(&right.0));
            reported
        };
        let row = |name: &str, code: &str, suggestion: Value| (name.to_owned(), code.to_owned(), suggestion);
        let words = "class=servr&os_family=windos&agent_status=onlin&patch_status=complient&protected=yes&sections=harware&group_by=modell&limit=201&last_seen_after=monday&organization_id=dev_1&tag=";
        assert_eq!(
            reported(key.get(&format!("{REPORT}?{words}")).send().await),
            [
                row("agent_status", "not_allowed", json!("online")),
                row("class", "not_allowed", json!("server")),
                row("group_by", "not_allowed", json!("model")),
                row("last_seen_after", "wrong_form", Value::Null),
                row("limit", "too_large", Value::Null),
                row("organization_id", "wrong_form", Value::Null),
                row("os_family", "not_allowed", json!("windows")),
                row("patch_status", "not_allowed", json!("compliant")),
                row("protected", "wrong_type", Value::Null),
                row("sections", "not_allowed", json!("hardware")),
                row("tag", "too_short", Value::Null),
            ]
        );
        let forms = "ip=10.0.0&mac=d4:be&software=chrome==131&software_missing=X%3Cabc&site=%20&q=%20";
        assert_eq!(
            reported(key.get(&format!("{REPORT}?{forms}")).send().await),
            [
                row("ip", "wrong_form", Value::Null),
                row("mac", "wrong_form", Value::Null),
                row("q", "wrong_form", Value::Null),
                row("site", "wrong_form", Value::Null),
                row("software", "wrong_form", json!("chrome=131")),
                row("software_missing", "wrong_form", Value::Null),
            ]
        );
        let grouped = reported(key.get(&format!("{REPORT}?group_by=class&limit=5&include_total=true&sections=os&rows=software")).send().await);
        assert!(grouped.iter().all(|(_, code, _)| code == "not_allowed") && grouped.len() == 4, "{grouped:?}");
        let streamed = reported(key.get(&format!("{REPORT}?format=csv&limit=5&include_total=false&summary=true&cursor=x")).send().await);
        assert!(streamed.iter().all(|(_, code, _)| code == "not_allowed") && streamed.len() == 4, "{streamed:?}");
        let unknown = key.get(&format!("{REPORT}?clas=server")).send().await;
        assert_eq!(unknown.problem(400), "unknown_parameter");
        assert_eq!(unknown.body["errors"][0]["suggestion"], "class");
    })
    .await;
}

#[tokio::test]
async fn rows_have_only_the_requested_sections() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (acme, _) = fleet(app, &tenant).await;
        let key = tenant.key(&["inventory:read", "events:read"]).await;
        let members = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let summary = report(&key, "class=workstation").await["data"][0].clone();
        assert_eq!(summary["organization"], json!({"id": acme, "name": "The acme company"}));
        assert_eq!(summary["owner"]["name"], "Zoë Ångström");
        assert_eq!(summary["agent"], json!({"status": "offline", "version": "5.1", "last_seen_at": "2026-01-01T00:50:00.000Z"}));
        for section in ["hardware", "os", "network", "security", "patch", "software", "warranty", "backup"] {
            let row = report(&key, &format!("class=workstation&sections={section}")).await["data"][0].clone();
            assert_eq!(members(&row), set(&["id", "name", "organization", section]));
            assert_eq!(summary.get(section), None);
        }
        let all = "sections=summary,hardware,os,network,security,patch,software,warranty,backup";
        let whole = report(&key, &format!("{all}&class=workstation")).await["data"][0].clone();
        let feed = key.get("/api/events?types=device.updated").send().await.ok(200).clone();
        let mut event = feed["data"][0]["data"]["device"].clone();
        event["agent"]["status"] = json!("offline");
        assert_eq!(whole, event, "all sections together are the device as everyone else sees it");
        assert_eq!(
            report(&key, &format!("{all}&class=printer")).await["data"][0]["software"],
            json!([]),
            "a device without data has the requested lists"
        );
    })
    .await;
}

#[tokio::test]
async fn groups_add_up_to_the_total() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (acme, beta) = fleet(app, &tenant).await;
        let key = tenant.key(&["inventory:read"]).await;
        for by in [
            "organization",
            "class",
            "os",
            "os_version",
            "manufacturer",
            "model",
            "agent_status",
            "patch_status",
            "warranty_status",
        ] {
            for (filter, devices) in [("", 4), ("&lifecycle=active", 2)] {
                let groups = report(&key, &format!("group_by={by}{filter}")).await;
                let sum: u64 =
                    groups["groups"]["values"].as_array().unwrap().iter().map(|group| group["count"].as_u64().unwrap()).sum();
                assert_eq!(
                    (sum, &groups["groups"]["devices"], &groups["groups"]["others"]),
                    (devices, &json!(devices), &json!(0)),
                    "{by}"
                );
                assert!(groups.get("data").is_none() && groups.get("page").is_none());
            }
        }
        let groups = async |query: &str| report(&key, query).await["groups"]["values"].clone();
        let mut organizations = [(acme, "The acme company"), (beta, "The beta company")];
        organizations.sort();
        let expected: Vec<Value> = organizations.iter().map(|(id, name)| json!({"value": id, "name": name, "count": 2})).collect();
        assert_eq!(groups("group_by=organization").await, json!(expected));
        assert_eq!(groups("group_by=os_version&class=server").await, json!([{"value": "Debian GNU/Linux 10", "count": 1}]));
        assert_eq!(
            groups("group_by=manufacturer&class=printer").await,
            json!([{"count": 1}]),
            "devices without a value have a group"
        );
        assert_eq!(
            groups("group_by=software").await,
            json!([{"value": "Google Chrome", "count": 2}, {"value": "7-Zip", "count": 1}, {"value": "nginx", "count": 1}]),
            "two versions of a package count once for a device"
        );
        let totals = report(&key, "summary=true&limit=1").await["totals"].clone();
        assert_eq!((&totals["devices"], &totals["organizations"]), (&json!(4), &json!(2)));
        assert_eq!(totals["agent_status"], json!({"online": 1, "offline": 1, "overdue": 1, "never": 1}));
        assert_eq!(totals["warranty_status"], json!({"active": 1, "expired": 1, "expiring_soon": 1, "none": 0, "unknown": 1}));
        for (name, count) in
            [("missing_critical_patches", 4), ("reboot_required", 1), ("unprotected", 1), ("os_past_eol", 1), ("unencrypted", 1)]
        {
            assert_eq!(totals[name], count, "{name}");
        }
        let filtered = report(&key, "summary=true&group_by=class&class=server").await;
        assert_eq!((&filtered["totals"]["devices"], &filtered["groups"]["devices"]), (&json!(1), &json!(1)));
    })
    .await;
}

#[tokio::test]
async fn pages_continue_within_the_packages_of_a_device() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        fleet(app, &tenant).await;
        let key = tenant.key(&["inventory:read"]).await;
        let walk = async |query: &str, limit: usize| {
            let (mut rows, mut path) = (Vec::new(), format!("{REPORT}?{query}&limit={limit}"));
            loop {
                let reply = key.get(&path).send().await;
                let page = reply.ok(200).clone();
                let data = page["data"].as_array().unwrap();
                assert!(data.len() <= limit);
                rows.extend(data.iter().cloned());
                let Some(cursor) = page["page"]["next_cursor"].as_str() else { return rows };
                assert_eq!(reply.header("link"), format!("<{REPORT}?{query}&limit={limit}&cursor={cursor}>; rel=\"next\""));
                path = format!("{REPORT}?{query}&limit={limit}&cursor={cursor}");
            }
        };
        for query in ["sections=os", "rows=software&sections=os", "rows=software&software=google*,nginx"] {
            let whole = walk(query, 200).await;
            for limit in 1..5 {
                assert_eq!(walk(query, limit).await, whole, "{query} by {limit}");
            }
            let total = report(&key, &format!("{query}&include_total=true&limit=1")).await["page"]["total"].clone();
            assert_eq!(total, whole.len(), "{query}");
        }
        let packages: Vec<String> = walk("rows=software", 200)
            .await
            .iter()
            .map(|row| format!("{} {} {}", row["name"], row["package"]["name"], row["package"]["version"]).replace('"', ""))
            .collect();
        assert_eq!(
            packages,
            [
                "desk 7-Zip 24.09",
                "desk Google Chrome 131.0.6778.86",
                "rack Google Chrome 99.1",
                "rack nginx 1.24.0",
                "rack nginx 1.9"
            ]
        );
        let cursor = report(&key, "limit=1").await["page"]["next_cursor"].as_str().unwrap().to_owned();
        let other = key.get(&format!("{REPORT}?limit=1&class=server&cursor={cursor}")).send().await;
        assert_eq!(other.problem(400), "cursor_mismatch");
        let sender = tenant.key(&["ingest:*"]).await;
        ingest(&sender, &[json!({"kind": "device", "external_id": "x-desk", "deleted": true})]).await;
        assert_eq!(names(&report(&key, &format!("limit=1&cursor={cursor}")).await), "rack", "a cursor outlives its device");
    })
    .await;
}

#[tokio::test]
async fn a_report_needs_its_scope_and_stays_in_its_tenant() {
    with_app(async |app| {
        let (tenant, other) = (app.tenant("acme").await, app.tenant("globex").await);
        let (acme, _) = fleet(app, &tenant).await;
        let stranger = other.key(&["*"]).await;
        assert_eq!(names(&report(&stranger, "").await), "");
        assert_eq!(names(&report(&stranger, &format!("organization_id={acme}")).await), "");
        assert_eq!(report(&stranger, "group_by=class&summary=true").await["totals"]["devices"], 0);
        let lines = stranger.get(&format!("{REPORT}?format=ndjson")).send().await.lines(200);
        assert_eq!(lines, [json!({"_end": true, "count": 0})]);
        let blind = tenant.key(&["tickets:read", "search:read"]).await.get(REPORT).send().await;
        assert_eq!(blind.problem(403), "insufficient_scope");
        assert_eq!(names(&report(&tenant.user("viewer").await, "class=server").await), "rack");
        assert_eq!(app.anonymous().get(REPORT).send().await.problem(401), "missing_credentials");
    })
    .await;
}

#[tokio::test]
async fn workflows_make_small_reports() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let lines: Vec<Value> = (0..150)
            .map(|number| {
                let class = if number % 3 == 0 { "server" } else { "printer" };
                json!({"kind": "device", "external_id": number.to_string(), "name": "d", "class": class, "organization_id": desk.organization})
            })
            .collect();
        ingest(&desk.key, &lines).await;
        let steps = json!([
            {"id": "some", "type": "inventory.report", "with": {"organization_id": ["{{ inputs.organization_id }}"], "class": ["server"], "limit": 10}},
            {"id": "groups", "type": "inventory.report", "with": {"group_by": "class", "summary": true}},
            {"id": "end", "type": "return", "with": {"output": "{{ steps.some.output.count }}"}},
        ]);
        desk.workflow("report", steps).await;
        let run = desk.start("report", json!({"organization_id": desk.organization})).await;
        let ended = desk.status(&run, "succeeded").await;
        assert_eq!(ended["output"], 50);
        let some = &step(&ended, "some")["output"];
        assert_eq!((some["data"].as_array().unwrap().len(), &some["truncated"]), (10, &json!(true)));
        assert_eq!(some["data"][0]["class"], "server");
        let groups = &step(&ended, "groups")["output"];
        assert_eq!((&groups["groups"]["values"][0], &groups["totals"]["devices"]), (&json!({"value": "printer", "count": 100}), &json!(151)));
        let body = json!({"workflow_key": "report", "inputs": {"organization_id": desk.organization}, "dry_run": true});
        let planned = desk.key.post(WORKFLOWS).json(body).send().await.ok(200).clone();
        assert!(planned.to_string().contains("would report on 50 devices"), "{planned}");
        let wrong = json!({"id": "a", "type": "inventory.report", "with": {"clas": ["server"], "limit": 101, "health": ["well"]}});
        let refused = desk.try_create(json!({"key": "x", "name": "x", "steps": [wrong]})).await;
        assert_eq!(refused.problem(422), "validation_failed");
        let pointers: BTreeSet<&str> = refused.body["errors"].as_array().unwrap().iter().filter_map(|error| error["pointer"].as_str()).collect();
        for member in ["clas", "limit", "health/0"] {
            assert!(pointers.iter().any(|pointer| pointer.ends_with(&format!("/with/{member}"))), "{member}: {pointers:?}");
        }
        let late = json!([{"id": "a", "type": "inventory.report", "with": {"software": ["{{ inputs.package }}"]}}]);
        desk.workflow("late", late).await;
        let run = desk.start("late", json!({"package": "a>>1"})).await;
        assert_eq!(desk.status(&run, "failed").await["error"]["code"], "invalid_input");
    })
    .await;
}
