//! Thresholds, schedules and other single values as people write them in the configuration.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono_tz::Tz;
use croner::Cron;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::{Serialize, Serializer};

use super::units;

/// Makes a type that is written as one text or number: it is read by its `FromStr` and written by its `Display`.
macro_rules! written_as_text {
    ($name:ident, $schema:literal, $help:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                scalar(deserializer)?.parse().map_err(D::Error::custom)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let text = self.to_string();
                match text.parse::<u64>() {
                    Ok(number) => serializer.serialize_u64(number),
                    Err(_) => serializer.serialize_str(&text),
                }
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": ["string", "number"], "description": $help })
            }
        }
    };
}

/// The text of a value that was written as text or as a number.
fn scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Ok(text),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        _ => Err(D::Error::custom("a text or a number is expected here")),
    }
}

/// A span of time: `500ms`, `30s`, `10m`, `2h`, `90d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Span {
        Span(Duration::from_secs(seconds))
    }

    /// In microseconds, the unit of drift's instants.
    pub fn micros(self) -> i64 {
        i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        units::duration(text).map(Span)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
        match units.iter().find(|(size, _)| millis > 0 && millis.is_multiple_of(*size)) {
            Some((size, unit)) => write!(f, "{}{unit}", millis / size),
            None => write!(f, "{millis}ms"),
        }
    }
}

written_as_text!(Span, "Duration", "a span of time, such as 500ms, 30s, 10m, 2h or 90d");

/// A share: `1%` or `0.01`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Ratio(pub f64);

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Ratio, String> {
        let wrong = || format!("{text:?} is no share; write 0.5% or 0.005");
        let value = match text.trim().strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
            None => text.trim().parse().map_err(|_| wrong())?,
        };
        if (0.0..=1.0).contains(&value) { Ok(Ratio(value)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ten digits are more than anyone writes, and hide what the division by 100 left.
        let percent = format!("{:.10}", self.0 * 100.0);
        write!(f, "{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }
}

written_as_text!(Ratio, "Ratio", "a share of the rows, such as 0.5% or 0.005");

/// The largest accepted value: so many rows (`10`), or a share of those compared (`0.1%`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// So many rows.
    Rows(u64),
    /// A share of the rows compared.
    Share(Ratio),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        if text.trim().ends_with('%') {
            return text.parse().map(Limit::Share);
        }
        text.trim().replace('_', "").parse().map(Limit::Rows).map_err(|_| {
            format!(
                "{text:?} is no threshold; write a number of rows, such as 0 or 10, or a share, such as 0.1%"
            )
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Rows(rows) => write!(f, "{rows}"),
            Limit::Share(share) => write!(f, "{share}"),
        }
    }
}

written_as_text!(
    Limit,
    "Threshold",
    "the largest accepted value: a number of rows such as 0, or a share of the rows such as 0.1%"
);

/// How many rows a sample takes: `1%` of them, or `5000`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleSize {
    /// A share of the rows.
    Share(Ratio),
    /// So many rows.
    Rows(u64),
}

impl FromStr for SampleSize {
    type Err = String;

    fn from_str(text: &str) -> Result<SampleSize, String> {
        match text.parse() {
            Ok(Limit::Share(share)) if share.0 > 0.0 && share.0 < 1.0 => Ok(SampleSize::Share(share)),
            Ok(Limit::Rows(rows)) if rows > 0 => Ok(SampleSize::Rows(rows)),
            _ => Err(format!(
                "{text:?} is no sample; write a share of the rows, such as 1%, or a number of rows, such as 5000"
            )),
        }
    }
}

impl fmt::Display for SampleSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SampleSize::Share(share) => write!(f, "{share}"),
            SampleSize::Rows(rows) => write!(f, "{rows}"),
        }
    }
}

written_as_text!(SampleSize, "Sample", "a share of the rows, such as 1%, or a number of rows, such as 5000");

