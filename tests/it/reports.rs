//! The reports besides JSON and text: the page, Markdown, JUnit, one line. What tables hold must not break out of any.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::database::Sqlite;
use crate::support::drift::Drift;

const NASTY: &str = "</td><script>alert('x')</script> | `code` *b* &amp; \"q\"\u{202e}";

/// Two tables with a row of nasty text that differs, and `rows` more that do in the ways of a demo.
fn pair(rows: u32) -> (Sqlite, Sqlite) {
    let make = |damage: &str| {
        let database = Sqlite::fresh();
        database.execute(
            "create table t (id integer primary key, note text, \"<b>|`col`\" text, amount decimal(12,2), at datetime)",
        );
        let connection = database.connect();
        connection
            .execute("insert into t values (0, ?1, ?1, 1, null)", [format!("{NASTY}{damage}")])
            .unwrap();
        connection
            .execute_batch(&format!(
                "with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
                 insert into t select i, 'note ' || i, 'x', i * 37 % 900 / 10.0 + 0.05, datetime('2026-01-01', '+' || i || ' minutes') from n;
                 {}",
                if damage.is_empty() {
                    String::new()
                } else {
                    format!(
                        "update t set at = datetime(at, '+2 hours') where id between 1 and {rows} * 0.8;
                         update t set amount = amount - 0.05 where id > {rows} * 0.7;
                         delete from t where id > {rows} * 0.95;
                         insert into t select id + 1000000000, note, 'y', amount, at from t where id between 1 and {rows} * 0.1"
                    )
                }
            ))
            .unwrap();
        database
    };
    (make(""), make("!"))
}

fn address(database: &Sqlite) -> String {
    format!("sqlite:{}#t", database.path().display())
}

/// Every tag is closed in order, and nothing of the page comes from elsewhere or runs.
fn check_page(page: &str) {
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    for word in ["<script", "javascript:", "http:", "https:", "onerror", "src=", "@import"] {
        assert!(!page.contains(word), "the page holds {word}");
    }
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1).map(|rest| rest.split_once('>').expect("a closed tag").0) {
        let name = tag.split([' ', '/']).next().unwrap();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "</{name}> closes something else"),
            None if tag.ends_with('/') || matches!(name, "!doctype" | "meta" | "link" | "br") => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

#[test]
fn the_page_holds_whatever_tables_hold() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("report.html");
    let path = file.display().to_string();
    for (rows, most) in [(1, 3), (20_000, 200)] {
        let (source, target) = pair(rows);
        for args in [
            &["--threads", "1"][..],
            &["--mask", "mask"],
            &["--keys-only"],
            &["--limit", "0"],
            &["-k", "none"],
        ] {
            let outcome =
                Drift::compare(&address(&source), &address(&target)).args(args).args(["--html", &path]).run();
            assert_eq!(outcome.code, 1, "{outcome}");
            let page = fs::read_to_string(&file).unwrap();
            check_page(&page);
            let shown = page.matches("class=\"key\"").count();
            assert!((1..=most).contains(&shown), "{shown} rows with {args:?}");
            // Without a key the order is that of hashes, and the row need not be among the examples.
            let shows_it = !matches!(args[0], "--mask" | "--keys-only");
            assert!(page.contains("*b*") == shows_it || (args[0] == "-k" && rows > 1), "{args:?}");
        }
        let page = fs::read_to_string(&file).unwrap();
        assert!(page.contains(&outcome_line(&source, &target)), "the answer stands on top");
    }
}

/// The one-line answer without a key, as the last page was made.
fn outcome_line(source: &Sqlite, target: &Sqlite) -> String {
    let outcome = Drift::compare(&address(source), &address(target)).args(["-k", "none", "-q"]).run();
    outcome.stdout.trim().to_string()
}

#[test]
fn the_page_shows_rows_of_every_pattern() {
    let (source, target) = pair(20_000);
    let folder = tempdir().unwrap();
    let file = folder.path().join("report.html");
    let path = file.display().to_string();
    let outcome = Drift::compare(&address(&source), &address(&target)).args(["--html", &path]).run();
    assert_eq!(outcome.code, 1, "{outcome}");
    let page = fs::read_to_string(&file).unwrap();
    for title in [
        "at: shifted, +2 h",
        "amount: cut, 1 decimal",
        "changed otherwise",
        "only in the source",
        "only in the target",
    ] {
        assert!(page.contains(&format!("<h3>{title}")), "{title} is missing");
    }
}

