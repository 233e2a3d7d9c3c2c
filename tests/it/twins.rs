//! Twins: whatever rows two engines hold, the same values have the same digests, and a single changed value is found as
//! exactly that. Random rows of every type that the pair can hold, on the real servers.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use drift::compare::{CompareOutcome, CompareRequest, Control, Endpoints, KeyChoice, Verdict, compare};
use drift::config::address::{Address, CsvOptions};
use drift::endpoint;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::test_runner::{Config, TestRunner};
use rusqlite::types::Value as SqliteValue;
use serde_json::json;
use tempfile::TempDir;

use crate::support::block_on;
use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::parquet::{self, Cell};

/// A value apart from any engine.
#[derive(Debug, Clone)]
enum Datum {
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
    fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// The text in files, and in databases within quotes.
    fn text(&self) -> String {
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
struct Kind {
    name: &'static str,
    postgres: &'static str,
    mysql: &'static str,
    sqlite: &'static str,
    parquet: &'static str,
    values: BoxedStrategy<Datum>,
}

fn kind(
    name: &'static str,
    [postgres, mysql, sqlite, parquet]: [&'static str; 4],
    values: impl Strategy<Value = Datum> + 'static,
) -> Kind {
    Kind { name, postgres, mysql, sqlite, parquet, values: values.boxed() }
}

/// All columns. An empty type means that the engine has none for these values.
fn kinds() -> Vec<Kind> {
    use Datum as D;
    let int = |n: i128| D::Int(n);
    let text = || {
        prop_oneof![
            "\\PC{0,24}",
            "[ \t\r\n'\"\\\\,;|#%_$`]{0,8}",
            "[a-z]{0,4} {0,3}",
            select(vec!["", "NULL", "\\N", "<null>", "0", "nan", "ä", "a\u{308}", "🦀", "🐙", "İ"])
                .prop_map(str::to_string),
        ]
    };
    let day = |first: u32, last: u32| {
        (first..=last, 1u32..=12, 1u32..=28).prop_map(|(y, m, d)| format!("{y:04}-{m:02}-{d:02}"))
    };
    let second =
        || (0u32..86_400, prop_oneof![Just(0), 0u32..1_000_000]).prop_map(|(s, us)| D::Clock(s, us).text());
    let moment =
        |first, last| (day(first, last), second()).prop_map(|(day, second)| format!("{day} {second}"));
    let document = {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|b| json!(b)),
            any::<i64>().prop_map(|n| json!(n)),
            text().prop_map(|s| json!(s)),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
                prop::collection::btree_map("[a-zä\"\\\\ ]{0,5}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    };
    let finite = || any::<f64>().prop_filter("finite", |x| x.is_finite());
    vec![
        kind(
            "tiny",
            ["smallint", "tinyint", "integer", "int32 (INTEGER(8,true))"],
            any::<i8>().prop_map(move |n| int(n.into())),
        ),
        kind("whole", ["int", "int", "integer", "int32"], any::<i32>().prop_map(move |n| int(n.into()))),
        kind("big", ["bigint", "bigint", "integer", "int64"], any::<i64>().prop_map(move |n| int(n.into()))),
        kind(
            "huge",
            ["numeric(20,0)", "bigint unsigned", "text", ""],
            any::<u64>().prop_map(move |n| int(n.into())),
        ),
        kind("year", ["int", "year", "integer", "int32"], (1901i128..=2155).prop_map(int)),
        kind(
            "money",
            ["numeric(30,10)", "decimal(30,10)", "text", "fixed_len_byte_array(16) (DECIMAL(30,10))"],
            (-10i128.pow(30) + 1..10i128.pow(30)).prop_map(|n| D::Decimal(n, 10)),
        ),
        kind(
            "exact",
            ["numeric", "decimal(65,20)", "text", "binary (STRING)"],
            any::<i128>().prop_map(|n| D::Plain(D::Decimal(n, 20).text())),
        ),
        kind(
            "single",
            ["real", "float", "real", "float"],
            any::<f32>()
                .prop_filter("finite", |x| x.is_finite() && !x.is_subnormal())
                .prop_map(|x| D::Real(x.into())),
        ),
        kind("long_float", ["double precision", "double", "real", "double"], finite().prop_map(D::Real)),
        kind("wild", ["double precision", "", "", "double"], any::<f64>().prop_map(D::Real)),
        kind("flag", ["boolean", "tinyint(1)", "boolean", "boolean"], any::<bool>().prop_map(D::Bool)),
        kind("note", ["text", "longtext", "text", "binary (STRING)"], text().prop_map(D::Text)),
        kind(
            "code",
            ["varchar(40)", "varchar(40)", "varchar(40)", "binary (STRING)"],
            text().prop_map(D::Text),
        ),
        kind(
            "padded",
            ["char(12)", "char(12)", "text", "binary (STRING)"],
            "[a-zäß🦀 ]{0,11}".prop_map(|s| D::Text(s.trim_end().to_string())),
        ),
        kind(
            "raw",
            ["bytea", "longblob", "blob", "binary"],
            prop::collection::vec(any::<u8>(), 0..12).prop_map(D::Bytes),
        ),
        kind("day", ["date", "date", "date", "int32 (DATE)"], day(1, 9999).prop_map(D::Moment)),
        kind(
            "clock",
            ["time(6)", "time(6)", "time", "int64 (TIME(MICROS,false))"],
            (0u32..86_400, 0u32..1_000_000).prop_map(|(s, us)| D::Clock(s, us)),
        ),
        kind(
            "moment",
            ["timestamp(6)", "datetime(6)", "datetime", "int64 (TIMESTAMP(MICROS,false))"],
            moment(1, 9999).prop_map(D::Moment),
        ),
        kind(
            "instant",
            ["timestamptz(6)", "timestamp(6) null", "timestamptz", "int64 (TIMESTAMP(MICROS,true))"],
            moment(1971, 2037).prop_map(D::Instant),
        ),
        kind(
            "token",
            ["uuid", "uuid", "uuid", "fixed_len_byte_array(16) (UUID)"],
            any::<[u8; 16]>().prop_map(|mut bytes| {
                // MariaDB takes no others than those of RFC 4122.
                bytes[6] = bytes[6] & 0x0f | 0x40;
                bytes[8] = bytes[8] & 0x3f | 0x80;
                D::Uuid(bytes)
            }),
        ),
        kind("document", ["jsonb", "json", "json", "binary (JSON)"], document.clone().prop_map(D::Json)),
        kind("spelled", ["json", "longtext", "text", "binary (JSON)"], document.prop_map(D::Json)),
        kind(
            "label",
            ["mood", "enum('calm','mild','wild ''n'' free')", "text", "binary (ENUM)"],
            select(vec!["calm", "mild", "wild 'n' free"]).prop_map(|s| D::Plain(s.into())),
        ),
        kind(
            "tags",
            ["text", "set('a','b','c','d')", "text", "binary (STRING)"],
            subsequence(vec!["a", "b", "c", "d"], 0..=4).prop_map(|tags| D::Plain(tags.join(","))),
        ),
        kind("bits", ["bit(12)", "bit(12)", "text", "binary (STRING)"], "[01]{12}".prop_map(D::Bits)),
        kind(
            "address",
            ["inet", "inet6", "text", "binary (STRING)"],
            any::<[u16; 8]>().prop_map(|parts| D::Plain(std::net::Ipv6Addr::from(parts).to_string())),
        ),
        kind(
            "span",
            ["interval", "varchar(60)", "text", "binary (STRING)"],
            (-99i32..99, -99i32..99, 0u32..90_000, 0u32..1_000_000)
                .prop_map(|(m, d, s, us)| D::Plain(format!("P{m}M{d}DT{s}.{us:06}S"))),
        ),
        kind(
            "list",
            ["int[]", "json", "json", "binary (JSON)"],
            prop::collection::vec(prop::option::of(any::<i32>()), 0..5).prop_map(D::List),
        ),
    ]
}

const PARQUET: &str = "twin.parquet";
const CSV: &str = "twin.csv";

/// One engine with a table that can be filled again and again.
enum Twin {
    Postgres(Postgres),
    MySql(MySql),
    Sqlite(Sqlite),
    Parquet(TempDir),
    Csv(TempDir),
}

impl Twin {
    fn parquet() -> Twin {
        Twin::Parquet(tempfile::tempdir().expect("a folder"))
    }

    fn csv() -> Twin {
        Twin::Csv(tempfile::tempdir().expect("a folder"))
    }

    /// The column's type here; empty where the values have none.
    fn declared(&self, kind: &Kind) -> &'static str {
        match self {
            Twin::Postgres(_) => kind.postgres,
            Twin::MySql(_) => kind.mysql,
            Twin::Sqlite(_) => kind.sqlite,
            Twin::Parquet(_) => kind.parquet,
            Twin::Csv(_) => "text",
        }
    }

    fn create(&self, kinds: &[Kind]) {
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

    /// Replaces all rows.
    fn fill(&self, kinds: &[Kind], rows: &[Vec<Datum>]) {
        let insert = |literal: fn(&Datum) -> String| {
            let rows = rows.iter().enumerate().map(|(id, row)| {
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
                for (id, row) in rows.iter().enumerate() {
                    let id = SqliteValue::Integer(id as i64);
                    let values = std::iter::once(id).chain(row.iter().map(Datum::sqlite));
                    let insert = format!("insert into twin values ({marks})");
                    transaction.execute(&insert, rusqlite::params_from_iter(values)).expect("a row");
                }
                transaction.commit().expect("the rows");
            }
            Twin::Parquet(folder) => {
                let columns = kinds.iter().map(|k| optional(k.parquet, k.name));
                let columns = format!("required int64 id; {}", columns.collect::<String>());
                let cells = |(id, row): (usize, &Vec<Datum>)| {
                    std::iter::once(Cell::Int(id as i64)).chain(row.iter().map(Datum::parquet)).collect()
                };
                parquet::write(
                    &folder.path().join(PARQUET),
                    &columns,
                    &rows.iter().enumerate().map(cells).collect::<Vec<_>>(),
                );
            }
            Twin::Csv(folder) => write_csv(&folder.path().join(CSV), kinds, rows),
        }
    }

    fn address(&self) -> String {
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

fn write_csv(path: &Path, kinds: &[Kind], rows: &[Vec<Datum>]) {
    let mut out = String::from("id");
    kinds.iter().for_each(|kind| out.extend([",", kind.name]));
    for (id, row) in rows.iter().enumerate() {
        let _ = write!(out, "\n{id}");
        row.iter().for_each(|datum| out.extend([",", &datum.csv()]));
    }
    std::fs::write(path, out + "\n").expect("a file");
}

fn outcome(source: &Twin, target: &Twin) -> CompareOutcome {
    let endpoints: Endpoints = [source, target].map(|twin| {
        let parsed = Address::parse(&twin.address(), &|_| None).expect("an address");
        Arc::from(endpoint::of(&parsed.address, &CsvOptions::default()).expect("an endpoint"))
    });
    let request = CompareRequest { key: KeyChoice::Columns(vec!["id".into()]), ..CompareRequest::default() };
    block_on(compare(&endpoints, &request, Arc::new(Control::default()))).expect("a comparison")
}

fn twins(source: &Twin, target: &Twin) {
    let held = |kind: &Kind| !source.declared(kind).is_empty() && !target.declared(kind).is_empty();
    let kinds: Vec<Kind> = kinds().into_iter().filter(held).collect();
    source.create(&kinds);
    target.create(&kinds);
    let value = |kind: &Kind| prop_oneof![1 => Just(Datum::Null), 6 => kind.values.clone()].boxed();
    let row: Vec<BoxedStrategy<Datum>> = kinds.iter().map(value).collect();
    let input = (prop::collection::vec(row.clone(), 1..30), any::<Index>(), any::<Index>(), row);
    let cases = if std::env::var_os("DRIFT_TEST_LONG").is_some() { 500 } else { 24 };
    let config = Config { cases, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
    let checked = TestRunner::new(config).run(&input, |(rows, at, column, other)| {
        source.fill(&kinds, &rows);
        target.fill(&kinds, &rows);
        let same = outcome(source, target);
        let tally = same.tally.as_ref().expect("compared rows");
        prop_assert_eq!(same.not_compared.as_slice(), &[]);
        prop_assert_eq!(&tally.differences, &[]);
        prop_assert_eq!(same.verdict(), Verdict::Equal);
        prop_assert_eq!(tally.digests[0], tally.digests[1]);
        prop_assert_eq!(tally.equal, rows.len() as u64);

        let (at, column) = (at.index(rows.len()), column.index(kinds.len()));
        prop_assume!(rows[at][column] != other[column]);
        let mut changed = rows;
        changed[at][column] = other[column].clone();
        target.fill(&kinds, &changed);
        for (source, target) in [(source, target), (target, source)] {
            let one = outcome(source, target);
            let tally = one.tally.as_ref().expect("compared rows");
            prop_assert_eq!(one.verdict(), Verdict::Drift);
            prop_assert_ne!(tally.digests[0], tally.digests[1]);
            prop_assert_eq!((tally.changed, tally.different()), (1, 1));
            let found = &tally.differences[0];
            prop_assert_eq!(&found.columns, &[kinds[column].name]);
            prop_assert_eq!(found.key["id"].as_str().map(str::to_string), Some(at.to_string()));
        }
        Ok(())
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn postgres_and_mariadb() {
    twins(&Twin::Postgres(Postgres::fresh()), &Twin::MySql(MySql::fresh()));
}

#[test]
fn postgres_and_sqlite() {
    twins(&Twin::Postgres(Postgres::fresh()), &Twin::Sqlite(Sqlite::fresh()));
}

#[test]
fn postgres_and_parquet() {
    twins(&Twin::Postgres(Postgres::fresh()), &Twin::parquet());
}

#[test]
fn mariadb_and_csv() {
    twins(&Twin::MySql(MySql::fresh()), &Twin::csv());
}

#[test]
fn mariadb_and_parquet() {
    twins(&Twin::MySql(MySql::fresh()), &Twin::parquet());
}

#[test]
fn sqlite_and_csv() {
    twins(&Twin::Sqlite(Sqlite::fresh()), &Twin::csv());
}
