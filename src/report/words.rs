//! The words that all reports share: the one-line answer, values with what is invisible made visible, counts.

use std::fmt::Write;

use serde_json::Value;

use crate::compare::{
    CONFIDENCE, CompareOutcome, Place, Population, Sampled, Side, SideOutcome, Tally, Values, Verdict,
};
use crate::schema::{Finding, FindingKind, Severity};
use crate::value::recipe::Common;

/// How many characters of a value are shown around its changed part.
pub(super) const CONTEXT: usize = 24;

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

/// `1 row`, `50,000 rows`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

pub(super) fn rows(n: u64) -> String {
    counted(n, "row", "rows")
}

/// The answer in one line.
pub fn headline(outcome: &CompareOutcome) -> String {
    let found = outcome.tally.as_ref().map_or(String::new(), |t| what_differs(t, outcome));
    match outcome.verdict() {
        Verdict::Equal if outcome.sample.is_some() => {
            format!("no difference in a sample of {}{}", sample_size(outcome), bound(outcome))
        }
        Verdict::Equal => {
            let tally_rows = outcome.tally.as_ref().map_or(0, |t| t.equal);
            let columns = outcome.recipe.as_ref().map_or(0, |r| r.values.len() + r.key.len()) as u64;
            let young = match outcome.tally.as_ref().map_or(0, |t| t.in_flight) {
                0 => String::new(),
                n => format!("; {}", in_flight(n, outcome)),
            };
            format!("equal: {}, {}{young}", rows(tally_rows), counted(columns, "column", "columns"))
        }
        Verdict::Drift if outcome.sample.is_some() => {
            format!("drift: {found} in a sample{}{}", population(outcome), bound(outcome))
        }
        Verdict::Drift => format!("drift: {found}"),
        Verdict::Inconclusive => {
            let (open, equal) = outcome.tally.as_ref().map_or((0, 0), |t| (t.in_flight, t.equal));
            format!("inconclusive: {}, {} equal", in_flight(open, outcome), rows(equal))
        }
        Verdict::Incomplete if outcome.tally.is_none() => {
            "incomplete: nothing was compared, see below".into()
        }
        Verdict::Incomplete => {
            let missing = outcome.not_compared.iter().filter(|n| n.severity == Severity::Fail).count() as u64;
            let what = counted(missing, "thing was", "things were");
            if outcome.unconfirmed && !outcome.confirmed_drift() {
                format!("incomplete: {found}, not confirmed; {what} not compared, see below")
            } else if outcome.confirmed_drift() {
                format!("incomplete, with drift: {found}; {what} not compared, see below")
            } else {
                format!("incomplete: {what} not compared, see below; no difference in the rest")
            }
        }
    }
}

/// The same with the reasons where something was not compared, for lists that show nothing else.
pub(super) fn brief(outcome: &CompareOutcome) -> String {
    if outcome.verdict() != Verdict::Incomplete {
        return headline(outcome);
    }
    let reasons: Vec<&str> = outcome.not_compared.iter().map(|n| n.reason.as_str()).collect();
    let reasons = reasons.join("; ");
    match &outcome.tally {
        Some(tally) if tally.different() > 0 => {
            format!("incomplete: {}; {reasons}", what_differs(tally, outcome))
        }
        Some(_) => format!("incomplete: {reasons}; no difference in the rest"),
        None => format!("incomplete: {reasons}"),
    }
}

/// Where a side's views stood.
pub(super) fn position(side: &SideOutcome) -> Option<String> {
    let first = side.position.log.as_deref();
    match side.read_on_at.as_slice() {
        [] => first.map(str::to_string),
        more => Some(format!(
            "{}, and after a lost connection at {}",
            first.unwrap_or("an unknown position"),
            more.join(" and ")
        )),
    }
}

fn sample_size(outcome: &CompareOutcome) -> String {
    let size = outcome.sample.as_ref().map_or(0, |sample| sample.bound.rows);
    format!("{}{}", rows(size), population(outcome))
}

/// What the sample was drawn from.
fn population(outcome: &CompareOutcome) -> String {
    match outcome.sample.and_then(|sample| sample.of) {
        Some(Population::Counted(n)) => format!(" of {}", grouped(n)),
        Some(Population::Estimated(n)) => format!(" of about {}", grouped(n)),
        None => String::new(),
    }
}

