//! One consistent view: a coordinating transaction, workers on its exported snapshot, scans as binary COPY.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::copy::{Broken, Decoder};
use super::session::{self, Session};
use super::{Side, cuts, opening, sql};
use crate::endpoint::{
    BatchStream, Border, Cost, Error, ErrorKind, Position, ReadRequest, Result, STATEMENT_TIMEOUT, Scope,
    Snapshot, wire_schema,
};
use crate::value::shape::{LogicalType, TableShape};

/// After so much silence of a scan, the coordinator is asked whether the server is still there.
const SILENCE: Duration = Duration::from_secs(60);

/// An open view of the table.
pub(super) struct PgSnapshot {
    side: Arc<Side>,
    shape: TableShape,
    request: ReadRequest,
    schema: SchemaRef,
    types: Vec<LogicalType>,
    position: Position,
    cost: Arc<Cost>,
    /// Holds the view; `None` after a scan that it ran itself was broken off.
    coordinator: Arc<Mutex<Option<Session>>>,
    /// Where no worker could join there is none: then the coordinator reads itself, one scan at a time.
    pool: Option<Pool>,
}

/// Worker connections on one exported snapshot.
struct Pool {
    exported: String,
    idle: Arc<SyncMutex<Vec<Session>>>,
    permits: Arc<Semaphore>,
    size: usize,
}

/// The right to read on a connection, and the way to give it back for the next scan. Dropped instead, the connection
/// is gone, and the next scan opens another.
enum Lease {
    Worker { idle: Arc<SyncMutex<Vec<Session>>>, _permit: OwnedSemaphorePermit },
    Coordinator(OwnedMutexGuard<Option<Session>>),
}

impl Lease {
    fn give_back(self, session: Session) {
        match self {
            Lease::Worker { idle, _permit } => {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
            }
            Lease::Coordinator(mut place) => *place = Some(session),
        }
    }
}

/// The settings of a scan.
pub(super) fn scan_settings(version: u32, request: &ReadRequest) -> String {
    // One of drift's workers is one of the server's processes.
    let mut out =
        "set local statement_timeout = 0; set local max_parallel_workers_per_gather = 0".to_string();
    if version >= 110_000 {
        out.push_str("; set local jit = off");
    }
    if !request.order.is_empty() {
        // The index delivers the order; a sort of the whole table would fill the server's disk.
        out.push_str("; set local enable_sort = off");
    }
    out
}

impl PgSnapshot {
    pub(super) async fn open(
        side: Arc<Side>,
        shape: &TableShape,
        request: ReadRequest,
    ) -> Result<PgSnapshot> {
        let schema = wire_schema(shape, &request.columns)?;
        let columns = request.columns.iter().filter_map(|name| shape.column(name));
        let types = columns.map(|c| c.logical.clone()).collect();
        let cost = Arc::new(Cost::default());
        let opened = opening::open(&side, &cost, shape, &request).await?;
        let pool = opened.exported.map(|exported| Pool {
            exported,
            size: opened.workers.len(),
            permits: Arc::new(Semaphore::new(opened.workers.len())),
            idle: Arc::new(SyncMutex::new(opened.workers)),
        });
        Ok(PgSnapshot {
            side,
            shape: shape.clone(),
            request,
            schema,
            types,
            position: opened.position,
            cost,
            coordinator: Arc::new(Mutex::new(Some(opened.coordinator))),
            pool,
        })
    }

    /// A connection for one scan; waits until one is free.
    async fn lease(&self) -> Result<(Session, Lease)> {
        let gone = || session::lost(&self.side.name, "the connection that held the snapshot is gone");
        let Some(pool) = &self.pool else {
            let mut place = self.coordinator.clone().lock_owned().await;
            let session = place.take().ok_or_else(gone)?;
            return Ok((session, Lease::Coordinator(place)));
        };
        let permit = pool.permits.clone().acquire_owned().await.map_err(|_| gone())?;
        let lease = Lease::Worker { idle: pool.idle.clone(), _permit: permit };
        let idle = pool.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let session = match idle {
            Some(session) => session,
            // An earlier scan was broken off and took its connection with it.
            None => {
                let mut session = self.side.connect(&self.cost).await?;
                session.begin(&self.cost, Some(&pool.exported)).await.map_err(|e| match e.kind {
                    ErrorKind::Unavailable => e,
                    _ => gone(),
                })?;
                session
            }
        };
        Ok((session, lease))
    }
}

#[async_trait]
impl Snapshot for PgSnapshot {
    fn position(&self) -> Position {
        self.position.clone()
    }

