//! One side of a comparison: reads a scope, brings rows into canonical form and order, and survives lost connections.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int64Type, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use arrow::record_batch::RecordBatch;
use futures::StreamExt;
use tokio::sync::mpsc::Sender;

use super::control::Control;
use super::rows::{Layout, Rows};
use super::sample::Threshold;
use super::sort::Sorter;
use super::tally::Side;
use crate::endpoint::{
    BatchStream, Border, Endpoint, Error, ErrorKind, Position, ReadRequest, Scope, Snapshot,
};
use crate::value::canon::Column;
use crate::value::recipe::Recipe;
use crate::value::shape::TableShape;

/// How long to wait before the first attempt to open a lost connection again; doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Why a side could not be read to its end.
#[derive(Debug, Clone)]
pub(crate) struct SideError {
    pub(crate) side: Side,
    pub(crate) kind: SideErrorKind,
}

#[derive(Debug, Clone)]
pub(crate) enum SideErrorKind {
    /// Rows came in another order than promised: the side has to be sorted by drift.
    OutOfOrder,
    /// For people.
    Failed(String),
}

impl SideError {
    pub(crate) fn internal(side: Side, message: String) -> SideError {
        SideError { side, kind: SideErrorKind::Failed(message) }
    }

    pub(crate) fn too_many(side: Side) -> SideError {
        let message = format!(
            "more than {} rows share one key; choose a key that tells rows apart, or --key none",
            super::merge::MAX_GROUP
        );
        SideError { side, kind: SideErrorKind::Failed(message) }
    }
}

/// Whether rows come in key order by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The engine delivers them in canonical order; checked while reading.
    Ordered,
    /// Nothing promises the order, but it is likely: tried, checked, and sorted on the first violation.
    Hoped,
    /// drift sorts them.
    Sorted,
}

/// Everything that reading one side takes.
pub(crate) struct SideReader {
    pub(crate) side: Side,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) shape: TableShape,
    pub(crate) request: ReadRequest,
    pub(crate) recipe: Arc<Recipe>,
    /// The names of the key's columns on this side.
    pub(crate) key: Vec<String>,
    pub(crate) delivery: Delivery,
    /// What a sort may hold, in bytes.
    pub(crate) budget: usize,
    pub(crate) retries: u32,
    pub(crate) control: Arc<Control>,
    /// Which rows are compared, if not all that are read.
    pub(crate) threshold: Option<Threshold>,
    /// Whether a lost connection's rest may come from a view of other rows, because what differs is looked at again.
    pub(crate) confirmed: bool,
    snapshot: Mutex<Arc<dyn Snapshot>>,
}

/// How reading went wrong once.
enum Broken {
    /// May be tried again.
    Lost(String),
    /// Final.
    Final(SideErrorKind),
    /// The kernel wants no more.
    Closed,
}

/// What was handed over so far, to go on from there.
#[derive(Default)]
struct Progress {
    last_key: Option<Vec<u8>>,
    border: Option<Border>,
}

