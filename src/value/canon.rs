//! Carries out the rules of [`super::recipe`]: an endpoint's wire array becomes the column that is hashed and compared.
//!
//! A value that cannot be read as the common type ("n/a" in a number column, a fraction against an integer) is *odd*: it
//! is kept as text beside the column, equals only the same text, and is shown as it stands.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
    FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int64Builder, PrimitiveArray, StringArray,
    StringBuilder, Time64MicrosecondBuilder, Time64NanosecondBuilder, TimestampMicrosecondBuilder,
    TimestampNanosecondBuilder, UInt64Builder,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UInt64Type,
};
use unicode_normalization::UnicodeNormalization;

use super::decimal::{self, Number};
use super::recipe::{ColumnRule, Common, Normalize};
use super::shape::LogicalType;
use super::untyped::Untyped;
use super::{json, temporal, text};

/// The mark in front of odd bytes, which no text of a database begins with.
pub(crate) const ODD_BYTES: char = '\0';

/// One column in its common form.
#[derive(Debug, Clone)]
pub struct Column {
    /// The values; NULL where the value is NULL or odd.
    pub values: ArrayRef,
    /// The odd values; NULL where there is none. Absent when no value is odd.
    pub odd: Option<StringArray>,
}

impl Column {
    /// Whether the value at `row` is NULL (and not merely odd).
    pub fn is_null(&self, row: usize) -> bool {
        self.values.is_null(row) && self.odd_at(row).is_none()
    }

    /// The odd text at `row`.
    pub fn odd_at(&self, row: usize) -> Option<&str> {
        self.odd.as_ref().filter(|odd| odd.is_valid(row)).map(|odd| odd.value(row))
    }

    /// A part of the column, without copying.
    pub fn slice(&self, from: usize, len: usize) -> Column {
        Column {
            values: self.values.slice(from, len),
            odd: self.odd.as_ref().map(|odd| odd.slice(from, len)),
        }
    }
}

/// The Arrow type of a common form.
pub fn common_type(common: &Common) -> DataType {
    match common {
        Common::Bool => DataType::Boolean,
        Common::Int64 => DataType::Int64,
        Common::UInt64 => DataType::UInt64,
        Common::Decimal { scale, .. } => DataType::Decimal128(38, *scale),
        Common::Float32 => DataType::Float32,
        Common::Float64 => DataType::Float64,
        Common::Bytes => DataType::Binary,
        Common::Date => DataType::Date32,
        Common::Time { nanos: true } => DataType::Time64(TimeUnit::Nanosecond),
        Common::Time { nanos: false } => DataType::Time64(TimeUnit::Microsecond),
        Common::Timestamp { nanos: true, .. } => DataType::Timestamp(TimeUnit::Nanosecond, None),
        Common::Timestamp { nanos: false, .. } => DataType::Timestamp(TimeUnit::Microsecond, None),
        Common::Uuid => DataType::FixedSizeBinary(16),
        Common::DecimalText
        | Common::Text
        | Common::Json
        | Common::Set
        | Common::Bits
        | Common::Inet
        | Common::Interval => DataType::Utf8,
    }
}

/// Whether a value of that side can turn out odd.
pub fn can_be_odd(rule: &ColumnRule, source: bool) -> bool {
    use LogicalType as L;
    !matches!(
        (rule.side(source), &rule.common),
        (L::Bool, Common::Bool | Common::Int64)
            | (L::Int { signed: true, .. }, Common::Int64)
            | (L::Int { bits: 8..=32, .. }, Common::Int64)
            | (L::Int { bits: 64, signed: false }, Common::UInt64)
            | (L::Float32 | L::Float64, Common::Float64 | Common::Float32)
            | (L::Text { .. } | L::Enum | L::Set, Common::Text | Common::Set)
            | (L::Bytes | L::Geometry | L::Text { .. }, Common::Bytes)
            | (L::Uuid, Common::Uuid)
            | (L::Date, Common::Date)
            | (L::Timestamp { digits: 0..=6, .. } | L::Date, Common::Timestamp { nanos: false, .. })
            | (L::Timestamp { digits: 7..=9, .. }, Common::Timestamp { nanos: true, .. })
            | (L::Time { digits: 0..=6 }, Common::Time { nanos: false })
            | (L::Time { digits: 7..=9 }, Common::Time { nanos: true })
    )
}