/// What the sample says about the rest.
fn bound(outcome: &CompareOutcome) -> String {
    let Some(Sampled { bound, .. }) = &outcome.sample else { return String::new() };
    let percent = |share: f64| {
        let percent = share * 100.0;
        let digits =
            if percent >= 1.0 || percent == 0.0 { 1 } else { (1.0 - percent.log10()).ceil() as usize };
        format!("{percent:.digits$} %")
    };
    let confidence = CONFIDENCE * 100.0;
    match bound.differing {
        0 => format!("; with {confidence} % confidence at most {} of all rows differ", percent(bound.high)),
        _ => format!(
            "; with {confidence} % confidence {} to {} of all rows differ",
            percent(bound.low),
            percent(bound.high)
        ),
    }
}

fn in_flight(n: u64, outcome: &CompareOutcome) -> String {
    match &outcome.cutoff {
        Some(_) if n == 1 => "1 differing row is younger than the cutoff".into(),
        Some(_) => format!("{} differing rows are younger than the cutoff", grouped(n)),
        None => format!("{} kept changing", rows(n)),
    }
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
        parts.push(in_flight(tally.in_flight, outcome));
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

/// How often what differed was looked at again, and what came of it.
pub(super) fn confirmation(outcome: &CompareOutcome) -> Option<String> {
    let confirmation = outcome.confirmation.as_ref()?;
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
    Some(line)
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

pub(super) fn key_text(key: &Values) -> String {
    let parts: Vec<String> =
        key.iter().map(|(name, value)| format!("{}={}", visible(name), bare(value))).collect();
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
pub(super) struct Quoting(Vec<String>);

impl Quoting {
    pub(super) fn of(outcome: &CompareOutcome) -> Quoting {
        let rules = outcome.recipe.iter().flat_map(|r| &r.values);
        let text = rules.filter(|rule| matches!(rule.common, Common::Text | Common::Json | Common::Set));
        Quoting(text.map(|rule| rule.name.clone()).collect())
    }

    /// The mark around values of the column.
    pub(super) fn of_column(&self, name: &str) -> &'static str {
        if self.0.iter().any(|n| n == name) { "\"" } else { "" }
    }
}

pub(super) fn quoted(value: &Value, mark: &str) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::String(s) => format!("{mark}{}{mark}", visible(s)),
        other => other.to_string(),
    }
}

/// A value beside another one: what is the same before and behind, and what is not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parted {
    pub(super) before: String,
    pub(super) changed: String,
    pub(super) behind: String,
}

/// Two values with their changed parts; long ones are cut around them.
pub(super) fn parted(a: &Value, b: &Value, mark: &str) -> (Parted, Parted) {
    let (Value::String(a), Value::String(b)) = (a, b) else {
        let alone = |v| Parted { before: quoted(v, mark), changed: String::new(), behind: String::new() };
        return (alone(a), alone(b));
    };
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
        let changed = if middle.len() > 4 * CONTEXT {
            format!("{}…", text(&middle[..4 * CONTEXT]))
        } else {
            text(middle)
        };
        Parted {
            before: format!("{mark}{head}{}", text(&chars[start..from])),
            changed,
            behind: format!("{}{tail}{mark}", text(&chars[to..end])),
        }
    };
    (show(&x), show(&y))
}

/// At most so many characters of a text.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let short: String = text.chars().take(most).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// Text with blanks at the ends, runs of blanks, line ends and control characters made visible.
pub(super) fn visible(text: &str) -> String {
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

/// Text in which nothing is markup, for HTML and XML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

pub(super) fn finding(f: &Finding) -> String {
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
    fn the_changed_part_is_told_apart_and_long_values_are_cut() {
        let long = "x".repeat(100);
        let (a, b) = (Value::from(format!("{long}A{long}")), Value::from(format!("{long}B{long}")));
        let (a, b) = parted(&a, &b, "\"");
        assert_eq!((a.changed.as_str(), b.changed.as_str()), ("A", "B"));
        assert!(a.before.chars().count() + a.behind.chars().count() < 60, "{a:?}");
        let (a, b) = parted(&"aa".into(), &"a".into(), "\"");
        assert_eq!((a.changed.as_str(), b.changed.as_str()), ("a", ""));
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
