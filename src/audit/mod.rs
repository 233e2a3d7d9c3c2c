//! Runs the checks of a pair, judges them, and remembers what they found.
//!
//! A run measures (`measure`: plain data), judges ([`judge`]: pure) and remembers everything in one transaction: results,
//! coverage, accepted schemas, incidents, and the messages that follow (`run`, `store`). Nothing is written anywhere but to
//! drift's own state.

mod cell;
pub mod check;
pub mod judge;
pub mod measure;
mod request;
mod run;
pub mod store;

pub use check::{CheckResult, Reason, Status};
pub use request::{age_column, request};
pub use run::{Auditor, Ran, Watched, message, tell};
