//! What a comparison has shown. `equal` cannot be claimed: it follows from complete coverage without a difference.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::confirm::Confirmation;
use super::cutoff::Cutoff;
use super::request::CompareRequest;
use super::sample::Sampled;
use super::tally::{Side, Tally};
use crate::endpoint::{Cost, Position};
use crate::schema::{Finding, FindingKind, Severity};
use crate::value::recipe::Recipe;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything asked for was compared, and it is equal.
    Equal,
    /// It differs.
    Drift,
    /// All that is left are rows that kept changing while they were looked at.
    Inconclusive,
    /// Something asked for was not compared. Drift may have been found all the same.
    Incomplete,
}

impl Verdict {
    /// The name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Equal => "equal",
            Verdict::Drift => "drift",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Incomplete => "incomplete",
        }
    }
}

/// Something that was not compared, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotCompared {
    /// The column; `None` for rows.
    pub column: Option<String>,
    /// For the reader, with what to do.
    pub reason: String,
    /// [`Severity::Fail`] makes the run incomplete; [`Severity::Warn`] is only said.
    pub severity: Severity,
}

impl NotCompared {
    pub(crate) fn column(name: &str, reason: &str) -> NotCompared {
        NotCompared { column: Some(name.into()), reason: reason.into(), severity: Severity::Fail }
    }

    pub(crate) fn table(side: Side, reason: &str, severity: Severity) -> NotCompared {
        NotCompared { column: None, reason: format!("{}: {reason}", side.word()), severity }
    }

    /// Rows that were not compared.
    pub fn rows(reason: impl Into<String>) -> NotCompared {
        NotCompared { column: None, reason: reason.into(), severity: Severity::Fail }
    }
}

/// How far the scopes of a run were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// All scopes were read to their ends on both sides.
    Complete,
    /// At least one was not.
    Partial,
}

/// One side of the outcome.
#[derive(Debug, Clone, Default)]
pub struct SideOutcome {
    /// The address, without secrets.
    pub name: String,
    /// Rows compared; `None` when nothing was.
    pub rows: Option<u64>,
    /// Rows received in the first reading.
    pub read: u64,
    /// Where its snapshot stood.
    pub position: Position,
    /// Where the views stood from which it was read on after a lost connection.
    pub read_on_at: Vec<String>,
    /// Statements sent.
    pub statements: u64,
    /// Bytes of row data received.
    pub bytes: u64,
    /// How many connections read at once.
    pub workers: usize,
}

impl SideOutcome {
    /// Adds what a snapshot cost.
    pub(crate) fn add(&mut self, cost: &Cost) {
        self.statements += cost.statements.load(Ordering::Relaxed);
        self.bytes += cost.bytes.load(Ordering::Relaxed);
    }
}

/// The result of a comparison.
#[derive(Debug)]
pub struct CompareOutcome {
    /// Source and target.
    pub sides: [SideOutcome; 2],
    /// The rules; `None` when the run ended before they were known.
    pub recipe: Option<Recipe>,
    /// The engines' own type names by compared column: source, target.
    pub engine_types: Vec<(String, String)>,
    /// What the rows showed; `None` when none were read.
    pub tally: Option<Tally>,
    /// Differences of the schemas.
    pub findings: Vec<Finding>,
    /// What was left out, except by wish.
    pub not_compared: Vec<NotCompared>,
    /// Why the plan is what it is.
    pub reason: String,
    /// How long it took.
    pub elapsed: Duration,
    /// How differences were confirmed; `None` where that was not asked for, or nothing differed.
    pub confirmation: Option<Confirmation>,
    /// The cutoff: younger rows were not judged, which is as it was asked for.
    pub cutoff: Option<Cutoff>,
    /// The sample and what it says about the whole; `None` if all rows were compared.
    pub sample: Option<Sampled>,
    /// Whether differences stand as first read although they were to be confirmed.
    pub unconfirmed: bool,
    /// Whether values were shown masked or not at all, and how many.
    pub limit: usize,
    coverage: Coverage,
}

impl CompareOutcome {
    pub(crate) fn new(
        sides: [SideOutcome; 2],
        recipe: Option<Recipe>,
        tally: Option<Tally>,
        coverage: Coverage,
        request: &CompareRequest,
    ) -> CompareOutcome {
        CompareOutcome {
            sides,
            recipe,
            engine_types: Vec::new(),
            tally,
            findings: Vec::new(),
            not_compared: Vec::new(),
            reason: String::new(),
            elapsed: Duration::ZERO,
            confirmation: None,
            cutoff: request.cutoff.clone(),
            sample: None,
            unconfirmed: false,
            limit: request.limit,
            coverage,
        }
    }

    /// A run that ended before a row was read.
    pub fn nothing_read(names: [String; 2], why: String, request: &CompareRequest) -> CompareOutcome {
        let sides = names.map(|name| SideOutcome { name, ..SideOutcome::default() });
        let mut outcome = CompareOutcome::new(sides, None, None, Coverage::Partial, request);
        outcome.not_compared.push(NotCompared::rows(why));
        outcome
    }

    /// Writes the script that would make the target equal, behind `header`, where
    /// [`CompareRequest::repair`] asked for it. The error says why there is none.
    pub fn repair_to(&mut self, header: &str, out: &mut dyn std::io::Write) -> Result<(), String> {
        if self.unconfirmed {
            return Err(
                "the differences are not confirmed, rows that are merely late may be among them".into()
            );
        }
        let Some(tally) = self.tally.as_mut() else { return Err("nothing was compared".into()) };
        if tally.has_duplicates() {
            return Err("keys stand in several rows, so that a statement cannot tell them apart".into());
        }
        tally.records.script(header, out)
    }

    /// Whether a difference was found, whatever else happened.
    pub fn confirmed_drift(&self) -> bool {
        let rows = |tally: &Tally| tally.has_drift() && (!self.unconfirmed || tally.has_duplicates());
        self.tally.as_ref().is_some_and(rows) || self.columns_differ()
    }

    /// Whether a column that was asked for exists on one side only.
    pub fn columns_differ(&self) -> bool {
        self.findings.iter().any(|f| matches!(f.kind, FindingKind::ColumnMissing | FindingKind::ColumnAdded))
    }

    /// The answer, derived.
    pub fn verdict(&self) -> Verdict {
        let complete = self.coverage == Coverage::Complete
            && self.tally.is_some()
            && self.not_compared.iter().all(|n| n.severity != Severity::Fail);
        match (complete, self.confirmed_drift()) {
            (false, _) => Verdict::Incomplete,
            (true, true) => Verdict::Drift,
            (true, false)
                if self.cutoff.is_none() && self.tally.as_ref().is_some_and(|t| t.in_flight > 0) =>
            {
                Verdict::Inconclusive
            }
            (true, false) => Verdict::Equal,
        }
    }
}
