//! Days, times and instants, with the values that ordinary calendars do not have.
//!
//! Days count from 1970-01-01, instants in microseconds or nanoseconds from 1970-01-01 00:00:00 UTC, in the proleptic
//! Gregorian calendar (ISO 8601; year 0 is 1 BC). The ends of the integer range are reserved: the greatest value is
//! `infinity`, the least is `-infinity`, and the values just above the least hold MySQL's impossible dates
//! (`0000-00-00`, `2026-07-00`, `2026-02-31`), which are values of their own and equal to nothing else.

use std::fmt::Write;

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Months and days of an impossible date are packed as `(year * 13 + month) * 32 + day`.
const IMPOSSIBLE_DATES: i64 = 10_000 * 13 * 32;
const IMPOSSIBLE_TIMESTAMPS: i64 = IMPOSSIBLE_DATES * MICROS_PER_DAY;

/// Day number of a proleptic Gregorian date (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let mp = (i64::from(month) + 9) % 12;
    let doy = (153 * mp + 2) / 5 + i64::from(day) - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    era * 146_097 + doe - 719_468
}

/// Date of a day number: year, month, day.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    (yoe + era * 400 + i64::from(month <= 2), month, day)
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_real(year: i64, month: u32, day: u32) -> bool {
    (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month)
}

/// A MySQL date: a day number, or the reserved value of an impossible date. Year 0 to 9999, month 0 to 12, day 0 to 31.
/// MySQL's year 0 is impossible only together with a month or day of 0.
pub fn mysql_date(year: u16, month: u8, day: u8) -> i32 {
    let (y, m, d) = (i64::from(year), u32::from(month), u32::from(day));
    if is_real(y, m, d) {
        days_from_civil(y, m, d) as i32
    } else {
        i32::MIN + 1 + ((y * 13 + i64::from(m)) * 32 + i64::from(d)) as i32
    }
}

/// A MySQL datetime in microseconds, or the reserved value of an impossible one. `micros_of_day` is below one day.
pub fn mysql_timestamp(year: u16, month: u8, day: u8, micros_of_day: i64) -> i64 {
    let date = mysql_date(year, month, day);
    match impossible_date(date) {
        None => i64::from(date) * MICROS_PER_DAY + micros_of_day,
        Some(packed) => i64::MIN + 1 + packed * MICROS_PER_DAY + micros_of_day,
    }
}

fn impossible_date(days: i32) -> Option<i64> {
    let packed = i64::from(days) - i64::from(i32::MIN) - 1;
    (0..IMPOSSIBLE_DATES).contains(&packed).then_some(packed)
}

fn impossible_timestamp(micros: i64) -> Option<i64> {
    let packed = micros.checked_sub(i64::MIN + 1)?;
    (0..IMPOSSIBLE_TIMESTAMPS).contains(&packed).then_some(packed)
}

/// Whether the day is one of MySQL's impossible dates.
pub fn is_impossible_date(days: i32) -> bool {
    impossible_date(days).is_some()
}

/// Whether the instant (microseconds) is one of MySQL's impossible datetimes.
pub fn is_impossible_timestamp(micros: i64) -> bool {
    impossible_timestamp(micros).is_some()
}

/// Whether the instant (microseconds) is infinite or impossible, so that no arithmetic applies to it.
pub fn is_reserved_timestamp(micros: i64) -> bool {
    micros == i64::MAX || micros == i64::MIN || is_impossible_timestamp(micros)
}

/// Midnight of a day in microseconds, keeping infinities and impossible dates; `None` when it lies outside 64 bits.
pub fn timestamp_of_date(days: i32) -> Option<i64> {
    match days {
        i32::MAX => Some(i64::MAX),
        i32::MIN => Some(i64::MIN),
        _ => match impossible_date(days) {
            Some(packed) => Some(i64::MIN + 1 + packed * MICROS_PER_DAY),
            None => {
                i64::from(days).checked_mul(MICROS_PER_DAY).filter(|micros| !is_reserved_timestamp(*micros))
            }
        },
    }
}

