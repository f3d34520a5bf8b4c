//! Ranking: a table of queries and their expected first hits.

use serde_json::{Value, json};

use crate::harness::{Actor, Tenant, with_app};

fn device(id: &str, name: &str, organization: &str, more: Value) -> Value {
    let mut line = json!({"kind": "device", "external_id": id, "name": name, "class": "workstation", "organization_external_id": organization});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line
}

fn directory() -> Vec<Value> {
    let organization = |id: &str, name: &str| json!({"kind": "organization", "external_id": id, "name": name});
    let user = |id: &str, name: &str, email: &str, organization: &str| json!({"kind": "user", "external_id": id, "name": name, "email": email, "organization_external_id": organization});
    vec![
        organization("acme", "Acme Manufacturing"),
        organization("globex", "Globex Corporation"),
        organization("ecole", "École Supérieure de Genève"),
        organization("tokyo", "東京オフィス"),
        organization("strasse", "Bäckerei Großmann"),
        user("u1", "Ada Lovelace", "ada.lovelace@acme.example", "acme"),
        user("u2", "Grace Hopper", "grace@globex.example", "globex"),
        user("u3", "José Núñez", "jose@ecole.example", "ecole"),
        user("u4", "Ada Byron", "byron@globex.example", "globex"),
        device(
            "d1",
            "SRV-DC-01",
            "acme",
            json!({
                "class": "server", "tags": ["critical", "vip"],
                "hardware": {"manufacturer": "Dell", "model": "PowerEdge R740", "serial": "7QX9ZK2"},
                "os": {"family": "windows", "name": "Windows Server 2022", "version": "21H2"},
                "network": {"hostname": "srv-dc-01.acme.local", "primary_ip": "10.1.0.10", "interfaces": [{"name": "eth0", "mac": "00:1A:2B:3C:4D:5E", "ips": ["10.1.0.10", "2001:db8::10"]}]},
                "software": [{"name": "Microsoft SQL Server 2022", "version": "16.0", "publisher": "Microsoft"}],
            }),
        ),
        device(
            "d2",
            "SRV-DC-02",
            "acme",
            json!({
                "class": "server",
                "hardware": {"manufacturer": "Dell", "model": "PowerEdge R750", "serial": "8RY0AL3"},
                "network": {"hostname": "srv-dc-02.acme.local", "primary_ip": "10.1.0.11", "interfaces": [{"mac": "00:1A:2B:3C:4D:5F"}]},
            }),
        ),
        device(
            "d3",
            "ACMELT0042",
            "acme",
            json!({
                "hardware": {"manufacturer": "HP", "model": "EliteBook 840 G10", "serial": "5CG1234XYZ"},
                "os": {"family": "windows", "name": "Windows 11 Pro", "version": "24H2"},
                "network": {"hostname": "acmelt0042", "primary_ip": "192.168.7.42"},
                "software": [{"name": "Google Chrome", "version": "131.0"}, {"name": "7-Zip", "version": "24.08"}],
            }),
        ),
        device("d4", "ACMELT0043", "acme", json!({"software": [{"name": "Google Chrome", "version": "130.0"}]})),
        device(
            "d5",
            "Reception Printer",
            "globex",
            json!({"class": "printer", "hardware": {"manufacturer": "Brother", "model": "HL-L2350DW", "serial": "E78096-K3N"}}),
        ),
        device(
            "d6",
            "macbook-grace",
            "globex",
            json!({"os": {"family": "macos", "name": "macOS Sequoia", "version": "15.1"}, "software": [{"name": "Slack"}]}),
        ),
        device("d7", "old-fileserver", "globex", json!({"lifecycle": "retired"})),
        device("d8", "new-fileserver", "globex", json!({})),
    ]
}

fn tickets() -> Vec<Value> {
    vec![
        json!({"subject": "Printer in reception is out of paper", "organization_external": "globex", "description": "The tray is empty and the toner is low."}),
        json!({"subject": "VPN disconnects every hour", "organization_external": "acme", "description": "Since the firmware upgrade the tunnel drops.", "priority": "high", "tags": ["network"]}),
        json!({"subject": "Paper jam", "organization_external": "acme", "description": "The printer on floor two eats paper."}),
        json!({"subject": "Mailbox quota exceeded", "organization_external": "ecole", "description": "Boîte aux lettres pleine, impossible d'envoyer."}),
        json!({"subject": "Onboard new employee", "organization_external": "globex", "description": "Needs a laptop, a mailbox and a badge.", "type": "service_request"}),
        json!({"subject": "Blue screen on ACMELT0042", "organization_external": "acme", "description": "IRQL_NOT_LESS_OR_EQUAL after the driver update"}),
        json!({"subject": "Backup failed on SRV-DC-01", "organization_external": "acme", "priority": "critical", "description": "Volume shadow copy timed out"}),
        json!({"subject": "🔥 Server room overheating", "organization_external": "acme", "description": "Temperature alarm at 38 degrees"}),
        json!({"subject": "שלום printer problem", "organization_external": "tokyo", "description": "right to left"}),
        json!({"subject": "プリンタ故障", "organization_external": "tokyo", "description": "東京の事務所"}),
    ]
}

