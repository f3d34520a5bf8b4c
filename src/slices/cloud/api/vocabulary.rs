//! The words of clouds as JSON and as parameters: the model's own types, with their schemas.

use tenantd_http::wire::word_type;

use super::super::{
    fleet::GroupBy,
    model::{
        CheckName, CheckStatus, OperationStatus, Outcome, Phase, ProviderKind, ProviderStatus, SimulatedFailure, VmState, Warning,
    },
};

word_type! {
    ProviderStatus, "CloudProviderStatus", "`unverified` until it is verified; `degraded` when it works in part, or its cloud has trouble; `invalid` when the credential does\nnot work; `unreachable`; `disabled`.";
    Phase, "OperationPhase", "`ordering`: orders go out. `starting`: the VMs are there and come up. `syncing`: clouds are asked.";
    GroupBy, "VmGroupBy";
}

word_type! {
    stored:
    ProviderKind, "CloudKind", "Which cloud, or cloud software, it is. `simulated` is one in this server, for trying things out.";
    SimulatedFailure, "SimulatedFailure", "What a simulated cloud is told to answer.";
    Outcome, "VerificationOutcome", "What came of a verification. `valid_limited`: it can read and not create.";
    CheckName, "CheckName", "What was tried.";
    CheckStatus, "CheckStatus", "`skipped`: not needed, or something before it failed.";
    Warning, "WarningCode", "`empty_inventory`: there is no VM, which often means the wrong project, subscription or region. `provision_not_checked`: this API has\nno way to ask whether the credential may create VMs.";
    VmState, "VmState", "The state in the same word for every cloud.";
    OperationStatus, "OperationStatus";
}
