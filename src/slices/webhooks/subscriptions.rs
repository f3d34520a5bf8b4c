//! Which endpoints receive which event. The endpoints of a tenant are compiled once (patterns parsed, secrets opened, headers
//! built) and cached until an endpoint changes. An event of a tenant without webhooks therefore costs one memory lookup.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use tenantd_base::{
    access::{Grants, Scope, TenantKind},
    authority::{Authority, Within},
    clock::Timestamp,
    clocks::Clocks,
    id::TenantId,
    secrets::Sealer,
};
use tenantd_egress::{Audience, TargetUrl};
use tenantd_platform::Tenants;
use tenantd_store::{
    Store, StoreError, VersionedCache,
    catalog::{self, TableName},
    events::{self, Actor, Event, EventPattern, Kinds, Readable},
    holders::Holders,
};

use super::{
    error::{WebhookError, bad_url},
    model::{CustomHeaders, Endpoint, EndpointStatus, EventFilter, Ordering, secret_bytes},
    repo::{self, Binding, EndpointKey},
    schedule::RetrySchedule,
    service::TEST,
    signature::SigningKey,
};

const CACHED_TENANTS: u64 = 10_000;
const CACHED_OWNERS: u64 = 10_000;
/// The tables that the rights of users and keys depend on.
const RIGHTS: [TableName; 7] = [
    catalog::USERS,
    catalog::ROLES,
    catalog::API_KEYS,
    catalog::CREDENTIALS,
    catalog::FACTORS,
    catalog::SIGN_IN_POLICIES,
    catalog::IDENTITY_PROVIDERS,
];
const USER_AGENT: &str = concat!("tenantd/", env!("CARGO_PKG_VERSION"));

/// An endpoint that is ready to receive.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) key: EndpointKey,
    pub(super) status: EndpointStatus,
    pub(super) ordering: Ordering,
    pub(super) retry: RetrySchedule,
    pub(super) timeout: Duration,
    pub(super) rate_limit_per_second: Option<u32>,
    pub(super) url: TargetUrl,
    pub(super) audience: Audience,
    pub(super) ca_pem: Option<Arc<str>>,
    /// The headers that are the same in every request.
    pub(super) headers: HeaderMap,
    pub(super) signing_keys: Vec<SigningKey>,
    after_seq: u64,
    patterns: Vec<EventPattern>,
    filter: EventFilter,
    owner: Option<Actor>,
    /// The scopes that the owner had when the route was saved.
    bounds: Grants,
    legacy_since: Option<Timestamp>,
}

impl Target {
    /// Whether the endpoint receives the event.
    pub(super) fn wants(&self, event: &Event) -> bool {
        event.record.number > self.after_seq && self.subscribes(&event.record.kind) && self.passes(&event.record.body)
    }

    /// As [`Self::wants`], for a replay: events from before the endpoint's creation count too.
    pub(super) fn wants_replayed(&self, event: &Event) -> bool {
        self.subscribes(&event.record.kind) && self.passes(&event.record.body)
    }

    /// Only the tested endpoint receives a test.
    fn subscribes(&self, kind: &str) -> bool {
        kind != TEST.name && self.patterns.iter().any(|pattern| pattern.matches(kind))
    }

    /// The id of the resource that deliveries are ordered by, if the endpoint keeps the order.
    pub(super) fn ordered_by(&self, body: &[u8]) -> Option<String> {
        let about = if self.ordering == Ordering::PerResource { events::about(body) } else { None };
        about.map(|about| about.id.to_owned())
    }

    fn passes(&self, body: &[u8]) -> bool {
        self.filter.is_empty() || serde_json::from_slice::<View<'_>>(body).is_ok_and(|view| view.passes(&self.filter))
    }
}

/// The parts of an event's body that filters check.
#[derive(Deserialize)]
struct View<'a> {
    actor: ActorRef,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct ActorRef {
    id: String,
}

