//! The workflow step `search.query`: searches the whole tenant. It changes nothing, so it runs outside the writer and may run
//! again.

use serde_json::{Value, json};

use tenantd_base::access::{Grants, Reach, Scope};
use tenantd_store::{
    ReadTx,
    steps::{Call, CallFuture, LocalError, Planned, Planning, RemoteStep, StepDone, StepError, StepType},
};

use super::{
    Search, api,
    error::SearchError,
    model::{Facets, Kind, Mode, Options, Order, Visibility},
};

const DEFAULT_LIMIT: usize = 20;

#[derive(Debug)]
pub(super) struct SearchQuery(pub(super) Search);

impl StepType for SearchQuery {
    fn name(&self) -> &'static str {
        "search.query"
    }

    fn summary(&self) -> &'static str {
        "Searches the tenant. It finds only records that both the author of the workflow and the user or key that started the run may read. The output has `hits` and `total`, as in the search API, and `types`, the types of hits that they may read."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::SearchRead])
    }

    fn reads_more(&self) -> bool {
        true
    }

    /// The output of an earlier release does not list the searched types, so it can contain hits of any type.
    fn has_read(&self, output: &Value) -> Grants {
        let named = output.get("types").and_then(Value::as_array).map(|types| types.iter().map(|kind| Kind::parse(kind.as_str()?)));
        let kinds: Option<Vec<Kind>> = named.and_then(Iterator::collect);
        kinds.unwrap_or_else(|| Kind::ALL.to_vec()).into_iter().filter_map(Kind::scope).collect()
    }

    fn schema(&self) -> Value {
        let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        json!({
            "type": "object",
            "required": ["q"],
            "additionalProperties": false,
            "properties": {
                "q": {"type": "string", "minLength": 1, "maxLength": 200},
                "types": {"type": "array", "items": {"type": "string", "enum": kinds}, "minItems": 1, "maxItems": 8},
                "organization_id": {"type": "string"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "sort": {"type": "string", "enum": ["relevance", "recent"]},
            },
        })
    }

    fn example(&self) -> Value {
        json!({"q": "type:device serial:{{ inputs.serial }}", "limit": 1})
    }

    fn plan(&self, _tx: &ReadTx, _planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let q = with.get("q").and_then(Value::as_str).unwrap_or_default();
        Ok(Planned { output: None, summary: format!("would search for {q}") })
    }
}

fn options(with: &Value) -> Result<Options, StepError> {
    let text = |name: &str| with.get(name).and_then(Value::as_str);
    let wrong = |name: &str| StepError::new("invalid_input", format!("/{name}: is invalid"));
    let kinds = with.get("types").and_then(Value::as_array).into_iter().flatten();
    let kinds = kinds.map(|kind| kind.as_str().and_then(Kind::parse).ok_or_else(|| wrong("types")));
    Ok(Options {
        kinds: kinds.collect::<Result<_, _>>()?,
        organization_id: text("organization_id").map(str::parse).transpose().map_err(|_| wrong("organization_id"))?,
        mode: Mode::Full,
        fuzzy: true,
        order: text("sort").and_then(Order::parse).unwrap_or_default(),
        facets: Facets::default(),
        limit: with.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT),
        after: None,
    })
}

fn failed(error: SearchError) -> StepError {
    match error {
        SearchError::Invalid(faults) => {
            let messages: Vec<String> = faults.into_iter().map(|fault| format!("/q: {}", fault.message)).collect();
            StepError::new("invalid_input", messages.join("; "))
        }
        SearchError::NotReady | SearchError::Busy | SearchError::Index(_) | SearchError::Store(_) => {
            StepError::retryable("unavailable", error.to_string())
        }
    }
}

impl RemoteStep for SearchQuery {
    fn call(&self, call: Call) -> CallFuture {
        let search = self.0.clone();
        Box::pin(async move {
            let q = call.with.get("q").and_then(Value::as_str).unwrap_or_default().to_owned();
            let visibility = Visibility::new(call.tenant_id, call.authority.scopes(), Reach::Everything);
            let options = options(&call.with)?;
            let wanted = |kind: &&Kind| options.kinds.is_empty() || options.kinds.contains(kind);
            let readable = |kind: &&Kind| kind.scope().is_none_or(|scope| call.authority.scopes().allows(scope));
            let types: Vec<&str> = Kind::ALL.iter().filter(wanted).filter(readable).map(|kind| kind.name()).collect();
            let found = search.search(visibility, q, options).await.map_err(failed)?;
            let output = json!({"hits": api::show(found.hits), "total": found.total, "types": types});
            Ok(StepDone { output, effects: Vec::new() })
        })
    }
}