/// When something runs: `every 15m`, `every 15m offset 3m`, or five fields of cron.
#[derive(Debug, Clone, PartialEq)]
pub enum Timing {
    /// At equal distances, counted from 1970-01-01 00:00 UTC plus the offset.
    Every {
        /// The distance.
        every: Span,
        /// How far behind the round time.
        offset: Span,
    },
    /// A cron expression, in the configured time zone.
    Cron {
        /// As written.
        text: String,
        /// What it means.
        cron: Box<Cron>,
    },
}

impl FromStr for Timing {
    type Err = String;

    fn from_str(text: &str) -> Result<Timing, String> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix("every") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let (every, offset) = match words.as_slice() {
                [every] => (every.parse::<Span>()?, Span(Duration::ZERO)),
                [every, "offset", offset] => (every.parse::<Span>()?, offset.parse::<Span>()?),
                _ => {
                    return Err(format!(
                        "{text:?} is no schedule; write `every 15m` or `every 15m offset 3m`"
                    ));
                }
            };
            if every.0 < Duration::from_secs(1) {
                return Err(format!("{text:?}: at least one second has to lie between two runs"));
            }
            if offset >= every {
                return Err(format!("{text:?}: the offset has to be shorter than the distance"));
            }
            return Ok(Timing::Every { every, offset });
        }
        let expression = text.strip_prefix("cron ").unwrap_or(text).trim().trim_matches('"');
        match expression.split_whitespace().count() {
            5 => {}
            _ => {
                return Err(format!(
                    "{text:?} is no schedule; write `every 15m`, or the five fields of cron, such as `30 2 * * sun`"
                ));
            }
        }
        let cron = Cron::from_str(expression).map_err(|e| {
            format!(
                "{text:?} is no cron expression: {e}; the five fields are minute, hour, day, month, weekday"
            )
        })?;
        Ok(Timing::Cron { text: expression.to_string(), cron: Box::new(cron) })
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Timing::Every { every, offset } if offset.0.is_zero() => write!(f, "every {every}"),
            Timing::Every { every, offset } => write!(f, "every {every} offset {offset}"),
            Timing::Cron { text, .. } => f.write_str(text),
        }
    }
}

written_as_text!(Timing, "Schedule", "`every 15m`, `every 15m offset 3m`, or five fields of cron");

/// A time zone by its name in the IANA database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone(pub Tz);

impl FromStr for Zone {
    type Err = String;

