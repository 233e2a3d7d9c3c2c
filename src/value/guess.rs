//! What may have made one value of another: guesses about a single pair, which only their number turns into a pattern.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, TimeUnit, UInt64Type,
};

use super::canon::Column;
use super::decimal::{self, Number};
use super::recipe::{ColumnRule, Common};
use super::same::ticks;
use super::temporal;

/// One of the two sides of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Where {
    /// The source's value.
    Source,
    /// The target's value.
    Target,
}

/// How blanks differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Blanks {
    /// Before the text.
    Leading,
    /// Behind the text.
    Trailing,
    /// On both ends.
    Both,
}

/// How a text was damaged on its way through another character set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Garbling {
    /// UTF-8 read as Windows-1252, and written as UTF-8 again.
    Windows1252,
    /// UTF-8 read as ISO 8859-1.
    Latin1,
    /// Characters replaced by question marks.
    QuestionMarks,
    /// The same characters, composed in another way.
    Composition,
}

/// What may have made the target's value of the source's, most telling first. `Where` names the side that lost
/// something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Guess {
    /// Both columns hold the value of the other; the number is that of the other column.
    Swapped(usize),
    /// One side has NULL, the other the empty text; this side has NULL.
    EmptyNull(Where),
    /// Blanks at the ends; this side lacks them.
    Trimmed(Blanks, Where),
    /// Letters in upper case here and in lower case there; `None` where both are mixed.
    Case(Option<Where>),
    /// Another character set on the way; this side is damaged.
    Encoding(Garbling, Where),
    /// Text cut behind so many characters.
    CutText(usize, Where),
    /// A number cut behind so many decimals.
    CutNumber(i8, Where),
    /// An instant or time cut to whole units of so many nanoseconds.
    CutTime(i64, Where),
    /// A number rounded to so many decimals.
    Rounded(i8, Where),
    /// An instant or time rounded to whole units of so many nanoseconds.
    RoundedTime(i64, Where),
    /// The target's number is the source's times this.
    Times(u32),
    /// The target's number is the source's divided by this.
    DividedBy(u32),
    /// The target's instant or time is so many nanoseconds later.
    Later(i128),
    /// The target's number is greater by this unscaled value at that scale.
    Greater(i128, i8),
}

const UNITS: [(i64, &str); 6] = [
    (1_000, "microseconds"),
    (1_000_000, "milliseconds"),
    (1_000_000_000, "seconds"),
    (60_000_000_000, "minutes"),
    (3_600_000_000_000, "hours"),
    (DAY, "days"),
];
const DAY: i64 = 86_400_000_000_000;
/// Factors between units that people mix up.
const FACTORS: [u32; 12] =
    [10, 100, 1_000, 10_000, 100_000, 1_000_000, 1_000_000_000, 1_024, 1_048_576, 60, 3_600, 24];

