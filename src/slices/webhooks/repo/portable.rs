//! Moves endpoints to and from another installation. An endpoint without its secrets arrives paused, with a new signing secret and
//! without custom headers. An endpoint from an unverified file also arrives paused.

use serde_json::Value;

use tenantd_base::{access::TenantKind, secrets::Secret};
use tenantd_egress::{Audience, Egress, TargetUrl, check_ca_pem};
use tenantd_store::{
    events::{Actor, ActorKind},
    portable::{Arrival, Carrier, Check, Departure, PortError, Portable},
};

use super::{
    super::model::{CustomHeaders, Endpoint, EndpointStatus, EventFilter, generate_secret, secret_bytes, secret_hint},
    Binding, ENDPOINTS, EndpointKey,
};

/// The maximum number of entries in each list of a filter, and the maximum length of an entry.
const MAX_FILTER: usize = 100;
const MAX_FILTER_TEXT: usize = 100;
/// The length of a signing secret.
const SECRET_BYTES: usize = 32;

/// The rules that the service applies to an endpoint.
pub(crate) struct Rules {
    pub(crate) most: u64,
    pub(crate) egress: Egress,
    /// The limits of the API.
    pub(crate) fields: Check<Value>,
    pub(crate) events: Check<Vec<String>>,
}

pub(crate) fn endpoints(rules: Rules) -> Box<dyn Portable> {
    let Rules { most, egress, fields, events } = rules;
    Carrier::turning("webhook", &ENDPOINTS, leave, arrive)
        .within(fields)
        .at_most(most)
        .examined(move |arrival, _, endpoint| {
            events(&endpoint.events).map_err(PortError::Wrong)?;
            let url = TargetUrl::parse(&endpoint.url).map_err(|problem| PortError::Wrong(format!("url: the URL {problem}")))?;
            let audience = Audience { allow_loopback: arrival.tenant_kind == TenantKind::Evaluation };
            let blocked = |_| PortError::wrong("url: the address is not allowed as a target");
            egress.vet_address(&url, audience).map_err(blocked)?;
            if let Some(Err(problem)) = endpoint.ca_certificate_pem.as_deref().map(check_ca_pem) {
                return Err(PortError::Wrong(format!("ca_certificate_pem: the certificate {problem}")));
            }
            check_filter(&endpoint.filter)
        })
        .boxed()
}

fn check_filter(filter: &EventFilter) -> Result<(), PortError> {
    let lists = [&filter.organization_ids, &filter.priorities, &filter.exclude_actor_ids];
    let long = |list: &&Vec<String>| list.len() > MAX_FILTER || list.iter().any(|text| text.len() > MAX_FILTER_TEXT);
    if lists.iter().any(long) { Err(PortError::wrong("filter: a list or an entry is too long")) } else { Ok(()) }
}

fn leave(
    departure: &mut Departure<'_>,
    key: EndpointKey,
    mut endpoint: Endpoint,
) -> Result<Option<(EndpointKey, Endpoint)>, PortError> {
    endpoint.after_seq = departure.place(endpoint.after_seq)?;
    let (secret, headers) = (Binding::secret(key), endpoint.headers_binding(key));
    departure.secret(secret.place(), &mut endpoint.secret)?;
    if let Some((previous, _)) = &mut endpoint.previous {
        departure.secret(secret.place(), previous)?;
    }
    if let Some(sealed) = &mut endpoint.headers {
        departure.secret(headers.place(), sealed)?;
    }
    Ok(Some((key, endpoint)))
}

