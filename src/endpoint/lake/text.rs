//! CSV and NDJSON files as tables: columns by name, values without types.

use std::collections::HashSet;
use std::io::Read;

use serde_json::Value;

use super::csv::{CsvReader, Fault};
use super::format::{Format, Packing};
use super::input::Input;
use super::ndjson;
use crate::config::address::CsvOptions;
use crate::endpoint::Result;
use crate::endpoint::blocking::{Outlet, Stop};
use crate::endpoint::untyped_batch::UntypedBatch;
use crate::value::untyped::Untyped;

/// Where a requested column comes from.
pub(super) enum Origin {
    /// The file's column of that name.
    Named(String),
    /// A folder name's value.
    Folder(Option<String>),
}

/// The column names of a file.
pub(super) fn columns(
    input: &Input,
    format: Format,
    packing: Packing,
    csv: &CsvOptions,
) -> Result<Vec<String>> {
    match format {
        Format::Ndjson => ndjson::names(input, unpacked(input, packing)?),
        _ => Ok(CsvFile::open(input, format, packing, csv)?.names),
    }
}

/// Reads a whole file into `batch`, sending it on whenever it is full.
pub(super) fn read(
    input: &Input,
    format: Format,
    packing: Packing,
    csv: &CsvOptions,
    origins: &[Origin],
    batch: &mut UntypedBatch,
    outlet: &Outlet,
) -> std::result::Result<(), Stop> {
    match format {
        Format::Ndjson => read_ndjson(input, packing, origins, batch, outlet),
        _ => read_csv(input, format, packing, csv, origins, batch, outlet),
    }
}

fn unpacked(input: &Input, packing: Packing) -> Result<Box<dyn Read>> {
    let reader = input.reader(0);
    Ok(match packing {
        Packing::Plain => Box::new(reader),
        // Files put together by appending have several members.
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(reader)),
        Packing::Zstd => Box::new(
            zstd::stream::read::Decoder::new(reader)
                .map_err(|e| input.error(format_args!("decompressing failed: {e}")))?,
        ),
    })
}

/// A CSV file behind its header.
struct CsvFile {
    reader: CsvReader<Box<dyn Read>>,
    names: Vec<String>,
}

impl CsvFile {
    fn open(input: &Input, format: Format, packing: Packing, csv: &CsvOptions) -> Result<CsvFile> {
        let fault = |fault: Fault| input.error(fault);
        let delimiter = if format == Format::Tsv && csv.delimiter == b',' { b'\t' } else { csv.delimiter };
        let mut reader = CsvReader::new(unpacked(input, packing)?, delimiter).map_err(fault)?;
        let Some(record) = reader.next().map_err(fault)? else {
            return Err(input.error(if csv.no_header {
                "the file is empty, so that its number of columns is unknown"
            } else {
                "the file is empty: its first line must name the columns"
            }));
        };
        let mut scratch = String::new();
        let names: Vec<String> = if csv.no_header {
            (1..=record.len()).map(|i| format!("c{i}")).collect()
        } else {
            if record.is_blank() {
                return Err(input.error("line 1 is empty: it must name the columns"));
            }
            (0..record.len()).map(|i| record.field(i).text(&mut scratch).to_string()).collect()
        };
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(input.error(format_args!("two columns are called {twice:?}; rename one")));
        }
        if csv.no_header {
            // The first record is data: start again.
            reader = CsvReader::new(unpacked(input, packing)?, delimiter).map_err(fault)?;
        }
        Ok(CsvFile { reader, names })
    }
}

/// Where a column's values come from in one file.
enum Source<'a> {
    /// The field or member at this place, where the file has it.
    Field(Option<usize>),
    /// A folder name's value; `None` is NULL.
    Constant(Option<&'a str>),
}

fn read_csv(
    input: &Input,
    format: Format,
    packing: Packing,
    csv: &CsvOptions,
    origins: &[Origin],
    batch: &mut UntypedBatch,
    outlet: &Outlet,
) -> std::result::Result<(), Stop> {
    let CsvFile { mut reader, names } = CsvFile::open(input, format, packing, csv)?;
    let expected = names.len();
    let places: Vec<Source<'_>> = origins
        .iter()
        .map(|origin| match origin {
            Origin::Named(name) => Source::Field(names.iter().position(|n| n == name)),
            Origin::Folder(value) => Source::Constant(value.as_deref()),
        })
        .collect();
    let mut scratch = String::new();
    while let Some(record) = reader.next().map_err(|f| input.error(f))? {
        if record.len() != expected {
            if record.is_blank() {
                continue;
            }
            let found = record.len();
            let what = format!("line {}: expected {expected} fields, found {found}", record.line);
            return Err(Stop::Failed(input.error(what)));
        }
        for (column, source) in places.iter().enumerate() {
            let text = match source {
                Source::Field(None) | Source::Constant(None) => None,
                Source::Constant(Some(text)) => Some(*text),
                Source::Field(Some(place)) => {
                    let field = record.field(*place);
                    let text = field.text(&mut scratch);
                    (field.quoted || text != csv.null).then_some(text)
                }
            };
            match text {
                Some(text) => batch.value(column, Untyped::Text(text))?,
                None => batch.null(column)?,
            }
        }
        if batch.end_row() {
            outlet.send(batch.take()?)?;
        }
    }
    Ok(())
}

fn read_ndjson(
    input: &Input,
    packing: Packing,
    origins: &[Origin],
    batch: &mut UntypedBatch,
    outlet: &Outlet,
) -> std::result::Result<(), Stop> {
    let mut wanted: Vec<&str> = Vec::new();
    let sources: Vec<Source<'_>> = origins
        .iter()
        .map(|origin| match origin {
            Origin::Folder(value) => Source::Constant(value.as_deref()),
            Origin::Named(name) => {
                let place = wanted.iter().position(|w| w == name).unwrap_or_else(|| {
                    wanted.push(name);
                    wanted.len() - 1
                });
                Source::Field(Some(place))
            }
        })
        .collect();
    let mut objects = ndjson::Objects::new(input, unpacked(input, packing)?, &wanted);
    while let Some(values) = objects.next()? {
        for (column, source) in sources.iter().enumerate() {
            match source {
                Source::Constant(Some(text)) => batch.value(column, Untyped::Text(text))?,
                Source::Constant(None) | Source::Field(None) => batch.null(column)?,
                Source::Field(Some(place)) => match &values[*place] {
                    None | Some(Value::Null) => batch.null(column)?,
                    Some(Value::Bool(b)) => batch.value(column, Untyped::Bool(*b))?,
                    Some(Value::Number(n)) => batch.value(column, Untyped::Number(n.as_str()))?,
                    Some(Value::String(s)) => batch.value(column, Untyped::Text(s))?,
                    Some(nested) => batch.value(column, Untyped::Nested(&nested.to_string()))?,
                },
            }
        }
        if batch.end_row() {
            outlet.send(batch.take()?)?;
        }
    }
    Ok(())
}
