//! Audits: what is configured is checked, judged, remembered and told, on a state in SQLite and in PostgreSQL.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;

use crate::support::database::{GeneralLog, MySql, MySqlUser, Postgres, PostgresRole, postgres_log};
use crate::support::drift::Drift;
use crate::support::eventually;
use crate::support::services::{Webhook, free_port};
use crate::support::shop::{Shop, TABLE, incident, on_both};

#[test]
fn damage_is_found_told_apart_and_over_when_a_person_says_so() {
    on_both(|shop| {
        let (outcome, document) = shop.audit();
        outcome.expect_code(0);
        assert_eq!(document["status"], "pass");
        assert_eq!(shop.incidents(), []);

        shop.sql(
            "target.db",
            "update orders set amount = amount + 1 where id <= 3; delete from orders where id = 50",
        );
        let (outcome, document) = shop.audit();
        outcome.expect_code(1);
        assert_eq!(document["runs"][1]["incident"]["news"], "opened");
        assert_eq!(shop.incidents(), [incident("rows", "open", "pipeline")]);
        let (outcome, document) = shop.audit();
        outcome.expect_code(1);
        assert_eq!(document["runs"][1]["incident"]["news"], Value::Null, "it is told once");
        let shown = shop.drift(&["incident", "show", "1"]).run().expect_code(0).stdout;
        assert!(shown.contains("id=1 … id=3  3 rows") && shown.contains("id=50  1 row\n"), "{shown}");
        assert_eq!(
            shop.drift(&["incident", "show", "1"]).run_json().1["ranges"].as_array().map(Vec::len),
            Some(2)
        );

        shop.sql(
            "target.db",
            "update orders set amount = amount - 1 where id <= 3; insert into orders values (50, 75, 'n50')",
        );
        shop.audit().0.expect_code(0);
        assert_eq!(shop.incidents(), [incident("rows", "recovering", "pipeline")]);
        shop.drift(&["incident", "resolve", "1", "--reason", "fixed"]).run().expect_code(0);
        assert_eq!(shop.incidents(), [incident("rows", "resolved", "pipeline")]);
        shop.drift(&["incident", "resolve", "1", "--reason", "fixed"]).run().expect_code(2);
        let history = shop.drift(&["history", "orders", "changed"]).run().expect_code(0).stdout;
        assert_eq!(
            history.lines().filter(|line| line.contains("3 of 100 rows differ")).count(),
            2,
            "{history}"
        );
    });
}

#[test]
fn a_changed_schema_is_an_incident_until_it_is_accepted() {
    on_both(|shop| {
        shop.audit().0.expect_code(0);
        shop.sql("source.db", "alter table orders add column discount int");
        let (outcome, document) = shop.audit();
        outcome.expect_code(1);
        assert_eq!(document["runs"][0]["status"], "fail", "the target lacks it");
        shop.sql("target.db", "alter table orders add column discount int");
        shop.audit().0.expect_code(0);
        assert_eq!(
            shop.incidents(),
            [incident("schema", "open", "upstream_change")],
            "both have it, nobody accepted it"
        );
        shop.drift(&["incident", "resolve", "1", "--reason", "expected"]).run().expect_code(0);
        let (outcome, document) = shop.audit();
        outcome.expect_code(0);
        assert_eq!(document["runs"][0]["status"], "pass");
        assert_eq!(shop.incidents(), [incident("schema", "resolved", "upstream_change")]);
    });
}

#[test]
fn a_standing_difference_that_a_person_accepts_is_told_no_more() {
    let shop = Shop::new();
    shop.sql("target.db", "alter table orders add column loaded text");
    shop.write("    checks: { schema: { column_added: fail } }\n");
    shop.audit().0.expect_code(1);
    shop.drift(&["incident", "resolve", "1", "--reason", "expected"]).run().expect_code(0);
    shop.audit().0.expect_code(0);
    shop.sql("target.db", "alter table orders add column another text");
    let (outcome, document) = shop.audit();
    outcome.expect_code(1);
    let added = &document["runs"][0]["results"][1];
    assert_eq!((&added["metric"], &added["measured"]), (&"column_added".into(), &2.0.into()), "{added:#}");
    assert!(added["summary"].as_str().unwrap().contains("another"), "{added:#}");
}