/// Brings a wire array into the common form. The error names what the endpoint delivered wrongly.
pub fn canonicalise(
    rule: &ColumnRule,
    source: bool,
    wire: &ArrayRef,
    impossible_dates_as_null: bool,
) -> Result<Column, String> {
    let logical = rule.side(source);
    if let Some(values) = unchanged(rule, logical, wire, impossible_dates_as_null) {
        return Ok(Column { values, odd: None });
    }
    let read = Reader::of(logical, wire).ok_or_else(|| {
        format!("column {:?} was delivered as {} but is a {logical}", rule.name, wire.data_type())
    })?;
    Ok(convert(rule, logical, &read, wire.len(), impossible_dates_as_null))
}

/// The wire array itself, where it already is the common form.
fn unchanged(
    rule: &ColumnRule,
    logical: &LogicalType,
    wire: &ArrayRef,
    impossible_dates_as_null: bool,
) -> Option<ArrayRef> {
    use LogicalType as L;
    if *wire.data_type() != common_type(&rule.common) || !rule.normalize.is_empty() {
        return None;
    }
    let same = match (logical, &rule.common) {
        (L::Text { padded, .. }, Common::Text) => !padded,
        (L::Enum | L::Other, Common::Text) => true,
        (L::Date | L::Timestamp { .. }, _) => !impossible_dates_as_null,
        (L::Bool, Common::Bool)
        | (L::Int { .. }, Common::Int64 | Common::UInt64)
        | (L::Decimal { .. }, Common::Decimal { .. })
        | (L::Bytes | L::Geometry, Common::Bytes)
        | (L::Uuid, Common::Uuid)
        | (L::Time { .. }, Common::Time { .. }) => true,
        _ => false,
    };
    same.then(|| Arc::clone(wire))
}

