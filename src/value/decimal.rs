//! Exact decimals of any size.
//!
//! Up to 38 digits travel as `i128` at a scale (Arrow's `Decimal128`); the values beyond 38 digits are reserved for NaN
//! and the infinities, which only equal themselves. Everything wider is canonical text.

use std::borrow::Cow;

/// Reserved: not a number.
pub const NAN: i128 = i128::MAX;
/// Reserved: infinity.
pub const INFINITY: i128 = i128::MAX - 1;
/// Reserved: minus infinity.
pub const MINUS_INFINITY: i128 = i128::MIN;
/// The first value that 38 digits cannot hold.
const LIMIT: i128 = 10i128.pow(38);

/// Whether the value is NaN or infinite.
pub fn is_reserved(value: i128) -> bool {
    value >= LIMIT || value <= -LIMIT
}

/// The word for a reserved value.
pub fn reserved_word(value: i128) -> &'static str {
    match value {
        INFINITY => "Infinity",
        MINUS_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

/// A number as read from text, without any loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Number<'a> {
    /// `sign * digits * 10^exponent`; digits without leading or trailing zeros, empty for zero.
    Finite {
        /// Below zero.
        negative: bool,
        /// Decimal digits.
        digits: Cow<'a, str>,
        /// Power of ten of the last digit.
        exponent: i64,
    },
    /// Not a number.
    Nan,
    /// Infinity; `true` for the negative one.
    Infinite(bool),
}

impl<'a> Number<'a> {
    /// Reads a number: optional sign, digits with an optional point, optional exponent; `NaN`, `Infinity`.
    /// `None` when the text is no number. Blanks are not skipped: they are part of the text.
    pub fn parse(text: &'a str) -> Option<Number<'a>> {
        let (negative, body) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let first = *body.as_bytes().first()?;
        if !first.is_ascii_digit() && first != b'.' {
            return match body.to_ascii_lowercase().as_str() {
                "nan" => Some(Number::Nan),
                "infinity" | "inf" => Some(Number::Infinite(negative)),
                _ => None,
            };
        }
        let (mantissa, exponent) = match body.find(['e', 'E']) {
            Some(at) => (&body[..at], body[at + 1..].parse::<i64>().ok().filter(|e| e.abs() <= 1_000_000)?),
            None => (body, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let mut exponent = exponent - fraction.len() as i64;
        let digits: Cow<'a, str> = if fraction.bytes().all(|b| b == b'0') {
            exponent += fraction.len() as i64;
            Cow::Borrowed(whole)
        } else if whole.bytes().all(|b| b == b'0') {
            Cow::Borrowed(fraction)
        } else {
            Cow::Owned(format!("{whole}{fraction}"))
        };
        let leading = digits.bytes().take_while(|b| *b == b'0').count();
        let kept = digits[leading..].trim_end_matches('0').len();
        exponent += (digits.len() - leading - kept) as i64;
        if kept == 0 {
            return Some(Number::Finite { negative: false, digits: Cow::Borrowed(""), exponent: 0 });
        }
        let digits = match digits {
            Cow::Borrowed(s) => Cow::Borrowed(&s[leading..leading + kept]),
            Cow::Owned(s) => Cow::Owned(s[leading..leading + kept].to_string()),
        };
        Some(Number::Finite { negative, digits, exponent })
    }

    /// The value at `scale` digits behind the point, if it fits 38 digits there exactly.
    pub fn at_scale(&self, scale: i8) -> Option<i128> {
        match self {
            Number::Nan => Some(NAN),
            Number::Infinite(false) => Some(INFINITY),
            Number::Infinite(true) => Some(MINUS_INFINITY),
            Number::Finite { negative, digits, exponent } => {
                if digits.is_empty() {
                    return Some(0);
                }
                let zeros = exponent.checked_add(i64::from(scale))?;
                if zeros < 0 || digits.len() as i64 + zeros > 38 {
                    return None;
                }
                let value = digits.parse::<i128>().ok()? * 10i128.pow(zeros as u32);
                Some(if *negative { -value } else { value })
            }
        }
    }

    /// The value as a whole number of 64 bits, if it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Number::Finite { .. } => self.at_scale(0).and_then(|v| i64::try_from(v).ok()),
            _ => None,
        }
    }

