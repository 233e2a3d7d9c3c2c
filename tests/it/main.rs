//! drift from the outside. `tests/run.sh` starts the servers that the tests need.
//! Tests from the outside: the library and the binary as users meet them.
//! drift's integration tests: one binary, because every further one costs a link.

mod engines;
