//! Compares what drift said with what a case expects.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::format::{Expect, SchemaFinding};
use crate::support::drift::Outcome;
use crate::support::parquet::Cell;

/// Collects everything that is wrong with one call, so that a failing case shows the whole picture.
pub struct Check<'a> {
    expect: &'a Expect,
    key: &'a [String],
    wrong: Vec<String>,
}

impl<'a> Check<'a> {
    /// A check of calls that should give this answer.
    pub fn new(expect: &'a Expect, key: &'a [String]) -> Check<'a> {
        Check { expect, key, wrong: Vec::new() }
    }

    /// What is wrong.
    pub fn wrong(self) -> Vec<String> {
        self.wrong
    }

    fn equal<T: PartialEq + std::fmt::Display>(&mut self, what: &str, found: T, expected: T) {
        if found != expected {
            self.wrong.push(format!("{what}: {found}, expected {expected}"));
        }
    }

    /// Checks the document of `-o json`.
    pub fn json(&mut self, outcome: &Outcome) {
        self.code(outcome);
        if self.expect.exit == 2 {
            return;
        }
        let report: Value = match serde_json::from_str(&outcome.stdout) {
            Ok(report) => report,
            Err(e) => return self.wrong.push(format!("no JSON on stdout: {e}")),
        };
        let verdict = match self.expect.exit {
            0 => "equal",
            1 => "drift",
            3 => "incomplete",
            other => panic!("no verdict for exit code {other}"),
        };
        self.equal("verdict", text(&report["verdict"]), verdict.to_string());
        self.rows(&report);
        self.ranges(&report);
        self.duplicate_keys(&report);
        self.schema(&report);
        self.notes(&report);
        for wanted in &self.expect.json_contains {
            if !outcome.stdout.contains(wanted) {
                self.wrong.push(format!("the JSON lacks {wanted:?}"));
            }
        }
        if let Some(limit) = self.expect.peak_memory_mib
            && outcome.peak_memory > limit << 20
        {
            self.wrong.push(format!("{} MiB of memory, expected at most {limit}", outcome.peak_memory >> 20));
        }
    }

    /// Checks the text for people.
    pub fn human(&mut self, outcome: &Outcome) {
        self.code(outcome);
        let both = format!("{}{}", outcome.stdout, outcome.stderr);
        for wanted in &self.expect.says {
            if !both.contains(wanted) {
                self.wrong.push(format!("the text lacks {wanted:?}"));
            }
        }
        let first = outcome.stdout.lines().next().unwrap_or_default().to_lowercase();
        if self.expect.exit == 1 && !first.contains("drift") {
            self.wrong.push(format!("the first line does not say that there is drift: {first:?}"));
        }
        if self.expect.exit == 3 && first.contains("equal") && !first.contains("incomplete") {
            self.wrong.push(format!("the first line of an incomplete run speaks of equality: {first:?}"));
        }
        let keys = [&self.expect.only_in_source, &self.expect.only_in_target].into_iter().flatten();
        for part in keys.chain(self.expect.changed.iter().map(|row| &row.key)).flatten() {
            if let Some(part) = key_text(part)
                && !outcome.stdout.contains(&part)
            {
                self.wrong.push(format!("the text does not show the key {part:?}"));
            }
        }
    }

    fn code(&mut self, outcome: &Outcome) {
        self.equal("exit code", outcome.code, self.expect.exit);
        let both = format!("{}{}", outcome.stdout, outcome.stderr);
        for unwanted in &self.expect.never_says {
            if both.contains(unwanted) {
                self.wrong.push(format!("an output contains {unwanted:?}"));
            }
        }
    }

    fn rows(&mut self, report: &Value) {
        let expect = self.expect;
        let mut expected = BTreeSet::new();
        for (kind, keys) in
            [("only_in_source", &expect.only_in_source), ("only_in_target", &expect.only_in_target)]
        {
            expected.extend(keys.iter().map(|key| row(kind, &self.key(key), &json!(null))));
        }
        expected.extend(expect.changed.iter().map(|c| row("changed", &self.key(&c.key), &json!(c.columns))));
        let empty = Vec::new();
        let listed = report["differences"].as_array().unwrap_or(&empty);
        let found: BTreeSet<String> =
            listed.iter().map(|d| row(&text(&d["kind"]), &d["key"], &d["columns"])).collect();
        if !expect.rows_unlisted {
            self.equal("differences", listed.len(), expected.len());
            for surplus in found.difference(&expected) {
                self.wrong.push(format!("reported, but not expected: {surplus}"));
            }
        }
        for missing in expected.difference(&found) {
            self.wrong.push(format!("expected, but not reported: {missing}"));
        }

        let counts = expect.counts;
        let listed_counts =
            |given: Option<u64>, rows: usize| given.or((!expect.rows_unlisted).then_some(rows as u64));
        for (name, found, expected) in [
            ("rows of the source", &report["source"]["rows"], counts.source),
            ("rows of the target", &report["target"]["rows"], counts.target),
            ("compared rows", &report["rows"]["compared"], counts.compared),
            (
                "rows only in the source",
                &report["rows"]["only_in_source"],
                listed_counts(counts.only_in_source, expect.only_in_source.len()),
            ),
            (
                "rows only in the target",
                &report["rows"]["only_in_target"],
                listed_counts(counts.only_in_target, expect.only_in_target.len()),
            ),
            ("changed rows", &report["rows"]["changed"], listed_counts(counts.changed, expect.changed.len())),
        ] {
            if let Some(expected) = expected {
                self.equal(name, found.to_string(), expected.to_string());
            }
        }
        let number = |name: &str| report["rows"][name].as_u64().unwrap_or_default();
        if number("compared") != number("equal") + number("changed") + number("in_flight") {
            self.wrong.push(format!("the numbers of rows do not add up: {}", report["rows"]));
        }
    }

    fn ranges(&mut self, report: &Value) {
        let Some(expected) = &self.expect.ranges else { return };
        let expected: Vec<Value> = expected.iter().map(|(a, b)| json!([self.key(a), self.key(b)])).collect();
        let found: Vec<Value> =
            report["ranges"].as_array().into_iter().flatten().map(|r| json!([r["from"], r["to"]])).collect();
        self.equal("ranges", json!(found).to_string(), json!(expected).to_string());
    }

    fn duplicate_keys(&mut self, report: &Value) {
        let expected = &self.expect.duplicate_keys;
        for (side, expected) in [("source", &expected.source), ("target", &expected.target)] {
            let expected: Vec<Value> =
                expected.iter().map(|d| json!({"key": self.key(&d.key), "rows": d.rows})).collect();
            let found = &report["duplicate_keys"][side];
            self.equal(
                &format!("duplicate keys of the {side}"),
                found.to_string(),
                json!(expected).to_string(),
            );
        }
    }

    /// Checks the findings about the schema, which `drift schema` tells in the same form.
    pub fn schema(&mut self, report: &Value) {
        let Some(expected) = &self.expect.schema else { return };
        let findings = report["schema"].as_array().into_iter().flatten();
        let mut found: Vec<&Value> = findings.filter(|finding| finding["severity"] != "info").collect();
        for wanted in expected {
            match found.iter().position(|finding| fits(wanted, finding)) {
                Some(place) => drop(found.remove(place)),
                None => {
                    self.wrong.push(format!("the schema's findings lack {wanted:?}: {}", report["schema"]))
                }
            }
        }
        for surplus in found {
            self.wrong.push(format!("a finding about the schema that was not expected: {surplus}"));
        }
    }

    fn notes(&mut self, report: &Value) {
        let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
        let not_compared: Vec<String> =
            list("not_compared").iter().map(|entry| text(&entry["column"])).collect();
        // A connection that broke is no column's fault, and has its entry too.
        let columns: Vec<&String> = not_compared.iter().filter(|column| *column != "null").collect();
        self.equal("not compared", format!("{columns:?}"), format!("{:?}", self.expect.not_compared));
        for (column, note) in &self.expect.column_notes {
            let told =
                list("columns").iter().any(|c| c["name"] == **column && text(&c["note"]).contains(note));
            if !told {
                self.wrong.push(format!("no note {note:?} on column {column}: {}", report["columns"]));
            }
        }
    }

    fn key(&self, values: &[Cell]) -> Value {
        assert_eq!(values.len(), self.key.len(), "values in the key {values:?}");
        let parts = self.key.iter().cloned().zip(values.iter().map(|cell| json!(key_text(cell))));
        Value::Object(parts.collect::<Map<String, Value>>())
    }
}

/// One difference in one line.
fn row(kind: &str, key: &Value, columns: &Value) -> String {
    let mut columns: Vec<String> = columns.as_array().into_iter().flatten().map(text).collect();
    columns.sort();
    format!("{kind} {key} {columns:?}")
}

fn fits(wanted: &SchemaFinding, finding: &Value) -> bool {
    let contains =
        |part: &Option<String>, whole: &Value| part.as_ref().is_none_or(|p| text(whole).contains(p));
    finding["kind"] == *wanted.kind
        && finding["column"] == *wanted.column
        && contains(&wanted.source, &finding["source"])
        && contains(&wanted.target, &finding["target"])
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// A part of a key as JSON shows it.
fn key_text(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Null => None,
        Cell::Bool(value) => Some(value.to_string()),
        Cell::Int(value) => Some(value.to_string()),
        Cell::Float(value) => Some(value.to_string()),
        Cell::Text(value) => Some(value.clone()),
    }
}