fn arrive(arrival: &mut Arrival, key: EndpointKey, mut endpoint: Endpoint) -> Result<Option<(EndpointKey, Endpoint)>, PortError> {
    endpoint.after_seq = arrival.place(endpoint.after_seq)?;
    if !open_secrets(arrival, key, &mut endpoint)? {
        make_secret(arrival, key, &mut endpoint)?;
    }
    if !arrival.is_verified() {
        pause(&mut endpoint);
        // The owner named in the file did not request it here. The caller that resumes it becomes its owner.
        endpoint.owner = Some(Actor { kind: ActorKind::Agent, id: "import".to_owned(), name: "Import".to_owned() });
        arrival.switch_off("webhooks", &endpoint.name);
    }
    // An endpoint of an older release has no owner here either.
    endpoint.legacy_since = endpoint.owner.is_none().then_some(arrival.tenant_now);
    Ok(Some((key, endpoint)))
}

fn pause(endpoint: &mut Endpoint) {
    if endpoint.status == EndpointStatus::Active {
        endpoint.status = EndpointStatus::Paused;
    }
}

/// Seals the secrets from the file under this installation's key, if they are valid secrets and headers. Returns whether the file
/// had them.
fn open_secrets(arrival: &mut Arrival, key: EndpointKey, endpoint: &mut Endpoint) -> Result<bool, PortError> {
    let (secret, headers) = (Binding::secret(key), endpoint.headers_binding(key));
    let Some(signing) = arrival.secret(secret.place(), &mut endpoint.secret)? else { return Ok(false) };
    check_secret(&signing)?;
    if let Some((previous, _)) = &mut endpoint.previous
        && let Some(previous) = arrival.secret(secret.place(), previous)?
    {
        check_secret(&previous)?;
    }
    let mut names = Vec::new();
    if let Some(sealed) = &mut endpoint.headers
        && let Some(given) = arrival.secret(headers.place(), sealed)?
    {
        names = read_headers(&given)?.names();
    }
    if names == endpoint.header_names { Ok(true) } else { Err(PortError::wrong("headers: they do not match `header_names`")) }
}

fn check_secret(secret: &Secret) -> Result<(), PortError> {
    let is_one = secret_bytes(secret).is_some_and(|bytes| bytes.len() == SECRET_BYTES);
    if is_one { Ok(()) } else { Err(PortError::wrong("its signing secret is not valid")) }
}

fn read_headers(secret: &Secret) -> Result<CustomHeaders, PortError> {
    let wrong = || PortError::wrong("headers: an endpoint cannot have these headers");
    let given = CustomHeaders::from_secret(secret).map_err(|_| wrong())?;
    let pairs = given.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    CustomHeaders::parse(pairs).map_err(|_| wrong())
}

