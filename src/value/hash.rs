//! Row hashes over canonical columns, column by column.
//!
//! Each value is its own input of xxh3 (64 bits) with the hash so far as its seed, so neither a separator nor a length
//! can be confused; NULL and odd values are steps of their own. Version: [`super::recipe::VERSION`].

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UInt64Type,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::canon::Column;

/// Which hash says that two rows are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hash {
    /// xxh3, 64 bits.
    #[default]
    Native,
    /// CRC-32 (the polynomial of zlib and of MySQL's `crc32`), over the lengths and bytes of the values. It never misses a
    /// change within 4 bytes of one value, and any other with a chance of 1 in 2^32.
    Crc32,
}

impl Hash {
    /// How many bits it has.
    pub fn bits(self) -> u8 {
        match self {
            Hash::Native => 64,
            Hash::Crc32 => 32,
        }
    }

    /// What it can miss, for people; nothing worth a word for the native one.
    pub fn risk(self) -> Option<&'static str> {
        match self {
            Hash::Native => None,
            Hash::Crc32 => Some(
                "rows are compared by hashes of 32 bits (crc32): a changed row is taken for equal with a chance of 1 in 4,294,967,296",
            ),
        }
    }
}

/// CRC-32 of the length and the bytes.
pub fn crc32(bytes: &[u8], seed: u64) -> u64 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed as u32);
    // Without lengths, one value's end could be the next one's beginning.
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
    u64::from(hasher.finalize())
}

const NULL_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const ODD_STEP: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// The hash of a key's bytes, which seeds the hash of its row.
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Drives `hashes` one column further. With `coarse`, instants count in whole units of that size.
pub fn chain(kind: Hash, hashes: &mut [u64], column: &Column, coarse: Option<i64>) {
    match kind {
        Hash::Native => chain_by(xxh3_64_with_seed, hashes, column, coarse),
        Hash::Crc32 => chain_by(crc32, hashes, column, coarse),
    }
}

fn chain_by(step: impl Fn(&[u8], u64) -> u64, hashes: &mut [u64], column: &Column, coarse: Option<i64>) {
    macro_rules! primitive {
        ($type:ty, $to:expr) => {{
            let array = column.values.as_primitive::<$type>();
            let values = array.values();
            each(&step, hashes, column, |row, h| step(&($to)(values[row]).to_le_bytes(), h));
        }};
    }
    let cut = |v: i64| coarse.map_or(v, |unit| v.div_euclid(unit));
    match column.values.data_type() {
        DataType::Boolean => {
            let array = column.values.as_boolean();
            each(&step, hashes, column, |row, h| step(&[u8::from(array.value(row))], h));
        }
        DataType::Int64 => primitive!(Int64Type, |v: i64| v),
        DataType::UInt64 => primitive!(UInt64Type, |v: u64| v),
        DataType::Decimal128(..) => primitive!(Decimal128Type, |v: i128| v),
        DataType::Float32 => primitive!(Float32Type, |v: f32| v),
        DataType::Float64 => primitive!(Float64Type, |v: f64| v),
        DataType::Date32 => primitive!(Date32Type, |v: i32| v),
        DataType::Time64(TimeUnit::Nanosecond) => primitive!(Time64NanosecondType, cut),
        DataType::Time64(_) => primitive!(Time64MicrosecondType, cut),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive!(TimestampNanosecondType, cut),
        DataType::Timestamp(..) => primitive!(TimestampMicrosecondType, cut),
        DataType::FixedSizeBinary(_) => {
            let array = column.values.as_fixed_size_binary();
            each(&step, hashes, column, |row, h| step(array.value(row), h));
        }
        DataType::Binary => {
            let array = column.values.as_binary::<i32>();
            each(&step, hashes, column, |row, h| step(array.value(row), h));
        }
        _ => {
            let array = column.values.as_string::<i32>();
            each(&step, hashes, column, |row, h| step(array.value(row).as_bytes(), h));
        }
    }
}

fn each(
    step: &impl Fn(&[u8], u64) -> u64,
    hashes: &mut [u64],
    column: &Column,
    value: impl Fn(usize, u64) -> u64,
) {
    if column.values.null_count() == 0 {
        for (row, h) in hashes.iter_mut().enumerate() {
            *h = value(row, *h);
        }
        return;
    }
    for (row, h) in hashes.iter_mut().enumerate() {
        *h = if column.values.is_valid(row) {
            value(row, *h)
        } else {
            match column.odd_at(row) {
                Some(odd) => step(odd.as_bytes(), *h ^ ODD_STEP),
                None => h.rotate_left(23) ^ NULL_STEP,
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;
    use std::sync::Arc;

    fn text(values: Vec<Option<&str>>) -> Column {
        Column { values: Arc::new(StringArray::from(values)), odd: None }
    }

    const KINDS: [Hash; 2] = [Hash::Native, Hash::Crc32];

    #[test]
    fn borders_between_columns_are_kept() {
        for kind in KINDS {
            let hash = |a: &str, b: &str| {
                let mut h = vec![1];
                chain(kind, &mut h, &text(vec![Some(a)]), None);
                chain(kind, &mut h, &text(vec![Some(b)]), None);
                h[0]
            };
            assert_ne!(hash("k7", "m"), hash("k", "7m"));
            assert_ne!(hash("", "x"), hash("x", ""));
        }
    }

    #[test]
    fn null_is_neither_empty_nor_a_word_nor_skipped() {
        for kind in KINDS {
            let hash = |values: [Option<&str>; 2]| {
                let mut h = vec![7];
                for v in values {
                    chain(kind, &mut h, &text(vec![v]), None);
                }
                h[0]
            };
            let all = [
                hash([None, Some("a")]),
                hash([Some("a"), None]),
                hash([Some(""), Some("a")]),
                hash([Some("NULL"), Some("a")]),
                hash([None, None]),
            ];
            for (i, a) in all.iter().enumerate() {
                assert!(all[i + 1..].iter().all(|b| a != b));
            }
        }
    }

    #[test]
    fn odd_text_is_not_the_value_of_the_same_spelling() {
        let value = text(vec![Some("5")]);
        let odd = Column {
            values: Arc::new(StringArray::from(vec![None::<&str>])),
            odd: Some(StringArray::from(vec!["5"])),
        };
        for kind in KINDS {
            let (mut a, mut b) = (vec![3], vec![3]);
            chain(kind, &mut a, &value, None);
            chain(kind, &mut b, &odd, None);
            assert_ne!(a, b);
        }
    }

    #[test]
    fn the_short_hash_is_that_of_zlib() {
        let mut h = vec![0];
        chain(Hash::Crc32, &mut h, &text(vec![Some("drift")]), None);
        // python3 -c "import zlib; print(zlib.crc32((5).to_bytes(8, 'little') + b'drift'))"
        assert_eq!(h, [2_618_738_080]);
    }
}
