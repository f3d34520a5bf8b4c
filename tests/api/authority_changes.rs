//! Nobody can give an API key more rights than they have: every operation on a key, by callers of different strength, is compared
//! with the rule computed here from plain sets. A caller who creates, changes, rotates or enables a key must cover it before and
//! after; reducing rights is always allowed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Actor, Reply, Setup, Tenant, TestApp, example, with_app, with_setup};

const KEYS: &str = "/api/admin/api-keys";

/// The rights of a key, small enough to compare one by one. `None` means all organizations, or all networks.
#[derive(Clone, Debug, PartialEq)]
struct Rights {
    scopes: Vec<&'static str>,
    organizations: Option<Vec<String>>,
    networks: Option<Vec<&'static str>>,
    days: u32,
}

fn within<T: Ord + Clone>(outer: Option<&Vec<T>>, inner: Option<&Vec<T>>) -> bool {
    let set = |list: &Vec<T>| list.iter().cloned().collect::<BTreeSet<T>>();
    match (outer, inner) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(outer), Some(inner)) => set(inner).is_subset(&set(outer)),
    }
}

/// The address blocks that make up the networks of this test.
fn blocks(networks: Option<&Vec<&'static str>>) -> Option<Vec<u8>> {
    let of = |network: &&str| match *network {
        "127.0.0.0/8" => vec![0],
        "10.0.0.0/25" => vec![1],
        "10.0.0.128/25" => vec![2],
        "10.0.0.0/24" => vec![1, 2],
        "192.0.2.0/24" => vec![3],
        other => panic!("{other} is not in the table"),
    };
    networks.map(|networks| networks.iter().flat_map(of).collect())
}

impl Rights {
    fn covers(&self, other: &Self) -> bool {
        within(Some(&self.scopes), Some(&other.scopes))
            && within(self.organizations.as_ref(), other.organizations.as_ref())
            && within(blocks(self.networks.as_ref()).as_ref(), blocks(other.networks.as_ref()).as_ref())
            && other.days <= self.days
    }

    fn body(&self, name: &str) -> Value {
        let mut body = json!({"name": name, "scopes": self.scopes, "expires_days": self.days});
        if let Some(organizations) = &self.organizations {
            body["organization_ids"] = json!(organizations);
        }
        if let Some(networks) = &self.networks {
            body["allowed_ips"] = json!(networks);
        }
        body
    }

    /// The change that turns a key with these rights into one with the rights `after`.
    fn change_to(&self, after: &Self) -> Value {
        let mut change = json!({});
        if self.scopes != after.scopes {
            change["scopes"] = json!(after.scopes);
        }
        if self.organizations != after.organizations {
            change["organization_ids"] = json!(after.organizations);
        }
        if self.networks != after.networks {
            change["allowed_ips"] = json!(after.networks);
        }
        if self.days != after.days {
            change["expires_days"] = json!(after.days);
        }
        change
    }
}

struct Caller {
    name: &'static str,
    actor: Actor,
    /// `None` is a session of an administrator, who covers every key of the tenant.
    rights: Option<Rights>,
}

impl Caller {
    fn covers(&self, rights: &Rights) -> bool {
        self.rights.as_ref().is_none_or(|own| own.covers(rights))
    }

    fn may_change(&self, before: &Rights, after: &Rights) -> bool {
        before.covers(after) || (self.covers(before) && self.covers(after))
    }

    #[track_caller]
    fn check(&self, reply: &Reply, allowed: bool, act: &str) {
        let case = format!("{} {act}: {}", self.name, reply.text);
        if allowed {
            assert!([200, 201].contains(&reply.status), "{case}");
            return;
        }
        assert_eq!(reply.status, 403, "{case}");
        let code = reply.problem(403);
        assert!(["insufficient_scope", "insufficient_authority"].contains(&code), "{case}");
        let named = [
            "required_scopes",
            "required_organization_ids",
            "requires_all_organizations",
            "required_networks",
            "latest_expires_at",
        ];
        assert!(named.iter().any(|member| !reply.body[*member].is_null()), "it does not say what is missing: {case}");
        assert!(reply.text.find("\"key\":").is_none(), "{case}");
    }
}