impl Guess {
    /// The pattern's name in reports.
    pub fn pattern(&self) -> &'static str {
        match self {
            Guess::Swapped(_) => "swapped",
            Guess::EmptyNull(_) => "empty_null",
            Guess::Trimmed(..) => "trimmed",
            Guess::Case(_) => "case",
            Guess::Encoding(..) => "encoding",
            Guess::CutText(..) | Guess::CutNumber(..) | Guess::CutTime(..) => "cut",
            Guess::Rounded(..) | Guess::RoundedTime(..) => "rounded",
            Guess::Times(_) | Guess::DividedBy(_) => "scaled",
            Guess::Later(_) | Guess::Greater(..) => "shifted",
        }
    }

    /// The constants, for people. `columns` are the names of the value columns.
    pub fn detail(&self, columns: &[String]) -> String {
        let lost = |side: &Where| if *side == Where::Source { " in the source" } else { "" };
        let unit = |nanos: &i64| UNITS.iter().find(|(n, _)| n == nanos).map_or("units", |(_, name)| *name);
        let decimals = |n: &i8| if *n == 1 { "1 decimal".to_string() } else { format!("{n} decimals") };
        match self {
            Guess::Swapped(other) => {
                format!("with {}", columns.get(*other).map_or("another column", String::as_str))
            }
            Guess::EmptyNull(Where::Source) => "NULL in the source, empty in the target".into(),
            Guess::EmptyNull(Where::Target) => "empty in the source, NULL in the target".into(),
            Guess::Trimmed(blanks, side) => {
                let which = match blanks {
                    Blanks::Leading => "leading blanks",
                    Blanks::Trailing => "trailing blanks",
                    Blanks::Both => "blanks on both ends",
                };
                let side = if *side == Where::Source { "source" } else { "target" };
                format!("{which} lacking in the {side}")
            }
            Guess::Case(None) => "upper and lower case".into(),
            Guess::Case(Some(Where::Source)) => "upper case in the source".into(),
            Guess::Case(Some(Where::Target)) => "upper case in the target".into(),
            Guess::Encoding(garbling, side) => {
                let how = match garbling {
                    Garbling::Windows1252 => "UTF-8 read as Windows-1252",
                    Garbling::Latin1 => "UTF-8 read as ISO 8859-1",
                    Garbling::QuestionMarks => "characters replaced by ?",
                    Garbling::Composition => return "composed and decomposed characters".into(),
                };
                format!("{how}{}", lost(side))
            }
            Guess::CutText(1, side) => format!("1 character{}", lost(side)),
            Guess::CutText(n, side) => format!("{n} characters{}", lost(side)),
            Guess::CutNumber(n, side) | Guess::Rounded(n, side) => format!("{}{}", decimals(n), lost(side)),
            Guess::CutTime(nanos, side) | Guess::RoundedTime(nanos, side) => {
                format!("whole {}{}", unit(nanos), lost(side))
            }
            Guess::Times(factor) => format!("×{factor}"),
            Guess::DividedBy(factor) => format!("÷{factor}"),
            Guess::Later(nanos) => span(*nanos),
            Guess::Greater(unscaled, scale) => {
                let sign = if *unscaled > 0 { "+" } else { "" };
                format!("{sign}{}", decimal::format(*unscaled, *scale, false))
            }
        }
    }

    /// How many rows it takes to believe it, out of so many that differ in this column: any two numbers lie some way
    /// apart.
    pub fn least(&self, differing: u64) -> u64 {
        match self {
            Guess::Later(_) | Guess::Greater(..) => (differing / 20).max(3),
            Guess::CutText(..) | Guess::Times(_) | Guess::DividedBy(_) => (differing / 100).max(2),
            _ => 1,
        }
    }

    /// Whether the guess holds a constant of the pair, so that chance makes as many as there are rows.
    pub fn is_arbitrary(&self) -> bool {
        matches!(self, Guess::Later(_) | Guess::Greater(..))
    }
}

/// `+2 h`, `-1 d 30 min`, `+0.5 s`.
fn span(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "+" };
    let mut rest = nanos.unsigned_abs();
    let mut parts = Vec::new();
    for (unit, name) in [(86_400_000_000_000, "d"), (3_600_000_000_000, "h"), (60_000_000_000, "min")] {
        if rest >= unit {
            parts.push(format!("{} {name}", rest / unit));
            rest %= unit;
        }
    }
    if rest > 0 {
        let seconds = format!("{}.{:09}", rest / 1_000_000_000, rest % 1_000_000_000);
        parts.push(format!("{} s", seconds.trim_end_matches('0').trim_end_matches('.')));
    }
    format!("{sign}{}", parts.join(" "))
}

