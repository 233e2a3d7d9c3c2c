//! Real rows at their real size: all flights that left New York City in 2013 (`tests/real/flights.sh`), loaded into
//! every engine with the types that are natural there. As they are, every pair is equal; with seven changes on the
//! target, exactly those are found.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int32Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::drift::Drift;

const KEY: [&str; 3] = ["time_hour", "carrier", "flight"];
const SAMPLE: usize = 20_000;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Whole,
    Text,
    Instant,
}

/// The columns of the file, in its order.
const COLUMNS: [(&str, Kind); 19] = [
    ("year", Kind::Whole),
    ("month", Kind::Whole),
    ("day", Kind::Whole),
    ("dep_time", Kind::Whole),
    ("sched_dep_time", Kind::Whole),
    ("dep_delay", Kind::Whole),
    ("arr_time", Kind::Whole),
    ("sched_arr_time", Kind::Whole),
    ("arr_delay", Kind::Whole),
    ("carrier", Kind::Text),
    ("flight", Kind::Whole),
    ("tailnum", Kind::Text),
    ("origin", Kind::Text),
    ("dest", Kind::Text),
    ("air_time", Kind::Whole),
    ("distance", Kind::Whole),
    ("hour", Kind::Whole),
    ("minute", Kind::Whole),
    ("time_hour", Kind::Instant),
];

/// One flight: its fields as the file spells them, NULL as `None`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Flight(Vec<Option<String>>);

impl Flight {
    fn read(line: &str) -> Flight {
        let fields: Vec<_> = line.split(',').map(|f| (f != "NA").then(|| f.to_string())).collect();
        assert_eq!(fields.len(), COLUMNS.len(), "fields in {line:?}");
        Flight(fields)
    }

    fn get(&self, column: &str) -> Option<&str> {
        self.0[index(column)].as_deref()
    }

    fn set(&mut self, column: &str, value: impl ToString) {
        self.0[index(column)] = Some(value.to_string());
    }

    fn number(&self, column: &str) -> i32 {
        self.get(column).expect("a value").parse().expect("a number")
    }

    fn key(&self) -> Value {
        KEY.iter().map(|k| (k.to_string(), json!(self.get(k)))).collect()
    }
}

fn index(column: &str) -> usize {
    COLUMNS.iter().position(|(name, _)| *name == column).expect("a column of the flights")
}

fn flights(rows: usize) -> Vec<Flight> {
    let path = std::env::var("DRIFT_TEST_FLIGHTS").expect("DRIFT_TEST_FLIGHTS is not set: run tests/run.sh");
    let text = std::fs::read_to_string(path).expect("the file of flights");
    let (header, lines) = text.split_once('\n').expect("a header");
    assert_eq!(header.split(',').collect::<Vec<_>>(), COLUMNS.map(|(name, _)| name));
    lines.lines().take(rows).map(Flight::read).collect()
}

/// What a change makes drift report: kind, key, columns.
type Finding = (String, String, Vec<String>);

fn finding(kind: &str, key: &Value, columns: &[&str]) -> Finding {
    (kind.to_string(), key.to_string(), columns.iter().map(|c| c.to_string()).collect())
}

