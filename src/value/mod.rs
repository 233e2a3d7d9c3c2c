//! What a value is: logical types, the rules between engines, canonical columns, their hashes and their order.

pub mod decimal;
pub mod json;
pub mod recipe;
pub mod shape;
pub mod temporal;
pub mod text;
pub mod untyped;
