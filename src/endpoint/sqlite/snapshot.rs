//! One read transaction, and the rows it shows.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use rusqlite::types::ValueRef;

use super::session::{Session, quoted};
use super::{Sqlite, source, sql};
use crate::config::address::Object;
use crate::endpoint::blocking::{self, Outlet, Stop};
use crate::endpoint::untyped_batch::UntypedBatch;
use crate::endpoint::{BatchStream, Border, Cost, Position, ReadRequest, Result, Scope, Snapshot};
use crate::value::shape::{NativeOrder, TableShape};
use crate::value::untyped::Untyped;

/// How often a reader that nobody listens to is interrupted until it ends.
const INTERRUPT_EVERY: Duration = Duration::from_millis(10);

/// A connection inside its read transaction. It cannot be shared, so that scans run one after the other.
pub(super) struct SqliteSnapshot {
    name: String,
    object: Object,
    request: ReadRequest,
    schema: SchemaRef,
    /// Columns of whole numbers whose ends SQLite finds by seeking.
    seekable: Vec<String>,
    session: Arc<tokio::sync::Mutex<Session>>,
    cost: Arc<Cost>,
}

impl SqliteSnapshot {
    pub(super) fn new(
        endpoint: &Sqlite,
        session: Session,
        shape: &TableShape,
        schema: SchemaRef,
        request: ReadRequest,
    ) -> SqliteSnapshot {
        let leading =
            |name: &str| shape.index_orders.iter().any(|index| index.first().is_some_and(|c| c == name));
        let whole = shape.columns.iter().filter(|c| c.order == NativeOrder::Value && leading(&c.name));
        let seekable = whole.map(|c| c.name.clone()).collect();
        SqliteSnapshot {
            name: endpoint.name.clone(),
            object: endpoint.object.clone(),
            request,
            schema,
            seekable,
            session: Arc::new(tokio::sync::Mutex::new(session)),
            cost: Arc::default(),
        }
    }
}

#[async_trait]
impl Snapshot for SqliteSnapshot {
    fn position(&self) -> Position {
        // `pragma data_version` only tells one connection about others, so nothing identifies the state.
        Position::default()
    }

    fn workers(&self) -> usize {
        1
    }

    async fn now(&self) -> Result<Option<i64>> {
        let (session, cost) = (self.session.clone().lock_owned().await, self.cost.clone());
        blocking::run(self.name.clone(), move || {
            cost.statement();
            let statement = "select cast((julianday('now') - 2440587.5) * 86400000 as integer) * 1000";
            let now = session.connection.query_row(statement, [], |row| row.get(0));
            now.map(Some).map_err(|e| session.error(e))
        })
        .await
    }

    async fn cuts(&self, column: &str, n: usize) -> Result<Vec<Border>> {
        if n < 2 || !self.seekable.iter().any(|c| c == column) {
            return Ok(Vec::new());
        }
        let (from, column) = (source(&self.object), quoted(column));
        let (session, cost) = (self.session.clone().lock_owned().await, self.cost.clone());
        blocking::run(self.name.clone(), move || {
            // Two statements: SQLite seeks for a lone minimum or maximum, and scans for both together.
            let end = |function: &str| -> Result<Option<i64>> {
                cost.statement();
                let statement = format!("select {function}({column}) from {from}");
                session.connection.query_row(&statement, [], |row| row.get(0)).map_err(|e| session.error(e))
            };
            Ok(match (end("min")?, end("max")?) {
                (Some(least), Some(greatest)) => linear_cuts(least, greatest, n),
                _ => Vec::new(),
            })
        })
        .await
    }

    async fn scan(&self, scope: &Scope) -> Result<BatchStream> {
        let statement = sql(&self.object, &self.request, scope)?;
        let session = self.session.clone().lock_owned().await;
        let interrupt = session.connection.get_interrupt_handle();
        let reading = Arc::new(Mutex::new(true));
        let done = reading.clone();
        let (schema, cost) = (self.schema.clone(), self.cost.clone());
        let on_drop = move || {
            // An interrupt that comes before the statement's first step is lost, hence again until the reader has ended.
            // Under the lock, so that the scan that comes next on this connection is never the one interrupted.
            let ended = move || {
                let reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
                if *reading {
                    interrupt.interrupt();
                }
                !*reading
            };
            if !ended() {
                std::thread::spawn(move || {
                    while !ended() {
                        std::thread::sleep(INTERRUPT_EVERY);
                    }
                });
            }
        };
        let read = move |outlet: &Outlet| {
            let result = read(&session, &statement, schema, &cost, outlet);
            *done.lock().unwrap_or_else(PoisonError::into_inner) = false;
            drop(session);
            result
        };
        Ok(blocking::stream(self.name.clone(), read, on_drop))
    }