/// Creates the keys that callers operate on.
struct Bench<'a> {
    app: &'a TestApp,
    tenant: Tenant<'a>,
    made: std::cell::Cell<u32>,
}

impl Bench<'_> {
    fn name(&self) -> String {
        self.made.set(self.made.get() + 1);
        format!("Key {}", self.made.get())
    }

    async fn make(&self, rights: &Rights) -> Value {
        let path = format!("/internal/admin/tenants/{}/api-keys", self.tenant.id);
        self.app.local().post(&path).json(rights.body(&self.name())).send().await.ok(201).clone()
    }

    async fn caller(&self, name: &'static str, rights: Rights) -> Caller {
        let key = self.make(&rights).await;
        let actor = self.app.anonymous().bearer(key["key"].as_str().unwrap());
        Caller { name, actor, rights: Some(rights) }
    }
}

fn path(key: &Value) -> String {
    format!("{KEYS}/{}", key["id"].as_str().unwrap())
}

/// Keys that have less, the same, more, or different rights than the caller in one dimension, and no more in the others.
fn related(own: &Rights, organizations: &[String]) -> Vec<(&'static str, Vec<Rights>)> {
    let base = Rights { scopes: vec!["tickets:read"], organizations: None, networks: Some(vec!["10.0.0.0/25"]), days: 10 };
    let scopes = [
        vec!["tickets:read"],
        own.scopes.clone(),
        [own.scopes.clone(), vec!["webhooks:read"]].concat(),
        vec!["tickets:read", "webhooks:read"],
    ];
    let networks = [
        Some(vec!["10.0.0.0/25"]),
        Some(vec!["127.0.0.0/8", "10.0.0.0/25", "10.0.0.128/25"]),
        Some(vec!["127.0.0.0/8", "10.0.0.0/24", "192.0.2.0/24"]),
        Some(vec!["10.0.0.0/25", "192.0.2.0/24"]),
        None,
    ];
    let days = [10, 30, 31];
    let organizations =
        [None, Some(vec![organizations[0].clone()]), Some(vec![organizations[1].clone()]), Some(organizations.to_vec())];
    let with = |change: &dyn Fn(&mut Rights)| {
        let mut rights = base.clone();
        change(&mut rights);
        rights
    };
    vec![
        ("scopes", scopes.iter().map(|scopes| with(&|rights| rights.scopes.clone_from(scopes))).collect()),
        ("networks", networks.iter().map(|networks| with(&|rights| rights.networks.clone_from(networks))).collect()),
        ("lifetime", days.iter().map(|days| with(&|rights| rights.days = *days)).collect()),
        ("organizations", organizations.iter().map(|ids| with(&|rights| rights.organizations.clone_from(ids))).collect()),
    ]
}

/// Every operation of a caller on a key with these rights.
async fn act_on(bench: &Bench<'_>, caller: &Caller, dimension: &str, rights: &Rights) {
    let covers = caller.covers(rights);
    let case = |act: &str| format!("{act}, {dimension} {rights:?}");
    let reply = caller.actor.post(KEYS).json(rights.body(&bench.name())).send().await;
    caller.check(&reply, covers, &case("creates"));

    let key = bench.make(rights).await;
    let reply = caller.actor.post(&format!("{}/rotate", path(&key))).send().await;
    caller.check(&reply, covers, &case("rotates"));
    let reply = caller.actor.put(&path(&key)).json(json!({"name": bench.name()})).send().await;
    caller.check(&reply, true, &case("renames"));
    let reply = caller.actor.put(&path(&key)).json(json!({"enabled": false})).send().await;
    caller.check(&reply, true, &case("disables"));
    let reply = caller.actor.put(&path(&key)).json(json!({"enabled": true})).send().await;
    caller.check(&reply, covers, &case("enables"));
    let reply = caller.actor.put(&path(&key)).json(json!({"expires_days": rights.days.max(2) - 1})).send().await;
    caller.check(&reply, true, &case("shortens"));
    let reply = caller.actor.put(&path(&key)).json(json!({"expires_days": rights.days})).send().await;
    caller.check(&reply, covers, &case("extends"));
    let reply = caller.actor.delete(&path(&key)).send().await;
    caller.check(&reply, true, &case("revokes"));
}

