//! What a value is: logical types, the rules between engines, canonical columns, their hashes and their order.
//!
//! [`shape`] describes tables, [`recipe`] decides in which form two columns are compared, [`canon`] brings wire arrays
//! into that form, [`hash`] and [`keys`] make them comparable by the million, [`same`] judges two single values, and
//! [`show`] writes them for people.

pub mod canon;
pub mod decimal;
pub mod guess;
pub mod hash;
pub mod json;
pub mod keys;
pub mod recipe;
pub mod same;
pub mod shape;
pub mod show;
pub mod temporal;
pub mod text;
pub mod untyped;
