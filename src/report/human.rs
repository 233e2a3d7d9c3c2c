//! The answer for people: the first line says it, the rest says where.

use std::fmt::Write;

use super::words::{
    self, CONTEXT, Quoting, counted, finding, grouped, key_text, parted, place, quoted, rows, shortened,
    visible,
};
use crate::compare::{
    CompareOutcome, Difference, DifferenceKind, Explanation, Pattern, Side, Tally, Values, Verdict,
};
use crate::schema::Finding;

/// How many differences, ranges and duplicate keys the text shows; JSON holds all that were listed.
const SHOWN: usize = 20;

/// How much further in a line goes on that is broken for a terminal, and the narrowest one for which it is.
const FURTHER_IN: usize = 6;
const NARROWEST: usize = 40;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Whether the reader's terminal shows colours.
    pub color: bool,
}

impl Style {
    pub(super) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub(super) fn odd(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn mark(self, text: &str) -> String {
        self.paint("1;31", text)
    }
}

/// The text for a terminal of this width: a longer line goes on below, further in.
pub fn fitted(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent = " ".repeat(line.len() - line.trim_start().len() + FURTHER_IN);
        if width < NARROWEST || textwrap::core::display_width(line) <= width {
            out.push_str(line);
        } else {
            let options = textwrap::Options::new(width)
                .subsequent_indent(&indent)
                .break_words(false)
                .word_separator(textwrap::WordSeparator::AsciiSpace)
                .word_splitter(textwrap::WordSplitter::NoHyphenation)
                .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
            out.push_str(&textwrap::fill(line, options));
        }
        out.push('\n');
    }
    out
}

/// The whole report of a comparison.
pub fn compare(outcome: &CompareOutcome, style: Style) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", headline(outcome, style));
    sides(&mut out, outcome, style);
    confirmation(&mut out, outcome, style);
    if let Some(tally) = &outcome.tally {
        columns(&mut out, outcome, tally, style);
        patterns(&mut out, tally, style);
        differences(&mut out, tally, &Quoting::of(outcome), style);
        duplicates(&mut out, tally, style);
        ranges(&mut out, tally, style);
    }
    notes(&mut out, outcome, style);
    findings(&mut out, &outcome.findings, style);
    not_compared(&mut out, outcome, style);
    out
}

/// The answer and what the differences have in common, without the rows.
pub fn summary(outcome: &CompareOutcome, style: Style) -> String {
    let mut out = format!("{}\n", headline(outcome, style));
    if let Some(tally) = &outcome.tally {
        patterns(&mut out, tally, style);
    }
    out
}

/// The answer in one line.
pub fn headline(outcome: &CompareOutcome, style: Style) -> String {
    painted(outcome.verdict(), &words::headline(outcome), style)
}

/// A line in its verdict's colour.
pub(super) fn painted(verdict: Verdict, line: &str, style: Style) -> String {
    match verdict {
        Verdict::Equal => style.paint("1;32", line),
        Verdict::Drift => style.mark(line),
        Verdict::Inconclusive | Verdict::Incomplete => style.paint("1;33", line),
    }
}

fn sides(out: &mut String, outcome: &CompareOutcome, style: Style) {
    for (word, side) in ["source", "target"].iter().zip(&outcome.sides) {
        let mut line = format!("  {word}  {}", side.name);
        if let Some(n) = side.rows {
            let _ = write!(line, "  {}", rows(n));
        }
        if let Some(position) = words::position(side) {
            let _ = write!(line, " at {position}");
        }
        let _ = writeln!(out, "{line}");
    }
    if let Some(recipe) = &outcome.recipe {
        let key: Vec<&str> = recipe.key.iter().map(|rule| rule.name.as_str()).collect();
        let key = if key.is_empty() { "none (multiset of rows)".into() } else { key.join(", ") };
        let seconds = outcome.elapsed.as_secs_f64();
        let _ = writeln!(
            out,
            "  key     {key}  {}",
            style.faint(&format!("({seconds:.1} s; {})", outcome.reason))
        );
    }
}

fn confirmation(out: &mut String, outcome: &CompareOutcome, style: Style) {
    if let Some(line) = words::confirmation(outcome) {
        let _ = writeln!(out, "          {}", style.faint(&line));
    }
}

fn heading(out: &mut String, text: &str, style: Style) {
    let _ = writeln!(out, "\n{}", style.bold(text));
}

