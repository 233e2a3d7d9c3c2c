//! Whether two single values are the same, with the tolerance that the rule allows.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UInt64Type,
};

use super::canon::Column;
use super::decimal;
use super::recipe::{ColumnRule, Common, Tolerance};
use super::temporal;

/// Whether the values of row `i` in `a` and row `j` in `b` are the same under the rule.
pub fn same(rule: &ColumnRule, a: &Column, i: usize, b: &Column, j: usize) -> bool {
    match (a.values.is_valid(i), b.values.is_valid(j)) {
        (true, true) => {}
        (false, false) => return a.odd_at(i) == b.odd_at(j),
        _ => return false,
    }
    macro_rules! primitive {
        ($type:ty) => {
            a.values.as_primitive::<$type>().value(i) == b.values.as_primitive::<$type>().value(j)
        };
    }
    let exact = match a.values.data_type() {
        DataType::Boolean => a.values.as_boolean().value(i) == b.values.as_boolean().value(j),
        DataType::Int64 => primitive!(Int64Type),
        DataType::UInt64 => primitive!(UInt64Type),
        DataType::Decimal128(..) => primitive!(Decimal128Type),
        // Canonical floats have one zero and one NaN, so their bits decide.
        DataType::Float32 => {
            a.values.as_primitive::<Float32Type>().value(i).to_bits()
                == b.values.as_primitive::<Float32Type>().value(j).to_bits()
        }
        DataType::Float64 => {
            a.values.as_primitive::<Float64Type>().value(i).to_bits()
                == b.values.as_primitive::<Float64Type>().value(j).to_bits()
        }
        DataType::Date32 => primitive!(Date32Type),
        DataType::Time64(TimeUnit::Nanosecond) => primitive!(Time64NanosecondType),
        DataType::Time64(_) => primitive!(Time64MicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive!(TimestampNanosecondType),
        DataType::Timestamp(..) => primitive!(TimestampMicrosecondType),
        DataType::FixedSizeBinary(_) => {
            a.values.as_fixed_size_binary().value(i) == b.values.as_fixed_size_binary().value(j)
        }
        DataType::Binary => a.values.as_binary::<i32>().value(i) == b.values.as_binary::<i32>().value(j),
        _ => a.values.as_string::<i32>().value(i) == b.values.as_string::<i32>().value(j),
    };
    exact || within_coarse(rule, a, i, b, j) || within_tolerance(rule, a, i, b, j)
}

/// The instant or time as an integer in its own unit; `None` for the reserved values.
pub(crate) fn ticks(column: &Column, row: usize) -> Option<i64> {
    let values = &column.values;
    match values.data_type() {
        DataType::Time64(TimeUnit::Nanosecond) => {
            Some(values.as_primitive::<Time64NanosecondType>().value(row))
        }
        DataType::Time64(_) => Some(values.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Some(values.as_primitive::<TimestampNanosecondType>().value(row))
        }
        DataType::Timestamp(..) => {
            let v = values.as_primitive::<TimestampMicrosecondType>().value(row);
            (!temporal::is_reserved_timestamp(v)).then_some(v)
        }
        _ => None,
    }
}

fn within_coarse(rule: &ColumnRule, a: &Column, i: usize, b: &Column, j: usize) -> bool {
    let Some(unit) = rule.coarse else { return false };
    match (ticks(a, i), ticks(b, j)) {
        (Some(x), Some(y)) => x.abs_diff(y) < unit.unsigned_abs(),
        _ => false,
    }
}

fn within_tolerance(rule: &ColumnRule, a: &Column, i: usize, b: &Column, j: usize) -> bool {
    let Some(tolerance) = rule.tolerance else { return false };
    if let Tolerance::Duration(micros) = tolerance {
        if let (DataType::Date32, DataType::Date32) = (a.values.data_type(), b.values.data_type()) {
            let day = |c: &Column, row| i64::from(c.values.as_primitive::<Date32Type>().value(row));
            return day(a, i).abs_diff(day(b, j)).saturating_mul(86_400_000_000) <= micros.unsigned_abs();
        }
        let scale = match rule.common {
            Common::Time { nanos: true } | Common::Timestamp { nanos: true, .. } => 1000,
            _ => 1,
        };
        return match (ticks(a, i), ticks(b, j)) {
            (Some(x), Some(y)) => x.abs_diff(y) <= micros.unsigned_abs().saturating_mul(scale),
            _ => false,
        };
    }
    let (Some(x), Some(y)) = (number(a, i), number(b, j)) else { return false };
    let apart = (x - y).abs();
    match tolerance {
        Tolerance::Absolute(limit) => apart <= limit,
        Tolerance::Relative(share) => apart <= share * x.abs().max(y.abs()),
        Tolerance::Duration(_) => false,
    }
}

/// The value as a double, for tolerances; `None` when it is not a finite number.
fn number(column: &Column, row: usize) -> Option<f64> {
    let values = &column.values;
    let v = match values.data_type() {
        DataType::Int64 => values.as_primitive::<Int64Type>().value(row) as f64,
        DataType::UInt64 => values.as_primitive::<UInt64Type>().value(row) as f64,
        DataType::Float32 => f64::from(values.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row),
        DataType::Decimal128(_, scale) => {
            decimal::format(values.as_primitive::<Decimal128Type>().value(row), *scale, false).parse().ok()?
        }
        DataType::Utf8 => values.as_string::<i32>().value(row).parse().ok()?,
        _ => return None,
    };
    v.is_finite().then_some(v)
}
