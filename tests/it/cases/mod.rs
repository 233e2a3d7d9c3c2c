//! The data-driven cases: each entry of `tests/cases/*.yaml` is two small tables, options and the right answer, and runs
//! on every pair of engines it names, with one and with several threads, with plenty of memory and with little, with
//! the sides exchanged where the case says so. The answer must never depend on any of these.

mod check;
mod format;
mod sides;
mod steps;

use std::mem;

use serde_json::Value;

use check::Check;
use format::{Case, Engine, Expect, Fault};
use sides::{FileOrder, Prepared};
use steps::Sessions;

use crate::support::client;
use crate::support::database::{PostgresRole, mysql_execute, mysql_server};
use crate::support::drift::{Drift, Outcome};
use crate::support::proxy::Proxy;

/// One test per file, so that a failure names its kind at once.
macro_rules! files {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run_file(concat!(stringify!($name), ".yaml"));
        })*
    };
}
files!(values, keys, schema, replication, config, scale, faults);

/// `DRIFT_TEST_CASE` names the one case to run, for somebody who works on it.
fn run_file(file: &str) {
    let only = std::env::var("DRIFT_TEST_CASE").ok();
    let mut failures = Vec::new();
    for case in format::read(file) {
        if only.as_ref().is_none_or(|only| *only == case.case) {
            failures.extend(run(&case));
        }
    }
    assert!(failures.is_empty(), "{} failures in {file}\n\n{}", failures.len(), failures.join("\n\n"));
}

fn run(case: &Case) -> Vec<String> {
    let (sources, targets) = (case.source.engines(), case.target.engines());
    let all = || sources.iter().flat_map(|s| targets.iter().map(move |t| (*s, *t))).collect();
    let mut failures = Vec::new();
    for (source, target) in case.pairs.clone().unwrap_or_else(all) {
        let several = case.source.has_several_files(source) || case.target.has_several_files(target);
        let orders = [FileOrder::ByName, FileOrder::Reversed];
        for order in orders.into_iter().take(if several { 2 } else { 1 }) {
            failures.extend(run_pair(case, source, target, order));
        }
    }
    failures
}

fn run_pair(case: &Case, source: Engine, target: Engine, order: FileOrder) -> Vec<String> {
    // The role is made first and dropped last: until its database is gone it has rights in there.
    let role = case.role.then(PostgresRole::fresh);
    let role_name = role.as_ref().map_or("", |role| &role.name);
    let prepared_source = sides::prepare(&case.source, source, &case.table, role_name, order);
    let prepared_target = sides::prepare(&case.target, target, &case.table, role_name, order);
    let pair = Pair {
        case,
        name: format!("{} ({source:?} against {target:?}, files {order:?})", case.case),
        source: prepared_source,
        target: prepared_target,
        target_engine: target,
        role: role.as_ref(),
    };
    if !case.steps.is_empty() {
        return pair.run_steps(|| {
            [(&case.source, source), (&case.target, target)]
                .map(|(side, engine)| sides::prepare(side, engine, &case.table, role_name, order))
        });
    }
    if case.server_time_zones.is_empty() {
        let failures = pair.run();
        return failures.into_iter().chain(pair.repair()).collect();
    }
    let mut failures = Vec::new();
    let _restored = RestoredTimeZone;
    for zone in &case.server_time_zones {
        for side in [&pair.source, &pair.target] {
            if let Some(database) = side.postgres() {
                database.execute(&format!(
                    "alter database {} set timezone = '{}'",
                    database.name(),
                    zone.postgres
                ));
            }
        }
        mysql_execute(&mysql_server(), [format!("set global time_zone = '{}'", zone.mysql)]);
        failures
            .extend(pair.run().into_iter().map(|f| format!("with the servers in {}: {f}", zone.postgres)));
    }
    failures
}

/// Sets MariaDB's default time zone back when dropped. Other tests set the zone of their sessions themselves.
struct RestoredTimeZone;

