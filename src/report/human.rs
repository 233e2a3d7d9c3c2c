//! The answer for people: the first line says it, the rest says where.

use std::fmt::Write;

use serde_json::Value;

use crate::compare::{
    CompareOutcome, Difference, DifferenceKind, Explanation, Pattern, Place, Side, Tally, Values, Verdict,
};
use crate::schema::{Finding, FindingKind, Severity};
use crate::value::recipe::Common;

/// How many differences, ranges and duplicate keys the text shows; JSON holds all that were listed.
const SHOWN: usize = 20;
/// How many characters of a value are shown around its changed part.
const CONTEXT: usize = 24;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Whether the reader's terminal shows colours.
    pub color: bool,
}

impl Style {
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

/// `50000` as `50,000`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

fn rows(n: u64) -> String {
    counted(n, "row", "rows")
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

/// The answer in one line.
pub fn headline(outcome: &CompareOutcome, style: Style) -> String {
    let found = outcome.tally.as_ref().map_or(String::new(), |t| what_differs(t, outcome));
    match outcome.verdict() {
        Verdict::Equal => {
            let tally_rows = outcome.tally.as_ref().map_or(0, |t| t.equal);
            let columns = outcome.recipe.as_ref().map_or(0, |r| r.values.len() + r.key.len()) as u64;
            let line = format!("equal: {}, {}", rows(tally_rows), counted(columns, "column", "columns"));
            style.paint("1;32", &line)
        }
        Verdict::Drift => style.mark(&format!("drift: {found}")),
        Verdict::Inconclusive => {
            let (open, equal) = outcome.tally.as_ref().map_or((0, 0), |t| (t.in_flight, t.equal));
            let line = format!("inconclusive: {}, {} equal", in_flight(open), rows(equal));
            style.paint("1;33", &line)
        }
        Verdict::Incomplete => {
            let missing = outcome.not_compared.iter().filter(|n| n.severity == Severity::Fail).count() as u64;
            let what = counted(missing, "thing was", "things were");
            let line = if outcome.unconfirmed && !outcome.confirmed_drift() {
                format!("incomplete: {found}, not confirmed; {what} not compared, see below")
            } else if outcome.confirmed_drift() {
                format!("incomplete, with drift: {found}; {what} not compared, see below")
            } else {
                format!("incomplete: {what} not compared, see below; no difference in the rest")
            };
            let line = if outcome.tally.is_none() {
                "incomplete: nothing was compared, see below".into()
            } else {
                line
            };
            style.paint("1;33", &line)
        }
    }
}

fn in_flight(n: u64) -> String {
    format!("{} kept changing", rows(n))
}

fn what_differs(tally: &Tally, outcome: &CompareOutcome) -> String {
    let mut parts = Vec::new();
    let different = tally.different();
    if different > 0 {
        let kinds: Vec<String> = [
            (tally.only_in_source, "only in source"),
            (tally.only_in_target, "only in target"),
            (tally.changed, "changed"),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{} {word}", grouped(*n)))
        .collect();
        let all = tally.equal + different + tally.in_flight;
        let verb = if different == 1 { "differs" } else { "differ" };
        parts.push(format!("{} of {} {verb} ({})", grouped(different), rows(all), kinds.join(", ")));
    }
    for (side, n) in [Side::Source, Side::Target].iter().zip(tally.duplicate_count) {
        if n > 0 {
            parts.push(format!("{} in the {}", counted(n, "duplicate key", "duplicate keys"), side.word()));
        }
    }
    if tally.in_flight > 0 {
        parts.push(in_flight(tally.in_flight));
    }
    if outcome.columns_differ() {
        let n = outcome
            .findings
            .iter()
            .filter(|f| matches!(f.kind, FindingKind::ColumnMissing | FindingKind::ColumnAdded))
            .count() as u64;
        parts.push(format!("{} on one side only", counted(n, "column", "columns")));
        if different == 0 {
            parts.push(format!("all {} equal in the shared columns", rows(tally.equal)));
        }
    }
    parts.join("; ")
}

fn sides(out: &mut String, outcome: &CompareOutcome, style: Style) {
    for (word, side) in ["source", "target"].iter().zip(&outcome.sides) {
        let mut line = format!("  {word}  {}", side.name);
        if let Some(n) = side.rows {
            let _ = write!(line, "  {}", rows(n));
        }
        if let Some(position) = &side.position.log {
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
    let Some(confirmation) = &outcome.confirmation else { return };
    let times = match confirmation.rounds {
        1 => "once".to_string(),
        2 => "twice".to_string(),
        n => format!("{n} times"),
    };
    let mut line = format!("looked at again {times}, {} s apart", confirmation.wait.as_secs_f64());
    if confirmation.late > 0 {
        let verb = if confirmation.late == 1 { "was" } else { "were" };
        let _ = write!(line, ": {} {verb} only late", rows(confirmation.late));
    }
    let _ = writeln!(out, "          {}", style.faint(&line));
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

/// Where the rows of a pattern lie.
pub(super) fn place(place: &Place) -> String {
    match place {
        Place::Run { from, to } if from == to => format!("at {}", key_text(from)),
        Place::Run { from, to } => format!("in one run, {} … {}", key_text(from), key_text(to)),
        Place::Time { column, unit, from } => format!("in one {unit} of {}, {from}", visible(column)),
        Place::Value { column, value } => format!("where {} is {}", visible(column), visible(value)),
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
                        let (a, b) = changed_part(a, b, quoting.of_column(column), style);
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

fn key_text(key: &Values) -> String {
    let parts: Vec<String> =
        key.iter().map(|(name, value)| format!("{}={}", visible(name), bare(value))).collect();
    parts.join(" ")
}

fn row_text(values: &Values, quoting: &Quoting) -> String {
    let parts: Vec<String> = values
        .iter()
        .map(|(name, value)| {
            let text = quoted(value, quoting.of_column(name));
            let short: String = text.chars().take(2 * CONTEXT).collect();
            let more = if short.len() < text.len() { "…" } else { "" };
            format!("{}={short}{more}", visible(name))
        })
        .collect();
    parts.join(" ")
}

/// A key's value without quotation marks.
fn bare(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::String(s) => visible(s),
        other => other.to_string(),
    }
}

/// Which columns hold text, whose borders have to be seen.
struct Quoting(Vec<String>);

impl Quoting {
    fn of(outcome: &CompareOutcome) -> Quoting {
        let rules = outcome.recipe.iter().flat_map(|r| &r.values);
        let text = rules.filter(|rule| matches!(rule.common, Common::Text | Common::Json | Common::Set));
        Quoting(text.map(|rule| rule.name.clone()).collect())
    }

    /// The mark around values of the column.
    fn of_column(&self, name: &str) -> &'static str {
        if self.0.iter().any(|n| n == name) { "\"" } else { "" }
    }
}

fn quoted(value: &Value, mark: &str) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::String(s) => format!("{mark}{}{mark}", visible(s)),
        other => other.to_string(),
    }
}

/// Two values with their changed part marked; long ones are cut around it.
fn changed_part(a: &Value, b: &Value, mark: &str, style: Style) -> (String, String) {
    let (Value::String(a), Value::String(b)) = (a, b) else { return (quoted(a, mark), quoted(b, mark)) };
    let (x, y): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let prefix = x.iter().zip(&y).take_while(|(p, q)| p == q).count();
    let most = x.len().min(y.len()) - prefix;
    let suffix = x.iter().rev().zip(y.iter().rev()).take(most).take_while(|(p, q)| p == q).count();
    let show = |chars: &[char]| {
        let text = |part: &[char]| visible(&part.iter().collect::<String>());
        let (from, to) = (prefix, chars.len() - suffix);
        let start = from.saturating_sub(CONTEXT);
        let end = (to + CONTEXT).min(chars.len());
        let (head, tail) = (if start > 0 { "…" } else { "" }, if end < chars.len() { "…" } else { "" });
        let middle = &chars[from..to];
        let middle = if middle.len() > 4 * CONTEXT {
            format!("{}…", text(&middle[..4 * CONTEXT]))
        } else {
            text(middle)
        };
        format!(
            "{mark}{head}{}{}{}{tail}{mark}",
            text(&chars[start..from]),
            style.mark(&middle),
            text(&chars[to..end])
        )
    };
    (show(&x), show(&y))
}

/// Text with blanks at the ends, runs of blanks, line ends and control characters made visible.
fn visible(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    for (i, c) in chars.iter().enumerate() {
        match c {
            ' ' if i == 0 || i + 1 == chars.len() || chars[i - 1] == ' ' || chars[i + 1] == ' ' => {
                out.push('·')
            }
            '\n' => out.push('⏎'),
            '\t' => out.push('⇥'),
            '\r' => out.push('␍'),
            '\u{a0}' | '\u{200b}' | '\u{feff}' | '\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(*c));
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(*c));
            }
            c => out.push(*c),
        }
    }
    out
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
    let merged = if tally.ranges_merged { " (near ones joined)" } else { "" };
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
        let _ = writeln!(out, "  {:4}  {}", f.severity.word(), finding_text(f));
    }
}

fn finding_text(f: &Finding) -> String {
    let column = f.column.as_deref().map_or(String::new(), |c| format!("{} ", visible(c)));
    let from = f.source.as_deref().unwrap_or("none");
    let to = f.target.as_deref().unwrap_or("none");
    match f.kind {
        FindingKind::ColumnMissing => format!("{column}exists in the source only ({from})"),
        FindingKind::ColumnAdded => format!("{column}exists in the target only ({to})"),
        FindingKind::TypeChanged => format!("{column}{from} → {to}"),
        FindingKind::NullabilityChanged => format!("{column}{from} → {to}"),
        FindingKind::KeyChanged => format!("primary key ({from}) → ({to})"),
        FindingKind::OrderChanged => format!("order of columns: {from} → {to}"),
        FindingKind::DefaultChanged => format!("{column}default {from} → {to}"),
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
    fn white_space_is_visible_where_it_matters() {
        assert_eq!(visible("y "), "y·");
        assert_eq!(visible(" a  b c\n"), "·a··b c⏎");
        assert_eq!(visible("\u{1b}[31m"), "\\u{1b}[31m");
    }

    #[test]
    fn the_changed_part_is_marked_and_long_values_are_cut() {
        let style = Style { color: false };
        let long = "x".repeat(100);
        let (a, b) = (Value::from(format!("{long}A{long}")), Value::from(format!("{long}B{long}")));
        let (a, b) = changed_part(&a, &b, "\"", style);
        assert!(a.contains('A') && b.contains('B') && a.chars().count() < 60, "{a}");
        let (a, b) = changed_part(&"aa".into(), &"a".into(), "\"", style);
        assert_eq!((a.as_str(), b.as_str()), ("\"aa\"", "\"a\""));
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
