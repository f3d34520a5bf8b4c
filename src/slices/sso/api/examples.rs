//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_base::{clock::Timestamp, id::IdentityProviderId};
use tenantd_directory::RoleView;

use super::{
    sign_on::{BeginSignOn, SignOnBegun, SignOnProvider},
    wire::{CreateIdentityProvider, DomainClaim, IdentityProvider, ProviderType, UpdateIdentityProvider},
};

/// 2026-01-31T09:30:00Z
const CREATED_AT: i64 = 1_769_851_800_000;

fn id() -> IdentityProviderId {
    IdentityProviderId::from_bytes([0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x29, 1])
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

impl Example for IdentityProvider {
    fn example() -> Self {
        let created_at = Timestamp::from_millis(CREATED_AT);
        Self {
            id: id(),
            name: "Acme sign-in".to_owned(),
            kind: ProviderType::Oidc,
            issuer: "https://id.acme.com".to_owned(),
            client_id: "tenantd".to_owned(),
            domains: texts(["acme.com"]),
            domain_claims: vec![DomainClaim {
                domain: "acme.com".to_owned(),
                proven: false,
                proven_by: None,
                proven_at: None,
                record_name: Some("_tenantd.acme.com".to_owned()),
                record_value: Some("tenantd-domain-verification=5f0c2b9e7a1d4c3896b0e2f4a7d81c63".to_owned()),
            }],
            enabled: true,
            default_role: RoleView::Technician,
            auto_provision: true,
            scopes: texts(["openid", "email", "profile"]),
            created_at,
            updated_at: created_at,
            version: 1,
        }
    }
}

impl Example for CreateIdentityProvider {
    fn example() -> Self {
        Self {
            name: "Acme sign-in".to_owned(),
            kind: Some(ProviderType::Oidc),
            issuer: "https://id.acme.com".to_owned(),
            client_id: "tenantd".to_owned(),
            client_secret: "correct horse battery staple".to_owned(),
            domains: texts(["acme.com"]),
            enabled: None,
            default_role: Some(RoleView::Technician),
            auto_provision: Some(true),
            scopes: None,
        }
    }
}

impl Example for UpdateIdentityProvider {
    fn example() -> Self {
        Self {
            id: None,
            name: Some("Acme".to_owned()),
            kind: None,
            issuer: None,
            client_id: None,
            client_secret: None,
            domains: Some(texts(["acme.com", "acme.co.uk"])),
            enabled: Some(true),
            default_role: None,
            auto_provision: None,
            scopes: None,
        }
    }
}

impl Example for BeginSignOn {
    fn example() -> Self {
        Self {
            domain: "acme.com".to_owned(),
            return_to: Some("/documentation/".to_owned()),
            login_hint: Some("ada@acme.com".to_owned()),
        }
    }
}

impl Example for SignOnBegun {
    fn example() -> Self {
        Self {
            redirect_url: "https://id.acme.com/authorize?response_type=code&client_id=tenantd&state=AbC&code_challenge=xYz"
                .to_owned(),
            provider: SignOnProvider { id: id(), name: "Acme sign-in".to_owned(), kind: ProviderType::Oidc },
            domain: "acme.com".to_owned(),
            state: "AbC".to_owned(),
            expires_at: Timestamp::from_millis(CREATED_AT),
        }
    }
}