fn write_date(out: &mut String, year: i64, month: u32, day: u32) {
    // ISO 8601: astronomical years, so 1 BC is 0000 and 2 BC is -0001; more than four digits need a sign.
    let _ = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
}

fn write_packed_date(out: &mut String, packed: i64) {
    let _ = write!(out, "{:04}-{:02}-{:02}", packed / (13 * 32), packed / 32 % 13, packed % 32);
}

/// A day as text: ISO 8601, `infinity`, `-infinity`, or the impossible date as stored.
pub fn format_date(days: i32) -> String {
    let mut out = String::new();
    match (days, impossible_date(days)) {
        (i32::MAX, _) => out.push_str("infinity"),
        (i32::MIN, _) => out.push_str("-infinity"),
        (_, Some(packed)) => write_packed_date(&mut out, packed),
        _ => {
            let (y, m, d) = civil_from_days(i64::from(days));
            write_date(&mut out, y, m, d);
        }
    }
    out
}

/// Writes `HH:MM:SS` with as many fractional digits as are not zero; `nanos` below one second.
fn write_clock(out: &mut String, seconds: i64, nanos: i64) {
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if nanos != 0 {
        let fraction = format!("{nanos:09}");
        let _ = write!(out, ".{}", fraction.trim_end_matches('0'));
    }
}

/// A time of day, or a MySQL duration, as text. `nanos` is signed nanoseconds.
pub fn format_time(nanos: i64) -> String {
    let mut out = String::new();
    if nanos < 0 {
        out.push('-');
    }
    let n = nanos.unsigned_abs();
    write_clock(&mut out, (n / 1_000_000_000) as i64, (n % 1_000_000_000) as i64);
    out
}

/// An instant as text, RFC 3339 with `T`; `zoned` appends `Z`. Unit: microseconds.
pub fn format_timestamp_micros(micros: i64, zoned: bool) -> String {
    let mut out = String::new();
    match (micros, impossible_timestamp(micros)) {
        (i64::MAX, _) => return "infinity".into(),
        (i64::MIN, _) => return "-infinity".into(),
        (_, Some(packed)) => {
            write_packed_date(&mut out, packed / MICROS_PER_DAY);
            out.push('T');
            let rest = packed % MICROS_PER_DAY;
            write_clock(&mut out, rest / 1_000_000, rest % 1_000_000 * 1000);
        }
        _ => {
            let (y, m, d) = civil_from_days(micros.div_euclid(MICROS_PER_DAY));
            write_date(&mut out, y, m, d);
            out.push('T');
            let rest = micros.rem_euclid(MICROS_PER_DAY);
            write_clock(&mut out, rest / 1_000_000, rest % 1_000_000 * 1000);
            if zoned {
                out.push('Z');
            }
        }
    }
    out
}

/// An instant as text; unit: nanoseconds.
pub fn format_timestamp_nanos(nanos: i64, zoned: bool) -> String {
    let mut out = String::new();
    let (y, m, d) = civil_from_days(nanos.div_euclid(MICROS_PER_DAY * 1000));
    write_date(&mut out, y, m, d);
    out.push('T');
    let rest = nanos.rem_euclid(MICROS_PER_DAY * 1000);
    write_clock(&mut out, rest / 1_000_000_000, rest % 1_000_000_000);
    if zoned {
        out.push('Z');
    }
    out
}

/// A date with time as read from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Whole seconds since 1970-01-01 and nanoseconds below one second; in UTC where the text had an offset.
    At {
        /// Seconds since the epoch.
        seconds: i64,
        /// Nanoseconds within the second.
        nanos: u32,
    },
    /// `infinity`.
    Infinity,
    /// `-infinity`.
    MinusInfinity,
    /// A MySQL date that no calendar has: year, month, day, microseconds of the day.
    Impossible(u16, u8, u8, i64),
}

impl Moment {
    /// Microseconds with the reserved values; `None` when finer than a microsecond or out of range.
    pub fn micros(self) -> Option<i64> {
        match self {
            Moment::Infinity => Some(i64::MAX),
            Moment::MinusInfinity => Some(i64::MIN),
            Moment::Impossible(y, m, d, micros) => Some(mysql_timestamp(y, m, d, micros)),
            Moment::At { seconds, nanos } => {
                if nanos % 1000 != 0 {
                    return None;
                }
                let micros = seconds.checked_mul(1_000_000)?.checked_add(i64::from(nanos / 1000))?;
                (!is_reserved_timestamp(micros)).then_some(micros)
            }
        }
    }

