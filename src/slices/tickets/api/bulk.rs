//! The limits of requests for several tickets, and the errors of a single ticket.

use tenantd_http::{
    bulk::{self, TooLarge},
    problem::Problem,
};
use tenantd_store::{Metered, Read, StoreError};

use super::super::{error::TicketError, service::Plan};

/// Why one of several tickets failed.
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

/// The bytes that a request has read and written, or plans to.
#[derive(Debug)]
pub(super) struct Budget(bulk::Budget);

impl Budget {
    pub(super) const fn of_many() -> Self {
        Self(bulk::Budget::of_many())
    }

    pub(super) const fn of_one() -> Self {
        Self(bulk::Budget::of_one())
    }

    /// Plans the changes of one more ticket.
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
