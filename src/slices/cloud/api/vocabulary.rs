//! The words of clouds that nothing stores, as JSON and as parameters: the model's own types, with their schemas.

use tenantd_http::wire::word_type;

use super::super::model::{Phase, ProviderStatus};

word_type! {
    ProviderStatus, "CloudProviderStatus", "`unverified` until it is verified; `degraded` when it works in part, or its cloud has trouble; `invalid` when the credential does\nnot work; `unreachable`; `disabled`.";
    Phase, "OperationPhase", "`ordering`: orders go out. `starting`: the VMs are there and come up. `syncing`: clouds are asked.";
}
