//! Service levels: the targets of a tenant (`policy`), its working hours (`calendar`), and the clocks of a ticket (`clock`).
//! Pure arithmetic: times are parameters.

mod calendar;
mod clock;
mod policy;

pub use calendar::Hours;
pub use clock::{Crossing, CrossingKind, Sla, SlaClock, TargetKind};
pub use policy::{SlaPolicy, Target};

#[cfg(test)]
mod tests;
