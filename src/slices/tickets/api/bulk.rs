//! What one request for several tickets may read and write. It runs in the one writer, which all tenants wait for.

use tenantd_http::problem::{Code, Problem};
use tenantd_store::{Metered, Read, StoreError};

use super::super::{error::TicketError, service::Plan};

/// The bytes of all records that a request for several tickets reads and writes, its events among them.
pub(super) const MAX_BULK_BYTES: usize = 4 << 20;

/// Why one of several tickets was refused.
#[derive(Debug)]
pub(super) enum BulkError {
    Ticket(TicketError),
    /// The request goes beyond its bytes with this ticket, the last of `tickets`.
    TooLarge {
        tickets: usize,
        bytes: usize,
    },
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

impl From<BulkError> for Problem {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::Ticket(error) => error.into(),
            BulkError::TooLarge { tickets, bytes } => {
                let detail = format!(
                    "The first {tickets} tickets of this request come to {bytes} bytes, with their events and what they refer to. \
                     One request can read and write {MAX_BULK_BYTES} bytes. Send fewer tickets at once."
                );
                Self::new(Code::PayloadTooLarge, detail)
            }
        }
    }
}

/// What a request has read and written so far, or is about to.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    tickets: usize,
    bytes: usize,
}

impl Budget {
    pub(super) const fn of_many() -> Self {
        Self { most: MAX_BULK_BYTES, tickets: 0, bytes: 0 }
    }

    /// The bounds of its fields are enough for one ticket.
    pub(super) const fn of_one() -> Self {
        Self { most: usize::MAX, tickets: 0, bytes: 0 }
    }

    /// Plans one more ticket. What it reads counts even if it fails. Once the request has used up its bytes, nothing more is read.
    pub(super) fn plan<R: Read>(
        &mut self,
        tx: &R,
        plan: impl FnOnce(&Metered<'_, R>) -> Result<Plan, TicketError>,
    ) -> Result<Plan, BulkError> {
        self.check()?;
        self.tickets += 1;
        let view = Metered::new(tx);
        let planned = plan(&view);
        self.bytes = self.bytes.saturating_add(view.bytes());
        let planned = planned?;
        self.bytes = self.bytes.saturating_add(planned.bytes());
        self.check()?;
        Ok(planned)
    }

    fn check(&self) -> Result<(), BulkError> {
        if self.bytes > self.most { Err(BulkError::TooLarge { tickets: self.tickets, bytes: self.bytes }) } else { Ok(()) }
    }
}
