//! The traps of other tools: what their formulas call equal. Each formula stands in its test and runs on the same real
//! rows: it gives one answer for both sides, and drift names exactly the rows that differ. The formulas are those of
//! reladiff 0.6.0 and data-diff 0.11.2, pt-table-checksum, sync-diff-inspector, pgCompare, Google's
//! data-validation-tool, Lakebridge and Ghostferry, as their sources or recorded runs show them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::drift::{Drift, Outcome};
use crate::support::parquet::{self, Cell};
use crate::support::proxy::{Cut, Proxy};

/// A server with a table `t`, and what a formula over it gives there.
trait Peer {
    fn says(&self, formula: &str) -> String;
    fn address(&self) -> String;
}

impl Peer for Postgres {
    fn says(&self, formula: &str) -> String {
        self.text(&format!("select ({formula})::text from t"))
    }

    fn address(&self) -> String {
        format!("{}#t", self.url())
    }
}

impl Peer for MySql {
    fn says(&self, formula: &str) -> String {
        self.text(&format!("select cast({formula} as char) from t"))
    }

    fn address(&self) -> String {
        format!("{}#t", self.url())
    }
}

fn postgres(setup: &str) -> Postgres {
    let database = Postgres::fresh();
    database.execute(setup);
    database
}

fn mysql(setup: &str) -> MySql {
    let database = MySql::fresh();
    database.execute(setup);
    database
}

/// Two tables with the same columns on one kind of server, with these rows.
fn two_postgres(columns: &str, source: &str, target: &str) -> [Postgres; 2] {
    [source, target].map(|rows| postgres(&format!("create table t ({columns}); insert into t values {rows}")))
}

fn two_mysql(columns: &str, source: &str, target: &str) -> [MySql; 2] {
    [source, target].map(|rows| mysql(&format!("create table t ({columns}); insert into t values {rows}")))
}

/// Fails unless the peer is deceived: the formula gives the same on both sides.
fn peer_says_equal(sides: [&dyn Peer; 2], formula: &str) {
    let [source, target] = sides.map(|side| side.says(formula));
    assert_eq!(source, target, "the trap no longer works: {formula}");
}

/// A difference: kind, the key's values joined with commas, columns joined with commas.
type Found = (&'static str, &'static str, &'static str);

const CHANGED: &str = "changed";
const SOURCE: &str = "only_in_source";
const TARGET: &str = "only_in_target";

/// Fails unless drift says drift and exactly these differences, from either side, in every format.
fn drift_finds(source: &str, target: &str, args: &[&str], expected: &[Found]) {
    let swapped: Vec<Found> = expected
        .iter()
        .map(|(kind, key, columns)| match *kind {
            SOURCE => (TARGET, *key, *columns),
            TARGET => (SOURCE, *key, *columns),
            kind => (kind, *key, *columns),
        })
        .collect();
    for (source, target, expected) in [(source, target, expected.to_vec()), (target, source, swapped)] {
        let (outcome, report) = Drift::compare(source, target).args(args).run_json();
        assert_eq!(outcome.code, 1, "{outcome}");
        assert_eq!(report["verdict"], "drift", "{outcome}");
        let found: Vec<(String, String, String)> =
            report["differences"].as_array().expect("differences").iter().map(difference).collect();
        let sorted = |mut list: Vec<(String, String, String)>| {
            list.sort();
            list
        };
        let expected = expected.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string()));
        assert_eq!(sorted(found), sorted(expected.collect()), "{outcome}");
        let human = Drift::compare(source, target).args(args).run();
        assert_eq!(human.code, 1, "{human}");
        assert!(human.stdout.starts_with("drift"), "{human}");
    }
}

fn difference(found: &Value) -> (String, String, String) {
    let texts = |values: Vec<&Value>| {
        let texts: Vec<String> =
            values.into_iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_string)).collect();
        texts.join(",")
    };
    let columns = found["columns"].as_array().map(|columns| {
        let mut columns: Vec<&Value> = columns.iter().collect();
        columns.sort_by_key(|name| name.as_str());
        texts(columns)
    });
    let key = found["key"].as_object().map(|key| texts(key.values().collect()));
    (texts(vec![&found["kind"]]), key.unwrap_or_default(), columns.unwrap_or_default())
}

