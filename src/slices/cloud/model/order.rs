//! An order: one VM to create.

use std::{collections::BTreeMap, fmt};

use sha2::{Digest, Sha256};

use tenantd_base::{id::OperationId, secrets::Secret};

/// Identifies one creation permanently, by its operation and the index in it. It is sent as the provider's idempotency token, so a
/// repeated order does not create a second VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderToken {
    pub(crate) operation: OperationId,
    pub(crate) index: u32,
}

impl OrderToken {
    /// The tag or label of a created VM, if the provider supports tags or labels.
    pub(crate) const TAG: &'static str = "tenantd-order";

    /// The token as a UUID, for providers that require one.
    pub(crate) fn uuid(self) -> uuid::Uuid {
        let digest: [u8; 32] =
            Sha256::new().chain_update(self.operation.as_bytes()).chain_update(self.index.to_be_bytes()).finalize().into();
        let bytes = digest.first_chunk().copied().unwrap_or_default();
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

/// Letters, digits, an underscore and a hyphen, about 30 characters: valid as an EC2 client token and as a tag.
impl fmt::Display for OrderToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.operation, self.index)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) token: OrderToken,
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) zone: Option<String>,
    pub(crate) size: String,
    pub(crate) image: String,
    pub(crate) network: Option<String>,
    pub(crate) ssh_keys: Vec<String>,
    /// Often contains passwords.
    pub(crate) user_data: Option<Secret>,
    pub(crate) tags: BTreeMap<String, String>,
}
