//! Several comparisons, one line each.

use std::fmt::Write;

use serde_json::{Value, json};

use super::human::{self, Style};
use super::json::SCHEMA_VERSION;
use super::words::{brief, counted, grouped};
use super::{json, markdown};
use crate::compare::{CompareOutcome, Verdict};

/// So many tables that only the target has are named.
const NAMED: usize = 10;

/// What came of all tables of two databases.
pub struct Tables {
    /// The tables of the source, by their names there.
    pub compared: Vec<(String, CompareOutcome)>,
    /// Tables that only the target has. They are said, and change nothing.
    pub only_in_target: Vec<String>,
}

impl Tables {
    /// The single comparisons.
    pub fn outcomes(&self) -> Vec<&CompareOutcome> {
        self.compared.iter().map(|(_, outcome)| outcome).collect()
    }

    /// The answer about all: what was not compared weighs most, then drift.
    pub fn verdict(&self) -> Verdict {
        let worst = [Verdict::Incomplete, Verdict::Drift, Verdict::Inconclusive];
        worst.into_iter().find(|verdict| self.count(*verdict) > 0).unwrap_or(Verdict::Equal)
    }

    fn count(&self, verdict: Verdict) -> u64 {
        self.compared.iter().filter(|(_, outcome)| outcome.verdict() == verdict).count() as u64
    }

    /// The answer in one line.
    pub fn headline(&self) -> String {
        let all = [Verdict::Drift, Verdict::Incomplete, Verdict::Inconclusive, Verdict::Equal];
        let parts: Vec<String> = all
            .into_iter()
            .filter(|verdict| self.count(*verdict) > 0)
            .map(|verdict| format!("{} {}", self.count(verdict), verdict.word()))
            .collect();
        let tables = counted(self.compared.len() as u64, "table", "tables");
        format!("{}: {tables}, {}", self.verdict().word(), parts.join(", "))
    }

    /// For people.
    pub fn human(&self, style: Style) -> String {
        let mut out = format!("{}\n", human::painted(self.verdict(), &self.headline(), style));
        let width = self.compared.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, outcome) in &self.compared {
            let line = human::painted(outcome.verdict(), &brief(outcome), style);
            let _ = writeln!(out, "  {name:width$}  {line}");
        }
        if let Some(line) = self.alone(str::to_string) {
            let _ = writeln!(out, "  {line}");
        }
        out
    }

    /// For tickets.
    pub fn markdown(&self) -> String {
        let mut out = format!("**{}**\n\n| table | answer |\n| --- | --- |\n", self.headline());
        for (name, outcome) in &self.compared {
            let _ = writeln!(out, "| {} | {} |", markdown::code(name), markdown::text(&brief(outcome)));
        }
        if let Some(line) = self.alone(markdown::code) {
            let _ = writeln!(out, "\n{line}");
        }
        out
    }

    /// What is said about tables that only the target has.
    fn alone(&self, spelled: impl Fn(&str) -> String) -> Option<String> {
        let mut names: Vec<String> =
            self.only_in_target.iter().take(NAMED).map(|name| spelled(name)).collect();
        if self.only_in_target.len() > NAMED {
            names.push(format!("{} more", grouped((self.only_in_target.len() - NAMED) as u64)));
        }
        (!names.is_empty()).then(|| format!("only the target has {}", names.join(", ")))
    }

    /// For programs: the documents of the single comparisons, and what they say together.
    pub fn json(&self) -> Value {
        let documents: Vec<Value> = self.outcomes().into_iter().map(json::compare).collect();
        json!({
            "schema_version": SCHEMA_VERSION,
            "verdict": self.verdict().word(),
            "tables": documents,
            "only_in_target": self.only_in_target,
        })
    }
}