/// A value as it came, typed only as far as its wire form says.
#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Bool(bool),
    Int(i128),
    Decimal(i128, i8),
    F32(f32),
    F64(f64),
    /// Text of a typed column.
    Text(&'a str),
    /// Text of an untyped column.
    Loose(&'a str),
    /// A number as spelled by an untyped side.
    Number(&'a str),
    /// JSON as spelled by an untyped side.
    Nested(&'a str),
    Bits(&'a str),
    Bytes(&'a [u8]),
    Date(i32),
    Nanos(i64),
    TimestampMicros(i64),
    TimestampNanos(i64),
}

enum Reader<'a> {
    Bool(&'a arrow::array::BooleanArray),
    Int(&'a PrimitiveArray<Int64Type>),
    UInt(&'a PrimitiveArray<UInt64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>, i8),
    F32(&'a PrimitiveArray<Float32Type>),
    F64(&'a PrimitiveArray<Float64Type>),
    Text(&'a StringArray),
    Bits(&'a StringArray),
    Bytes(&'a BinaryArray),
    Untyped(&'a BinaryArray),
    Fixed(&'a arrow::array::FixedSizeBinaryArray),
    Date(&'a PrimitiveArray<Date32Type>),
    TimeMicros(&'a PrimitiveArray<Time64MicrosecondType>),
    TimeNanos(&'a PrimitiveArray<Time64NanosecondType>),
    Micros(&'a PrimitiveArray<TimestampMicrosecondType>),
    Nanos(&'a PrimitiveArray<TimestampNanosecondType>),
}

impl<'a> Reader<'a> {
    fn of(logical: &LogicalType, wire: &'a ArrayRef) -> Option<Reader<'a>> {
        Some(match wire.data_type() {
            DataType::Boolean => Reader::Bool(wire.as_boolean()),
            DataType::Int64 => Reader::Int(wire.as_primitive()),
            DataType::UInt64 => Reader::UInt(wire.as_primitive()),
            DataType::Decimal128(_, scale) => Reader::Decimal(wire.as_primitive(), *scale),
            DataType::Float32 => Reader::F32(wire.as_primitive()),
            DataType::Float64 => Reader::F64(wire.as_primitive()),
            DataType::Utf8 if matches!(logical, LogicalType::Bits { .. }) => Reader::Bits(wire.as_string()),
            DataType::Utf8 => Reader::Text(wire.as_string()),
            DataType::Binary if logical.is_untyped() => Reader::Untyped(wire.as_binary()),
            DataType::Binary => Reader::Bytes(wire.as_binary()),
            DataType::FixedSizeBinary(16) => Reader::Fixed(wire.as_fixed_size_binary()),
            DataType::Date32 => Reader::Date(wire.as_primitive()),
            DataType::Time64(TimeUnit::Microsecond) => Reader::TimeMicros(wire.as_primitive()),
            DataType::Time64(TimeUnit::Nanosecond) => Reader::TimeNanos(wire.as_primitive()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Reader::Micros(wire.as_primitive()),
            DataType::Timestamp(TimeUnit::Nanosecond, None) => Reader::Nanos(wire.as_primitive()),
            _ => return None,
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Reader::Bool(a) => a.is_null(row),
            Reader::Int(a) => a.is_null(row),
            Reader::UInt(a) => a.is_null(row),
            Reader::Decimal(a, _) => a.is_null(row),
            Reader::F32(a) => a.is_null(row),
            Reader::F64(a) => a.is_null(row),
            Reader::Text(a) | Reader::Bits(a) => a.is_null(row),
            Reader::Bytes(a) | Reader::Untyped(a) => a.is_null(row),
            Reader::Fixed(a) => a.is_null(row),
            Reader::Date(a) => a.is_null(row),
            Reader::TimeMicros(a) => a.is_null(row),
            Reader::TimeNanos(a) => a.is_null(row),
            Reader::Micros(a) => a.is_null(row),
            Reader::Nanos(a) => a.is_null(row),
        }
    }

    fn get(&self, row: usize) -> Option<Raw<'a>> {
        if self.is_null(row) {
            return None;
        }
        Some(match self {
            Reader::Bool(a) => Raw::Bool(a.value(row)),
            Reader::Int(a) => Raw::Int(i128::from(a.value(row))),
            Reader::UInt(a) => Raw::Int(i128::from(a.value(row))),
            Reader::Decimal(a, scale) => Raw::Decimal(a.value(row), *scale),
            Reader::F32(a) => Raw::F32(a.value(row)),
            Reader::F64(a) => Raw::F64(a.value(row)),
            Reader::Text(a) => Raw::Text(a.value(row)),
            Reader::Bits(a) => Raw::Bits(a.value(row)),
            Reader::Bytes(a) => Raw::Bytes(a.value(row)),
            Reader::Fixed(a) => Raw::Bytes(a.value(row)),
            Reader::Date(a) => Raw::Date(a.value(row)),
            Reader::TimeMicros(a) => Raw::Nanos(a.value(row).saturating_mul(1000)),
            Reader::TimeNanos(a) => Raw::Nanos(a.value(row)),
            Reader::Micros(a) => Raw::TimestampMicros(a.value(row)),
            Reader::Nanos(a) => Raw::TimestampNanos(a.value(row)),
            Reader::Untyped(a) => match Untyped::decode(a.value(row)) {
                Some(Untyped::Text(s)) => Raw::Loose(s),
                Some(Untyped::Number(s)) => Raw::Number(s),
                Some(Untyped::Nested(s)) => Raw::Nested(s),
                Some(Untyped::Bool(b)) => Raw::Bool(b),
                Some(Untyped::Bytes(b)) => Raw::Bytes(b),
                None => Raw::Bytes(a.value(row)),
            },
        })
    }
}

impl<'a> Raw<'a> {
    /// The characters, for values that came as characters.
    fn chars(self) -> Option<&'a str> {
        match self {
            Raw::Text(s) | Raw::Loose(s) | Raw::Number(s) | Raw::Nested(s) | Raw::Bits(s) => Some(s),
            Raw::Bool(true) => Some("true"),
            Raw::Bool(false) => Some("false"),
            _ => None,
        }
    }

    /// The exact number, for values that are one.
    fn integer(self) -> Option<i128> {
        match self {
            Raw::Int(v) => Some(v),
            Raw::Decimal(v, scale) if !decimal::is_reserved(v) => decimal::rescale(v, scale, 0),
            Raw::F32(v) => whole(f64::from(v)),
            Raw::F64(v) => whole(v),
            Raw::Bits(s) if s.len() <= 64 => u64::from_str_radix(s, 2).ok().map(i128::from),
            Raw::Text(s) | Raw::Loose(s) | Raw::Number(s) => match Number::parse(s)? {
                n @ Number::Finite { .. } => n.at_scale(0),
                _ => None,
            },
            _ => None,
        }
    }

    fn float(self) -> Option<f64> {
        match self {
            Raw::F32(v) => Some(f64::from(v)),
            Raw::F64(v) => Some(v),
            Raw::Int(v) => Some(v as f64),
            Raw::Decimal(v, _) if decimal::is_reserved(v) => decimal::reserved_word(v).parse().ok(),
            Raw::Decimal(v, scale) => decimal::format(v, scale, false).parse().ok(),
            Raw::Text(s) | Raw::Loose(s) | Raw::Number(s) => {
                Number::parse(s)?;
                s.parse().ok()
            }
            _ => None,
        }
    }

    /// The text under which an odd value is kept: numbers by value, all else as it stands.
    fn odd(self) -> String {
        match self {
            Raw::Int(v) => v.to_string(),
            Raw::Decimal(v, scale) => decimal::format(v, scale, false),
            Raw::F32(v) => Number::parse(&v.to_string()).map_or_else(|| v.to_string(), |n| n.canonical()),
            Raw::F64(v) => Number::parse(&v.to_string()).map_or_else(|| v.to_string(), |n| n.canonical()),
            Raw::Number(s) => Number::parse(s).map_or_else(|| s.to_string(), |n| n.canonical()),
            Raw::Bytes(b) => format!("{ODD_BYTES}0x{}", text::hex(b)),
            Raw::Date(d) => temporal::format_date(d),
            Raw::Nanos(n) => temporal::format_time(n),
            Raw::TimestampMicros(v) => temporal::format_timestamp_micros(v, false),
            Raw::TimestampNanos(v) => temporal::format_timestamp_nanos(v, false),
            Raw::Text(_) | Raw::Loose(_) | Raw::Nested(_) | Raw::Bits(_) | Raw::Bool(_) => {
                self.chars().unwrap_or_default().to_string()
            }
        }
    }
}

/// A double that is a whole number, exactly.
fn whole(v: f64) -> Option<i128> {
    (v.fract() == 0.0 && v.abs() < 1e37).then_some(v as i128)
}

/// What one value becomes.
enum Made<T> {
    Value(T),
    Null,
    Odd,
}

impl<T> From<Option<T>> for Made<T> {
    fn from(value: Option<T>) -> Made<T> {
        value.map_or(Made::Odd, Made::Value)
    }
}

/// Runs `make` over all rows into `builder`, keeping odd values aside.
macro_rules! each_row {
    ($read:expr, $len:expr, $builder:expr, $make:expr) => {{
        let mut builder = $builder;
        let mut odd = OddBuilder::default();
        for row in 0..$len {
            match $read.get(row) {
                None => builder.append_null(),
                Some(raw) => match ($make)(raw) {
                    Made::Value(v) => builder.append_value(v),
                    Made::Null => builder.append_null(),
                    Made::Odd => {
                        builder.append_null();
                        odd.put(row, &raw.odd());
                    }
                },
            }
        }
        Column { values: Arc::new(builder.finish()), odd: odd.finish($len) }
    }};
}

#[derive(Default)]
struct OddBuilder(Option<StringBuilder>);

impl OddBuilder {
    fn put(&mut self, row: usize, text: &str) {
        let builder = self.0.get_or_insert_with(StringBuilder::new);
        pad(builder, row);
        builder.append_value(text);
    }

    fn finish(self, len: usize) -> Option<StringArray> {
        self.0.map(|mut builder| {
            pad(&mut builder, len);
            builder.finish()
        })
    }
}

fn pad(builder: &mut StringBuilder, to: usize) {
    use arrow::array::ArrayBuilder;
    while builder.len() < to {
        builder.append_null();
    }
}

fn convert(rule: &ColumnRule, logical: &LogicalType, read: &Reader<'_>, len: usize, as_null: bool) -> Column {
    match rule.common.clone() {
        Common::Bool => each_row!(read, len, BooleanBuilder::with_capacity(len), |raw: Raw<'_>| {
            Made::from(match raw {
                Raw::Bool(b) => Some(b),
                Raw::Int(0) => Some(false),
                Raw::Int(1) => Some(true),
                other => other.chars().and_then(text::parse_bool),
            })
        }),
        Common::Int64 => each_row!(read, len, Int64Builder::with_capacity(len), |raw: Raw<'_>| {
            Made::from(match raw {
                Raw::Bool(b) if !logical.is_untyped() => Some(i64::from(b)),
                other => other.integer().and_then(|v| i64::try_from(v).ok()).or_else(|| {
                    let word = other.chars().filter(|_| rule.flags);
                    word.and_then(text::parse_bool).map(i64::from)
                }),
            })
        }),
        Common::UInt64 => each_row!(read, len, UInt64Builder::with_capacity(len), |raw: Raw<'_>| {
            Made::from(raw.integer().and_then(|v| u64::try_from(v).ok()))
        }),
        Common::Decimal { scale, .. } => {
            let builder =
                Decimal128Builder::with_capacity(len).with_data_type(DataType::Decimal128(38, scale));
            each_row!(read, len, builder, |raw: Raw<'_>| {
                Made::from(match raw {
                    Raw::Int(v) => decimal::rescale(v, 0, scale),
                    Raw::Decimal(v, from) => decimal::rescale(v, from, scale),
                    Raw::Text(s) | Raw::Loose(s) | Raw::Number(s) => {
                        Number::parse(s).and_then(|n| n.at_scale(scale))
                    }
                    _ => None,
                })
            })
        }
        Common::DecimalText => each_row!(read, len, StringBuilder::new(), |raw: Raw<'_>| {
            Made::from(match raw {
                Raw::Int(v) => Some(v.to_string()),
                Raw::Decimal(v, scale) => Some(decimal::format(v, scale, false)),
                Raw::Text(s) | Raw::Loose(s) | Raw::Number(s) => Number::parse(s).map(|n| n.canonical()),
                _ => None,
            })
        }),
        Common::Float32 => each_row!(read, len, Float32Builder::with_capacity(len), |raw: Raw<'_>| {
            Made::from(
                match raw {
                    Raw::F32(v) => Some(v),
                    // Text is rounded once, not through a double.
                    Raw::Text(s) | Raw::Loose(s) | Raw::Number(s) => {
                        Number::parse(s).and_then(|_| s.parse::<f32>().ok())
                    }
                    other => other.float().map(|v| v as f32),
                }
                .map(|v| {
                    if v == 0.0 {
                        0.0
                    } else if v.is_nan() {
                        f32::NAN
                    } else {
                        v
                    }
                }),
            )
        }),
        Common::Float64 => each_row!(read, len, Float64Builder::with_capacity(len), |raw: Raw<'_>| {
            Made::from(raw.float().map(|v| {
                if v == 0.0 {
                    0.0
                } else if v.is_nan() {
                    f64::NAN
                } else {
                    v
                }
            }))
        }),
        Common::Text => {
            let padded = matches!(logical, LogicalType::Text { padded: true, .. });
            each_row!(read, len, StringBuilder::new(), |raw: Raw<'_>| {
                match raw.chars() {
                    None => Made::Odd,
                    Some(s) => normalised(if padded { s.trim_end_matches(' ') } else { s }, &rule.normalize),
                }
            })
        }
        Common::Bytes => each_row!(read, len, BinaryBuilder::new(), |raw: Raw<'_>| {
            Made::from(match raw {
                Raw::Bytes(b) => Some(b.to_vec()),
                Raw::Text(s) => Some(s.as_bytes().to_vec()),
                Raw::Loose(s) => Some(text::parse_hex(s).unwrap_or_else(|| s.as_bytes().to_vec())),
                _ => None,
            })
        }),
        Common::Date => each_row!(read, len, Date32Builder::with_capacity(len), |raw: Raw<'_>| {
            let day = match raw {
                Raw::Date(d) => Some(d),
                Raw::Text(s) | Raw::Loose(s) => temporal::parse_moment(s).and_then(temporal::Moment::date),
                _ => None,
            };
            match day {
                Some(d) if as_null && temporal::is_impossible_date(d) => Made::Null,
                other => Made::from(other),
            }
        }),
        Common::Time { nanos: true } => {
            each_row!(read, len, Time64NanosecondBuilder::with_capacity(len), |raw: Raw<'_>| Made::from(
                time(raw)
            ))
        }
        Common::Time { nanos: false } => {
            each_row!(read, len, Time64MicrosecondBuilder::with_capacity(len), |raw: Raw<'_>| {
                Made::from(time(raw).filter(|n| n % 1000 == 0).map(|n| n / 1000))
            })
        }
        Common::Timestamp { nanos: true, .. } => {
            each_row!(read, len, TimestampNanosecondBuilder::with_capacity(len), |raw: Raw<'_>| {
                let impossible = |micros: i64| as_null && temporal::is_impossible_timestamp(micros);
                match raw {
                    Raw::TimestampNanos(v) => Made::Value(v),
                    Raw::TimestampMicros(v) if impossible(v) => Made::Null,
                    Raw::TimestampMicros(v) if temporal::is_reserved_timestamp(v) => Made::Odd,
                    Raw::TimestampMicros(v) => Made::from(v.checked_mul(1000)),
                    Raw::Date(d) => Made::from(
                        temporal::timestamp_of_date(d)
                            .filter(|v| !temporal::is_reserved_timestamp(*v))
                            .and_then(|v| v.checked_mul(1000)),
                    ),
                    Raw::Text(s) | Raw::Loose(s) => {
                        Made::from(temporal::parse_moment(s).and_then(temporal::Moment::nanos))
                    }
                    _ => Made::Odd,
                }
            })
        }
        Common::Timestamp { nanos: false, .. } => {
            each_row!(read, len, TimestampMicrosecondBuilder::with_capacity(len), |raw: Raw<'_>| {
                let micros = match raw {
                    Raw::TimestampMicros(v) => Some(v),
                    Raw::TimestampNanos(v) if v % 1000 == 0 => Some(v / 1000),
                    Raw::Date(d) => temporal::timestamp_of_date(d),
                    Raw::Text(s) | Raw::Loose(s) => {
                        temporal::parse_moment(s).and_then(temporal::Moment::micros)
                    }
                    _ => None,
                };
                match micros {
                    Some(v) if as_null && temporal::is_impossible_timestamp(v) => Made::Null,
                    other => Made::from(other),
                }
            })
        }
        Common::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(len, 16);
            let mut odd = OddBuilder::default();
            for row in 0..len {
                let raw = read.get(row);
                let id = match raw {
                    Some(Raw::Bytes(b)) => <[u8; 16]>::try_from(b).ok(),
                    Some(other) => other.chars().and_then(text::parse_uuid),
                    None => None,
                };
                // The slice has the builder's width, so appending cannot fail.
                match id.map(|id| builder.append_value(id)) {
                    Some(Ok(())) => {}
                    _ => {
                        builder.append_null();
                        if let Some(raw) = raw {
                            odd.put(row, &raw.odd());
                        }
                    }
                }
            }
            Column { values: Arc::new(builder.finish()), odd: odd.finish(len) }
        }
        Common::Json => by_text(read, len, json::canonical),
        Common::Set => by_text(read, len, |s| Some(text::canonical_set(s))),
        Common::Bits => {
            by_text(read, len, |s| s.bytes().all(|b| matches!(b, b'0' | b'1')).then(|| s.to_string()))
        }
        Common::Inet => by_text(read, len, text::canonical_inet),
        Common::Interval => by_text(read, len, |s| text::Interval::parse(s).map(|i| i.canonical())),
    }
}

fn by_text(read: &Reader<'_>, len: usize, canonical: impl Fn(&str) -> Option<String>) -> Column {
    each_row!(read, len, StringBuilder::new(), |raw: Raw<'_>| Made::from(raw.chars().and_then(&canonical)))
}

fn time(raw: Raw<'_>) -> Option<i64> {
    match raw {
        Raw::Nanos(n) => Some(n),
        Raw::Text(s) | Raw::Loose(s) => temporal::parse_time(s),
        _ => None,
    }
}

fn normalised(value: &str, wishes: &[Normalize]) -> Made<String> {
    let mut out = value.to_string();
    for wish in wishes {
        match wish {
            Normalize::Trim => out = out.trim().to_string(),
            Normalize::Rtrim => out.truncate(out.trim_end().len()),
            Normalize::Nfc => out = out.nfc().collect(),
            Normalize::Casefold => out = out.to_lowercase(),
            Normalize::Crlf => out = out.replace("\r\n", "\n"),
            Normalize::EmptyIsNull => {}
        }
    }
    if out.is_empty() && wishes.contains(&Normalize::EmptyIsNull) { Made::Null } else { Made::Value(out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::shape::{ColumnShape, Engine, NativeOrder};

    fn column(logical: LogicalType) -> ColumnShape {
        ColumnShape {
            name: "c".into(),
            engine_type: String::new(),
            logical,
            nullable: None,
            default: None,
            unreadable: None,
            order: NativeOrder::Other,
        }
    }

    fn rule(a: LogicalType, b: LogicalType) -> ColumnRule {
        ColumnRule::between(&column(a), Engine::Postgres, &column(b), Engine::Sqlite).unwrap()
    }

    fn untyped(values: &[Option<Untyped<'_>>]) -> ArrayRef {
        let mut builder = BinaryBuilder::new();
        let mut buffer = Vec::new();
        for value in values {
            match value {
                Some(v) => {
                    v.encode(&mut buffer);
                    builder.append_value(&buffer);
                }
                None => builder.append_null(),
            }
        }
        Arc::new(builder.finish())
    }

    #[test]
    fn text_in_an_integer_column_is_odd_and_whole_numbers_agree() {
        let rule = rule(LogicalType::Int { bits: 32, signed: true }, LogicalType::Untyped(None));
        let wire = untyped(&[
            Some(Untyped::Number("5")),
            Some(Untyped::Text("n/a")),
            Some(Untyped::Text("7")),
            Some(Untyped::Number("8.0")),
            None,
            Some(Untyped::Number("8.5")),
        ]);
        let column = canonicalise(&rule, false, &wire, false).unwrap();
        let ints = column.values.as_primitive::<Int64Type>();
        assert_eq!((ints.value(0), ints.value(2), ints.value(3)), (5, 7, 8));
        assert_eq!(column.odd_at(1), Some("n/a"));
        assert_eq!(column.odd_at(5), Some("8.5"));
        assert!(column.is_null(4) && !column.is_null(1));
    }

    #[test]
    fn zeros_and_nans_are_one_value() {
        let rule = rule(LogicalType::Float64, LogicalType::Float64);
        let wire: ArrayRef =
            Arc::new(arrow::array::Float64Array::from(vec![-0.0, f64::from_bits(0xfff8_0000_0000_0001)]));
        let column = canonicalise(&rule, true, &wire, false).unwrap();
        let floats = column.values.as_primitive::<Float64Type>();
        assert_eq!(floats.value(0).to_bits(), 0);
        assert_eq!(floats.value(1).to_bits(), f64::NAN.to_bits());
    }

    #[test]
    fn impossible_dates_are_null_only_on_demand() {
        let rule = rule(LogicalType::Date, LogicalType::Date);
        let wire: ArrayRef =
            Arc::new(arrow::array::Date32Array::from(vec![temporal::mysql_date(0, 0, 0), 3]));
        assert_eq!(canonicalise(&rule, true, &wire, false).unwrap().values.null_count(), 0);
        assert_eq!(canonicalise(&rule, true, &wire, true).unwrap().values.null_count(), 1);
    }

    #[test]
    fn padding_is_trimmed_where_the_type_pads_only() {
        let rule = rule(LogicalType::Text { max: Some(6), padded: true }, LogicalType::TEXT);
        let wire: ArrayRef = Arc::new(StringArray::from(vec!["ab    ", ""]));
        let char_side = canonicalise(&rule, true, &wire, false).unwrap();
        assert_eq!(char_side.values.as_string::<i32>().value(0), "ab");
        let varchar_side = canonicalise(&rule, false, &wire, false).unwrap();
        assert_eq!(varchar_side.values.as_string::<i32>().value(0), "ab    ");
    }
}
