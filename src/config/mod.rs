//! What users write, as pure data: addresses, sizes, spans of time. No I/O but reading secrets from the environment.

pub mod address;
pub mod units;