#[test]
fn patterns_say_where_their_rows_lie() {
    let (source, target) = (Sqlite::fresh(), Sqlite::fresh());
    for database in [&source, &target] {
        database.execute(
            "create table t (id integer primary key, shop int, at datetime, v int, w int);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 9000)
             insert into t select i, i % 12, datetime('2026-01-01', '+' || i || ' minutes'), i, i * 3 from n",
        );
    }
    target.execute(
        "update t set v = v * 100 where shop = 7; update t set w = w + 5 where id between 2000 and 2500;
         delete from t where at between '2026-01-03 05:00:00' and '2026-01-03 05:59:59'",
    );
    let places = |args: &[&str]| -> Vec<Value> {
        let (outcome, report) = Drift::compare(&address(&source), &address(&target)).args(args).run_json();
        assert_eq!(outcome.code, 1, "{outcome}");
        report["patterns"].as_array().unwrap().iter().map(|p| p["where"].clone()).collect()
    };
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let run = r#"{"from": {"id": "2000"}, "to": {"id": "2500"}}"#;
    let gone = r#"{"from": {"id": "3180"}, "to": {"id": "3239"}}"#;
    assert_eq!(
        places(&[]),
        [
            value(r#"[{"column": "shop", "value": "7"}]"#),
            value(&format!(r#"[{run}, {{"column": "at", "unit": "day", "from": "2026-01-02"}}]"#)),
            value(&format!(r#"[{gone}, {{"column": "at", "unit": "hour", "from": "2026-01-03T05:00:00"}}]"#)),
        ]
    );
    assert_eq!(
        places(&["--mask", "hash"]),
        [value("[]"), value(&format!("[{run}]")), value(&format!("[{gone}]"))]
    );
}

#[test]
fn other_formats_are_well_formed() {
    let (source, target) = pair(50);
    let call = |format: &str| {
        let outcome = Drift::compare(&address(&source), &address(&target)).args(["-o", format]).run();
        assert_eq!(outcome.code, 1, "{outcome}");
        outcome.stdout
    };
    let lines = call("jsonl");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let document: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(document["verdict"], "drift");

    let junit = call("junit");
    let mut file = tempfile::NamedTempFile::with_suffix(".xml").unwrap();
    std::io::Write::write_all(&mut file, junit.as_bytes()).unwrap();
    let parser = "import sys, xml.etree.ElementTree as e\nr = e.parse(sys.argv[1]).getroot()\n\
                  s = r.find('testsuite')\nassert int(s.get('tests')) == len(s.findall('testcase'))\n\
                  assert int(s.get('failures')) == len(s.findall('testcase/failure')) > 3, s.attrib";
    let parsed =
        std::process::Command::new("python3").args(["-c", parser]).arg(file.path()).output().unwrap();
    assert!(parsed.status.success(), "{}\n{junit}", String::from_utf8_lossy(&parsed.stderr));
    assert!(!junit.contains("alert"), "JUnit holds no values: {junit}");

    let markdown = call("markdown");
    assert!(markdown.starts_with("**drift: "), "{markdown}");
    // Bars in values must not make cells.
    let mut width = None;
    for line in markdown.lines() {
        let cells = line.starts_with('|').then(|| line.replace("\\|", "").matches('|').count());
        assert!(cells.is_none() || width.is_none() || width == cells, "{line}");
        width = cells;
    }
    for command in ["schema", "version"] {
        let args: Vec<String> =
            if command == "schema" { vec![address(&source), address(&target)] } else { Vec::new() };
        let outcome = Drift::new().arg(command).args(args).args(["-o", "junit"]).run();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{outcome}");
    }
    let man = Drift::new().args(["man", "compare"]).run();
    assert!(
        man.code == 0 && man.stdout.contains(".TH drift") && man.stdout.contains("confirm\\-wait"),
        "{man}"
    );
    assert_eq!(Drift::new().args(["man", "nothing"]).run().code, 2);
}
