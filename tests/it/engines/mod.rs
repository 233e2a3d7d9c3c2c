//! Each engine's endpoint against the real engine.

mod mysql;
