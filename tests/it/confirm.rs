//! Late is not wrong: what differs is looked at again before it is reported.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::database::{MySql, Postgres, Sqlite, mysql_execute, postgres_execute};
use crate::support::drift::{Drift, Running};
use crate::support::eventually;
use crate::support::parquet::{self, Cell};
use crate::support::proxy::{Cut, Proxy};

fn confirming(source: &str, target: &str, wait: &str) -> Drift {
    Drift::compare(source, target).args(["--consistency", "confirm", "--confirm-wait", wait])
}

/// What a report says about rows, apart from how it came to know.
fn about_rows(report: &Value) -> Value {
    let mut differences = report["differences"].clone();
    for difference in differences.as_array_mut().expect("differences") {
        difference.as_object_mut().expect("a difference").remove("confirmed_by");
    }
    json!({
        "verdict": report["verdict"],
        "rows": report["rows"],
        "columns": report["columns"],
        "differences": differences,
        "ranges": report["ranges"],
        "duplicates": report["duplicate_keys"],
    })
}

/// On a pair at rest, confirmation must change nothing but its proof.
fn changes_nothing_at_rest(source: &str, target: &str, args: &[&str]) -> Value {
    let (plain, once) = Drift::compare(source, target).args(args).run_json();
    let (outcome, confirmed) = confirming(source, target, "1ms").args(args).run_json();
    assert_eq!((plain.code, outcome.code), (1, 1), "{outcome}");
    assert_eq!(about_rows(&once), about_rows(&confirmed));
    for difference in confirmed["differences"].as_array().expect("differences") {
        assert_eq!(difference["confirmed_by"], "stability");
    }
    confirmed
}

/// Rows that differ in every way, in runs and alone.
fn damage(rows: u32, of: impl Fn(u32) -> String, from: &str) -> String {
    format!(
        "delete from t where {from} in ({}, {}, {}); update t set v = v + 1 where {from} in ({}, {}, {}, {})",
        of(1),
        of(17),
        of(18),
        of(19),
        of(rows / 2),
        of(rows / 2 + 1),
        of(rows)
    )
}

#[test]
fn differences_found_by_key_are_those_first_read() {
    let whole = |n: u32| n.to_string();
    let rows = 3000;
    let source = Postgres::fresh();
    source.execute(&format!("create table t (id int primary key, v int); insert into t select n, n from generate_series(1, {rows}) n"));
    let target = MySql::fresh();
    target.execute(&format!(
        "create table t (id int primary key, v int); insert into t select seq, seq from seq_1_to_{rows}"
    ));
    target.execute_all(damage(rows, whole, "id").split("; ").map(str::to_string));
    source.execute("delete from t where id = 1500");
    let (source, target) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    for threads in ["1", "4"] {
        let report = changes_nothing_at_rest(&source, &target, &["--threads", threads]);
        assert_eq!(report["rows"]["only_in_target"], 1);
    }
    // Values that count as equal stay equal, also next to damaged rows.
    changes_nothing_at_rest(&source, &target, &["--tolerance", "v=0.5"]);
}

#[test]
fn texts_of_any_collation_and_keys_of_several_columns() {
    let rows = 2000;
    let source = Postgres::fresh();
    source.execute(&format!(
        "create table t (name text, part uuid, at timestamp, v int, primary key (name, part, at));
         insert into t select 'Key ''' || n % 100, md5(n::text)::uuid, '2024-01-01'::timestamp + n * interval '1.000001 s', n
         from generate_series(1, {rows}) n"
    ));
    let target = MySql::fresh();
    target.execute(
        "create table t (name varchar(40) collate utf8mb4_general_ci, part uuid, at datetime(6), v int, primary key (name, part, at))",
    );
    target.execute(&format!(
        "insert into t select concat('Key ''', seq % 100), concat_ws('-', substr(md5(seq), 1, 8), substr(md5(seq), 9, 4),
         substr(md5(seq), 13, 4), substr(md5(seq), 17, 4), substr(md5(seq), 21)), timestampadd(microsecond, seq * 1000001, '2024-01-01'), seq
         from seq_1_to_{rows} where md5(seq) regexp '^.{{12}}[1-5].{{3}}[89ab]'"
    ));
    source.execute("delete from t where substr(part::text, 15, 1) not in ('1', '2', '3', '4', '5') or substr(part::text, 20, 1) not in ('8', '9', 'a', 'b')");
    target.execute("update t set v = v + 1 where v % 11 = 0");
    target.execute("update t set name = lower(name) where v % 13 = 0");
    let (source, target) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    let report = changes_nothing_at_rest(&source, &target, &[]);
    assert!(
        report["rows"]["only_in_source"].as_u64() > Some(0) && report["rows"]["changed"].as_u64() > Some(0)
    );
}

