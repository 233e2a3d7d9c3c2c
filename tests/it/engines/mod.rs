//! The endpoints against real servers.

mod postgres;
mod lake;
mod reading;
mod sqlite;
//! Each engine's endpoint against the real engine.

mod mysql;
