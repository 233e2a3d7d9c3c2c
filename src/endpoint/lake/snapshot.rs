//! The pinned files of a table, and their rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use xxhash_rust::xxh3::xxh3_128;

use super::convert;
use super::format::Format;
use super::input::Input;
use super::location::Store;
use super::table::{ListedFile, Table, TypedFile};
use super::text::{self, Origin};
use crate::config::address::CsvOptions;
use crate::endpoint::blocking::{self, Outlet, Stop};
use crate::endpoint::untyped_batch::UntypedBatch;
use crate::endpoint::{
    BATCH_BYTES, BATCH_ROWS, BatchStream, Border, Cost, Error, ErrorKind, Position, Result, Scope, Snapshot,
};
use crate::value::shape::{LogicalType, TableShape};
use crate::value::untyped::Untyped;

/// What a scan needs, shared with its thread.
struct Plan {
    store: Store,
    csv: CsvOptions,
    table: Arc<Table>,
    columns: Vec<String>,
    schema: SchemaRef,
}

/// The files as they were when the snapshot was opened.
pub(super) struct LakeSnapshot {
    name: String,
    plan: Arc<Plan>,
    cost: Arc<Cost>,
}

impl LakeSnapshot {
    pub(super) fn new(
        name: &str,
        store: Store,
        csv: CsvOptions,
        table: Arc<Table>,
        columns: Vec<String>,
        schema: SchemaRef,
    ) -> LakeSnapshot {
        let plan = Arc::new(Plan { store, csv, table, columns, schema });
        LakeSnapshot { name: name.to_string(), plan, cost: Arc::default() }
    }
}

#[async_trait]
impl Snapshot for LakeSnapshot {
    fn position(&self) -> Position {
        let mut listing = String::new();
        for file in &self.plan.table.files {
            let Some(tag) = &file.pinned.tag else { return Position::default() };
            listing.push_str(&format!("{:?} {} {tag:?}\n", file.pinned.path, file.pinned.size));
        }
        Position { log: None, state: Some(format!("{:032x}", xxh3_128(listing.as_bytes()))) }
    }

    fn workers(&self) -> usize {
        1
    }

    async fn cuts(&self, _: &str, _: usize) -> Result<Vec<Border>> {
        Ok(Vec::new())
    }

    async fn scan(&self, scope: &Scope) -> Result<BatchStream> {
        if *scope != Scope::Whole {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("{}: files are read as a whole, not by ranges of a key", self.name),
            ));
        }
        let (plan, cost) = (self.plan.clone(), self.cost.clone());
        let read = move |outlet: &Outlet| match plan.table.files[0].format {
            Format::Parquet | Format::Ipc => {
                plan.table.files.iter().try_for_each(|file| plan.read_typed(file, &cost, outlet))
            }
            _ => plan.read_text(&cost, outlet),
        };
        Ok(blocking::stream(self.name.clone(), read, || ()))
    }

    fn cost(&self) -> Arc<Cost> {
        self.cost.clone()
    }
}

/// Where a typed column's values come from in one file.
enum Source {
    /// The file's column at this place among those read, of this type there.
    Column(usize, LogicalType),
    /// A folder name's value in wire form.
    Folder(Vec<u8>),
    /// The file does not have it.
    Missing,
}

impl Plan {
    fn read_text(&self, cost: &Arc<Cost>, outlet: &Outlet) -> std::result::Result<(), Stop> {
        let mut batch = UntypedBatch::new(self.schema.clone());
        for file in &self.table.files {
            let input = Input::open(&self.store, &file.pinned, cost.clone(), 1)?;
            let origins: Vec<Origin> = self
                .columns
                .iter()
                .map(|name| match folder_value(&self.table.shape, file, name) {
                    Some(value) => Origin::Folder(value.clone()),
                    None => Origin::Named(name.clone()),
                })
                .collect();
            text::read(&input, file.format, file.packing, &self.csv, &origins, &mut batch, outlet)?;
            input.verify()?;
        }
        if !batch.is_empty() {
            outlet.send(batch.take()?)?;
        }
        Ok(())
    }

