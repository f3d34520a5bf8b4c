//! Errors as clients see them: `application/problem+json` (RFC 9457) with a stable `code`.
//!
//! The registry below lists every code once, with its status and its remedy. The documentation is generated from it. A slice maps
//! its own error enum to a [`Problem`] in its `api/mod.rs`, exhaustively. `edge` turns framework errors into problems.

use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use tenantd_base::{
    authority::{Lacking, Within},
    fault::{self, Fault},
    quotas::QuotaExceeded,
};
use tenantd_store::StoreError;

macro_rules! codes {
    ($($variant:ident $name:literal $status:ident $title:literal $remedy:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($variant),* }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),* }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }

            /// What the caller can do about it.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy),* }
            }
        }
    };
}

codes! {
    MalformedJson "malformed_json" BAD_REQUEST "Malformed JSON" "Send one JSON value in UTF-8 without duplicate members. Do not nest it deeper than the limit.";
    UnknownParameter "unknown_parameter" BAD_REQUEST "Unknown query parameter" "Remove or correct the parameter. `errors` names it and suggests the closest one.";
    MalformedRequest "malformed_request" BAD_REQUEST "Malformed request" "Correct what `detail` names.";
    CursorMismatch "cursor_mismatch" BAD_REQUEST "Cursor mismatch" "Use the cursor only with the filters and the sort order that it came from, or start without a cursor.";
    IdMismatch "id_mismatch" BAD_REQUEST "Conflicting ids" "Send the id once: in the path, as `?id=`, or in the body.";
    AmbiguousCredentials "ambiguous_credentials" BAD_REQUEST "Conflicting credentials" "Send one credential: `Authorization`, `X-API-Key` or the session cookie.";
    MissingCredentials "missing_credentials" UNAUTHORIZED "Authentication required" "Send an API key as `Authorization: Bearer …` or `X-API-Key: …`, or sign in.";
    InvalidCredentials "invalid_credentials" UNAUTHORIZED "Invalid credentials" "Check the key or the password for typing errors. If the key is lost, create a new one.";
    KeyExpired "key_expired" UNAUTHORIZED "API key expired" "Create a new key, or extend this one as an administrator.";
    KeyRevoked "key_revoked" UNAUTHORIZED "API key revoked" "If the key was rotated, use its new secret. Otherwise create a new key.";
    KeyDisabled "key_disabled" UNAUTHORIZED "API key disabled" "Enable the key, or create a new one.";
    PersonalKeysForbidden "personal_keys_forbidden" UNAUTHORIZED "Personal keys forbidden" "The sign-in policy of your tenant forbids personal keys. Ask an administrator for a key of the tenant, or to allow personal keys.";
    SessionExpired "session_expired" UNAUTHORIZED "Session expired" "Sign in again.";
    SecondFactorRequired "second_factor_required" UNAUTHORIZED "Second factor required" "Send `challenge` with one of `methods` to `POST /api/auth/second-factor` within `expires_in_seconds`.";
    SecondFactorMissing "second_factor_missing" FORBIDDEN "Second factor missing" "This needs a second factor that the session has not proven. Add one with `POST /api/auth/factors/totp`, or prove one with `POST /api/auth/factors/verify`.";
    InsufficientScope "insufficient_scope" FORBIDDEN "Missing scope" "Use an API key or a role that has one of `required_scopes`, or all of them if `detail` says so.";
    PortalOnly "portal_only" FORBIDDEN "Only the portal" "You are a contact of a customer. Use `/api/portal/` for your tickets, and `/api/auth/` for your own account.";
    ContactRequired "contact_required" FORBIDDEN "Contact required" "Only a contact with portal access can use the portal. Staff and API keys use `/api/psa/tickets`.";
    InsufficientAuthority "insufficient_authority" FORBIDDEN "Insufficient authority" "Use a credential that has what `detail` names, or ask for less. You can only create, change or act through a credential whose scopes, organizations, networks and lifetime your own credential covers.";
    SupersededSecret "superseded_secret" FORBIDDEN "Secret replaced by a rotation" "Use the new secret of the key. Until the overlap ends, the old secret can do everything except create or change credentials.";
    SingleSignOnRequired "single_sign_on_required" FORBIDDEN "Single sign-on required" "Sign in through the identity provider that `identity_provider` names: open `sign_in_path`. If the provider fails, use a break-glass account.";
    AdminRequired "admin_required" FORBIDDEN "Administrator required" "Ask an administrator of your tenant.";
    OperatorRequired "operator_required" FORBIDDEN "Operator required" "Ask the operator of the installation. Only the operator can do this.";
    RecentSignInRequired "recent_sign_in_required" FORBIDDEN "Recent sign-in required" "Confirm that it is you with `POST /api/auth/confirm`, then repeat the request. If you sign in through an identity provider, sign in again.";
    IpNotAllowed "ip_not_allowed" FORBIDDEN "Address not allowed" "Send the request from an address in the key's `allowed_ips`.";
    HttpsRequired "https_required" FORBIDDEN "HTTPS required" "Use the `https://` address. If the request carried a credential, replace it, because it was sent without encryption.";
    CsrfFailed "csrf_failed" FORBIDDEN "Cross-site request refused" "Send requests that change something from this site, or use an API key.";
    TenantSuspended "tenant_suspended" FORBIDDEN "Tenant suspended" "Ask the operator of the installation.";
    NotFound "not_found" NOT_FOUND "Not found" "Check the path and the id. Records of other tenants are also reported as not found.";
    SsoProviderNotFound "sso_provider_not_found" NOT_FOUND "No single sign-on for this domain" "Check the domain, or sign in with a password.";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "Method not allowed" "Use a method that the `Allow` header lists.";
    NotAcceptable "not_acceptable" NOT_ACCEPTABLE "Not acceptable" "Accept `application/json`, or omit the `Accept` header.";
    AlreadyExists "already_exists" CONFLICT "Already exists" "Choose another value for the field that `detail` names, or use the existing record.";
    InUse "in_use" CONFLICT "In use" "Stop or remove what uses the record, then repeat the request.";
    InvalidTransition "invalid_transition" CONFLICT "Invalid transition" "Read `detail` to see what the current state of the record allows.";
    TenantRequired "tenant_required" CONFLICT "Tenant required" "Repeat the request and name one of `tenants`.";
    RunNotCancellable "run_not_cancellable" CONFLICT "Run has ended" "Use `retry` to start a new run. A run that has ended cannot be changed.";
    IdempotencyInProgress "idempotency_in_progress" CONFLICT "Request still in progress" "Wait until the first request with this key is done, then repeat the request.";
    VersionConflict "version_conflict" PRECONDITION_FAILED "Version conflict" "Read the record again, then repeat the change with its new `ETag`.";
    PayloadTooLarge "payload_too_large" PAYLOAD_TOO_LARGE "Request too large" "Send less in one request.";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE "Unsupported media type" "Send `Content-Type: application/json`.";
    ValidationFailed "validation_failed" UNPROCESSABLE_ENTITY "Validation failed" "Correct every entry of `errors`.";
    IdempotencyKeyReused "idempotency_key_reused" UNPROCESSABLE_ENTITY "Idempotency key reused" "Use a new `Idempotency-Key` for each different request.";
    QuotaExceeded "quota_exceeded" FORBIDDEN "Quota exceeded" "Free some of the quota, or ask the operator to raise the limit. `quota`, `limit` and `used` show the numbers.";
    LimitReached "limit_reached" UNPROCESSABLE_ENTITY "Limit reached" "Remove what you no longer need, or ask the operator to raise the limit.";
    DomainNotProven "domain_not_proven" UNPROCESSABLE_ENTITY "Domain not proven" "Publish the TXT record that `record` names, and repeat the request once DNS shows it. You can also ask the operator to approve the domain.";
    TargetNotAllowed "target_not_allowed" UNPROCESSABLE_ENTITY "Target not allowed" "Use an address on the public Internet, or ask the operator to allow the network.";
    ProviderVerificationFailed "provider_verification_failed" UNPROCESSABLE_ENTITY "Provider verification failed" "Read `verification` for the check that failed and its remedy. With `verify=sync` the provider is stored anyway.";
    RateLimited "rate_limited" TOO_MANY_REQUESTS "Too many requests" "Wait `retry_after_seconds`, then repeat the request. `/api/rate-limits/` lists the limits.";
    InternalError "internal_error" INTERNAL_SERVER_ERROR "Internal error" "Repeat the request. If it fails again, report the `request_id` to the operator.";
    Unavailable "unavailable" SERVICE_UNAVAILABLE "Temporarily unavailable" "Repeat the request after `retry_after_seconds`.";
    OutcomeUnknown "outcome_unknown" SERVICE_UNAVAILABLE "Outcome unknown" "Repeat the request with the same `Idempotency-Key`, or check whether the change took effect.";
    ProviderError "provider_error" BAD_GATEWAY "External server failed" "Retry later. If the error persists, ask the operator of that server.";
    ProviderTimeout "provider_timeout" GATEWAY_TIMEOUT "External server timed out" "Retry later. If the error persists, ask the operator of that server.";
    RequestTimeout "request_timeout" REQUEST_TIMEOUT "Request timed out" "Send the whole request without pauses.";
}