fn drift_finds_between(sides: [&dyn Peer; 2], expected: &[Found]) {
    drift_finds(&sides[0].address(), &sides[1].address(), &[], expected);
}

/// Fails unless a call says that nothing was proved.
fn is_not_equal(outcome: &Outcome) {
    assert_eq!(outcome.code, 3, "{outcome}");
    let first = outcome.stdout.lines().next().unwrap_or_default();
    if first.starts_with('{') {
        assert_eq!(outcome.json()["verdict"], "incomplete", "{outcome}");
    } else {
        assert!(first.starts_with("incomplete"), "{outcome}");
    }
    assert!(!outcome.stderr.is_empty(), "{outcome}");
}

// --------------------------------------------------------------------------------------------------- formulas over rows
#[test]
fn f01_a_separator_inside_a_value() {
    for separator in ["|", "#", ",", ""] {
        let columns = "id int primary key, a varchar(20), b varchar(20)";
        let create = format!("create table t ({columns}); insert into t values (2, 'x', 'y')");
        let source = postgres(&format!("{create}, (1, 'a{separator}b', 'c')"));
        let target = mysql(&format!("{create}, (1, 'a', 'b{separator}c')"));
        for aggregate in ["min", "max"] {
            let formula = format!("{aggregate}(md5(concat_ws('{separator}', id, a, b)))");
            peer_says_equal([&source, &target], &formula);
        }
        drift_finds_between([&source, &target], &[(CHANGED, "1", "a,b")]);
    }
}

#[test]
fn f02_a_word_that_stands_for_null() {
    for word in ["<null>", "NULL", "DEFAULT_REPLACEMENT_STRING", "_null_recon_", ""] {
        let columns = "id int primary key, a varchar(40)";
        let rows = format!("(1, '{word}'), (2, null), (3, null)");
        let source = postgres(&format!(
            "create table t ({columns}); insert into t values (1, null), (2, '{word}'), (3, null)"
        ));
        let target = mysql(&format!("create table t ({columns}); insert into t values {rows}"));
        for which in [1, 2, 3] {
            let formula = format!("max(case when id = {which} then md5(coalesce(a, '{word}')) end)");
            peer_says_equal([&source, &target], &formula);
        }
        drift_finds_between([&source, &target], &[(CHANGED, "1", "a"), (CHANGED, "2", "a")]);
    }
}

#[test]
fn f03_checksums_that_cancel_each_other_out() {
    let columns = "id int primary key, a varchar(9)";
    for crc in ["crc32", "crc32c"] {
        for (source, target) in [
            // The same byte of two rows of the same length.
            ("(1, 'aaaa'), (2, 'bbaa'), (3, 'zzzz')", "(1, 'aaac'), (2, 'bbac'), (3, 'zzzz')"),
            // Two rows that swap their values.
            ("(1, 'north'), (2, 'south')", "(1, 'south'), (2, 'north')"),
        ] {
            let [source, target] = two_mysql(columns, source, target);
            peer_says_equal(
                [&source, &target],
                &format!("concat(count(*), ' ', bit_xor({crc}(concat_ws('#', id, a))))"),
            );
            // A salt changes nothing, and two sums of one kind are not worth more than one.
            peer_says_equal(
                [&source, &target],
                &format!(
                    "concat(bit_xor({crc}(concat('salt', id, a))), ' ', bit_xor({crc}(concat(a, id, 'x'))))"
                ),
            );
            drift_finds_between([&source, &target], &[(CHANGED, "1", "a"), (CHANGED, "2", "a")]);
        }
    }
}

