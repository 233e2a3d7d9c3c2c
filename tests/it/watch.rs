//! `tests/cases/watch.yaml`: pairs that are watched, as data. Each step changes the tables, runs `drift audit`, and compares
//! what it says, and which incident stands, with what is right.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::support::database::{MySql, Postgres, PostgresRole};
use crate::support::drift::Drift;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    trouble: String,
    /// How the table `t` is made, by engine.
    source: BTreeMap<String, String>,
    target: BTreeMap<String, String>,
    /// Keys of the pair.
    #[serde(default)]
    pair: String,
    /// What `drift config` has to show.
    #[serde(default)]
    effective: Vec<String>,
    /// Whether the source is read by a role of its own; `{role}` is its name.
    #[serde(default)]
    as_role: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    source: Option<String>,
    target: Option<String>,
    audit: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    exit: i32,
    /// The status of each level.
    schema: Option<String>,
    rows: Option<String>,
    full: Option<String>,
    /// What checks measured.
    #[serde(default)]
    measured: BTreeMap<String, f64>,
    /// Rows compared.
    compared: Option<u64>,
    /// A reason that one of the checks gives.
    reason: Option<String>,
    /// Words of the answer.
    #[serde(default)]
    says: Vec<String>,
    /// Kind, state, severity and attribution of the latest incident. No step may open one that it does not name.
    incident: Option<[String; 4]>,
}

enum Database {
    Postgres(Postgres),
    MySql(MySql),
}

impl Database {
    fn new(engines: &BTreeMap<String, String>, role: Option<&PostgresRole>) -> Database {
        let (engine, sql) = engines.iter().next().expect("an engine");
        let database = match engine.as_str() {
            "postgres" => Database::Postgres(Postgres::fresh()),
            "mysql" => Database::MySql(MySql::fresh()),
            other => panic!("no engine {other}"),
        };
        database.execute(&role.map_or_else(|| sql.clone(), |role| sql.replace("{role}", &role.name)));
        database
    }

    fn execute(&self, sql: &str) {
        match self {
            Database::Postgres(database) => database.execute(sql),
            Database::MySql(database) => database.execute(sql),
        }
    }

    fn url(&self) -> url::Url {
        match self {
            Database::Postgres(database) => database.url(),
            Database::MySql(database) => database.url(),
        }
    }
}

#[test]
fn watched_pairs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/watch.yaml");
    let text = std::fs::read_to_string(path).expect("the cases");
    let cases: Vec<Case> = serde_norway::from_str(&text).unwrap_or_else(|e| panic!("watch.yaml: {e}"));
    let wrong: Vec<String> = cases.iter().flat_map(run).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn run(case: &Case) -> Vec<String> {
    let role = case.as_role.then(PostgresRole::fresh);
    let source = Database::new(&case.source, role.as_ref());
    let target = Database::new(&case.target, None);
    let folder = tempfile::tempdir().expect("a folder");
    let pair: String = case.pair.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "version: 1\nconnections:\n  a: {{ url: \"${{SOURCE}}\" }}\n  b: {{ url: \"${{TARGET}}\" }}\npairs:\n  - name: t\n    source: {{ connection: a, table: t }}\n    target: {{ connection: b, table: t }}\n    confirm: {{ rounds: 2, wait: 20ms }}\n{pair}"
    );
    std::fs::write(folder.path().join("drift.yaml"), text).expect("a configuration");
    let read = role.as_ref().map_or_else(|| source.url(), |role| role.in_url(source.url()));
    let drift = |args: &[&str]| {
        let drift = Drift::new().current_dir(folder.path()).args(args);
        drift.env("SOURCE", read.as_str()).env("TARGET", target.url().as_str())
    };
    let mut wrong = Vec::new();
    let shown = drift(&["config"]).run().expect_code(0).stdout;
    let missing = case.effective.iter().filter(|line| !shown.contains(line.as_str()));
    wrong.extend(missing.map(|line| format!("{}: drift config does not show {line}:\n{shown}", case.case)));
    let mut known = 0;
    for (number, step) in case.steps.iter().enumerate() {
        for (database, sql) in [(&source, &step.source), (&target, &step.target)] {
            if let Some(sql) = sql {
                database.execute(sql);
            }
        }
        let (outcome, document) = drift(&["audit"]).run_json();
        let (_, incidents) = drift(&["incident", "list", "--all"]).run_json();
        let mut found = differences(&step.audit, outcome.code, &document);
        found.extend(incident(&step.audit, &incidents, &mut known));
        wrong.extend(found.iter().map(|what| format!("{}, step {}: {what}", case.case, number + 1)));
        if !found.is_empty() {
            wrong.push(format!("{}\n{document:#}\n{incidents:#}", case.trouble.trim()));
        }
    }
    wrong
}

fn differences(expect: &Expect, code: i32, document: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    if code != expect.exit {
        wrong.push(format!("exit code {code} instead of {}", expect.exit));
    }
    let runs = document["runs"].as_array().cloned().unwrap_or_default();
    let results: Vec<&Value> = runs.iter().flat_map(|run| run["results"].as_array()).flatten().collect();
    for (level, wanted) in [("schema", &expect.schema), ("rows", &expect.rows), ("full", &expect.full)] {
        let status = runs.iter().find(|run| run["level"] == level).map(|run| &run["status"]);
        if let Some(wanted) = wanted
            && status != Some(&Value::from(wanted.as_str()))
        {
            wrong.push(format!("{level} is {status:?} instead of {wanted}"));
        }
    }
    for (metric, wanted) in &expect.measured {
        let measured = results.iter().find(|result| result["metric"] == *metric).map(|r| &r["measured"]);
        if measured.and_then(|value| value.as_f64()) != Some(*wanted) {
            wrong.push(format!("{metric} is {measured:?} instead of {wanted}"));
        }
    }
    if let Some(wanted) = expect.compared {
        let compared = runs.iter().find(|run| run["level"] == "rows").map(|run| &run["rows_compared"]);
        if compared.and_then(|value| value.as_u64()) != Some(wanted) {
            wrong.push(format!("{compared:?} rows were compared instead of {wanted}"));
        }
    }
    if let Some(wanted) = &expect.reason
        && !results.iter().any(|result| result["reason"] == *wanted)
    {
        wrong.push(format!("no check gives the reason {wanted}"));
    }
    let said = document.to_string();
    wrong.extend(
        expect
            .says
            .iter()
            .filter(|words| !said.contains(*words))
            .map(|words| format!("it does not say {words:?}")),
    );
    wrong
}

fn incident(expect: &Expect, incidents: &Value, known: &mut usize) -> Option<String> {
    let listed = incidents["incidents"].as_array().cloned().unwrap_or_default();
    let opened = listed.len() - *known;
    *known = listed.len();
    let word = |name: &str| listed.first().and_then(|i| i[name].as_str()).unwrap_or_default().to_string();
    let latest = ["kind", "state", "severity", "attribution"].map(word);
    match &expect.incident {
        Some(wanted) if *wanted != latest => {
            Some(format!("the latest incident is {latest:?} instead of {wanted:?}"))
        }
        // A failure opens one; what it is like is told where it matters.
        None if opened > 0 && expect.exit == 0 => Some(format!("an incident was opened: {latest:?}")),
        _ => None,
    }
}