    fn from_str(text: &str) -> Result<Zone, String> {
        text.trim()
            .parse()
            .map(Zone)
            .map_err(|_| format!("{text:?} is no time zone; write a name such as Europe/Berlin or UTC"))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

written_as_text!(Zone, "TimeZone", "a name of the IANA time zone database, such as Europe/Berlin");

/// Hours of the week: `mon-fri 07:00-20:00`; the end is not inside, and a window may cross midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First and last weekday, 0 for Monday.
    pub days: (u8, u8),
    /// Begin and end, in minutes of the day.
    pub minutes: (u16, u16),
}

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Window {
    /// Whether a minute of a weekday lies inside.
    pub fn contains(&self, weekday: u8, minute: u16) -> bool {
        let in_days = |day: u8| {
            let (first, last) = self.days;
            if first <= last { (first..=last).contains(&day) } else { day >= first || day <= last }
        };
        let (from, to) = self.minutes;
        if from < to {
            in_days(weekday) && (from..to).contains(&minute)
        } else {
            // It began the day before, or it ends the day after.
            (in_days(weekday) && minute >= from) || (in_days((weekday + 6) % 7) && minute < to)
        }
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let wrong = || {
            format!(
                "{text:?} is no window; write `mon-fri 07:00-20:00`, `sat 04:00-06:00` or `daily 23:00-01:00`"
            )
        };
        let lower = text.trim().to_ascii_lowercase();
        let (days, hours) = lower.split_once(' ').ok_or_else(wrong)?;
        let day = |name: &str| WEEKDAYS.iter().position(|known| *known == name).map(|at| at as u8);
        let days = match (days, days.split_once('-')) {
            ("daily", _) => (0, 6),
            (_, Some((first, last))) => (day(first).ok_or_else(wrong)?, day(last).ok_or_else(wrong)?),
            (only, None) => (day(only).ok_or_else(wrong)?, day(only).ok_or_else(wrong)?),
        };
        let minute = |text: &str| -> Option<u16> {
            let (hour, minute) = text.trim().split_once(':')?;
            let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
            (minute < 60 && hour * 60 + minute <= 24 * 60).then_some(hour * 60 + minute)
        };
        let (from, to) = hours.split_once('-').ok_or_else(wrong)?;
        let minutes = (minute(from).ok_or_else(wrong)?, minute(to).ok_or_else(wrong)?);
        if minutes.0 == minutes.1 {
            return Err(format!("{text:?}: the window has no length"));
        }
        Ok(Window { days, minutes })
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.days;
        let name = |day: u8| WEEKDAYS[usize::from(day)];
        match (first, last) {
            (0, 6) => f.write_str("daily")?,
            (a, b) if a == b => f.write_str(name(a))?,
            (a, b) => write!(f, "{}-{}", name(a), name(b))?,
        }
        let clock = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        write!(f, " {}-{}", clock(self.minutes.0), clock(self.minutes.1))
    }
}

written_as_text!(Window, "Window", "hours of the week, such as `mon-fri 07:00-20:00` or `daily 23:00-01:00`");

#[cfg(test)]
mod tests {
    use super::*;

    fn same<T: FromStr<Err = String> + fmt::Display>(texts: &[&str]) {
        for text in texts {
            match text.parse::<T>() {
                Ok(value) => assert_eq!(value.to_string(), *text),
                Err(why) => panic!("{text}: {why}"),
            }
        }
    }

    #[test]
    fn what_is_read_is_written_the_same() {
        same::<Span>(&["500ms", "30s", "10m", "2h", "90d"]);
        same::<Ratio>(&["0%", "0.1%", "0.01%", "33.3%", "100%"]);
        same::<Limit>(&["0", "10", "0.1%"]);
        same::<SampleSize>(&["1%", "5000"]);
        same::<Timing>(&["every 5m", "every 15m offset 3m", "7 * * * *", "30 2 * * sun"]);
        same::<Window>(&[
            "mon-fri 07:00-20:00",
            "sat 04:00-06:00",
            "daily 23:00-01:00",
            "fri-mon 00:00-24:00",
        ]);
        same::<Zone>(&["Europe/Berlin", "UTC"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!("101%".parse::<Ratio>().is_err() && "-1%".parse::<Ratio>().is_err());
        assert!("0%".parse::<SampleSize>().is_err() && "0".parse::<SampleSize>().is_err());
        assert!("h0.20".parse::<Limit>().unwrap_err().contains("threshold"));
        for wrong in
            ["every", "every 0s", "every 5m offset 5m", "* * * *", "61 * * * *", "* * * * * *", "@daily"]
        {
            assert!(wrong.parse::<Timing>().is_err(), "{wrong}");
        }
        for wrong in
            ["mon", "mon 7-8", "moon 07:00-08:00", "mon 07:00-07:00", "mon 07:00-24:01", "mon 07:61-08:00"]
        {
            assert!(wrong.parse::<Window>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn windows_hold_their_begin_and_not_their_end() {
        let window: Window = "mon-fri 07:00-20:00".parse().unwrap();
        assert!(window.contains(0, 7 * 60) && !window.contains(0, 20 * 60) && !window.contains(5, 600));
        let night: Window = "fri 23:00-01:00".parse().unwrap();
        assert!(night.contains(4, 23 * 60) && night.contains(5, 30) && !night.contains(4, 30));
        assert!(!night.contains(5, 60) && !night.contains(5, 23 * 60));
    }
}
