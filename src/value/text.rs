//! Values that travel as text: their canonical spelling, so that equal values have equal text.

use std::net::IpAddr;

/// Reads a boolean in the spellings of SQL, CSV exports and forms, ignoring case.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Reads a UUID: 32 hex digits with any hyphens, braces or `urn:uuid:`, ignoring case.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let body = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let body = body.strip_prefix('{').and_then(|b| b.strip_suffix('}')).unwrap_or(body);
    let mut out = [0u8; 16];
    let mut nibbles = 0;
    for b in body.bytes().filter(|b| *b != b'-') {
        let digit = (b as char).to_digit(16)? as u8;
        if nibbles == 32 {
            return None;
        }
        out[nibbles / 2] = out[nibbles / 2] << 4 | digit;
        nibbles += 1;
    }
    (nibbles == 32).then_some(out)
}

/// Writes a UUID in the hyphenated lower-case form.
pub fn format_uuid(bytes: &[u8]) -> String {
    let hex = hex(bytes);
    if hex.len() != 32 {
        return format!("0x{hex}");
    }
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        out.push(DIGITS[usize::from(b >> 4)] as char);
        out.push(DIGITS[usize::from(b & 15)] as char);
    }
    out
}

/// Reads `\x…`, `0x…` or `X'…'`.
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let body =
        text.strip_prefix("\\x").or_else(|| text.strip_prefix("0x")).or_else(|| text.strip_prefix("0X"))?;
    if !body.len().is_multiple_of(2) || !body.is_ascii() {
        return None;
    }
    (0..body.len()).step_by(2).map(|i| u8::from_str_radix(&body[i..i + 2], 16).ok()).collect()
}

/// The canonical spelling of a network address: a full prefix is left out.
pub fn canonical_inet(text: &str) -> Option<String> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let full = if address.is_ipv4() { 32 } else { 128 };
    match prefix {
        Some(p) if p > full => None,
        Some(p) if p < full => Some(format!("{address}/{p}")),
        _ => Some(address.to_string()),
    }
}

/// The canonical spelling of a set: its members sorted, each once.
pub fn canonical_set(text: &str) -> String {
    let mut members: Vec<&str> = text.split(',').filter(|m| !m.is_empty()).collect();
    members.sort_unstable();
    members.dedup();
    members.join(",")
}

/// A span of months, days and microseconds, which do not convert into each other (a month has no fixed length).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Whole months; a year is twelve.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

impl Interval {
    /// The canonical spelling, ISO 8601: `P1Y2M3DT4H5M6.5S`; each part carries its own sign; zero is `PT0S`.
    pub fn canonical(&self) -> String {
        use std::fmt::Write;
        let mut out = String::from("P");
        let mut part = |value: i64, unit: &str| {
            if value != 0 {
                let _ = write!(out, "{value}{unit}");
            }
        };
        part(i64::from(self.months / 12), "Y");
        part(i64::from(self.months % 12), "M");
        part(i64::from(self.days), "D");
        if self.micros != 0 || out.len() == 1 {
            out.push('T');
            let (hours, rest) = (self.micros / 3_600_000_000, self.micros % 3_600_000_000);
            let (minutes, rest) = (rest / 60_000_000, rest % 60_000_000);
            if hours != 0 {
                let _ = write!(out, "{hours}H");
            }
            if minutes != 0 {
                let _ = write!(out, "{minutes}M");
            }
            if rest != 0 || self.micros == 0 {
                let sign = if rest < 0 { "-" } else { "" };
                let (seconds, fraction) = (rest.abs() / 1_000_000, rest.abs() % 1_000_000);
                let _ = write!(out, "{sign}{seconds}");
                if fraction != 0 {
                    let digits = format!("{fraction:06}");
                    let _ = write!(out, ".{}", digits.trim_end_matches('0'));
                }
                out.push('S');
            }
        }
        out
    }

    /// Reads ISO 8601 (`P1Y2M3DT4H5M6.5S`) or PostgreSQL's own form (`1 year 2 mons 3 days 04:05:06.5`).
    pub fn parse(text: &str) -> Option<Interval> {
        if let Some(body) = text.strip_prefix('P') {
            Self::parse_iso(body)
        } else {
            Self::parse_postgres(text)
        }
    }

