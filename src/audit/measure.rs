//! What a comparison has measured, as plain data: the input of [`super::judge`], kept so that other thresholds can be
//! tried on it later.

use serde::{Deserialize, Serialize};

use super::check::Reason;
use crate::compare::{CompareOutcome, Verdict};
use crate::endpoint::{Error, ErrorKind};
use crate::schema::{Finding, FindingKind, Severity};

/// Which two states of a schema were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The source with the target.
    Target,
    /// What was accepted of the source with what is there now.
    SourceBefore,
    /// What was accepted of the target with what is there now.
    TargetBefore,
}

/// One difference of two schemas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaFinding {
    /// Its kind, as `column_missing`.
    pub kind: String,
    /// Which states were compared.
    pub against: Against,
    /// The column; `None` for the table.
    pub column: Option<String>,
    /// What stood first.
    pub from: Option<String>,
    /// What stands second.
    pub to: Option<String>,
    /// Whether the second can hold less than the first.
    pub narrows: bool,
    /// The column's name on the other side, if it seems to have been renamed.
    pub renamed: Option<String>,
    /// Whether a person has said that it was meant to be.
    #[serde(default)]
    pub agreed: bool,
}

impl SchemaFinding {
    /// Made of the schema room's finding.
    pub fn of(finding: &Finding, against: Against, renames: &[(String, String)]) -> SchemaFinding {
        let renamed = finding.column.as_ref().and_then(|column| match finding.kind {
            FindingKind::ColumnMissing => renames.iter().find(|(from, _)| from == column).map(|(_, to)| to),
            FindingKind::ColumnAdded => renames.iter().find(|(_, to)| to == column).map(|(from, _)| from),
            _ => None,
        });
        SchemaFinding {
            kind: finding.kind.word().into(),
            against,
            column: finding.column.clone(),
            from: finding.source.clone(),
            to: finding.target.clone(),
            narrows: finding.severity != Severity::Info,
            renamed: renamed.cloned(),
            agreed: false,
        }
    }

    /// For people, in one line.
    pub fn summary(&self) -> String {
        let place = match self.against {
            Against::Target => "the target",
            Against::SourceBefore => "the source, since it was accepted",
            Against::TargetBefore => "the target, since it was accepted",
        };
        let column = self.column.as_deref().unwrap_or("");
        let (from, to) = (self.from.as_deref().unwrap_or("none"), self.to.as_deref().unwrap_or("none"));
        let renamed = self.renamed.as_ref().map_or(String::new(), |name| match self.kind.as_str() {
            "column_missing" => format!(" (renamed to {name}?)"),
            _ => format!(" (renamed from {name}?)"),
        });
        match self.kind.as_str() {
            "column_missing" => format!("column {column} is missing in {place}{renamed}"),
            "column_added" => format!("column {column} is new in {place}{renamed}"),
            "type_changed" if self.narrows => {
                format!("column {column}: {from} became {to} in {place}, which can hold less")
            }
            "type_changed" => format!("column {column}: {from} became {to} in {place}"),
            "nullability_changed" => format!("column {column}: {from} became {to} in {place}"),
            "default_changed" => format!("column {column}: another default in {place}"),
            "key_changed" => format!("the key ({from}) became ({to}) in {place}"),
            "order_changed" => format!("the columns stand in another order in {place}"),
            "untagged_version" => "the source's schema changed and its version did not".to_string(),
            other => format!("{other} in {place}"),
        }
    }
}

/// What the schemas showed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SchemaMeasure {
    /// All differences.
    pub findings: Vec<SchemaFinding>,
}

/// What the rows showed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RowMeasure {
    /// Keys found on either side, that is the rows compared.
    pub rows: u64,
    /// Rows whose values differ.
    pub changed: u64,
    /// Rows that the target lacks.
    pub only_in_source: u64,
    /// Rows that only the target has.
    pub only_in_target: u64,
    /// Keys that stand in several rows, of both sides.
    pub duplicate_keys: u64,
    /// Rows that kept changing.
    pub in_flight: u64,
    /// The share of the table that was compared, from 0 to 1; 1 for all of it.
    pub power: f64,
    /// Whether what differs has survived what replication could still repair, or nothing differs.
    pub confirmed: bool,
    /// What was not compared, and why.
    pub not_compared: Vec<String>,
    /// Why there is no complete answer.
    pub reason: Option<Reason>,
    /// Differing rows by column, those with any.
    pub by_column: Vec<(String, u64)>,
    /// What the differences have in common, for people.
    pub patterns: Vec<String>,
    /// The keys' ranges that hold what differs: how many.
    pub ranges: u64,
    /// The newest change at the source, less the newest at the target, in microseconds; `None` where nobody asked.
    #[serde(default)]
    pub lag: Option<i64>,
}

