#![doc = include_str!("ARCHITECTURE.md")]

pub mod app;
pub mod cli;
