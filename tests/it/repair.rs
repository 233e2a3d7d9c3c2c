//! `--repair` and `--diff`: what they write is complete, and a script that a person applies makes the pair equal and
//! spares what is newer.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::client;
use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::drift::Drift;

/// Texts that clients and dialects read in their own ways; `$q` stands for a quote inside a literal.
const TEXTS: [&str; 8] =
    ["plain", "it$qs", "back\\slash", "two\nlines\r\n", "tab\there", "Gdańsk 🙂", "", "-- ; /* x */ :name ?"];

/// One table in the words of each engine, so that all hold the same values.
struct Twin {
    address: String,
    execute: Box<dyn Fn(&str)>,
    _keep: Box<dyn std::any::Any>,
}

fn twins() -> Vec<Twin> {
    let postgres = Postgres::fresh();
    let mysql = MySql::fresh();
    let sqlite = Sqlite::fresh();
    let addresses = [
        format!("{}#t", postgres.url()),
        format!("{}#t", mysql.url()),
        format!("sqlite:{}#t", sqlite.path().display()),
    ];
    let types = [
        "id bigint, part varchar(10), n int, big bigint, d numeric(20,4), r double precision, b boolean, t text, bin bytea, day date, at timestamp(3), u uuid, j jsonb",
        "id bigint, part varchar(10) collate utf8mb4_general_ci, n int, big bigint, d decimal(20,4), r double, b bool, t text, bin blob, day date, at datetime(3), u uuid, j json",
        "id bigint, part varchar(10), n int, big bigint, d text, r double, b boolean, t text, bin blob, day date, at datetime, u text, j text",
    ];
    let [a, b, c] = addresses;
    let [x, y, z] = types.map(|columns| format!("create table t ({columns}, primary key (id, part))"));
    postgres.execute(&x);
    mysql.execute(&y);
    sqlite.execute(&z);
    let path = sqlite.path();
    let (pg, my) = (postgres.url(), mysql.url());
    vec![
        Twin {
            address: a,
            execute: Box::new(move |sql| crate::support::database::postgres_execute(&pg, sql)),
            _keep: Box::new(postgres),
        },
        Twin {
            address: b,
            execute: Box::new(move |sql| crate::support::database::mysql_execute(&my, [sql])),
            _keep: Box::new(mysql),
        },
        Twin {
            address: c,
            execute: Box::new(move |sql| {
                rusqlite::Connection::open(&path).and_then(|c| c.execute_batch(sql)).expect(sql);
            }),
            _keep: Box::new(sqlite),
        },
    ]
}

/// A row's values in the dialect that an address speaks; `salt` makes other values.
fn row(address: &str, id: i64, salt: i64) -> String {
    let text = TEXTS[((id + salt) % 8) as usize].replace("$q", "'");
    let hex: String = text.bytes().map(|b| format!("{b:02x}")).collect();
    let (text, bytes) = match address.split_once(':').map(|(scheme, _)| scheme) {
        Some("postgres") => (format!("convert_from('\\x{hex}', 'UTF8')"), format!("'\\x{hex}'::bytea")),
        Some("mysql") => (format!("convert(x'{hex}' using utf8mb4)"), format!("x'{hex}'")),
        _ => (format!("cast(x'{hex}' as text)"), format!("x'{hex}'")),
    };
    let or_null = |n: i64, value: String| if (id + salt) % 9 == n { "null".to_string() } else { value };
    let part = if id % 2 == 0 { "a" } else { "A" };
    [
        id.to_string(),
        format!("'{part}'"),
        or_null(0, (id * 7 - salt).to_string()),
        or_null(1, (i64::MAX - id - salt).to_string()),
        or_null(2, format!("'{}.{:04}'", 123_456_789_012_345 + id, (id + salt) % 10_000)),
        or_null(3, format!("{}e0", 0.1 + (id + salt) as f64 / 7.0)),
        or_null(4, if (id + salt) % 2 == 0 { "true".into() } else { "false".into() }),
        or_null(5, text),
        or_null(6, bytes),
        or_null(7, format!("'2024-{:02}-{:02}'", 1 + (id + salt) % 12, 1 + id % 28)),
        or_null(8, format!("'2024-03-{:02} 02:{:02}:05.{:03}'", 1 + id % 28, (id + salt) % 60, id % 1000)),
        or_null(0, format!("'00000000-0000-4000-8000-{:012}'", id + salt)),
        or_null(1, format!("'{{\"k\": [{}, null, \"x\"]}}'", id + salt)),
    ]
    .join(", ")
}

fn insert(twin: &Twin, ids: impl Iterator<Item = i64>, salt: i64) {
    let rows: Vec<String> = ids.map(|id| format!("({})", row(&twin.address, id, salt))).collect();
    (twin.execute)(&format!("insert into t values {}", rows.join(", ")));
}