/// Fills a tenant. The numbers of tickets are their positions in the list.
async fn fill(tenant: &Tenant<'_>) -> Actor {
    let key = tenant.key(&["*"]).await;
    let lines: String = directory().iter().map(|line| format!("{line}\n")).collect();
    let answers = key.post("/internal/ingest").text("application/x-ndjson", lines).send().await.lines(200);
    let end = answers.last().unwrap();
    assert_eq!(end["failed"], 0, "{answers:?}");
    let organizations: std::collections::HashMap<String, Value> = directory()
        .iter()
        .zip(&answers)
        .filter(|(line, _)| line["kind"] == "organization")
        .map(|(line, answer)| (line["external_id"].as_str().unwrap().to_owned(), answer["id"].clone()))
        .collect();
    for mut ticket in tickets() {
        let body = ticket.as_object_mut().unwrap();
        let external = body.remove("organization_external").unwrap();
        body.insert("organization_id".to_owned(), organizations[external.as_str().unwrap()].clone());
        key.post("/api/psa/tickets").json(ticket).send().await.ok(201);
    }
    key
}

pub fn search_path(q: &str, more: &str) -> String {
    let encoded: String = form_urlencoded(q);
    format!("/api/search?q={encoded}{more}")
}

fn form_urlencoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

pub async fn search(actor: &Actor, q: &str, more: &str) -> Value {
    actor.get(&search_path(q, more)).send().await.ok(200).clone()
}

pub fn titles(found: &Value) -> Vec<&str> {
    found["data"].as_array().unwrap().iter().map(|hit| hit["title"].as_str().unwrap()).collect()
}

const SUGGEST: &str = "&mode=suggest";