/// One thing that is wrong with the input, and where.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    #[serde(flatten)]
    pub place: Place,
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    pub suggestion: Option<String>,
    /// Other members that decide whether this is an error. They are siblings of the one at `place`, or of a member that contains it.
    #[serde(skip)]
    pub depends_on: &'static [&'static str],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A JSON pointer into the body.
    Pointer(String),
    /// A parameter of the query or the path.
    Parameter(String),
    Header(String),
}

impl FieldError {
    pub fn new(place: Place, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place, code: code.into(), message: message.into(), allowed: Vec::new(), suggestion: None, depends_on: &[] }
    }

    pub fn pointer(pointer: impl Into<String>, code: &str, message: impl Into<String>) -> Self {
        Self::new(Place::Pointer(pointer.into()), code, message)
    }

    pub fn parameter(name: impl Into<String>, code: &str, message: impl Into<String>) -> Self {
        Self::new(Place::Parameter(name.into()), code, message)
    }

    /// Returns a copy in which texts that are too long are cut.
    fn clipped(&self) -> Self {
        let place = match &self.place {
            Place::Pointer(text) => Place::Pointer(clipped(text, MAX_PLACE)),
            Place::Parameter(text) => Place::Parameter(clipped(text, MAX_PLACE)),
            Place::Header(text) => Place::Header(clipped(text, MAX_PLACE)),
        };
        Self { place, message: clipped(&self.message, MAX_MESSAGE), ..self.clone() }
    }

    pub fn with_allowed(mut self, allowed: Vec<String>) -> Self {
        self.allowed = allowed;
        self
    }

    pub fn with_suggestion(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }
}

