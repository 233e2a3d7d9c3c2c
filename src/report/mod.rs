//! Outcomes for people ([`human`]), for programs ([`json`]), and as files that stand whole or not at all ([`file`]):
//! all differences ([`diff`]), the statements that would mend them ([`repair`]).

pub mod diff;
pub mod file;
pub mod human;
pub mod json;
pub mod repair;
