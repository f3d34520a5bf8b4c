//! Groups of SCIM, and the roles that they give.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Setup, Tenant, with_app, with_setup},
    quotas::{limit, used},
    scim_users::{SCOPE, USERS, created, id, patched, provider, refusal, send},
    transfer::{export, import},
};

pub(crate) const GROUPS: &str = "/scim/v2/Groups";
pub(crate) const RULES: &str = "/api/admin/provisioning/role-rules";

/// Rules with these groups and roles, and viewers without records as everybody else.
pub(crate) fn rules(given: &[(&Value, &str)]) -> Value {
    let rules: Vec<Value> = given.iter().map(|(group, role)| json!({"group_id": group["id"], "role": role})).collect();
    json!({"rules": rules, "default_role": "viewer", "default_organization_ids": []})
}

fn members(people: &[&Value]) -> Value {
    people.iter().map(|person| json!({"value": person["id"]})).collect()
}

async fn role(admin: &Actor, user: &Value) -> String {
    let account = admin.get(&format!("/api/admin/users/{}", id(user))).send().await.ok(200).clone();
    account["role"].as_str().unwrap().to_owned()
}

async fn person(provider: &Actor, name: &str) -> Value {
    created(provider, USERS, &json!({"userName": format!("{name}@acme.example")})).await
}

#[tokio::test]
async fn groups_are_created_found_changed_and_removed() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let (ada, bea) = (person(&provider, "ada").await, person(&provider, "bea").await);
        let body = json!({"displayName": "Service desk", "externalId": "g-1", "members": members(&[&ada])});
        let reply = send(provider.post(GROUPS), &body).await;
        let group = reply.ok(201).clone();
        assert_eq!(reply.header("location"), group["meta"]["location"]);
        assert_eq!(group["members"][0]["value"], ada["id"]);
        let path = format!("{GROUPS}/{}", id(&group));
        let same = send(provider.post(GROUPS), &json!({"displayName": "SERVICE desk"})).await;
        assert_eq!(refusal(&same, 409), "uniqueness");
        let found = provider
            .get(&format!("{GROUPS}?filter=displayName%20eq%20%22service%20desk%22&excludedAttributes=members"))
            .send()
            .await;
        assert_eq!(found.ok(200)["totalResults"], 1);
        assert!(found.body["Resources"][0].get("members").is_none());
        let added = patched(&provider, &path, json!([{"op": "Add", "path": "members", "value": members(&[&bea, &ada])}])).await;
        assert_eq!(added.ok(200)["members"].as_array().unwrap().len(), 2);
        let of_bea = provider.get(&format!("{USERS}/{}", id(&bea))).send().await.ok(200).clone();
        assert_eq!((&of_bea["groups"][0]["value"], &of_bea["groups"][0]["display"]), (&group["id"], &json!("Service desk")));
        let one = format!("members[value eq \"{}\"]", id(&ada));
        let removed = patched(
            &provider,
            &path,
            json!([{"op": "Remove", "path": one}, {"op": "replace", "path": "displayName", "value": "Desk"}]),
        )
        .await;
        assert_eq!((&removed.ok(200)["displayName"], &removed.body["members"][0]["value"]), (&json!("Desk"), &bea["id"]));
        let replaced = send(provider.put(&path), &json!({"displayName": "Desk", "members": members(&[&ada])})).await;
        assert_eq!(replaced.ok(200)["members"][0]["value"], ada["id"]);
        assert_eq!(replaced.body["externalId"], Value::Null);
        let listed = admin.get("/api/admin/provisioning/groups").send().await.ok(200)["data"].clone();
        assert_eq!((&listed[0]["display_name"], &listed[0]["member_count"]), (&json!("Desk"), &json!(1)));
        let kinds = admin.get("/api/events?types=group.*").send().await.ok(200)["data"].clone();
        let mut kinds: Vec<&str> = kinds.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["group.created", "group.updated", "group.updated", "group.updated"]);
        assert_eq!(provider.delete(&format!("{USERS}/{}", id(&ada))).send().await.status, 204);
        assert_eq!(provider.get(&path).send().await.ok(200)["members"], json!([]), "a removed person is in no group");
        assert_eq!(provider.delete(&path).send().await.status, 204);
        refusal(&provider.get(&path).send().await, 404);
    })
    .await;
}

