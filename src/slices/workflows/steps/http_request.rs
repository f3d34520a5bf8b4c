//! A request to another server, through the kernel's egress, which checks every address. Every attempt has the same
//! `Idempotency-Key`.
//!
//! Named secrets are filled in when the request is sent, and only for the servers that the secret allows. They are removed from the
//! response.

use std::{collections::BTreeMap, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, TenantKind},
    fault::pointer_part,
    id::TenantId,
    secrets::{Concealer, Secret, SecretText},
};
use tenantd_egress::{Audience, Egress, MAX_BODY_BYTES, Request, Response, TargetUrl, without_query};
use tenantd_platform::Tenants;
use tenantd_secrets::{Refusal, RevealRequest, Vault};
use tenantd_store::{
    ReadTx,
    steps::{Call, CallFuture, LocalError, Planned, Planning, RemoteStep, SecretPlace, StepDone, StepError, StepType},
};

use super::super::{definition::is_bare_reference, language::is_template};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const HIDDEN: &str = "[hidden]";
/// Headers that carry credentials. Headers with the endings below are hidden as well.
const SECRET_HEADERS: [&str; 5] = ["authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth"];
const SECRET_ENDINGS: [&str; 4] = ["-key", "-token", "-secret", "-password"];

#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    pub(crate) egress: Egress,
    pub(crate) tenants: Tenants,
    pub(crate) vault: Vault,
}

/// A request and the secrets in it.
struct Prepared {
    request: Request,
    secrets: Vec<Secret>,
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name != IDEMPOTENCY_KEY.as_str()
        && (SECRET_HEADERS.contains(&name.as_str()) || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending)))
}

fn invalid(message: impl Into<String>) -> StepError {
    StepError::new("invalid_input", message)
}

impl HttpRequest {
    fn audience(&self, tenant: TenantId) -> Audience {
        let tenant = self.tenants.cached(tenant).ok();
        let kind = tenant.as_ref().and_then(|tenant| tenant.as_ref().as_ref().map(|tenant| tenant.kind));
        Audience { allow_loopback: kind == Some(TenantKind::Evaluation) }
    }

    /// Fills in the named secrets, if all of them are allowed at the target.
    async fn prepare(&self, call: &Call) -> Result<Prepared, StepError> {
        let mut with = call.with.clone();
        let mut known: BTreeMap<&str, Secret> = BTreeMap::new();
        for name in call.secrets.iter().flat_map(SecretText::names) {
            let url = target(&with)?;
            let asked = RevealRequest { tenant_id: call.tenant_id, workflow_id: call.workflow_id, url: &url };
            known.insert(name, self.vault.reveal(asked, name).await.map_err(|refusal| refused(&refusal))?);
        }
        let mut sensitive = Vec::new();
        for text in &call.secrets {
            let filled = text.filled(|name| known.get(name)).zip(with.pointer_mut(&text.pointer));
            let (filled, place) =
                filled.ok_or_else(|| invalid(format!("{}: the text that the secret belongs to is missing", text.pointer)))?;
            *place = Value::String(filled.expose().to_owned());
            sensitive.push(text.pointer.as_str());
        }
        Ok(Prepared { request: self.request(call, &with, &sensitive)?, secrets: known.into_values().collect() })
    }

    /// `sensitive` are the pointers of texts that contain secrets.
    fn request(&self, call: &Call, with: &Value, sensitive: &[&str]) -> Result<Request, StepError> {
        let text = |name: &str| with.get(name).and_then(Value::as_str);
        let method = text("method").unwrap_or("GET").parse::<Method>().map_err(|_| invalid("/method: not a valid HTTP method"))?;
        let url = target(with)?;
        let mut headers = HeaderMap::new();
        let (body, content_type) = match with.get("body") {
            None | Some(Value::Null) => (Vec::new(), None),
            Some(Value::String(text)) => (text.clone().into_bytes(), Some("text/plain; charset=utf-8")),
            Some(other) => (other.to_string().into_bytes(), Some("application/json")),
        };
        if let Some(content_type) = content_type {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        for (name, value) in with.get("headers").and_then(Value::as_object).into_iter().flatten() {
            let wrong = || invalid(format!("/headers/{name}: not a valid header"));
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value.as_str().unwrap_or_default()).map_err(|_| wrong())?;
            value.set_sensitive(is_secret(name) || sensitive.contains(&format!("/headers/{}", pointer_part(name)).as_str()));
            headers.insert(header, value);
        }
        headers.insert(
            IDEMPOTENCY_KEY,
            HeaderValue::from_str(&call.idempotency_key)
                .map_err(|_| invalid("the idempotency key of the step is not a valid header value"))?,
        );
        let timeout = with.get("timeout_seconds").and_then(Value::as_u64).map_or(call.timeout, Duration::from_secs);
        Ok(Request {
            method,
            url,
            headers,
            body: body.into(),
            timeout: timeout.min(call.timeout),
            audience: self.audience(call.tenant_id),
            ca_pem: None,
            pinned_certificate: None,
            max_body_bytes: MAX_BODY_BYTES,
            // The receiver can recognize a repetition by its key.
            repeatable: true,
        })
    }
}

fn target(with: &Value) -> Result<TargetUrl, StepError> {
    let url = with.get("url").and_then(Value::as_str).unwrap_or_default();
    TargetUrl::parse(url).map_err(|problem| invalid(format!("/url: {problem}")))
}

