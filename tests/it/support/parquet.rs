//! Parquet files from a schema in Parquet's own words and rows as a test writes them down. This is below Arrow on
//! purpose: old physical types such as `int96` have no Arrow writer.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, TimeUnit, TimestampMicrosecondType};
use parquet::basic::LogicalType;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray, Int96};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnDescriptor;
use serde::Deserialize;

/// A value as it stands in a test; text stands for every type without a notation of its own (dates, decimals, and
/// bytes as `0x…`).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// NULL.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Anything else.
    Text(String),
}

/// Writes one file. The schema lists its columns as `optional int64 id; optional binary name (STRING);`.
pub fn write(path: &Path, columns: &str, rows: &[Vec<Cell>]) {
    let schema = parse_message_type(&format!("message rows {{ {columns} }}"))
        .unwrap_or_else(|e| panic!("the Parquet schema {columns:?}: {e}"));
    let file = File::create(path).expect("a Parquet file");
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), properties).expect("a Parquet writer");
    let mut group = writer.next_row_group().expect("a row group");
    let mut index = 0;
    while let Some(mut column) = group.next_column().expect("a column") {
        let cells: Vec<&Cell> = rows.iter().map(|row| &row[index]).collect();
        write_column(column.untyped(), &cells);
        column.close().expect("the end of a column");
        index += 1;
    }
    assert!(rows.iter().all(|row| row.len() == index), "every row of {columns:?} has {index} values");
    group.close().expect("the end of the row group");
    writer.close().expect("the end of the file");
}

fn write_column(writer: &mut ColumnWriter<'_>, cells: &[&Cell]) {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(**cell != Cell::Null)).collect();
    let present: Vec<&Cell> = cells.iter().copied().filter(|cell| **cell != Cell::Null).collect();
    macro_rules! write {
        ($writer:expr, $convert:expr) => {{
            let values: Vec<_> = present.iter().map($convert).collect();
            $writer.write_batch(&values, Some(&levels), None)
        }};
    }
    let written = match writer {
        ColumnWriter::BoolColumnWriter(w) => write!(w, |cell| matches!(cell, Cell::Bool(true))),
        ColumnWriter::Int32ColumnWriter(w) => {
            let column = w.get_descriptor().clone();
            write!(w, |cell| i32::try_from(whole(&column, cell)).expect("a value of 32 bits"))
        }
        ColumnWriter::Int64ColumnWriter(w) => {
            let column = w.get_descriptor().clone();
            write!(w, |cell| whole(&column, cell))
        }
        ColumnWriter::Int96ColumnWriter(w) => write!(w, |cell| int96(&text(cell))),
        ColumnWriter::FloatColumnWriter(w) => write!(w, |cell| number(cell) as f32),
        ColumnWriter::DoubleColumnWriter(w) => write!(w, |cell| number(cell)),
        ColumnWriter::ByteArrayColumnWriter(w) => write!(w, |cell| ByteArray::from(bytes(cell))),
        ColumnWriter::FixedLenByteArrayColumnWriter(w) => {
            write!(w, |cell| FixedLenByteArray::from(ByteArray::from(bytes(cell))))
        }
    };
    written.expect("the values of a column");
}

/// The stored integer of a value: itself, or what a day, an instant or a decimal becomes.
fn whole(column: &ColumnDescriptor, cell: &Cell) -> i64 {
    match column.logical_type_ref() {
        Some(LogicalType::Date) => i64::from(day(&text(cell))),
        Some(LogicalType::Timestamp { .. }) => instant(&text(cell)),
        Some(LogicalType::Decimal { .. }) => {
            let text = text(cell);
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
            let scale = usize::try_from(column.type_scale()).expect("a scale");
            format!("{whole}{fraction:0<scale$}").parse().expect("a decimal of 64 bits")
        }
        _ => match cell {
            Cell::Int(n) => *n,
            other => panic!("{other:?} is no whole number"),
        },
    }
}

fn number(cell: &Cell) -> f64 {
    text(cell).parse().expect("a number")
}

fn bytes(cell: &Cell) -> Vec<u8> {
    let text = text(cell);
    let Some(hex) = text.strip_prefix("0x") else { return text.into_bytes() };
    let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).expect("a hexadecimal digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => panic!("NULL has no text"),
        Cell::Bool(b) => b.to_string(),
        Cell::Int(n) => n.to_string(),
        Cell::Float(x) => x.to_string(),
        Cell::Text(s) => s.clone(),
    }
}

/// Days since 1970.
fn day(text: &str) -> i32 {
    let days = cast(&StringArray::from(vec![text]), &DataType::Date32).expect("a day");
    assert!(days.is_valid(0), "{text:?} is no day");
    days.as_primitive::<Date32Type>().value(0)
}

/// Microseconds since 1970.
fn instant(text: &str) -> i64 {
    let to = DataType::Timestamp(TimeUnit::Microsecond, None);
    let instants = cast(&StringArray::from(vec![text]), &to).expect("an instant");
    assert!(instants.is_valid(0), "{text:?} is no date with time");
    instants.as_primitive::<TimestampMicrosecondType>().value(0)
}

/// The retired 96-bit form: nanoseconds of the day, then the Julian day.
fn int96(text: &str) -> Int96 {
    const MICROS_PER_DAY: i64 = 86_400_000_000;
    const JULIAN_DAY_OF_1970: i64 = 2_440_588;
    let micros = instant(text);
    let nanos_of_day = micros.rem_euclid(MICROS_PER_DAY) * 1000;
    let julian_day = micros.div_euclid(MICROS_PER_DAY) + JULIAN_DAY_OF_1970;
    let mut value = Int96::new();
    value.set_data(
        (nanos_of_day & 0xFFFF_FFFF) as u32,
        (nanos_of_day >> 32) as u32,
        u32::try_from(julian_day).expect("a day after 4713 BC"),
    );
    value
}
