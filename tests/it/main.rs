//! Tests from the outside: the library and the binary as users meet them.

mod engines;
