//! One table in any engine or file format, from values apart from any engine.

use std::fmt::Write;
use std::path::Path;

use proptest::prelude::*;
use rusqlite::types::Value as SqliteValue;
use serde_json::json;
use tempfile::TempDir;

use super::database::{MySql, Postgres, Sqlite};
use super::parquet::{self, Cell};

/// A value apart from any engine.
#[derive(Debug, Clone)]
pub enum Datum {
    Null,
    Bool(bool),
    Int(i128),
    /// Unscaled, and digits behind the point.
    Decimal(i128, u32),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// `0` and `1`.
    Bits(String),
    /// `2020-01-31`, or with ` 12:00:00.000001`.
    Moment(String),
    /// The same in UTC.
    Instant(String),
    /// Microseconds of the day.
    Clock(u32, u32),
    Uuid([u8; 16]),
    Json(serde_json::Value),
    List(Vec<Option<i32>>),
    /// Of a type whose text is the same everywhere.
    Plain(String),
}

impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        match (self, other) {
            // Both zeros are one value; so are all that are not a number.
            (Datum::Real(a), Datum::Real(b)) => a == b || a.is_nan() && b.is_nan(),
            _ => self.text() == other.text() && self.is_null() == other.is_null(),
        }
    }
}

impl Datum {
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// The text in files, and in databases within quotes.
    pub fn text(&self) -> String {
        match self {
            Datum::Null => String::new(),
            Datum::Bool(b) => b.to_string(),
            Datum::Int(n) => n.to_string(),
            Datum::Decimal(unscaled, scale) => {
                let (sign, digits) = (if *unscaled < 0 { "-" } else { "" }, unscaled.unsigned_abs());
                let one = 10u128.pow(*scale);
                format!("{sign}{}.{:0width$}", digits / one, digits % one, width = *scale as usize)
            }
            Datum::Real(x) => format!("{x:e}"),
            Datum::Bytes(bytes) => format!("\\x{}", hex(bytes)),
            Datum::Instant(text) => format!("{text}+00:00"),
            Datum::Clock(seconds, micros) => {
                let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
                format!("{h:02}:{m:02}:{s:02}.{micros:06}")
            }
            Datum::Uuid(bytes) => {
                let digits = hex(bytes);
                let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
                parts.join("-")
            }
            Datum::Json(value) => value.to_string(),
            Datum::List(items) => json!(items).to_string(),
            Datum::Text(text) | Datum::Bits(text) | Datum::Moment(text) | Datum::Plain(text) => text.clone(),
        }
    }

    fn postgres(&self) -> String {
        match self {
            Datum::Null => "null".into(),
            Datum::List(items) => {
                let items: Vec<String> =
                    items.iter().map(|n| n.map_or("NULL".into(), |n| n.to_string())).collect();
                format!("'{{{}}}'", items.join(","))
            }
            _ => format!("'{}'", self.text().replace('\'', "''")),
        }
    }

    fn mysql(&self) -> String {
        match self {
            Datum::Null => "null".into(),
            Datum::Bool(b) => u8::from(*b).to_string(),
            Datum::Bytes(bytes) => format!("x'{}'", hex(bytes)),
            Datum::Bits(bits) => format!("b'{bits}'"),
            Datum::Instant(text) => format!("'{text}'"),
            _ => format!("'{}'", self.text().replace('\\', "\\\\").replace('\'', "''")),
        }
    }

    fn sqlite(&self) -> SqliteValue {
        match self {
            Datum::Null => SqliteValue::Null,
            Datum::Bool(b) => SqliteValue::Integer(i64::from(*b)),
            Datum::Int(n) => i64::try_from(*n).map_or(SqliteValue::Text(n.to_string()), SqliteValue::Integer),
            Datum::Real(x) => SqliteValue::Real(*x),
            Datum::Bytes(bytes) => SqliteValue::Blob(bytes.clone()),
            _ => SqliteValue::Text(self.text()),
        }
    }

    fn parquet(&self) -> Cell {
        let bytes = |bytes: &[u8]| Cell::Text(format!("0x{}", hex(bytes)));
        match self {
            Datum::Null => Cell::Null,
            Datum::Bool(b) => Cell::Bool(*b),
            Datum::Int(n) => Cell::Int(i64::try_from(*n).expect("64 bits")),
            Datum::Real(x) => Cell::Float(*x),
            Datum::Decimal(unscaled, _) => bytes(&unscaled.to_be_bytes()),
            Datum::Bytes(b) => bytes(b),
            Datum::Uuid(b) => bytes(b),
            Datum::Moment(text) | Datum::Instant(text) => Cell::Text(text.clone()),
            Datum::Clock(seconds, micros) => Cell::Int(i64::from(*seconds) * 1_000_000 + i64::from(*micros)),
            _ => bytes(self.text().as_bytes()),
        }
    }