#[test]
fn many_differences_are_read_again_by_their_ranges() {
    let source = Postgres::fresh();
    source.execute("create table t (id bigint primary key, v int); insert into t select n, n from generate_series(1, 60000) n; analyze t");
    let target = Postgres::fresh();
    target.execute(
        "create table t (id bigint primary key, v int);
         insert into t select n, case when n between 20000 and 35000 then n + 1 else n end from generate_series(1, 60000) n
         where n not in (7, 8, 59999); analyze t",
    );
    let (source, target) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    let report = changes_nothing_at_rest(&source, &target, &["--threads", "2"]);
    assert_eq!(report["rows"]["changed"], 15001);
    // The damaged ranges are read again, the rest is not.
    let bytes = report["cost"]["bytes_received"].as_u64().expect("bytes");
    let (_, once) = Drift::compare(&source, &target).run_json();
    assert!(bytes < once["cost"]["bytes_received"].as_u64().expect("bytes") * 3 / 2, "{bytes}");
    // Where suspects find no room, they differ again or are late all the same.
    changes_nothing_at_rest(&source, &target, &["--memory", "8MiB"]);
}

#[test]
fn keys_that_cannot_be_looked_up_and_rows_without_a_key() {
    let source = Sqlite::fresh();
    source.execute("create table t (x real, v int); insert into t values (0.5, 1), (1.5, 2), (1.5, 2), (2.5, 3), (null, 4), (9.0, 9)");
    let target = Postgres::fresh();
    target.execute("create table t (x float8, v int); insert into t values (0.5, 1), (1.5, 2), (2.5, 30), (null, 40), (3.5, 5), (9.0, 9), (9.0, 8)");
    let (source, target) = (format!("sqlite:{}#t", source.path().display()), format!("{}#t", target.url()));
    changes_nothing_at_rest(&source, &target, &["-k", "x"]);
    changes_nothing_at_rest(&source, &target, &["-k", "none"]);
}

#[test]
fn a_file_has_nothing_to_look_keys_up_by() {
    let source = Postgres::fresh();
    source.execute("create table t (id int primary key, v int); insert into t select n, n from generate_series(1, 500) n");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    let rows: String =
        (5..=501).rev().map(|n| format!("{n},{}\n", if n % 100 == 0 { 0 } else { n })).collect();
    std::fs::write(&path, format!("id,v\n{rows}")).expect("a file");
    let report = changes_nothing_at_rest(&format!("{}#t", source.url()), &path.display().to_string(), &[]);
    assert_eq!((&report["rows"]["changed"], &report["rows"]["only_in_source"]), (&5.into(), &4.into()));
    // Two files cannot change: nothing is looked at again.
    let path = path.display().to_string();
    let other = folder.path().join("other.csv");
    std::fs::write(&other, "id,v\n5,6\n").expect("a file");
    let outcome = confirming(&path, &other.display().to_string(), "1h").args(["-k", "id"]).run();
    assert_eq!(outcome.code, 1, "{outcome}");
}