impl View<'_> {
    fn passes(&self, filter: &EventFilter) -> bool {
        if filter.exclude_actor_ids.contains(&self.actor.id) {
            return false;
        }
        if filter.organization_ids.is_empty() && filter.priorities.is_empty() {
            return true;
        }
        let data: Value = serde_json::from_str(self.data.get()).unwrap_or_default();
        let records = || data.as_object().into_iter().flatten().filter(|(name, _)| *name != "changes").map(|(_, record)| record);
        let has = |wanted: &[String], read: fn(&Value) -> Option<&str>| {
            wanted.is_empty() || records().filter_map(read).any(|found| wanted.iter().any(|wanted| wanted == found))
        };
        has(&filter.organization_ids, organization_of) && has(&filter.priorities, |record| record.get("priority")?.as_str())
    }
}

/// A record refers to its organization, or is one.
fn organization_of(record: &Value) -> Option<&str> {
    let named = record.pointer("/organization/id").or_else(|| record.get("organization_id"));
    let own = record.get("id").filter(|id| id.as_str().is_some_and(|id| id.starts_with("org_")));
    named.or(own)?.as_str()
}

#[derive(Clone, Debug)]
pub(super) struct Subscriptions {
    store: Store,
    sealer: Sealer,
    kinds: Arc<Kinds>,
    tenants: Tenants,
    compiled: Arc<VersionedCache<TenantId, Vec<Arc<Target>>, 2>>,
    holders: Holders,
    clocks: Clocks,
    /// What users and keys may read, cached until rights change.
    readable: Arc<VersionedCache<(TenantId, String), ReadAccess, 7>>,
}

/// What a user or key may read.
#[derive(Debug)]
struct ReadAccess {
    /// `None` for a holder without tenant-wide access, because events belong to no organization.
    kinds: Option<Readable>,
    /// Whether it may create endpoints.
    has_endpoints: bool,
    /// When these rights expire.
    until: Option<Timestamp>,
}

impl ReadAccess {
    fn reads(&self, kind: &str, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until) && self.kinds.as_ref().is_some_and(|kinds| kinds.has(kind))
    }
}

impl Subscriptions {
    pub(super) fn new(store: Store, sealer: Sealer, kinds: Arc<Kinds>, tenants: Tenants, holders: Holders, clocks: Clocks) -> Self {
        let compiled = Arc::new(VersionedCache::new([catalog::WEBHOOKS, catalog::TENANTS], CACHED_TENANTS));
        let readable = Arc::new(VersionedCache::new(RIGHTS, CACHED_OWNERS));
        Self { store, sealer, kinds, tenants, compiled, holders, clocks, readable }
    }

    /// Whether the endpoint's owner may send events of this kind to it: the owner could read them when the route was saved, can read
    /// them now, and may still have endpoints. So nobody sets up an endpoint in a weak account or key and waits until it becomes
    /// strong. During a grace period, an endpoint of an older release works without an owner.
    pub(super) fn may_read(&self, target: &Target, kind: &str) -> Result<bool, StoreError> {
        match (&target.owner, target.legacy_since) {
            (Some(_), _) if !target.bounds.covers(self.kinds.reads(kind)) => Ok(false),
            (Some(owner), _) => {
                let access = self.access(target.key.0, owner)?;
                Ok(access.has_endpoints && access.reads(kind, self.clocks.now(target.key.0)))
            }
            (None, Some(since)) => Ok(self.clocks.now(target.key.0) < self.holders.grace_ends(since)),
            (None, None) => Ok(false),
        }
    }

    /// Whether a user or key may read events of this kind now.
    pub(super) fn reads(&self, tenant: TenantId, holder: &Actor, kind: &str) -> Result<bool, StoreError> {
        Ok(self.access(tenant, holder)?.reads(kind, self.clocks.now(tenant)))
    }

    fn access(&self, tenant: TenantId, holder: &Actor) -> Result<Arc<ReadAccess>, StoreError> {
        self.readable.get(&self.store, (tenant, holder.id.clone()), || {
            let rights = self.holder_rights(tenant, holder)?;
            let whole = rights.scopes() != Grants::NONE && *rights.organizations() == Within::All;
            let kinds = whole.then(|| self.kinds.readable(rights.scopes()));
            Ok(ReadAccess { kinds, has_endpoints: rights.scopes().allows(Scope::WebhooksWrite), until: rights.until() })
        })
    }

