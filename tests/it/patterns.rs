//! Faults with a system have a name: planted on real servers, every pattern comes back with its count.

use serde_json::Value;

use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::drift::Drift;

/// Column, pattern, detail, rows.
pub type Named = (String, String, String, u64);

/// What a report names, in order.
pub fn patterns(report: &Value) -> Vec<Named> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let one = |p: &Value| {
        (text(&p["column"]), text(&p["pattern"]), text(&p["detail"]), p["rows"].as_u64().unwrap_or(0))
    };
    let mut found: Vec<Named> = report["patterns"].as_array().expect("patterns").iter().map(one).collect();
    found.sort();
    found
}

const COLUMNS: &str = "id int primary key, created timestamp, amount numeric(12,4), total bigint, note varchar(80),
     city varchar(80), first varchar(40), last varchar(40), state varchar(20), seen timestamp, rate double precision";

/// 2,000 rows as PostgreSQL makes them.
const ROWS: &str = "select n, timestamp '2024-01-01 00:00:00' + n * interval '61.5 minutes', (n * 7919 % 100000)::numeric / 10000 + n,
       n * 31 + 1000000, 'note ' || md5(n::text), 'Köln ' || n, 'Ada' || n, 'Berg' || n,
       case when n % 3 = 0 then '' else 'open' end, timestamp '2024-01-01' + n * interval '1.234567 seconds', n + 0.45678912
     from generate_series(1, 2000) n";