impl RowMeasure {
    /// What an outcome says. `live` tells whether rows may still be on their way.
    pub fn of(outcome: &CompareOutcome, live: bool) -> RowMeasure {
        let not_compared: Vec<String> = outcome
            .not_compared
            .iter()
            .filter(|n| n.severity == Severity::Fail)
            .map(|n| n.column.as_ref().map_or(n.reason.clone(), |column| format!("{column}: {}", n.reason)))
            .collect();
        let reason = match outcome.verdict() {
            Verdict::Incomplete if outcome.unconfirmed => Some(Reason::Unconfirmed),
            Verdict::Incomplete if not_compared.iter().any(|n| n.contains("--deadline")) => {
                Some(Reason::BudgetExceeded)
            }
            Verdict::Incomplete if outcome.not_compared.iter().any(|n| n.column.is_some()) => {
                Some(Reason::TypeNotSupported)
            }
            Verdict::Incomplete => Some(Reason::Unreachable),
            Verdict::Inconclusive => Some(Reason::InFlight),
            Verdict::Equal | Verdict::Drift => None,
        };
        let Some(tally) = &outcome.tally else {
            return RowMeasure { not_compared, reason, ..RowMeasure::default() };
        };
        let names = outcome.recipe.iter().flat_map(|recipe| &recipe.values).map(|rule| rule.name.clone());
        let power = match &outcome.sample {
            None => 1.0,
            Some(sample) => match sample.wish.size {
                crate::compare::Size::Share(share) => share,
                // Without a known whole, a number of rows is compared with itself only.
                crate::compare::Size::Rows(rows) => match sample.of {
                    Some(
                        crate::compare::Population::Counted(of) | crate::compare::Population::Estimated(of),
                    ) if of > 0 => (rows as f64 / of as f64).min(1.0),
                    _ => 0.0,
                },
            },
        };
        RowMeasure {
            rows: tally.equal + tally.different() + tally.in_flight,
            changed: tally.changed,
            only_in_source: tally.only_in_source,
            only_in_target: tally.only_in_target,
            duplicate_keys: tally.duplicate_count.iter().sum(),
            in_flight: tally.in_flight,
            power,
            confirmed: !outcome.unconfirmed
                && (!live || tally.different() == 0 || outcome.confirmation.is_some()),
            not_compared,
            reason,
            by_column: names.zip(tally.by_column.iter().copied()).filter(|(_, rows)| *rows > 0).collect(),
            patterns: tally
                .patterns()
                .iter()
                .map(|p| {
                    let column = p.column.as_ref().map_or(String::new(), |c| format!("{c} "));
                    format!("{} rows: {column}{} ({})", p.rows, p.pattern, p.detail)
                })
                .collect(),
            ranges: tally.ranges.iter().count() as u64,
            lag: None,
        }
    }

    /// Nothing could be read.
    pub fn failed(error: &Error) -> RowMeasure {
        RowMeasure {
            not_compared: vec![error.message.clone()],
            reason: Some(reason_of(error)),
            ..RowMeasure::default()
        }
    }

    /// The two sides lie too far apart in time.
    pub fn too_late(what: String) -> RowMeasure {
        RowMeasure { not_compared: vec![what], reason: Some(Reason::LagTooHigh), ..RowMeasure::default() }
    }
}

/// The reason that an error is for a check.
pub fn reason_of(error: &Error) -> Reason {
    match error.kind {
        ErrorKind::Usage => Reason::Configuration,
        ErrorKind::Unavailable | ErrorKind::Lost => Reason::Unreachable,
        ErrorKind::Refused => Reason::Permission,
        ErrorKind::Data => Reason::Unreadable,
    }
}
