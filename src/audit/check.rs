//! What a check ends with.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Within the thresholds.
    Pass,
    /// Above the warning threshold.
    Warn,
    /// Above the failure threshold.
    Fail,
    /// It came to no answer.
    Inconclusive,
    /// There is nothing to check.
    NotApplicable,
    /// It could not be done.
    Error,
    /// It was left out.
    Skipped,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 7] = [
        Status::Pass,
        Status::Warn,
        Status::Fail,
        Status::Inconclusive,
        Status::NotApplicable,
        Status::Error,
        Status::Skipped,
    ];

    /// The name in reports, metrics and the store.
    pub fn word(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Warn => "warn",
            Status::Fail => "fail",
            Status::Inconclusive => "inconclusive",
            Status::NotApplicable => "not_applicable",
            Status::Error => "error",
            Status::Skipped => "skipped",
        }
    }

    /// The status with this name.
    pub fn of(word: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.word() == word)
    }

    /// What a run is called whose checks ended with these: a breach that was found stands whatever else happened, and
    /// what could not be checked is never a pass.
    pub fn worst(of: impl IntoIterator<Item = Status>) -> Status {
        let rank = |status: Status| match status {
            Status::Fail => 6,
            Status::Error => 5,
            Status::Inconclusive => 4,
            Status::Warn => 3,
            Status::Pass => 2,
            Status::Skipped => 1,
            Status::NotApplicable => 0,
        };
        of.into_iter().max_by_key(|status| rank(*status)).unwrap_or(Status::NotApplicable)
    }
}

/// Why a check ended as it did, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No connection, or it broke.
    Unreachable,
    /// A privilege is missing.
    Permission,
    /// The data cannot be read.
    Unreadable,
    /// The pair does not fit the tables.
    Configuration,
    /// Columns have no common form.
    TypeNotSupported,
    /// All that is left are rows that kept changing.
    InFlight,
    /// The two sides lie too far apart in time.
    LagTooHigh,
    /// The time for it was over.
    BudgetExceeded,
    /// Differences were found and could not be confirmed.
    Unconfirmed,
    /// What differs lies in columns whose schema is broken.
    SchemaMismatch,
    /// Too many runs in a row came to no answer.
    NoAnswerForLong,
    /// Another process checks it.
    Busy,
    /// It was checked already, by another process.
    Done,
}

impl Reason {
    /// The name in reports and in the store.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Unreachable => "unreachable",
            Reason::Permission => "permission",
            Reason::Unreadable => "unreadable",
            Reason::Configuration => "configuration",
            Reason::TypeNotSupported => "type_not_supported",
            Reason::InFlight => "in_flight",
            Reason::LagTooHigh => "lag_too_high",
            Reason::BudgetExceeded => "budget_exceeded",
            Reason::Unconfirmed => "unconfirmed",
            Reason::SchemaMismatch => "schema_mismatch",
            Reason::NoAnswerForLong => "no_answer_for_long",
            Reason::Busy => "busy",
            Reason::Done => "done",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// What identifies the check, whatever its thresholds.
    pub id: String,
    /// What is measured, as `changed`.
    pub metric: String,
    /// How it ended.
    pub status: Status,
    /// Why, where that is not plain.
    pub reason: Option<Reason>,
    /// What was measured: a number of rows or findings.
    pub measured: Option<f64>,
    /// The threshold that was crossed, or the strictest that was not, as written.
    pub threshold: Option<String>,
    /// Out of how many rows.
    pub n: Option<u64>,
    /// For a sample: what share of the whole table it is, at least and at most.
    pub bound: Option<(f64, f64)>,
    /// For people, in one line: counts and names, no values.
    pub summary: String,
    /// More, as JSON.
    pub evidence: Value,
}

/// What identifies a check: a change of its thresholds does not, so that its history goes on.
pub fn check_id(pair: &str, level: &str, metric: &str) -> String {
    let text = format!("{}:{pair}{}:{level}{}:{metric}", pair.len(), level.len(), metric.len());
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}
