//! The cutoff: rows written a moment ago are not judged.
//!
//! A row that differs counts as in flight while its own time of change, on either side, is younger than the least age, by
//! the clock of the database it comes from and never by that of the machine drift runs on. A deleted row has no time of
//! change: what only the target has is judged by what stands there.

use std::time::Duration;

use super::plan::Plan;
use super::rows::Rows;
use super::tally::Side;
use crate::endpoint::{Error, Snapshot};
use crate::value::recipe::{Common, Recipe};
use crate::value::same::ticks;

/// Which rows are judged: those that rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cutoff {
    /// The compared column that tells when a row was last written.
    pub column: String,
    /// The age from which a row is judged.
    pub min_age: Duration,
}

/// The cutoff of one reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Age {
    /// The column's place among all columns of a row.
    at: usize,
    /// Rows changed later than this are young, in the column's ticks since 1970.
    after: i64,
    /// Times beyond this are none that a clock has shown: such rows are judged.
    until: i64,
}

impl Age {
    /// The cutoff by the clock of the source's database, or of the target's where the source has none.
    pub(crate) async fn of(
        cutoff: &Cutoff,
        plan: &Plan,
        snapshots: [&dyn Snapshot; 2],
        names: [&str; 2],
    ) -> Result<Age, Error> {
        let (at, nanos) = place(cutoff, &plan.recipe)?;
        let mut now = None;
        for snapshot in snapshots {
            if now.is_none() {
                now = snapshot.now().await?;
            }
        }
        let now = now.ok_or_else(|| {
            Error::usage(format!(
                "--consistency cutoff: neither {} nor {} has a clock; files need no cutoff",
                names[Side::Source as usize],
                names[Side::Target as usize]
            ))
        })?;
        let age = i64::try_from(cutoff.min_age.as_micros()).unwrap_or(i64::MAX);
        let unit = if nanos { 1000 } else { 1 };
        Ok(Age {
            at,
            after: now.saturating_sub(age).saturating_mul(unit),
            until: now.saturating_add(age).saturating_mul(unit),
        })
    }

    /// Whether a row was written too short a time ago. NULL is no time.
    pub(crate) fn is_young(&self, rows: &Rows, row: usize) -> bool {
        let Some(column) = rows.columns.get(self.at).filter(|column| column.values.is_valid(row)) else {
            return false;
        };
        ticks(column, row).is_some_and(|at| at > self.after && at <= self.until)
    }
}

/// The place of the column that tells the time, and whether it counts nanoseconds.
fn place(cutoff: &Cutoff, recipe: &Recipe) -> Result<(usize, bool), Error> {
    let mut rules = recipe.key.iter().chain(&recipe.values).enumerate();
    let found = rules.find(|(_, rule)| rule.name == cutoff.column || rule.target_name == cutoff.column);
    match found {
        Some((at, rule)) => match rule.common {
            Common::Timestamp { nanos, .. } => Ok((at, nanos)),
            _ => Err(Error::usage(format!(
                "--updated-at {}: this column is compared as {}; the time of a change needs a timestamp",
                cutoff.column,
                rule.compared_as()
            ))),
        },
        None => Err(Error::usage(format!(
            "--updated-at {}: there is no such column among those that are compared; name one that both sides have",
            cutoff.column
        ))),
    }
}
