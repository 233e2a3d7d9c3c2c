//! drift finds the rows that differ between a source and its replica.
//!
//! The rooms, in the order data flows; arrows point only downwards (a test reads the `use crate::` lines):
//!
//! - [`cli`]: one file per command; arguments become a typed request, the outcome becomes an exit code.
//! - [`report`]: outcomes as text, JSON, pages and files.
//! - [`compare`]: plans, external sort, the merge of two sides, ranges, and the outcome.
//! - [`schema`]: the difference of two table shapes.
//! - [`endpoint`]: where rows live: PostgreSQL, MySQL and MariaDB, SQLite, files.
//! - [`config`]: what users write, as pure data.
//! - [`value`]: what a value is: logical types, the rules between engines, canonical columns, hashes, key order.

pub mod cli;
pub mod compare;
pub mod config;
pub mod endpoint;
pub mod report;
pub mod schema;
pub mod value;
