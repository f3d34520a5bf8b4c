//! The tables of identity providers, with an index by domain, and of used sign-on states. A used state is kept until its sign-on
//! would have expired.

pub(super) mod history;
pub(super) mod portable;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::Role,
    clock::Timestamp,
    id::{IdentityProviderId, TenantId},
    secrets::{SealError, Sealed, SealedPlace},
};
use tenantd_store::{
    Counts, Direction, Flow, Index, Key, KeyRange, Read, SealedRecord, SealedVisitor, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields, encode_fields},
};

use super::model::{Claim, Domain, IdentityProvider, Proof, ProvenBy, Rules, secret_target};

/// Identifies a provider across all tenants.
pub(super) type ProviderKey = (TenantId, IdentityProviderId);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ProviderRecord {
    name: String,
    issuer: String,
    client_id: String,
    client_secret: Sealed,
    domains: Vec<Domain>,
    enabled: bool,
    default_role: Role,
    auto_provision: bool,
    scopes: Vec<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
    /// The claims of the domains, in the same order as `domains`.
    #[serde(default)]
    claims: Vec<ClaimRecord>,
    #[serde(default)]
    rules: Rules,
}

/// The verification token and the proof of a domain.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ClaimRecord {
    token: String,
    proof: Option<Proof>,
}

impl Record for ProviderRecord {
    const VERSION: u8 = 3;

    /// Version 2 had no rules. Version 1 had no proofs either, so all of its domains count as proven.
    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        let rules = encode_fields(&Rules::default())?;
        let mut record: Self = match version {
            1 => decode_fields(&[fields, &encode_fields(&Vec::<ClaimRecord>::new())?, &rules].concat())?,
            2 => return decode_fields(&[fields, &rules].concat()),
            _ => return Err(format!("format version {version} is not known to this release")),
        };
        let proof = Proof { by: ProvenBy::Before, at: record.created_at };
        record.claims = record.domains.iter().map(|_| ClaimRecord { token: String::new(), proof: Some(proof) }).collect();
        Ok(record)
    }
}

impl ProviderRecord {
    fn proven(&self) -> impl Iterator<Item = &Domain> {
        self.domains.iter().zip(&self.claims).filter(|(_, claim)| claim.proof.is_some()).map(|(domain, _)| domain)
    }

    fn claims(&self) -> Vec<Claim> {
        let claim = |(domain, ClaimRecord { token, proof }): (&Domain, &ClaimRecord)| Claim {
            domain: domain.clone(),
            token: token.clone(),
            proof: *proof,
        };
        self.domains.iter().zip(&self.claims).map(claim).collect()
    }

    fn set_claims(&mut self, claims: Vec<Claim>) {
        (self.domains, self.claims) = split(&claims);
    }
}

fn split(claims: &[Claim]) -> (Vec<Domain>, Vec<ClaimRecord>) {
    let record = |claim: &Claim| ClaimRecord { token: claim.token.clone(), proof: claim.proof };
    claims.iter().map(|claim| (claim.domain.clone(), record(claim))).unzip()
}

/// Maps a domain to the provider that has proven it.
static BY_DOMAIN: Index<ProviderKey, ProviderRecord> = Index {
    table: catalog::IDENTITY_PROVIDERS_BY_DOMAIN,
    unique: true,
    keys: |_, provider| provider.proven().map(|domain| domain.as_str().to_owned().to_bytes()).collect(),
};
pub(super) static PROVIDERS: Table<ProviderKey, ProviderRecord> =
    Table::new(catalog::IDENTITY_PROVIDERS, &[&BY_DOMAIN]).counting(Counts::Records);

fn to_model((tenant_id, id): ProviderKey, record: ProviderRecord) -> IdentityProvider {
    let domains = record.claims();
    let ProviderRecord {
        name,
        issuer,
        client_id,
        client_secret,
        enabled,
        default_role,
        auto_provision,
        scopes,
        created_at,
        updated_at,
        version,
        rules,
        ..
    } = record;
    IdentityProvider {
        id,
        tenant_id,
        name,
        issuer,
        client_id,
        client_secret,
        domains,
        enabled,
        default_role,
        auto_provision,
        scopes,
        rules,
        created_at,
        updated_at,
        version,
    }
}

