//! Rows in canonical form: key bytes, row hash, columns.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, StringArray, UInt64Array,
    new_null_array,
};
use arrow::compute::{filter, interleave};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::value::canon::{Column, can_be_odd, canonicalise, common_type};
use crate::value::recipe::{Common, Recipe};
use crate::value::{hash, keys};

/// The two seeds of the row hashes that stand in for a key when there is none.
const KEYLESS_SEEDS: [u64; 2] = [0x5bd1_e995_97f4_a7c1, 0xd6e8_feb8_6659_fd93];

/// A batch of canonical rows; the key's columns come before the others.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// Keys in canonical order of bytes ([`keys`]); without a key, the 128-bit hash of the row.
    pub(crate) keys: BinaryArray,
    /// The hash of the compared columns, seeded with the key.
    pub(crate) hashes: UInt64Array,
    /// The columns of the recipe: key, then values.
    pub(crate) columns: Vec<Column>,
}

impl Rows {
    /// Brings one side's wire batch into canonical form.
    pub(crate) fn from_wire(recipe: &Recipe, source: bool, batch: &RecordBatch) -> Result<Rows, String> {
        let rules = recipe.key.iter().chain(&recipe.values);
        let columns: Vec<Column> = rules
            .zip(batch.columns())
            .map(|(rule, wire)| canonicalise(rule, source, wire, recipe.impossible_dates_as_null))
            .collect::<Result<_, String>>()?;
        let rows = batch.num_rows();
        let (key_columns, values) = columns.split_at(recipe.key.len());
        let chained = |mut hashes: Vec<u64>| {
            for (rule, column) in recipe.values.iter().zip(values) {
                hash::chain(recipe.hash, &mut hashes, column, rule.coarse);
            }
            hashes
        };
        if recipe.key.is_empty() {
            let [first, second] = KEYLESS_SEEDS.map(|seed| chained(vec![seed; rows]));
            let mut keys = BinaryBuilder::with_capacity(rows, rows * 16);
            for (a, b) in first.iter().zip(&second) {
                let mut key = [0; 16];
                key[..8].copy_from_slice(&a.to_be_bytes());
                key[8..].copy_from_slice(&b.to_be_bytes());
                keys.append_value(key);
            }
            return Ok(Rows { keys: keys.finish(), hashes: first.into(), columns });
        }
        let commons: Vec<&Common> = recipe.key.iter().map(|rule| &rule.common).collect();
        let keys = keys::encode(key_columns, &commons, rows);
        let seeds = (0..rows).map(|row| hash::key_hash(keys.value(row))).collect();
        Ok(Rows { keys, hashes: chained(seeds).into(), columns })
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn key(&self, row: usize) -> &[u8] {
        self.keys.value(row)
    }

    /// The hash of a row's key alone.
    pub(crate) fn key_hash(&self, row: usize) -> u64 {
        hash::key_hash(self.key(row))
    }

    pub(crate) fn hash(&self, row: usize) -> u64 {
        self.hashes.value(row)
    }

    pub(crate) fn slice(&self, from: usize, len: usize) -> Rows {
        Rows {
            keys: self.keys.slice(from, len),
            hashes: self.hashes.slice(from, len),
            columns: self.columns.iter().map(|c| c.slice(from, len)).collect(),
        }
    }

    /// The rows that are marked.
    pub(crate) fn kept(&self, marked: Vec<bool>) -> Result<Rows, ArrowError> {
        let marked = BooleanArray::from(marked);
        let columns = self.columns.iter().map(|column| {
            let odd = column.odd.as_ref().map(|odd| filter(odd, &marked)).transpose()?;
            Ok(Column {
                values: filter(&column.values, &marked)?,
                odd: odd.map(|odd| odd.as_string().clone()),
            })
        });
        Ok(Rows {
            keys: filter(&self.keys, &marked)?.as_binary::<i32>().clone(),
            hashes: filter(&self.hashes, &marked)?.as_primitive::<UInt64Type>().clone(),
            columns: columns.collect::<Result<_, ArrowError>>()?,
        })
    }

    /// The bytes that holding these rows takes.
    pub(crate) fn memory(&self) -> usize {
        let columns: usize = self
            .columns
            .iter()
            .map(|c| {
                c.values.get_array_memory_size() + c.odd.as_ref().map_or(0, Array::get_array_memory_size)
            })
            .sum();
        columns + self.keys.get_array_memory_size() + self.hashes.get_array_memory_size()
    }

    /// Rows picked from several batches: `(batch, row)` each.
    pub(crate) fn pick(batches: &[&Rows], picks: &[(usize, usize)]) -> Result<Rows, ArrowError> {
        let gather = |of: &dyn Fn(&Rows) -> ArrayRef| -> Result<ArrayRef, ArrowError> {
            let arrays: Vec<ArrayRef> = batches.iter().map(|b| of(b)).collect();
            let refs: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            interleave(&refs, picks)
        };
        let keys = gather(&|b| Arc::new(b.keys.clone()))?;
        let hashes = gather(&|b| Arc::new(b.hashes.clone()))?;
        let width = batches.first().map_or(0, |b| b.columns.len());
        let columns = (0..width)
            .map(|i| {
                let values = gather(&|b| Arc::clone(&b.columns[i].values))?;
                let odd = if batches.iter().any(|b| b.columns[i].odd.is_some()) {
                    Some(gather(&|b| odd_array(&b.columns[i]))?.as_string::<i32>().clone())
                } else {
                    None
                };
                Ok(Column { values, odd })
            })
            .collect::<Result<_, ArrowError>>()?;
        Ok(Rows {
            keys: keys.as_binary::<i32>().clone(),
            hashes: hashes.as_primitive::<UInt64Type>().clone(),
            columns,
        })
    }
}

fn odd_array(column: &Column) -> ArrayRef {
    match &column.odd {
        Some(odd) => Arc::new(odd.clone()),
        None => new_null_array(&DataType::Utf8, column.values.len()),
    }
}

/// How rows of one side are laid out in a spilled run.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) schema: SchemaRef,
    /// Per column: whether odd values are stored beside it.
    odd: Vec<bool>,
}