fn columns(out: &mut String, outcome: &CompareOutcome, tally: &Tally, style: Style) {
    let Some(recipe) = &outcome.recipe else { return };
    let differing: Vec<(usize, &u64)> = tally.by_column.iter().enumerate().filter(|(_, n)| **n > 0).collect();
    if differing.is_empty() {
        return;
    }
    heading(out, "changed columns", style);
    let names: Vec<String> = differing.iter().map(|(at, _)| visible(&recipe.values[*at].name)).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    for ((at, n), name) in differing.iter().zip(names) {
        let (source, target) = outcome.engine_types.get(at + recipe.key.len()).cloned().unwrap_or_default();
        let types =
            style.faint(&format!("{source} → {target}, compared as {}", recipe.values[*at].compared_as()));
        let _ = writeln!(out, "  {name:width$}  {}  {types}", rows(**n));
    }
}

fn patterns(out: &mut String, tally: &Tally, style: Style) {
    let patterns = tally.patterns();
    if patterns.is_empty() {
        return;
    }
    heading(out, "what they have in common", style);
    let name = |p: &Pattern| p.column.as_deref().map_or("rows".to_string(), visible);
    let width = patterns.iter().map(|p| name(p).chars().count()).max().unwrap_or(0);
    for p in &patterns {
        let _ = writeln!(
            out,
            "  {:width$}  {}: {}  {}",
            name(p),
            p.pattern.replace('_', " "),
            p.detail,
            rows(p.rows)
        );
        if !p.places.is_empty() {
            let places: Vec<String> = p.places.iter().map(place).collect();
            let _ = writeln!(out, "  {:width$}  {}", "", style.faint(&format!("all {}", places.join(", "))));
        }
    }
}

fn differences(out: &mut String, tally: &Tally, quoting: &Quoting, style: Style) {
    if tally.differences.is_empty() {
        return;
    }
    let all = tally.different();
    let shown = tally.differences.len().min(SHOWN);
    let title = if all as usize > shown {
        format!("first {shown} of {} differences", grouped(all))
    } else {
        "differences".to_string()
    };
    heading(out, &title, style);
    for d in tally.differences.iter().take(SHOWN) {
        difference(out, d, quoting, style);
    }
}

fn difference(out: &mut String, d: &Difference, quoting: &Quoting, style: Style) {
    let key = if d.key.is_empty() { String::new() } else { format!("{}  ", key_text(&d.key)) };
    match d.kind {
        DifferenceKind::Changed => {
            let mut parts = Vec::new();
            for column in &d.columns {
                match (
                    d.source.as_ref().and_then(|v| v.get(column)),
                    d.target.as_ref().and_then(|v| v.get(column)),
                ) {
                    (Some(a), Some(b)) => {
                        let (a, b) = parted(a, b, quoting.of_column(column));
                        let [a, b] =
                            [a, b].map(|v| format!("{}{}{}", v.before, style.mark(&v.changed), v.behind));
                        parts.push(format!("{}: {a} → {b}", visible(column)));
                    }
                    _ => parts.push(visible(column)),
                }
            }
            let _ = writeln!(out, "  ~ {key}{}", parts.join(", "));
        }
        DifferenceKind::OnlyInSource => {
            let values = d.source.as_ref().map_or(String::new(), |v| row_text(v, quoting));
            let _ = writeln!(out, "  - {key}only in source  {}", style.faint(&values));
        }
        DifferenceKind::OnlyInTarget => {
            let values = d.target.as_ref().map_or(String::new(), |v| row_text(v, quoting));
            let _ = writeln!(out, "  + {key}only in target  {}", style.faint(&values));
        }
    }
}

fn row_text(values: &Values, quoting: &Quoting) -> String {
    let parts: Vec<String> = values
        .iter()
        .map(|(name, value)| {
            let text = quoted(value, quoting.of_column(name));
            format!("{}={}", visible(name), shortened(&text, 2 * CONTEXT))
        })
        .collect();
    parts.join(" ")
}

fn duplicates(out: &mut String, tally: &Tally, style: Style) {
    for (at, side) in [Side::Source, Side::Target].iter().enumerate() {
        if tally.duplicate_count[at] == 0 {
            continue;
        }
        heading(out, &format!("duplicate keys in the {}", side.word()), style);
        for d in tally.duplicates[at].iter().take(SHOWN) {
            let _ = writeln!(out, "  {}  {}", key_text(&d.key), rows(d.rows));
        }
        let more = tally.duplicate_count[at].saturating_sub(SHOWN.min(tally.duplicates[at].len()) as u64);
        if more > 0 {
            let _ = writeln!(out, "  and {} more", grouped(more));
        }
    }
}

fn ranges(out: &mut String, tally: &Tally, style: Style) {
    if tally.ranges.is_empty() {
        return;
    }
    let merged = if tally.ranges.are_merged() { " (near ones joined)" } else { "" };
    heading(out, &format!("smallest ranges that hold every difference{merged}"), style);
    for range in tally.ranges.iter().take(SHOWN) {
        let (from, to) = (key_text(&range.from), key_text(&range.to));
        let span = if from == to { from } else { format!("{from} … {to}") };
        let _ = writeln!(out, "  {span}  {}", rows(range.rows));
    }
    if tally.ranges.len() > SHOWN {
        let _ = writeln!(out, "  and {} more", grouped((tally.ranges.len() - SHOWN) as u64));
    }
}