/// The rows with seven changes, far from each other, and what has to be found.
fn with_seven_changes(rows: &[Flight]) -> (Vec<Flight>, BTreeSet<Finding>) {
    let keys: BTreeSet<String> = rows.iter().map(|row| row.key().to_string()).collect();
    let mut changed = rows.to_vec();
    let mut findings = BTreeSet::new();
    let nth = |n: usize, fits: &dyn Fn(&Flight) -> bool| {
        let start = rows.len() * n / 8;
        start + rows[start..].iter().position(fits).expect("a row that fits")
    };
    let any = |_: &Flight| true;

    let late = nth(1, &|row| row.get("dep_delay").is_some());
    changed[late].set("dep_delay", rows[late].number("dep_delay") + 1);
    findings.insert(finding("changed", &rows[late].key(), &["dep_delay"]));

    let blank = nth(2, &|row| row.get("tailnum").is_some());
    changed[blank].set("tailnum", format!("{} ", rows[blank].get("tailnum").unwrap_or_default()));
    findings.insert(finding("changed", &rows[blank].key(), &["tailnum"]));

    let unknown = nth(3, &|row| row.get("arr_delay").is_none());
    changed[unknown].set("arr_delay", 0);
    findings.insert(finding("changed", &rows[unknown].key(), &["arr_delay"]));

    let far = nth(4, &any);
    changed[far].set("distance", rows[far].number("distance") - 1);
    findings.insert(finding("changed", &rows[far].key(), &["distance"]));

    let an_hour_later = |row: &Flight| {
        let (day, hour) = row.get("time_hour").and_then(|t| t.split_once('T')).expect("an instant");
        let hour: u32 = hour[..2].parse().expect("an hour");
        let mut later = row.clone();
        later.set("time_hour", format!("{day}T{:02}:00:00Z", hour + 1));
        (hour < 23 && !keys.contains(&later.key().to_string())).then_some(later)
    };
    let shifted = nth(5, &|row| an_hour_later(row).is_some());
    changed[shifted] = an_hour_later(&rows[shifted]).expect("a free key");
    findings.insert(finding("only_in_source", &rows[shifted].key(), &[]));
    findings.insert(finding("only_in_target", &changed[shifted].key(), &[]));

    let mut surplus = rows[nth(6, &any)].clone();
    surplus.set("flight", 99_999);
    findings.insert(finding("only_in_target", &surplus.key(), &[]));

    let gone = nth(7, &any);
    findings.insert(finding("only_in_source", &rows[gone].key(), &[]));
    changed.swap_remove(gone);
    changed.push(surplus);
    (changed, findings)
}

/// The rows where one engine keeps them.
struct Table {
    engine: &'static str,
    address: String,
    _keep: Box<dyn std::any::Any>,
}

type Load = fn(&[Flight]) -> Table;

const ENGINES: [(&str, Load); 5] =
    [("postgres", postgres), ("mysql", mysql), ("sqlite", sqlite), ("parquet", parquet), ("csv", csv)];
const PAIRS_AT_FULL_SIZE: [(&str, &str); 3] =
    [("postgres", "mysql"), ("postgres", "parquet"), ("sqlite", "csv")];

fn load(engine: &str, rows: &[Flight]) -> Table {
    let (_, load) = ENGINES.iter().find(|(name, _)| *name == engine).expect("an engine");
    load(rows)
}

/// `create table flights` with this engine's types for whole numbers, texts and instants.
fn create_table(whole: &str, text: &str, instant: &str) -> String {
    let columns: Vec<String> = COLUMNS
        .iter()
        .map(|(name, kind)| {
            let sql_type = match kind {
                Kind::Whole => whole,
                Kind::Text => text,
                Kind::Instant => instant,
            };
            let not_null = if KEY.contains(name) { " not null" } else { "" };
            format!("{name} {sql_type}{not_null}")
        })
        .collect();
    format!("create table flights ({}, primary key ({}))", columns.join(", "), KEY.join(", "))
}

fn csv_text(rows: &[Flight]) -> String {
    let mut text = COLUMNS.map(|(name, _)| name).join(",");
    for row in rows {
        text.push('\n');
        let fields: Vec<&str> = row.0.iter().map(|field| field.as_deref().unwrap_or("NA")).collect();
        text.push_str(&fields.join(","));
    }
    text.push('\n');
    text
}

fn postgres(rows: &[Flight]) -> Table {
    let database = Postgres::fresh();
    database.execute(&create_table("integer", "text", "timestamptz"));
    let copy = "copy flights from stdin with (format csv, header, null 'NA')";
    database.copy_in(copy, csv_text(rows).into_bytes());
    database.execute("analyze flights");
    let address = format!("{}#public.flights", database.url());
    Table { engine: "postgres", address, _keep: Box::new(database) }
}

fn mysql(rows: &[Flight]) -> Table {
    let database = MySql::fresh();
    database.execute(&create_table("int", "varchar(8)", "timestamp"));
    let literal = |(field, (_, kind)): (&Option<String>, &(&str, Kind))| match (field, kind) {
        (None, _) => "null".to_string(),
        (Some(value), Kind::Whole) => value.clone(),
        (Some(value), Kind::Text) => format!("'{value}'"),
        (Some(value), Kind::Instant) => format!("'{}'", value.replace('T', " ").trim_end_matches('Z')),
    };
    let tuple = |row: &Flight| {
        let literals: Vec<String> = row.0.iter().zip(&COLUMNS).map(literal).collect();
        format!("({})", literals.join(","))
    };
    database.execute_all(rows.chunks(2000).map(|chunk| {
        let tuples: Vec<String> = chunk.iter().map(tuple).collect();
        format!("insert into flights values {}", tuples.join(","))
    }));
    let address = format!("{}#flights", database.url());
    Table { engine: "mysql", address, _keep: Box::new(database) }
}

