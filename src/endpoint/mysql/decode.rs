//! Values of MySQL's binary protocol, appended to Arrow builders in wire form.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder, Float32Builder,
    Float64Builder, Int64Builder, StringBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
    UInt64Builder,
};

use crate::endpoint::wire_type;
use crate::value::shape::LogicalType;
use crate::value::{temporal, text};

/// The builder of one column.
pub(super) enum Decoder {
    /// Signed or narrower than 64 bits.
    Int(Int64Builder, bool),
    /// Unsigned, 64 bits.
    UInt(UInt64Builder),
    /// With the declared scale.
    Decimal(Decimal128Builder, u8),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    /// Four bytes of reference system, then well-known bytes.
    Geometry(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
    /// With the declared number of bits.
    Bits(StringBuilder, Option<u32>),
}

macro_rules! append {
    ($builder:expr, $value:expr, $decode:expr) => {
        match $value {
            None => $builder.append_null(),
            Some(bytes) => {
                let decode: fn(&[u8]) -> Option<_> = $decode;
                $builder.append_value(decode(bytes)?)
            }
        }
    };
}

impl Decoder {
    /// A decoder for a column of that type.
    pub(super) fn new(logical: &LogicalType) -> Decoder {
        match logical {
            LogicalType::Int { bits: 64, signed: false } => Decoder::UInt(UInt64Builder::new()),
            LogicalType::Int { signed, .. } => Decoder::Int(Int64Builder::new(), *signed),
            LogicalType::Decimal { scale, .. } => Decoder::Decimal(
                Decimal128Builder::new().with_data_type(wire_type(logical)),
                scale.unsigned_abs(),
            ),
            LogicalType::Float32 => Decoder::Float32(Float32Builder::new()),
            LogicalType::Float64 => Decoder::Float64(Float64Builder::new()),
            LogicalType::Bytes => Decoder::Bytes(BinaryBuilder::new()),
            LogicalType::Geometry => Decoder::Geometry(BinaryBuilder::new()),
            LogicalType::Date => Decoder::Date(Date32Builder::new()),
            LogicalType::Time { .. } => Decoder::Time(Time64MicrosecondBuilder::new()),
            LogicalType::Timestamp { .. } => Decoder::Timestamp(TimestampMicrosecondBuilder::new()),
            LogicalType::Uuid => Decoder::Uuid(FixedSizeBinaryBuilder::new(16)),
            LogicalType::Bits { len } => Decoder::Bits(StringBuilder::new(), *len),
            _ => Decoder::Text(StringBuilder::new()),
        }
    }

    /// Appends one value, `None` for NULL. The answer is `None` when the bytes are no value of the column's type.
    pub(super) fn append(&mut self, value: Option<&[u8]>) -> Option<()> {
        match self {
            Decoder::Int(b, true) => append!(b, value, signed),
            Decoder::Int(b, false) => append!(b, value, |v| i64::try_from(unsigned(v)?).ok()),
            Decoder::UInt(b) => append!(b, value, unsigned),
            Decoder::Decimal(b, scale) => match value {
                None => b.append_null(),
                Some(v) => b.append_value(decimal(v, *scale)?),
            },
            Decoder::Float32(b) => append!(b, value, |v| Some(f32::from_le_bytes(v.try_into().ok()?))),
            Decoder::Float64(b) => append!(b, value, |v| Some(f64::from_le_bytes(v.try_into().ok()?))),
            Decoder::Text(b) => match value {
                None => b.append_null(),
                Some(v) => b.append_value(std::str::from_utf8(v).ok()?),
            },
            Decoder::Bytes(b) => b.append_option(value),
            Decoder::Geometry(b) => match value {
                None => b.append_null(),
                Some(v) => b.append_value(v.get(4..)?),
            },
            Decoder::Date(b) => append!(b, value, |v| {
                let (year, month, day, micros) = moment(v)?;
                (micros == 0).then(|| temporal::mysql_date(year, month, day))
            }),
            Decoder::Timestamp(b) => append!(b, value, |v| {
                let (year, month, day, micros) = moment(v)?;
                Some(temporal::mysql_timestamp(year, month, day, micros))
            }),
            Decoder::Time(b) => append!(b, value, duration),
            Decoder::Uuid(b) => match value {
                None => b.append_null(),
                Some(v) => b.append_value(text::parse_uuid(std::str::from_utf8(v).ok()?)?).ok()?,
            },
            Decoder::Bits(b, len) => match value {
                None => b.append_null(),
                Some(v) => b.append_value(bits(v, *len)?),
            },
        }
        Some(())
    }

