//! Batches of values that carry their own type, built without an allocation per value.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, NullBufferBuilder};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use super::{BATCH_BYTES, BATCH_ROWS, Error, ErrorKind, Result};
use crate::value::untyped::Untyped;

/// Collects rows of [`Untyped`] values into `Binary` columns.
pub(crate) struct UntypedBatch {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

struct Column {
    values: Vec<u8>,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl Column {
    fn new() -> Column {
        Column { values: Vec::new(), offsets: vec![0], nulls: NullBufferBuilder::new(BATCH_ROWS) }
    }

    fn end_value(&mut self) -> Result<()> {
        let end = i32::try_from(self.values.len())
            .map_err(|_| Error::new(ErrorKind::Data, "a row holds more than 2 GiB in one column"))?;
        self.offsets.push(end);
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        let full = std::mem::replace(self, Column::new());
        let mut nulls = full.nulls;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(full.offsets));
        Arc::new(BinaryArray::new(offsets, full.values.into(), nulls.finish()))
    }
}

impl UntypedBatch {
    /// An empty batch; every column of `schema` is `Binary`.
    pub(crate) fn new(schema: SchemaRef) -> UntypedBatch {
        let columns = schema.fields().iter().map(|_| Column::new()).collect();
        UntypedBatch { schema, columns, rows: 0, bytes: 0 }
    }

    /// Appends NULL to a column.
    pub(crate) fn null(&mut self, column: usize) -> Result<()> {
        self.columns[column].nulls.append_null();
        self.columns[column].end_value()
    }

    /// Appends a value to a column.
    pub(crate) fn value(&mut self, column: usize, value: Untyped<'_>) -> Result<()> {
        let column = &mut self.columns[column];
        let before = column.values.len();
        value.append(&mut column.values);
        self.bytes += column.values.len() - before;
        column.nulls.append_non_null();
        column.end_value()
    }

    /// Ends a row; true when the batch is full and must be taken.
    pub(crate) fn end_row(&mut self) -> bool {
        self.rows += 1;
        debug_assert!(self.columns.iter().all(|c| c.offsets.len() == self.rows + 1));
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// Whether rows wait to be taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of the values collected so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the rows, leaving an empty batch.
    pub(crate) fn take(&mut self) -> Result<RecordBatch> {
        let columns = self.columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|e| Error::new(ErrorKind::Data, format!("the rows make no batch: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{DataType, Field, Schema};

    #[test]
    fn values_come_back_in_wire_form() {
        let field = |name| Field::new(name, DataType::Binary, true);
        let mut batch = UntypedBatch::new(Arc::new(Schema::new(vec![field("a"), field("b")])));
        batch.value(0, Untyped::Text("x")).unwrap();
        batch.null(1).unwrap();
        assert!(!batch.end_row());
        batch.null(0).unwrap();
        batch.value(1, Untyped::Number("7")).unwrap();
        assert!(!batch.end_row());
        let taken = batch.take().unwrap();
        assert!(batch.is_empty());
        let (a, b) = (taken.column(0).as_binary::<i32>(), taken.column(1).as_binary::<i32>());
        assert_eq!(Untyped::decode(a.value(0)), Some(Untyped::Text("x")));
        assert!(a.is_null(1) && b.is_null(0));
        assert_eq!(Untyped::decode(b.value(1)), Some(Untyped::Number("7")));
    }
}
