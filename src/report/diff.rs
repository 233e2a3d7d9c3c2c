//! All differences as a file: CSV, JSON lines or Parquet, by its name.
//!
//! JSON lines hold what `differences` holds in the JSON document. CSV and Parquet have one row per differing row: its
//! kind, the key, the names of the differing columns, and every compared column of both sides as text; values of a
//! changed row stand in its differing columns only.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::Value;

use crate::compare::{CompareOutcome, Difference, Tally};

/// Rows of one batch in a Parquet file.
const BATCH: usize = 8192;

/// How differences are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated; NULL is the empty field, the empty text is `""`.
    Csv,
    /// One JSON object a line.
    JsonLines,
    /// Parquet, all columns text.
    Parquet,
}

impl Format {
    /// The format that a file's name asks for.
    pub fn of(path: &Path) -> Result<Format, String> {
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("csv") => Ok(Format::Csv),
            Some("jsonl" | "ndjson") => Ok(Format::JsonLines),
            Some("parquet") => Ok(Format::Parquet),
            _ => Err(format!("{}: the name must end in .csv, .jsonl or .parquet", path.display())),
        }
    }
}

/// Writes every difference of a comparison.
pub fn write(outcome: &mut CompareOutcome, format: Format, out: &mut BufWriter<File>) -> Result<(), String> {
    let columns = Columns::of(outcome);
    let confirmed = outcome.confirmation.is_some();
    let Some(tally) = &mut outcome.tally else { return Ok(()) };
    match format {
        Format::JsonLines => tally.differences_to(|d| writeln!(out, "{}", Value::Object(d.json(confirmed)))),
        Format::Csv => {
            let line = |cells: Vec<Option<String>>| {
                let cells: Vec<String> = cells.into_iter().map(csv_cell).collect();
                cells.join(",")
            };
            let names = columns.names.iter().cloned().map(Some).collect();
            writeln!(out, "{}", line(names)).map_err(|e| e.to_string())?;
            tally.differences_to(|d| writeln!(out, "{}", line(columns.cells(&d))))
        }
        Format::Parquet => parquet(&columns, tally, out),
    }
}

fn parquet(columns: &Columns, tally: &mut Tally, out: &mut BufWriter<File>) -> Result<(), String> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(16 * BATCH))
        .build();
    let schema = columns.schema();
    let mut writer =
        ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(|e| e.to_string())?;
    let mut batch = Batch::new(schema);
    tally.differences_to(|d| {
        batch.add(columns.cells(&d));
        if batch.rows == BATCH { writer.write(&batch.take()?).map_err(io::Error::other) } else { Ok(()) }
    })?;
    let last = batch.take().map_err(|e| e.to_string())?;
    writer.write(&last).and_then(|()| writer.close()).map(drop).map_err(|e| e.to_string())
}

/// The columns of the file.
struct Columns {
    key: Vec<String>,
    values: Vec<String>,
    names: Vec<String>,
}

impl Columns {
    fn of(outcome: &CompareOutcome) -> Columns {
        let names = |rules: Option<&Vec<crate::value::recipe::ColumnRule>>| -> Vec<String> {
            rules.into_iter().flatten().map(|rule| rule.name.clone()).collect()
        };
        let recipe = outcome.recipe.as_ref();
        let (key, values) = (names(recipe.map(|r| &r.key)), names(recipe.map(|r| &r.values)));
        let prefixed = |side: &'static str| values.iter().map(move |name| format!("{side}.{name}"));
        let all = ["kind".to_string()]
            .into_iter()
            .chain(key.iter().map(|name| format!("key.{name}")))
            .chain(["columns".to_string()])
            .chain(prefixed("source"))
            .chain(prefixed("target"));
        let names = all.collect();
        Columns { names, key, values }
    }

    fn cells(&self, d: &Difference) -> Vec<Option<String>> {
        let mut out = vec![Some(d.kind.word().to_string())];
        out.extend(self.key.iter().map(|name| d.key.get(name).and_then(cell)));
        out.push((!d.columns.is_empty()).then(|| d.columns.join(",")));
        for side in [&d.source, &d.target] {
            out.extend(self.values.iter().map(|name| side.as_ref()?.get(name).and_then(cell)));
        }
        out
    }

    fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> =
            self.names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        Arc::new(Schema::new(fields))
    }
}

fn cell(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn csv_cell(cell: Option<String>) -> String {
    match cell {
        None => String::new(),
        Some(text) if text.is_empty() || text.contains(['"', ',', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(text) => text,
    }
}

struct Batch {
    schema: SchemaRef,
    columns: Vec<StringBuilder>,
    rows: usize,
}

impl Batch {
    fn new(schema: SchemaRef) -> Batch {
        let columns = schema.fields().iter().map(|_| StringBuilder::new()).collect();
        Batch { schema, columns, rows: 0 }
    }

    fn add(&mut self, cells: Vec<Option<String>>) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.append_option(cell);
        }
        self.rows += 1;
    }

    fn take(&mut self) -> io::Result<RecordBatch> {
        self.rows = 0;
        let arrays: Vec<ArrayRef> =
            self.columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io::Error::other)
    }
}
