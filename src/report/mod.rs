//! Outcomes for people ([`human`]) and for programs ([`json`]).

pub mod human;
pub mod json;
