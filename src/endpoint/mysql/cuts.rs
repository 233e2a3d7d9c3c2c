//! Borders that cut a key into ranges of similar width, from its least and greatest value.

use crate::endpoint::Border;
use crate::value::shape::{ColumnShape, LogicalType};
use crate::value::temporal::{self, Moment};
use crate::value::text;

/// The statement that asks an index for its ends; `None` where no borders can lie between them.
pub(super) fn ends(column: &ColumnShape, source: &str) -> Option<String> {
    let name = super::sql::name(&column.name);
    match column.logical {
        LogicalType::Int { .. } | LogicalType::Date | LogicalType::Timestamp { .. } => {
            Some(format!("select min({name}), max({name}) from {source}"))
        }
        LogicalType::Bytes => Some(format!("select hex(min({name})), hex(max({name})) from {source}")),
        _ => None,
    }
}

/// At most `n - 1` borders between the ends, as the text protocol spells them.
pub(super) fn between(column: &ColumnShape, least: &str, greatest: &str, n: usize) -> Vec<Border> {
    let borders = match column.logical {
        LogicalType::Int { .. } => ints(least, greatest, n),
        LogicalType::Date => dates(least, greatest, n),
        LogicalType::Timestamp { .. } => timestamps(least, greatest, n),
        LogicalType::Bytes => bytes(least, greatest, n, column.engine_type == "binary(16)"),
        _ => None,
    };
    borders.unwrap_or_default()
}

fn ints(least: &str, greatest: &str, n: usize) -> Option<Vec<Border>> {
    Some(steps(least.parse().ok()?, greatest.parse().ok()?, n).map(Border::Int).collect())
}

fn dates(least: &str, greatest: &str, n: usize) -> Option<Vec<Border>> {
    let day = |text| {
        let day = temporal::parse_moment(text).and_then(Moment::date)?;
        (!temporal::is_impossible_date(day)).then_some(i128::from(day))
    };
    steps(day(least)?, day(greatest)?, n).map(|d| i32::try_from(d).ok().map(Border::Date)).collect()
}

fn timestamps(least: &str, greatest: &str, n: usize) -> Option<Vec<Border>> {
    let micros = |text| {
        let micros = temporal::parse_moment(text).and_then(Moment::micros)?;
        (!temporal::is_reserved_timestamp(micros)).then_some(i128::from(micros))
    };
    steps(micros(least)?, micros(greatest)?, n)
        .map(|t| i64::try_from(t).ok().map(Border::Timestamp))
        .collect()
}

/// Cuts by the eight bytes behind what both ends have in common.
fn bytes(least: &str, greatest: &str, n: usize, sixteen: bool) -> Option<Vec<Border>> {
    let least = text::parse_hex(&format!("0x{least}"))?;
    let greatest = text::parse_hex(&format!("0x{greatest}"))?;
    let common = least.iter().zip(&greatest).take_while(|(a, b)| a == b).count();
    let number = |bytes: &[u8]| {
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(&bytes[common..]) {
            *to = *from;
        }
        i128::from(u64::from_be_bytes(eight))
    };
    steps(number(&least), number(&greatest), n)
        .map(|step| {
            let mut border = least[..common].to_vec();
            border.extend(u64::try_from(step).ok()?.to_be_bytes());
            if !sixteen {
                return Some(Border::Bytes(border));
            }
            border.resize(16, 0);
            Some(Border::Uuid(border.try_into().ok()?))
        })
        .collect()
}

/// Up to `n - 1` numbers in even steps, above `least` and not above `greatest`.
fn steps(least: i128, greatest: i128, n: usize) -> impl Iterator<Item = i128> {
    let width = (greatest - least).max(0);
    let parts = (n as i128).clamp(1, width.max(1));
    (1..parts).map(move |i| least + width / parts * i + width % parts * i / parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::shape::NativeOrder;

    fn column(logical: LogicalType, engine_type: &str) -> ColumnShape {
        ColumnShape {
            name: "k".into(),
            engine_type: engine_type.into(),
            logical,
            nullable: Some(false),
            default: None,
            unreadable: None,
            order: NativeOrder::Value,
        }
    }

    #[test]
    fn numbers_and_days_are_cut_evenly() {
        let int = column(LogicalType::Int { bits: 64, signed: false }, "bigint unsigned");
        assert_eq!(between(&int, "0", "100", 4), [Border::Int(25), Border::Int(50), Border::Int(75)]);
        assert_eq!(between(&int, "7", "7", 4), []);
        assert_eq!(between(&int, "1", "3", 8), [Border::Int(2)]);
        assert_eq!(between(&int, "0", "18446744073709551615", 2), [Border::Int(9223372036854775807)]);
        let date = column(LogicalType::Date, "date");
        assert_eq!(between(&date, "1970-01-01", "1970-01-05", 2), [Border::Date(2)]);
        assert_eq!(between(&date, "0000-00-00", "1970-01-05", 2), []);
        let at = column(LogicalType::Timestamp { digits: 6, zoned: false }, "datetime(6)");
        assert_eq!(
            between(&at, "1970-01-01 00:00:00", "1970-01-01 00:00:01.5", 2),
            [Border::Timestamp(750_000)]
        );
    }

    #[test]
    fn bytes_are_cut_behind_their_common_start() {
        let varbinary = column(LogicalType::Bytes, "varbinary(20)");
        let got = between(&varbinary, "AA00", "AA80", 2);
        assert_eq!(got, [Border::Bytes(vec![0xaa, 0x40, 0, 0, 0, 0, 0, 0, 0])]);
        let binary = column(LogicalType::Bytes, "binary(16)");
        let got = between(&binary, &"00".repeat(16), &"FF".repeat(16), 2);
        let [Border::Uuid(border)] = got.as_slice() else { panic!("{got:?}") };
        assert_eq!(border[..2], [0x7f, 0xff]);
    }
}
