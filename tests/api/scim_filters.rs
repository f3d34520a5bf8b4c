//! Filters, pages and chosen attributes of the lists of SCIM.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, with_app},
    scim_users::{USERS, created, provider, refusal, send},
};

async fn search(provider: &Actor, body: Value) -> Value {
    send(provider.post(&format!("{USERS}/.search")), &body).await.ok(200).clone()
}

/// The user names that a filter finds.
async fn named(provider: &Actor, filter: &str) -> Vec<String> {
    let found = search(provider, json!({"filter": filter, "attributes": ["userName"]})).await;
    let resources = found["Resources"].as_array().unwrap();
    assert_eq!(found["totalResults"], resources.len());
    let mut names: Vec<String> = resources.iter().map(|user| user["userName"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn filters_find_people() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        tenant.admin().await;
        let organization = tenant.organization("Customer").await;
        tenant.contact(&organization, "contact@customer.example").await;
        let provider = provider(&tenant).await;
        for (name, given, active) in [("ada", "Ada", true), ("bea", "Bea", false), ("cleo", "Cleo", true)] {
            let body = json!({"userName": format!("{name}@acme.example"), "externalId": format!("x-{name}"), "active": active,
                "name": {"givenName": given}, "emails": [{"value": format!("{name}@acme.example"), "type": "work", "primary": true}]});
            created(&provider, USERS, &body).await;
        }
        let cases: [(&str, &[&str]); 12] = [
            ("userName eq \"ADA@acme.example\"", &["ada@acme.example"]),
            ("userName eq \"admin@acme.example\"", &["admin@acme.example"]),
            ("externalId eq \"x-bea\"", &["bea@acme.example"]),
            ("externalId eq \"X-BEA\"", &[]),
            ("userName eq \"ada@acme.example\" and active eq false", &[]),
            ("active eq false", &["bea@acme.example"]),
            ("name.givenName sw \"cl\" or userName sw \"ad\"", &["ada@acme.example", "admin@acme.example", "cleo@acme.example"]),
            ("emails[type eq \"work\" and value co \"bea\"]", &["bea@acme.example"]),
            ("not (externalId pr)", &["admin@acme.example"]),
            ("userName eq \"contact@customer.example\"", &[]),
            ("emails.value ew \"customer.example\"", &[]),
            ("meta.created gt \"2000-01-01T00:00:00Z\" and externalId eq \"x-ada\"", &["ada@acme.example"]),
        ];
        for (filter, names) in cases {
            assert_eq!(named(&provider, filter).await, names, "{filter}");
        }
    })
    .await;
}

#[tokio::test]
async fn lists_have_pages_and_chosen_attributes() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let provider = provider(&tenant).await;
        for number in 0..5 {
            created(&provider, USERS, &json!({"userName": format!("u{number}@acme.example"), "displayName": "U"})).await;
        }
        let page = provider.get(&format!("{USERS}?startIndex=4&count=3&attributes=userName")).send().await.ok(200).clone();
        assert_eq!((&page["totalResults"], &page["startIndex"], &page["itemsPerPage"]), (&json!(5), &json!(4), &json!(2)));
        let first = page["Resources"][0].as_object().unwrap();
        let mut names: Vec<&str> = first.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["id", "schemas", "userName"]);
        let without = search(&provider, json!({"excludedAttributes": ["emails", "meta"], "count": 1})).await;
        assert!(without["Resources"][0].get("emails").is_none() && without["Resources"][0].get("displayName").is_some());
        let none = provider.get(&format!("{USERS}?count=0")).send().await.ok(200).clone();
        assert_eq!((&none["totalResults"], &none["Resources"]), (&json!(5), &json!([])));
        let odd = provider.get(&format!("{USERS}?startIndex=-7&count=100000")).send().await.ok(200).clone();
        assert_eq!((&odd["startIndex"], &odd["itemsPerPage"]), (&json!(1), &json!(5)));
    })
    .await;
}

#[tokio::test]
async fn wrong_lists_are_refused() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let provider = provider(&tenant).await;
        let deep = format!("{}id pr{}", "(".repeat(11), ")".repeat(11));
        let many = vec!["id pr"; 21].join(" or ");
        let long = format!("userName eq \"{}\"", "x".repeat(1000));
        for filter in ["shoeSize eq 4", "userName", "userName eq", "password eq \"x\"", "groups pr", &deep, &many, &long] {
            let reply = send(provider.post(&format!("{USERS}/.search")), &json!({"filter": filter})).await;
            assert_eq!(refusal(&reply, 400), "invalidFilter", "{filter}");
        }
        for query in ["sortBy=userName", "startIndex=one", "attributes=userName&excludedAttributes=name", "count=1&Count=2"] {
            let reply = provider.get(&format!("{USERS}?{query}")).send().await;
            assert_eq!(refusal(&reply, 400), "invalidValue", "{query}");
        }
        let other = provider.get("/scim/v2/Groups?filter=userName%20pr").send().await;
        assert_eq!(refusal(&other, 400), "invalidFilter");
        assert_eq!(provider.get(&format!("{USERS}?unknown=1")).send().await.status, 200, "clients send parameters of their own");
    })
    .await;
}
