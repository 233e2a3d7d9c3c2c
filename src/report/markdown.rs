//! The answer as Markdown, for tickets and reviews.

use std::fmt::Write;

use super::words::{
    self, Quoting, finding, grouped, headline, key_text, place, quoted, rows, shortened, visible,
};
use crate::compare::{CompareOutcome, Difference, DifferenceKind, Tally};

/// Rows of one list; JSON holds all that were listed.
const SHOWN: usize = 20;
/// Characters of one value.
const VALUE: usize = 60;

/// The whole report.
pub fn compare(outcome: &CompareOutcome) -> String {
    let mut out = format!("**{}**\n\n", text(&headline(outcome)));
    out.push_str("| side | table | rows | position |\n| --- | --- | --- | --- |\n");
    for (word, side) in ["source", "target"].iter().zip(&outcome.sides) {
        let count = side.rows.map_or("not read".into(), grouped);
        let at = words::position(side).map_or(String::new(), |at| code(&at));
        let _ = writeln!(out, "| {word} | {} | {count} | {at} |", code(&side.name));
    }
    if let Some(line) = words::confirmation(outcome) {
        let _ = writeln!(out, "\n{}", text(&line));
    }
    if !outcome.not_compared.is_empty() {
        out.push_str("\n### Not compared\n\n");
        for n in &outcome.not_compared {
            let what = n.column.as_deref().map_or("rows".to_string(), code);
            let _ = writeln!(out, "- {} {what}: {}", n.severity.word(), text(&n.reason));
        }
    }
    if let Some(tally) = &outcome.tally {
        columns(&mut out, outcome, tally);
        patterns(&mut out, tally);
        differences(&mut out, outcome, tally);
        ranges(&mut out, tally);
    }
    if !outcome.findings.is_empty() {
        out.push_str("\n### Schema\n\n");
        for f in &outcome.findings {
            let _ = writeln!(out, "- {}: {}", f.severity.word(), text(&finding(f)));
        }
    }
    out
}

fn columns(out: &mut String, outcome: &CompareOutcome, tally: &Tally) {
    let Some(recipe) = &outcome.recipe else { return };
    let differing = recipe.values.iter().zip(&tally.by_column).filter(|(_, n)| **n > 0);
    let lines: Vec<String> = differing
        .map(|(rule, n)| format!("| {} | {} | {} |", code(&rule.name), rule.compared_as(), grouped(*n)))
        .collect();
    if !lines.is_empty() {
        out.push_str("\n### Changed columns\n\n| column | compared as | rows |\n| --- | --- | --- |\n");
        let _ = writeln!(out, "{}", lines.join("\n"));
    }
}

fn patterns(out: &mut String, tally: &Tally) {
    let patterns = tally.patterns();
    if patterns.is_empty() {
        return;
    }
    out.push_str("\n### What they have in common\n\n| column | pattern | | rows | all of them |\n| --- | --- | --- | --- | --- |\n");
    for p in patterns {
        let places: Vec<String> = p.places.iter().map(|p| text(&shortened(&place(p), 4 * VALUE))).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            p.column.as_deref().map_or(String::new(), code),
            p.pattern.replace('_', " "),
            text(&p.detail),
            grouped(p.rows),
            places.join("; ")
        );
    }
}

fn differences(out: &mut String, outcome: &CompareOutcome, tally: &Tally) {
    if tally.differences.is_empty() {
        return;
    }
    let all = tally.different();
    let shown = tally.differences.len().min(SHOWN);
    let title = if all > shown as u64 {
        format!("First {shown} of {} differences", grouped(all))
    } else {
        "Differences".into()
    };
    let _ = writeln!(out, "\n### {title}\n\n| key | column | source | target |\n| --- | --- | --- | --- |");
    let quoting = Quoting::of(outcome);
    for d in tally.differences.iter().take(SHOWN) {
        difference(out, d, &quoting);
    }
}

fn difference(out: &mut String, d: &Difference, quoting: &Quoting) {
    let key = code(&shortened(&key_text(&d.key), 2 * VALUE));
    let (source, target) = match d.kind {
        DifferenceKind::Changed => {
            for column in &d.columns {
                let [a, b] = [&d.source, &d.target].map(|side| {
                    let value = side.as_ref().and_then(|values| values.get(column));
                    value.map_or(String::new(), |v| {
                        code(&shortened(&quoted(v, quoting.of_column(column)), VALUE))
                    })
                });
                let _ = writeln!(out, "| {key} | {} | {a} | {b} |", code(column));
            }
            return;
        }
        DifferenceKind::OnlyInSource => ("only here", ""),
        DifferenceKind::OnlyInTarget => ("", "only here"),
    };
    let _ = writeln!(out, "| {key} | | {source} | {target} |");
}

fn ranges(out: &mut String, tally: &Tally) {
    if tally.ranges.is_empty() {
        return;
    }
    let near = if tally.ranges.are_merged() { " (near ones joined)" } else { "" };
    let _ = writeln!(out, "\n### Smallest ranges that hold every difference{near}\n");
    for range in tally.ranges.iter().take(SHOWN) {
        let (from, to) = (code(&key_text(&range.from)), code(&key_text(&range.to)));
        let span = if from == to { from } else { format!("{from} … {to}") };
        let _ = writeln!(out, "- {span}: {}", rows(range.rows));
    }
    if tally.ranges.len() > SHOWN {
        let _ = writeln!(out, "- and {} more", grouped((tally.ranges.len() - SHOWN) as u64));
    }
}

/// Text in which nothing is markup, in a table or outside.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '|' | '<' | '>' | '[' | ']' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A value as it stands. A bar would end the cell even inside of code.
pub(super) fn code(text: &str) -> String {
    let text = visible(text).replace('|', "¦");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_its_cell() {
        assert_eq!(code("a|b"), "`a¦b`");
        assert_eq!(code("a``b"), "``` a``b ```");
        assert_eq!(text("*a*|<b>"), "\\*a\\*\\|\\<b\\>");
        assert_eq!(code("two\nlines"), "`two⏎lines`");
    }
}
