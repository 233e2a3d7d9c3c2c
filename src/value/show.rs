//! Values for people and for JSON. Text exists only here.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UInt64Type,
};
use serde_json::{Number, Value};

use super::canon::{Column, ODD_BYTES};
use super::decimal;
use super::recipe::{ColumnRule, Common};
use super::{temporal, text};

/// The value as text; `None` is NULL.
pub fn text_of(rule: &ColumnRule, column: &Column, row: usize) -> Option<String> {
    let values = &column.values;
    if values.is_null(row) {
        return column.odd_at(row).map(|odd| odd.strip_prefix(ODD_BYTES).unwrap_or(odd).to_string());
    }
    let zoned = matches!(rule.common, Common::Timestamp { zoned: true, .. });
    Some(match values.data_type() {
        DataType::Boolean => values.as_boolean().value(row).to_string(),
        DataType::Int64 => values.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt64 => values.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Decimal128(_, scale) => {
            decimal::format(values.as_primitive::<Decimal128Type>().value(row), *scale, true)
        }
        DataType::Float32 => float(f64::from(values.as_primitive::<Float32Type>().value(row)), |_| {
            values.as_primitive::<Float32Type>().value(row).to_string()
        }),
        DataType::Float64 => float(values.as_primitive::<Float64Type>().value(row), |v| format!("{v:?}")),
        DataType::Date32 => temporal::format_date(values.as_primitive::<Date32Type>().value(row)),
        DataType::Time64(TimeUnit::Nanosecond) => {
            temporal::format_time(values.as_primitive::<Time64NanosecondType>().value(row))
        }
        DataType::Time64(_) => {
            let micros = values.as_primitive::<Time64MicrosecondType>().value(row);
            temporal::format_time(micros.saturating_mul(1000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => temporal::format_timestamp_nanos(
            values.as_primitive::<TimestampNanosecondType>().value(row),
            zoned,
        ),
        DataType::Timestamp(..) => temporal::format_timestamp_micros(
            values.as_primitive::<TimestampMicrosecondType>().value(row),
            zoned,
        ),
        DataType::FixedSizeBinary(_) => text::format_uuid(values.as_fixed_size_binary().value(row)),
        DataType::Binary => format!("0x{}", text::hex(values.as_binary::<i32>().value(row))),
        _ => values.as_string::<i32>().value(row).to_string(),
    })
}

fn float(v: f64, finite: impl Fn(f64) -> String) -> String {
    if v.is_nan() {
        "NaN".into()
    } else if v.is_infinite() {
        if v > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else {
        finite(v)
    }
}

/// The value as JSON: booleans, integers of at most 32 bits and finite floats are bare, all else is a string.
pub fn json_of(rule: &ColumnRule, column: &Column, row: usize) -> Value {
    let Some(text) = text_of(rule, column, row) else { return Value::Null };
    if column.values.is_null(row) {
        return Value::String(text);
    }
    match column.values.data_type() {
        DataType::Boolean => Value::Bool(column.values.as_boolean().value(row)),
        DataType::Int64 if !rule.is_wide_integer() => {
            Value::from(column.values.as_primitive::<Int64Type>().value(row))
        }
        DataType::Float32 | DataType::Float64 => match text.parse::<Number>() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::String(text),
        },
        _ => Value::String(text),
    }
}

/// A key's value as JSON: always a string, or null.
pub fn key_json_of(rule: &ColumnRule, column: &Column, row: usize) -> Value {
    text_of(rule, column, row).map_or(Value::Null, Value::String)
}
