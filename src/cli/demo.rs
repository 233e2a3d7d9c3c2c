//! `drift demo`: two small SQLite shops with planted faults, compared, named, and shown as a page; then the same faults
//! under watch, in two days that pass at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use super::{Exit, Global, endpoint, print, print_json};
use crate::audit::Status;
use crate::compare::{CompareOutcome, CompareRequest, Control, Pattern, compare};
use crate::config;
use crate::config::address::CsvOptions;
use crate::control;
use crate::endpoint::{Error, ErrorKind};
use crate::incident::store;
use crate::report::file::Pending;
use crate::report::{audit, html, human, incident, json};
use crate::state::{Clock, ManualClock, Store, SystemClock, rfc3339};

/// What is watched. The same file is an example for newcomers.
const CONFIG: &str = include_str!("../../checks/demo.yaml");
/// Microseconds.
const DAY: i64 = 86_400_000_000;
const ORDERS: i64 = 50_000;
const CUSTOMERS: i64 = 5_000;
const TABLES: [&str; 3] = ["orders", "customers", "payments"];

/// A fault that is done to the replica, and how drift has to name it.
struct Fault {
    /// What it is, for people.
    story: &'static str,
    table: &'static str,
    sql: &'static str,
    column: Option<&'static str>,
    pattern: &'static str,
    detail: &'static str,
    rows: u64,
}

const PLANTED: [Fault; 5] = [
    Fault {
        story: "a lost hour: the orders of 6 May, 15 to 16 o'clock, never arrived",
        table: "orders",
        sql: "DELETE FROM orders WHERE created_at >= '2026-05-06 15:00' AND created_at < '2026-05-06 16:00'",
        column: None,
        pattern: "missing_range",
        detail: "one run of rows that only the source has",
        rows: 7,
    },
    Fault {
        story: "a shifted time zone: a writer with its clock in UTC+2",
        table: "orders",
        sql: "UPDATE orders SET created_at = datetime(created_at, '+2 hours') WHERE id BETWEEN 31001 AND 31400",
        column: Some("created_at"),
        pattern: "shifted",
        detail: "+2 h",
        rows: 400,
    },
    Fault {
        story: "cut decimals: one payment method goes through a column that is too narrow",
        table: "payments",
        sql: "UPDATE payments SET paid = round(paid - 0.05, 1) WHERE method = 'voucher'",
        column: Some("paid"),
        pattern: "cut",
        detail: "1 decimal",
        rows: 3_333,
    },
    Fault {
        story: "surplus rows: a batch that arrived twice, under new keys",
        table: "orders",
        sql: "INSERT INTO orders SELECT 50000 + id, customer_id, amount, status, note, created_at FROM orders WHERE id <= 25",
        column: None,
        pattern: "surplus_rows",
        detail: "rows that only the target has",
        rows: 25,
    },
    Fault {
        story: "mojibake: a load that read UTF-8 as Windows-1252",
        table: "customers",
        sql: "UPDATE customers SET city = CASE city WHEN 'Köln' THEN 'KÃ¶ln' WHEN 'Gdańsk' THEN 'GdaÅ„sk' ELSE city END
              WHERE id BETWEEN 2001 AND 2400",
        column: Some("city"),
        pattern: "encoding",
        detail: "UTF-8 read as Windows-1252",
        rows: 200,
    },
];

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
    fill(&paths[0], false).and_then(|()| fill(&paths[1], true)).map_err(|e| unwritten(&folder, &e))?;
    let tells = !global.writes_json();
    if tells {
        let stories: Vec<String> = PLANTED.iter().map(|fault| format!("  - {}\n", fault.story)).collect();
        let place = folder.display();
        print(&format!(
            "A shop and its replica, in {place}, with {} planted faults:\n{}\n",
            PLANTED.len(),
            stories.concat()
        ));
    }
    let mut outcomes = Vec::new();
    for table in TABLES {
        let addresses = paths.each_ref().map(|path| format!("sqlite:{}#{table}", path.display()));
        let csv = CsvOptions::default();
        let endpoints = [endpoint(global, &addresses[0], &csv)?, endpoint(global, &addresses[1], &csv)?];
        let request = CompareRequest { context: true, ..CompareRequest::default() };
        let outcome = compare(&endpoints, &request, Arc::new(Control::default())).await?;
        if tells {
            let summary = human::summary(&outcome, global.style());
            print(&format!(
                "$ drift compare --consistency none {} {}\n{summary}\n",
                addresses[0], addresses[1]
            ));
        }
        outcomes.push(outcome);
    }
    let report = folder.join("report.html");
    let shown: Vec<&CompareOutcome> = outcomes.iter().collect();
    Pending::create(&report)
        .and_then(|file| file.finish(|out| html::write(&shown, out)))
        .map_err(|why| Error::new(ErrorKind::Data, why))?;

    let watched = watch(&folder, tells).await.map_err(|why| Error::new(ErrorKind::Data, why))?;
    let tables: Vec<(&str, &CompareOutcome)> = TABLES.into_iter().zip(&outcomes).collect();
    let named = PLANTED.iter().filter(|fault| is_named(fault, &tables)).count();
    let patterns: usize = outcomes.iter().flat_map(|o| &o.tally).map(|tally| tally.patterns().len()).sum();
    let rows: u64 = outcomes.iter().flat_map(|o| &o.tally).map(|tally| tally.different()).sum();
    let planted_rows: u64 = PLANTED.iter().map(|fault| fault.rows).sum();
    let complete =
        named == PLANTED.len() && patterns == named && rows == planted_rows && watched.is_as_planted();
    if tells {
        let answer = if complete {
            format!("All {named} planted faults were named, and nothing else was.\n")
        } else {
            format!(
                "{named} of {} planted faults were named, with {patterns} patterns in {rows} rows: this is a bug, please report it.\n",
                PLANTED.len()
            )
        };
        print(&format!(
            "{answer}The rows, on one page: {}\nThe two days, on another: {}\nGo on there: cd {} && drift incident list\n",
            report.display(),
            watched.page.display(),
            folder.display()
        ));
    } else {
        let documents: Vec<_> = outcomes.iter().map(json::compare).collect();
        print_json(
            global,
            &serde_json::json!({
                "planted": PLANTED.len(),
                "named": named,
                "report": report.display().to_string(),
                "watched": { "runs": watched.runs, "incidents": watched.incidents, "report": watched.page.display().to_string() },
                "compared": documents,
            }),
        );
    }
    Ok(if complete { Exit::Equal } else { Exit::Incomplete })
}

