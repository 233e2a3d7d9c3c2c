//! Each engine's endpoint against the real engine.

mod lake;
mod mysql;
mod postgres;
mod reading;
mod sqlite;
