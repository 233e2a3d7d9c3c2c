//! What a table looks like, in words that no engine owns: logical types, columns, keys, orders.
//!
//! Every endpoint describes its tables with these types and delivers the *wire form* of each logical type
//! ([`LogicalType`] documents it), so that everything above an endpoint is free of engine knowledge.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The engines that drift reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
    /// Parquet or Arrow IPC files: columns with types.
    TypedFile,
    /// CSV or NDJSON files: columns without types.
    UntypedFile,
}

impl Engine {
    /// The word users know.
    pub fn word(self) -> &'static str {
        match self {
            Engine::Postgres => "postgres",
            Engine::MySql => "mysql",
            Engine::Sqlite => "sqlite",
            Engine::TypedFile => "file",
            Engine::UntypedFile => "text file",
        }
    }
}

/// The engine-neutral type of a column, and with it the Arrow array in which an endpoint delivers it (its wire form).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogicalType {
    /// Wire: `Boolean`.
    Bool,
    /// An integer of `bits` width. Wire: `Int64`, except unsigned 64 bits, which is `UInt64`.
    Int {
        /// 8, 16, 24, 32 or 64.
        bits: u8,
        /// Whether negative values exist.
        signed: bool,
    },
    /// A decimal with a declared precision of at most 38 digits. Wire: `Decimal128(38, scale)`, with the reserved
    /// values of [`crate::value::decimal`] for NaN and the infinities.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// A decimal without a declared scale, or wider than 38 digits. Wire: `Utf8`, any spelling that
    /// [`crate::value::decimal::Number`] reads.
    DecimalText,
    /// Wire: `Float32`.
    Float32,
    /// Wire: `Float64`.
    Float64,
    /// Text. Wire: `Utf8`.
    Text {
        /// Greatest length in characters, where one is declared.
        max: Option<u32>,
        /// Whether the type pads with blanks (`char(n)`), so that trailing blanks are no data.
        padded: bool,
    },
    /// Bytes. Wire: `Binary`.
    Bytes,
    /// A day. Wire: `Date32`, with the reserved values of [`crate::value::temporal`].
    Date,
    /// A time of day or, in MySQL, a duration. Wire: `Time64`, microseconds for `digits` up to 6, else nanoseconds.
    Time {
        /// Declared fractional digits, 0 to 9.
        digits: u8,
    },
    /// A date with time. Wire: `Timestamp` without zone, microseconds for `digits` up to 6, else nanoseconds, with the
    /// reserved values of [`crate::value::temporal`]; zoned types deliver UTC.
    Timestamp {
        /// Declared fractional digits, 0 to 9.
        digits: u8,
        /// Whether the type holds an instant (`timestamptz`, MySQL's `timestamp`) rather than a wall clock.
        zoned: bool,
    },
    /// Months, days and microseconds. Wire: `Utf8` as written by [`crate::value::text::Interval`].
    Interval,
    /// Wire: `FixedSizeBinary(16)`.
    Uuid,
    /// A JSON document. Wire: `Utf8`, any spelling.
    Json,
    /// A list of values. Wire: `Utf8`, a JSON array (numbers and booleans bare, all else as JSON text).
    Array(Box<LogicalType>),
    /// One label out of a list. Wire: `Utf8`.
    Enum,
    /// Any labels out of a list. Wire: `Utf8`, joined with commas.
    Set,
    /// A string of bits. Wire: `Utf8` of `0` and `1`.
    Bits {
        /// Length in bits; `None` where it varies.
        len: Option<u32>,
    },
    /// A network address. Wire: `Utf8`.
    Inet,
    /// A spatial value. Wire: `Binary`, well-known bytes without a reference system.
    Geometry,
    /// Values carry their own type (CSV, NDJSON, SQLite). Wire: `Binary` as written by [`crate::value::untyped`].
    Untyped(Option<Box<LogicalType>>),
    /// A type that only its own engine knows. Wire: `Utf8`, the engine's own text.
    Other,
}

impl LogicalType {
    /// Text of any length.
    pub const TEXT: LogicalType = LogicalType::Text { max: None, padded: false };

    /// Whether values carry their own type.
    pub fn is_untyped(&self) -> bool {
        matches!(self, LogicalType::Untyped(_))
    }
}