    /// The current rights of a user or key.
    pub(super) fn holder_rights(&self, tenant: TenantId, holder: &Actor) -> Result<Authority, StoreError> {
        self.store.read(|tx| self.holders.authority(tx, tenant, holder, self.clocks.now(tenant)))
    }

    pub(super) fn of_tenant(&self, tenant: TenantId) -> Result<Arc<Vec<Arc<Target>>>, StoreError> {
        self.compiled.get(&self.store, tenant, || {
            let endpoints = self.store.read(|tx| repo::list(tx, tenant))?;
            if endpoints.is_empty() {
                return Ok(Vec::new());
            }
            let (audience, suspended) = (self.audience(tenant)?, self.tenants.is_suspended(tenant)?);
            let compile = |endpoint: &Endpoint| match self.compile(endpoint, audience) {
                // The events of a suspended tenant wait, like those of a paused endpoint.
                Ok(target) if suspended && target.status == EndpointStatus::Active => {
                    Some(Arc::new(Target { status: EndpointStatus::Paused, ..target }))
                }
                Ok(target) => Some(Arc::new(target)),
                Err(error) => {
                    tracing::error!(%error, endpoint = %endpoint.id, "could not load a webhook endpoint; it receives no deliveries");
                    None
                }
            };
            Ok(endpoints.iter().filter_map(compile).collect())
        })
    }

    pub(super) fn target(&self, key: EndpointKey) -> Result<Option<Arc<Target>>, StoreError> {
        Ok(self.of_tenant(key.0)?.iter().find(|target| target.key == key).cloned())
    }

    fn audience(&self, tenant: TenantId) -> Result<Audience, StoreError> {
        let found = self.tenants.cached(tenant)?;
        Ok(audience_of(found.as_ref().as_ref().map_or(TenantKind::Standard, |tenant| tenant.kind)))
    }

    fn compile(&self, endpoint: &Endpoint, audience: Audience) -> Result<Target, WebhookError> {
        let key = (endpoint.tenant_id, endpoint.id);
        let signing = Binding::secret(key);
        let mut signing_keys = Vec::new();
        let current = self.sealer.open(signing.place(), &endpoint.secret)?;
        signing_keys.extend(secret_bytes(&current).and_then(|bytes| SigningKey::new(&bytes, None)));
        if let Some((previous, expires_at)) = &endpoint.previous {
            let secret = self.sealer.open(signing.place(), previous)?;
            signing_keys.extend(secret_bytes(&secret).and_then(|bytes| SigningKey::new(&bytes, Some(*expires_at))));
        }
        let custom = match &endpoint.headers {
            // They open only for the target that they were given for.
            Some(sealed) => {
                let binding = Binding::headers(key, endpoint.header_target().digest());
                CustomHeaders::from_secret(&self.sealer.open(binding.place(), sealed)?)?
            }
            None => CustomHeaders::default(),
        };
        Ok(Target {
            key,
            status: endpoint.status,
            ordering: endpoint.ordering,
            retry: endpoint.retry,
            timeout: Duration::from_secs(u64::from(endpoint.timeout_seconds)),
            rate_limit_per_second: endpoint.rate_limit_per_second,
            url: TargetUrl::parse(&endpoint.url).map_err(|problem| WebhookError::Invalid(bad_url(problem)))?,
            audience,
            ca_pem: endpoint.ca_certificate_pem.as_deref().map(Arc::from),
            headers: fixed_headers(&custom),
            signing_keys,
            after_seq: endpoint.after_seq,
            patterns: endpoint.events.iter().filter_map(|text| self.kinds.parse(text).ok()).collect(),
            filter: endpoint.filter.clone(),
            owner: endpoint.owner.clone(),
            bounds: endpoint.bounds(),
            legacy_since: endpoint.legacy_since,
        })
    }
}

