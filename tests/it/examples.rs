//! The examples for newcomers in `checks/`, run as they are against real tables. `drift demo` runs `demo.yaml`.

use std::path::{Path, PathBuf};

use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::drift::Drift;
use crate::support::parquet::{self, Cell};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("checks").join(name)
}

/// Runs a command with an example, in a folder of its own.
fn drift(folder: &Path, name: &str, args: &[&str]) -> Drift {
    let file = example(name);
    Drift::new().current_dir(folder).args(["-c", file.to_str().expect("a path in UTF-8")]).args(args)
}

#[test]
fn every_example_is_run_by_a_test() {
    let listed = std::fs::read_dir(example("")).expect("the folder of examples");
    let mut names: Vec<String> =
        listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, ["demo.yaml", "lake.yaml", "postgres-to-mariadb.yaml"]);
}

#[test]
fn postgres_to_mariadb() {
    let (source, target) = (Postgres::fresh(), MySql::fresh());
    source.execute(
        "create table orders (id bigint primary key, total_amt numeric(12,2), rate numeric(8,4), note text, updated_at timestamp(6) not null);
         create index on orders (updated_at);
         insert into orders select i, i * 1.5, 1.25, 'note ' || i, timestamp '2026-01-01' + i * interval '1 second' from generate_series(1, 1000) i",
    );
    target.execute(
        "create table orders (id bigint primary key, total_amount decimal(12,2), rate decimal(8,4), note longtext, updated_at datetime(6) not null, _loaded_at datetime, index (updated_at));
         insert into orders select seq, seq * 1.5, 1.25, concat('note ', seq, ' '), timestamp '2026-01-01 00:00:00' + interval seq second, now() from seq_1_to_1000",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let urls = (source.url(), target.url());
        let drift = drift(folder.path(), "postgres-to-mariadb.yaml", args);
        drift.env("SHOP_URL", urls.0.as_str()).env("WAREHOUSE_URL", urls.1.as_str())
    };
    run(&["validate", "--online"]).run().expect_code(0);
    let (outcome, document) = run(&["audit", "--full"]).run_json();
    outcome.expect_code(0);
    assert_eq!((&document["status"], &document["runs"][1]["rows_compared"]), (&"pass".into(), &1000.into()));
    target.execute("update orders set note = 'lost' where id <= 100");
    let (outcome, document) = run(&["audit", "--full"]).run_json();
    outcome.expect_code(1);
    assert_eq!(document["runs"][1]["incident"]["severity"], "page", "more than 5 % differ: {document:#}");
}

#[test]
fn lake() {
    let app = Sqlite::fresh();
    app.execute(
        "create table events (id integer primary key, what text);
         create table users (id integer primary key, name text, city text, deleted int not null);
         insert into events values (1, 'a'), (2, 'b'), (3, 'c'), (4, null);
         insert into users values (1, 'Ada', null, 0), (2, 'Bo', 'Lyon; north', 0), (3, 'Cy', 'Porto', 1)",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let lake = folder.path().join("lake");
    std::fs::create_dir_all(lake.join("events")).expect("a folder");
    for (file, ids) in [("one.parquet", [(1, "a"), (2, "b")]), ("two.parquet", [(3, "c"), (4, "")])] {
        let text = |what: &str| if what.is_empty() { Cell::Null } else { Cell::Text(what.into()) };
        let rows: Vec<Vec<Cell>> = ids.iter().map(|(id, what)| vec![Cell::Int(*id), text(what)]).collect();
        parquet::write(
            &lake.join("events").join(file),
            "required int64 id; optional binary what (STRING);",
            &rows,
        );
    }
    std::fs::write(lake.join("users.csv"), "id;name;city\n1;Ada;\\N\n2;Bo;\"Lyon; north\"\n")
        .expect("a file");
    let run = |args: &[&str]| {
        let app = app.path().display().to_string();
        drift(folder.path(), "lake.yaml", args).env("APP_DB", &app).env("LAKE", lake.to_str().expect("UTF-8"))
    };
    run(&["validate", "--online"]).run().expect_code(0);
    let (outcome, document) = run(&["audit"]).run_json();
    outcome.expect_code(0);
    assert_eq!(document["status"], "pass", "{document:#}");
    app.execute("delete from users where id = 2");
    let (outcome, document) = run(&["audit", "users"]).run_json();
    outcome.expect_code(1);
    assert_eq!(document["runs"][1]["results"][2]["metric"], "only_in_target", "{document:#}");
}
