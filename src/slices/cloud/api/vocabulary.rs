//! The enumerations of clouds in JSON and in parameters: the model's own types with their schemas.

use tenantd_http::wire::word_type;

use super::super::{
    fleet::GroupBy,
    model::{
        CheckName, CheckStatus, OperationStatus, Outcome, Phase, ProviderKind, ProviderStatus, SimulatedFailure, VmState, Warning,
    },
};

word_type! {
    ProviderStatus, "CloudProviderStatus", "`unverified`: not verified yet. `verified`: works. `degraded`: works only in part, or the cloud has a problem. `invalid`: the credential\ndoes not work. `unreachable`: tenantd cannot reach the cloud. `disabled`: not synced.";
    Phase, "OperationPhase", "`queued`: not started. `ordering`: tenantd sends the orders. `starting`: the VMs exist and are starting. `syncing`: tenantd lists VMs. `done`: ended.";
    GroupBy, "VmGroupBy";
}

word_type! {
    stored:
    ProviderKind, "CloudKind", "The cloud or cloud software. `simulated` is a cloud inside this server, for evaluation.";
    SimulatedFailure, "SimulatedFailure", "The error that a simulated cloud returns.";
    Outcome, "VerificationOutcome", "The result of a verification. `valid_limited`: the credential can list VMs but not create them.";
    CheckName, "CheckName", "The step of the verification.";
    CheckStatus, "CheckStatus", "The result of a check. `skipped`: not needed, not possible, or an earlier check failed.";
    Warning, "WarningCode", "`empty_inventory`: no VMs were found, often because of a wrong project, subscription or region. `provision_not_checked`: this API has\nno way to check whether the credential may create VMs. `incomplete_inventory`: some VMs could not be read completely.";
    VmState, "VmState", "The state of a VM, with the same values for all clouds.";
    OperationStatus, "OperationStatus";
}