#[allow(clippy::too_many_arguments, reason = "a plain constructor of named parts")]
impl SideReader {
    pub(crate) fn new(
        side: Side,
        endpoint: Arc<dyn Endpoint>,
        shape: TableShape,
        request: ReadRequest,
        recipe: Arc<Recipe>,
        key: Vec<String>,
        delivery: Delivery,
        budget: usize,
        retries: u32,
        control: Arc<Control>,
        threshold: Option<Threshold>,
        confirmed: bool,
        snapshot: Arc<dyn Snapshot>,
    ) -> SideReader {
        let snapshot = Mutex::new(snapshot);
        SideReader {
            side,
            endpoint,
            shape,
            request,
            recipe,
            key,
            delivery,
            budget,
            retries,
            control,
            threshold,
            confirmed,
            snapshot,
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<dyn Snapshot> {
        match self.snapshot.lock() {
            Ok(held) => Arc::clone(&held),
            Err(poisoned) => Arc::clone(&poisoned.into_inner()),
        }
    }

    /// Reads scopes that follow each other in key order into `out`. Errors go into `out` as well.
    pub(crate) async fn read(self: Arc<Self>, scopes: Vec<Scope>, out: Sender<Result<Rows, SideError>>) {
        let mut result = Ok(());
        for scope in &scopes {
            result = if self.delivery == Delivery::Sorted {
                self.read_sorted(scope, &out).await
            } else {
                self.read_ordered(scope, &out).await
            };
            if result.is_err() {
                break;
            }
        }
        if let Err(Broken::Lost(message)) = result {
            let _ = out.send(Err(SideError::internal(self.side, message))).await;
        } else if let Err(Broken::Final(kind)) = result {
            let _ = out.send(Err(SideError { side: self.side, kind })).await;
        }
    }

    async fn read_ordered(&self, scope: &Scope, out: &Sender<Result<Rows, SideError>>) -> Result<(), Broken> {
        let mut progress = Progress::default();
        let mut attempt = 0;
        let mut stream = self.open_stream(scope, &mut attempt).await?;
        loop {
            match self.hand_over(stream, &mut progress, out).await {
                Err(Broken::Lost(lost)) => {
                    if progress.last_key.is_some() && !self.key_is_unique() {
                        return Err(Broken::Final(SideErrorKind::Failed(format!(
                            "{lost}; rows without a unique key cannot be read on from the middle"
                        ))));
                    }
                    let rest = self.resumed(scope, progress.border.clone());
                    stream = self.recover(&mut attempt, lost, &rest).await?;
                }
                other => return other,
            }
        }
    }

    async fn open_stream(&self, scope: &Scope, attempt: &mut u32) -> Result<BatchStream, Broken> {
        match self.snapshot().scan(scope).await.map_err(|e| self.broken(e)) {
            Err(Broken::Lost(lost)) => self.recover(attempt, lost, scope).await,
            other => other,
        }
    }

    async fn hand_over(
        &self,
        mut stream: BatchStream,
        progress: &mut Progress,
        out: &Sender<Result<Rows, SideError>>,
    ) -> Result<(), Broken> {
        // Rows up to here were handed over before the connection was lost.
        let already = progress.last_key.clone();
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|e| self.broken(e))?;
            let mut rows = self.canonical(&batch)?;
            if let Some(already) = &already {
                let skip = (0..rows.len()).take_while(|r| rows.key(*r) <= already.as_slice()).count();
                rows = rows.slice(skip, rows.len() - skip);
            }
            if rows.len() == 0 {
                continue;
            }
            let last = rows.len() - 1;
            let in_order = (1..rows.len()).all(|r| rows.key(r - 1) <= rows.key(r));
            if !in_order || progress.last_key.as_ref().is_some_and(|key| key.as_slice() > rows.key(0)) {
                return Err(Broken::Final(SideErrorKind::OutOfOrder));
            }
            progress.last_key = Some(rows.key(last).to_vec());
            progress.border = rows.columns.first().and_then(|column| border_of(column, last));
            out.send(Ok(rows)).await.map_err(|_| Broken::Closed)?;
        }
        Ok(())
    }

    async fn read_sorted(&self, scope: &Scope, out: &Sender<Result<Rows, SideError>>) -> Result<(), Broken> {
        let mut attempt = 0;
        let mut stream = self.open_stream(scope, &mut attempt).await?;
        let sorter = loop {
            match self.collect(stream).await {
                Err(Broken::Lost(lost)) => stream = self.recover(&mut attempt, lost, scope).await?,
                other => break other?,
            }
        };
        let out = out.clone();
        // Merging runs is blocking work.
        let merged = tokio::task::spawn_blocking(move || -> Result<(), Broken> {
            let failed = |message| Broken::Final(SideErrorKind::Failed(message));
            let mut merge = sorter.finish().map_err(failed)?;
            while let Some(rows) = merge.next().map_err(failed)? {
                out.blocking_send(Ok(rows)).map_err(|_| Broken::Closed)?;
            }
            Ok(())
        });
        merged
            .await
            .unwrap_or_else(|e| Err(Broken::Final(SideErrorKind::Failed(format!("the sort failed: {e}")))))
    }