#[test]
fn what_cannot_be_checked_is_no_pass_and_becomes_a_warning() {
    let shop = Shop::new();
    shop.write("    checks: { max_inconclusive: 3 }\n");
    shop.audit().0.expect_code(0);
    shop.sql("target.db", "drop table orders");
    for run in 1..=3 {
        let (outcome, document) = shop.audit();
        outcome.expect_code(3);
        assert_eq!(document["status"], "error");
        let expected = if run < 3 { vec![] } else { vec![incident("unchecked", "open", "infrastructure")] };
        assert_eq!(shop.incidents(), expected, "run {run}");
    }
    shop.sql("target.db", TABLE);
    shop.audit().0.expect_code(1);
}

#[test]
fn thresholds_decide_and_a_warning_is_no_failure() {
    let shop = Shop::new();
    shop.write("    checks: { rows: { changed: { warn: 0, fail: 5% } } }\n");
    shop.sql("target.db", "update orders set note = 'x' where id <= 5");
    let (outcome, document) = shop.audit();
    outcome.expect_code(0);
    assert_eq!(document["status"], "warn", "5 of 100 are not above 5 %");
    shop.sql("target.db", "update orders set note = 'x' where id = 6");
    shop.audit().0.expect_code(1);
}

#[test]
fn a_killed_audit_leaves_nothing_behind_that_the_next_would_mind() {
    on_both(|shop| {
        shop.audit().0.expect_code(0);
        shop.sql("target.db", "delete from orders where id = 7");
        for place in ["audit.begun", "audit.measured", "audit.remembered", "audit.committed"] {
            let killed = shop.drift(&["audit", "--level", "rows", "-q"]).env("DRIFT_FAILPOINT", place).run();
            assert_eq!(killed.code, -1, "{place}: {killed:?}");
            let found = shop.incidents();
            let expected = if place == "audit.committed" { 1 } else { 0 };
            assert_eq!(found.len(), expected, "{place}: {found:?}");
            // The lease of the killed process has to pass.
            shop.forget_leases();
        }
        shop.audit().0.expect_code(1);
        assert_eq!(shop.incidents(), [incident("rows", "open", "pipeline")]);
        shop.verify_chain();
    });
}

#[test]
fn two_audits_at_once_double_nothing() {
    on_both(|shop| {
        shop.sql("target.db", "delete from orders where id = 7");
        shop.write("    checks: { rows: { only_in_source: { fail: 0 } } }\n");
        let running: Vec<_> = (0..4).map(|_| shop.drift(&["audit", "-q"]).spawn()).collect();
        let codes: Vec<i32> = running.into_iter().map(|one| one.wait().code).collect();
        assert_eq!(codes, [1, 1, 1, 1], "each waits for its turn");
        assert_eq!(shop.incidents(), [incident("rows", "open", "pipeline")]);
        shop.verify_chain();
    });
}

#[test]
fn a_state_that_cannot_be_used_is_named() {
    let shop = Shop::new();
    let refused = |state: &str, words: &str| {
        let outcome =
            Drift::new().current_dir(shop.path()).args(["audit", "--state", state]).run().expect_code(3);
        assert!(outcome.stderr.contains(words) && outcome.stderr.contains("the state"), "{}", outcome.stderr);
    };
    refused("sqlite:no/such/folder/state.db", "folder exists");
    std::fs::write(
        shop.path().join("other.db"),
        "this is a text and no database at all, long enough to be read",
    )
    .unwrap();
    refused("sqlite:other.db", "no SQLite database");
    shop.audit().0.expect_code(0);
    shop.sql("state.db", "update drift_store set version = 99");
    let outcome = shop.drift(&["audit"]).run().expect_code(3);
    assert!(outcome.stderr.contains("newer drift"), "{}", outcome.stderr);
    shop.sql("state.db", "update drift_store set version = 1");
    let held = Connection::open(shop.path().join("state.db")).unwrap();
    held.execute_batch("begin immediate").unwrap();
    let outcome = shop.drift(&["audit"]).deadline(Duration::from_secs(60)).run().expect_code(3);
    assert!(outcome.stderr.contains("another process holds it"), "{}", outcome.stderr);
}