#[test]
fn f04_numbers_cut_to_eleven_digits() {
    let [source, target] = two_postgres(
        "id int primary key, whole bigint, money numeric(20,2)",
        "(1, 123456789012345678, 1), (2, 5, 1234567890.12), (3, 7, 7)",
        "(1, 123456789012399999, 1), (2, 5, 1234567890.14), (3, 7, 7)",
    );
    for column in ["whole", "money"] {
        peer_says_equal(
            [&source, &target],
            &format!("string_agg(to_char({column}, '9.9999999999EEEE'), '|' order by id)"),
        );
    }
    drift_finds_between([&source, &target], &[(CHANGED, "1", "whole"), (CHANGED, "2", "money")]);
}

#[test]
fn f05_instants_cut_to_seconds() {
    let [source, target] = two_postgres(
        "id int primary key, at timestamp",
        "(1, '2024-05-06 07:08:09.000001'), (2, '2024-05-06 07:08:09')",
        "(1, '2024-05-06 07:08:09.999999'), (2, '2024-05-06 07:08:09')",
    );
    peer_says_equal([&source, &target], "string_agg(to_char(at, 'MMDDYYYYHH24MISS'), '|' order by id)");
    drift_finds_between([&source, &target], &[(CHANGED, "1", "at")]);
}

#[test]
fn f06_blanks_at_either_end() {
    let rows = ["(1, 'a'), (2, ' b'), (3, 'c'), (4, 'd d')", "(1, 'a '), (2, 'b'), (3, 'c   '), (4, 'd d')"];
    let [source, target] = rows.map(|rows| {
        format!("create table t (id int primary key, a varchar(20)); insert into t values {rows}")
    });
    let (source, target) = (mysql(&source), mysql(&target));
    peer_says_equal([&source, &target], "group_concat(md5(trim(a)) order by id)");
    let expected = [(CHANGED, "1", "a"), (CHANGED, "2", "a"), (CHANGED, "3", "a")];
    drift_finds_between([&source, &target], &expected);
    // And between engines.
    let other = postgres(&format!(
        "create table t (id int primary key, a varchar(20)); insert into t values {}",
        rows[0]
    ));
    peer_says_equal([&other, &target], "max(case when id = 1 then md5(trim(a)) end)");
    drift_finds_between([&other, &target], &expected);
}

#[test]
fn f07_the_empty_text_and_null_and_false() {
    let [source, target] = two_postgres(
        "id int primary key, a text, b boolean",
        "(1, '', false), (2, null, null), (3, '', null)",
        "(1, null, false), (2, null, false), (3, '', null)",
    );
    peer_says_equal(
        [&source, &target],
        "string_agg(coalesce(nullif(a, ''), ' ') || case when b then '1' else '0' end, '|' order by id)",
    );
    drift_finds_between([&source, &target], &[(CHANGED, "1", "a"), (CHANGED, "2", "b")]);
}

#[test]
fn f08_zero_and_null_of_a_float() {
    let [source, target] = two_mysql(
        "id int primary key, x double",
        "(1, 0), (2, null), (3, 1.5)",
        "(1, null), (2, 0), (3, 1.5)",
    );
    let rounded = "round(x, 14 - floor(log10(abs(x))))";
    let formula = format!("bit_xor(crc32(concat_ws(',', id, {rounded}, concat(isnull({rounded})))))");
    peer_says_equal([&source, &target], &formula);
    drift_finds_between([&source, &target], &[(CHANGED, "1", "x"), (CHANGED, "2", "x")]);
}

#[test]
fn f09_rows_that_are_there_twice() {
    let columns = "a varchar(20), n int";
    let [source, target] = two_mysql(columns, "('x', 1), ('x', 1), ('y', 2), ('z', 3)", "('y', 2), ('z', 3)");
    peer_says_equal([&source, &target], "bit_xor(crc32(concat_ws('#', a, n)))");
    let args = ["--key", "none"];
    drift_finds(&source.address(), &target.address(), &args, &[(SOURCE, "", ""), (SOURCE, "", "")]);
    // Even where the numbers of rows agree.
    let [source, target] = two_mysql(columns, "('x', 1), ('x', 1), ('y', 2)", "('w', 9), ('w', 9), ('y', 2)");
    peer_says_equal([&source, &target], "concat(count(*), ' ', bit_xor(crc32(concat_ws('#', a, n))))");
    let two = [(SOURCE, "", ""), (SOURCE, "", ""), (TARGET, "", ""), (TARGET, "", "")];
    drift_finds(&source.address(), &target.address(), &args, &two);
}

