//! Identity providers as they leave for another installation and arrive there. One without its secret arrives disabled.

use super::{PROVIDERS, ProviderRecord, sealed_place};
use crate::kernel::{
    portable::{Carrier, Portable},
    secrets::Secret,
};

pub(in super::super) fn providers() -> Box<dyn Portable> {
    Carrier::turning(
        "identity_provider",
        &PROVIDERS,
        |departure, key, mut provider: ProviderRecord| {
            departure.secret(sealed_place(&key, &provider.issuer), &mut provider.client_secret)?;
            Ok(Some((key, provider)))
        },
        |arrival, key, mut provider: ProviderRecord| {
            let place = sealed_place(&key, &provider.issuer);
            if !arrival.secret(place, &mut provider.client_secret)? {
                provider.client_secret = arrival.seal(place, &Secret::new(""))?;
                provider.enabled = false;
                arrival.note(format!("The identity provider {} is disabled until it gets its client secret.", provider.name));
            }
            Ok((key, provider))
        },
    )
}
