//! An export takes as long as its client reads. If the caller loses a right in the meantime, the export ends and the client can
//! detect that it is incomplete.

use serde_json::{Value, json};

use crate::{
    harness::{
        Actor, PASSWORD, TestApp,
        stream::{rest, stuck_with},
        with_app,
    },
    key_owners::person,
};

const KEYS: &str = "/api/admin/api-keys";
const TICKETS: &str = "/api/psa/tickets";
const COUNT: usize = 1200;

/// A change of the caller during the export. The first two remove no right.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    KeyStays,
    KeyGrows,
    KeyRevoked,
    KeyDisabled,
    KeyReduced,
    KeyRestricted,
    UserStays,
    UserDemoted,
    UserDisabled,
    UserRemoved,
    SessionsEnded,
}

const CHANGES: [Change; 11] = [
    Change::KeyStays,
    Change::KeyGrows,
    Change::KeyRevoked,
    Change::KeyDisabled,
    Change::KeyReduced,
    Change::KeyRestricted,
    Change::UserStays,
    Change::UserDemoted,
    Change::UserDisabled,
    Change::UserRemoved,
    Change::SessionsEnded,
];

impl Change {
    fn is_of_a_person(self) -> bool {
        matches!(self, Self::UserStays | Self::UserDemoted | Self::UserDisabled | Self::UserRemoved | Self::SessionsEnded)
    }

    fn takes_nothing(self) -> bool {
        matches!(self, Self::KeyStays | Self::KeyGrows | Self::UserStays)
    }

    async fn make(self, admin: &Actor, path: &str, organization: &str) {
        let body = match self {
            Self::KeyStays | Self::UserStays => return,
            Self::KeyRevoked | Self::UserRemoved => return assert_done(admin.delete(path).send().await.status),
            Self::SessionsEnded => return assert_done(admin.delete(&format!("{path}/sessions")).send().await.status),
            Self::KeyGrows => json!({"scopes": ["tickets:*", "users:read"]}),
            Self::KeyDisabled => json!({"enabled": false}),
            Self::KeyReduced => json!({"scopes": ["users:read"]}),
            Self::KeyRestricted => json!({"organization_ids": [organization]}),
            Self::UserDemoted => json!({"role": "viewer"}),
            Self::UserDisabled => json!({"status": "disabled"}),
        };
        admin.put(path).json(body).send().await.ok(200);
    }
}

fn assert_done(status: u16) {
    assert!([200, 204].contains(&status), "{status}");
}

/// A caller: the header that authenticates it, and the path at which it is changed.
async fn caller(app: &TestApp, admin: &Actor, change: Change, name: &str) -> (String, String) {
    if change.is_of_a_person() {
        let (_, path) = person(app, admin, name, "technician").await;
        let login = json!({"email": format!("{name}@acme.example"), "password": PASSWORD});
        let reply = app.anonymous().post("/api/auth/login").json(login).send().await;
        return (format!("cookie: {}", reply.header("set-cookie").split(';').next().unwrap()), path);
    }
    let key: Value = admin.post(KEYS).json(json!({"name": name, "scopes": ["tickets:*"]})).send().await.ok(201).clone();
    (format!("authorization: Bearer {}", key["key"].as_str().unwrap()), format!("{KEYS}/{}", key["id"].as_str().unwrap()))
}

#[tokio::test]
async fn an_export_ends_when_its_caller_loses_rights() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, organization) = (acme.key(&["*"]).await, acme.organization("Acme").await);
        // More than the buffers between a server and its client hold.
        let ticket = json!({"subject": "A", "organization_id": organization, "description": "x".repeat(9_000)});
        for _ in 0..COUNT / 100 {
            admin.post(TICKETS).json(json!({"tickets": vec![ticket.clone(); 100]})).send().await.ok(201);
        }
        for (format, changes) in
            [("ndjson", CHANGES.as_slice()), ("csv", &[Change::KeyStays, Change::KeyRevoked, Change::UserDemoted])]
        {
            for change in changes {
                let name = format!("{change:?}-{format}").to_lowercase();
                let (credential, path) = caller(app, &admin, *change, &name).await;
                let export = stuck_with(app, &credential, &format!("{TICKETS}?format={format}")).await;
                change.make(&admin, &path, &organization).await;
                let answer = rest(export).await;
                let rows = answer.matches("xxxxx\"").count() + answer.matches("xxxxx,").count();
                let is_whole = answer.ends_with("0\r\n\r\n");
                assert_eq!(is_whole, change.takes_nothing(), "{name}: {rows} rows came");
                assert_eq!(answer.contains("\"_end\":true"), change.takes_nothing() && format == "ndjson", "{name}");
                assert_eq!(rows == COUNT, change.takes_nothing(), "{name}: {rows} rows came");
            }
        }
    })
    .await;
}
