//! One VM that is to be created.

use std::{collections::BTreeMap, fmt};

use sha2::{Digest, Sha256};

use crate::kernel::{id::OperationId, secrets::Secret};

/// Names one creation for good: the operation and the place in it. It goes out as the provider's idempotency token, so that asking again
/// creates nothing again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct OrderToken {
    pub(in super::super) operation: OperationId,
    pub(in super::super) index: u32,
}

impl OrderToken {
    /// The tag or label that a created VM carries, where the provider has such.
    pub(in super::super) const TAG: &'static str = "tenantd-order";

    /// The form for providers that want a UUID.
    pub(in super::super) fn uuid(self) -> uuid::Uuid {
        let digest: [u8; 32] =
            Sha256::new().chain_update(self.operation.as_bytes()).chain_update(self.index.to_be_bytes()).finalize().into();
        let bytes = digest.first_chunk().copied().unwrap_or_default();
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

/// Letters, digits, an underscore and a hyphen, 30 characters or so: a valid EC2 client token, and a valid tag.
impl fmt::Display for OrderToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.operation, self.index)
    }
}

#[derive(Clone, Debug)]
pub(in super::super) struct Order {
    pub(in super::super) token: OrderToken,
    pub(in super::super) name: String,
    pub(in super::super) region: String,
    pub(in super::super) zone: Option<String>,
    pub(in super::super) size: String,
    pub(in super::super) image: String,
    pub(in super::super) network: Option<String>,
    pub(in super::super) ssh_keys: Vec<String>,
    /// Often has passwords in it.
    pub(in super::super) user_data: Option<Secret>,
    pub(in super::super) tags: BTreeMap<String, String>,
}