fn sqlite(rows: &[Flight]) -> Table {
    let database = Sqlite::fresh();
    database.execute(&create_table("integer", "text", "text"));
    let mut connection = database.connect();
    let transaction = connection.transaction().expect("a transaction");
    {
        // Column affinity turns the texts of whole numbers into numbers.
        let places = vec!["?"; COLUMNS.len()].join(",");
        let mut insert =
            transaction.prepare(&format!("insert into flights values ({places})")).expect("an insert");
        for row in rows {
            insert.execute(rusqlite::params_from_iter(&row.0)).expect("a row");
        }
    }
    transaction.commit().expect("the end of the transaction");
    let address = format!("sqlite:{}#flights", database.path().display());
    Table { engine: "sqlite", address, _keep: Box::new(database) }
}

fn parquet(rows: &[Flight]) -> Table {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("flights.parquet");
    write_parquet(&path, rows);
    Table { engine: "parquet", address: path.display().to_string(), _keep: Box::new(folder) }
}

fn write_parquet(path: &Path, rows: &[Flight]) {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let arrays: Vec<ArrayRef> = COLUMNS
        .iter()
        .enumerate()
        .map(|(i, (_, kind))| {
            let texts = || rows.iter().map(|row| row.0[i].as_deref());
            match kind {
                Kind::Whole => {
                    let numbers = texts().map(|text| text.map(|t| t.parse::<i32>().expect("a number")));
                    Arc::new(numbers.collect::<Int32Array>()) as ArrayRef
                }
                Kind::Text => Arc::new(texts().collect::<StringArray>()),
                Kind::Instant => cast(&texts().collect::<StringArray>(), &utc).expect("instants"),
            }
        })
        .collect();
    let fields: Vec<Field> = COLUMNS
        .iter()
        .zip(&arrays)
        .map(|((name, _), array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch");
    let file = File::create(path).expect("a Parquet file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a Parquet writer");
    writer.write(&batch).expect("the rows");
    writer.close().expect("the end of the file");
}

fn csv(rows: &[Flight]) -> Table {
    let folder: TempDir = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("flights.csv");
    std::fs::write(&path, csv_text(rows)).expect("a CSV file");
    Table { engine: "csv", address: path.display().to_string(), _keep: Box::new(folder) }
}

fn compare(source: &Table, target: &Table, code: i32) -> Value {
    let mut call = Drift::compare(&source.address, &target.address).args(["-k", &KEY.join(",")]);
    if target.engine == "csv" {
        call = call.args(["--csv-null", "NA"]);
    }
    let started = Instant::now();
    let (outcome, report) = call.deadline(Duration::from_secs(300)).run_json();
    println!("{} against {}: {:.1} s", source.engine, target.engine, started.elapsed().as_secs_f64());
    outcome.expect_code(code);
    report
}

fn findings(report: &Value) -> BTreeSet<Finding> {
    let differences = report["differences"].as_array().expect("a list of differences");
    let texts = |list: &Value| {
        let names = list.as_array().into_iter().flatten();
        names.map(|name| name.as_str().expect("a name").to_string()).collect()
    };
    let found: BTreeSet<Finding> = differences
        .iter()
        .map(|d| {
            (d["kind"].as_str().expect("a kind").to_string(), d["key"].to_string(), texts(&d["columns"]))
        })
        .collect();
    assert_eq!(found.len(), differences.len(), "a difference is told twice");
    found
}

fn of<'a>(tables: &'a [Table], engine: &str) -> &'a Table {
    tables.iter().find(|table| table.engine == engine).expect("a loaded engine")
}

