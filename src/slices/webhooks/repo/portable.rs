//! Endpoints as they leave for another installation and arrive there. One without its secrets arrives paused, with a new signing
//! secret and without custom headers.

use super::{
    super::model::{EndpointStatus, generate_secret, secret_hint},
    ENDPOINTS, EndpointKey, EndpointRecord, SealedPart, sealed_key, sealed_place,
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
    let (secret, headers) = (sealed_key(key.1, SealedPart::Secret), sealed_key(key.1, SealedPart::Headers));
    departure.secret(sealed_place(&key.0, &secret), &mut endpoint.secret)?;
    if let Some((previous, _)) = &mut endpoint.previous {
        departure.secret(sealed_place(&key.0, &secret), previous)?;
    }
    if let Some(sealed) = &mut endpoint.headers {
        departure.secret(sealed_place(&key.0, &headers), sealed)?;
    }
    Ok(Some((key, endpoint)))
}

fn arrive(
    arrival: &mut Arrival,
    key: EndpointKey,
    mut endpoint: EndpointRecord,
) -> Result<(EndpointKey, EndpointRecord), PortError> {
    endpoint.after_seq = arrival.place(endpoint.after_seq)?;
    let (secret, headers) = (sealed_key(key.1, SealedPart::Secret), sealed_key(key.1, SealedPart::Headers));
    if arrival.secret(sealed_place(&key.0, &secret), &mut endpoint.secret)? {
        if let Some((previous, _)) = &mut endpoint.previous {
            arrival.secret(sealed_place(&key.0, &secret), previous)?;
        }
        if let Some(sealed) = &mut endpoint.headers {
            arrival.secret(sealed_place(&key.0, &headers), sealed)?;
        }
        return Ok((key, endpoint));
    }
    let made = generate_secret(&mut arrival.entropy);
    endpoint.secret = arrival.seal(sealed_place(&key.0, &secret), &made)?;
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