#[test]
fn a_test_message_arrives_signed_or_the_reason_is_told() {
    let shop = Shop::new();
    let hook = Webhook::fresh();
    shop.write(&format!(
        "notifiers:\n  hook: {{ kind: webhook, url: \"{}\", hmac: \"${{SECRET}}\" }}\n  gone: {{ kind: webhook, url: \"http://127.0.0.1:1/x\" }}\n",
        hook.url()
    ));
    let test = |name: &str| shop.drift(&["notify", "test", name]).env("SECRET", "s3cret").run();
    test("hook").expect_code(0);
    let (_, message) = &hook.messages()[0];
    assert_eq!((&message["event"], &message["labels"]["kind"]), (&"test".into(), &"test".into()));
    assert!(test("gone").expect_code(3).stderr.contains("no connection"));
    assert!(test("nobody").expect_code(2).stderr.contains("gone, hook"));
    // Drift, and somebody could not be told.
    shop.sql("target.db", "delete from orders where id = 7");
    let outcome = shop.drift(&["audit"]).env("SECRET", "s3cret").run().expect_code(5);
    assert!(outcome.stderr.contains("notifier gone: no connection"), "{outcome}");
    assert_eq!(hook.messages().len(), 2, "the other was told");
}

#[test]
fn a_changed_past_shows() {
    let shop = Shop::new();
    shop.sql("target.db", "delete from orders where id = 7");
    shop.audit().0.expect_code(1);
    shop.drift(&["incident", "ack", "1"]).run().expect_code(0);
    shop.verify_chain();
    shop.sql("state.db", "update drift_audit set actor = 'nobody' where seq = 1");
    let verified = shop.chain();
    assert!(verified.is_err_and(|e| e.message.contains("entry 1")));
}

/// A live pair of servers; nothing but drift's own state is written, by the servers' own word.
#[test]
fn postgres_to_mariadb_is_checked_and_nothing_is_written_there() {
    let (source, target) = (Postgres::fresh(), MySql::fresh());
    source.execute("create table items (id int primary key, price numeric(10,2), at timestamp)");
    target.execute("create table items (id int primary key, price decimal(10,2), at datetime(6))");
    let rows = "insert into items values (1, 1.50, '2026-01-01 10:00:00'), (2, 2.50, '2026-01-02 10:00:00')";
    source.execute(rows);
    target.execute(rows);
    let shop = Shop::new();
    let text = "version: 1\nconnections:\n  a: { url: \"${SOURCE}\" }\n  b: { url: \"${TARGET}\" }\npairs:\n  - name: items\n    source: { connection: a, table: items }\n    target: { connection: b, table: items }\n    version: { column: at }\n    cutoff: { settle: 1s, max_lag: 1h }\n    confirm: { rounds: 2, wait: 100ms }\n";
    std::fs::write(shop.path().join("drift.yaml"), text).unwrap();
    let audit = || {
        shop.drift(&["audit"])
            .env("SOURCE", source.url().as_str())
            .env("TARGET", target.url().as_str())
            .run_json()
    };
    let (outcome, document) = audit();
    outcome.expect_code(0);
    assert_eq!(document["status"], "pass", "{document:#}");
    target.execute("update items set price = 9.99 where id = 2");
    audit().0.expect_code(1);
    source.execute("insert into items values (3, 3.50, '2026-03-01 10:00:00')");
    let (outcome, document) = audit();
    outcome.expect_code(0);
    let compared = &document["runs"][1]["results"][0];
    assert_eq!(
        (&compared["status"], &compared["reason"]),
        (&"inconclusive".into(), &"lag_too_high".into()),
        "{document:#}"
    );
}

