//! Where rows live. One seam, [`Endpoint`] and [`Snapshot`], in front of every engine.
//!
//! An endpoint describes its table in the words of [`crate::value::shape`] and delivers rows as Arrow batches in the
//! *wire form* of each column's logical type. Everything that is particular to an engine (sessions, SQL, catalogues,
//! protocols) ends here. Nothing is ever written to a side.

mod blocking;
pub mod lake;
pub mod mysql;
pub mod postgres;
mod remember;
pub mod repair;
pub mod sqlite;
mod stamp;
mod untyped_batch;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::stream::BoxStream;

pub use remember::remembering;

use crate::config::address::{Address, CsvOptions, Object};
use crate::value::shape::{LogicalType, TableShape};

/// The name under which drift's sessions appear in the engines' own lists.
pub const APPLICATION_NAME: &str = "drift";
/// How long a session waits for a lock.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long any statement but the scan may take.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection attempt may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The greatest number of rows in a batch.
pub const BATCH_ROWS: usize = 8192;
/// A batch is closed when its values exceed this many bytes.
pub const BATCH_BYTES: usize = 4 << 20;

/// What went wrong, as far as the caller acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The user asked for something that does not exist: nothing was compared (exit code 2).
    Usage,
    /// No connection, or the server refused it.
    Unavailable,
    /// A privilege is missing, or reading consistently is impossible.
    Refused,
    /// The connection broke while reading; another attempt may succeed.
    Lost,
    /// The data cannot be read: a damaged file, a malformed line, an object or table that changed meanwhile.
    Data,
}

/// An error of one side. The message names the connection, the table or file, and what to do; never a row value or a
/// secret.
#[derive(Debug, Clone)]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// For the reader.
    pub message: String,
}

impl Error {
    /// An error of that kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// A slip of the user.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Usage, message)
    }

    /// What describing a table again met: what is missing by now was there before, so nobody misspelled it.
    pub(crate) fn described_again(self) -> Error {
        if self.kind != ErrorKind::Usage {
            return self;
        }
        Error::new(ErrorKind::Data, format!("{} (it was there when the comparison began)", self.message))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The result of an endpoint's work.
pub type Result<T> = std::result::Result<T, Error>;

/// Rows on their way.
pub type BatchStream = BoxStream<'static, Result<RecordBatch>>;

/// A value of a key's leading column, as a border between ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Border {
    /// A whole number.
    Int(i128),
    /// A day, counted from 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// A UUID or sixteen bytes.
    Uuid([u8; 16]),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Border {
    /// The least value behind this one; `None` where there is none.
    pub(crate) fn successor(&self) -> Option<Border> {
        Some(match self {
            Border::Int(n) => Border::Int(n.checked_add(1)?),
            Border::Date(days) => Border::Date(days.checked_add(1)?),
            Border::Timestamp(micros) => Border::Timestamp(micros.checked_add(1)?),
            Border::Uuid(bytes) => Border::Uuid(u128::from_be_bytes(*bytes).checked_add(1)?.to_be_bytes()),
            Border::Bytes(bytes) => Border::Bytes(bytes.iter().copied().chain([0]).collect()),
        })
    }

    /// Whether this value comes before another of its kind.
    pub(crate) fn is_before(&self, other: &Border) -> bool {
        match (self, other) {
            (Border::Int(a), Border::Int(b)) => a < b,
            (Border::Date(a), Border::Date(b)) => a < b,
            (Border::Timestamp(a), Border::Timestamp(b)) => a < b,
            (Border::Uuid(a), Border::Uuid(b)) => a < b,
            (Border::Bytes(a), Border::Bytes(b)) => a < b,
            _ => false,
        }
    }
}

/// A part of a table. Ranges hold their start and not their end; an absent end is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All rows.
    Whole,
    /// Rows whose `column` lies in `from <= column < to`.
    KeyRange {
        /// The key's leading column, by the name it has on this side.
        column: String,
        /// The least value inside.
        from: Option<Border>,
        /// The least value behind.
        to: Option<Border>,
    },
    /// The rows with these keys. An engine may deliver others as well (texts that its collation holds for the same, or
    /// all rows of a file), so that the reader has to look at the keys again.
    Keys {
        /// The key's columns, by the names they have on this side.
        columns: Vec<String>,
        /// One value per column each.
        keys: Vec<Vec<Border>>,
    },
}

