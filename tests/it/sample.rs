//! `--sample`: how much is read, that numbers are exact, that the seed decides, and that no kind of row is left out.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::database::{MySql, Postgres};
use crate::support::drift::Drift;

const ROWS: u64 = 300_000;

/// The same rows in PostgreSQL and MariaDB: keys in order, and as texts without one.
fn pair() -> (Postgres, MySql) {
    let source = Postgres::fresh();
    source.execute(&format!(
        "create table t (id bigint primary key, name text not null, v int); alter table t add unique (name);
         insert into t select n, md5(n::text), n % 1000 from generate_series(1, {ROWS}) n; analyze t"
    ));
    let target = MySql::fresh();
    target.execute(&format!(
        "create table t (id bigint primary key, name varchar(40) not null unique, v int);
         insert into t select seq, md5(seq), seq % 1000 from seq_1_to_{ROWS}; analyze table t"
    ));
    (source, target)
}

fn ask(source: &str, target: &str, args: &[&str]) -> (i32, Value) {
    let (outcome, report) = Drift::compare(source, target).args(args).run_json();
    (outcome.code, report)
}

fn keys(report: &Value) -> Vec<String> {
    let differences = report["differences"].as_array().expect("differences");
    differences.iter().map(|d| d["key"].to_string()).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_sample_reads_little_where_both_sides_seek() {
    let (source, target) = pair();
    let (s, t) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    for threads in ["1", "4"] {
        let (code, report) = ask(&s, &t, &["--sample", "1%", "--threads", threads]);
        assert_eq!(
            (code, &report["verdict"], &report["rows"]["sampled"]),
            (0, &"equal".into(), &true.into())
        );
        for side in ["source_rows_read", "target_rows_read"] {
            let read = number(&report["cost"][side]);
            assert!((ROWS / 200..=ROWS / 50).contains(&read), "{side}: {read}");
        }
        let high = report["sample"]["share_high"].as_f64().unwrap();
        assert!(high > 0.0005 && high < 0.002, "{report}");
    }
    let human = Drift::compare(&s, &t).args(["--sample", "1%"]).run();
    assert!(human.stdout.starts_with("no difference in a sample of "), "{human}");
    assert!(human.stdout.lines().next().unwrap().contains("with 95 % confidence at most 0."), "{human}");
    // By keys that one side does not deliver in order, all is read and a share of it compared.
    let (code, report) = ask(&s, &t, &["--sample", "1%", "-k", "name"]);
    assert_eq!((code, number(&report["cost"]["source_rows_read"])), (0, ROWS));
    assert!((ROWS / 120..=ROWS / 80).contains(&number(&report["source"]["rows"])), "{report}");
}

#[test]
fn a_sample_of_a_number_has_exactly_so_many_rows() {
    let (source, target) = pair();
    let (s, t) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    let folder = tempdir().unwrap();
    let files = ["a.csv", "b.csv"].map(|name| folder.path().join(name));
    for file in &files {
        let lines: Vec<String> = (1..=4000).map(|n| format!("{n},{}", n * 7)).collect();
        fs::write(file, format!("id,v\n{}\n", lines.join("\n"))).unwrap();
    }
    let [a, b] = files.map(|file| file.display().to_string());
    for (source, target, args) in [
        (&s, &t, &["-k", "id"][..]),
        (&s, &t, &["-k", "name"]),
        (&s, &t, &["-k", "none"]),
        (&a, &b, &["-k", "id"]),
    ] {
        for rows in ["1", "777", "3000"] {
            let (code, report) = ask(source, target, &[args, &["--sample", rows]].concat());
            assert_eq!(code, 0, "{report}");
            assert_eq!(number(&report["source"]["rows"]).to_string(), rows, "{args:?}");
            assert_eq!(number(&report["target"]["rows"]).to_string(), rows, "{args:?}");
            assert_eq!(report["rows"]["sampled"], true);
        }
    }
    // Enough for all is no sample.
    let (code, report) = ask(&a, &b, &["-k", "id", "--sample", "4000"]);
    assert_eq!(
        (code, &report["rows"]["sampled"], number(&report["rows"]["equal"])),
        (0, &false.into(), 4000)
    );
    assert_eq!(report.get("sample"), None);
}

#[test]
fn every_kind_of_difference_is_drawn_and_the_seed_decides() {
    let (source, target) = pair();
    // Far from the other keys as well: beyond the ends that anybody knows.
    source.execute("update t set v = v + 1 where id % 10 = 0; delete from t where id % 10 = 3");
    target.execute(
        "delete from t where id % 10 = 7; insert into t select seq + 10000000, md5(seq + 10000000), 1 from seq_1_to_30000",
    );
    let (s, t) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    for (args, seeks) in [(&["-k", "id"][..], true), (&["-k", "name", "--columns", "v"], false)] {
        let draw = |seed: &str| {
            ask(&s, &t, &[args, &["--sample", "20000", "--seed", seed, "--limit", "100000"]].concat()).1
        };
        let (one, again, other) = (draw("1"), draw("1"), draw("2"));
        let [first, second, different] = [&one, &again, &other].map(keys);
        let shared = |other: &Vec<String>| {
            first.iter().filter(|key| other.contains(key)).count() as f64 / first.len() as f64
        };
        if seeks {
            // The server may have looked at the table once more in between, and then knows it a little differently.
            assert!(shared(&second) > 0.8, "{}", shared(&second));
        } else {
            assert_eq!(first, second);
        }
        assert!(shared(&different) < 0.4, "{}", shared(&different));
        for report in [one, other] {
            let compared = number(&report["sample"]["rows"]) as f64;
            // Of 330,000 keys on either side a tenth differs in each way, and a tenth was added.
            for kind in ["changed", "only_in_source"] {
                let share = number(&report["rows"][kind]) as f64 / compared;
                assert!((0.07..0.11).contains(&share), "{kind}: {share}");
            }
            let surplus = number(&report["rows"]["only_in_target"]) as f64 / compared;
            assert!(surplus > 0.07, "{surplus}");
            let bound = &report["sample"];
            let (low, high) = (bound["share_low"].as_f64().unwrap(), bound["share_high"].as_f64().unwrap());
            let share = number(&bound["differing"]) as f64 / compared;
            assert!(low < share && share < high && high - low < 0.02, "{bound}");
        }
    }
}

#[test]
fn samples_that_make_no_sense_are_usage_errors() {
    for wish in ["0", "0%", "100%", "-1", "1.5", "many", "%"] {
        let outcome = Drift::compare("a.csv", "b.csv").args([&format!("--sample={wish}")]).run();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{outcome}");
    }
}

#[test]
fn a_sample_obeys_the_filter() {
    let source = Postgres::fresh();
    source.execute("create table t (id int primary key, region text, v int); insert into t select n, case when n % 2 = 0 then 'n' else 's' end, n from generate_series(1, 10000) n; analyze t");
    let target = MySql::fresh();
    target.execute("create table t (id int primary key, region varchar(2), v int); insert into t select seq, if(seq % 2 = 0, 'n', 's'), -seq from seq_1_to_10000");
    let (s, t) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    let draw = |seed: &str| {
        let args = ["--sample", "500", "--seed", seed, "--where", "region = 'n'"];
        let (code, report) = ask(&s, &t, &args);
        assert_eq!((code, report["differences"].as_array().map(Vec::len)), (1, Some(500)), "{report}");
        report
    };
    let report = draw("7");
    for difference in report["differences"].as_array().unwrap() {
        let id: u64 = difference["key"]["id"].as_str().unwrap().parse().unwrap();
        assert!(id.is_multiple_of(2), "{id} is not behind the filter");
    }
    assert_eq!(keys(&report), keys(&draw("7")));
    assert_ne!(keys(&report), keys(&draw("8")));
}

#[test]
fn a_short_hash_compares_and_draws_and_says_what_it_can_miss() {
    let (source, target) = pair();
    target.execute("update t set v = v + 1 where id = 777");
    let (s, t) = (format!("{}#t", source.url()), format!("{}#t", target.url()));
    let (code, report) = ask(&s, &t, &["--hash", "crc32"]);
    assert_eq!(
        (code, &report["equality"]["hash_bits"], &report["rows"]["changed"]),
        (1, &32.into(), &1.into())
    );
    assert_eq!(report["differences"][0]["key"]["id"], "777");
    // By a key that does not come in order, rows are drawn by the same hash.
    let draw =
        |seed: &str| ask(&s, &t, &["--hash", "crc32", "-k", "name", "--sample", "500", "--seed", seed]).1;
    let report = draw("1");
    assert_eq!((number(&report["source"]["rows"]), number(&report["target"]["rows"])), (500, 500));
    let explained = Drift::compare(&s, &t).args(["--hash", "crc32", "--explain"]).run();
    assert!(explained.stdout.contains("1 in 4,294,967,296"), "{explained}");
    let refused = Drift::compare(&s, &t).args(["--hash", "crc32", "-k", "none"]).run();
    assert!(refused.code == 2 && refused.stderr.contains("--key none"), "{refused}");
}
