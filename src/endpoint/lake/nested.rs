//! Lists, structs and maps as JSON text.

use std::fmt::Write;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};

use super::convert::{bool_at, bytes_at, interval, text_at};
use crate::value::json::string;
use crate::value::temporal;
use crate::value::text::hex;

/// Appends the JSON of one value. Numbers and booleans stand bare; all else is JSON text in drift's usual spelling.
pub(super) fn json(array: &dyn Array, row: usize, out: &mut String) -> Result<(), String> {
    if array.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    macro_rules! number {
        ($kind:ty) => {{
            let _ = write!(out, "{}", array.as_primitive::<$kind>().value(row));
        }};
    }
    macro_rules! decimal {
        ($kind:ty) => {{ out.push_str(&array.as_primitive::<$kind>().value_as_string(row)) }};
    }
    macro_rules! at {
        ($kind:ty) => {
            i64::from(array.as_primitive::<$kind>().value(row))
        };
    }
    let too_far = || "an instant lies out of range".to_string();
    match array.data_type() {
        DataType::Null => out.push_str("null"),
        DataType::Boolean => out.push_str(if bool_at(array, row) == Some(true) { "true" } else { "false" }),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => float(f64::from(array.as_primitive::<Float16Type>().value(row)), out),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            if value.is_finite() {
                // The shortest text of the narrow number, not of its wider twin.
                let _ = write!(out, "{value:?}");
            } else {
                float(f64::from(value), out);
            }
        }
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row), out),
        DataType::Decimal32(..) => decimal!(Decimal32Type),
        DataType::Decimal64(..) => decimal!(Decimal64Type),
        DataType::Decimal128(..) => decimal!(Decimal128Type),
        DataType::Decimal256(..) => decimal!(Decimal256Type),
        DataType::Date32 => {
            string(&temporal::format_date(array.as_primitive::<Date32Type>().value(row)), out)
        }
        DataType::Date64 => {
            let micros = at!(Date64Type).checked_mul(1000).ok_or_else(too_far)?;
            let text = temporal::format_timestamp_micros(micros, false);
            string(text.strip_suffix("T00:00:00").unwrap_or(&text), out);
        }
        DataType::Time32(TimeUnit::Second) => time(at!(Time32SecondType).checked_mul(1_000_000_000), out)?,
        DataType::Time32(_) => time(at!(Time32MillisecondType).checked_mul(1_000_000), out)?,
        DataType::Time64(TimeUnit::Microsecond) => time(at!(Time64MicrosecondType).checked_mul(1000), out)?,
        DataType::Time64(_) => time(Some(at!(Time64NanosecondType)), out)?,
        DataType::Timestamp(unit, zone) => {
            let zoned = zone.is_some();
            let micros = match unit {
                TimeUnit::Second => at!(TimestampSecondType).checked_mul(1_000_000),
                TimeUnit::Millisecond => at!(TimestampMillisecondType).checked_mul(1000),
                TimeUnit::Microsecond => Some(at!(TimestampMicrosecondType)),
                TimeUnit::Nanosecond => {
                    string(&temporal::format_timestamp_nanos(at!(TimestampNanosecondType), zoned), out);
                    return Ok(());
                }
            };
            string(&temporal::format_timestamp_micros(micros.ok_or_else(too_far)?, zoned), out);
        }
        DataType::Interval(_) | DataType::Duration(_) => string(&interval(array, row)?.canonical(), out),
        DataType::List(_) => list(array.as_list::<i32>().value(row).as_ref(), out)?,
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row).as_ref(), out)?,
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row).as_ref(), out)?,
        DataType::Struct(fields) => {
            let members = array.as_struct();
            out.push('{');
            for (i, field) in fields.iter().enumerate() {
                separate(i, out);
                string(field.name(), out);
                out.push(':');
                json(members.column(i).as_ref(), row, out)?;
            }
            out.push('}');
        }
        DataType::Map(..) => map(array, row, out)?,
        DataType::Dictionary(_, value) => {
            let one = cast(&array.slice(row, 1), value).map_err(|_| "a dictionary is damaged".to_string())?;
            json(one.as_ref(), 0, out)?;
        }
        other => match (text_at(array, row), bytes_at(array, row)) {
            (Some(text), _) => string(text, out),
            (None, Some(bytes)) => {
                out.push_str("\"0x");
                out.push_str(&hex(bytes));
                out.push('"');
            }
            (None, None) => return Err(format!("a value of type {other} has no JSON form")),
        },
    }
    Ok(())
}