#[tokio::test]
async fn changing_a_key_needs_its_rights() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("api_keys.max_live", 2000);
    with_setup(setup, async |app| {
        let tenant = app.tenant("acme").await;
        let organizations = [tenant.organization("One").await, tenant.organization("Two").await];
        let admin = tenant.admin().await;
        let bench = Bench { app, tenant, made: std::cell::Cell::new(0) };
        let own = Rights {
            scopes: vec!["api_keys:write", "tickets:read", "tickets:write"],
            organizations: None,
            networks: Some(vec!["127.0.0.0/8", "10.0.0.0/24"]),
            days: 30,
        };
        let narrow = Rights { scopes: vec!["api_keys:write"], networks: None, days: 365, ..own.clone() };
        let short = Rights { networks: None, days: 5, ..own.clone() };
        let callers = [
            Caller { name: "an administrator", actor: admin, rights: None },
            bench.caller("a key with some networks", own.clone()).await,
            bench.caller("a key with one scope", narrow).await,
            bench.caller("a key that ends soon", short).await,
        ];
        let (mut allowed, mut refused) = (0, 0);
        for caller in &callers {
            for (dimension, cases) in related(&own, &organizations) {
                for before in &cases {
                    act_on(&bench, caller, dimension, before).await;
                    for after in cases.iter().filter(|after| *after != before) {
                        let key = bench.make(before).await;
                        let reply = caller.actor.put(&path(&key)).json(before.change_to(after)).send().await;
                        let expected = caller.may_change(before, after);
                        caller.check(&reply, expected, &format!("changes {dimension} from {before:?} to {after:?}"));
                        if expected { allowed += 1 } else { refused += 1 }
                    }
                }
            }
        }
        assert!(allowed > 60 && refused > 60, "the matrix shows both: {allowed} allowed, {refused} refused");
    })
    .await;
}

/// Changing keys is a tenant-wide scope, which a key restricted to organizations cannot have.
#[tokio::test]
async fn a_restricted_key_changes_no_key() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let organization = tenant.organization("One").await;
        let bench = Bench { app, tenant, made: std::cell::Cell::new(0) };
        let rights = Rights { scopes: vec!["*"], organizations: Some(vec![organization]), networks: None, days: 30 };
        let limited = bench.caller("limited", rights.clone()).await.actor;
        let key = bench.make(&rights).await;
        let replies = [
            limited.post(KEYS).json(rights.body("Same")).send().await,
            limited.post(&format!("{}/rotate", path(&key))).send().await,
            limited.put(&path(&key)).json(json!({"organization_ids": null})).send().await,
            limited.put(&path(&key)).json(json!({"enabled": false})).send().await,
            limited.delete(&path(&key)).send().await,
        ];
        for reply in replies {
            assert_eq!(reply.problem(403), "insufficient_scope");
        }
    })
    .await;
}