fn notes(out: &mut String, outcome: &CompareOutcome, style: Style) {
    let Some(recipe) = &outcome.recipe else { return };
    let noted: Vec<_> = recipe
        .key
        .iter()
        .chain(&recipe.values)
        .filter_map(|rule| rule.note.as_ref().map(|note| (rule, note)))
        .collect();
    if noted.is_empty() {
        return;
    }
    heading(out, "how columns were compared", style);
    for (rule, note) in noted {
        let _ = writeln!(out, "  {}  {note}", visible(&rule.name));
    }
}

fn findings(out: &mut String, findings: &[Finding], style: Style) {
    if findings.is_empty() {
        return;
    }
    heading(out, "schema", style);
    for f in findings {
        let _ = writeln!(out, "  {:4}  {}", f.severity.word(), finding(f));
    }
}

fn not_compared(out: &mut String, outcome: &CompareOutcome, style: Style) {
    if outcome.not_compared.is_empty() {
        return;
    }
    heading(out, "not compared", style);
    for n in &outcome.not_compared {
        let what = n.column.as_deref().map_or("rows".to_string(), visible);
        let _ = writeln!(out, "  {:4}  {what}: {}", n.severity.word(), n.reason);
    }
}

/// The report of `drift schema`.
pub fn schema(outcome: &CompareOutcome, style: Style) -> String {
    let mut out = String::new();
    let bad = crate::report::json::schema_breaks(outcome);
    let n = outcome.findings.len() as u64;
    let line = if !outcome.not_compared.is_empty() {
        style.paint("1;33", "incomplete: the schemas were not compared, see below")
    } else if n == 0 {
        style.paint("1;32", "equal: the schemas hold the same values")
    } else {
        let text = counted(n, "difference", "differences");
        if bad {
            style.mark(&format!("drift: {text} between the schemas"))
        } else {
            style.paint("1;32", &format!("equal but for {text} that lose nothing"))
        }
    };
    let _ = writeln!(out, "{line}");
    sides(&mut out, outcome, style);
    findings(&mut out, &outcome.findings, style);
    not_compared(&mut out, outcome, style);
    out
}

/// The text of `--explain`.
pub fn explain(e: &Explanation, style: Style) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", style.bold("plan: stream; nothing was run"));
    let _ = writeln!(out, "  {}", e.reason);
    let key: Vec<&str> = e.recipe.key.iter().map(|rule| rule.name.as_str()).collect();
    let _ = writeln!(out, "  key: {}", if key.is_empty() { "none".into() } else { key.join(", ") });
    let _ = writeln!(out, "  ranges read at once: at most {}", e.threads);
    for at in [0, 1] {
        let side = ["source", "target"][at];
        let estimate = e.row_estimates[at].map_or("unknown".into(), |n| format!("about {}", grouped(n)));
        heading(&mut out, &format!("{side}  {}", e.names[at]), style);
        let _ = writeln!(out, "  rows: {estimate}; cost: one read of the compared columns (factor 1.0)");
        for statement in &e.statements[at] {
            let _ = writeln!(out, "  {statement}");
        }
    }
    if let Some(risk) = e.recipe.hash.risk() {
        let _ = writeln!(out, "\n  {risk}");
    }
    heading(&mut out, "columns", style);
    for (rule, (source, target)) in e.recipe.key.iter().chain(&e.recipe.values).zip(&e.engine_types) {
        let note = rule.note.as_deref().map_or(String::new(), |n| format!(" ({n})"));
        let _ = writeln!(
            out,
            "  {}  {source} → {target}, compared as {}{note}",
            visible(&rule.name),
            rule.compared_as()
        );
    }
    if !e.not_compared.is_empty() {
        heading(&mut out, "would not be compared", style);
        for n in &e.not_compared {
            let what = n.column.as_deref().map_or("rows".to_string(), visible);
            let _ = writeln!(out, "  {:4}  {what}: {}", n.severity.word(), n.reason);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_further_in() {
        let row = "  - id=1  only in source  name=\"Ada Berg\" city=\"Köln\" state=\"open\"";
        assert_eq!(fitted(&format!("{row}\nshort\n"), 80), format!("{row}\nshort\n"));
        let narrow = fitted(row, 44);
        assert_eq!(
            narrow,
            "  - id=1  only in source  name=\"Ada Berg\"\n        city=\"Köln\" state=\"open\"\n"
        );
        let style = Style { color: true };
        let painted = format!("  ~ {}", style.mark("x".repeat(38).as_str()));
        assert_eq!(fitted(&painted, 44).lines().count(), 1);
        assert_eq!(fitted(row, 10).lines().count(), 1);
    }
}
