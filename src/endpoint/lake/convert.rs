//! Arrow arrays as files hold them, into the wire form of their logical type. Nothing is rounded, cut or turned into
//! NULL: a value that does not fit is an error.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Date64Array, FixedSizeBinaryArray, PrimitiveArray,
    StringArray, StringBuilder, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};

use super::nested;
use crate::endpoint::wire_type;
use crate::value::shape::LogicalType;
use crate::value::text::Interval;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Converts an array of a file into the wire form of `to`. `from` is what [`super::typed::logical`] said about it. The
/// error says what is wrong, without values.
pub(super) fn to_wire(array: &ArrayRef, from: &LogicalType, to: &LogicalType) -> Result<ArrayRef, String> {
    let own = own_wire(&decoded(array)?, from)?;
    if own.data_type() == &wire_type(to) {
        return Ok(own);
    }
    match (from, to) {
        (LogicalType::Untyped(None), _) => Ok(new_null_array(&wire_type(to), array.len())),
        _ => strict_cast(&own, &wire_type(to)),
    }
}

/// Dictionaries and runs written out.
fn decoded(array: &ArrayRef) -> Result<ArrayRef, String> {
    match array.data_type() {
        DataType::Dictionary(_, value) => strict_cast(array, value),
        DataType::RunEndEncoded(_, values) => strict_cast(array, values.data_type()),
        _ => Ok(array.clone()),
    }
}

/// The wire form of the array's own logical type.
fn own_wire(array: &ArrayRef, logical: &LogicalType) -> Result<ArrayRef, String> {
    match logical {
        LogicalType::Untyped(None) => Ok(new_null_array(&DataType::Binary, array.len())),
        LogicalType::Json if !is_text(array.data_type()) => texts(array, nested::json),
        LogicalType::Array(_) => texts(array, nested::json),
        LogicalType::Interval => texts(array, |array, row, out| {
            out.push_str(&interval(array, row)?.canonical());
            Ok(())
        }),
        LogicalType::Date if array.data_type() == &DataType::Date64 => date64(array.as_primitive()),
        LogicalType::Timestamp { .. } => strict_cast(&without_zone(array), &wire_type(logical)),
        _ => strict_cast(array, &wire_type(logical)),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Casts without rounding; the reason of a failure is not passed on since it holds the value.
fn strict_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options)
        .map_err(|_| format!("a value of type {} does not fit {to}", array.data_type()))
}

fn texts(
    array: &ArrayRef,
    write: impl Fn(&dyn Array, usize, &mut String) -> Result<(), String>,
) -> Result<ArrayRef, String> {
    let mut builder = StringBuilder::with_capacity(array.len(), array.len() * 16);
    let mut text = String::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
        } else {
            text.clear();
            write(array.as_ref(), row, &mut text)?;
            builder.append_value(&text);
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn date64(array: &Date64Array) -> Result<ArrayRef, String> {
    let days: Date32Array = array.try_unary(|ms| match i32::try_from(ms / DAY) {
        Ok(day) if ms % DAY == 0 => Ok(day),
        _ => Err("a date holds a time of day or lies out of range".to_string()),
    })?;
    Ok(Arc::new(days))
}

/// A cast would shift the values by the zone; they are UTC as they stand.
fn without_zone(array: &ArrayRef) -> ArrayRef {
    fn bare<T: arrow::datatypes::ArrowTimestampType>(array: &ArrayRef) -> ArrayRef {
        Arc::new(array.as_primitive::<T>().clone().with_timezone_opt::<Arc<str>>(None))
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, Some(_)) => bare::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, Some(_)) => bare::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => bare::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => bare::<TimestampNanosecondType>(array),
        _ => array.clone(),
    }
}