    fn cost(&self) -> Arc<Cost> {
        self.cost.clone()
    }
}

/// Borders at equal steps between two values.
fn linear_cuts(least: i64, greatest: i64, n: usize) -> Vec<Border> {
    let (least, span) = (i128::from(least), i128::from(greatest) - i128::from(least) + 1);
    let mut cuts: Vec<Border> = (1..n as i128)
        .map(|i| Border::Int(least + span * i / n as i128))
        .filter(|c| *c != Border::Int(least))
        .collect();
    cuts.dedup();
    cuts
}

fn read(
    session: &Session,
    statement: &str,
    schema: SchemaRef,
    cost: &Cost,
    outlet: &Outlet,
) -> std::result::Result<(), Stop> {
    let failed = |e| Stop::Failed(session.error(e));
    cost.statement();
    let columns = schema.fields().len();
    let mut batch = UntypedBatch::new(schema);
    let mut prepared = session.connection.prepare(statement).map_err(failed)?;
    let mut rows = prepared.query([]).map_err(failed)?;
    let mut number = String::new();
    while let Some(row) = rows.next().map_err(failed)? {
        for column in 0..columns {
            match row.get_ref(column).map_err(failed)? {
                ValueRef::Null => batch.null(column)?,
                value => batch.value(column, untyped(value, &mut number))?,
            }
        }
        if batch.end_row() {
            cost.received(batch.bytes());
            outlet.send(batch.take()?)?;
        }
    }
    if !batch.is_empty() {
        cost.received(batch.bytes());
        outlet.send(batch.take()?)?;
    }
    session.verify()?;
    Ok(())
}

/// A value in wire form; `number` is scratch space. NULL is the caller's.
fn untyped<'a>(value: ValueRef<'a>, number: &'a mut String) -> Untyped<'a> {
    number.clear();
    match value {
        ValueRef::Null => Untyped::Text(""),
        ValueRef::Integer(n) => {
            let _ = write!(number, "{n}");
            Untyped::Number(number)
        }
        ValueRef::Real(n) => {
            if n.is_infinite() {
                number.push_str(if n > 0.0 { "Infinity" } else { "-Infinity" });
            } else {
                // Debug output is the shortest text that reads back as the same number.
                let _ = write!(number, "{n:?}");
            }
            Untyped::Number(number)
        }
        // SQLite does not check that text is UTF-8.
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Untyped::Text(text),
            Err(_) => Untyped::Bytes(bytes),
        },
        ValueRef::Blob(bytes) => Untyped::Bytes(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_storage_class() {
        let mut scratch = String::new();
        assert_eq!(untyped(ValueRef::Integer(-7), &mut scratch), Untyped::Number("-7"));
        assert_eq!(untyped(ValueRef::Real(0.1), &mut scratch), Untyped::Number("0.1"));
        assert_eq!(untyped(ValueRef::Real(1e300), &mut scratch), Untyped::Number("1e300"));
        assert_eq!(untyped(ValueRef::Real(f64::NEG_INFINITY), &mut scratch), Untyped::Number("-Infinity"));
        assert_eq!(untyped(ValueRef::Text(b"7"), &mut scratch), Untyped::Text("7"));
        assert_eq!(untyped(ValueRef::Text(b"\xff"), &mut scratch), Untyped::Bytes(b"\xff"));
        assert_eq!(untyped(ValueRef::Blob(b"7"), &mut scratch), Untyped::Bytes(b"7"));
    }

    #[test]
    fn cuts_span_the_whole_range() {
        assert_eq!(linear_cuts(0, 99, 4), [25, 50, 75].map(Border::Int));
        assert_eq!(linear_cuts(5, 5, 4), []);
        assert_eq!(linear_cuts(i64::MIN, i64::MAX, 2), [Border::Int(0)]);
    }
}