impl From<Fault> for FieldError {
    fn from(fault: Fault) -> Self {
        let Fault { place, code, message, allowed, suggestion, depends_on } = fault;
        let place = match place {
            fault::Place::Pointer(pointer) => Place::Pointer(pointer),
            fault::Place::Parameter(name) => Place::Parameter(name),
        };
        let (message, suggestion) = (message.into(), suggestion.map(Into::into));
        Self { place, code, message, allowed: allowed.into(), suggestion, depends_on }
    }
}

impl From<Vec<Fault>> for Problem {
    /// If only targets are refused, the problem has their code.
    fn from(faults: Vec<Fault>) -> Self {
        let refused = Code::TargetNotAllowed.name();
        let is_refusal = !faults.is_empty() && faults.iter().all(|fault| fault.code == refused);
        let mut problem = Self::invalid(faults.into_iter().map(Into::into).collect());
        if is_refusal {
            problem.code = Code::TargetNotAllowed;
        }
        problem
    }
}

/// The errors that were found in an input.
#[derive(Clone, Debug)]
pub struct Findings {
    pub errors: Vec<FieldError>,
    /// Whether `errors` is complete. A search ends early when there are too many errors, or when the input is too large.
    pub complete: bool,
}

impl From<Findings> for Problem {
    fn from(found: Findings) -> Self {
        let mut problem = Self::invalid(found.errors);
        if !found.complete {
            "The input has more errors than are listed".clone_into(&mut problem.detail);
            problem.more_errors = true;
        }
        problem
    }
}

/// The most errors that a problem lists, and the most bytes of its body.
pub const MAX_ERRORS: usize = 50;
const MAX_BYTES: usize = 16 << 10;
/// The most bytes of the errors of one item in a bulk request.
const MAX_ITEM_BYTES: usize = 2 << 10;
/// The most bytes of each text that repeats what the caller has sent.
const MAX_DETAIL: usize = 1024;
pub const MAX_PLACE: usize = 256;
pub const MAX_MESSAGE: usize = 512;
/// Bytes reserved for the members that say how many errors there are.
const FRAME: usize = 128;

