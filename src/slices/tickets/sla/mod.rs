//! Service levels: what a tenant has promised (`policy`), when its people work (`calendar`), and the clocks of a ticket (`clock`).
//! Pure arithmetic over times that are handed in.

mod calendar;
mod clock;
mod policy;

pub use calendar::Hours;
pub use clock::{Crossing, CrossingKind, Promise, Sla, SlaClock};
pub use policy::{SlaPolicy, Target};

#[cfg(test)]
mod tests;
