//! The endpoints against real servers.

mod postgres;