#[tokio::test]
async fn groups_give_roles() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let organization = tenant.organization("Customer").await;
        let (ada, bea) = (person(&provider, "ada").await, person(&provider, "bea").await);
        let desk = created(&provider, GROUPS, &json!({"displayName": "Desk", "members": members(&[&ada])})).await;
        let admins = created(&provider, GROUPS, &json!({"displayName": "Admins"})).await;
        let mut body = rules(&[(&admins, "admin"), (&desk, "technician")]);
        body["rules"][1]["organization_ids"] = json!([organization]);
        let set = admin.put(RULES).header("if-match", "\"v0\"").json(body.clone()).send().await;
        assert_eq!(set.ok(200)["version"], 1);
        assert_eq!(admin.put(RULES).header("if-match", "\"v0\"").json(body).send().await.problem(412), "version_conflict");
        assert_eq!((role(&admin, &ada).await, role(&admin, &bea).await), ("technician".to_owned(), "viewer".to_owned()));
        let account = admin.get(&format!("/api/admin/users/{}", id(&ada))).send().await.ok(200).clone();
        assert_eq!(account["organizations"][0]["id"], organization);
        let path = |group: &Value| format!("{GROUPS}/{}", id(group));
        let both = json!([{"op": "add", "path": "members", "value": members(&[&ada, &bea])}]);
        patched(&provider, &path(&admins), both).await.ok(200);
        assert_eq!(
            (role(&admin, &ada).await, role(&admin, &bea).await),
            ("admin".to_owned(), "admin".to_owned()),
            "the first rule decides"
        );
        patched(&provider, &path(&admins), json!([{"op": "remove", "path": "members"}])).await.ok(200);
        assert_eq!((role(&admin, &ada).await, role(&admin, &bea).await), ("technician".to_owned(), "viewer".to_owned()));
        assert_eq!(provider.delete(&path(&desk)).send().await.status, 204);
        assert_eq!(role(&admin, &ada).await, "viewer");
        let left = admin.get(RULES).send().await.ok(200).clone();
        assert_eq!((left["rules"].as_array().unwrap().len(), &left["version"]), (1, &json!(2)), "its rule goes with a group");
        let events = admin.get("/api/events?types=provisioning_rules.updated").send().await.ok(200)["data"].clone();
        assert_eq!(events.as_array().unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn accounts_of_administrators_keep_their_role_until_a_rule_is_about_them() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let technician = tenant.user("technician").await.get("/api/auth/session").send().await.ok(200).clone();
        let group = created(&provider, GROUPS, &json!({"displayName": "Viewers", "members": members(&[&technician])})).await;
        admin.put(RULES).json(rules(&[])).send().await.ok(200);
        assert_eq!(role(&admin, &technician).await, "technician");
        admin.put(RULES).json(rules(&[(&group, "viewer")])).send().await.ok(200);
        assert_eq!(role(&admin, &technician).await, "viewer");
    })
    .await;
}

#[tokio::test]
async fn many_members_get_their_roles_before_the_answer() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let group = created(&provider, GROUPS, &json!({"displayName": "All"})).await;
        admin.put(RULES).json(rules(&[(&group, "technician")])).send().await.ok(200);
        let mut people = Vec::new();
        for number in 0..120 {
            people.push(person(&provider, &format!("u{number}")).await);
        }
        let all: Vec<&Value> = people.iter().collect();
        let added = patched(
            &provider,
            &format!("{GROUPS}/{}", id(&group)),
            json!([{"op": "add", "path": "members", "value": members(&all)}]),
        )
        .await;
        assert_eq!(added.ok(200)["members"].as_array().unwrap().len(), 120);
        let found = admin.get("/api/admin/users?role=technician&limit=200").send().await.ok(200)["data"].clone();
        assert_eq!(found.as_array().unwrap().len(), 120);
    })
    .await;
}

