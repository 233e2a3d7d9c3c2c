//! Binary COPY into Arrow batches: header, rows of length-prefixed fields, trailer. Messages may be cut anywhere.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float32Builder, Float64Builder, Int64Builder, StringArray, StringBuilder, Time64MicrosecondBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use super::fields;
use crate::endpoint::{BATCH_BYTES, BATCH_ROWS, wire_type};
use crate::value::shape::LogicalType;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Why a stream cannot be read, and in which column.
#[derive(Debug, PartialEq)]
pub(super) struct Broken {
    pub(super) column: Option<String>,
    pub(super) why: &'static str,
}

impl From<&'static str> for Broken {
    fn from(why: &'static str) -> Broken {
        Broken { column: None, why }
    }
}

#[derive(PartialEq)]
enum Stage {
    Header,
    Rows,
    Ended,
}

/// Turns the bytes of one COPY into batches.
pub(super) struct Decoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    stage: Stage,
    /// The start of a row whose rest has not arrived yet.
    carry: Vec<u8>,
    /// The fields of the row at hand, as places in the input; kept to save allocations.
    places: Vec<Option<(usize, usize)>>,
    rows: usize,
    bytes: usize,
}

impl Decoder {
    /// A decoder for columns of these types.
    pub(super) fn new(schema: SchemaRef, types: &[LogicalType]) -> Decoder {
        let columns: Vec<Column> = types.iter().map(Column::new).collect();
        let places = Vec::with_capacity(columns.len());
        Decoder { schema, columns, stage: Stage::Header, carry: Vec::new(), places, rows: 0, bytes: 0 }
    }

    /// Takes a message; returns the batches that became full.
    pub(super) fn push(&mut self, message: &[u8]) -> Result<Vec<RecordBatch>, Broken> {
        if self.carry.is_empty() {
            let (used, full) = self.take(message)?;
            self.carry.extend_from_slice(&message[used..]);
            return Ok(full);
        }
        let mut joined = std::mem::take(&mut self.carry);
        joined.extend_from_slice(message);
        let (used, full) = self.take(&joined)?;
        joined.drain(..used);
        self.carry = joined;
        Ok(full)
    }

    /// The rows since the last full batch, once the trailer has been seen; a stream without one is no complete answer.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>, Broken> {
        if self.stage != Stage::Ended || !self.carry.is_empty() {
            return Err("the rows end in the middle".into());
        }
        if self.rows == 0 { Ok(None) } else { self.batch().map(Some) }
    }

    /// Reads as much as is complete: the bytes used, the batches filled.
    fn take(&mut self, input: &[u8]) -> Result<(usize, Vec<RecordBatch>), Broken> {
        let mut at = 0;
        let mut full = Vec::new();
        if self.stage == Stage::Header {
            match header(input)? {
                None => return Ok((0, full)),
                Some(length) => at = length,
            }
            self.stage = Stage::Rows;
        }
        while at < input.len() {
            if self.stage == Stage::Ended {
                return Err("bytes follow the end of the rows".into());
            }
            let Some(used) = self.row(&input[at..])? else { break };
            at += used;
            if self.rows == BATCH_ROWS || self.bytes >= BATCH_BYTES {
                full.push(self.batch()?);
            }
        }
        Ok((at, full))
    }

    /// Reads one row or the trailer; `None` if its end has not arrived.
    fn row(&mut self, input: &[u8]) -> Result<Option<usize>, Broken> {
        let Some(count) = fields::i16_at(input, 0) else { return Ok(None) };
        if count == -1 {
            self.stage = Stage::Ended;
            return Ok(Some(2));
        }
        if usize::try_from(count) != Ok(self.columns.len()) {
            return Err("a row has another number of fields than was asked for".into());
        }
        let mut at = 2;
        self.places.clear();
        for _ in 0..count {
            let Some(length) = fields::i32_at(input, at) else { return Ok(None) };
            at += 4;
            if length == -1 {
                self.places.push(None);
                continue;
            }
            let length =
                usize::try_from(length).map_err(|_| Broken::from("a field has a negative length"))?;
            if input.len() - at < length {
                return Ok(None);
            }
            self.places.push(Some((at, at + length)));
            at += length;
        }
        for (i, column) in self.columns.iter_mut().enumerate() {
            let value = self.places[i].map(|(from, to)| &input[from..to]);
            column
                .append(value)
                .map_err(|why| Broken { column: Some(self.schema.field(i).name().clone()), why })?;
        }
        self.rows += 1;
        self.bytes += at;
        Ok(Some(at))
    }

    fn batch(&mut self) -> Result<RecordBatch, Broken> {
        let columns = self.columns.iter_mut().zip(self.schema.fields());
        let arrays: Vec<ArrayRef> = columns
            .map(|(column, field)| {
                column.finish().map_err(|why| Broken { column: Some(field.name().clone()), why })
            })
            .collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        self.bytes = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|_| "the columns do not have the described types".into())
    }
}

