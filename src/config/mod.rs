//! What users write, as pure data: addresses, sizes, spans of time, and the configuration. No I/O but reading files and
//! secrets.
//!
//! A configuration goes through four steps: `tree` (YAML whose nodes know their line), `load` (secrets, merging, typed
//! data), `settings` (the types and every default), `whole` (what only the whole can tell). A problem found at any step
//! names its file, its line, the key and what to do.

pub mod address;
mod checks;
mod load;
pub mod settings;
pub mod threshold;
mod tree;
pub mod units;
mod whole;

pub use load::{Loaded, Problem, json_schema, load, read};
pub use whole::{address as table_address, plain};