impl Layout {
    pub(crate) fn of(recipe: &Recipe, source: bool) -> Layout {
        let mut fields =
            vec![Field::new("key", DataType::Binary, false), Field::new("hash", DataType::UInt64, false)];
        let mut odd = Vec::new();
        for (i, rule) in recipe.key.iter().chain(&recipe.values).enumerate() {
            fields.push(Field::new(format!("c{i}"), common_type(&rule.common), true));
            odd.push(can_be_odd(rule, source));
            if odd[i] {
                fields.push(Field::new(format!("o{i}"), DataType::Utf8, true));
            }
        }
        Layout { schema: Arc::new(Schema::new(fields)), odd }
    }

    pub(crate) fn batch_of(&self, rows: &Rows) -> Result<RecordBatch, ArrowError> {
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(rows.keys.clone()), Arc::new(rows.hashes.clone())];
        for (column, odd) in rows.columns.iter().zip(&self.odd) {
            arrays.push(Arc::clone(&column.values));
            if *odd {
                arrays.push(odd_array(column));
            } else if column.odd.is_some() {
                return Err(ArrowError::ComputeError("a column without odd values holds one".into()));
            }
        }
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
    }

    pub(crate) fn rows_of(&self, batch: &RecordBatch) -> Rows {
        let mut arrays = batch.columns()[2..].iter();
        let columns = self
            .odd
            .iter()
            .filter_map(|has_odd| {
                let values = Arc::clone(arrays.next()?);
                let odd: Option<StringArray> =
                    if *has_odd { arrays.next().map(|a| a.as_string().clone()) } else { None };
                Some(Column { values, odd: odd.filter(|o| o.null_count() < o.len()) })
            })
            .collect();
        Rows {
            keys: batch.column(0).as_binary::<i32>().clone(),
            hashes: batch.column(1).as_primitive::<UInt64Type>().clone(),
            columns,
        }
    }
}