#[test]
fn f10_long_decimals_summed_as_floats() {
    let [source, target] = two_postgres(
        "id int primary key, n numeric(25,0)",
        "(1, 1234567890123456789012345), (2, 8)",
        "(1, 1234567890123456789012346), (2, 8)",
    );
    peer_says_equal([&source, &target], "sum(n::float8)");
    drift_finds_between([&source, &target], &[(CHANGED, "1", "n")]);
}

#[test]
fn f11_values_swapped_between_rows_of_one_range() {
    let [source, target] = two_postgres(
        "id int primary key, a text, b text",
        "(1, 'north', 'x'), (2, 'south', 'y'), (3, 'east', 'z')",
        "(1, 'south', 'x'), (2, 'north', 'y'), (3, 'east', 'z')",
    );
    let hashes = "concat(count(*), ' ', sum(hashtextextended(a, 0)), ' ', sum(hashtextextended(b, 0)))";
    peer_says_equal([&source, &target], hashes);
    drift_finds_between([&source, &target], &[(CHANGED, "1", "a"), (CHANGED, "2", "a")]);
}

#[test]
fn f12_a_range_cut_by_an_order_that_the_other_side_does_not_share() {
    let source = postgres(
        "create table t (id varchar(9) collate \"C\" primary key); insert into t values ('B'), ('c')",
    );
    let target = mysql(
        "create table t (id varchar(9) collate utf8mb4_general_ci primary key); insert into t values ('a'), ('B'), ('c')",
    );
    // The source's least and greatest key, asked for on both sides: in the target's order 'a' comes before 'B'.
    peer_says_equal([&source, &target], "sum(case when id between 'B' and 'c' then 1 else 0 end)");
    drift_finds_between([&source, &target], &[(TARGET, "a", "")]);
}

#[test]
fn f13_rows_outside_the_range_of_the_side_read_first() {
    let source = postgres(
        "create table t (id int primary key, v int); insert into t select n, n from generate_series(1, 300000) n; analyze t",
    );
    let target = mysql(
        "create table t (id int primary key, v int); insert into t select seq, seq from seq_1_to_300000;
         insert into t values (0, 0), (-2147483648, 1), (300001, 1), (2147483647, 1)",
    );
    peer_says_equal([&source, &target], "sum(case when id between 1 and 300000 then v else 0 end)");
    let found =
        [(TARGET, "-2147483648", ""), (TARGET, "0", ""), (TARGET, "300001", ""), (TARGET, "2147483647", "")];
    for threads in ["1", "4"] {
        drift_finds(&source.address(), &target.address(), &["--threads", threads], &found);
    }
}

#[test]
fn f16_a_limit_that_makes_a_report_look_complete() {
    let source = postgres(
        "create table t (id int primary key, v int); insert into t select n, n from generate_series(1, 50) n",
    );
    let target = postgres(
        "create table t (id int primary key, v int); insert into t select n, n + 1 from generate_series(1, 50) n",
    );
    // VDiff with a limit of 3 compares and reports three rows, as if there were no more.
    let listed =
        |database: &Postgres| database.text("select count(*)::text from (select * from t limit 3) l");
    assert_eq!(listed(&source), "3");
    let (outcome, report) =
        Drift::compare(&source.address(), &target.address()).args(["--limit", "3"]).run_json();
    assert_eq!(outcome.code, 1, "{outcome}");
    assert_eq!(report["differences"].as_array().map(Vec::len), Some(3));
    assert_eq!(report["differences_truncated"], true);
    assert_eq!((&report["rows"]["changed"], &report["rows"]["compared"]), (&50.into(), &50.into()));
    let human = Drift::compare(&source.address(), &target.address()).args(["--limit", "3"]).run();
    assert!(human.stdout.lines().next().is_some_and(|line| line.contains("50 changed")), "{human}");
    // An early end is no answer about the rest, and says how far it came.
    for format in ["json", "human"] {
        let call =
            Drift::compare(&source.address(), &target.address()).args(["--stop-after", "3", "-o", format]);
        let outcome = call.run();
        is_not_equal(&outcome);
        assert!(outcome.stdout.contains("--stop-after"), "{outcome}");
        if format == "json" {
            assert_eq!(outcome.json()["confirmed_drift"], true, "{outcome}");
        }
    }
}