impl Drop for RestoredTimeZone {
    fn drop(&mut self) {
        mysql_execute(&mysql_server(), ["set global time_zone = 'SYSTEM'"]);
    }
}

struct Pair<'a> {
    case: &'a Case,
    name: String,
    source: Prepared,
    target: Prepared,
    target_engine: Engine,
    role: Option<&'a PostgresRole>,
}

impl Pair<'_> {
    fn run(&self) -> Vec<String> {
        let case = self.case;
        let mut failures = self.answers(&[], case.fault, &case.expect);
        for variant in &case.variants {
            failures.extend(self.answers(&variant.args, variant.fault.or(case.fault), &variant.expect));
        }
        failures
    }

    /// Asks for the document and for the text, each on fresh rows that others change meanwhile.
    fn run_steps(mut self, fresh: impl Fn() -> [Prepared; 2]) -> Vec<String> {
        let mut failures = Vec::new();
        let (case, steps) = (self.case, &self.case.steps);
        for format in ["json", "human"] {
            [self.source, self.target] = fresh();
            let servers =
                [&self.source, &self.target].map(|side| side.server().expect("steps need servers").clone());
            let mut sessions = Sessions::default();
            sessions.before(steps, &servers);
            let (source, target) = (self.source_address(), self.target.address());
            let (_, wrong) = std::thread::scope(|scope| {
                scope.spawn(|| sessions.meanwhile(steps, &servers));
                self.ask(&source, &target, &[], &["-o", format], case.fault, &case.expect)
            });
            failures.extend(wrong);
        }
        failures.into_iter().chain(self.repair()).collect()
    }

    /// Has the statements written that would make the target equal, runs them, and compares again. Last of all, since
    /// the rows are others afterwards.
    fn repair(&self) -> Vec<String> {
        let case = self.case;
        let is_database = matches!(self.target_engine, Engine::Postgres | Engine::Mysql | Engine::Sqlite);
        if case.expect.exit != 1 || case.fault.is_some() || !is_database {
            return Vec::new();
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = folder.path().join("repair.sql");
        let (source, target) = (self.source_address(), self.target.address());
        let call = || {
            let mut call = Drift::compare(&source, &target).args(&case.args).args(["-o", "json"]);
            if !case.key.is_empty() {
                call = call.args(["-k", &case.key.join(",")]);
            }
            call
        };
        let outcome = call().args(["--repair", &script.display().to_string()]).run();
        if !script.exists() {
            let is_said = outcome.stderr.contains("--repair: ");
            return if is_said {
                Vec::new()
            } else {
                self.told(vec!["no repair, and no word".into()], &outcome)
            };
        }
        client::apply(&target, &script);
        let again = call().run();
        let report: Value = serde_json::from_str(&again.stdout).unwrap_or_default();
        let left = ["only_in_source", "only_in_target", "changed"].map(|kind| report["rows"][kind].as_u64());
        if left == [Some(0); 3] {
            return Vec::new();
        }
        let text = std::fs::read_to_string(&script).unwrap_or_default();
        self.told(vec![format!("the repair did not make the rows equal:\n{text}")], &again)
    }

    fn source_address(&self) -> String {
        self.source.address_at(|url| match self.role {
            Some(role) => role.in_url(url),
            None => url,
        })
    }

    /// Asks in every way and checks each answer.
    fn answers(&self, args: &[String], fault: Option<Fault>, expect: &Expect) -> Vec<String> {
        let source = self.source_address();
        let target = self.target.address();
        let mut failures = Vec::new();
        let mut documents = Vec::new();
        for ways in [&["--threads", "1"][..], &["--threads", "4", "--memory", "16MiB"]] {
            let (outcome, wrong) =
                self.ask(&source, &target, args, &[ways, &["-o", "json"]].concat(), fault, expect);
            failures.extend(wrong);
            documents.push(answer_alone(&outcome));
        }
        if documents[0] != documents[1] {
            failures.push(format!("{}: the answer depends on threads or memory", self.name));
        }
        failures.extend(self.ask(&source, &target, args, &["-o", "human"], fault, expect).1);
        if self.case.exchange {
            let mirrored = mirrored(expect.clone());
            failures.extend(self.ask(&target, &source, args, &["-o", "json"], fault, &mirrored).1);
            failures.extend(self.ask(&target, &source, args, &["-o", "human"], fault, &mirrored).1);
        }
        if let Some(code) = expect.schema_exit {
            failures.extend(self.ask_schema(&source, &target, code, expect));
        }
        failures
    }

    fn ask(
        &self,
        source: &str,
        target: &str,
        args: &[String],
        ways: &[&str],
        fault: Option<Fault>,
        expect: &Expect,
    ) -> (Outcome, Vec<String>) {
        let proxy = fault.map(|fault| {
            let server = self.target.server().expect("a fault needs a server");
            Proxy::in_front_of(server, fault.cut, fault.after_bytes)
        });
        let through = proxy.as_ref().map(|proxy| self.target.address_at(|url| proxy.url(url)));
        let mut call = Drift::compare(source, through.as_deref().unwrap_or(target));
        if !self.case.key.is_empty() {
            call = call.args(["-k", &self.case.key.join(",")]);
        }
        if !self.case.args.iter().any(|arg| arg == "--consistency") {
            // The tables stand still.
            call = call.args(["--consistency", "none"]);
        }
        let outcome = call.args(&self.case.args).args(args).args(ways).run();
        let mut check = Check::new(expect, &self.case.key);
        if ways.contains(&"json") {
            check.json(&outcome)
        } else {
            check.human(&outcome)
        }
        let mut wrong = check.wrong();
        if proxy.is_some_and(|proxy| !proxy.has_cut()) {
            wrong.push("the connection was never cut".to_string());
        }
        let failures = self.told(wrong, &outcome);
        (outcome, failures)
    }

    fn ask_schema(&self, source: &str, target: &str, code: i32, expect: &Expect) -> Vec<String> {
        let outcome = Drift::new().args(["schema", source, target, "-o", "json"]).run();
        let mut check = Check::new(expect, &self.case.key);
        if let Ok(report) = serde_json::from_str(&outcome.stdout) {
            check.schema(&report);
        }
        let mut wrong = check.wrong();
        if outcome.code != code {
            wrong.push(format!("drift schema ended with {}, expected {code}", outcome.code));
        }
        self.told(wrong, &outcome)
    }

    fn told(&self, wrong: Vec<String>, outcome: &Outcome) -> Vec<String> {
        if wrong.is_empty() {
            return Vec::new();
        }
        vec![format!("{} {}\n  - {}\n{outcome}", self.name, self.case.trouble.trim(), wrong.join("\n  - "))]
    }
}

/// The parts of a document that must be the same however it was computed.
fn answer_alone(outcome: &Outcome) -> Vec<Value> {
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    ["verdict", "key", "columns", "differences", "duplicate_keys", "ranges", "patterns", "schema"]
        .map(|part| report[part].clone())
        .to_vec()
}

/// The answer to be expected with the sides exchanged.
fn mirrored(mut expect: Expect) -> Expect {
    mem::swap(&mut expect.only_in_source, &mut expect.only_in_target);
    mem::swap(&mut expect.counts.source, &mut expect.counts.target);
    mem::swap(&mut expect.counts.only_in_source, &mut expect.counts.only_in_target);
    mem::swap(&mut expect.duplicate_keys.source, &mut expect.duplicate_keys.target);
    for finding in expect.schema.iter_mut().flatten() {
        mem::swap(&mut finding.source, &mut finding.target);
        finding.kind = match finding.kind.as_str() {
            "column_missing" => "column_added".to_string(),
            "column_added" => "column_missing".to_string(),
            other => other.to_string(),
        };
    }
    expect
}