#[tokio::test]
async fn a_missing_role_gives_no_records_and_no_later_rule() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let custom = admin.post("/api/admin/roles").json(json!({"name": "Desk", "scopes": ["tickets:read"]})).send().await;
        let custom = id(custom.ok(201));
        let desk = created(&provider, GROUPS, &json!({"displayName": "Desk"})).await;
        let admins = created(&provider, GROUPS, &json!({"displayName": "Admins"})).await;
        admin.put(RULES).json(rules(&[(&desk, custom.as_str()), (&admins, "admin")])).send().await.ok(200);
        tenant.lose_role(&custom).await;
        let ada = person(&provider, "ada").await;
        let join = json!([{"op": "add", "path": "members", "value": members(&[&ada])}]);
        for group in [&admins, &desk] {
            patched(&provider, &format!("{GROUPS}/{}", id(group)), join.clone()).await.ok(200);
        }
        let account = admin.get(&format!("/api/admin/users/{}", id(&ada))).send().await.ok(200).clone();
        assert_eq!((&account["role"], &account["organizations"]), (&json!("viewer"), &json!([])), "{account}");
    })
    .await;
}

#[tokio::test]
async fn stored_rules_are_not_refused_because_of_the_events_that_follow() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let mut people = Vec::new();
        for number in 0..12 {
            people.push(person(&provider, &format!("u{number}")).await);
        }
        let all: Vec<&Value> = people.iter().collect();
        let group = created(&provider, GROUPS, &json!({"displayName": "All", "members": members(&all)})).await;
        // With the reserve, room for the change of the rules and for warnings, but not for the twelve roles.
        let wanted = used(&admin, "events_per_day").await + 4;
        let most = (1..=wanted).find(|most| most + most / 10 >= wanted).unwrap();
        limit(app, &admin, json!({"events_per_day": most})).await.ok(200);
        let set = admin.put(RULES).json(rules(&[(&group, "technician")])).send().await;
        assert_eq!(set.ok(200)["version"], 1);
        for user in &people {
            assert_eq!(role(&admin, user).await, "technician");
        }
    })
    .await;
}

#[tokio::test]
async fn the_version_of_a_person_changes_with_their_groups() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let provider = provider(&tenant).await;
        let ada = person(&provider, "ada").await;
        let group = created(&provider, GROUPS, &json!({"displayName": "Desk"})).await;
        let (path, group) = (format!("{USERS}/{}", id(&ada)), format!("{GROUPS}/{}", id(&group)));
        let mut tag = ada["meta"]["version"].as_str().unwrap().to_owned();
        for change in [
            json!([{"op": "add", "path": "members", "value": members(&[&ada])}]),
            json!([{"op": "replace", "path": "displayName", "value": "Service desk"}]),
        ] {
            patched(&provider, &group, change).await.ok(200);
            let read = provider.get(&path).header("if-none-match", &tag).send().await;
            assert_eq!(
                (read.ok(200)["meta"]["version"].as_str().unwrap(), true),
                (read.header("etag"), read.header("etag") != tag)
            );
            let listed = provider.get(USERS).send().await.ok(200)["Resources"].clone();
            assert!(listed.as_array().unwrap().contains(&read.body), "{listed}");
            let stale = send(provider.put(&path).header("if-match", &tag), &json!({"userName": "ada@acme.example"})).await;
            assert_eq!(refusal(&stale, 412), "");
            tag = read.header("etag").to_owned();
            assert_eq!(provider.get(&path).header("if-none-match", &tag).send().await.status, 304);
        }
        let body = json!({"userName": "ada@acme.example", "displayName": "Ada"});
        assert_eq!(send(provider.put(&path).header("if-match", &tag), &body).await.ok(200)["displayName"], "Ada");
    })
    .await;
}

#[tokio::test]
async fn a_page_of_people_in_many_groups_ends_early() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let tenant = app.tenant("acme").await;
        let provider = provider(&tenant).await;
        let mut people = Vec::new();
        for number in 0..101 {
            people.push(person(&provider, &format!("u{number}")).await);
        }
        let all: Vec<&Value> = people.iter().collect();
        for number in 0..100 {
            created(&provider, GROUPS, &json!({"displayName": format!("g{number}"), "members": members(&all)})).await;
        }
        let page = async |query: &str| {
            let found = provider.get(&format!("{USERS}?count=200{query}")).send().await.ok(200).clone();
            assert_eq!(found["itemsPerPage"], found["Resources"].as_array().unwrap().len());
            assert_eq!(found["totalResults"], 101);
            found["itemsPerPage"].as_u64().unwrap()
        };
        assert_eq!(page("").await, 100, "10,000 memberships");
        assert_eq!(page("&startIndex=101").await, 1);
        assert_eq!(page("&attributes=userName").await, 101, "groups that are not shown do not count");
    })
    .await;
}

