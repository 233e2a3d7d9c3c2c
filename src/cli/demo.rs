//! `drift demo`: two small SQLite shops with planted differences, compared.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use super::{CsvArgs, Exit, Global, Output, endpoint, print, print_json};
use crate::compare::{CompareOutcome, CompareRequest, Control, DifferenceKind, compare};
use crate::endpoint::{Error, ErrorKind};
use crate::report::{human, json};

const ORDERS: i64 = 50_000;
const CUSTOMERS: i64 = 5_000;

/// A planted difference: table, key, kind, column.
type Fault = (&'static str, i64, DifferenceKind, Option<&'static str>);

/// What the replica is made to lack, have too much, or have wrong.
const PLANTED: [Fault; 9] = [
    ("orders", 20_101, DifferenceKind::OnlyInSource, None),
    ("orders", 20_102, DifferenceKind::OnlyInSource, None),
    ("orders", 20_103, DifferenceKind::OnlyInSource, None),
    ("orders", 31_415, DifferenceKind::Changed, Some("amount")),
    ("orders", 31_416, DifferenceKind::Changed, Some("amount")),
    ("orders", 44_004, DifferenceKind::Changed, Some("note")),
    ("orders", 50_001, DifferenceKind::OnlyInTarget, None),
    ("customers", 77, DifferenceKind::Changed, Some("email")),
    ("customers", 4_200, DifferenceKind::Changed, Some("city")),
];

/// The same faults as they are done to the replica.
const DAMAGE: &str = "
    DELETE FROM orders WHERE id BETWEEN 20101 AND 20103;
    UPDATE orders SET amount = round(amount - 0.05, 1) WHERE id IN (31415, 31416);
    UPDATE orders SET note = note || ' ' WHERE id = 44004;
    INSERT INTO orders VALUES (50001, 1, 9.99, 'new', 'arrived twice', '2026-11-01 00:00:00');
    UPDATE customers SET email = upper(email) WHERE id = 77;
    UPDATE customers SET city = NULL WHERE id = 4200;
";

pub(super) async fn run(global: &Global) -> Exit {
    match demo(global).await {
        Ok(exit) => exit,
        Err(error) => {
            global.say(&error.message);
            super::exit_of(&error)
        }
    }
}

async fn demo(global: &Global) -> Result<Exit, Error> {
    let folder = fresh_folder()?;
    let paths = [folder.join("shop.db"), folder.join("replica.db")];
    for (path, damage) in paths.iter().zip(["", DAMAGE]) {
        fill(path, damage)
            .map_err(|e| Error::new(ErrorKind::Data, format!("cannot write {}: {e}", path.display())))?;
    }
    let mut named = 0;
    let mut surplus = 0;
    let mut documents = Vec::new();
    if global.output == Output::Human {
        print(&format!(
            "A shop and its replica with {} planted differences: {}\n\n",
            PLANTED.len(),
            folder.display()
        ));
    }
    for table in ["orders", "customers", "payments"] {
        let addresses = paths.each_ref().map(|path| format!("sqlite:{}#{table}", path.display()));
        let csv = CsvArgs { csv_delimiter: b',', csv_no_header: false, csv_null: String::new() }.options();
        let endpoints = [endpoint(global, &addresses[0], &csv)?, endpoint(global, &addresses[1], &csv)?];
        let outcome = compare(&endpoints, &CompareRequest::default(), Arc::new(Control::default())).await?;
        let (found, other) = check(table, &outcome);
        named += found;
        surplus += other;
        match global.output {
            Output::Json => documents.push(json::compare(&outcome)),
            Output::Human => print(&format!(
                "$ drift compare --consistency none {} {}\n{}\n",
                addresses[0],
                addresses[1],
                human::compare(&outcome, global.style())
            )),
        }
    }
    let complete = named == PLANTED.len() && surplus == 0;
    match global.output {
        Output::Json => print_json(
            &serde_json::json!({ "planted": PLANTED.len(), "found": named, "compared": documents }),
        ),
        Output::Human if complete => {
            print(&format!("All {named} planted differences were found, and nothing else.\n"));
        }
        Output::Human => print(&format!(
            "{named} of {} planted differences were found, and {surplus} others: this is a bug, please report it.\n",
            PLANTED.len()
        )),
    }
    Ok(if complete { Exit::Equal } else { Exit::Incomplete })
}

/// How many planted faults of the table were found, and how many differences were not planted.
fn check(table: &str, outcome: &CompareOutcome) -> (usize, usize) {
    let Some(tally) = &outcome.tally else { return (0, 0) };
    let planted: Vec<&Fault> = PLANTED.iter().filter(|f| f.0 == table).collect();
    let found = planted
        .iter()
        .filter(|(_, id, kind, column)| {
            tally.differences.iter().any(|d| {
                d.kind == *kind
                    && d.key.get("id").and_then(|v| v.as_str()) == Some(id.to_string().as_str())
                    && column.is_none_or(|column| d.columns == [column])
            })
        })
        .count();
    (found, (tally.different() as usize).saturating_sub(planted.len()))
}

/// `drift-demo`, or the first numbered name that is free.
fn fresh_folder() -> Result<PathBuf, Error> {
    for n in 1..1000 {
        let path = PathBuf::from(if n == 1 { "drift-demo".to_string() } else { format!("drift-demo-{n}") });
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                let message = format!(
                    "cannot make the folder {}: {e}; run the demo where you may write",
                    path.display()
                );
                return Err(Error::new(ErrorKind::Data, message));
            }
        }
    }
    Err(Error::new(ErrorKind::Data, "there are 999 drift-demo folders here already; remove some"))
}

fn fill(path: &Path, damage: &str) -> rusqlite::Result<()> {
    let db = Connection::open(path)?;
    db.execute_batch(&format!(
        "PRAGMA journal_mode = off;
         BEGIN;
         CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT, city TEXT);
         CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, amount DECIMAL(12,2) NOT NULL,
                              status TEXT NOT NULL, note TEXT, created_at DATETIME NOT NULL);
         CREATE TABLE payments (id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, paid DECIMAL(12,2), method TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {CUSTOMERS})
         INSERT INTO customers SELECT i, 'Customer ' || i, 'c' || i || '@example.org',
             CASE i % 4 WHEN 0 THEN 'Köln' WHEN 1 THEN 'Lyon' WHEN 2 THEN 'Gdańsk' ELSE 'Porto' END FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ORDERS})
         INSERT INTO orders SELECT i, 1 + i * 7919 % {CUSTOMERS}, round((i * 37 % 9000) / 10.0 + 0.05, 2),
             CASE i % 3 WHEN 0 THEN 'new' WHEN 1 THEN 'paid' ELSE 'sent' END,
             CASE WHEN i % 5 = 0 THEN NULL ELSE 'parcel ' || i END,
             datetime('2026-01-01', '+' || (i * 9) || ' minutes') FROM n;
         INSERT INTO payments SELECT id, id, amount, CASE id % 2 WHEN 0 THEN 'card' ELSE 'transfer' END
             FROM orders WHERE status <> 'new';
         {damage}
         COMMIT;"
    ))
}