    fn workers(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.size)
    }

    async fn cuts(&self, column: &str, n: usize) -> Result<Vec<Border>> {
        // Borders are for balance only: not worth waiting for a scan that the coordinator runs itself.
        let Ok(mut place) = self.coordinator.try_lock() else { return Ok(Vec::new()) };
        let Some(session) = place.as_mut() else { return Ok(Vec::new()) };
        cuts::cuts(session, &self.cost, &self.side.object, &self.shape, column, n).await
    }

    async fn now(&self) -> Result<Option<i64>> {
        let mut place = self.coordinator.lock().await;
        let Some(session) = place.as_mut() else { return Ok(None) };
        let text = "select (extract(epoch from transaction_timestamp()) * 1000000)::bigint";
        Ok(session.one(&self.cost, text).await?.parse().ok())
    }

    async fn scan(&self, scope: &Scope) -> Result<BatchStream> {
        let select = sql::select(&self.side.object, &self.shape, &self.request, scope)?;
        let (session, lease) = self.lease().await?;
        let reading = Reading {
            name: self.side.name.clone(),
            settings: scan_settings(session.version(), &self.request),
            copy: sql::copy(&select),
            decoder: Decoder::new(self.schema.clone(), &self.types),
            cost: self.cost.clone(),
            witness: self.pool.is_some().then(|| self.coordinator.clone()),
        };
        let name = self.side.name.clone();
        // One batch waits while the next is built.
        let (sender, receiver) = mpsc::channel(1);
        let task = Abort(tokio::spawn(reading.run(session, lease, sender)));
        Ok(stream::unfold(Some((receiver, task, name)), |state| async move {
            let (mut receiver, task, name) = state?;
            match receiver.recv().await {
                Some(Ok(Some(batch))) => Some((Ok(batch), Some((receiver, task, name)))),
                Some(Ok(None)) => None,
                Some(Err(e)) => Some((Err(e), None)),
                // Without the word that it is complete, the end of the rows is no end.
                None => Some((Err(session::lost(&name, "the reading task ended early")), None)),
            }
        })
        .boxed())
    }

    fn cost(&self) -> Arc<Cost> {
        self.cost.clone()
    }
}

/// Ends the reading task, and with it its connection, when nobody wants the rows any more.
struct Abort(JoinHandle<()>);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Batches on their way; `None` says that all rows have been sent.
type Sender = mpsc::Sender<Result<Option<RecordBatch>>>;

/// One scan, run as a task that owns its connection.
struct Reading {
    name: String,
    settings: String,
    copy: String,
    decoder: Decoder,
    cost: Arc<Cost>,
    /// The coordinator, which a silent scan asks whether the server still lives.
    witness: Option<Arc<Mutex<Option<Session>>>>,
}

impl Reading {
    async fn run(mut self, mut session: Session, lease: Lease, sender: Sender) {
        let end = match self.rows(&mut session, &sender).await {
            Ok(()) => {
                lease.give_back(session);
                Ok(None)
            }
            Err(e) => {
                drop((session, lease));
                Err(e)
            }
        };
        // Nobody listens any more: then nobody misses the end either.
        let _ = sender.send(end).await;
    }

    async fn rows(&mut self, session: &mut Session, sender: &Sender) -> Result<()> {
        session.rows(&self.cost, &self.settings).await?;
        self.cost.statement();
        let beginning = session.connection()?.copy_out_raw(&self.copy);
        let mut messages = match tokio::time::timeout(STATEMENT_TIMEOUT, beginning).await {
            Ok(begun) => begun.map_err(|e| session::failed(&self.name, &e))?,
            Err(_) => return Err(session::lost(&self.name, "the server does not answer")),
        };
        loop {
            // A message is a row: a timer for each that is already there would cost more than reading it.
            let next = match messages.next().now_or_never() {
                Some(ready) => Ok(ready),
                None => tokio::time::timeout(SILENCE, messages.next()).await,
            };
            let message = match next {
                Ok(Some(message)) => message.map_err(|e| session::failed(&self.name, &e))?,
                Ok(None) => break,
                Err(_) => {
                    self.ask_witness().await?;
                    continue;
                }
            };
            self.cost.received(message.len());
            for batch in self.decoder.push(&message).map_err(|e| unreadable(&self.name, &e))? {
                if sender.send(Ok(Some(batch))).await.is_err() {
                    return Err(session::lost(&self.name, "the rows are not wanted any more"));
                }
            }
        }
        let rest = self.decoder.finish().map_err(|e| session::lost(&self.name, e.why))?;
        if let Some(batch) = rest
            && sender.send(Ok(Some(batch))).await.is_err()
        {
            return Err(session::lost(&self.name, "the rows are not wanted any more"));
        }
        Ok(())
    }

    async fn ask_witness(&self) -> Result<()> {
        let Some(witness) = &self.witness else { return Ok(()) };
        match witness.lock().await.as_mut() {
            Some(session) => session.rows(&self.cost, "select 1").await.map(drop),
            None => Ok(()),
        }
    }
}

fn unreadable(name: &str, broken: &Broken) -> Error {
    let place = broken.column.as_ref().map_or(String::new(), |c| format!("column {c}: "));
    let advice = if broken.column.is_some() { "; exclude the column or cast it in a query" } else { "" };
    Error::new(ErrorKind::Data, format!("{name}: {place}{}{advice}", broken.why))
}
