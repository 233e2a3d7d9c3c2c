//! The file of `--repair`: statements for a person to review, with what they must know at the top.

use std::io::Write;

use super::words::headline;
use crate::compare::CompareOutcome;
use crate::endpoint::repair::one_line;

/// Writes the script. The error says why it cannot be written.
pub fn write(outcome: &mut CompareOutcome, out: &mut dyn Write) -> Result<(), String> {
    let mut header = vec![
        "Statements that would make the target equal to the source, written by drift. Review them first:"
            .into(),
        "drift never runs them. Each changes a row only as long as it is what drift saw.".into(),
        format!("source: {}", outcome.sides[0].name),
        format!("target: {}", outcome.sides[1].name),
        headline(outcome),
    ];
    let looked_at = "The differences stand as read once: rows that were merely late may be among them.";
    if outcome.confirmation.is_none() {
        header.push(looked_at.into());
    }
    let in_flight = outcome.tally.as_ref().map_or(0, |t| t.in_flight);
    if in_flight > 0 {
        header
            .push(format!("{in_flight} rows kept changing and are left out; compare again when they rest."));
    }
    let header: String = header.iter().map(|line: &String| format!("-- {}\n", one_line(line))).collect();
    outcome.repair_to(&header, out)
}
