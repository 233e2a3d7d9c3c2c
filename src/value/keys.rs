//! Keys as bytes whose order is the canonical order of keys: NULL first, numbers by value, text by its UTF-8 bytes,
//! odd values last; composite keys from left to right.

use arrow::array::{Array, AsArray, BinaryArray, BinaryBuilder};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UInt64Type,
};

use super::canon::Column;
use super::decimal::Number;
use super::recipe::Common;

const NULL: u8 = 0;
const VALUE: u8 = 1;
const ODD: u8 = 2;

/// Encodes the key columns of all rows. `commons` says what the columns hold.
pub fn encode(columns: &[Column], commons: &[&Common], rows: usize) -> BinaryArray {
    let mut out = BinaryBuilder::with_capacity(rows, rows * 12 * columns.len());
    let mut key = Vec::with_capacity(64);
    for row in 0..rows {
        key.clear();
        for (column, common) in columns.iter().zip(commons) {
            write(column, common, row, &mut key);
        }
        out.append_value(&key);
    }
    out.finish()
}

fn write(column: &Column, common: &Common, row: usize, out: &mut Vec<u8>) {
    if column.values.is_null(row) {
        match column.odd_at(row) {
            None => out.push(NULL),
            Some(odd) => {
                out.push(ODD);
                escaped(odd.as_bytes(), out);
            }
        }
        return;
    }
    out.push(VALUE);
    let values = &column.values;
    let mut signed = |v: i64| out.extend_from_slice(&((v as u64) ^ (1 << 63)).to_be_bytes());
    match values.data_type() {
        DataType::Boolean => out.push(u8::from(values.as_boolean().value(row))),
        DataType::Int64 => signed(values.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => {
            out.extend_from_slice(&values.as_primitive::<UInt64Type>().value(row).to_be_bytes())
        }
        DataType::Decimal128(..) => {
            let v = values.as_primitive::<Decimal128Type>().value(row);
            out.extend_from_slice(&((v as u128) ^ (1 << 127)).to_be_bytes());
        }
        DataType::Float32 => {
            let bits = values.as_primitive::<Float32Type>().value(row).to_bits();
            let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        DataType::Float64 => {
            let bits = values.as_primitive::<Float64Type>().value(row).to_bits();
            let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        DataType::Date32 => signed(i64::from(values.as_primitive::<Date32Type>().value(row))),
        DataType::Time64(TimeUnit::Nanosecond) => {
            signed(values.as_primitive::<Time64NanosecondType>().value(row))
        }
        DataType::Time64(_) => signed(values.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            signed(values.as_primitive::<TimestampNanosecondType>().value(row));
        }
        DataType::Timestamp(..) => signed(values.as_primitive::<TimestampMicrosecondType>().value(row)),
        DataType::FixedSizeBinary(_) => out.extend_from_slice(values.as_fixed_size_binary().value(row)),
        DataType::Binary => escaped(values.as_binary::<i32>().value(row), out),
        _ => {
            let text = values.as_string::<i32>().value(row);
            match (common, Number::parse(text)) {
                (Common::DecimalText, Some(number)) => number.write_ordered(out),
                _ => escaped(text.as_bytes(), out),
            }
        }
    }
}

/// Bytes of any length, so that a shorter run sorts before a longer one and no value runs into its neighbour.
fn escaped(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.contains(&0) {
        for b in bytes {
            out.push(*b);
            if *b == 0 {
                out.push(0xff);
            }
        }
    } else {
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(&[0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn column(values: ArrayRef) -> Column {
        Column { values, odd: None }
    }

    #[test]
    fn bytes_follow_the_order_of_values() {
        let ints =
            column(Arc::new(Int64Array::from(vec![None, Some(i64::MIN), Some(-1), Some(0), Some(i64::MAX)])));
        let keys = encode(&[ints], &[&Common::Int64], 5);
        assert!((1..5).all(|i| keys.value(i - 1) < keys.value(i)));
        let floats = column(Arc::new(Float64Array::from(vec![
            f64::NEG_INFINITY,
            -1.5,
            0.0,
            1e-9,
            f64::INFINITY,
            f64::NAN,
        ])));
        let keys = encode(&[floats], &[&Common::Float64], 6);
        assert!((1..6).all(|i| keys.value(i - 1) < keys.value(i)));
        let texts =
            column(Arc::new(StringArray::from(vec!["", "a", "a\0", "a\0b", "a\u{1}", "aa", "b", "é"])));
        let keys = encode(&[texts], &[&Common::Text], 8);
        assert!((1..8).all(|i| keys.value(i - 1) < keys.value(i)));
    }

    #[test]
    fn composite_keys_are_lists_not_one_text() {
        let a = column(Arc::new(StringArray::from(vec!["2", "22", "2", ""])));
        let b = column(Arc::new(StringArray::from(vec!["22", "2", "2", "222"])));
        let keys = encode(&[a, b], &[&Common::Text, &Common::Text], 4);
        for i in 0..4 {
            for j in i + 1..4 {
                assert_ne!(keys.value(i), keys.value(j));
            }
        }
        assert!(keys.value(2) < keys.value(0) && keys.value(0) < keys.value(1));
    }
}