/// All that may have made the value of row `j` in the target's column of that of row `i` in the source's, in order.
pub fn guesses(rule: &ColumnRule, a: &Column, i: usize, b: &Column, j: usize) -> Vec<Guess> {
    let mut out = Vec::new();
    if let (Some(x), Some(y)) = (nanos(a, i), nanos(b, j)) {
        times(x, y, &mut out);
    } else if let (Some(x), Some(y)) = (number(rule, a, i), number(rule, b, j)) {
        numbers(x, y, &mut out);
    } else if rule.common == Common::Text {
        match (text(a, i), text(b, j)) {
            (Some(x), Some(y)) => texts(x, y, &mut out),
            (Some(""), None) if b.is_null(j) => out.push(Guess::EmptyNull(Where::Target)),
            (None, Some("")) if a.is_null(i) => out.push(Guess::EmptyNull(Where::Source)),
            _ => {}
        }
    }
    out.sort();
    out
}

/// The day, instant or time in nanoseconds; `None` for values outside the calendar.
fn nanos(column: &Column, row: usize) -> Option<i128> {
    let values = &column.values;
    if values.is_null(row) {
        return None;
    }
    match values.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Time64(TimeUnit::Nanosecond) => {
            ticks(column, row).map(i128::from)
        }
        DataType::Date32 => {
            let midnight = temporal::timestamp_of_date(values.as_primitive::<Date32Type>().value(row))?;
            (!temporal::is_reserved_timestamp(midnight)).then_some(i128::from(midnight) * 1000)
        }
        _ => ticks(column, row).map(|micros| i128::from(micros) * 1000),
    }
}

fn times(a: i128, b: i128, out: &mut Vec<Guess>) {
    for (unit, _) in UNITS {
        let whole = i128::from(unit);
        for (fine, coarse, side) in [(a, b, Where::Target), (b, a, Where::Source)] {
            if fine.rem_euclid(whole) == 0 || coarse.rem_euclid(whole) != 0 {
                continue;
            }
            if fine - fine.rem_euclid(whole) == coarse {
                out.push(Guess::CutTime(unit, side));
            }
            if 2 * (fine - coarse).abs() <= whole {
                out.push(Guess::RoundedTime(unit, side));
            }
        }
    }
    out.push(Guess::Later(b - a));
}