    /// The values so far as an array; the decoder starts afresh.
    pub(super) fn finish(&mut self) -> ArrayRef {
        match self {
            Decoder::Int(b, _) => Arc::new(b.finish()),
            Decoder::UInt(b) => Arc::new(b.finish()),
            Decoder::Decimal(b, _) => Arc::new(b.finish()),
            Decoder::Float32(b) => Arc::new(b.finish()),
            Decoder::Float64(b) => Arc::new(b.finish()),
            Decoder::Text(b) | Decoder::Bits(b, _) => Arc::new(b.finish()),
            Decoder::Bytes(b) | Decoder::Geometry(b) => Arc::new(b.finish()),
            Decoder::Date(b) => Arc::new(b.finish()),
            Decoder::Time(b) => Arc::new(b.finish()),
            Decoder::Timestamp(b) => Arc::new(b.finish()),
            Decoder::Uuid(b) => Arc::new(b.finish()),
        }
    }
}

/// A little-endian integer of 1, 2, 4 or 8 bytes.
fn signed(v: &[u8]) -> Option<i64> {
    Some(match v.len() {
        1 => i64::from(v[0] as i8),
        2 => i64::from(i16::from_le_bytes(v.try_into().ok()?)),
        4 => i64::from(i32::from_le_bytes(v.try_into().ok()?)),
        8 => i64::from_le_bytes(v.try_into().ok()?),
        _ => return None,
    })
}

fn unsigned(v: &[u8]) -> Option<u64> {
    if !matches!(v.len(), 1 | 2 | 4 | 8) {
        return None;
    }
    Some(v.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
}

/// A decimal, which travels as ASCII digits, at `scale` digits behind the point.
fn decimal(v: &[u8], scale: u8) -> Option<i128> {
    let (negative, digits) = match v.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, v),
    };
    let mut out: i128 = 0;
    let mut fraction: Option<u8> = None;
    for b in digits {
        match b {
            b'0'..=b'9' => {
                out = out.checked_mul(10)?.checked_add(i128::from(b - b'0'))?;
                fraction = fraction.map(|n| n + 1);
            }
            b'.' if fraction.is_none() => fraction = Some(0),
            _ => return None,
        }
    }
    let missing = scale.checked_sub(fraction.unwrap_or(0))?;
    out = out.checked_mul(10i128.checked_pow(u32::from(missing))?)?;
    Some(if negative { -out } else { out })
}

/// A date with time: a length byte (0, 4, 7 or 11), then as many fields as are not zero. The answer is year, month, day
/// and microseconds of the day.
fn moment(v: &[u8]) -> Option<(u16, u8, u8, i64)> {
    let (len, v) = v.split_first()?;
    if usize::from(*len) != v.len() || !matches!(len, 0 | 4 | 7 | 11) {
        return None;
    }
    if *len == 0 {
        return Some((0, 0, 0, 0));
    }
    let year = u16::from_le_bytes([v[0], v[1]]);
    let mut micros = 0;
    if *len >= 7 {
        micros = clock(v[4], v[5], v[6]);
    }
    if *len == 11 {
        micros += i64::from(u32::from_le_bytes([v[7], v[8], v[9], v[10]]));
    }
    Some((year, v[2], v[3], micros))
}