/// Query, other parameters, and the title of the first hit.
const EXPECTED: [(&str, &str, &str); 80] = [
    // Identifiers, in any spelling.
    ("7QX9ZK2", "", "SRV-DC-01"),
    ("7qx9zk2", "", "SRV-DC-01"),
    ("5CG1234XYZ", "", "ACMELT0042"),
    ("E78096-K3N", "", "Reception Printer"),
    ("00:1A:2B:3C:4D:5E", "", "SRV-DC-01"),
    ("00-1a-2b-3c-4d-5e", "", "SRV-DC-01"),
    ("001a.2b3c.4d5e", "", "SRV-DC-01"),
    ("001A2B3C4D5E", "", "SRV-DC-01"),
    ("00:1a:2b:3c:4d:5f", "", "SRV-DC-02"),
    ("10.1.0.10", "", "SRV-DC-01"),
    ("10.1.0.11", "", "SRV-DC-02"),
    ("192.168.7.42", "", "ACMELT0042"),
    ("192.168", SUGGEST, "ACMELT0042"),
    ("192.168.7.", SUGGEST, "ACMELT0042"),
    ("2001:db8::10", "", "SRV-DC-01"),
    ("2001:0DB8:0:0:0:0:0:10", "", "SRV-DC-01"),
    ("srv-dc-01.acme.local", "", "SRV-DC-01"),
    ("srv-dc-02", "", "SRV-DC-02"),
    ("ada.lovelace@acme.example", "", "Ada Lovelace"),
    ("GRACE@GLOBEX.EXAMPLE", "", "Grace Hopper"),
    ("T-2", "", "VPN disconnects every hour"),
    ("t-7", "", "Backup failed on SRV-DC-01"),
    ("number:3", "", "Paper jam"),
    ("number:T-5", "", "Onboard new employee"),
    ("acme", "&types=organization", "Acme Manufacturing"),
    // Names: exact, prefix, part.
    ("Acme Manufacturing", "", "Acme Manufacturing"),
    ("paper jam", "", "Paper jam"),
    ("ACMELT0042", "", "ACMELT0042"),
    ("reception printer", "", "Reception Printer"),
    ("printer reception", "", "Reception Printer"),
    ("srv-dc 02", "", "SRV-DC-02"),
    ("acmelt004", "&types=device", "ACMELT0042"),
    ("acmelt*", "", "ACMELT0042"),
    ("fileserver", "", "new-fileserver"),
    ("macbook", "", "macbook-grace"),
    ("vpn", "", "VPN disconnects every hour"),
    ("lovelace", "", "Ada Lovelace"),
    ("hopper grace", "", "Grace Hopper"),
    ("globex", "", "Globex Corporation"),
    // Other text.
    ("toner", "", "Printer in reception is out of paper"),
    ("firmware tunnel", "", "VPN disconnects every hour"),
    ("shadow copy", "", "Backup failed on SRV-DC-01"),
    ("PowerEdge R740", "", "SRV-DC-01"),
    ("elitebook", "", "ACMELT0042"),
    ("IRQL_NOT_LESS_OR_EQUAL", "", "Blue screen on ACMELT0042"),
    ("badge laptop", "", "Onboard new employee"),
    // Phrases.
    ("\"out of paper\"", "", "Printer in reception is out of paper"),
    ("\"eats paper\"", "", "Paper jam"),
    ("\"disconnects every hour\"", "", "VPN disconnects every hour"),
    ("\"blue screen\"", "", "Blue screen on ACMELT0042"),
    // Typos.
    ("maibox", "", "Mailbox quota exceeded"),
    ("onbaord", "", "Onboard new employee"),
    ("overheeting", "", "🔥 Server room overheating"),
    ("disconects", "", "VPN disconnects every hour"),
    ("lovelase", "", "Ada Lovelace"),
    ("temprature alarn", "", "🔥 Server room overheating"),
    // Accents and scripts.
    ("ecole superieure", "", "École Supérieure de Genève"),
    ("ÉCOLE", "", "École Supérieure de Genève"),
    ("nunez", "", "José Núñez"),
    ("jose", "", "José Núñez"),
    ("boite lettres", "", "Mailbox quota exceeded"),
    ("grossmann", "", "Bäckerei Großmann"),
    ("backerei", "", "Bäckerei Großmann"),
    ("東京", "&types=organization", "東京オフィス"),
    ("プリンタ", "", "プリンタ故障"),
    ("שלום", "", "שלום printer problem"),
    ("🔥", "", "🔥 Server room overheating"),
    // Fields.
    ("type:ticket printer jam OR reception", "", "Printer in reception is out of paper"),
    ("paper -jam", "", "Printer in reception is out of paper"),
    ("os:\"windows 11\" type:device", "", "ACMELT0042"),
    ("os:\"windows server\"", "", "SRV-DC-01"),
    ("os:macos", "", "macbook-grace"),
    ("tag:vip", "", "SRV-DC-01"),
    ("priority:critical", "", "Backup failed on SRV-DC-01"),
    ("org:globex printer type:device", "", "Reception Printer"),
    ("serial:7QX*", "", "SRV-DC-01"),
    ("acme printer type:ticket", "", "Paper jam"),
    // Software.
    ("google chrome", "", "Google Chrome"),
    ("type:software sql", "", "Microsoft SQL Server 2022"),
    ("chrme", "&types=software", "Google Chrome"),
];

/// The same for queries that are still being typed.
const SUGGESTED: [(&str, &str); 10] = [
    ("re", "Reception Printer"),
    ("recep", "Reception Printer"),
    ("reception pr", "Reception Printer"),
    ("srv-dc-02", "SRV-DC-02"),
    ("lov", "Ada Lovelace"),
    ("ada l", "Ada Lovelace"),
    ("glob", "Globex Corporation"),
    ("t-2", "VPN disconnects every hour"),
    ("macb", "macbook-grace"),
    ("slac", "Slack"),
];

#[tokio::test]
async fn the_expected_hit_is_first() {
    with_app(async |app| {
        let tenant = app.tenant("msp").await;
        let key = fill(&tenant).await;
        let mut wrong = Vec::new();
        let suggested = SUGGESTED.iter().map(|(q, title)| (*q, SUGGEST, *title));
        for (q, more, expected) in EXPECTED.into_iter().chain(suggested) {
            let found = search(&key, q, more).await;
            if titles(&found).first() != Some(&expected) {
                wrong.push(format!("{q} {more}: expected {expected}, got {:?}", titles(&found)));
            }
        }
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    })
    .await;
}
