//! What a person has begun and not finished: adding a factor. The state is sealed for its owner and given to the client, so nothing
//! is stored until it is finished.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use tenantd_base::{
    clock::Timestamp,
    entropy::Entropy,
    id::{FactorId, TenantId},
    secrets::{SealedPlace, Sealer, Secret},
};
use tenantd_store::Key;

use super::super::{error::AuthError, repo::UserKey};

/// A factor that a person is adding.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Enrolment<T> {
    /// The id of the factor. An enrolment that is finished twice would make it twice, which is refused.
    pub(super) id: FactorId,
    pub(super) expires_at: Timestamp,
    pub(super) begun: T,
}

/// Seals and opens such states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tickets<'a> {
    pub(super) sealer: &'a Sealer,
}

/// Who a ticket is for, and what it is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose<'a> {
    /// Not the name of a table, because no record is stored.
    pub(super) name: &'a str,
    pub(super) owner: Option<UserKey>,
}

impl Tickets<'_> {
    pub(super) fn seal(self, purpose: Purpose<'_>, value: &impl Serialize, entropy: &mut Entropy) -> Result<String, AuthError> {
        let text = Secret::new(serde_json::to_string(value)?);
        let (tenant, key) = purpose.place();
        let place = SealedPlace { tenant: tenant.as_bytes(), table: purpose.name, key: &key, target: None };
        match serde_json::to_value(self.sealer.seal(place, &text, entropy)?)? {
            Value::String(text) => Ok(text),
            other => Ok(other.to_string()),
        }
    }

    /// Opens a ticket for this purpose. `None` if it is forged, or for another purpose or person.
    pub(super) fn open<T: DeserializeOwned>(self, purpose: Purpose<'_>, text: &str) -> Option<T> {
        let sealed = serde_json::from_value(Value::String(text.to_owned())).ok()?;
        let (tenant, key) = purpose.place();
        let place = SealedPlace { tenant: tenant.as_bytes(), table: purpose.name, key: &key, target: None };
        serde_json::from_str(self.sealer.open(place, &sealed).ok()?.expose()).ok()
    }
}

impl Purpose<'_> {
    fn place(self) -> (TenantId, Vec<u8>) {
        self.owner.map_or_else(|| (TenantId::default(), Vec::new()), |owner| (owner.0, owner.1.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::{id::UserId, secrets::InstallationKey};

    use super::*;

    #[test]
    fn a_ticket_opens_only_for_its_owner_and_purpose() {
        let mut entropy = Entropy::from_seed(1);
        let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
        let tickets = Tickets { sealer: &sealer };
        let owner = Some((TenantId::from_bytes([1; 16]), UserId::from_bytes([2; 16])));
        let other = Some((TenantId::from_bytes([1; 16]), UserId::from_bytes([3; 16])));
        let purpose = Purpose { name: "one", owner };
        let text = tickets.seal(purpose, &"state", &mut entropy).unwrap();
        assert!(!text.contains("state"));
        assert_eq!(tickets.open(purpose, &text), Some("state".to_owned()));
        for wrong in [Purpose { name: "two", owner }, Purpose { name: "one", owner: other }, Purpose { name: "one", owner: None }] {
            assert_eq!(tickets.open::<String>(wrong, &text), None, "{wrong:?}");
        }
        assert_eq!(tickets.open::<String>(purpose, "left_out"), None);
    }
}