/// A number as an unscaled value and its decimals; `None` for what is no finite number of that size.
fn number(rule: &ColumnRule, column: &Column, row: usize) -> Option<(i128, i8)> {
    let values = &column.values;
    if values.is_null(row) {
        return None;
    }
    let float = |v: f64| v.is_finite().then(|| parsed(&v.to_string())).flatten();
    match values.data_type() {
        DataType::Int64 => Some((values.as_primitive::<Int64Type>().value(row).into(), 0)),
        DataType::UInt64 => Some((values.as_primitive::<UInt64Type>().value(row).into(), 0)),
        DataType::Decimal128(_, scale) => {
            let v = values.as_primitive::<Decimal128Type>().value(row);
            (!decimal::is_reserved(v)).then_some((v, *scale))
        }
        DataType::Float32 => parsed(&values.as_primitive::<Float32Type>().value(row).to_string()),
        DataType::Float64 => float(values.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 if rule.common == Common::DecimalText => parsed(values.as_string::<i32>().value(row)),
        _ => None,
    }
}

fn parsed(text: &str) -> Option<(i128, i8)> {
    match Number::parse(text)? {
        n @ Number::Finite { exponent, .. } => {
            let scale = i8::try_from((-exponent).clamp(0, 37)).ok()?;
            Some((n.at_scale(scale)?, scale))
        }
        _ => None,
    }
}

fn numbers(a: (i128, i8), b: (i128, i8), out: &mut Vec<Guess>) {
    let scale = a.1.max(b.1);
    let (Some(x), Some(y)) = (decimal::rescale(a.0, a.1, scale), decimal::rescale(b.0, b.1, scale)) else {
        return;
    };
    for decimals in 0..scale {
        let Some(unit) = 10i128.checked_pow((scale - decimals).unsigned_abs().into()) else { continue };
        for (fine, coarse, side) in [(x, y, Where::Target), (y, x, Where::Source)] {
            if fine % unit == 0 || coarse % unit != 0 {
                continue;
            }
            if fine / unit * unit == coarse {
                out.push(Guess::CutNumber(decimals, side));
            }
            if fine.abs_diff(coarse).saturating_mul(2) <= unit.unsigned_abs() {
                out.push(Guess::Rounded(decimals, side));
            }
        }
    }
    for factor in FACTORS {
        if x != 0 && x.checked_mul(factor.into()) == Some(y) {
            out.push(Guess::Times(factor));
        }
        if y != 0 && y.checked_mul(factor.into()) == Some(x) {
            out.push(Guess::DividedBy(factor));
        }
    }
    if let Some(apart) = y.checked_sub(x) {
        let mut apart = (apart, scale);
        while apart.1 > 0 && apart.0 % 10 == 0 {
            apart = (apart.0 / 10, apart.1 - 1);
        }
        out.push(Guess::Greater(apart.0, apart.1));
    }
}

fn text(column: &Column, row: usize) -> Option<&str> {
    let values = &column.values;
    (values.is_valid(row) && *values.data_type() == DataType::Utf8)
        .then(|| values.as_string::<i32>().value(row))
}

fn texts(a: &str, b: &str, out: &mut Vec<Guess>) {
    if a.trim() == b.trim() {
        let side = if a.len() < b.len() { Where::Source } else { Where::Target };
        let blanks = match (a.trim_start() == b.trim_start(), a.trim_end() == b.trim_end()) {
            (true, false) => Blanks::Leading,
            (false, true) => Blanks::Trailing,
            _ => Blanks::Both,
        };
        out.push(Guess::Trimmed(blanks, side));
    } else if a.to_lowercase() == b.to_lowercase() {
        let upper = |text: &str| text.to_uppercase() == text;
        out.push(Guess::Case(match (upper(a), upper(b)) {
            (true, false) => Some(Where::Source),
            (false, true) => Some(Where::Target),
            _ => None,
        }));
    }
    for (whole, part, side) in [(a, b, Where::Target), (b, a, Where::Source)] {
        if !part.is_empty() && whole.starts_with(part) {
            out.push(Guess::CutText(part.chars().count(), side));
        }
        if !whole.is_ascii() {
            for garbling in [Garbling::Windows1252, Garbling::Latin1] {
                if misread(whole, garbling).is_some_and(|read| read == part) {
                    out.push(Guess::Encoding(garbling, side));
                }
            }
            if is_masked(whole, part) {
                out.push(Guess::Encoding(Garbling::QuestionMarks, side));
            }
        }
    }
    if !(a.is_ascii() || b.is_ascii()) && composed(a).eq(composed(b)) {
        out.push(Guess::Encoding(Garbling::Composition, Where::Target));
    }
}

fn composed(text: &str) -> impl Iterator<Item = char> {
    use unicode_normalization::UnicodeNormalization;
    text.nfc()
}

/// What UTF-8 looks like to one who reads single bytes.
fn misread(text: &str, garbling: Garbling) -> Option<String> {
    /// Windows-1252 at 0x80 to 0x9f; its five free places are read as the control characters of ISO 8859-1.
    const WINDOWS: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    let read = |byte: u8| match byte {
        0x80..=0x9f if garbling == Garbling::Windows1252 => WINDOWS[usize::from(byte - 0x80)],
        _ => char::from(byte),
    };
    let misread: String = text.bytes().map(read).collect();
    // Where no byte lies in between, both sets read the same; it is called by the commoner name.
    let same_as_windows = !text.bytes().any(|b| (0x80..=0x9f).contains(&b));
    (garbling == Garbling::Windows1252 || !same_as_windows).then_some(misread)
}

/// Whether `part` is `whole` with question marks (or the replacement character) for what is not ASCII.
fn is_masked(whole: &str, part: &str) -> bool {
    let mut rest = part.chars().peekable();
    let mut masked = false;
    for c in whole.chars() {
        match rest.next() {
            Some(found) if found == c => {}
            Some('?' | '\u{fffd}') if !c.is_ascii() => {
                masked = true;
                // One mark for each of its bytes, at some tools.
                let mut more = c.len_utf8() - 1;
                while more > 0 && matches!(rest.peek(), Some('?' | '\u{fffd}')) {
                    rest.next();
                    more -= 1;
                }
            }
            _ => return false,
        }
    }
    masked && rest.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_numbers(a: &str, b: &str) -> Vec<Guess> {
        let mut out = Vec::new();
        numbers(parsed(a).unwrap(), parsed(b).unwrap(), &mut out);
        out
    }

    fn of_texts(a: &str, b: &str) -> Vec<Guess> {
        let mut out = Vec::new();
        texts(a, b, &mut out);
        out
    }

    #[test]
    fn numbers_are_cut_rounded_scaled_and_shifted() {
        let t = Where::Target;
        assert_eq!(
            of_numbers("135.55", "135.50"),
            [Guess::CutNumber(1, t), Guess::Rounded(1, t), Guess::Greater(-5, 2)]
        );
        assert_eq!(of_numbers("135.56", "135.6"), [Guess::Rounded(1, t), Guess::Greater(4, 2)]);
        assert_eq!(of_numbers("-2.9", "-2"), [Guess::CutNumber(0, t), Guess::Greater(9, 1)]);
        assert_eq!(of_numbers("7", "700"), [Guess::Times(100), Guess::Greater(693, 0)]);
        assert_eq!(of_numbers("12.5", "0.0125"), [Guess::DividedBy(1000), Guess::Greater(-124875, 4)]);
        assert!(of_numbers("2", "2.25").contains(&Guess::CutNumber(0, Where::Source)));
    }

    #[test]
    fn instants_are_cut_rounded_and_shifted() {
        let of = |a, b| {
            let mut out = Vec::new();
            times(a, b, &mut out);
            out
        };
        let second = 1_000_000_000;
        let cut = of(5 * i128::from(second) + 700, 5 * i128::from(second));
        assert!(cut.contains(&Guess::CutTime(second, Where::Target)));
        assert!(
            of(second as i128 * 5 + 600_000_000, 6_000_000_000)
                .contains(&Guess::RoundedTime(second, Where::Target))
        );
        assert_eq!(Guess::Later(7_200_000_000_000).detail(&[]), "+2 h");
        assert_eq!(Guess::Later(-90_061_500_000_000).detail(&[]), "-1 d 1 h 1 min 1.5 s");
    }

    #[test]
    fn texts_are_trimmed_cut_garbled_and_in_another_case() {
        let t = Where::Target;
        assert!(of_texts("a ", "a").contains(&Guess::Trimmed(Blanks::Trailing, t)));
        assert!(of_texts("a", "  a").contains(&Guess::Trimmed(Blanks::Leading, Where::Source)));
        assert_eq!(of_texts("Ada", "ADA"), [Guess::Case(Some(t))]);
        assert_eq!(of_texts("a long text", "a long"), [Guess::CutText(6, t)]);
        assert_eq!(of_texts("Köln", "KÃ¶ln"), [Guess::Encoding(Garbling::Windows1252, t)]);
        assert_eq!(of_texts("“x”", "â€œxâ€\u{9d}"), [Guess::Encoding(Garbling::Windows1252, t)]);
        assert_eq!(of_texts("Köln", "K?ln"), [Guess::Encoding(Garbling::QuestionMarks, t)]);
        assert_eq!(
            of_texts("K\u{fffd}ln", "Köln"),
            [Guess::Encoding(Garbling::QuestionMarks, Where::Source)]
        );
        assert_eq!(of_texts("a😀", "a????"), [Guess::Encoding(Garbling::QuestionMarks, t)]);
        assert!(of_texts("René", "Rene\u{301}").contains(&Guess::Encoding(Garbling::Composition, t)));
        assert_eq!(of_texts("north", "south"), []);
    }
}
