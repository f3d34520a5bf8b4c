//! `/api/operations/{id}`: the progress of a background operation.

use std::{sync::Arc, time::Duration};

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::{
    access::{Principal, Reach},
    id::OperationId,
};
use tenantd_http::{
    input::Filter,
    need::{Allowed, VmsRead},
    problem::Problem,
    reply::Answer,
};
use tenantd_store::{Read, catalog};

use super::{
    super::{
        Core,
        error::CloudError,
        model::{self, OperationWork},
        repo,
    },
    Area,
    vm_wire::Operation,
};

#[derive(Debug, Object)]
struct WaitForOperation {
    /// The number of seconds to wait for the end of the operation. When absent, the response is immediate.
    #[oai(validator(minimum(value = "0"), maximum(value = "30")))]
    wait_seconds: Option<u32>,
}

pub(super) fn operation_path(id: OperationId) -> String {
    format!("/api/operations/{id}")
}

pub(crate) struct OperationsApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/operations", tag = "Area::Operations")]
impl OperationsApi {
    /// Read an operation
    ///
    /// Returns the progress and the result of an operation. With `wait_seconds`, the response is sent when the operation ends or
    /// the time is over. An ended operation stays readable for a week.
    #[oai(path = "/:id", method = "get", operation_id = "read_operation")]
    async fn read_operation(
        &self,
        auth: Allowed<VmsRead>,
        id: Path<OperationId>,
        query: Filter<WaitForOperation>,
    ) -> Result<Answer<Operation>, Problem> {
        let core = &self.core;
        let deadline = core.clocks.installation().now() + Duration::from_secs(query.0.wait_seconds.unwrap_or(0).into());
        loop {
            let seen = core.store.version(catalog::OPERATIONS);
            let operation = core.store.read(|tx| find(tx, &auth.principal, id.0))?;
            if operation.status.has_ended() || core.clocks.installation().now() >= deadline {
                return Ok(Answer::new(&Operation::from(&operation)));
            }
            tokio::select! {
                () = core.store.changed(catalog::OPERATIONS, seen) => {}
                () = core.clocks.installation().sleep_until(deadline) => {}
            }
        }
    }
}

fn find(tx: &impl Read, principal: &Principal, id: OperationId) -> Result<model::Operation, CloudError> {
    let found = repo::operations::get(tx, (principal.tenant_id, id))?;
    found.filter(|operation| reaches(&principal.reach, principal, operation)).ok_or(CloudError::NoOperation)
}

/// An order belongs to its organization. A refresh is visible to the actor that requested it.
fn reaches(reach: &Reach, principal: &Principal, operation: &model::Operation) -> bool {
    match operation.work {
        OperationWork::Provision { .. } => reach.covers(operation.organization_id),
        OperationWork::Refresh { .. } => {
            *reach == Reach::Everything || operation.actor == tenantd_store::events::Actor::of(principal)
        }
    }
}