    fn csv(&self) -> String {
        match self {
            Datum::Null => String::new(),
            Datum::Bool(_) | Datum::Int(_) | Datum::Decimal(..) | Datum::Real(_) => self.text(),
            _ => format!("\"{}\"", self.text().replace('"', "\"\"")),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A column: its types where the engines can hold its values, and the values.
pub struct Kind {
    pub name: &'static str,
    pub postgres: &'static str,
    pub mysql: &'static str,
    pub sqlite: &'static str,
    pub parquet: &'static str,
    pub values: BoxedStrategy<Datum>,
}

/// A column by its types in PostgreSQL, MariaDB, SQLite and Parquet.
pub fn kind(
    name: &'static str,
    [postgres, mysql, sqlite, parquet]: [&'static str; 4],
    values: impl Strategy<Value = Datum> + 'static,
) -> Kind {
    Kind { name, postgres, mysql, sqlite, parquet, values: values.boxed() }
}

const PARQUET: &str = "twin.parquet";
const CSV: &str = "twin.csv";

/// One engine with a table, `twin`, that can be filled again and again.
pub enum Twin {
    /// On the PostgreSQL server.
    Postgres(Postgres),
    MySql(MySql),
    Sqlite(Sqlite),
    Parquet(TempDir),
    Csv(TempDir),
}

impl Twin {
    /// A Parquet file.
    pub fn parquet() -> Twin {
        Twin::Parquet(tempfile::tempdir().expect("a folder"))
    }

    /// A CSV file.
    pub fn csv() -> Twin {
        Twin::Csv(tempfile::tempdir().expect("a folder"))
    }

    /// The column's type here; empty where the values have none.
    pub fn declared(&self, kind: &Kind) -> &'static str {
        match self {
            Twin::Postgres(_) => kind.postgres,
            Twin::MySql(_) => kind.mysql,
            Twin::Sqlite(_) => kind.sqlite,
            Twin::Parquet(_) => kind.parquet,
            Twin::Csv(_) => "text",
        }
    }

    /// Makes the table: `id`, and these columns.
    pub fn create(&self, kinds: &[Kind]) {
        let columns: Vec<String> = kinds.iter().map(|k| format!("{} {}", k.name, self.declared(k))).collect();
        let create = format!("create table twin (id bigint primary key, {})", columns.join(", "));
        match self {
            Twin::Postgres(database) => {
                database.execute("create type mood as enum ('mild', 'calm', 'wild ''n'' free')");
                database.execute(&create);
            }
            Twin::MySql(database) => database.execute(&create),
            Twin::Sqlite(database) => database.execute(&create),
            Twin::Parquet(_) | Twin::Csv(_) => {}
        }
    }

    /// Replaces all rows, each with its `id`.
    pub fn fill(&self, kinds: &[Kind], rows: &[(i64, Vec<Datum>)]) {
        let insert = |literal: fn(&Datum) -> String| {
            let rows = rows.iter().map(|(id, row)| {
                let values: Vec<String> = row.iter().map(literal).collect();
                format!("({id}, {})", values.join(", "))
            });
            format!("insert into twin values {}", rows.collect::<Vec<_>>().join(", "))
        };
        match self {
            Twin::Postgres(database) => {
                database.execute(&format!("truncate twin; {}", insert(Datum::postgres)));
            }
            Twin::MySql(database) => {
                database.execute_all(["delete from twin".to_string(), insert(Datum::mysql)]);
            }
            Twin::Sqlite(database) => {
                let mut connection = database.connect();
                let transaction = connection.transaction().expect("a transaction");
                transaction.execute("delete from twin", []).expect("no rows");
                let marks = vec!["?"; kinds.len() + 1].join(", ");
                for (id, row) in rows {
                    let id = SqliteValue::Integer(*id);
                    let values = std::iter::once(id).chain(row.iter().map(Datum::sqlite));
                    let insert = format!("insert into twin values ({marks})");
                    transaction.execute(&insert, rusqlite::params_from_iter(values)).expect("a row");
                }
                transaction.commit().expect("the rows");
            }
            Twin::Parquet(folder) => {
                let columns = kinds.iter().map(|k| optional(k.parquet, k.name));
                let columns = format!("required int64 id; {}", columns.collect::<String>());
                let cells = |(id, row): &(i64, Vec<Datum>)| {
                    std::iter::once(Cell::Int(*id)).chain(row.iter().map(Datum::parquet)).collect()
                };
                parquet::write(
                    &folder.path().join(PARQUET),
                    &columns,
                    &rows.iter().map(cells).collect::<Vec<_>>(),
                );
            }
            Twin::Csv(folder) => write_csv(&folder.path().join(CSV), kinds, rows),
        }
    }

    /// The address for drift.
    pub fn address(&self) -> String {
        match self {
            Twin::Postgres(database) => format!("{}#twin", database.url()),
            Twin::MySql(database) => format!("{}#twin", database.url()),
            Twin::Sqlite(database) => format!("sqlite:{}#twin", database.path().display()),
            Twin::Parquet(folder) => folder.path().join(PARQUET).display().to_string(),
            Twin::Csv(folder) => folder.path().join(CSV).display().to_string(),
        }
    }
}

/// A column in Parquet's own words: the annotation stands behind the name.
fn optional(declared: &str, name: &str) -> String {
    match declared.split_once(' ') {
        Some((physical, logical)) => format!("optional {physical} {name} {logical}; "),
        None => format!("optional {declared} {name}; "),
    }
}

fn write_csv(path: &Path, kinds: &[Kind], rows: &[(i64, Vec<Datum>)]) {
    let mut out = String::from("id");
    kinds.iter().for_each(|kind| out.extend([",", kind.name]));
    for (id, row) in rows {
        let _ = write!(out, "\n{id}");
        row.iter().for_each(|datum| out.extend([",", &datum.csv()]));
    }
    std::fs::write(path, out + "\n").expect("a file");
}