/// Watching writes nothing but drift's own state: the servers' own logs of statements say so.
#[test]
fn the_servers_log_no_statement_that_writes() {
    let role = PostgresRole::fresh();
    let user = MySqlUser::fresh();
    let (source, target) = (Postgres::fresh(), MySql::fresh());
    let rows = "insert into items select i, i * 2 from (select 1 i union all select 2 union all select 3) n";
    source.execute("create table items (id int primary key, price int)");
    target.execute("create table items (id int primary key, price int)");
    source.execute(rows);
    target.execute(rows);
    target.execute("update items set price = 7 where id = 2");
    source.execute(&format!(
        "grant select on items to {0}; alter role {0} set log_statement = 'all'",
        role.name
    ));
    target.execute(&format!("grant select on items to {}", user.name));
    let shop = Shop::new();
    let port = free_port();
    let text = format!(
        "version: 1\nconnections:\n  a: {{ url: \"${{SOURCE}}\" }}\n  b: {{ url: \"${{TARGET}}\" }}\npairs:\n  - name: items\n    source: {{ connection: a, table: items }}\n    target: {{ connection: b, table: items }}\n    confirm: {{ rounds: 2, wait: 50ms }}\n    schedule: {{ schema: every 1s, rows: every 1s, full: \"* * * * *\" }}\nserver: {{ listen: \"127.0.0.1:{port}\" }}\n"
    );
    std::fs::write(shop.path().join("drift.yaml"), text).unwrap();
    let drift = |args: &[&str]| {
        let drift = shop.drift(args).env("SOURCE", role.in_url(source.url()).as_str());
        drift.env("TARGET", user.in_url(target.url()).as_str())
    };
    let log = GeneralLog::on();
    drift(&["validate", "--online"]).run().expect_code(0);
    for level in ["schema", "rows", "full"] {
        drift(&["audit", "--level", level]).run();
    }
    let running = drift(&["serve"]).spawn();
    let runs = "select count(*) from drift_run where ended is not null";
    eventually("checks run", || shop.state_numbers(runs)[0] >= 8);
    running.signal("TERM");
    running.wait().expect_code(0);
    let statements = [postgres_log(&role.name), log.statements(&user.name)];
    for statements in statements {
        assert!(statements.iter().any(|sql| sql.contains("items")), "it reads the table: {statements:?}");
        let reads = [
            "select",
            "begin",
            "start",
            "set",
            "show",
            "commit",
            "rollback",
            "copy",
            "fetch",
            "explain",
            "use",
            "with",
            "savepoint",
            "release",
        ];
        for sql in &statements {
            let word = sql.trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            assert!(reads.contains(&word.to_lowercase().as_str()), "{sql}");
            let writes = ["insert into", "update ", "delete from", "into outfile", "for update", "for share"];
            assert!(!writes.iter().any(|word| sql.to_lowercase().contains(word)), "{sql}");
            assert!(word.to_lowercase() != "copy" || sql.to_lowercase().contains("to stdout"), "{sql}");
        }
    }
}

#[test]
fn a_full_disk_is_named_and_costs_nothing_that_was_remembered() {
    let shop = Shop::new();
    shop.audit().0.expect_code(0);
    let small = shop.path().join("small");
    std::fs::create_dir(&small).expect("a folder");
    let full = |free: u32| {
        // A mount of its own vanishes with the process.
        let script = format!(
            "cd {1} && mount -t tmpfs -o size=1m tmpfs {0} && sqlite3 state.db 'pragma wal_checkpoint(truncate)' >/dev/null && cp state.db {0} &&
             room=$(df --output=avail -k {0} | tail -n 1) && head -c $(((room - {free}) * 1024)) /dev/zero > {0}/filler && \"$@\"
             code=$?; rm -f {0}/filler && sqlite3 {0}/state.db 'pragma integrity_check' | grep -qx ok || exit 99
             sqlite3 {0}/state.db 'pragma wal_checkpoint(truncate)' >/dev/null; cp {0}/state.db .; exit $code",
            small.display(),
            shop.path().display()
        );
        Drift::new()
            .current_dir(shop.path())
            .args(["audit", "--state", &format!("sqlite:{}/state.db", small.display())])
            .within(["unshare", "-m", "sh", "-c", &script, "sh"])
            .run()
    };
    let mut refused = 0;
    for free in [0, 32, 40, 64, 80, 96, 512] {
        // One that broke off holds its leases for half a minute.
        shop.forget_leases();
        let outcome = full(free);
        if outcome.code == 3 {
            assert!(
                outcome.stderr.contains("the disk is full") && outcome.stderr.contains("make room"),
                "{outcome}"
            );
            refused += 1;
        } else {
            assert_eq!(outcome.code, 0, "{free} KiB free: {outcome}");
        }
    }
    assert!((2..7).contains(&refused), "{refused} of 7 had too little room");
    shop.audit().0.expect_code(0);
    let ended =
        shop.state_numbers("select count(*) from drift_run where ended is not null and status <> 'pass'");
    assert_eq!(ended, [0], "what was remembered is right");
}
