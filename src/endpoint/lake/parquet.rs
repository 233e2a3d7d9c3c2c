//! Parquet files, page by page.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type, TypePtr};

use super::input::Input;
use super::typed::{self, Annotation, TypedColumn};
use crate::endpoint::{BATCH_BYTES, BATCH_ROWS, Result};

/// An open Parquet file.
pub(super) struct ParquetFile {
    input: Input,
    metadata: ArrowReaderMetadata,
    /// Its columns.
    pub(super) columns: Vec<TypedColumn>,
}

impl ParquetFile {
    /// Reads the footer.
    pub(super) fn open(input: Input) -> Result<ParquetFile> {
        let damaged = |e| input.error(format_args!("the Parquet file is damaged or cut short: {e}"));
        let options = ArrowReaderOptions::new();
        let stored = ArrowReaderMetadata::load(&input, options.clone()).map_err(damaged)?;
        let roots = stored.parquet_schema().root_schema().get_fields();
        let annotations: Vec<Annotation> = roots.iter().map(|t| annotation(t)).collect();
        // The decoder drops the months of an INTERVAL; without that annotation it hands over the twelve bytes.
        let stored = match without_intervals(stored.parquet_schema()) {
            Some(schema) => {
                let options = options.clone().with_parquet_schema(Arc::new(schema));
                ArrowReaderMetadata::load(&input, options).map_err(damaged)?
            }
            None => stored,
        };
        let mut leaves = stored.parquet_schema().columns().iter();
        let fields: Vec<Field> = stored.schema().fields().iter().map(|f| hinted(f, &mut leaves)).collect();
        let schema = Arc::new(Schema::new(fields));
        let metadata =
            ArrowReaderMetadata::try_new(stored.metadata().clone(), options.with_schema(schema.clone()))
                .map_err(damaged)?;
        let columns = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(i, field)| typed::column(field, annotations.get(i).copied().unwrap_or(Annotation::None)))
            .collect();
        Ok(ParquetFile { input, metadata, columns })
    }

    /// Rows in all.
    pub(super) fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Reads the columns at the given places, which ascend.
    pub(super) fn batches(
        self,
        places: &[usize],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let input = self.input;
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), places.iter().copied());
        let rows = batch_rows(&self.metadata, &mask);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(input.clone(), self.metadata)
            .with_projection(mask)
            .with_batch_size(rows)
            .build()
            .map_err(|e| input.error(format_args!("the Parquet file is damaged: {e}")))?;
        Ok(reader.map(move |batch| {
            batch.map_err(|e| input.error(format_args!("the Parquet file is damaged: {e}")))
        }))
    }
}

/// Rows that keep a batch near its greatest size, by the sizes that the footer gives.
fn batch_rows(metadata: &ArrowReaderMetadata, mask: &ProjectionMask) -> usize {
    let widest = metadata.metadata().row_groups().iter().map(|group| {
        let columns = group.columns().iter().enumerate().filter(|(i, _)| mask.leaf_included(*i));
        let bytes: i64 = columns.map(|(_, c)| c.uncompressed_size().max(0)).sum();
        bytes / group.num_rows().max(1)
    });
    let width = usize::try_from(widest.max().unwrap_or(0)).unwrap_or(BATCH_BYTES);
    (BATCH_BYTES / width.max(1)).clamp(1, BATCH_ROWS)
}

fn annotation(column: &Type) -> Annotation {
    let basic = column.get_basic_info();
    if !column.is_primitive() {
        return Annotation::None;
    }
    match (basic.logical_type_ref(), basic.converted_type()) {
        (Some(LogicalType::Uuid), _) => Annotation::Uuid,
        (Some(LogicalType::Json), _) | (None, ConvertedType::JSON) => Annotation::Json,
        (_, ConvertedType::INTERVAL) => Annotation::Interval,
        _ => Annotation::None,
    }
}

/// The schema with its INTERVAL columns as plain bytes; `None` when it has none.
fn without_intervals(schema: &SchemaDescriptor) -> Option<SchemaDescriptor> {
    let is_interval = |t: &TypePtr| t.is_primitive() && annotation(t) == Annotation::Interval;
    let fields = schema.root_schema().get_fields();
    if !fields.iter().any(is_interval) {
        return None;
    }
    let plain = |t: &TypePtr| {
        if !is_interval(t) {
            return Some(t.clone());
        }
        let built = Type::primitive_type_builder(t.name(), Physical::FIXED_LEN_BYTE_ARRAY)
            .with_length(12)
            .with_repetition(t.get_basic_info().repetition());
        built.build().ok().map(Arc::new)
    };
    let fields: Option<Vec<TypePtr>> = fields.iter().map(plain).collect();
    let root = Type::group_type_builder(schema.root_schema().name()).with_fields(fields?).build().ok()?;
    Some(SchemaDescriptor::new(Arc::new(root)))
}

/// The field as it is to be read: INT96 in microseconds, since nanoseconds do not reach from the year 1500 to 9999, and
/// ENUM as the text that it is. `leaves` are the file's primitive columns in order.
fn hinted<'a>(field: &Field, leaves: &mut impl Iterator<Item = &'a ColumnDescPtr>) -> Field {
    let mut inner = |f: &FieldRef| Arc::new(hinted(f, leaves));
    let data_type = match field.data_type() {
        DataType::List(element) => DataType::List(inner(element)),
        DataType::LargeList(element) => DataType::LargeList(inner(element)),
        DataType::FixedSizeList(element, n) => DataType::FixedSizeList(inner(element), *n),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        DataType::Struct(members) => DataType::Struct(members.iter().map(inner).collect()),
        leaf => match (leaves.next(), leaf) {
            (Some(column), DataType::Timestamp(_, zone)) if column.physical_type() == Physical::INT96 => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            (Some(column), DataType::Binary) if is_enum(column) => DataType::Utf8,
            _ => leaf.clone(),
        },
    };
    field.clone().with_data_type(data_type)
}

fn is_enum(column: &ColumnDescPtr) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Enum))
        || column.converted_type() == ConvertedType::ENUM
}
