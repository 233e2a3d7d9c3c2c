//! The integration tests: the library and the built binary against real engines and files, as users meet them. One
//! binary, because every further one costs a link. `tests/run.sh` starts the servers.

#![allow(
    unreachable_pub,
    clippy::print_stdout,
    reason = "a test binary has no public interface, and its output is for people"
)]

mod audit;
mod cases;
mod config;
mod confirm;
mod engines;
mod examples;
mod faults;
mod house;
mod memory;
mod patterns;
mod planted;
mod real;
mod repair;
mod reports;
mod sample;
mod serve;
mod support;
mod tables;
mod traps;
mod twins;
mod watch;