    /// Nanoseconds; `None` for the reserved values or out of range.
    pub fn nanos(self) -> Option<i64> {
        match self {
            Moment::At { seconds, nanos } => {
                seconds.checked_mul(1_000_000_000)?.checked_add(i64::from(nanos))
            }
            _ => None,
        }
    }

    /// The day, when the time of day is midnight.
    pub fn date(self) -> Option<i32> {
        match self {
            Moment::Infinity => Some(i32::MAX),
            Moment::MinusInfinity => Some(i32::MIN),
            Moment::Impossible(y, m, d, 0) => Some(mysql_date(y, m, d)),
            Moment::At { seconds, nanos: 0 } if seconds % 86_400 == 0 => {
                i32::try_from(seconds / 86_400).ok().filter(|d| impossible_date(*d).is_none())
            }
            _ => None,
        }
    }
}

/// Reads digits from the front of `s`: value, count, rest.
fn digits(s: &str) -> Option<(i64, usize, &str)> {
    let n = s.bytes().take_while(u8::is_ascii_digit).count();
    if n == 0 || n > 12 {
        return None;
    }
    Some((s[..n].parse().ok()?, n, &s[n..]))
}

/// Reads `HH:MM[:SS[.fraction]]`: nanoseconds and the rest. Hours may exceed 24 (MySQL, PostgreSQL's 24:00:00).
fn clock(s: &str) -> Option<(i64, &str)> {
    let (hours, _, rest) = digits(s)?;
    let (minutes, n, mut rest) = digits(rest.strip_prefix(':')?)?;
    if n != 2 || minutes > 59 || hours > 1_000_000 {
        return None;
    }
    let mut nanos = (hours * 3600 + minutes * 60) * 1_000_000_000;
    if let Some(after) = rest.strip_prefix(':') {
        let (seconds, n, after) = digits(after)?;
        if n != 2 || seconds > 60 {
            return None;
        }
        nanos += seconds * 1_000_000_000;
        rest = after;
        if let Some(after) = rest.strip_prefix(['.', ',']) {
            let n = after.bytes().take_while(u8::is_ascii_digit).count();
            let fraction = &after[..n];
            if n == 0 || fraction.bytes().skip(9).any(|b| b != b'0') {
                return None;
            }
            let nine = format!("{:0<9}", &fraction[..n.min(9)]);
            nanos += nine.parse::<i64>().ok()?;
            rest = &after[n..];
        }
    }
    Some((nanos, rest))
}

/// Reads a UTC offset (`Z`, `+02`, `+02:00`, `-0330`, ` UTC`): seconds east of Greenwich.
fn offset(s: &str) -> Option<i64> {
    let s = s.trim_start();
    if s.eq_ignore_ascii_case("z") || s.eq_ignore_ascii_case("utc") {
        return Some(0);
    }
    let (sign, body) = match s.as_bytes().first()? {
        b'+' => (1, &s[1..]),
        b'-' => (-1, &s[1..]),
        _ => return None,
    };
    let compact: String = body.chars().filter(|c| *c != ':').collect();
    if !compact.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize| -> Option<i64> {
        if compact.len() >= from + 2 { compact[from..from + 2].parse().ok() } else { Some(0) }
    };
    if !matches!(compact.len(), 2 | 4 | 6) {
        return None;
    }
    Some(sign * (part(0)? * 3600 + part(2)? * 60 + part(4)?))
}