/// A condition for [`Scope::Keys`], from one for a column and a value.
pub(crate) fn any_of(
    columns: &[String],
    keys: &[Vec<Border>],
    mut equal: impl FnMut(&str, &Border) -> Result<String>,
) -> Result<String> {
    let mut out = Vec::with_capacity(keys.len());
    for key in keys {
        let parts: Result<Vec<String>> =
            columns.iter().zip(key).map(|(column, value)| equal(column, value)).collect();
        out.push(parts?.join(" and "));
    }
    Ok(format!("({})", out.join(" or ")))
}

/// Where a snapshot stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// The place in the engine's log (LSN, GTID), for the reader; `None` without a log.
    pub log: Option<String>,
    /// What identifies the visible state: two snapshots with the same text show the same rows. `None` where the engine
    /// cannot tell.
    pub state: Option<String>,
}

impl Position {
    /// Whether both positions certainly show the same rows; what is unknown never counts as yes.
    pub fn shows_the_same(&self, other: &Position) -> bool {
        self.state.is_some() && self.state == other.state
    }
}

/// What to read.
#[derive(Debug, Clone, Default)]
pub struct ReadRequest {
    /// The columns by the names they have on this side, in the order of the batches' columns.
    pub columns: Vec<String>,
    /// A condition in the engine's own language.
    pub filter: Option<String>,
    /// The columns by which rows are to be delivered in order; empty if any order will do. Only asked for where
    /// [`TableShape::delivers_order`] holds.
    pub order: Vec<String>,
    /// How many scans are wanted at once, at most.
    pub workers: usize,
}

/// A table of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// The schema or database that it lies in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// What the address has to name to read it.
    pub object: Object,
}

/// A table as one engine holds it. Made for one address.
#[async_trait]
pub trait Endpoint: Send + Sync {
    /// The address for people, without any password.
    fn name(&self) -> &str;

    /// What the table looks like now. [`ErrorKind::Usage`] when it does not exist.
    async fn describe(&self) -> Result<TableShape>;

    /// Opens one consistent view of the table. The shape is what `describe` returned; a table that looks different by
    /// now is [`ErrorKind::Data`].
    async fn open(&self, shape: &TableShape, request: ReadRequest) -> Result<Box<dyn Snapshot>>;

    /// Whether nothing can change what it shows: its differences need no confirmation.
    fn is_immutable(&self) -> bool {
        false
    }

    /// The table's name in the engine's SQL, where statements can change its rows: not for files and queries.
    fn table(&self) -> Option<String> {
        None
    }

    /// All tables of the same database that this user may see; partitions count as parts of their table, and views are
    /// none.
    async fn siblings(&self) -> Result<Vec<Sibling>> {
        Err(Error::new(ErrorKind::Usage, format!("{}: there is no database around it", self.name())))
    }

    /// The statements (or files) that reading `scope` takes, for `--explain`.
    fn explain(&self, shape: &TableShape, request: &ReadRequest, scope: &Scope) -> Vec<String>;
}

/// One consistent view of a table, for as long as it is held.
#[async_trait]
pub trait Snapshot: Send + Sync {
    /// Where it stands.
    fn position(&self) -> Position;

    /// How many scans may run at the same time; 1 unless the engine can share the view.
    fn workers(&self) -> usize;

    /// About `n - 1` borders that cut the table into ranges of similar size by the leading column, ascending; for
    /// balance only, so it may return fewer or none. `column` is the name on this side.
    async fn cuts(&self, column: &str, n: usize) -> Result<Vec<Border>>;

    /// The time of the database's own clock, in microseconds since 1970; `None` where there is no clock.
    async fn now(&self) -> Result<Option<i64>> {
        Ok(None)
    }

    /// Reads a part: batches of at most [`BATCH_ROWS`] rows and about [`BATCH_BYTES`], in wire form, the requested
    /// columns in the requested order.
    async fn scan(&self, scope: &Scope) -> Result<BatchStream>;

    /// What reading has cost so far.
    fn cost(&self) -> Arc<Cost>;
}