#[test]
fn rows_that_are_no_suspects_take_no_room_from_those_that_are() {
    let source = Postgres::fresh();
    source.execute(
        "create table t (id int primary key, v int); insert into t select n, n from generate_series(1, 9000) n",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let rows: Vec<Vec<Cell>> =
        (1..=9000).map(|n| vec![Cell::Int(n), Cell::Int(if n > 8990 { 0 } else { n })]).collect();
    parquet::write(&path, "required int32 id; optional int32 v;", &rows);
    // A file is read whole again, so that most of its rows stand alone beside the few that are looked up.
    let (source, target) = (format!("{}#t", source.url()), path.display().to_string());
    let report = changes_nothing_at_rest(&source, &target, &["-k", "id", "--memory", "8MiB"]);
    assert_eq!((&report["rows"]["changed"], &report["rows"]["equal"]), (&10.into(), &8990.into()));
}

/// Two equal tables, and a way to do something right after drift's first reading.
struct Live {
    source: Postgres,
    target: MySql,
}

impl Live {
    fn with_equal_rows(rows: u32) -> Live {
        let live = Live { source: Postgres::fresh(), target: MySql::fresh() };
        live.source.execute(&format!(
            "create table t (id int primary key, v bigint); insert into t select n, 0 from generate_series(1, {rows}) n"
        ));
        live.target.execute(&format!(
            "create table t (id int primary key, v bigint); insert into t select seq, 0 from seq_1_to_{rows}"
        ));
        live
    }

    fn addresses(&self) -> (String, String) {
        (format!("{}#t", self.source.url()), format!("{}#t", self.target.url()))
    }

    /// A call whose first reading has just ended, so that what happens now is seen by the next one only.
    fn after_first_reading(&self, args: &[&str]) -> (Running, Proxy) {
        let watched = Proxy::in_front_of(&self.target.url(), Cut::Once, u64::MAX);
        let target = format!("{}#t", watched.url(self.target.url()));
        let running = confirming(&self.addresses().0, &target, "4s").args(args).spawn();
        // One connection describes the table, the other holds the snapshot.
        eventually("the end of drift's first reading", || watched.ended() == 2);
        (running, watched)
    }
}

#[test]
fn a_row_that_is_late_is_no_difference() {
    let live = Live::with_equal_rows(1000);
    live.source.execute(
        "update t set v = 1 where id in (5, 6); delete from t where id = 7; insert into t values (1001, 3)",
    );
    let (running, _proxy) = live.after_first_reading(&["-o", "json"]);
    live.target.execute_all(
        [
            "update t set v = 1 where id in (5, 6)",
            "delete from t where id = 7",
            "insert into t values (1001, 3)",
        ]
        .map(str::to_string),
    );
    let outcome = running.wait().expect_code(0);
    let report = outcome.json();
    assert_eq!((&report["verdict"], &report["rows"]["in_flight"]), (&"equal".into(), &0.into()), "{outcome}");
    assert_eq!(report["ranges"], json!([]));
}

#[test]
fn a_late_row_does_not_hide_a_wrong_one() {
    let live = Live::with_equal_rows(1000);
    live.source.execute("update t set v = 1 where id in (5, 6, 7)");
    live.target.execute("update t set v = 9 where id = 6");
    let (running, _proxy) = live.after_first_reading(&["--confirm-rounds", "2"]);
    live.target.execute("update t set v = 1 where id in (5, 7)");
    let outcome = running.wait().expect_code(1);
    let first = outcome.stdout.lines().next().unwrap_or_default();
    assert!(first.contains("1 of 1,000 rows differs (1 changed)"), "{outcome}");
    assert!(outcome.stdout.contains("2 rows were only late"), "{outcome}");
    assert!(outcome.stdout.contains("~ id=6"), "{outcome}");
}

#[test]
fn a_row_that_keeps_changing_is_inconclusive() {
    let live = Live::with_equal_rows(100);
    live.target.execute("update t set v = -1 where id = 50");
    let (source, target) = live.addresses();
    let going = Arc::new(AtomicBool::new(true));
    let writer = {
        let going = Arc::clone(&going);
        let url = live.source.url();
        std::thread::spawn(move || {
            while going.load(Ordering::SeqCst) {
                postgres_execute(&url, "update t set v = v + 1 where id = 50");
            }
        })
    };
    let (outcome, report) = confirming(&source, &target, "1s").run_json();
    going.store(false, Ordering::SeqCst);
    writer.join().expect("the writer's end");
    assert_eq!(outcome.code, 4, "{outcome}");
    assert_eq!(report["verdict"], "inconclusive");
    assert_eq!(report["confirmed_drift"], false);
    assert_eq!((&report["rows"]["in_flight"], &report["rows"]["changed"]), (&1.into(), &0.into()));
    assert_eq!(report["rows"]["compared"], 100);
}

#[test]
fn what_could_not_be_looked_at_again_is_not_confirmed() {
    let live = Live::with_equal_rows(100);
    live.target.execute("update t set v = 5 where id = 5");
    let (source, target) = live.addresses();
    for format in ["human", "json"] {
        let call = confirming(&source, &target, "1h").args(["--deadline", "2s", "-o", format]);
        let outcome = call.run().expect_code(3);
        assert!(outcome.stdout.contains("not confirmed"), "{outcome}");
        if format == "json" {
            assert_eq!(outcome.json()["confirmed_drift"], false, "{outcome}");
        }
    }
    let (running, _proxy) = live.after_first_reading(&["-o", "json"]);
    live.target.execute("drop table t");
    let outcome = running.wait().expect_code(3);
    assert_eq!(outcome.json()["confirmed_drift"], false, "{outcome}");
    assert!(outcome.stdout.contains("it was there"), "{outcome}");
}

/// Writes 2,000 rows a second to the source, and the same to the target up to five seconds later, in order.
struct Replication {
    going: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Replication {
    fn between(live: &Live, first: u32, last: u32) -> Replication {
        let going = Arc::new(AtomicBool::new(true));
        let (send, receive) = std::sync::mpsc::channel::<(Instant, String)>();
        let (writing, source) = (Arc::clone(&going), live.source.url());
        let writer = std::thread::spawn(move || {
            let mut random = 1u64;
            let mut due = Instant::now();
            for tick in 1u64.. {
                if !writing.load(Ordering::SeqCst) {
                    return;
                }
                let mut next = |below: u32| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (random >> 33) as u32 % below
                };
                let ids: Vec<String> = (0..200).map(|_| (first + next(last - first)).to_string()).collect();
                let change = match tick % 5 {
                    0 => format!("delete from t where id in ({})", ids[..20].join(",")),
                    _ => format!("update t set v = {tick} where id in ({})", ids.join(",")),
                };
                postgres_execute(&source, &change);
                let _ = send.send((Instant::now() + Duration::from_millis(next(5000).into()), change));
                due += Duration::from_millis(100);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        });
        let (applying, target) = (Arc::clone(&going), live.target.url());
        let applier = std::thread::spawn(move || {
            let mut waiting: VecDeque<(Instant, String)> = VecDeque::new();
            while applying.load(Ordering::SeqCst) {
                waiting.extend(receive.try_iter());
                match waiting.pop_front() {
                    Some((at, change)) => {
                        // In order: a change waits for those before it, and so at most as long as the latest of them.
                        std::thread::sleep(at.saturating_duration_since(Instant::now()));
                        mysql_execute(&target, [change]);
                    }
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Replication { going, threads: vec![writer, applier] }
    }
}

impl Drop for Replication {
    fn drop(&mut self) {
        self.going.store(false, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[test]
fn no_alarm_while_rows_are_written_on_both_sides() {
    let minutes = if std::env::var_os("DRIFT_TEST_LONG").is_some() { 5 } else { 1 };
    let live = Live::with_equal_rows(60_000);
    let (source, target) = live.addresses();
    let replication = Replication::between(&live, 1, 50_000);
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut in_flight = 0;
    while Instant::now() < end {
        let (outcome, report) =
            Drift::compare(&source, &target).args(["--consistency", "confirm"]).run_json();
        assert!([0, 4].contains(&outcome.code), "{outcome}");
        in_flight += report["rows"]["in_flight"].as_u64().expect("a count");
    }
    println!("{in_flight} rows were in flight in all");
    // Lost and wrong rows are found all the same.
    live.target.execute_all(
        ["update t set v = -1 where id between 50001 and 50010", "delete from t where id in (55000, 60000)"]
            .map(str::to_string),
    );
    live.source.execute("delete from t where id = 51000");
    let (outcome, report) = Drift::compare(&source, &target).args(["--consistency", "confirm"]).run_json();
    drop(replication);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let found: Vec<String> = report["differences"]
        .as_array()
        .expect("differences")
        .iter()
        .map(|d| d["key"]["id"].as_str().unwrap_or_default().to_string())
        .collect();
    let mut expected: Vec<String> = (50_001..=50_010).map(|id: u32| id.to_string()).collect();
    expected.extend(["51000", "55000", "60000"].map(str::to_string));
    assert_eq!(found, expected);
}

#[test]
fn a_cutoff_leaves_young_rows_alone_and_no_others() {
    const COLUMNS: &str = "id int primary key, v int, at timestamp null";
    let source = Postgres::fresh();
    source.execute(&format!(
        "create table t ({COLUMNS}); insert into t select n, n, now() at time zone 'UTC' - interval '1 day' from generate_series(1, 20) n"
    ));
    let target = MySql::fresh();
    let copy = "insert into t select seq, seq, at from seq_1_to_20, (select cast(? as datetime) as at) x";
    let at = source.text("select to_char(max(at), 'YYYY-MM-DD HH24:MI:SS.US') from t");
    let columns = COLUMNS.replace("timestamp", "datetime(6)");
    let copy = copy.replace("cast(? as datetime)", &format!("cast('{at}' as datetime(6))"));
    target.execute(&format!("create table t ({columns}); {copy}"));
    let (s, t) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    let ask = |args: &[&str]| {
        let fixed = ["--consistency", "cutoff", "--updated-at", "at"];
        Drift::compare(&s, &t).args(fixed).args(args).run_json()
    };
    let keys = |report: &Value| -> Vec<String> {
        let differences = report["differences"].as_array().expect("differences");
        differences.iter().map(|d| d["key"]["id"].as_str().expect("a key").to_string()).collect()
    };
    // Changed and inserted a moment ago, and a write at the target alone.
    source.execute("update t set v = -2, at = now() at time zone 'UTC' where id = 2; insert into t values (21, 21, now() at time zone 'UTC')");
    target.execute("update t set v = -3, at = utc_timestamp(6) where id = 3");
    let (outcome, report) = ask(&[]);
    assert_eq!(
        (outcome.code, &report["rows"]["in_flight"], &report["verdict"]),
        (0, &3.into(), &"equal".into()),
        "{outcome}"
    );
    assert_eq!(report["cutoff"], serde_json::json!({ "updated_at": "at", "min_age_seconds": 600.0 }));
    let human = Drift::compare(&s, &t).args(["--consistency", "cutoff", "--updated-at", "at"]).run();
    assert!(
        human.stdout.starts_with("equal: 18 rows, 3 columns; 3 differing rows are younger than the cutoff"),
        "{human}"
    );
    // Old enough for a shorter age.
    let (outcome, report) = ask(&["--min-age", "1ms"]);
    assert_eq!((outcome.code, keys(&report)), (1, vec!["2".into(), "3".into(), "21".into()]), "{outcome}");
    // Wrong for a day, without a time, from the future, lost, and surplus.
    source.execute("update t set v = -5 where id = 5; update t set at = null, v = -6 where id = 6; update t set at = '2199-01-01', v = -7 where id = 7");
    target.execute("delete from t where id = 8; insert into t values (22, 22, '2024-01-01')");
    let (outcome, report) = ask(&[]);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert_eq!(keys(&report), ["5", "6", "7", "8", "22"], "{outcome}");
    assert_eq!(report["ranges"].as_array().map(Vec::len), Some(2), "{outcome}");
    // A young row between two wrong ones is no part of a range.
    target.execute(
        "update t set v = 0 where id in (12, 14); update t set v = 0, at = utc_timestamp(6) where id = 13",
    );
    assert_eq!(ask(&[]).1["ranges"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_cutoff_without_a_time_to_go_by_is_a_usage_error() {
    let source = Postgres::fresh();
    source.execute("create table t (id int primary key, v text, at timestamptz)");
    let s = format!("{}#t", source.url());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.csv");
    std::fs::write(&file, "id,at\n1,2024-01-01 00:00:00\n").expect("a file");
    let file = file.display().to_string();
    for (source, args, wanted) in [
        (&s, &["--consistency", "cutoff"][..], "needs --updated-at"),
        (&s, &["--min-age", "5m"], "belong to --consistency cutoff"),
        (&s, &["--consistency", "cutoff", "--updated-at", "v"], "compared as text"),
        (&s, &["--consistency", "cutoff", "--updated-at", "when"], "no such column"),
        (&file, &["--consistency", "cutoff", "--updated-at", "at", "-k", "id"], "timestamp"),
    ] {
        let outcome = Drift::compare(source, source).args(args).run();
        assert!(outcome.code == 2 && outcome.stderr.contains(wanted), "{args:?}: {outcome}");
    }
}