fn to_record(provider: &IdentityProvider) -> ProviderRecord {
    let (domains, claims) = split(&provider.domains);
    ProviderRecord {
        name: provider.name.clone(),
        issuer: provider.issuer.clone(),
        client_id: provider.client_id.clone(),
        client_secret: provider.client_secret.clone(),
        domains,
        enabled: provider.enabled,
        default_role: provider.default_role,
        auto_provision: provider.auto_provision,
        scopes: provider.scopes.clone(),
        created_at: provider.created_at,
        updated_at: provider.updated_at,
        version: provider.version,
        claims,
        rules: provider.rules.clone(),
    }
}

/// The place that the client secret of a provider is sealed for, with the issuer that it may be sent to.
pub(super) fn sealed_place<'a>((tenant, id): &'a ProviderKey, issuer: &str) -> SealedPlace<'a> {
    let target = Some(secret_target(issuer).digest());
    SealedPlace { tenant: tenant.as_bytes(), table: catalog::IDENTITY_PROVIDERS.name(), key: id.as_bytes(), target }
}

impl SealedRecord<ProviderKey> for ProviderRecord {
    fn each_sealed(&mut self, key: &ProviderKey, visit: SealedVisitor<'_>) -> Result<(), SealError> {
        visit(sealed_place(key, &self.issuer), &mut self.client_secret)
    }
}

pub(super) fn get(tx: &impl Read, key: ProviderKey) -> Result<Option<IdentityProvider>, StoreError> {
    Ok(PROVIDERS.get(tx, &key)?.map(|record| to_model(key, record)))
}

/// The provider that has proven a domain. An unknown domain costs the same number of lookups.
pub(super) fn by_domain(tx: &impl Read, domain: &Domain) -> Result<Option<IdentityProvider>, StoreError> {
    const NO_PROVIDER: ProviderKey = (TenantId::from_bytes([0; 16]), IdentityProviderId::from_bytes([0; 16]));
    let found = owner(tx, domain)?;
    get(tx, found.unwrap_or(NO_PROVIDER))
}

pub(super) fn owner(tx: &impl Read, domain: &Domain) -> Result<Option<ProviderKey>, StoreError> {
    BY_DOMAIN.find(tx, &domain.as_str().to_owned().to_bytes())
}