/// Cuts a text that is longer than `most` bytes.
pub fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.char_indices().map(|(place, _)| place).take_while(|place| *place <= most).last().unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// An error that is returned to the client. It is one pointer wide, because every handler's result carries it.
#[derive(Clone, Debug)]
pub struct Problem(Box<Fields>);

#[derive(Clone, Debug)]
pub struct Fields {
    pub code: Code,
    pub detail: String,
    pub errors: Vec<FieldError>,
    /// Whether there are more errors than `errors` holds.
    pub more_errors: bool,
    pub extra: Map<String, Value>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The reason, for the log. It is never sent to the client.
    pub cause: Option<String>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let (errors, more_errors) = (Vec::new(), false);
        Self(Box::new(Fields { code, detail, errors, more_errors, extra: Map::new(), headers: Vec::new(), cause: None }))
    }

    /// Uses the remedy as the detail.
    pub fn plain(code: Code) -> Self {
        Self::new(code, code.remedy())
    }

    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [only] => only.message.clone(),
            several => format!("The input has {} errors", several.len()),
        };
        let mut problem = Self::new(Code::ValidationFailed, detail);
        problem.errors = errors;
        problem
    }

    /// Creates an internal error. The cause goes to the log, next to the id of the request.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        Self::plain(Code::InternalError).because(cause)
    }

    /// Adds a cause for the log. The client does not see it.
    pub fn because(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    pub fn unavailable(detail: impl Into<String>, retry_after_seconds: u64) -> Self {
        Self::new(Code::Unavailable, detail).retry_after(retry_after_seconds)
    }

    /// The answer to changes while the disk is nearly full.
    pub fn no_room() -> Self {
        let detail = "The disk of this installation is nearly full. You can read, export and delete records, but not create or change \
                      them. tenantd has notified the operator.";
        Self::unavailable(detail, 60).with("reason", "disk_full")
    }

    /// The answer to changes and deletions once the reserve of the disk is also used up.
    pub fn no_reserve() -> Self {
        let detail = "The disk of this installation is full. You can read records, but not create, change or delete them until the \
                      operator frees space.";
        Self::unavailable(detail, 60).with("reason", "disk_full")
    }

    /// The answer to changes while one write blocks all others.
    pub fn stalled(seconds: u64) -> Self {
        let detail = format!(
            "The store has been working on one change for {seconds} seconds and accepts no other until it is done. This request \
             changed nothing. You can still read records."
        );
        Self::unavailable(detail, 10).with("reason", "writer_stalled")
    }

    pub fn retry_after(self, seconds: u64) -> Self {
        self.with("retry_after_seconds", seconds).header(http::header::RETRY_AFTER, &seconds.to_string())
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// The detail, cut if it repeats too much of what the caller has sent.
    pub fn shown_detail(&self) -> String {
        clipped(&self.detail, MAX_DETAIL)
    }

    /// The first errors, as many as fit into `room` bytes.
    pub fn listed(&self, room: usize) -> Vec<FieldError> {
        let mut left = room;
        let mut listed = Vec::new();
        for error in self.errors.iter().take(MAX_ERRORS).map(FieldError::clipped) {
            let bytes = serde_json::to_vec(&error).map_or(usize::MAX, |bytes| bytes.len() + 1);
            if bytes > left {
                break;
            }
            left -= bytes;
            listed.push(error);
        }
        listed
    }

    /// The error of one item, for the answer to a bulk request.
    pub fn of_item(&self) -> Value {
        let mut shown = self.extra.clone();
        shown.insert("code".to_owned(), self.code.name().into());
        shown.insert("detail".to_owned(), self.shown_detail().into());
        let errors = self.listed(MAX_ITEM_BYTES);
        if !errors.is_empty() {
            shown.insert("errors".to_owned(), serde_json::to_value(errors).unwrap_or_default());
        }
        Value::Object(shown)
    }

    /// The body of the answer. It has at most [`MAX_ERRORS`] errors and 16 KiB, whatever the caller has sent.
    pub fn body(&self, base_url: &str, instance: &str, request_id: &str) -> Value {
        let anchor = self.code.name().replace('_', "-");
        let mut body = Map::new();
        body.insert("type".to_owned(), format!("{base_url}/documentation/errors/#{anchor}").into());
        body.insert("title".to_owned(), self.code.title().into());
        body.insert("status".to_owned(), self.code.status().as_u16().into());
        body.insert("code".to_owned(), self.code.name().into());
        body.insert("detail".to_owned(), self.shown_detail().into());
        body.insert("instance".to_owned(), clipped(instance, MAX_DETAIL).into());
        body.insert("request_id".to_owned(), request_id.into());
        body.extend(self.extra.clone());
        if !self.errors.is_empty() {
            let used = serde_json::to_vec(&body).map_or(MAX_BYTES, |bytes| bytes.len());
            let listed = self.listed(MAX_BYTES.saturating_sub(used + FRAME));
            if self.more_errors || listed.len() < self.errors.len() {
                body.insert("more_errors".to_owned(), true.into());
            }
            if !self.more_errors && listed.len() < self.errors.len() {
                body.insert("total_errors".to_owned(), self.errors.len().into());
            }
            body.insert("errors".to_owned(), serde_json::to_value(&listed).unwrap_or_default());
        }
        Value::Object(body)
    }
}

impl std::ops::Deref for Problem {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.0
    }
}