#[test]
fn f17_columns_that_stand_in_another_order() {
    let source = postgres(
        "create table t (id int primary key, a text, b text); insert into t values (1, 'x', 'y'), (2, 'p', 'p')",
    );
    let target = postgres(
        "create table t (id int primary key, b text, a text); insert into t values (1, 'x', 'y'), (2, 'p', 'p')",
    );
    // Each side's columns in its own order.
    peer_says_equal([&source, &target], "max(md5(t::text)) || min(md5(t::text))");
    drift_finds_between([&source, &target], &[(CHANGED, "1", "a,b")]);
}

// ------------------------------------------------------------------------------------------------- what runs have shown
#[test]
fn rows_that_differ_in_null_are_all_found() {
    // reladiff sorts the two versions of a row and dies on NULL: it lost 5,069 of 5,070 rows and exited with 0.
    let columns = "id int primary key, a text, n int, at timestamp";
    let source = postgres(&format!(
        "create table t ({columns}); insert into t select i, 'a', i, '2024-01-01' from generate_series(1, 5070) i"
    ));
    let target = postgres(&format!(
        "create table t ({columns}); insert into t select i, case i % 3 when 0 then 'a' end, case i % 3 when 1 then i end,
         case i % 3 when 2 then '2024-01-01'::timestamp end from generate_series(1, 5070) i"
    ));
    let (outcome, report) =
        Drift::compare(&source.address(), &target.address()).args(["--limit", "9999"]).run_json();
    assert_eq!((outcome.code, &report["rows"]["changed"]), (1, &5070.into()), "{}", outcome.stderr);
    let keys: BTreeSet<String> =
        report["differences"].as_array().expect("all").iter().map(|d| difference(d).1).collect();
    assert_eq!(keys, (1..=5070).map(|i| i.to_string()).collect());
}

#[test]
fn no_error_is_an_answer() {
    // reladiff exits with 0 and prints nothing when it cannot connect, or dies on its way.
    let whole = postgres(
        "create table t (id int primary key, pad text); insert into t select n, repeat('x', 200) from generate_series(1, 50000) n",
    );
    let mut nobody = whole.url();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    nobody.set_port(Some(free.local_addr().expect("an address").port())).expect("a port");
    drop(free);
    for format in ["json", "human"] {
        is_not_equal(&Drift::compare(&whole.address(), &format!("{nobody}#t")).args(["-o", format]).run());
        let proxy = Proxy::in_front_of(&whole.url(), Cut::ForGood, 2_000_000);
        let broken = format!("{}#t", proxy.url(whole.url()));
        is_not_equal(&Drift::compare(&broken, &whole.address()).args(["--retries", "0", "-o", format]).run());
        assert!(proxy.has_cut());
    }
}

#[test]
fn output_that_is_piped_is_whole() {
    // reladiff wraps its JSON at the terminal's width and reads markup in row values.
    let long = format!("[red]{}[/red] {{}} \\u0041 \"'", "wide ".repeat(200));
    let literal = long.replace('\'', "''");
    let [source, target] = ["1", "2"].map(|n| {
        postgres(&format!(
            "create table t (id int primary key, a text); insert into t values (1, '{literal}{n}')"
        ))
    });
    let (outcome, report) = Drift::compare(&source.address(), &target.address()).run_json();
    assert_eq!(outcome.code, 1, "{outcome}");
    assert_eq!(report["differences"][0]["source"]["a"], format!("{long}1"));
    assert_eq!(report["differences"][0]["target"]["a"], format!("{long}2"));
}

