//! drift from the outside. `tests/run.sh` starts the servers that the tests need.

mod engines;