    fn parse_iso(body: &str) -> Option<Interval> {
        let mut out = Interval { months: 0, days: 0, micros: 0 };
        let (date, time) = body.split_once('T').unwrap_or((body, ""));
        let mut parts = 0;
        for (section, is_time) in [(date, false), (time, true)] {
            let mut rest = section;
            while !rest.is_empty() {
                let n = rest.find(|c: char| c.is_ascii_alphabetic())?;
                let (number, unit) = (&rest[..n], rest.as_bytes()[n]);
                let whole = || number.parse::<i64>().ok();
                match (is_time, unit) {
                    (false, b'Y') => {
                        out.months = out.months.checked_add(i32::try_from(whole()?.checked_mul(12)?).ok()?)?
                    }
                    (false, b'M') => out.months = out.months.checked_add(i32::try_from(whole()?).ok()?)?,
                    (false, b'W') => {
                        out.days = out.days.checked_add(i32::try_from(whole()?.checked_mul(7)?).ok()?)?
                    }
                    (false, b'D') => out.days = out.days.checked_add(i32::try_from(whole()?).ok()?)?,
                    (true, b'H') => {
                        out.micros = out.micros.checked_add(whole()?.checked_mul(3_600_000_000)?)?
                    }
                    (true, b'M') => out.micros = out.micros.checked_add(whole()?.checked_mul(60_000_000)?)?,
                    (true, b'S') => out.micros = out.micros.checked_add(seconds(number)?)?,
                    _ => return None,
                }
                parts += 1;
                rest = &rest[n + 1..];
            }
        }
        (parts > 0).then_some(out)
    }

    fn parse_postgres(text: &str) -> Option<Interval> {
        let mut out = Interval { months: 0, days: 0, micros: 0 };
        let mut words = text.split_whitespace().peekable();
        words.peek()?;
        while let Some(word) = words.next() {
            if word.contains(':') {
                let (sign, clock) = match word.as_bytes()[0] {
                    b'-' => (-1, &word[1..]),
                    b'+' => (1, &word[1..]),
                    _ => (1, word),
                };
                out.micros =
                    out.micros.checked_add(sign * crate::value::temporal::parse_time(clock)? / 1000)?;
                continue;
            }
            let n: i64 = word.parse().ok()?;
            match words.next()?.trim_end_matches('s') {
                "year" => out.months = out.months.checked_add(i32::try_from(n.checked_mul(12)?).ok()?)?,
                "mon" | "month" => out.months = out.months.checked_add(i32::try_from(n).ok()?)?,
                "day" => out.days = out.days.checked_add(i32::try_from(n).ok()?)?,
                _ => return None,
            }
        }
        Some(out)
    }
}

fn seconds(text: &str) -> Option<i64> {
    let micros = super::decimal::Number::parse(text)?.at_scale(6)?;
    i64::try_from(micros).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_in_any_spelling_are_sixteen_bytes() {
        let want = parse_uuid("ec0cd358-9c6e-5bab-b47b-2a9d042e0f4d").unwrap();
        for text in [
            "EC0CD358-9C6E-5BAB-B47B-2A9D042E0F4D",
            "{ec0cd3589c6e5babb47b2a9d042e0f4d}",
            "urn:uuid:ec0cd358-9c6e-5bab-b47b-2a9d042e0f4d",
        ] {
            assert_eq!(parse_uuid(text), Some(want), "{text}");
        }
        assert_eq!(format_uuid(&want), "ec0cd358-9c6e-5bab-b47b-2a9d042e0f4d");
        assert_eq!(parse_uuid("ec0cd358"), None);
        assert_eq!(parse_uuid("zc0cd3589c6e5babb47b2a9d042e0f4d"), None);
    }

    #[test]
    fn intervals_round_trip_and_read_postgres() {
        for text in ["P1Y2M3DT4H5M6.5S", "PT0S", "P-1M", "P3DT-4H-30M", "PT-0.5S"] {
            assert_eq!(Interval::parse(text).map(|i| i.canonical()).as_deref(), Some(text), "{text}");
        }
        let pg = Interval::parse("1 year 2 mons 3 days 04:05:06.5");
        assert_eq!(pg, Interval::parse("P1Y2M3DT4H5M6.5S"));
        assert_eq!(
            Interval::parse("-1 days -02:03:04").map(|i| i.canonical()).as_deref(),
            Some("P-1DT-2H-3M-4S")
        );
        assert_eq!(Interval::parse("soon"), None);
        assert_ne!(Interval::parse("1 day"), Interval::parse("24:00:00"));
    }

    #[test]
    fn inet_spellings_meet() {
        assert_eq!(canonical_inet("10.0.0.1/32").as_deref(), Some("10.0.0.1"));
        assert_eq!(canonical_inet("2001:DB8:0:0::1").as_deref(), Some("2001:db8::1"));
        assert_eq!(canonical_inet("10.0.0.0/8").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(canonical_inet("10.0.0"), None);
    }

    #[test]
    fn set_order_is_no_data() {
        assert_eq!(canonical_set("b,a,b"), "a,b");
        assert_eq!(canonical_set(""), "");
    }
}
