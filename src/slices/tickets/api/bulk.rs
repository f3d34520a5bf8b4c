//! What one request for several tickets may read and write, and why one of them was refused.

use tenantd_http::{
    bulk::{self, TooLarge},
    problem::Problem,
};
use tenantd_store::{Metered, Read, StoreError};

use super::super::{error::TicketError, service::Plan};

/// Why one of several tickets was refused.
#[derive(Debug)]
pub(super) enum BulkError {
    Ticket(TicketError),
    TooLarge(TooLarge),
}

impl From<TicketError> for BulkError {
    fn from(error: TicketError) -> Self {
        Self::Ticket(error)
    }
}

impl From<StoreError> for BulkError {
    fn from(error: StoreError) -> Self {
        Self::Ticket(error.into())
    }
}

impl From<TooLarge> for BulkError {
    fn from(error: TooLarge) -> Self {
        Self::TooLarge(error)
    }
}

impl From<BulkError> for Problem {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::Ticket(error) => error.into(),
            BulkError::TooLarge(error) => error.into(),
        }
    }
}

/// What a request has read and written so far, or is about to.
#[derive(Debug)]
pub(super) struct Budget(bulk::Budget);

impl Budget {
    pub(super) const fn of_many() -> Self {
        Self(bulk::Budget::of_many())
    }

    pub(super) const fn of_one() -> Self {
        Self(bulk::Budget::of_one())
    }

    /// Plans one more ticket.
    pub(super) fn plan<R: Read>(
        &mut self,
        tx: &R,
        plan: impl FnOnce(&Metered<'_, R>) -> Result<Plan, TicketError>,
    ) -> Result<Plan, BulkError> {
        self.0.begin()?;
        let planned = self.0.read(tx, plan)?;
        self.0.spend(planned.bytes())?;
        Ok(planned)
    }
}
