//! Endpoints as they leave for another installation and arrive there. One without its secrets arrives paused, with a new signing
//! secret and without custom headers.

use super::{
    super::model::{EndpointStatus, generate_secret, secret_hint},
    Binding, ENDPOINTS, EndpointKey, EndpointRecord,
};
use crate::kernel::portable::{Arrival, Carrier, Departure, PortError, Portable};

pub(in super::super) fn endpoints() -> Box<dyn Portable> {
    Carrier::turning("webhook", &ENDPOINTS, leave, arrive)
}

fn leave(
    departure: &mut Departure<'_>,
    key: EndpointKey,
    mut endpoint: EndpointRecord,
) -> Result<Option<(EndpointKey, EndpointRecord)>, PortError> {
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

fn arrive(
    arrival: &mut Arrival,
    key: EndpointKey,
    mut endpoint: EndpointRecord,
) -> Result<(EndpointKey, EndpointRecord), PortError> {
    endpoint.after_seq = arrival.place(endpoint.after_seq)?;
    let (secret, headers) = (Binding::secret(key), endpoint.headers_binding(key));
    if arrival.secret(secret.place(), &mut endpoint.secret)? {
        if let Some((previous, _)) = &mut endpoint.previous {
            arrival.secret(secret.place(), previous)?;
        }
        if let Some(sealed) = &mut endpoint.headers {
            arrival.secret(headers.place(), sealed)?;
        }
        return Ok((key, endpoint));
    }
    let made = generate_secret(&mut arrival.entropy);
    endpoint.secret = arrival.seal(secret.place(), &made)?;
    endpoint.secret_hint = secret_hint(&made);
    endpoint.previous = None;
    endpoint.headers = None;
    if endpoint.status == EndpointStatus::Active {
        endpoint.status = EndpointStatus::Paused;
    }
    let without = if endpoint.header_names.is_empty() {
        String::new()
    } else {
        format!(" and lacks its headers {}", endpoint.header_names.join(", "))
    };
    endpoint.header_names.clear();
    arrival.note(format!("The webhook {} has a new signing secret{without}: rotate it, and resume it.", endpoint.name));
    Ok((key, endpoint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernel::{
            clock::Timestamp,
            entropy::Entropy,
            id::{TenantId, WebhookId},
            portable::Landing,
            secrets::{InstallationKey, Sealer, Secret},
        },
        slices::webhooks::{
            model::{EventFilter, Ordering},
            schedule::RetrySchedule,
        },
    };

    const KEY: EndpointKey = (TenantId::from_bytes([2; 16]), WebhookId::from_bytes([1; 16]));

    fn arrival(entropy: &mut Entropy) -> Arrival {
        let sealer = |entropy: &mut Entropy| Sealer::new(&InstallationKey::generate(entropy));
        Arrival {
            tenant: KEY.0,
            now: Timestamp::EPOCH,
            landing: Landing::new(0),
            head: 0,
            home: sealer(entropy),
            travel: Some(sealer(entropy)),
            slug: None,
            notes: Vec::new(),
            bare: Vec::new(),
            entropy: Entropy::from_seed(9),
        }
    }

    /// An endpoint on its way; its headers are sealed to their target, or as earlier releases did.
    fn travelling(travel: &Sealer, bound: bool, entropy: &mut Entropy) -> EndpointRecord {
        let mut seal = |binding: &Binding| travel.seal(binding.place(), &Secret::new("{}"), entropy).unwrap();
        let secret = seal(&Binding::secret(KEY));
        let mut endpoint = EndpointRecord {
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
        };
        let binding = endpoint.headers_binding(KEY);
        endpoint.headers = Some(seal(&if bound { binding } else { Binding { target: None, ..binding } }));
        endpoint
    }

    #[test]
    fn headers_do_not_arrive_at_another_target_than_they_left_with() {
        let mut entropy = Entropy::from_seed(1);
        let mut arrival = arrival(&mut entropy);
        let travel = arrival.travel.clone().unwrap();
        let opens = |arrival: &Arrival, endpoint: &EndpointRecord| {
            arrival.home.open(endpoint.headers_binding(KEY).place(), endpoint.headers.as_ref().unwrap()).is_ok()
        };
        let (_, arrived) = arrive(&mut arrival, KEY, travelling(&travel, true, &mut entropy)).unwrap();
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
    fn headers_of_earlier_releases_are_bound_when_they_arrive() {
        let mut entropy = Entropy::from_seed(1);
        let mut arrival = arrival(&mut entropy);
        let travel = arrival.travel.clone().unwrap();
        let (_, arrived) = arrive(&mut arrival, KEY, travelling(&travel, false, &mut entropy)).unwrap();
        let open = |binding: &Binding| arrival.home.open(binding.place(), arrived.headers.as_ref().unwrap()).is_ok();
        assert!(open(&arrived.headers_binding(KEY)));
        assert!(!open(&Binding { target: None, ..arrived.headers_binding(KEY) }));
    }
}