/// Rows, their damage, and what it must be called: column, pattern, detail, rows (0: not all of them change).
type Planted = (&'static str, &'static str, &'static str, &'static str, &'static str, u64);

const PLANTED: [Planted; 14] = [
    ("id between 1 and 100", "created = created + interval '2 hours'", "created", "shifted", "+2 h", 100),
    (
        "id between 101 and 140",
        "created = created - interval '30 minutes'",
        "created",
        "shifted",
        "-30 min",
        40,
    ),
    ("id between 201 and 260", "amount = trunc(amount, 1)", "amount", "cut", "1 decimal", 0),
    ("id between 301 and 360", "amount = round(amount, 2)", "amount", "rounded", "2 decimals", 0),
    ("id between 401 and 450", "total = total * 100", "total", "scaled", "×100", 50),
    ("id between 501 and 530", "total = total + 7", "total", "shifted", "+7", 30),
    (
        "id between 601 and 620",
        "note = note || '  '",
        "note",
        "trimmed",
        "trailing blanks lacking in the source",
        20,
    ),
    ("id between 701 and 730", "note = left(note, 20)", "note", "cut", "20 characters", 30),
    ("id between 801 and 825", "note = upper(note)", "note", "case", "upper case in the target", 25),
    (
        "id between 901 and 940",
        "city = convert_from(convert_to(city, 'UTF8'), 'LATIN1')",
        "city",
        "encoding",
        "UTF-8 read as Windows-1252",
        40,
    ),
    ("id between 1001 and 1010", "first = last, last = first", "first", "swapped", "with last", 10),
    (
        "id between 1101 and 1130 and state = ''",
        "state = null",
        "state",
        "empty_null",
        "empty in the source, NULL in the target",
        10,
    ),
    ("id between 1201 and 1240", "seen = date_trunc('second', seen)", "seen", "cut", "whole seconds", 40),
    ("id between 1301 and 1320", "rate = round(rate::numeric, 3)", "rate", "rounded", "3 decimals", 20),
];

fn check(report: &Value) {
    let found = patterns(report);
    let has = |column: &str, pattern: &str, detail: &str| {
        found
            .iter()
            .find(|(c, p, d, _)| (c.as_str(), p.as_str(), d.as_str()) == (column, pattern, detail))
            .map(|f| f.3)
    };
    for (_, how, column, pattern, detail, rows) in PLANTED {
        let got = has(column, pattern, detail);
        // Some values are rounded as well as cut, or do not change at all; all together they are all that differ.
        if rows > 0 {
            assert_eq!(got, Some(rows), "{how}: {found:#?}");
        } else {
            assert!(got > Some(0), "{how}: {found:#?}");
        }
    }
    let of_amount: u64 = found.iter().filter(|f| f.0 == "amount").map(|f| f.3).sum();
    let differing = report["columns"].as_array().expect("columns").iter().find(|c| c["name"] == "amount");
    assert_eq!(Some(of_amount), differing.and_then(|c| c["differing_rows"].as_u64()), "{found:#?}");
    assert_eq!(has("", "missing_range", "one run of rows that only the source has"), Some(51), "{found:#?}");
    assert_eq!(has("", "surplus_rows", "rows that only the target has"), Some(7), "{found:#?}");
    assert_eq!(found.len(), PLANTED.len() + 2, "{found:#?}");
}

fn planted() -> (Postgres, Postgres) {
    let source = Postgres::fresh();
    source.execute(&format!("create table t ({COLUMNS}); insert into t {ROWS}"));
    let target = Postgres::fresh();
    target.execute(&format!("create table t ({COLUMNS}); insert into t {ROWS}"));
    for (rows, how, ..) in PLANTED {
        target.execute(&format!("update t set {how} where {rows}"));
    }
    target.execute("delete from t where id between 1700 and 1750");
    target.execute("insert into t (id) select n from generate_series(3001, 3007) n");
    (source, target)
}

#[test]
fn planted_patterns_are_named_with_their_counts() {
    let (source, target) = planted();
    let (source, target) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    for args in [&["--threads", "1"], &["--threads", "4"], &["--memory", "8MiB"]] {
        let (outcome, report) = Drift::compare(&source, &target).args(args).run_json();
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        check(&report);
    }
    let call = Drift::compare(&source, &target).args(["--consistency", "confirm", "--confirm-wait", "1ms"]);
    check(&call.run_json().1);
    let human = Drift::compare(&source, &target).run();
    assert!(human.stdout.contains("what they have in common"), "{human}");
    assert!(human.stdout.contains("shifted: +2 h  100 rows"), "{human}");
}

#[test]
fn the_same_names_between_other_engines() {
    let (source, target) = (MySql::fresh(), Sqlite::fresh());
    source.execute(
        "create table t (id int primary key, created datetime(3), amount decimal(10,3), note varchar(40));
         insert into t select seq, timestampadd(second, seq, '2024-01-01'), seq / 8, concat('Zürich ', seq) from seq_1_to_300",
    );
    target.execute(
        "create table t (id integer primary key, created datetime, amount decimal(10,3), note text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 300)
         insert into t select i,
           case when i <= 50 then datetime('2024-01-01', '+' || i || ' seconds', '-1 hour') else datetime('2024-01-01', '+' || i || ' seconds') end,
           case when i between 101 and 140 then cast(i / 8 as text) else printf('%.3f', i / 8.0) end,
           case when i between 201 and 210 then 'ZÃ¼rich ' || i when i between 221 and 223 then 'Z?rich ' || i else 'Zürich ' || i end from n",
    );
    let (outcome, report) =
        Drift::compare(&format!("{}#t", source.url()), &format!("sqlite:{}#t", target.path().display()))
            .run_json();
    assert_eq!(outcome.code, 1, "{outcome}");
    let expected = [
        ("amount", "cut", "0 decimals", 35),
        ("created", "shifted", "-1 h", 50),
        ("note", "encoding", "UTF-8 read as Windows-1252", 10),
        ("note", "encoding", "characters replaced by ?", 3),
    ];
    let expected = expected.map(|(c, p, d, n)| (c.to_string(), p.to_string(), d.to_string(), n));
    assert_eq!(patterns(&report), expected, "{outcome}");
}

#[test]
fn unrelated_changes_have_nothing_in_common() {
    let [source, target] = ["", "x"].map(|salt| {
        let database = Postgres::fresh();
        database.execute(&format!(
            "create table t (id int primary key, a int, b text, c timestamp, d float8);
             insert into t select n, hashtext('a{salt}' || n), md5('b{salt}' || n), timestamp '2024-01-01' + (hashtext('c{salt}' || n) % 1000000) * interval '1 s',
               hashtext('d{salt}' || n) / 7.0 from generate_series(1, 3000) n"
        ));
        database
    });
    let (outcome, report) =
        Drift::compare(&format!("{}#t", source.url()), &format!("{}#t", target.url())).run_json();
    assert_eq!((outcome.code, &report["rows"]["changed"]), (1, &3000.into()), "{}", outcome.stderr);
    assert_eq!(patterns(&report), [], "chance has no name");
}