/// The length of the header; `None` if it has not arrived in full.
fn header(input: &[u8]) -> Result<Option<usize>, Broken> {
    if !input.starts_with(&SIGNATURE[..input.len().min(SIGNATURE.len())]) {
        return Err("the answer is no binary COPY".into());
    }
    let (Some(flags), Some(extension)) = (fields::i32_at(input, 11), fields::i32_at(input, 15)) else {
        return Ok(None);
    };
    if flags != 0 {
        return Err("the binary COPY has flags that drift does not know".into());
    }
    let length =
        19 + usize::try_from(extension).map_err(|_| Broken::from("the header has a negative length"))?;
    Ok((input.len() >= length).then_some(length))
}

/// Builds one column; each variant reads one binary format.
enum Column {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Oid(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder, i8),
    DecimalText(StringBuilder),
    /// Checked to be UTF-8 when the batch is full: one long run of bytes is checked quicker than many short ones.
    Text(BinaryBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Interval(StringBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Bits(StringBuilder),
    Inet(StringBuilder),
}

impl Column {
    fn new(logical: &LogicalType) -> Column {
        match logical {
            LogicalType::Bool => Column::Bool(BooleanBuilder::new()),
            LogicalType::Int { signed: true, .. } => Column::Int(Int64Builder::new()),
            LogicalType::Int { .. } => Column::Oid(Int64Builder::new()),
            LogicalType::Float32 => Column::Float32(Float32Builder::new()),
            LogicalType::Float64 => Column::Float64(Float64Builder::new()),
            LogicalType::Decimal { scale, .. } => {
                Column::Decimal(Decimal128Builder::new().with_data_type(wire_type(logical)), *scale)
            }
            LogicalType::DecimalText => Column::DecimalText(StringBuilder::new()),
            LogicalType::Bytes | LogicalType::Geometry | LogicalType::Untyped(_) => {
                Column::Bytes(BinaryBuilder::new())
            }
            LogicalType::Date => Column::Date(Date32Builder::new()),
            LogicalType::Time { .. } => Column::Time(Time64MicrosecondBuilder::new()),
            LogicalType::Timestamp { .. } => Column::Timestamp(TimestampMicrosecondBuilder::new()),
            LogicalType::Interval => Column::Interval(StringBuilder::new()),
            LogicalType::Uuid => Column::Uuid(FixedSizeBinaryBuilder::new(16)),
            LogicalType::Bits { .. } => Column::Bits(StringBuilder::new()),
            LogicalType::Inet => Column::Inet(StringBuilder::new()),
            LogicalType::Text { .. }
            | LogicalType::Json
            | LogicalType::Array(_)
            | LogicalType::Enum
            | LogicalType::Set
            | LogicalType::Other => Column::Text(BinaryBuilder::new()),
        }
    }

    fn append(&mut self, value: Option<&[u8]>) -> Result<(), &'static str> {
        let Some(v) = value else {
            self.append_null();
            return Ok(());
        };
        match self {
            Column::Bool(b) => b.append_value(fields::boolean(v)?),
            Column::Int(b) => b.append_value(fields::integer(v)?),
            Column::Oid(b) => b.append_value(i64::from(u32::from_be_bytes(fields::exactly(v)?))),
            Column::Float32(b) => b.append_value(f32::from_be_bytes(fields::exactly(v)?)),
            Column::Float64(b) => b.append_value(f64::from_be_bytes(fields::exactly(v)?)),
            Column::Decimal(b, scale) => b.append_value(fields::Numeric::read(v)?.at_scale(*scale)?),
            Column::DecimalText(b) => b.append_value(fields::Numeric::read(v)?.text()),
            Column::Text(b) | Column::Bytes(b) => b.append_value(v),
            Column::Date(b) => b.append_value(fields::date(v)?),
            Column::Time(b) => b.append_value(i64::from_be_bytes(fields::exactly(v)?)),
            Column::Timestamp(b) => b.append_value(fields::timestamp(v)?),
            Column::Interval(b) => b.append_value(fields::interval(v)?),
            Column::Uuid(b) => b.append_value(v).map_err(|_| "a uuid has not 16 bytes")?,
            Column::Bits(b) => b.append_value(fields::bits(v)?),
            Column::Inet(b) => b.append_value(fields::inet(v)?),
        }
        Ok(())
    }

    fn append_null(&mut self) {
        match self {
            Column::Bool(b) => b.append_null(),
            Column::Int(b) | Column::Oid(b) => b.append_null(),
            Column::Float32(b) => b.append_null(),
            Column::Float64(b) => b.append_null(),
            Column::Decimal(b, _) => b.append_null(),
            Column::Text(b) | Column::Bytes(b) => b.append_null(),
            Column::Date(b) => b.append_null(),
            Column::Time(b) => b.append_null(),
            Column::Timestamp(b) => b.append_null(),
            Column::Uuid(b) => b.append_null(),
            Column::DecimalText(b) | Column::Interval(b) | Column::Bits(b) | Column::Inet(b) => {
                b.append_null()
            }
        }
    }

    /// The values so far; the next batch is expected to be as large.
    fn finish(&mut self) -> Result<ArrayRef, &'static str> {
        macro_rules! taken {
            ($builder:expr, $type:ident) => {{
                let array = $builder.finish();
                *$builder = $type::with_capacity(array.len());
                Arc::new(array)
            }};
        }
        macro_rules! taken_with_bytes {
            ($builder:expr, $type:ident) => {{
                let array = $builder.finish();
                *$builder = $type::with_capacity(array.len(), array.value_data().len());
                array
            }};
        }
        Ok(match self {
            Column::Bool(b) => taken!(b, BooleanBuilder),
            Column::Int(b) | Column::Oid(b) => taken!(b, Int64Builder),
            Column::Float32(b) => taken!(b, Float32Builder),
            Column::Float64(b) => taken!(b, Float64Builder),
            Column::Decimal(b, _) => {
                let array = b.finish();
                let kind = array.data_type().clone();
                *b = Decimal128Builder::with_capacity(array.len()).with_data_type(kind);
                Arc::new(array)
            }
            Column::Date(b) => taken!(b, Date32Builder),
            Column::Time(b) => taken!(b, Time64MicrosecondBuilder),
            Column::Timestamp(b) => taken!(b, TimestampMicrosecondBuilder),
            Column::Uuid(b) => Arc::new(b.finish()),
            Column::Bytes(b) => Arc::new(taken_with_bytes!(b, BinaryBuilder)),
            Column::Text(b) => {
                let texts = StringArray::try_from_binary(taken_with_bytes!(b, BinaryBuilder));
                Arc::new(texts.map_err(|_| fields::NO_UTF8)?)
            }
            Column::DecimalText(b) | Column::Interval(b) | Column::Bits(b) | Column::Inet(b) => {
                Arc::new(taken_with_bytes!(b, StringBuilder))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Field, Int64Type, Schema};

    fn decoder() -> Decoder {
        let types = [LogicalType::Int { bits: 32, signed: true }, LogicalType::TEXT];
        let fields: Vec<Field> =
            ["id", "name"].iter().zip(&types).map(|(n, t)| Field::new(*n, wire_type(t), true)).collect();
        Decoder::new(Arc::new(Schema::new(fields)), &types)
    }

    fn stream(rows: &[(i32, Option<&str>)]) -> Vec<u8> {
        let mut out = SIGNATURE.to_vec();
        out.extend([0; 8]);
        for (id, name) in rows {
            out.extend([0, 2, 0, 0, 0, 4]);
            out.extend(id.to_be_bytes());
            match name {
                None => out.extend([0xff; 4]),
                Some(name) => {
                    out.extend((name.len() as i32).to_be_bytes());
                    out.extend(name.as_bytes());
                }
            }
        }
        out.extend([0xff, 0xff]);
        out
    }

    #[test]
    fn any_cut_of_the_messages_gives_the_same_rows() {
        let bytes = stream(&[(1, Some("eins")), (-2, None), (3, Some(""))]);
        for size in 1..=bytes.len() {
            let mut decoder = decoder();
            for part in bytes.chunks(size) {
                assert!(decoder.push(part).unwrap().is_empty());
            }
            let batch = decoder.finish().unwrap().unwrap();
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[1, -2, 3]);
            let names = batch.column(1).as_string::<i32>();
            assert_eq!((names.value(0), names.is_null(1), names.value(2)), ("eins", true, ""));
        }
    }

    #[test]
    fn batches_keep_their_limits() {
        let rows: Vec<(i32, Option<&str>)> = (0..BATCH_ROWS as i32 + 1).map(|i| (i, None)).collect();
        let mut d = decoder();
        let full = d.push(&stream(&rows)).unwrap();
        assert_eq!(full.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [BATCH_ROWS]);
        assert_eq!(d.finish().unwrap().unwrap().num_rows(), 1);
        let wide = "x".repeat(3 << 20);
        let rows: Vec<(i32, Option<&str>)> = (0..4).map(|i| (i, Some(wide.as_str()))).collect();
        let full = decoder().push(&stream(&rows)).unwrap();
        assert_eq!(full.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn an_answer_without_its_end_is_never_complete() {
        let bytes = stream(&[(1, Some("eins"))]);
        for cut in 0..bytes.len() {
            let mut decoder = decoder();
            decoder.push(&bytes[..cut]).unwrap();
            assert!(decoder.finish().is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn damaged_answers_are_errors() {
        assert!(decoder().push(b"HTTP/1.1").is_err());
        let mut more = stream(&[(1, None)]);
        more.push(0);
        assert!(decoder().push(&more).is_err());
        let mut bytes = stream(&[(1, Some("\u{e4}"))]);
        let bad = bytes.len() - 3;
        bytes[bad] = 0xff;
        let mut d = decoder();
        d.push(&bytes).unwrap();
        assert_eq!(d.finish().unwrap_err().column.as_deref(), Some("name"));
    }
}
