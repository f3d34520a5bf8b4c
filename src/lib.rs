#![doc = include_str!("ARCHITECTURE.md")]

pub mod app;
pub mod cli;
pub mod kernel;
pub mod slices;