    /// Reads a stream to its end into a sorter.
    async fn collect(&self, mut stream: BatchStream) -> Result<Sorter, Broken> {
        let mut sorter = Sorter::new(Layout::of(&self.recipe, self.side == Side::Source), self.budget);
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|e| self.broken(e))?;
            if self.control.stopped().is_some() {
                return Err(Broken::Closed);
            }
            let rows = self.canonical(&batch)?;
            sorter.push(rows).map_err(|message| Broken::Final(SideErrorKind::Failed(message)))?;
        }
        Ok(sorter)
    }

    /// After a lost connection: waits, and reads `rest` from a view of exactly the same rows, or says why there is none.
    /// Where what differs is looked at again, a view of other rows does too: a row that moved across the seam, or was
    /// written meanwhile, is a suspect like any other.
    async fn recover(&self, attempt: &mut u32, lost: String, rest: &Scope) -> Result<BatchStream, Broken> {
        let failed = |message: String| Err(Broken::Final(SideErrorKind::Failed(message)));
        let old = self.snapshot();
        let mut last = lost.clone();
        while *attempt < self.retries {
            *attempt += 1;
            tokio::time::sleep(FIRST_WAIT * 2u32.saturating_pow(*attempt - 1)).await;
            // The snapshot itself may have outlived the connection that read from it.
            if let Ok(stream) = old.scan(rest).await {
                return Ok(stream);
            }
            let new: Arc<dyn Snapshot> = match self.endpoint.open(&self.shape, self.request.clone()).await {
                Ok(new) => Arc::from(new),
                Err(error) => {
                    last = error.message;
                    continue;
                }
            };
            let is_another = !new.position().shows_the_same(&old.position());
            if is_another && !self.confirmed {
                let (before, after) = (place(old.position()), place(new.position()));
                return failed(format!(
                    "{lost}; a new snapshot need not show the same rows (position before: {before}, now: {after}), so the rest was not compared"
                ));
            }
            if let Ok(mut held) = self.snapshot.lock() {
                *held = Arc::clone(&new);
            }
            match new.scan(rest).await {
                Ok(stream) => {
                    if is_another {
                        self.control.read_on(self.side, place(new.position()));
                    }
                    return Ok(stream);
                }
                Err(error) => last = error.message,
            }
        }
        let after = if *attempt == 0 { String::new() } else { format!(" after {attempt} attempts to go on") };
        let more = if last == lost { String::new() } else { format!(" ({last})") };
        failed(format!("{lost}; gave up{after}{more}"))
    }

    fn key_is_unique(&self) -> bool {
        self.shape.unique.iter().any(|index| index.iter().all(|column| self.key.contains(column)))
    }

    fn resumed(&self, scope: &Scope, border: Option<Border>) -> Scope {
        let (Some(border), Some(column)) = (border, self.key.first()) else { return scope.clone() };
        let to = match scope {
            Scope::Whole => None,
            Scope::KeyRange { to, .. } => to.clone(),
            Scope::Keys { .. } => return scope.clone(),
        };
        Scope::KeyRange { column: column.clone(), from: Some(border), to }
    }

    fn canonical(&self, batch: &RecordBatch) -> Result<Rows, Broken> {
        self.count(batch.num_rows());
        let rows = Rows::from_wire(&self.recipe, self.side == Side::Source, batch);
        let kept = rows.and_then(|rows| match &self.threshold {
            Some(threshold) => rows.kept(threshold.of(&rows)).map_err(|e| e.to_string()),
            None => Ok(rows),
        });
        kept.map_err(|message| {
            Broken::Final(SideErrorKind::Failed(format!("{}: {message}", self.endpoint.name())))
        })
    }

    fn broken(&self, error: Error) -> Broken {
        match error.kind {
            ErrorKind::Lost => Broken::Lost(error.message),
            _ => Broken::Final(SideErrorKind::Failed(error.message)),
        }
    }

    fn count(&self, rows: usize) {
        self.control.rows[self.side as usize].fetch_add(rows as u64, Ordering::Relaxed);
    }
}

fn place(position: Position) -> String {
    position.log.unwrap_or_else(|| "unknown".into())
}

/// The value as a border; `None` for types that are not cut into ranges and for values that no range query finds.
pub(crate) fn border_of(column: &Column, row: usize) -> Option<Border> {
    let values = &column.values;
    if values.is_null(row) {
        return None;
    }
    match values.data_type() {
        DataType::Int64 => Some(Border::Int(i128::from(values.as_primitive::<Int64Type>().value(row)))),
        DataType::UInt64 => Some(Border::Int(i128::from(values.as_primitive::<UInt64Type>().value(row)))),
        DataType::Decimal128(_, 0) => {
            let v = values.as_primitive::<Decimal128Type>().value(row);
            (!crate::value::decimal::is_reserved(v)).then_some(Border::Int(v))
        }
        DataType::Date32 => {
            let day = values.as_primitive::<Date32Type>().value(row);
            crate::value::temporal::timestamp_of_date(day)
                .filter(|v| !crate::value::temporal::is_reserved_timestamp(*v))
                .map(|_| Border::Date(day))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let v = values.as_primitive::<TimestampMicrosecondType>().value(row);
            (!crate::value::temporal::is_reserved_timestamp(v)).then_some(Border::Timestamp(v))
        }
        DataType::FixedSizeBinary(_) => {
            <[u8; 16]>::try_from(values.as_fixed_size_binary().value(row)).ok().map(Border::Uuid)
        }
        DataType::Binary => Some(Border::Bytes(values.as_binary::<i32>().value(row).to_vec())),
        _ => None,
    }
}
