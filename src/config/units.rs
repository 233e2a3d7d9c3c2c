//! Sizes, spans of time and tolerances as people write them.

use std::time::Duration;

use crate::value::recipe::Tolerance;

/// Reads `64MiB`, `1GB`, `4096`: bytes.
pub fn size(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..digits].parse().map_err(|_| format!("{text:?} is no size; write 256MiB"))?;
    let unit: usize = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "k" | "kib" => 1 << 10,
        "mb" => 1_000_000,
        "m" | "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "g" | "gib" => 1 << 30,
        other => return Err(format!("{other:?} is no unit of size; use KiB, MiB or GiB")),
    };
    number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too large"))
}

/// Reads `500ms`, `10s`, `5m`, `2h`, `1d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 =
        text[..digits].parse().map_err(|_| format!("{text:?} is no span of time; write 30s or 5m"))?;
    let unit = match &text[digits..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("{text:?} lacks a unit; write ms, s, m, h or d")),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| format!("{text:?} is too long"))
}

/// Reads `COL=0.01`, `COL=1%`, `COL=2s`.
pub fn tolerance(text: &str) -> Result<(String, Tolerance), String> {
    let (column, value) = text.rsplit_once('=').ok_or("write COLUMN=0.01, COLUMN=1% or COLUMN=2s")?;
    let not_negative = |v: f64| {
        if v >= 0.0 && v.is_finite() { Ok(v) } else { Err("a tolerance is not negative".to_string()) }
    };
    let tolerance = if let Some(percent) = value.strip_suffix('%') {
        let share: f64 = percent.parse().map_err(|_| format!("{value:?} is no percentage"))?;
        Tolerance::Relative(not_negative(share)? / 100.0)
    } else if let Ok(absolute) = value.parse::<f64>() {
        Tolerance::Absolute(not_negative(absolute)?)
    } else {
        Tolerance::Duration(duration(value)?.as_micros().try_into().map_err(|_| "the span is too long")?)
    };
    Ok((column.to_string(), tolerance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_refused() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1gb"), Ok(1_000_000_000));
        assert!(size("lots").is_err() && size("5 parsecs").is_err());
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(duration("5").is_err());
        assert_eq!(tolerance("a=b=1%"), Ok(("a=b".into(), Tolerance::Relative(0.01))));
        assert_eq!(tolerance("x=2s"), Ok(("x".into(), Tolerance::Duration(2_000_000))));
        assert!(tolerance("x=-1").is_err());
    }
}