/// Gives the endpoint a new signing secret, because the file did not contain one.
fn make_secret(arrival: &mut Arrival, key: EndpointKey, endpoint: &mut Endpoint) -> Result<(), PortError> {
    let made = generate_secret(&mut arrival.entropy);
    endpoint.secret = arrival.seal(Binding::secret(key).place(), &made)?;
    endpoint.secret_hint = secret_hint(&made);
    endpoint.previous = None;
    endpoint.headers = None;
    pause(endpoint);
    let without = if endpoint.header_names.is_empty() {
        String::new()
    } else {
        format!(" and no longer has its headers {}", endpoint.header_names.join(", "))
    };
    endpoint.header_names.clear();
    arrival.note(format!(
        "The webhook {} has a new signing secret{without}. Rotate the secret and resume the webhook.",
        endpoint.name
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        clock::Timestamp,
        entropy::Entropy,
        id::{TenantId, WebhookId},
        secrets::{InstallationKey, Sealer},
    };
    use tenantd_store::portable::{EventNumbers, Trust};

    use super::*;
    use crate::{
        model::{EventFilter, Ordering},
        schedule::RetrySchedule,
    };

    const KEY: EndpointKey = (TenantId::from_bytes([2; 16]), WebhookId::from_bytes([1; 16]));

    fn arrival(entropy: &mut Entropy) -> Arrival {
        let sealer = |entropy: &mut Entropy| Sealer::new(&InstallationKey::generate(entropy));
        let (kind, now) = (TenantKind::Standard, Timestamp::EPOCH);
        let mut made = Arrival::new(KEY.0, kind, now, Trust::Verified, EventNumbers::new(0), sealer(entropy));
        made.travel = Some(sealer(entropy));
        made
    }

    /// An endpoint in transfer. Its headers are bound to their target, or unbound as in earlier releases.
    fn travelling(travel: &Sealer, bound: bool, entropy: &mut Entropy) -> Endpoint {
        let signing = generate_secret(entropy);
        let secret = travel.seal(Binding::secret(KEY).place(), &signing, entropy).unwrap();
        let headers = CustomHeaders::parse([("authorization".to_owned(), "Bearer x".to_owned())]).unwrap().to_secret().unwrap();
        let mut seal = |binding: &Binding| travel.seal(binding.place(), &headers, entropy).unwrap();
        let mut endpoint = Endpoint {
            id: KEY.1,
            tenant_id: KEY.0,
            name: "Chat".to_owned(),
            url: "https://hooks.example.com/a".to_owned(),
            description: None,
            events: vec!["*".to_owned()],
            filter: EventFilter::default(),
            header_names: vec!["authorization".to_owned()],
            headers: None,
            status: EndpointStatus::Active,
            ordering: Ordering::None,
            timeout_seconds: 20,
            rate_limit_per_second: None,
            retry: RetrySchedule::Standard,
            ca_certificate_pem: None,
            secret,
            secret_hint: "whsec_Ab3…".to_owned(),
            previous: None,
            secret_rotated_at: None,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
            after_seq: 0,
            version: 1,
            owner: None,
            legacy_since: None,
            owner_scopes: None,
        };
        let binding = endpoint.headers_binding(KEY);
        endpoint.headers = Some(seal(&if bound { binding } else { Binding { target: None, ..binding } }));
        endpoint
    }

    #[test]
    fn imported_headers_stay_bound_to_their_target() {
        let mut entropy = Entropy::from_seed(1);
        let mut arrival = arrival(&mut entropy);
        let travel = arrival.travel.clone().unwrap();
        let opens = |arrival: &Arrival, endpoint: &Endpoint| {
            arrival.home.open(endpoint.headers_binding(KEY).place(), endpoint.headers.as_ref().unwrap()).is_ok()
        };
        let (_, arrived) = arrive(&mut arrival, KEY, travelling(&travel, true, &mut entropy)).unwrap().unwrap();
        assert!(opens(&arrival, &arrived));
        let mut path = travelling(&travel, true, &mut entropy);
        path.url = "https://hooks.example.com/b".to_owned();
        assert!(arrive(&mut arrival, KEY, path).is_ok());
        for url in ["https://evil.example/a", "http://hooks.example.com/a", "https://hooks.example.com:8443/a"] {
            let mut moved = travelling(&travel, true, &mut entropy);
            moved.url = url.to_owned();
            assert!(matches!(arrive(&mut arrival, KEY, moved), Err(PortError::Secret(_))), "{url}");
        }
        let mut trusting = travelling(&travel, true, &mut entropy);
        trusting.ca_certificate_pem = Some("another authority".to_owned());
        assert!(matches!(arrive(&mut arrival, KEY, trusting), Err(PortError::Secret(_))));
    }

    #[test]
    fn unbound_headers_of_earlier_releases_are_bound_on_import() {
        let mut entropy = Entropy::from_seed(1);
        let mut arrival = arrival(&mut entropy);
        let travel = arrival.travel.clone().unwrap();
        let (_, arrived) = arrive(&mut arrival, KEY, travelling(&travel, false, &mut entropy)).unwrap().unwrap();
        let open = |binding: &Binding| arrival.home.open(binding.place(), arrived.headers.as_ref().unwrap()).is_ok();
        assert!(open(&arrived.headers_binding(KEY)));
        assert!(!open(&Binding { target: None, ..arrived.headers_binding(KEY) }));
    }
}
