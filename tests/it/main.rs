//! drift's integration tests: one binary, because every further one costs a link.

mod engines;
