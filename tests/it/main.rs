//! drift from the outside. `tests/run.sh` starts the servers that the tests need.
//! Tests from the outside: the library and the binary as users meet them.
//! drift's integration tests: one binary, because every further one costs a link.

mod engines;
//! The integration tests: the built binary against real engines and files. Run them with `tests/run.sh`, which starts
//! the servers.

mod cases;
mod real;
mod support;