/// A span out of any of Arrow's and Parquet's forms of it.
pub(super) fn interval(array: &dyn Array, row: usize) -> Result<Interval, String> {
    fn value<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
        let array: &PrimitiveArray<T> = array.as_primitive();
        array.value(row)
    }
    let span = |months, days, micros: Option<i64>| {
        micros.map(|micros| Interval { months, days, micros }).ok_or("a span is too long".to_string())
    };
    let micros = |nanos: i64| {
        if nanos % 1000 == 0 {
            Ok(nanos / 1000)
        } else {
            Err("a span is finer than microseconds".to_string())
        }
    };
    match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            span(value::<IntervalYearMonthType>(array, row), 0, Some(0))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let parts = value::<IntervalDayTimeType>(array, row);
            span(0, parts.days, Some(i64::from(parts.milliseconds) * 1000))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let parts = value::<IntervalMonthDayNanoType>(array, row);
            span(parts.months, parts.days, Some(micros(parts.nanoseconds)?))
        }
        DataType::Duration(TimeUnit::Second) => {
            span(0, 0, value::<DurationSecondType>(array, row).checked_mul(1_000_000))
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            span(0, 0, value::<DurationMillisecondType>(array, row).checked_mul(1000))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            span(0, 0, Some(value::<DurationMicrosecondType>(array, row)))
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            span(0, 0, Some(micros(value::<DurationNanosecondType>(array, row))?))
        }
        DataType::FixedSizeBinary(12) => {
            // Parquet's INTERVAL: three unsigned little-endian numbers.
            let bytes = array.as_fixed_size_binary().value(row);
            let part =
                |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let small = |n: u32| i32::try_from(n).map_err(|_| "a span is too long".to_string());
            span(small(part(0))?, small(part(4))?, Some(i64::from(part(8)) * 1000))
        }
        other => Err(format!("a span of type {other} cannot be read")),
    }
}

/// One value for every row.
pub(super) fn repeated(wire: &[u8], rows: usize) -> ArrayRef {
    Arc::new(arrow::array::BinaryArray::from_iter_values(std::iter::repeat_n(wire, rows)))
}

/// Plain accessors for [`nested`], by type.
pub(super) fn text_at(array: &dyn Array, row: usize) -> Option<&str> {
    let strings: Option<&StringArray> = array.as_string_opt();
    strings
        .map(|a| a.value(row))
        .or_else(|| array.as_string_opt::<i64>().map(|a| a.value(row)))
        .or_else(|| array.as_string_view_opt().map(|a| a.value(row)))
}

/// Bytes of any binary array.
pub(super) fn bytes_at(array: &dyn Array, row: usize) -> Option<&[u8]> {
    let fixed: Option<&FixedSizeBinaryArray> = array.as_fixed_size_binary_opt();
    fixed
        .map(|a| a.value(row))
        .or_else(|| array.as_binary_opt::<i32>().map(|a| a.value(row)))
        .or_else(|| array.as_binary_opt::<i64>().map(|a| a.value(row)))
        .or_else(|| array.as_binary_view_opt().map(|a| a.value(row)))
}

/// A boolean.
pub(super) fn bool_at(array: &dyn Array, row: usize) -> Option<bool> {
    let booleans: Option<&BooleanArray> = array.as_boolean_opt();
    booleans.map(|a| a.value(row))
}

#[cfg(test)]
mod tests {
    use super::super::typed::{Annotation, logical};
    use super::*;
    use arrow::array::{
        Decimal128Array, Decimal256Array, DictionaryArray, DurationNanosecondArray, Float16Array,
        Float32Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, NullArray,
        TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    };
    use arrow::datatypes::{Int8Type, IntervalMonthDayNano, i256};

    fn own(array: impl Array + 'static) -> Result<ArrayRef, String> {
        let array: ArrayRef = Arc::new(array);
        let from = logical(array.data_type(), Annotation::None).unwrap();
        let wire = to_wire(&array, &from, &from)?;
        assert_eq!(wire.data_type(), &wire_type(&from));
        Ok(wire)
    }