/// The table of the target with the same name: that of the same schema, or the only one.
pub fn partner<'a>(table: &Sibling, theirs: &'a [Sibling]) -> std::result::Result<&'a Sibling, String> {
    let same: Vec<&Sibling> = theirs.iter().filter(|other| other.name == table.name).collect();
    match same.as_slice() {
        [] => Err(format!("the target has no table {}", table.name)),
        [only] => Ok(only),
        several => several.iter().find(|other| other.schema == table.schema).copied().ok_or_else(|| {
            let names: Vec<String> = several.iter().map(|other| other.object.to_string()).collect();
            format!(
                "the target has several tables of this name, {}; compare them by themselves",
                names.join(" and ")
            )
        }),
    }
}

/// Counters of what reading costs.
#[derive(Debug, Default)]
pub struct Cost {
    /// Statements sent to the server.
    pub statements: AtomicU64,
    /// Bytes of row data received.
    pub bytes: AtomicU64,
}

impl Cost {
    /// Counts one statement.
    pub fn statement(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts received bytes.
    pub fn received(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The Arrow type of a logical type's wire form.
pub fn wire_type(logical: &LogicalType) -> DataType {
    match logical {
        LogicalType::Bool => DataType::Boolean,
        LogicalType::Int { bits: 64, signed: false } => DataType::UInt64,
        LogicalType::Int { .. } => DataType::Int64,
        LogicalType::Decimal { scale, .. } => DataType::Decimal128(38, *scale),
        LogicalType::Float32 => DataType::Float32,
        LogicalType::Float64 => DataType::Float64,
        LogicalType::Bytes | LogicalType::Geometry | LogicalType::Untyped(_) => DataType::Binary,
        LogicalType::Date => DataType::Date32,
        LogicalType::Time { digits } if *digits > 6 => DataType::Time64(TimeUnit::Nanosecond),
        LogicalType::Time { .. } => DataType::Time64(TimeUnit::Microsecond),
        LogicalType::Timestamp { digits, .. } if *digits > 6 => {
            DataType::Timestamp(TimeUnit::Nanosecond, None)
        }
        LogicalType::Timestamp { .. } => DataType::Timestamp(TimeUnit::Microsecond, None),
        LogicalType::Uuid => DataType::FixedSizeBinary(16),
        LogicalType::DecimalText
        | LogicalType::Text { .. }
        | LogicalType::Interval
        | LogicalType::Json
        | LogicalType::Array(_)
        | LogicalType::Enum
        | LogicalType::Set
        | LogicalType::Bits { .. }
        | LogicalType::Inet
        | LogicalType::Other => DataType::Utf8,
    }
}

/// The schema of the batches that a scan of `columns` delivers. Every column may be NULL.
pub fn wire_schema(shape: &TableShape, columns: &[String]) -> Result<SchemaRef> {
    let fields: Result<Vec<Field>> = columns
        .iter()
        .map(|name| {
            let column = shape.column(name).ok_or_else(|| {
                Error::new(ErrorKind::Usage, format!("there is no column {name:?} in the described table"))
            })?;
            Ok(Field::new(name, wire_type(&column.logical), true))
        })
        .collect();
    Ok(Arc::new(Schema::new(fields?)))
}

/// Makes the endpoint of an address. Connects to nothing yet.
pub fn of(address: &Address, csv: &CsvOptions) -> Result<Box<dyn Endpoint>> {
    Ok(match address {
        Address::Postgres(url, object) => Box::new(postgres::Postgres::new(url, object)?),
        Address::Sqlite(path, object) => Box::new(sqlite::Sqlite::new(path, object)),
        Address::Files(location) => Box::new(lake::Lake::new(location, csv)),
        Address::MySql(url, object) => Box::new(mysql::MySql::new(url, object)?),
    })
}

/// A place for an engine's own option files.
pub(crate) fn home_file(name: &str) -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| PathBuf::from(home).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(schema: &str, name: &str) -> Sibling {
        let object = Object::Table { schema: Some(schema.into()), name: name.into() };
        Sibling { schema: schema.into(), name: name.into(), object }
    }

    #[test]
    fn a_table_meets_its_namesake_and_no_other() {
        let theirs = [table("public", "a"), table("audit", "a"), table("audit", "b"), table("x", "C")];
        assert_eq!(partner(&table("audit", "a"), &theirs), Ok(&theirs[1]));
        assert_eq!(partner(&table("shop", "b"), &theirs), Ok(&theirs[2]));
        assert!(partner(&table("shop", "a"), &theirs).unwrap_err().contains("several"));
        assert_eq!(partner(&table("x", "c"), &theirs), Err("the target has no table c".into()));
    }
}
