//! A visit to a page of the desk: the reader, what the page asks of the API for them, and what their forms ask for.

use http::{Method, StatusCode};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use tenantd_base::{
    access::{Identity, Principal, Scope},
    entropy,
    secrets::digest,
};
use tenantd_http::{
    pages::{ApiAnswer, Call, FORM_TOKEN, PageVisit},
    problem::Code,
};

use crate::{
    form::{Fields, ONCE, VERSION},
    moment::Clock,
    query::Query,
    refusal::Refusal,
};

/// The names of zones are shorter, in bytes.
const MAX_ZONE_NAME: usize = 64;

/// How the reader wants pages to look.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Preferences {
    pub(crate) time_zone: Option<String>,
    #[serde(default)]
    pub(crate) theme: String,
    #[serde(default)]
    pub(crate) version: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Visitor<'a> {
    pub(crate) visit: &'a PageVisit<'a>,
    pub(crate) reader: &'a Principal,
    pub(crate) preferences: &'a Preferences,
    pub(crate) clock: &'a Clock,
    /// What the parts of the route in braces stand for.
    parts: &'a [(String, String)],
}

impl<'a> Visitor<'a> {
    pub(crate) fn new(
        visit: &'a PageVisit<'a>,
        reader: &'a Principal,
        preferences: &'a Preferences,
        clock: &'a Clock,
        parts: &'a [(String, String)],
    ) -> Self {
        Self { visit, reader, preferences, clock, parts }
    }

    /// The part of the path with this name.
    pub(crate) fn part(&self, name: &str) -> &'a str {
        self.parts.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn query(&self) -> Query {
        Query::parse(self.visit.query)
    }

    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.reader.grants.allows(scope)
    }

    pub(crate) fn name(&self) -> &str {
        match &self.reader.identity {
            Identity::User { name, .. } | Identity::ApiKey { name, .. } => name,
            Identity::LocalOperator => "Local operator",
        }
    }

    /// A request that means the same if somebody else sends it: `me` becomes the id of the reader.
    pub(crate) fn shared(&self, target: &str) -> String {
        match &self.reader.identity {
            Identity::User { id, .. } => target.replace("assignee_id=me", &format!("assignee_id={id}")),
            Identity::ApiKey { .. } | Identity::LocalOperator => target.to_owned(),
        }
    }

    pub(crate) fn fields(&self) -> Fields {
        Fields::new(self.visit.form.unwrap_or_default())
    }

    /// The fields that every form has: they show that it comes from this page, and let it act once.
    pub(crate) fn tokens(&self) -> Markup {
        let once = data_encoding::HEXLOWER.encode(&entropy::quick_bytes::<12>());
        html! {
            input type="hidden" name=(FORM_TOKEN) value=(self.visit.form_token);
            input type="hidden" name=(ONCE) value=(once);
        }
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, target: impl Into<String>) -> Result<T, Refusal> {
        parsed(self.call(Call::get(target)).await?.body)
    }

    /// Reads what the page can do without: nothing if the reader may not see it, or if there is no such record.
    pub(crate) async fn read_if_allowed<T: DeserializeOwned>(&self, target: impl Into<String>) -> Result<Option<T>, Refusal> {
        match self.read(target).await {
            Ok(value) => Ok(Some(value)),
            Err(refusal) if refusal.status.is_client_error() && refusal.status != StatusCode::TOO_MANY_REQUESTS => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Does what a form asks for. A form that is sent twice acts once.
    pub(crate) async fn act(&self, method: Method, target: impl Into<String>, body: Option<Value>) -> Result<ApiAnswer, Refusal> {
        let (fields, target) = (self.fields(), target.into());
        let mut call = Call::send(method, target.clone(), body);
        match call.method {
            Method::POST => call.idempotency_key = once(&fields, &call),
            Method::PATCH | Method::PUT | Method::DELETE if !fields.get(VERSION).is_empty() => {
                call.if_match = Some(format!("\"v{}\"", fields.get(VERSION).trim_start_matches('v')));
            }
            _ => {}
        }
        let changes = matches!(call.method, Method::PATCH | Method::PUT) && !target.contains("dry_run=");
        let wanted = call.body.clone().filter(|_| changes);
        match (self.call(call).await, wanted) {
            (Err(refusal), Some(wanted)) if refusal.is(Code::VersionConflict) => {
                // The same form was sent before, or somebody else has made the same change.
                let found = self.call(Call::get(target)).await?;
                if is_already(&found.body, &wanted) { Ok(found) } else { Err(refusal) }
            }
            (outcome, _) => outcome,
        }
    }

    async fn call(&self, call: Call) -> Result<ApiAnswer, Refusal> {
        let answer = self.visit.api.call(call).await;
        Refusal::of(&answer).map_or(Ok(answer), Err)
    }
}

/// What the API answered, as the page needs it.
pub(crate) fn parsed<T: DeserializeOwned>(body: Value) -> Result<T, Refusal> {
    serde_json::from_value(body).map_err(|error| {
        tracing::error!(%error, "a page cannot read an answer of the API");
        Refusal::internal()
    })
}

/// The preferences of the reader and the clock that follows from them.
pub(crate) async fn preferences(visit: &PageVisit<'_>) -> (Preferences, Clock) {
    let answer = visit.api.call(Call::get("/api/auth/preferences")).await;
    let preferences: Preferences =
        if answer.status.is_success() { serde_json::from_value(answer.body).unwrap_or_default() } else { Preferences::default() };
    // The script tells the zone of the browser.
    let names = preferences.time_zone.as_deref().into_iter().chain(visit.cookie("time_zone"));
    let zone = names.filter(|name| name.len() <= MAX_ZONE_NAME).find_map(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    (preferences, Clock { now: visit.now, zone })
}

/// The idempotency key of a form: its token and what it asks for. A form that is corrected and sent again is another request.
fn once(fields: &Fields, call: &Call) -> Option<String> {
    let token = Some(fields.get(ONCE)).filter(|token| !token.is_empty())?;
    let text = format!("{token}\n{}\n{}", call.target, call.body.as_ref().map(Value::to_string).unwrap_or_default());
    Some(data_encoding::HEXLOWER.encode(&digest(text.as_bytes())))
}

/// Whether a record already is as a merge patch would make it. A member `x_id` of a patch is the `id` of `x` in the record.
fn is_already(record: &Value, patch: &Value) -> bool {
    let is_so = |(name, wanted): (&String, &Value)| {
        let linked = || record.get(name.strip_suffix("_id")?)?.get("id");
        let found = record.get(name).or_else(linked).unwrap_or(&Value::Null);
        found == wanted
    };
    patch.as_object().is_some_and(|members| members.iter().all(is_so))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_that_is_already_made_is_recognized() {
        let record = json!({"status": "open", "assignee": {"id": "usr_1", "name": "Ada"}, "tags": ["a"]});
        assert!(is_already(&record, &json!({"status": "open", "assignee_id": "usr_1", "queue": null})));
        assert!(!is_already(&record, &json!({"status": "open", "assignee_id": null})));
        assert!(!is_already(&record, &json!({"tags": ["b"]})));
    }
}