/// Reads a date with an optional time and offset: ISO 8601, SQL and PostgreSQL spellings (`infinity`, ` BC`), MySQL's
/// impossible dates. `None` when the text is not one.
pub fn parse_moment(text: &str) -> Option<Moment> {
    match text {
        "infinity" | "Infinity" => return Some(Moment::Infinity),
        "-infinity" | "-Infinity" => return Some(Moment::MinusInfinity),
        _ => {}
    }
    let (body, bc) = match text.strip_suffix(" BC") {
        Some(body) => (body, true),
        None => (text, false),
    };
    let (negative, unsigned) = match body.as_bytes().first()? {
        b'-' => (true, &body[1..]),
        b'+' => (false, &body[1..]),
        _ => (false, body),
    };
    let (mut year, year_digits, rest) = digits(unsigned)?;
    let (month, month_digits, rest) = digits(rest.strip_prefix('-')?)?;
    let (day, day_digits, rest) = digits(rest.strip_prefix('-')?)?;
    if year_digits < 4 || month_digits != 2 || day_digits != 2 || month > 12 || day > 31 || year > 300_000_000
    {
        return None;
    }
    if negative {
        year = -year;
    }
    if bc {
        year = 1 - year;
    }
    let (nanos, zone) = match rest.as_bytes().first() {
        None => (0, ""),
        Some(b'T' | b't' | b' ') => clock(&rest[1..])?,
        Some(_) => return None,
    };
    let east = if zone.is_empty() { 0 } else { offset(zone)? };
    if !is_real(year, month as u32, day as u32) {
        if negative || bc || !(0..=9999).contains(&year) || nanos % 1000 != 0 || !zone.is_empty() {
            return None;
        }
        let micros = nanos / 1000;
        return (micros < MICROS_PER_DAY).then_some(Moment::Impossible(
            year as u16,
            month as u8,
            day as u8,
            micros,
        ));
    }
    let seconds = days_from_civil(year, month as u32, day as u32) * 86_400 + nanos / 1_000_000_000 - east;
    Some(Moment::At { seconds, nanos: (nanos % 1_000_000_000) as u32 })
}

/// Reads a time of day or a signed duration: nanoseconds.
pub fn parse_time(text: &str) -> Option<i64> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => (-1, body),
        None => (1, text),
    };
    let (nanos, rest) = clock(body)?;
    rest.is_empty().then_some(sign * nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_dates_round_trip_over_the_whole_range() {
        for days in (-2_500_000..3_000_000).step_by(97) {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, m, d), days);
        }
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(-4712, 1, 1), -2_440_550);
    }

    #[test]
    fn impossible_dates_stay_as_stored() {
        for (y, m, d, text) in
            [(0, 0, 0, "0000-00-00"), (2026, 7, 0, "2026-07-00"), (2026, 2, 31, "2026-02-31")]
        {
            let date = mysql_date(y, m, d);
            assert!(is_impossible_date(date));
            assert_eq!(format_date(date), text);
            assert_eq!(parse_moment(text).and_then(Moment::date), Some(date));
            let at = mysql_timestamp(y, m, d, 1_500_000);
            assert_eq!(format_timestamp_micros(at, false), format!("{text}T00:00:01.5"));
        }
    }

    #[test]
    fn moments_read_every_engines_spelling() {
        let micros = |s: &str| parse_moment(s).and_then(Moment::micros);
        assert_eq!(micros("1970-01-01 00:00:01.5"), Some(1_500_000));
        assert_eq!(micros("1970-01-01T02:00:00+02:00"), Some(0));
        assert_eq!(micros("1970-01-01 00:00:00-0330"), Some(12_600_000_000));
        assert_eq!(micros("infinity"), Some(i64::MAX));
        assert_eq!(micros("0001-12-31 BC"), micros("0000-12-31"));
        assert_eq!(micros("9999-12-31 04:00:00"), Some(253_402_228_800_000_000));
        assert_eq!(micros("1970-01-01 00:00:00.0000001"), None);
        for bad in ["", "2026", "2026-13-01", "2026-01-01x", "2026-01-01 25", "12:00:00", "1-1-1"] {
            assert_eq!(parse_moment(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_keep_sign_and_hours_beyond_a_day() {
        assert_eq!(parse_time("-838:59:59").map(format_time), Some("-838:59:59".into()));
        assert_eq!(parse_time("24:00:00").map(format_time), Some("24:00:00".into()));
        assert_eq!(parse_time("12:30"), Some(45_000_000_000_000));
        assert_eq!(parse_time("12:3"), None);
    }
}