/// What `ORDER BY column` yields at the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NativeOrder {
    /// By value: numbers, days, instants.
    Value,
    /// By the bytes of the stored value: binary, uuid, text under a binary collation.
    Bytes,
    /// Another order, or an unknown one.
    Other,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnShape {
    /// The name, as stored.
    pub name: String,
    /// The type as the engine writes it, such as `numeric(12,2)`.
    pub engine_type: String,
    /// The type in drift's words.
    pub logical: LogicalType,
    /// Whether NULL is allowed; `None` where the engine cannot tell (queries, files).
    pub nullable: Option<bool>,
    /// The default's expression, where the engine has one.
    pub default: Option<String>,
    /// Why the column cannot be read (a missing privilege), if so.
    pub unreadable: Option<String>,
    /// The order of `ORDER BY` on this column.
    pub order: NativeOrder,
}

impl ColumnShape {
    /// Whether the engine computes the value and takes none; catalogues say so in the default, as PostgreSQL does.
    pub fn is_generated(&self) -> bool {
        self.default.as_ref().is_some_and(|default| default.starts_with("generated always as ("))
    }
}

/// A table, view, query or set of files as its endpoint describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableShape {
    /// The engine that holds it.
    pub engine: Engine,
    /// Its columns in stored order.
    pub columns: Vec<ColumnShape>,
    /// The primary key's columns; empty where there is none.
    pub primary_key: Vec<String>,
    /// Unique, complete (not partial) indexes on plain columns, the primary key's among them.
    pub unique: Vec<Vec<String>>,
    /// Column lists by which the engine can deliver rows in order without sorting them.
    pub index_orders: Vec<Vec<String>>,
    /// The table's comment, where the engine has one.
    pub comment: Option<String>,
    /// Whether rows may well lie in key order though nothing promises it (files): worth trying, checked while reading.
    pub may_be_ordered: bool,
    /// The engine's own guess of the number of rows.
    pub row_estimate: Option<u64>,
    /// Why rows may be hidden from this user (row security), if so.
    pub hidden_rows: Option<String>,
}

impl TableShape {
    /// The column of that exact name.
    pub fn column(&self, name: &str) -> Option<&ColumnShape> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Whether the engine delivers rows ordered by `key` without a sort, and no key column may be NULL.
    pub fn delivers_order(&self, key: &[String]) -> bool {
        self.index_orders.iter().any(|index| index.starts_with(key))
            && key.iter().all(|k| self.column(k).is_some_and(|c| c.nullable == Some(false)))
    }
}

impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogicalType::Bool => write!(f, "bool"),
            LogicalType::Int { bits, signed: true } => write!(f, "int{bits}"),
            LogicalType::Int { bits, signed: false } => write!(f, "uint{bits}"),
            LogicalType::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            LogicalType::DecimalText => write!(f, "decimal"),
            LogicalType::Float32 => write!(f, "float32"),
            LogicalType::Float64 => write!(f, "float64"),
            LogicalType::Text { max: Some(n), padded: false } => write!(f, "text({n})"),
            LogicalType::Text { max: Some(n), padded: true } => write!(f, "char({n})"),
            LogicalType::Text { .. } => write!(f, "text"),
            LogicalType::Bytes => write!(f, "bytes"),
            LogicalType::Date => write!(f, "date"),
            LogicalType::Time { digits } => write!(f, "time({digits})"),
            LogicalType::Timestamp { digits, zoned: false } => write!(f, "timestamp({digits})"),
            LogicalType::Timestamp { digits, zoned: true } => write!(f, "timestamptz({digits})"),
            LogicalType::Interval => write!(f, "interval"),
            LogicalType::Uuid => write!(f, "uuid"),
            LogicalType::Json => write!(f, "json"),
            LogicalType::Array(element) => write!(f, "{element}[]"),
            LogicalType::Enum => write!(f, "enum"),
            LogicalType::Set => write!(f, "set"),
            LogicalType::Bits { len: Some(n) } => write!(f, "bit({n})"),
            LogicalType::Bits { len: None } => write!(f, "bits"),
            LogicalType::Inet => write!(f, "inet"),
            LogicalType::Geometry => write!(f, "geometry"),
            LogicalType::Untyped(Some(hint)) => write!(f, "untyped ({hint})"),
            LogicalType::Untyped(None) => write!(f, "untyped"),
            LogicalType::Other => write!(f, "engine type"),
        }
    }
}
