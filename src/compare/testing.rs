//! Small tables for the unit tests of this room.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;

use super::rows::Rows;
use crate::value::recipe::{ColumnRule, Recipe};
use crate::value::shape::{ColumnShape, Engine, LogicalType, NativeOrder};

pub(crate) fn int_rule(name: &str) -> ColumnRule {
    let column = ColumnShape {
        name: name.into(),
        engine_type: "bigint".into(),
        logical: LogicalType::Int { bits: 64, signed: true },
        nullable: Some(true),
        default: None,
        unreadable: None,
        order: NativeOrder::Value,
    };
    ColumnRule::between(&column, Engine::Postgres, &column, Engine::Postgres).unwrap()
}

/// A key `k` and a value `v`.
pub(crate) fn int_recipe() -> Recipe {
    Recipe {
        key: vec![int_rule("k")],
        values: vec![int_rule("v")],
        impossible_dates_as_null: false,
        hash: Default::default(),
    }
}

pub(crate) fn int_rows(recipe: &Recipe, keys: &[i64], values: &[i64]) -> Rows {
    let array = |v: &[i64]| Arc::new(Int64Array::from(v.to_vec())) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("k", array(keys)), ("v", array(values))]);
    Rows::from_wire(recipe, true, &batch.unwrap()).unwrap()
}
