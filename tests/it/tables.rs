//! `--tables`: all tables of two databases, by name.

use serde_json::Value;

use crate::support::database::{MySql, Postgres, PostgresRole, Sqlite};
use crate::support::drift::Drift;

fn compare(source: &str, target: &str, patterns: &str, args: &[&str]) -> (i32, String, String) {
    let call = Drift::compare(source, target).args(["--consistency", "none", "--tables", patterns]);
    let outcome = call.args(args).run();
    (outcome.code, outcome.stdout, outcome.stderr)
}

/// A shop with two schemas, and a copy of it that lacks a table and has one of its own.
fn shop() -> (Postgres, MySql) {
    let source = Postgres::fresh();
    source.execute(
        "create table orders (id int primary key, total int, note text); insert into orders select n, n, 'x' from generate_series(1, 50) n;
         create table items (id int primary key, v int); insert into items select n, n from generate_series(1, 20) n;
         create table lost (id int primary key);
         create table parts (id int, day date, primary key (id, day)) partition by range (day);
         create table parts_2025 partition of parts for values from ('2025-01-01') to ('2026-01-01');
         insert into parts values (1, '2025-05-05');
         create view shown as select * from orders;
         create schema audit; create table audit.log (id int primary key); insert into audit.log values (1)",
    );
    let target = MySql::fresh();
    target.execute(
        "create table orders (id int primary key, total int, note text, _loaded timestamp null); insert into orders select seq, seq, 'x', now() from seq_1_to_50;
         create table items (id int primary key, v int); insert into items select seq, if(seq = 7, 8, seq) from seq_1_to_19;
         create table parts (id int, day date, primary key (id, day)); insert into parts values (1, '2025-05-05');
         create table log (id int primary key); insert into log values (1);
         create table sink_state (id int primary key)",
    );
    (source, target)
}

#[test]
fn every_table_has_its_line_and_the_worst_decides() {
    let (source, target) = shop();
    let (s, t) = (source.url().to_string(), target.url().to_string());
    let (code, text, _) = compare(&s, &t, "public.*", &["--exclude", "_loaded"]);
    assert_eq!(code, 3, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "incomplete: 4 tables, 1 drift, 1 incomplete, 2 equal");
    assert_eq!(lines[1], "  public.items   drift: 2 of 20 rows differ (1 only in source, 1 changed)");
    assert_eq!(lines[2], "  public.lost    incomplete: the target has no table lost");
    assert_eq!(lines[3], "  public.orders  equal: 50 rows, 3 columns");
    assert_eq!(lines[4], "  public.parts   equal: 1 row, 2 columns");
    assert_eq!(lines.len(), 5, "{text}");

    let (code, text, _) = compare(&s, &t, "orders,audit.*", &["--exclude", "_loaded"]);
    assert_eq!((code, text.lines().next()), (0, Some("equal: 2 tables, 2 equal")), "{text}");
    let (code, text, _) = compare(&s, &t, "*", &["--exclude", "_loaded", "-q"]);
    assert_eq!((code, text.as_str()), (3, "incomplete: 5 tables, 1 drift, 1 incomplete, 3 equal\n"));
}

#[test]
fn documents_hold_the_single_comparisons() {
    let (source, target) = shop();
    let (s, t) = (source.url().to_string(), target.url().to_string());
    let args = ["--exclude", "_loaded", "-o", "json"];
    let (code, text, _) = compare(&s, &t, "items,orders,*state", &args);
    let document: Value = serde_json::from_str(&text).expect("a document");
    assert_eq!((code, &document["verdict"]), (1, &"drift".into()));
    assert_eq!(document["tables"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["tables"][0]["rows"]["changed"], 1);
    assert_eq!(document["tables"][1]["verdict"], "equal");
    assert_eq!(document["only_in_target"], serde_json::json!(["sink_state"]));
    let (_, text, _) = compare(&s, &t, "items,orders", &["-o", "jsonl"]);
    assert_eq!(text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 2);
    let (_, text, _) = compare(&s, &t, "items,orders", &["-o", "junit"]);
    assert_eq!(text.matches("<testsuite ").count(), 2, "{text}");
    let (_, text, _) = compare(&s, &t, "items,orders,*state", &["-o", "markdown"]);
    assert!(
        text.contains("| `public.items` | drift") && text.contains("only the target has `sink_state`"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_chosen_is_said() {
    let (source, target) = shop();
    let (s, t) = (source.url().to_string(), target.url().to_string());
    let (code, _, said) = compare(&s, &t, "shop.*", &[]);
    assert_eq!(code, 2);
    assert!(said.contains("nothing in") && said.contains("audit.log, public.items"), "{said}");
    assert!(!said.contains("parts_2025"), "{said}");
    let (code, _, said) = compare(&format!("{s}#orders"), &t, "*", &[]);
    assert!(code == 2 && said.contains("leave out #"), "{said}");
    let (code, _, said) = compare("a.csv", &t, "*", &[]);
    assert!(code == 2 && said.contains("files have no tables"), "{said}");
    let (code, _, said) = compare(&s, &t, "*", &["--repair", "x.sql"]);
    assert!(code == 2 && said.contains("--repair"), "{said}");
}

#[test]
fn a_table_that_may_not_be_read_hides_no_other() {
    let role = PostgresRole::fresh();
    let source = Postgres::fresh();
    source.execute(&format!(
        "create table open_one (id int primary key); create table closed_one (id int primary key);
         insert into open_one values (1); insert into closed_one values (1); grant select on open_one to {}",
        role.name
    ));
    let target = Sqlite::fresh();
    target.execute("create table open_one (id integer primary key); create table closed_one (id integer primary key); insert into open_one values (1)");
    let url = role.in_url(source.url()).to_string();
    let (code, text, _) = compare(&url, &format!("sqlite:{}", target.path().display()), "*", &[]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("public.open_one    equal: 1 row"), "{text}");
    assert!(
        text.contains("public.closed_one  incomplete: ") && text.contains("may not read any column"),
        "{text}"
    );
}