    fn read_typed(
        &self,
        file: &ListedFile,
        cost: &Arc<Cost>,
        outlet: &Outlet,
    ) -> std::result::Result<(), Stop> {
        let input = Input::open(&self.store, &file.pinned, cost.clone(), self.columns.len() + 1)?;
        let opened = TypedFile::open(input.clone(), file.format)?;
        let (places, sources) = self.sources(file, &opened)?;
        let promised = opened.rows();
        let mut read = 0;
        let mut take = |batch: Result<RecordBatch>| -> std::result::Result<(), Stop> {
            let batch = batch?;
            read += batch.num_rows() as u64;
            self.send(&self.converted(&input, &batch, &sources)?, outlet)
        };
        match opened {
            TypedFile::Parquet(file) => file.batches(&places)?.try_for_each(&mut take)?,
            TypedFile::Ipc(file) => file.batches(&places)?.try_for_each(&mut take)?,
        }
        if promised.is_some_and(|promised| promised != read) {
            return Err(Stop::Failed(input.error(format_args!(
                "the file is damaged: its footer counts other rows than the {read} that are there"
            ))));
        }
        input.verify()?;
        Ok(())
    }

    /// The places of the columns to read, ascending, and where each requested column comes from.
    fn sources(&self, file: &ListedFile, opened: &TypedFile) -> Result<(Vec<usize>, Vec<Source>)> {
        let place = |name: &str| opened.columns().iter().position(|c| c.name == name);
        let mut places: Vec<usize> = self.columns.iter().filter_map(|name| place(name)).collect();
        places.sort_unstable();
        places.dedup();
        let sources: Result<Vec<Source>> = self
            .columns
            .iter()
            .map(|name| {
                if let Some(value) = folder_value(&self.table.shape, file, name) {
                    return Ok(match value {
                        None => Source::Missing,
                        Some(text) => {
                            let mut wire = Vec::new();
                            Untyped::Text(text).encode(&mut wire);
                            Source::Folder(wire)
                        }
                    });
                }
                let Some(at) = place(name) else { return Ok(Source::Missing) };
                match (&opened.columns()[at].logical, places.binary_search(&at)) {
                    (Ok(logical), Ok(read)) => Ok(Source::Column(read, logical.clone())),
                    (Err(reason), _) => Err(Error::new(
                        ErrorKind::Refused,
                        format!("{}: column {name:?}: {reason}", self.store.shown(&file.pinned.path)),
                    )),
                    (Ok(_), Err(_)) => Ok(Source::Missing),
                }
            })
            .collect();
        Ok((places, sources?))
    }

    fn converted(&self, input: &Input, batch: &RecordBatch, sources: &[Source]) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let fields = self.schema.fields().iter();
        let arrays: Result<Vec<ArrayRef>> = fields
            .zip(sources)
            .map(|(field, source)| match source {
                Source::Missing => Ok(new_null_array(field.data_type(), rows)),
                Source::Folder(wire) => Ok(convert::repeated(wire, rows)),
                Source::Column(at, from) => {
                    let to = self.table.shape.column(field.name()).map_or(from, |c| &c.logical);
                    convert::to_wire(batch.column(*at), from, to)
                        .map_err(|what| input.error(format_args!("column {:?}: {what}", field.name())))
                }
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays?, &options)
            .map_err(|e| input.error(format_args!("the rows make no batch: {e}")))
    }

    /// Sends a batch in pieces that keep the limits.
    fn send(&self, batch: &RecordBatch, outlet: &Outlet) -> std::result::Result<(), Stop> {
        let rows = batch.num_rows();
        let width = batch.get_array_memory_size() / rows.max(1);
        let most = (BATCH_BYTES * 2 / width.max(1)).clamp(1, BATCH_ROWS);
        let mut at = 0;
        while at < rows {
            let length = most.min(rows - at);
            outlet.send(batch.slice(at, length))?;
            at += length;
        }
        Ok(())
    }
}

/// The value of a folder column in a file; `None` if the column is none, `Some(None)` for NULL.
fn folder_value<'a>(shape: &TableShape, file: &'a ListedFile, name: &str) -> Option<&'a Option<String>> {
    const ABSENT: &Option<String> = &None;
    if shape.column(name).is_none_or(|c| c.engine_type != super::FOLDER_NAME) {
        return None;
    }
    Some(file.pinned.hive.iter().rev().find(|(n, _)| n == name).map_or(ABSENT, |(_, value)| value))
}
