//! Clouds: providers with sealed credentials, the VMs that they have, and the creation of new ones.

mod adapters;
mod model;
