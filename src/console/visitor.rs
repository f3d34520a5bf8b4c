//! A visit to a page of the desk: the reader, what the page asks of the API for them, and what their forms ask for.

use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, StatusCode};
use jiff::tz::TimeZone;
use maud::Markup;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use tenantd_base::{
    access::{Identity, Principal, Scope},
    return_path::ReturnPath,
};
use tenantd_http::{
    pages::{ApiAnswer, Call, PageVisit},
    problem::Code,
};

use crate::{
    form::{Fields, LIST, VERSION, once, tokens},
    moment::Clock,
    query::Query,
    refusal::Refusal,
};

/// The parameter of a page that says how the form before it ended.
const NOTICE: &str = "notice";
const ALREADY_DELETED: &str = "already_deleted";

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
    /// Reads of lists that the API has refused because of the query. The page shows an empty list in their place.
    refused: &'a [Refusal],
    /// Set if the API wants a recent sign-in for what the form asks.
    needs_confirmation: &'a AtomicBool,
}

impl<'a> Visitor<'a> {
    pub(crate) fn new(
        visit: &'a PageVisit<'a>,
        reader: &'a Principal,
        preferences: &'a Preferences,
        clock: &'a Clock,
        parts: &'a [(String, String)],
        needs_confirmation: &'a AtomicBool,
    ) -> Self {
        Self { visit, reader, preferences, clock, parts, refused: &[], needs_confirmation }
    }

    pub(crate) fn with_refused(self, refused: &'a [Refusal]) -> Self {
        Self { refused, ..self }
    }

    /// The part of the path with this name.
    pub(crate) fn part(&self, name: &str) -> &'a str {
        self.parts.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn query(&self) -> Query {
        Query::parse(self.visit.query).without(NOTICE)
    }

    /// What a form that led to this page has to say.
    pub(crate) fn notice(&self) -> Option<&'static str> {
        (Query::parse(self.visit.query).first(NOTICE) == ALREADY_DELETED).then_some("It was already deleted.")
    }

    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.reader.grants.allows(scope)
    }

    pub(crate) fn name(&self) -> &str {
        match &self.reader.identity {
            Identity::User { name, .. } | Identity::Contact { name, .. } | Identity::ApiKey { name, .. } => name,
            Identity::LocalOperator => "Local operator",
        }
    }

    /// A request that means the same if somebody else sends it: `me` becomes the id of the reader.
    pub(crate) fn shared(&self, target: &str) -> String {
        match &self.reader.identity {
            Identity::User { id, .. } => target.replace("assignee_id=me", &format!("assignee_id={id}")),
            Identity::Contact { .. } | Identity::ApiKey { .. } | Identity::LocalOperator => target.to_owned(),
        }
    }

    pub(crate) fn fields(&self) -> Fields {
        Fields::new(self.visit.form.unwrap_or_default())
    }

    /// The list to show after a form whose record is already gone. `None` if the form does not delete a record.
    pub(crate) fn list_without(&self) -> Option<String> {
        let list = ReturnPath::parse(self.fields().get(LIST))?;
        let (path, query) = list.as_str().split_once('?').unwrap_or((list.as_str(), ""));
        Some(Query::parse(query).with(NOTICE, ALREADY_DELETED).at(path))
    }

    /// The fields that every form has: they show that it comes from this page, and let it act once.
    pub(crate) fn tokens(&self) -> Markup {
        tokens(self.visit.form_token)
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, target: impl Into<String>) -> Result<T, Refusal> {
        let target = target.into();
        if let Some(refusal) = self.refused.iter().find(|refusal| *refusal.target == *target) {
            let empty = json!({"data": [], "page": {"next_cursor": null}});
            return serde_json::from_value(empty).map_err(|_| refusal.clone());
        }
        let answer = self.call(Call::get(target.clone())).await;
        parsed(answer.map_err(|refusal| Refusal { target: target.into(), ..refusal })?.body)
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
        let mut call = Call::send(method, target, body);
        if call.method == Method::POST {
            call.idempotency_key = once(&self.fields(), &call);
        }
        self.act_with(call).await
    }

    /// As [`Self::act`], for an operation other than a POST that takes an idempotency key.
    pub(crate) async fn act_once(&self, method: Method, target: impl Into<String>, body: Value) -> Result<ApiAnswer, Refusal> {
        let mut call = Call::send(method, target, Some(body));
        call.idempotency_key = once(&self.fields(), &call);
        self.act_with(call).await
    }

    async fn act_with(&self, mut call: Call) -> Result<ApiAnswer, Refusal> {
        let (fields, target) = (self.fields(), call.target.clone());
        match call.method {
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
        let refusal = Refusal::of(&answer);
        if refusal.as_ref().is_some_and(|refusal| refusal.is(Code::RecentSignInRequired)) {
            self.needs_confirmation.store(true, Ordering::Relaxed);
        }
        refusal.map_or(Ok(answer), Err)
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
    // The script tells the zone of the browser. Behind a proxy only the browser knows whether the connection is secure.
    let told = ["__Host-time_zone", "time_zone"].into_iter().filter_map(|name| visit.cookie(name));
    let names = preferences.time_zone.as_deref().into_iter().chain(told);
    let zone = names.filter(|name| name.len() <= MAX_ZONE_NAME).find_map(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    (preferences, Clock { now: visit.now, zone })
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
