//! drift finds the rows that differ between a source and its replica.
//!
//! The rooms, in the order data flows; arrows point only downwards (a test reads the `use crate::` lines):
//!
//! - [`cli`]: one file per command; arguments become a typed request, the outcome becomes an exit code.
//! - [`server`]: HTTP, for Prometheus and supervisors.
//! - [`control`]: makes what runs of the configuration, and runs it: once, or on schedule.
//! - [`report`]: outcomes as text, JSON, pages and files.
//! - [`audit`]: runs a pair's checks, judges them, remembers the results.
//! - [`preflight`]: questions to the real systems before anything is watched.
//! - [`incident`]: what is wrong, from the first sighting to its end.
//! - [`compare`]: plans, external sort, the merge of two sides, ranges, and the outcome.
//! - [`schema`]: the difference of two table shapes.
//! - [`endpoint`]: where rows live: PostgreSQL, MySQL and MariaDB, SQLite, files.
//! - [`notify`]: who is told; it knows messages only.
//! - [`state`]: what drift remembers: transactions, leases, outbox, audit log, the clock.
//! - [`config`]: what users write, as pure data.
//! - [`value`]: what a value is: logical types, the rules between engines, canonical columns, hashes, key order.
//! - [`telemetry`]: the metrics that drift tells about itself, by name.

pub mod audit;
pub mod cli;
pub mod compare;
pub mod config;
pub mod control;
pub mod endpoint;
pub mod incident;
pub mod notify;
pub mod preflight;
pub mod report;
pub mod schema;
pub mod server;
pub mod state;
pub mod telemetry;
pub mod value;
