//! The endpoints against real servers.

mod postgres;
mod lake;
mod reading;
mod sqlite;