    #[test]
    fn zoned_instants_stay_utc() {
        let wire = own(TimestampMicrosecondArray::from(vec![7]).with_timezone("+02:00")).unwrap();
        assert_eq!(wire.as_primitive::<TimestampMicrosecondType>().value(0), 7);
        let wire = own(TimestampSecondArray::from(vec![-1])).unwrap();
        assert_eq!(wire.as_primitive::<TimestampMicrosecondType>().value(0), -1_000_000);
        assert!(own(TimestampSecondArray::from(vec![i64::MAX / 1000])).is_err());
        let wire = own(TimestampNanosecondArray::from(vec![7])).unwrap();
        assert_eq!(wire.as_primitive::<TimestampNanosecondType>().value(0), 7);
    }

    #[test]
    fn dates_with_a_time_are_refused() {
        let wire = own(Date64Array::from(vec![DAY * 3, -DAY])).unwrap();
        assert_eq!(wire.as_primitive::<arrow::datatypes::Date32Type>().values(), &[3, -1]);
        assert!(own(Date64Array::from(vec![DAY + 1])).is_err());
    }

    #[test]
    fn widening_keeps_values() {
        let to = LogicalType::Decimal { precision: 20, scale: 0 };
        let array: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        let wire = to_wire(&array, &LogicalType::Int { bits: 64, signed: false }, &to).unwrap();
        let decimals: &Decimal128Array = wire.as_primitive();
        assert_eq!(decimals.value(0), i128::from(u64::MAX));
        let array: ArrayRef =
            Arc::new(Decimal128Array::from(vec![125]).with_precision_and_scale(5, 2).unwrap());
        let from = LogicalType::Decimal { precision: 5, scale: 2 };
        let to = LogicalType::Decimal { precision: 9, scale: 4 };
        assert_eq!(
            to_wire(&array, &from, &to).unwrap().as_primitive::<arrow::datatypes::Decimal128Type>().value(0),
            12500
        );
        let text = to_wire(&array, &from, &LogicalType::DecimalText).unwrap();
        assert_eq!(text.as_string::<i32>().value(0), "1.25");
        let array: ArrayRef = Arc::new(NullArray::new(2));
        let nulls = to_wire(&array, &LogicalType::Untyped(None), &LogicalType::Date).unwrap();
        assert_eq!((nulls.data_type(), nulls.null_count()), (&DataType::Date32, 2));
        let array: ArrayRef = Arc::new(Int32Array::from(vec![-5]));
        let from = LogicalType::Int { bits: 32, signed: true };
        let wire = to_wire(&array, &from, &LogicalType::Int { bits: 64, signed: true }).unwrap();
        assert_eq!(wire.as_ref(), &Int64Array::from(vec![-5]));
    }

    #[test]
    fn packed_and_odd_types_are_written_out() {
        let words: DictionaryArray<Int8Type> =
            vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
        let wire = own(words).unwrap();
        assert_eq!(
            wire.as_string::<i32>().iter().collect::<Vec<_>>(),
            [Some("a"), None, Some("b"), Some("a")]
        );
        let wide =
            Decimal256Array::from(vec![i256::from_i128(-12345)]).with_precision_and_scale(60, 2).unwrap();
        assert_eq!(own(wide).unwrap().as_string::<i32>().value(0), "-123.45");
        let narrow =
            Decimal256Array::from(vec![i256::from_i128(-12345)]).with_precision_and_scale(20, 2).unwrap();
        assert_eq!(own(narrow).unwrap().as_primitive::<arrow::datatypes::Decimal128Type>().value(0), -12345);
        let half = arrow::compute::cast(&Float32Array::from(vec![0.5]), &DataType::Float16).unwrap();
        let half: Float16Array = half.as_primitive().clone();
        assert_eq!(own(half).unwrap().as_primitive::<arrow::datatypes::Float32Type>().value(0), 0.5);
        let spans = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(14, -3, 4_500_000_000)]);
        assert_eq!(own(spans).unwrap().as_string::<i32>().value(0), "P1Y2M-3DT4.5S");
        assert!(own(DurationNanosecondArray::from(vec![1])).is_err());
    }
}