/// An evaluation tenant may have its receiver on the same machine.
pub(super) fn audience_of(kind: TenantKind) -> Audience {
    Audience { allow_loopback: kind == TenantKind::Evaluation }
}

fn fixed_headers(custom: &CustomHeaders) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    for (name, value) in custom.iter() {
        if let (Ok(name), Ok(mut value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Target {
        /// An endpoint that accepts everything, for tests that send nothing.
        pub(crate) fn example(key: EndpointKey) -> Self {
            Self {
                key,
                status: EndpointStatus::Active,
                ordering: Ordering::None,
                retry: RetrySchedule::Standard,
                timeout: Duration::from_secs(20),
                rate_limit_per_second: None,
                url: TargetUrl::parse("https://example.com/hook").unwrap(),
                audience: Audience::default(),
                ca_pem: None,
                headers: HeaderMap::new(),
                signing_keys: Vec::new(),
                after_seq: 0,
                patterns: Vec::new(),
                filter: EventFilter::default(),
                owner: None,
                bounds: Grants::NONE,
                legacy_since: None,
            }
        }
    }

    fn passes(filter: &EventFilter) -> bool {
        let body = br#"{"id":"evt_1","resource":{"kind":"ticket","id":"tkt_1","version":1},"actor":{"kind":"user","id":"usr_1","name":"A"},
            "data":{"ticket":{"priority":"high","organization":{"id":"org_1","name":"Acme"}},"changes":{"priority":{"from":"low","to":"high"}}}}"#;
        serde_json::from_slice::<View<'_>>(body).unwrap().passes(filter)
    }

    #[test]
    fn a_filter_checks_the_record_and_the_actor() {
        let list = |text: &str| vec![text.to_owned()];
        let filter = |organizations: &str, priorities: &str, actors: &str| {
            let or_none = |text: &str| if text.is_empty() { Vec::new() } else { list(text) };
            EventFilter {
                organization_ids: or_none(organizations),
                priorities: or_none(priorities),
                exclude_actor_ids: or_none(actors),
            }
        };
        assert!(passes(&filter("", "", "")) && passes(&filter("org_1", "high", "usr_2")));
        assert!(!passes(&filter("org_2", "", "")) && !passes(&filter("", "low", "")) && !passes(&filter("", "", "usr_1")));
    }

    /// Filters and bodies as odd as JSON allows.
    #[test]
    fn a_hostile_filter_matches_only_what_it_names() {
        use tenantd_base::entropy::fuzz::{each_case, members, name, text};
        each_case("webhook filters", 1_000, |entropy| {
            let list = |entropy: &mut tenantd_base::entropy::Entropy| -> Vec<String> {
                (0..entropy.count(100)).map(|_| if entropy.once_in(2) { text(entropy) } else { name(entropy) }).collect()
            };
            let filter = EventFilter {
                organization_ids: list(entropy),
                priorities: list(entropy),
                exclude_actor_ids: if entropy.once_in(2) { list(entropy) } else { Vec::new() },
            };
            let (organization, priority, actor) = (name(entropy), name(entropy), name(entropy));
            let mut data = members(entropy, 3);
            data.insert("ticket".to_owned(), serde_json::json!({"organization": {"id": organization}, "priority": priority}));
            let is_alone = data.len() == 1;
            let body = serde_json::json!({"actor": {"id": actor}, "data": data}).to_string();
            let passes = serde_json::from_str::<View<'_>>(&body).unwrap().passes(&filter);
            let has = |wanted: &[String], found: &String| wanted.is_empty() || wanted.contains(found);
            let named = has(&filter.organization_ids, &organization) && has(&filter.priorities, &priority);
            let hidden = filter.exclude_actor_ids.contains(&actor);
            if hidden || is_alone {
                assert_eq!(passes, named && !hidden, "{filter:?} {body}");
            }
            assert!(passes || hidden || !named, "{filter:?} {body}");
            passes
        });
    }
}