    /// The value as an unsigned whole number of 64 bits, if it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Number::Finite { .. } => self.at_scale(0).and_then(|v| u64::try_from(v).ok()),
            _ => None,
        }
    }

    /// The canonical spelling: no exponent, no superfluous zeros. Numbers of more than 2,000 places keep an exponent.
    pub fn canonical(&self) -> String {
        match self {
            Number::Nan => "NaN".into(),
            Number::Infinite(false) => "Infinity".into(),
            Number::Infinite(true) => "-Infinity".into(),
            Number::Finite { negative, digits, exponent } => {
                let sign = if *negative { "-" } else { "" };
                let point = digits.len() as i64 + exponent;
                if digits.is_empty() {
                    "0".into()
                } else if exponent.abs() > 2000 {
                    format!("{sign}{digits}e{exponent}")
                } else if *exponent >= 0 {
                    format!("{sign}{digits}{}", "0".repeat(*exponent as usize))
                } else if point > 0 {
                    format!("{sign}{}.{}", &digits[..point as usize], &digits[point as usize..])
                } else {
                    format!("{sign}0.{}{digits}", "0".repeat(-point as usize))
                }
            }
        }
    }

    /// Appends bytes whose order is the order of the values: -Infinity, negative, zero, positive, Infinity, NaN.
    pub fn write_ordered(&self, out: &mut Vec<u8>) {
        match self {
            Number::Infinite(true) => out.push(0),
            Number::Infinite(false) => out.push(4),
            Number::Nan => out.push(5),
            Number::Finite { digits, .. } if digits.is_empty() => out.push(2),
            Number::Finite { negative, digits, exponent } => {
                out.push(if *negative { 1 } else { 3 });
                let magnitude = digits.len() as i64 + exponent;
                let flip = if *negative { 0xff } else { 0 };
                let head = (magnitude as u64) ^ (1 << 63);
                out.extend(head.to_be_bytes().iter().map(|b| b ^ flip));
                out.extend(digits.bytes().map(|b| b ^ flip));
                // The terminator sorts a shorter run of digits before a longer one, or behind it when negative.
                out.push(flip);
            }
        }
    }
}

/// Writes `value * 10^-scale` in canonical spelling, trailing zeros kept to `scale` when `padded`.
pub fn format(value: i128, scale: i8, padded: bool) -> String {
    if is_reserved(value) {
        return reserved_word(value).into();
    }
    if scale <= 0 {
        let zeros = if value == 0 { 0 } else { -i32::from(scale) as usize };
        return format!("{value}{}", "0".repeat(zeros));
    }
    let scale = scale as usize;
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let fraction = if padded { fraction } else { fraction.trim_end_matches('0') };
    let sign = if value < 0 { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Moves a value from one scale to another; `None` when digits would be lost or 38 digits exceeded.
pub fn rescale(value: i128, from: i8, to: i8) -> Option<i128> {
    if is_reserved(value) {
        return Some(value);
    }
    let by = i32::from(to) - i32::from(from);
    let moved = if by >= 0 {
        value.checked_mul(10i128.checked_pow(by as u32)?)?
    } else {
        let unit = 10i128.checked_pow(by.unsigned_abs())?;
        if value % unit != 0 {
            return None;
        }
        value / unit
    };
    (!is_reserved(moved)).then_some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Option<String> {
        Number::parse(text).map(|n| n.canonical())
    }

    #[test]
    fn spelling_does_not_matter_digits_do() {
        for (text, want) in [
            ("7.00000", "7"),
            ("007", "7"),
            ("-0.370", "-0.37"),
            ("-0", "0"),
            ("1e5", "100000"),
            ("1.50E-3", "0.0015"),
            (".5", "0.5"),
            ("5.", "5"),
            ("nan", "NaN"),
            ("-inf", "-Infinity"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(want), "{text}");
        }
        for bad in ["", "-", ".", "1,5", " 1", "1 ", "0x10", "1e", "--1", "n/a"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }

    #[test]
    fn scale_is_exact_or_refused() {
        let n = |s: &str, scale| Number::parse(s).unwrap().at_scale(scale);
        assert_eq!(n("41.275", 2), None);
        assert_eq!(n("41.270", 2), Some(4127));
        assert_eq!(n("-1e3", 0), Some(-1000));
        assert_eq!(n("1e38", 0), None);
        assert_eq!(n(&"9".repeat(38), 0), Some(LIMIT - 1));
        assert_eq!(rescale(4127, 2, 4), Some(412_700));
        assert_eq!(rescale(4127, 2, 1), None);
        assert_eq!(rescale(NAN, 2, 1), Some(NAN));
    }

    #[test]
    fn ordered_bytes_sort_by_value() {
        let sorted = [
            "-Infinity",
            "-1e30",
            "-123.5",
            "-123.45",
            "-12",
            "-0.5",
            "-0.05",
            "0",
            "0.05",
            "0.5",
            "0.55",
            "1",
            "1.5",
            "2",
            "10",
            "12",
            "123.45",
            "123.5",
            "1e30",
            "Infinity",
            "NaN",
        ];
        let bytes: Vec<Vec<u8>> = sorted
            .iter()
            .map(|s| {
                let mut out = Vec::new();
                Number::parse(s).unwrap().write_ordered(&mut out);
                out
            })
            .collect();
        assert!(bytes.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn formatting_keeps_or_drops_trailing_zeros() {
        assert_eq!(format(-37, 2, false), "-0.37");
        assert_eq!(format(700, 2, false), "7");
        assert_eq!(format(700, 2, true), "7.00");
        assert_eq!(format(5, -3, false), "5000");
    }
}