fn counts(report: &Value) -> [Option<u64>; 3] {
    ["only_in_source", "only_in_target", "changed"].map(|kind| report["rows"][kind].as_u64())
}

#[test]
fn a_script_makes_every_pair_of_engines_equal() {
    let folder = tempdir().unwrap();
    for (s, t) in (0..3).flat_map(|s| (0..3).map(move |t| (s, t))) {
        let (sources, targets) = (twins(), twins());
        let (source, target) = (&sources[s], &targets[t]);
        insert(source, 1..=200, 0);
        insert(target, (1..=200).filter(|id| id % 10 != 0 && id % 11 != 0), 0);
        insert(target, (1..=200).filter(|id| id % 10 == 0), 1);
        insert(target, 201..=215, 3);
        let script = folder.path().join(format!("{s}{t}.sql"));
        let path = script.display().to_string();
        let (outcome, report) =
            Drift::compare(&source.address, &target.address).args(["--repair", &path]).run_json();
        assert_eq!((outcome.code, counts(&report)), (1, [Some(17), Some(15), Some(20)]), "{outcome}");
        assert!(script.exists(), "{outcome}");
        client::apply(&target.address, &script);
        let again = Drift::compare(&source.address, &target.address).run();
        assert_eq!(again.code, 0, "{again}\n{}", fs::read_to_string(&script).unwrap());
    }
}

#[test]
fn a_script_spares_what_was_written_since() {
    let folder = tempdir().unwrap();
    for at in 0..3 {
        let (sources, targets) = (twins(), twins());
        let (source, target) = (&sources[at], &targets[at]);
        insert(source, 1..=20, 0);
        insert(target, 1..=10, 1);
        insert(target, 21..=30, 0);
        let script = folder.path().join(format!("{at}.sql"));
        let path = script.display().to_string();
        let outcome = Drift::compare(&source.address, &target.address).args(["--repair", &path]).run();
        assert_eq!(outcome.code, 1, "{outcome}");
        // Meanwhile the application corrects a row, adds a missing one, and goes on with one that looked surplus.
        (target.execute)("update t set n = 4711, t = 'newer', big = 1 where id in (3, 22)");
        insert(target, 15..=15, 5);
        client::apply(&target.address, &script);
        let (again, report) = Drift::compare(&source.address, &target.address).run_json();
        assert_eq!((again.code, counts(&report)), (1, [Some(0), Some(1), Some(2)]), "{again}");
        let keys: Vec<&Value> =
            report["differences"].as_array().unwrap().iter().map(|d| &d["key"]["id"]).collect();
        assert_eq!(keys, ["3", "15", "22"], "{again}");
    }
}

#[test]
fn a_script_that_cannot_be_right_is_not_written() {
    let folder = tempdir().unwrap();
    let script = folder.path().join("no.sql");
    let path = script.display().to_string();
    let (source, target) = (Postgres::fresh(), Postgres::fresh());
    for (database, rows) in [(&source, "(1, 1, 1), (2, 2, 2)"), (&target, "(1, 1, 3), (2, 2, 2), (2, 2, 2)")]
    {
        database.execute(&format!("create table t (id int, f real, g int); insert into t values {rows}"));
        database
            .execute("create table d (id int, f double precision, g int); insert into d values (1, 1, 1)");
    }
    let file = folder.path().join("t.csv");
    fs::write(&file, "id,f,g\n1,1,2\n").unwrap();
    let [s, t] = [&source, &target].map(|d| format!("{}#t", d.url()));
    let query = format!("{}#(select * from t)", target.url());
    let lossy = format!("{}#d", target.url());
    let no_column = "exclude it";
    for (target, args, code, why) in [
        (t.as_str(), &["-k", "none"][..], 2, "without a key"),
        (&query, &["-k", "id"], 2, "only a table of a database"),
        (&file.display().to_string(), &["-k", "id"], 2, "only a table of a database"),
        (&lossy, &["-k", "id"], 2, no_column),
        (&t, &["-k", "id"], 3, "keys stand in several rows"),
    ] {
        let outcome = Drift::compare(&s, target).args(args).args(["--repair", &path]).run();
        assert_eq!(outcome.code, code, "{outcome}");
        assert!(outcome.stderr.contains("--repair: ") && outcome.stderr.contains(why), "{outcome}");
    }
    // A value that the target's type cannot hold.
    let (from, to) = (Sqlite::fresh(), Sqlite::fresh());
    from.execute("create table t (id integer primary key, n int); insert into t values (1, 'many')");
    to.execute("create table t (id integer primary key, n int); insert into t values (1, 5)");
    let [from, to] = [from, to].map(|d| (format!("sqlite:{}#t", d.path().display()), d));
    let outcome = Drift::compare(&from.0, &to.0).args(["--repair", &path]).run();
    assert_eq!(outcome.code, 3, "{outcome}");
    assert!(
        outcome.stderr.contains("\"n\" has a value in the source that the target's type cannot hold"),
        "{outcome}"
    );
    assert!(!outcome.stderr.contains("many"), "no value in a message: {outcome}");
    // Nothing of all that leaves a file behind, and one that was there stays.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the CSV file");
    fs::write(&script, "mine").unwrap();
    assert_eq!(Drift::compare(&from.0, &to.0).args(["--repair", &path]).run().code, 3);
    assert_eq!(fs::read_to_string(&script).unwrap(), "mine");
}