#[tokio::test]
async fn imported_rules_give_their_roles_again() {
    with_app(async |old| {
        let tenant = old.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let ada = person(&provider, "ada").await;
        let group = created(&provider, GROUPS, &json!({"displayName": "Desk", "members": members(&[&ada])})).await;
        admin.put(RULES).json(rules(&[(&group, "technician")])).send().await.ok(200);
        // As if the file was made before she had the role.
        admin.put(&format!("/api/admin/users/{}", id(&ada))).json(json!({"role": "viewer"})).send().await.ok(200);
        let file = export(old, &tenant.id, json!({})).await;
        with_app(async |new| {
            let done = import(new, json!({"mode": "import"}), &file).await;
            assert_eq!(done["done"], true, "{done}");
            let arrived = Tenant::known(new, "acme", &tenant.id);
            let (reader, provider) = (arrived.key(&["users:read"]).await, arrived.new_key("New", &[SCOPE]).await.0);
            let rename = json!([{"op": "replace", "path": "displayName", "value": "Service desk"}]);
            patched(&provider, &format!("{GROUPS}/{}", id(&group)), rename).await.ok(200);
            assert_eq!(role(&reader, &ada).await, "technician");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn events_of_groups_say_who_joined_and_who_left() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let (ada, bea, cyd) = (person(&provider, "ada").await, person(&provider, "bea").await, person(&provider, "cyd").await);
        let group = created(&provider, GROUPS, &json!({"displayName": "Desk", "members": members(&[&ada])})).await;
        let path = format!("{GROUPS}/{}", id(&group));
        // Cyd joins and leaves with the same change.
        let change = json!([
            {"op": "add", "path": "members", "value": members(&[&bea, &cyd])},
            {"op": "remove", "path": format!("members[value eq \"{}\"]", id(&ada))},
            {"op": "remove", "path": format!("members[value eq \"{}\"]", id(&cyd))},
        ]);
        patched(&provider, &path, change).await.ok(200);
        patched(&provider, &path, json!([{"op": "replace", "path": "displayName", "value": "Office"}])).await.ok(200);
        assert_eq!(provider.delete(&path).send().await.status, 204);
        let events = admin.get("/api/events?types=group.*").send().await.ok(200)["data"].clone();
        let shown: Vec<Value> =
            events.as_array().unwrap().iter().map(|event| json!([event["type"], event["data"]["members"]])).collect();
        let moved = |added: &[&Value], removed: &[&Value]| {
            let ids = |people: &[&Value]| people.iter().map(|person| person["id"].clone()).collect::<Value>();
            json!({"added": ids(added), "added_count": added.len(), "removed": ids(removed), "removed_count": removed.len()})
        };
        let expected = [
            json!(["group.created", moved(&[&ada], &[])]),
            json!(["group.updated", moved(&[&bea], &[&ada])]),
            json!(["group.updated", moved(&[], &[])]),
            json!(["group.removed", moved(&[], &[&bea])]),
        ];
        assert_eq!(shown, expected);
    })
    .await;
}

#[tokio::test]
async fn a_role_that_rules_give_is_not_deleted() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let group = created(&provider, GROUPS, &json!({"displayName": "Desk"})).await;
        let role = admin.post("/api/admin/roles").json(json!({"name": "Desk", "scopes": ["tickets:read"]})).send().await;
        let role = id(role.ok(201));
        let path = format!("/api/admin/roles/{role}");
        let mut given = rules(&[(&group, &role)]);
        given["default_role"] = json!(role);
        admin.put(RULES).json(given).send().await.ok(200);
        let refused = admin.delete(&path).send().await;
        assert_eq!((refused.problem(409), &refused.body["dependents"]), ("in_use", &json!({"role_rules": 2})));
        assert!(refused.body["detail"].as_str().unwrap().contains(RULES), "{}", refused.text);
        admin.put(RULES).json(rules(&[(&group, "viewer")])).send().await.ok(200);
        assert_eq!(admin.delete(&path).send().await.status, 204);
    })
    .await;
}