/// The tenant's providers, oldest first.
pub(super) fn list(tx: &impl Read, tenant: TenantId) -> Result<Vec<IdentityProvider>, StoreError> {
    let mut found = Vec::new();
    PROVIDERS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |key, record| {
        found.push(to_model(key, record));
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

pub(super) fn put(tx: &mut WriteTx, provider: &IdentityProvider) -> Result<(), StoreError> {
    PROVIDERS.put(tx, &(provider.tenant_id, provider.id), &to_record(provider))
}

pub(super) fn remove(tx: &mut WriteTx, key: ProviderKey) -> Result<(), StoreError> {
    history::remove(tx, key)?;
    PROVIDERS.remove(tx, &key).map(drop)
}

/// The digest of a state.
pub(super) type StateDigest = [u8; 32];

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpentRecord {
    expires_at: Timestamp,
}

impl Record for SpentRecord {
    const VERSION: u8 = 1;
}

static SPENT_BY_EXPIRY: Index<StateDigest, SpentRecord> =
    Index { table: catalog::SPENT_SIGN_ONS_BY_EXPIRY, unique: false, keys: |_, spent| vec![spent.expires_at.to_bytes()] };
pub(super) static SPENT: Table<StateDigest, SpentRecord> = Table::new(catalog::SPENT_SIGN_ONS, &[&SPENT_BY_EXPIRY]);

/// Marks a state as used until its sign-on has expired. Returns whether the state was unused.
pub(super) fn spend(tx: &mut WriteTx, state: &StateDigest, expires_at: Timestamp) -> Result<bool, StoreError> {
    if SPENT.get(tx, state)?.is_some() {
        return Ok(false);
    }
    SPENT.insert(tx, state, &SpentRecord { expires_at })?;
    Ok(true)
}

/// Deletes the states of expired sign-ons. Returns the number of deleted states.
pub(super) fn delete_expired(tx: &mut WriteTx, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let ended = SPENT_BY_EXPIRY.list(tx, &KeyRange::before(now.to_bytes()), limit)?;
    for state in &ended {
        SPENT.remove(tx, state)?;
    }
    Ok(ended.len())
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        entropy::Entropy,
        id::UserId,
        secrets::{InstallationKey, Sealer, Secret},
    };
    use tenantd_store::codec::assert_golden;

    use super::{
        super::model::{Enforcement, RoleMapping, Unmapped},
        *,
    };

    fn rules() -> Rules {
        Rules {
            enforcement: Enforcement::Domains,
            break_glass_user_ids: vec![UserId::from_bytes([3; 16])],
            groups_claim: "realm_access.roles".to_owned(),
            role_mappings: vec![RoleMapping { group: "admins".to_owned(), role: Role::Admin }],
            unmapped: Unmapped::Refuse,
            max_age_seconds: Some(3600),
            required_acr: vec!["phr".to_owned()],
            own_redirect_uri: true,
        }
    }

    #[test]
    fn the_stored_forms_are_stable() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let (tenant_id, id) = (TenantId::from_bytes([2; 16]), IdentityProviderId::from_bytes([1; 16]));
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        // As version 1 was first written: secrets were not yet bound to their issuers.
        let key = (tenant_id, id);
        let place = SealedPlace { target: None, ..sealed_place(&key, "") };
        let provider = IdentityProvider {
            id,
            tenant_id,
            name: "Acme".to_owned(),
            issuer: "https://id.acme.example".to_owned(),
            client_id: "tenantd".to_owned(),
            client_secret: sealer.seal(place, &Secret::new("s3cret"), &mut entropy).unwrap(),
            domains: vec![
                Claim {
                    domain: Domain::parse("acme.example").unwrap(),
                    token: "00ff".to_owned(),
                    proof: Some(Proof { by: ProvenBy::Operator, at }),
                },
                Claim { domain: Domain::parse("acme.com").unwrap(), token: "11ee".to_owned(), proof: None },
            ],
            enabled: true,
            default_role: Role::Viewer,
            auto_provision: true,
            scopes: vec!["openid".to_owned(), "email".to_owned()],
            rules: rules(),
            created_at: at,
            updated_at: at,
            version: 3,
        };
        let record = to_record(&provider);
        assert_golden("identity_provider", &record);
        assert_eq!(record.proven().map(Domain::as_str).collect::<Vec<_>>(), ["acme.example"]);
        assert_eq!(to_model((tenant_id, id), record), provider.clone());
        // Version 2 has all fields except the last, version 1 all except the last two.
        let ProviderRecord { claims, rules, .. } = to_record(&provider);
        let fields = encode_fields(&to_record(&provider)).unwrap();
        let fields = &fields[..fields.len() - encode_fields(&rules).unwrap().len()];
        let before = ProviderRecord::upgrade(2, fields).unwrap();
        assert_eq!(to_model((tenant_id, id), before), IdentityProvider { rules: Rules::default(), ..provider });
        let before = ProviderRecord::upgrade(1, &fields[..fields.len() - encode_fields(&claims).unwrap().len()]).unwrap();
        assert_eq!(before.proven().count(), 2, "domains stay proven after the upgrade");
        assert!(before.claims().iter().all(|claim| claim.proof == Some(Proof { by: ProvenBy::Before, at })));
        assert_golden("spent_sign_on", &SpentRecord { expires_at: at });
    }
}