/// JSON has no word for NaN and the infinities: they are text.
fn float(value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("\"NaN\"");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
    } else {
        let _ = write!(out, "{value:?}");
    }
}

fn time(nanos: Option<i64>, out: &mut String) -> Result<(), String> {
    let nanos = nanos.ok_or("a time lies out of range")?;
    string(&temporal::format_time(nanos), out);
    Ok(())
}

fn separate(i: usize, out: &mut String) {
    if i > 0 {
        out.push(',');
    }
}

fn list(elements: &dyn Array, out: &mut String) -> Result<(), String> {
    out.push('[');
    for i in 0..elements.len() {
        separate(i, out);
        json(elements, i, out)?;
    }
    out.push(']');
    Ok(())
}

/// A map is an object; a key that is no text is written as the text of its JSON.
fn map(array: &dyn Array, row: usize, out: &mut String) -> Result<(), String> {
    let entries = array.as_map().value(row);
    let (keys, values) = (entries.column(0), entries.column(1));
    out.push('{');
    for i in 0..entries.len() {
        separate(i, out);
        let mut key = String::new();
        json(keys.as_ref(), i, &mut key)?;
        if key.starts_with('"') {
            out.push_str(&key);
        } else {
            string(&key, out);
        }
        out.push(':');
        json(values.as_ref(), i, out)?;
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Builder;
    use arrow::array::{
        ArrayRef, BinaryArray, Date32Array, Decimal128Array, Float64Array, Int32Array, ListArray, MapBuilder,
        StringArray, StringBuilder, StructArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::Field;
    use std::sync::Arc;

    fn text(array: &dyn Array, row: usize) -> String {
        let mut out = String::new();
        json(array, row, &mut out).unwrap();
        serde_json::from_str::<serde_json::Value>(&out).unwrap();
        out
    }

    #[test]
    fn lists_and_structs_are_json() {
        let list =
            ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), Some(vec![])]);
        assert_eq!(text(&list, 0), "[1,null]");
        assert_eq!(text(&list, 1), "[]");
        let field =
            |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("s", Arc::new(StringArray::from(vec!["a\"b"]))),
            ("f", Arc::new(Float64Array::from(vec![f64::NAN]))),
            ("d", Arc::new(Date32Array::from(vec![0]))),
            ("t", Arc::new(TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone("UTC"))),
            ("n", Arc::new(Decimal128Array::from(vec![-105]).with_precision_and_scale(5, 2).unwrap())),
            ("b", Arc::new(BinaryArray::from_vec(vec![b"\x01\xff"]))),
            ("i", Arc::new(Int32Array::from(vec![None]))),
        ];
        let members = StructArray::from(
            columns.into_iter().map(|(name, array)| (field(name, &array), array)).collect::<Vec<_>>(),
        );
        assert_eq!(
            text(&members, 0),
            r#"{"s":"a\"b","f":"NaN","d":"1970-01-01","t":"1970-01-01T00:00:01.5Z","n":-1.05,"b":"0x01ff","i":null}"#
        );
    }

    #[test]
    fn maps_are_objects() {
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        map.keys().append_value("k");
        map.values().append_value(7);
        map.append(true).unwrap();
        assert_eq!(text(&map.finish(), 0), r#"{"k":7}"#);
        let mut map = MapBuilder::new(None, Int32Builder::new(), Int32Builder::new());
        map.keys().append_value(3);
        map.values().append_null();
        map.append(true).unwrap();
        assert_eq!(text(&map.finish(), 0), r#"{"3":null}"#);
    }
}