/// A duration: a length byte (0, 8 or 12), the sign, days, hours, minutes, seconds, microseconds.
fn duration(v: &[u8]) -> Option<i64> {
    let (len, v) = v.split_first()?;
    if usize::from(*len) != v.len() || !matches!(len, 0 | 8 | 12) {
        return None;
    }
    if *len == 0 {
        return Some(0);
    }
    let days = u32::from_le_bytes([v[1], v[2], v[3], v[4]]);
    let mut micros = i64::from(days) * 86_400_000_000 + clock(v[5], v[6], v[7]);
    if *len == 12 {
        micros += i64::from(u32::from_le_bytes([v[8], v[9], v[10], v[11]]));
    }
    Some(if v[0] == 0 { micros } else { -micros })
}

fn clock(hours: u8, minutes: u8, seconds: u8) -> i64 {
    (i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds)) * 1_000_000
}

/// Big-endian bits as digits, the declared number of them; all there are where none is declared.
fn bits(v: &[u8], len: Option<u32>) -> Option<String> {
    let mut out = String::with_capacity(v.len() * 8);
    for b in v {
        let _ = write!(out, "{b:08b}");
    }
    let Some(len) = len.map(|n| n as usize) else { return Some(out) };
    match out.len().checked_sub(len) {
        Some(extra) if out[..extra].bytes().all(|b| b == b'0') => Some(out.split_off(extra)),
        Some(_) => None,
        None => Some(format!("{out:0>len$}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_keep_their_sign() {
        assert_eq!(signed(&[0xff]), Some(-1));
        assert_eq!(signed(&[0, 0x80]), Some(-32768));
        assert_eq!(unsigned(&[0xff; 8]), Some(u64::MAX));
        assert_eq!(unsigned(&[0xff, 0xff]), Some(65535));
        assert_eq!(signed(&[1, 2, 3]), None);
    }

    #[test]
    fn decimals_are_exact_at_their_scale() {
        assert_eq!(decimal(b"-0.05", 2), Some(-5));
        assert_eq!(decimal(b"12", 3), Some(12000));
        assert_eq!(decimal(b"00012.5", 1), Some(125));
        assert_eq!(decimal(b"1.005", 2), None);
        assert_eq!(decimal(b"1e5", 2), None);
        assert_eq!(decimal(b"99999999999999999999999999999999999999", 0), Some(10i128.pow(38) - 1));
    }

    #[test]
    fn packed_moments_of_every_length() {
        assert_eq!(moment(&[0]), Some((0, 0, 0, 0)));
        assert_eq!(moment(&[4, 0xea, 7, 7, 0]), Some((2026, 7, 0, 0)));
        assert_eq!(moment(&[7, 0xea, 7, 7, 31, 1, 2, 3]), Some((2026, 7, 31, 3_723_000_000)));
        assert_eq!(moment(&[11, 0xea, 7, 7, 31, 0, 0, 0, 1, 0, 0, 0]), Some((2026, 7, 31, 1)));
        assert_eq!(moment(&[4, 0xea]), None);
        assert_eq!(moment(&[]), None);
    }

    #[test]
    fn durations_keep_sign_and_days() {
        assert_eq!(duration(&[0]), Some(0));
        assert_eq!(duration(&[8, 1, 34, 0, 0, 0, 22, 59, 59]), Some(-3_020_399_000_000));
        assert_eq!(duration(&[12, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0]), Some(1_000_001));
    }

    #[test]
    fn what_is_no_value_of_the_type_is_told() {
        assert_eq!(Decoder::new(&LogicalType::TEXT).append(Some(&[0xff])), None);
        assert_eq!(Decoder::new(&LogicalType::Uuid).append(Some(b"no uuid")), None);
        assert_eq!(Decoder::new(&LogicalType::Geometry).append(Some(&[0, 0])), None);
        assert_eq!(Decoder::new(&LogicalType::Float64).append(Some(&[0; 4])), None);
        assert_eq!(Decoder::new(&LogicalType::TEXT).append(None), Some(()));
    }

    #[test]
    fn bits_have_the_declared_length() {
        assert_eq!(bits(&[5], Some(3)).as_deref(), Some("101"));
        assert_eq!(bits(&[1, 0], Some(9)).as_deref(), Some("100000000"));
        assert_eq!(bits(&[5], Some(2)), None);
        assert_eq!(bits(&[5], None).as_deref(), Some("00000101"));
    }
}