#[test]
fn characters_of_four_bytes() {
    // reladiff's connection to MariaDB turns each into a question mark: changes are missed, equal rows reported.
    let [source, target] = two_mysql(
        "id int primary key, a varchar(20) character set utf8mb4",
        "(1, 'grin 😀'), (2, 'same 🦀'), (3, '𝒻')",
        "(1, 'grin 😁'), (2, 'same 🦀'), (3, '𝒻')",
    );
    peer_says_equal([&source, &target], "group_concat(md5(convert(a using utf8mb3)) order by id)");
    drift_finds_between([&source, &target], &[(CHANGED, "1", "a")]);
    let other = postgres(
        "create table t (id int primary key, a text); insert into t values (1, 'grin 😀'), (2, 'same 🦀'), (3, '𝒻')",
    );
    drift_finds_between([&other, &target], &[(CHANGED, "1", "a")]);
}

#[test]
fn doubles_that_differ_behind_the_sixth_decimal_or_the_fifteenth_digit() {
    let rows = [
        "(1, 0.1234561), (2, 0.1), (3, 1e-9), (4, 2)",
        "(1, 0.1234564), (2, 0.10000000000000002), (3, 2e-9), (4, 2)",
    ];
    let columns = "id int primary key, x double precision";
    let [source, target] = two_postgres(columns, rows[0], rows[1]);
    // Between engines at six decimals.
    peer_says_equal([&source, &target], "string_agg(x::decimal(38,6)::text, '|' order by id)");
    // As text of fifteen digits: the second row.
    peer_says_equal([&source, &target], "max(case when id = 2 then to_char(x, '0.99999999999999') end)");
    let expected = [(CHANGED, "1", "x"), (CHANGED, "2", "x"), (CHANGED, "3", "x")];
    drift_finds_between([&source, &target], &expected);
    let other = mysql(&format!("create table t ({columns}); insert into t values {}", rows[1]));
    drift_finds_between([&source, &other], &expected);
}

#[test]
fn decimals_and_doubles_of_the_same_value_are_equal() {
    // datacompy calls every row different until the user aligns the types.
    let source = postgres(
        "create table t (id int primary key, n numeric(10,2)); insert into t values (1, 10.10), (2, 0.30), (3, 7)",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, third: f64| {
        let path = folder.path().join(name);
        let rows: Vec<Vec<Cell>> =
            [10.1, 0.3, third].iter().zip(1..).map(|(x, id)| vec![Cell::Int(id), Cell::Float(*x)]).collect();
        parquet::write(&path, "required int32 id; optional double n;", &rows);
        path.display().to_string()
    };
    Drift::compare(&source.address(), &write("equal.parquet", 7.0)).run().expect_code(0);
    drift_finds(&source.address(), &write("other.parquet", 7.01), &[], &[(CHANGED, "3", "n")]);
}

#[test]
fn a_hash_of_the_key_alone_sees_no_values() {
    let [source, target] =
        two_postgres("id int primary key, a text", "(1, 'x'), (2, 'y')", "(1, 'x'), (2, 'other')");
    peer_says_equal([&source, &target], "bit_xor(hashint4(id))");
    drift_finds_between([&source, &target], &[(CHANGED, "2", "a")]);
}

#[test]
fn a_url_without_a_password_works_where_none_is_asked_for() {
    // data-diff ends in a KeyError.
    let database = Sqlite::fresh();
    database.execute("create table t (id integer primary key, a text); insert into t values (1, 'x')");
    let socket = std::env::var("DRIFT_TEST_PG_SOCKET_DIR").expect("tests/run.sh sets it");
    let source = postgres("create table t (id int primary key, a text); insert into t values (1, 'y')");
    let port = source.url().port().expect("a port");
    let address = format!("postgres:///{}?host={socket}&port={port}&user=postgres#t", source.name());
    // The server asks for one: the error says where to put it.
    let outcome = Drift::compare(&address, &format!("sqlite:{}#t", database.path().display())).run();
    is_not_equal(&outcome);
    assert!(outcome.stderr.contains("PGPASSWORD"), "{outcome}");
}
