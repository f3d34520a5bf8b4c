//! A new tenant: an empty one, or an evaluation with sample data. The credentials of an evaluation are shown once.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{API, HOME, PATH, Tenant, number};
use crate::{
    components::{card, code, curl, facts, page_head},
    desk::{
        Content, Reply,
        organizations::{RecordForm, is_correctable, trail},
        tickets::renamed,
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

const EVALUATIONS: &str = "/api/platform/evaluations";
/// The field that says which of the two forms was sent.
const KIND: &str = "kind";
const EVALUATION: &str = "evaluation";
const EXPIRES: &str = "expires_days";
/// The fields about the sample data, which are numbers.
const SAMPLE: [(&str, &str, &str); 4] = [
    ("organizations", "Organizations", "At most 96. Empty: 24."),
    ("devices", "Devices", "At most 200 for each organization. Empty: 20 for each."),
    ("tickets", "Tickets", "At most 10,000. Empty: 1,000."),
    ("seed", "Seed", "The same seed and slug give the same data. Empty: 1."),
];

/// A new evaluation tenant with its credentials. No other answer contains them.
#[derive(Deserialize)]
struct Created {
    tenant: Tenant,
    email: String,
    password: String,
    api_key: String,
}

pub(super) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let mut fields = Fields::default();
    fields.set(KIND, visitor.query().first(KIND));
    Ok(page(&visitor, &fields, None))
}

pub(super) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let is_evaluation = fields.get(KIND) == EVALUATION;
    let body = if is_evaluation { evaluation(&fields) } else { Value::Object(fields.filled(&["name", "slug"])) };
    match visitor.act(Method::POST, if is_evaluation { EVALUATIONS } else { API }, Some(body)).await {
        Ok(answer) if is_evaluation => Ok(credentials(&parsed(answer.body)?)),
        Ok(answer) => Ok(Reply::SeeOther(parsed::<Tenant>(answer.body)?.path())),
        Err(refusal) if is_correctable(&refusal) => {
            let names = SAMPLE.map(|(name, ..)| (format!("/sample/{name}"), name));
            let names: Vec<(&str, &str)> = names.iter().map(|(place, name)| (place.as_str(), *name)).collect();
            Ok(page(&visitor, &fields, Some(&renamed(refusal, &names))))
        }
        Err(refusal) => Err(refusal),
    }
}

/// The body of the request for an evaluation. A field that is empty has the default of the API.
fn evaluation(fields: &Fields) -> Value {
    let mut body = fields.filled(&["name", "slug"]);
    if !fields.get(EXPIRES).is_empty() {
        body.insert(EXPIRES.to_owned(), number(fields, EXPIRES));
    }
    let given = SAMPLE.iter().filter(|(name, ..)| !fields.get(name).is_empty());
    let mut sample: Map<String, Value> = given.map(|(name, ..)| ((*name).to_owned(), number(fields, name))).collect();
    if fields.has("runs") {
        sample.insert("runs".to_owned(), true.into());
    }
    if !sample.is_empty() {
        body.insert("sample".to_owned(), Value::Object(sample));
    }
    Value::Object(body)
}

fn page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let is_evaluation = fields.get(KIND) == EVALUATION;
    let (title, below, target, example) = if is_evaluation {
        let example = json!({"name": "Trial", "expires_days": 14, "sample": {"organizations": 2, "devices": 20, "tickets": 20}});
        (
            "New evaluation tenant",
            "A tenant with sample data to try tenantd. tenantd deletes it when it expires.",
            EVALUATIONS,
            example,
        )
    } else {
        ("New tenant", "An empty tenant. It is active at once and has no users yet.", API, json!({"name": "Acme", "slug": "acme"}))
    };
    let form = RecordForm {
        title: title.to_owned(),
        below,
        trail: html! { (trail(&[(HOME, "Operator"), (PATH, "Tenants")])) (kinds(is_evaluation)) },
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: if is_evaluation { "Create evaluation" } else { "Create tenant" },
        version: None,
        curl: curl(visitor.visit.base_url, "POST", target, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    let slug_hint = "A short name for URLs and commands: lower-case letters, digits and hyphens. Empty: derived from the name.";
    let inputs = html! {
        input type="hidden" name=(KIND) value=(fields.get(KIND));
        (shown.field("name", "Name", Control::Input("text"), "", true))
        (shown.field("slug", "Slug", Control::Input("text"), slug_hint, false))
        @if is_evaluation { (sample(shown)) }
    };
    form.page(visitor, shown, &inputs)
}

fn kinds(is_evaluation: bool) -> Markup {
    let chip = |path: String, title: &str, is_current: bool| {
        html! { a.chip href=(path) aria-current=[is_current.then_some("page")] { (title) } }
    };
    html! {
        nav.chips aria-label="Kind of tenant" {
            (chip(format!("{PATH}/new"), "Tenant", !is_evaluation))
            (chip(format!("{PATH}/new?{KIND}={EVALUATION}"), "Evaluation with sample data", is_evaluation))
        }
    }
}

fn sample(shown: Shown<'_>) -> Markup {
    html! {
        (shown.field(EXPIRES, "Days until tenantd deletes it", Control::Input("number"), "1 to 365. Empty: 30.", false))
        h2 { "Sample data" }
        @for (name, label, hint) in SAMPLE { (shown.field(name, label, Control::Input("number"), hint, false)) }
        label.check {
            input type="checkbox" name="runs" value="yes" checked[shown.fields.has("runs")];
            " Start some workflows, so that there are runs to look at"
        }
    }
}

/// The page with the credentials of the visitor. It answers the form, so no address leads to it.
fn credentials(created: &Created) -> Reply {
    let tenant = &created.tenant;
    let body = html! {
        (trail(&[(HOME, "Operator"), (PATH, "Tenants")]))
        (page_head(
            &html! { (tenant.name) },
            &html! { (tenant.status_badge()) " Evaluation tenant" },
            &html! { a.button.primary href=(tenant.path()) { "Show the tenant" } },
        ))
        p.note role="status" { "Copy these credentials now. tenantd does not show them again." }
        (card("Credentials", &html! {
            (facts(&[
                ("Sign in at", Some(code("/sign-in"))),
                ("Email address", Some(code(&created.email))),
                ("Password", Some(code(&created.password))),
                ("API key", Some(code(&created.api_key))),
            ]))
            p { "They work when the tenant is active. tenantd writes the sample data first, which takes some seconds." }
        }))
    };
    Reply::Page(Content::new("New evaluation tenant", body).with_secret())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_has_only_the_options_that_were_given() {
        let mut fields = Fields::default();
        fields.set("name", "Trial");
        fields.set("slug", "");
        assert_eq!(evaluation(&fields), json!({"name": "Trial"}));
        fields.set(EXPIRES, "14");
        fields.set("devices", "20");
        fields.set("runs", "yes");
        assert_eq!(evaluation(&fields), json!({"name": "Trial", "expires_days": 14, "sample": {"devices": 20, "runs": true}}));
    }
}