/// The keys in a file of differences, in its order.
fn keys_in(file: &Path) -> Vec<(String, i64)> {
    let path = file.display().to_string();
    if path.ends_with("jsonl") {
        let text = fs::read_to_string(file).unwrap();
        let line = |line: &str| -> (String, i64) {
            let d: Value = serde_json::from_str(line).unwrap();
            (d["kind"].as_str().unwrap().into(), d["key"]["id"].as_str().unwrap().parse().unwrap())
        };
        return text.lines().map(line).collect();
    }
    // drift reads its own files; every row is surplus against an empty one of the same columns.
    let empty = file.with_file_name("empty.csv");
    fs::write(&empty, "kind,key.id\n").unwrap();
    let (_, report) = Drift::compare(&path, &empty.display().to_string())
        .args(["-k", "key.id", "--columns", "kind", "--limit", "100000"])
        .run_json();
    let entry = |d: &Value| {
        (
            d["source"]["kind"].as_str().unwrap().to_string(),
            d["key"]["key.id"].as_str().unwrap().parse().unwrap(),
        )
    };
    let mut out: Vec<(String, i64)> = report["differences"].as_array().unwrap().iter().map(entry).collect();
    out.sort_by_key(|(_, id)| *id);
    out
}

#[test]
fn all_differences_are_listed_in_every_format() {
    let (source, target) = (Postgres::fresh(), Postgres::fresh());
    let rows = "select n, n % 7, 'row ' || n from generate_series(1, 300000) n";
    for database in [&source, &target] {
        database.execute(&format!(
            "create table t (id int primary key, g int, note text); insert into t {rows}; analyze t"
        ));
    }
    target.execute(
        "update t set note = note || '!' where id % 20 = 0; delete from t where id % 50 = 7; insert into t values (400000, 1, '')",
    );
    let expected: Vec<(String, i64)> = (1..=400_000_i64)
        .filter_map(|n| match n {
            400_000 => Some(("only_in_target".into(), n)),
            300_001.. => None,
            n if n % 50 == 7 => Some(("only_in_source".into(), n)),
            n if n % 20 == 0 => Some(("changed".into(), n)),
            _ => None,
        })
        .collect();
    let [s, t] = [&source, &target].map(|d| format!("{}#t", d.url()));
    let folder = tempdir().unwrap();
    for (format, args) in [
        ("csv", &["--threads", "4", "--limit", "5"][..]),
        ("jsonl", &["--threads", "1"]),
        ("parquet", &["--threads", "4", "--limit", "0"]),
        // So many are found again by their ranges.
        ("jsonl", &["--consistency", "confirm", "--confirm-wait", "1ms"]),
    ] {
        let file = folder.path().join(format!("all.{format}"));
        let path = file.display().to_string();
        let outcome = Drift::compare(&s, &t).args(args).args(["--diff", &path]).run();
        assert_eq!(outcome.code, 1, "{outcome}");
        assert_eq!(keys_in(&file), expected, "{format}");
    }
    let text = fs::read_to_string(folder.path().join("all.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("kind,key.id,columns,source.g,source.note,target.g,target.note"));
    assert_eq!(lines.next(), Some("only_in_source,7,,0,row 7,,"));
    assert_eq!(lines.next(), Some("changed,20,note,,row 20,,row 20!"));
    assert_eq!(text.lines().last(), Some("only_in_target,400000,,,,1,\"\""));
    // What shows no values, shows none here either.
    let file = folder.path().join("masked.jsonl");
    let path = file.display().to_string();
    assert_eq!(Drift::compare(&s, &t).args(["--diff", &path, "--mask", "mask"]).run().code, 1);
    assert!(!fs::read_to_string(&file).unwrap().contains("row 20"));
    let outcome = Drift::compare(&s, &t).args(["--diff", "all.xlsx"]).run();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    let outcome = Drift::compare(&s, &t).args(["--diff", "/nowhere/all.csv"]).run();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
}