fn refused(refusal: &Refusal) -> StepError {
    let message = match refusal {
        Refusal::Sealing(error) => {
            tracing::error!(%error, "could not open a named secret");
            "tenantd cannot decrypt the stored value; rotate the secret".to_owned()
        }
        other => other.to_string(),
    };
    StepError { retryable: refusal.is_transient(), ..StepError::new(refusal.code(), message) }
}

/// The output of the step for a response. A server may echo the secrets that it received.
fn output(response: &Response, concealer: &Concealer) -> Value {
    let text = |name: header::HeaderName| response.headers.get(name).and_then(|value| value.to_str().ok());
    let content_type = concealer.conceal_text(text(header::CONTENT_TYPE).unwrap_or_default());
    let bytes = concealer.conceal(&response.body, response.truncated);
    let parsed = content_type.contains("json").then(|| serde_json::from_slice::<Value>(&bytes).ok()).flatten();
    let body = parsed.unwrap_or_else(|| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    json!({"status": response.status.as_u16(), "content_type": content_type, "body": body, "truncated": response.truncated})
}

fn accepted(with: &Value, status: u16) -> bool {
    match with.get("accept_statuses").and_then(Value::as_array) {
        Some(statuses) => statuses.iter().any(|accepted| accepted.as_u64() == Some(u64::from(status))),
        None => (200..300).contains(&status),
    }
}

impl StepType for HttpRequest {
    fn name(&self) -> &'static str {
        "http.request"
    }

    fn summary(&self) -> &'static str {
        "Sends an HTTP request. The output has `status` and `body`, with at most 16 KiB. A status other than 2xx fails the step, unless \
         `accept_statuses` contains it; 408, 429 and 5xx can be retried. Redirects are not followed. `{{ secrets.NAME }}` inserts a \
         named secret in the value of a header or in texts of `body`. It is sent only to the hosts that the secret allows."
    }

    fn scopes(&self) -> Grants {
        Grants::NONE
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["url"],
            "properties": {
                "method": {"type": "string", "enum": ["GET", "POST", "PUT", "PATCH", "DELETE"], "description": "The HTTP method. Defaults to `GET`."},
                "url": {"type": "string", "minLength": 1, "maxLength": 2048},
                "headers": {
                    "type": "object",
                    "maxProperties": 20,
                    "additionalProperties": {"type": "string", "maxLength": 4096},
                    "description": "The record of the step does not show the values of headers with credentials. Do not write credentials here in plain text: \
                                    use a named secret, such as `Bearer {{ secrets.NAME }}`.",
                },
                "body": {"description": "The request body: a text is sent unchanged, any other value as JSON. Its texts can contain named secrets."},
                "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 60},
                "accept_statuses": {"type": "array", "items": {"type": "integer", "minimum": 100, "maximum": 599}, "minItems": 1, "maxItems": 20},
            },
        })
    }

    fn example(&self) -> Value {
        json!({"method": "POST", "url": "https://chat.example.com/hooks/ops", "body": {"text": "{{ event.data.ticket.ref }} is late"}})
    }

    fn redact(&self, with: &mut Value) {
        let headers = with.get_mut("headers").and_then(Value::as_object_mut);
        for (name, value) in headers.into_iter().flatten() {
            if is_secret(name) && !value.as_str().is_some_and(is_bare_reference) {
                *value = Value::String(HIDDEN.to_owned());
            }
        }
    }

    fn redact_in_event(&self, with: &mut Value) {
        self.redact(with);
        if let Some(Value::String(url)) = with.get_mut("url") {
            *url = without_query(url).to_owned();
        }
    }

    fn secret_places(&self) -> &'static [SecretPlace] {
        &[SecretPlace::Headers("headers"), SecretPlace::Texts("body")]
    }

    fn literal_credentials(&self, with: &Value) -> Vec<String> {
        let headers = with.get("headers").and_then(Value::as_object).into_iter().flatten();
        let is_literal = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty() && !is_template(text));
        let literal = headers.filter(|(name, value)| is_secret(name) && is_literal(value));
        literal.map(|(name, _)| format!("/headers/{}", pointer_part(name))).collect()
    }

    fn plan(&self, _tx: &ReadTx, _planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let text = |name: &str| with.get(name).and_then(Value::as_str);
        target(with).map_err(LocalError::Step)?;
        let url = text("url").unwrap_or_default();
        Ok(Planned { output: None, summary: format!("would send {} {url}", text("method").unwrap_or("GET")) })
    }
}

impl RemoteStep for HttpRequest {
    fn call(&self, call: Call) -> CallFuture {
        let this = self.clone();
        Box::pin(async move {
            let Prepared { request, secrets } = this.prepare(&call).await?;
            let concealer = Concealer::new(&secrets);
            let response = match this.egress.send(request).await.outcome {
                Ok(response) => response,
                Err(error) => {
                    let message = concealer.conceal_text(&error.to_string());
                    return Err(StepError::retryable(&format!("http_{}", error.code()), message));
                }
            };
            let status = response.status.as_u16();
            if accepted(&call.with, status) {
                return Ok(StepDone { output: output(&response, &concealer), effects: Vec::new() });
            }
            let message = format!("the server responded with status {status}");
            Err(match status {
                408 | 429 | 500..=599 => StepError::retryable("http_status", message),
                _ => StepError::new("http_status", message),
            })
        })
    }
}
