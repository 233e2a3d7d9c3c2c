//! Outcomes for people ([`human`], [`markdown`], [`html`]; [`watch`] for what is watched), for programs ([`json`], [`junit`]), and as files that stand
//! whole or not at all ([`file`]): all differences ([`diff`]), the statements that would mend them ([`repair`]).

pub mod audit;
pub mod diff;
pub mod file;
pub mod html;
pub mod human;
pub mod incident;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod repair;
pub mod tables;
pub mod watch;
pub mod words;
