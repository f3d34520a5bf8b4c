//! The export and import of identity providers when a tenant moves to another installation. A provider is disabled after the import
//! if its secret is missing or the file is not verified. In an unverified file, its domains must be proven again.

use serde_json::Value;

use tenantd_base::{
    access::{Role, TenantKind},
    secrets::Secret,
};
use tenantd_directory as directory;
use tenantd_egress::{Audience, Egress};
use tenantd_store::portable::{Arrival, Carrier, PortError, Portable};

use super::{
    super::model::{Claim, Domain, Enforcement, MAX_PROVIDERS, check_issuer, is_scope},
    PROVIDERS, ProviderKey, ProviderRecord, sealed_place,
};

/// The maximum length of a client secret in the API.
const MAX_SECRET: usize = 1000;
const MAX_TOKEN: usize = 64;

/// `fields` checks the limits of the API.
pub(crate) fn providers(
    egress: Egress,
    fields: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static,
) -> Box<dyn Portable> {
    Carrier::turning(
        "identity_provider",
        &PROVIDERS,
        |departure, key: ProviderKey, mut provider: ProviderRecord| {
            departure.secret(sealed_place(&key, &provider.issuer), &mut provider.client_secret)?;
            Ok(Some((key, provider)))
        },
        arrive,
    )
    .within(fields)
    .at_most(MAX_PROVIDERS as u64)
    .kept_by(|tx, key, provider| {
        // The signer of the file does not know the staff of this installation.
        let mut provider = provider.clone();
        let mut claims = provider.claims();
        for claim in &mut claims {
            if directory::has_staff_elsewhere(tx, key.0, claim.domain.as_str())? {
                claim.proof = None;
            }
        }
        provider.set_claims(claims);
        Ok(PROVIDERS.put(tx, key, &provider)?)
    })
    .examined(move |arrival, _, provider| {
        let url = check_issuer(&provider.issuer).map_err(|problem| PortError::Wrong(format!("issuer: {problem}")))?;
        let audience = Audience { allow_loopback: arrival.tenant_kind == TenantKind::Evaluation };
        egress.vet_address(&url, audience).map_err(|_| PortError::wrong("issuer: the address is not allowed as a target"))
    })
    .boxed()
}

fn arrive(
    arrival: &mut Arrival,
    key: ProviderKey,
    mut provider: ProviderRecord,
) -> Result<Option<(ProviderKey, ProviderRecord)>, PortError> {
    check(&provider)?;
    // Proofs of another installation count if the file is verified. Files of older releases have no claims.
    let is_vouched_for = arrival.is_verified() && provider.claims.len() == provider.domains.len();
    let mut claims = if is_vouched_for { provider.claims() } else { Vec::new() };
    if !is_vouched_for {
        claims.extend(provider.domains.iter().map(|domain| Claim::open(domain.clone(), &mut arrival.entropy)));
    }
    for claim in claims.iter_mut().filter(|claim| claim.token.is_empty()) {
        claim.token = Claim::open(claim.domain.clone(), &mut arrival.entropy).token;
    }
    provider.set_claims(claims);
    let place = sealed_place(&key, &provider.issuer);
    match arrival.secret(place, &mut provider.client_secret)? {
        Some(secret) if secret.expose().len() > MAX_SECRET => return Err(PortError::wrong("its client secret is too long")),
        Some(_) => {}
        None => {
            provider.client_secret = arrival.seal(place, &Secret::new(""))?;
            provider.enabled = false;
            provider.rules.enforcement = Enforcement::Off;
            arrival.note(format!("The identity provider {} is disabled until you set its client secret.", provider.name));
        }
    }
    if !arrival.is_verified() {
        provider.enabled = false;
        provider.rules.enforcement = Enforcement::Off;
        arrival.switch_off("identity providers", &provider.name);
    }
    Ok(Some((key, provider)))
}

/// Applies the rules of the service to a provider.
fn check(provider: &ProviderRecord) -> Result<(), PortError> {
    for (place, domain) in provider.domains.iter().enumerate() {
        let is_known = provider.domains.iter().take(place).any(|other| other == domain);
        if is_known || Domain::parse(domain.as_str()).as_ref() != Ok(domain) {
            return Err(PortError::Wrong(format!(
                "domains: {} is a duplicate, or is not a domain in its stored form",
                domain.as_str()
            )));
        }
    }
    if provider.claims.iter().any(|claim| claim.token.len() > MAX_TOKEN) {
        return Err(PortError::wrong("claims: a token is too long"));
    }
    if provider.default_role == Role::Operator {
        return Err(PortError::wrong("default_role: operator is a role of the platform tenant"));
    }
    if !provider.scopes.iter().all(|scope| is_scope(scope)) || !provider.scopes.iter().any(|scope| scope == "openid") {
        return Err(PortError::wrong("scopes: must be valid OAuth 2.0 scopes and contain openid"));
    }
    provider.rules.check().map_err(PortError::wrong)?;
    Ok(())
}