fn equal_and_then_seven_changes(pairs: &[(&str, &str)], rows: &[Flight]) {
    let (changed_rows, expected) = with_seven_changes(rows);
    let sides = |engines: BTreeSet<&str>, rows: &[Flight]| -> Vec<Table> {
        engines.into_iter().map(|engine| load(engine, rows)).collect()
    };
    let all: BTreeSet<&str> = pairs.iter().flat_map(|(s, t)| [*s, *t]).collect();
    let as_they_are = sides(all, rows);
    let changed = sides(pairs.iter().map(|(_, t)| *t).collect(), &changed_rows);
    for (source, target) in pairs {
        let source = of(&as_they_are, source);
        let report = compare(source, of(&as_they_are, target), 0);
        assert_eq!(report["verdict"], "equal");
        assert_eq!(report["rows"]["compared"], rows.len());
        assert_eq!(report["rows"]["equal"], rows.len());
        assert_eq!(report["source"]["rows"], rows.len());
        assert_eq!(report["target"]["rows"], rows.len());

        let report = compare(source, of(&changed, target), 1);
        assert_eq!(report["verdict"], "drift");
        assert_eq!(findings(&report), expected, "{} against {target}", source.engine);
        let counts =
            ["only_in_source", "only_in_target", "changed"].map(|kind| report["rows"][kind].as_u64());
        assert_eq!(counts, [Some(2), Some(2), Some(4)]);
        assert_eq!(report["rows"]["equal"], rows.len() - 6);
        assert_eq!(report["duplicate_keys"], json!({"source": [], "target": []}));
    }
}

fn all_pairs() -> Vec<(&'static str, &'static str)> {
    let names = ENGINES.map(|(name, _)| name);
    (0..names.len()).flat_map(|i| names[i + 1..].iter().map(move |target| (names[i], *target))).collect()
}

#[test]
fn twenty_thousand_flights_in_all_pairs_of_engines() {
    equal_and_then_seven_changes(&all_pairs(), &flights(SAMPLE));
}

#[test]
fn all_flights_of_2013() {
    let rows = flights(usize::MAX);
    assert_eq!(rows.len(), 336_776);
    let long = std::env::var_os("DRIFT_TEST_LONG").is_some();
    let pairs = if long { all_pairs() } else { PAIRS_AT_FULL_SIZE.to_vec() };
    equal_and_then_seven_changes(&pairs, &rows);
}

/// A newcomer's way: a configuration out of two databases, checked, run, without an edit.
#[test]
fn init_validate_and_audit_work_without_an_edit() {
    let rows = flights(SAMPLE);
    let databases = [postgres(&rows), mysql(&rows), sqlite(&rows)];
    for (source, target) in [(0, 1), (1, 0), (0, 2), (2, 1)] {
        let (source, target) = (&databases[source], &databases[target]);
        let folder = tempfile::tempdir().expect("a folder");
        let whole = |table: &Table| table.address.split_once('#').expect("a table").0.to_string();
        let drift = |args: &[&str]| {
            Drift::new()
                .current_dir(folder.path())
                .args(args)
                .env("SOURCE_PASSWORD", &password(&source.address))
                .env("TARGET_PASSWORD", &password(&target.address))
        };
        let (from, to) = (whole(source), whole(target));
        let names = format!("{} to {}", source.engine, target.engine);
        let made = drift(&["init", &from, &to]).run().expect_code(0);
        assert!(made.stdout.starts_with("drift.yaml: 1 pair of tables"), "{names}: {made}");
        let text = std::fs::read_to_string(folder.path().join("drift.yaml")).expect("a configuration");
        assert!(!text.contains(&password(&server_of(source, target))), "{names}: a password was written");
        drift(&["validate"]).run().expect_code(0);
        drift(&["validate", "--online"]).run().expect_code(0);
        let (outcome, document) = drift(&["audit"]).run_json();
        outcome.expect_code(0);
        assert_eq!(document["status"], "pass", "{names}: {document:#}\n{text}");
        assert_eq!(document["runs"][1]["rows_compared"], rows.len(), "{names}");
        // A second one refuses to write over the first.
        drift(&["init", &from, &to]).run().expect_code(2);
    }
}

/// The side that has a password.
fn server_of(source: &Table, target: &Table) -> String {
    [source, target].into_iter().find(|table| table.engine != "sqlite").expect("a server").address.clone()
}

fn password(address: &str) -> String {
    let url = url::Url::parse(address).ok();
    url.and_then(|url| url.password().map(str::to_string)).unwrap_or_else(|| "none".into())
}