fn unwritten(folder: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Data, format!("cannot write into {}: {error}", folder.display()))
}

/// What two days under watch came to.
struct Watched {
    runs: usize,
    incidents: Vec<String>,
    page: PathBuf,
    /// Whether the first day was quiet and the second was not.
    turned: bool,
}

impl Watched {
    /// One incident for each table, and none before the faults.
    fn is_as_planted(&self) -> bool {
        self.turned && self.incidents.len() == TABLES.len()
    }
}

/// Watches a healthy copy for two simulated days; at noon of the second, the faults are done to it.
async fn watch(folder: &Path, tells: bool) -> Result<Watched, String> {
    let copy = folder.join("copy.db");
    let wrong = |e: &dyn std::fmt::Display| unwritten(folder, e).message;
    fill(&copy, false).map_err(|e| wrong(&e))?;
    std::fs::write(folder.join("drift.yaml"), CONFIG).map_err(|e| wrong(&e))?;
    let place = folder.display().to_string();
    let loaded = config::read(&[("drift.yaml".into(), CONFIG.into())], &|name| {
        (name == "DRIFT_DEMO").then(|| place.clone())
    });
    let loaded =
        loaded.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let store = Store::open(&loaded.config.state.url).await.map_err(|e| e.message)?;
    if tells {
        print(
            "$ drift audit     # every six hours, for two days that pass at once; at noon of the second, the faults come\n",
        );
    }
    let now = SystemClock.now();
    let start = now - now.rem_euclid(DAY) - 2 * DAY;
    let clock = Arc::new(ManualClock::at(start));
    let (mut runs, mut turned) = (0, true);
    for quarter in 0..8 {
        let (at, damaged) = (start + quarter * DAY / 4, quarter >= 6);
        if quarter == 6 {
            let damage: Vec<&str> = PLANTED.iter().map(|fault| fault.sql).collect();
            Connection::open(&copy)
                .and_then(|db| db.execute_batch(&damage.join(";\n")))
                .map_err(|e| wrong(&e))?;
        }
        clock.set(at);
        let wanted = control::Wanted::default();
        let audited = control::audit(&loaded, &store, clock.clone(), &wanted, &|_| ()).await;
        let audited = audited.map_err(|refused| match refused {
            control::Refused::Usage(why) => why,
            control::Refused::State(error) => error.message,
        })?;
        runs += audited.runs.len();
        turned &= (audited.status() == Status::Fail) == damaged;
        if tells {
            print(&format!("{}  {}\n", rfc3339(at), audit::head(&audited.runs)));
        }
    }
    let incidents = store::list(&store, false).await.map_err(|e| e.message)?;
    if tells {
        print(&format!("\n$ drift incident list\n{}\n", incident::list(&incidents, clock.now())));
    }
    let page = folder.join("watch.html");
    let pairs: Vec<String> = loaded.config.pairs.iter().map(|pair| pair.name.clone()).collect();
    super::report::write(&store, &pairs, clock.now(), &page).await?;
    Ok(Watched { runs, incidents: incidents.iter().map(store::summary).collect(), page, turned })
}

fn is_named(fault: &Fault, tables: &[(&str, &CompareOutcome)]) -> bool {
    let tally = tables.iter().find(|(table, _)| *table == fault.table).and_then(|(_, o)| o.tally.as_ref());
    let names_it = |p: &Pattern| {
        p.column.as_deref() == fault.column
            && (p.pattern, p.detail.as_str(), p.rows) == (fault.pattern, fault.detail, fault.rows)
    };
    tally.is_some_and(|tally| tally.patterns().iter().any(names_it))
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

fn fill(path: &Path, is_replica: bool) -> rusqlite::Result<()> {
    let damage: Vec<&str> = PLANTED.iter().filter(|_| is_replica).map(|fault| fault.sql).collect();
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
         INSERT INTO payments SELECT id, id, amount,
             CASE WHEN id % 10 = 5 THEN 'voucher' WHEN id % 2 = 0 THEN 'card' ELSE 'transfer' END
             FROM orders WHERE status <> 'new';
         {};
         COMMIT;",
        damage.join(";\n")
    ))
}