#[tokio::test]
async fn rotating_a_stronger_key_is_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (_, strong) = acme.new_key("Strong", &["*"]).await;
        let weak = acme.key(&["api_keys:write"]).await;
        let refused = weak.post(&format!("{}/rotate", path(&strong))).send().await;
        assert_eq!(refused.problem(403), "insufficient_scope");
        assert!(refused.body["required_scopes"].as_array().unwrap().len() > 20, "{}", refused.body);
        assert!(!refused.text.contains("tck_live_"), "{}", refused.text);
        let bound = json!({"name": "Bound", "scopes": ["*"], "allowed_ips": ["192.0.2.0/24"], "expires_days": 2});
        let bound = acme.admin().await.post(KEYS).json(bound).send().await.ok(201).clone();
        for lifted in [json!({"allowed_ips": null}), json!({"expires_days": 30})] {
            assert_eq!(weak.put(&path(&bound)).json(lifted.clone()).send().await.problem(403), "insufficient_scope", "{lifted}");
        }
        app.anonymous().bearer(strong["key"].as_str().unwrap()).get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_created_key_never_outlives_its_creator() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let minter = json!({"name": "Minter", "scopes": ["api_keys:*"], "expires_days": 10});
        let minter = acme.admin().await.post(KEYS).json(minter).send().await.ok(201).clone();
        let actor = app.anonymous().bearer(minter["key"].as_str().unwrap());
        let body = |name: &str| json!({"name": name, "scopes": ["api_keys:read"]});
        let capped = actor.post(KEYS).json(body("No end")).send().await.ok(201).clone();
        assert_eq!(capped["expires_at"], minter["expires_at"]);
        let mut later = body("Later");
        later["expires_days"] = json!(11);
        let refused = actor.post(KEYS).json(later).send().await;
        assert_eq!((refused.problem(403), &refused.body["latest_expires_at"]), ("insufficient_authority", &minter["expires_at"]));
        assert!(refused.body["detail"].as_str().unwrap().contains("2026-01-11"), "{}", refused.body["detail"]);
        let own = actor.put(&path(&minter)).json(json!({"expires_days": 90})).send().await;
        assert_eq!(own.problem(403), "insufficient_authority", "a key does not extend itself");
    })
    .await;
}

#[tokio::test]
async fn a_replaced_secret_changes_no_credentials() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (old, key) = acme.new_key("Rotating", &["*"]).await;
        let rotate = || old.post(&format!("{}/rotate", path(&key))).header("idempotency-key", "once");
        let an_hour = example("api_keys/rotate_api_key");
        let answer = rotate().json(an_hour.clone()).send().await.ok(200).clone();
        let replayed = rotate().json(an_hour).send().await;
        assert_eq!(replayed.problem(403), "superseded_secret", "the answer to its own rotation is not for the old secret");
        assert!(!replayed.text.contains(answer["key"].as_str().unwrap()));
        let new = app.anonymous().bearer(answer["key"].as_str().unwrap());
        let body = example("api_keys/create_api_key");
        let refused = [
            old.post(KEYS).json(body.clone()).send().await,
            old.put(&path(&key)).json(json!({"name": "Renamed"})).send().await,
            old.post(&format!("{}/rotate", path(&key))).send().await,
            old.delete(&path(&key)).send().await,
            old.post("/api/admin/users").json(example("auth/create_user")).send().await,
            old.post("/api/admin/identity-providers").json(example("sso/create_identity_provider")).send().await,
        ];
        for reply in refused {
            assert_eq!(reply.problem(403), "superseded_secret");
        }
        old.get(KEYS).send().await.ok(200);
        old.post("/api/psa/tickets")
            .json(json!({"subject": "Still works", "organization_id": acme.organization("One").await}))
            .send()
            .await
            .ok(201);
        new.post(KEYS).json(body).send().await.ok(201);
        assert_eq!(new.post(&format!("{}/rotate", path(&key))).header("idempotency-key", "once").send().await.status, 422);
        app.advance(std::time::Duration::from_hours(1));
        assert_eq!(old.get(KEYS).send().await.problem(401), "key_revoked");
    })
    .await;
}

/// The key may still create a webhook, but it does not get the stored secret of an earlier response.
#[tokio::test]
async fn a_replaced_secret_gets_no_kept_secret() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (old, key) = acme.new_key("Rotating", &["*"]).await;
        let create = |actor: &Actor| {
            let body = example("webhooks/create_webhook");
            actor.post("/api/admin/webhooks").header("idempotency-key", "chat").json(body).send()
        };
        let webhook = create(&old).await.ok(201).clone();
        assert!(webhook["secret"].is_string());
        assert_eq!(create(&old).await.ok(201)["secret"], webhook["secret"]);
        let admin = acme.admin().await;
        let rotated = admin.post(&format!("{}/rotate", path(&key))).send().await.ok(200).clone();
        assert_eq!(create(&old).await.problem(403), "superseded_secret");
        let new = app.anonymous().bearer(rotated["key"].as_str().unwrap());
        assert_eq!(create(&new).await.ok(201)["secret"], webhook["secret"], "the new secret is the same credential");
    })
    .await;
}
