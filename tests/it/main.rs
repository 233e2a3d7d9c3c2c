//! The integration tests: the built binary against real engines and files. Run them with `tests/run.sh`, which starts
//! the servers.

mod cases;
mod real;
mod support;