impl std::ops::DerefMut for Problem {
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.0
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.detail)
    }
}

impl std::error::Error for Problem {}

impl poem::error::ResponseError for Problem {
    fn status(&self) -> StatusCode {
        self.code.status()
    }
}

/// Handlers return it. The document describes the responses once for all operations.
impl poem_openapi::ApiResponse for Problem {
    fn meta() -> poem_openapi::registry::MetaResponses {
        poem_openapi::registry::MetaResponses { responses: Vec::new() }
    }

    fn register(_registry: &mut poem_openapi::registry::Registry) {}
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::OutcomeUnknown(cause) => Self::plain(Code::OutcomeUnknown).retry_after(5).because(cause),
            StoreError::NoRoom => Self::no_room(),
            StoreError::NoReserve => Self::no_reserve(),
            StoreError::Quota(exceeded) => exceeded.into(),
            StoreError::Stalled { seconds } => Self::stalled(seconds),
            StoreError::Busy => Self::unavailable("Too many requests of your tenant are waiting.", 1),
            StoreError::Unavailable(cause) => Self::unavailable("The store cannot accept changes at the moment.", 5).because(cause),
            // Readers can meet a failed disk before the writer reports that the store has failed.
            StoreError::Engine(cause) => Self::unavailable("The store is not available at the moment.", 5).because(cause),
            StoreError::Damaged { .. } | StoreError::Panicked(_) | StoreError::Installation(_) | StoreError::Rehearsed => {
                Self::internal(error)
            }
        }
    }
}

/// The tenant would use more than its quota.
impl From<QuotaExceeded> for Problem {
    fn from(exceeded: QuotaExceeded) -> Self {
        let QuotaExceeded { quota, limit, used } = exceeded;
        let detail = format!("Your tenant uses {used} of its quota `{}`, whose limit is {limit}. {}", quota.name(), quota.advice());
        let header = format!("{};limit={limit};used={used}", quota.name());
        let problem = Self::new(Code::QuotaExceeded, detail).with("quota", quota.name()).with("limit", limit).with("used", used);
        problem.header(HeaderName::from_static("x-quota"), &header)
    }
}

/// The rights of the caller do not cover what they want to create, change or act through.
impl From<Lacking> for Problem {
    fn from(lacking: Lacking) -> Self {
        let code = if lacking.is_scopes_alone() { Code::InsufficientScope } else { Code::InsufficientAuthority };
        let advice = "Use a credential that covers all of it, or ask for less.";
        let mut problem = Self::new(code, format!("You lack {lacking}. {advice}"));
        let scopes = lacking.scope_names();
        if !scopes.is_empty() {
            problem = problem.with("required_scopes", scopes);
        }
        problem = match &lacking.organizations {
            Some(Within::All) => problem.with("requires_all_organizations", true),
            Some(Within::Only(ids)) => {
                problem.with("required_organization_ids", ids.iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            None => problem,
        };
        problem = match &lacking.networks {
            Some(Within::All) => problem.with("required_networks", vec!["0.0.0.0/0", "::/0"]),
            Some(Within::Only(networks)) => {
                problem.with("required_networks", networks.as_slice().iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            None => problem,
        };
        match lacking.until {
            Some(end) => problem.with("latest_expires_at", end.to_string()),
            None => problem,
        }
    }
}
