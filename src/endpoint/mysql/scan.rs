//! The reading of one scope: a prepared statement whose rows become batches as they arrive.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use futures::{StreamExt, TryStreamExt, stream};
use sqlx::mysql::MySqlRow;
use sqlx::{Column, Decode, MySql, Row, TypeInfo};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::decode::Decoder;
use super::session::{Killer, Session};
use super::snapshot::Idle;
use super::{query, sql, types};
use crate::config::address::Object;
use crate::endpoint::{BATCH_BYTES, BATCH_ROWS, BatchStream, Error, ErrorKind, ReadRequest, Result, Scope};
use crate::value::shape::{LogicalType, TableShape};

/// What all scans of a snapshot have in common.
pub(super) struct Plan {
    pub(super) object: Object,
    pub(super) shape: TableShape,
    pub(super) request: ReadRequest,
    pub(super) index: Option<String>,
    pub(super) schema: SchemaRef,
}

/// What the reading task hands over. The end is said aloud, so that a task that died is not taken for it.
enum Piece {
    Batch(RecordBatch),
    Failed(Error),
    End,
}

impl Plan {
    /// The object for messages. A query is not repeated there: it may be long and hold values.
    fn label(&self) -> String {
        match &self.object {
            Object::Table { .. } => self.object.to_string(),
            Object::Query(_) => "the query".into(),
        }
    }
}

/// Reads `scope` through `session`, which goes back to the idle ones when all is read. A stream that is dropped earlier
/// closes the connection and ends the statement at the server.
pub(super) fn stream(session: Session, plan: Arc<Plan>, scope: &Scope, idle: Arc<Idle>) -> BatchStream {
    let statement = sql::scan(&plan.object, &plan.shape, &plan.request, scope, plan.index.as_deref());
    let (sender, receiver) = mpsc::channel(2);
    let connection = session.name().to_string();
    let reader = Reader {
        connection,
        receiver,
        killer: Some(session.killer()),
        task: tokio::spawn(read(session, plan, statement, idle, sender)),
    };
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.receiver.recv().await {
            Some(Piece::Batch(batch)) => Some((Ok(batch), Some(reader))),
            Some(Piece::Failed(error)) => {
                reader.killer = None;
                Some((Err(error), None))
            }
            Some(Piece::End) => {
                reader.killer = None;
                None
            }
            None => {
                let message = format!("{}: the reading stopped before its end", reader.connection);
                Some((Err(Error::new(ErrorKind::Lost, message)), None))
            }
        }
    })
    .boxed()
}

struct Reader {
    connection: String,
    receiver: mpsc::Receiver<Piece>,
    /// Present until the statement is over.
    killer: Option<Killer>,
    task: JoinHandle<()>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(killer) = self.killer.take() else { return };
        self.task.abort();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(killer.kill());
        }
    }
}

async fn read(
    mut session: Session,
    plan: Arc<Plan>,
    statement: String,
    idle: Arc<Idle>,
    sender: mpsc::Sender<Piece>,
) {
    // Sending fails only when nobody listens any more; then the session is dropped and with it the connection.
    let last = match batches(&mut session, &plan, statement, &sender).await {
        Ok(true) => {
            idle.give(session);
            Piece::End
        }
        Ok(false) => return,
        Err(error) => Piece::Failed(error),
    };
    let _ = sender.send(last).await;
}

/// Sends all batches; `false` if nobody listens any more.
async fn batches(
    session: &mut Session,
    plan: &Plan,
    statement: String,
    sender: &mpsc::Sender<Piece>,
) -> Result<bool> {
    let connection = session.name().to_string();
    let cost = Arc::clone(session.cost());
    cost.statement();
    let doing = format!("reading {}", plan.label());
    let failed = |e: sqlx::Error| super::failure::while_reading(&connection, &doing, &e);
    let mut rows = sqlx::query(sql::trusted(statement)).fetch(&mut session.connection);
    let mut batch = Batch::new(plan, &connection);
    let mut checked = false;
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        if !checked {
            batch.check_types(&row)?;
            checked = true;
        }
        batch.push(&row)?;
        if batch.rows >= BATCH_ROWS || batch.bytes >= BATCH_BYTES {
            cost.received(batch.bytes);
            if sender.send(Piece::Batch(batch.finish()?)).await.is_err() {
                return Ok(false);
            }
        }
    }
    if batch.rows > 0 {
        cost.received(batch.bytes);
        return Ok(sender.send(Piece::Batch(batch.finish()?)).await.is_ok());
    }
    Ok(true)
}

/// A batch that grows.
struct Batch<'a> {
    plan: &'a Plan,
    connection: &'a str,
    decoders: Vec<(Decoder, &'a LogicalType)>,
    rows: usize,
    bytes: usize,
}

impl<'a> Batch<'a> {
    fn new(plan: &'a Plan, connection: &'a str) -> Batch<'a> {
        let columns = plan.request.columns.iter().filter_map(|name| plan.shape.column(name));
        let decoders = columns.map(|c| (Decoder::new(&c.logical), &c.logical)).collect();
        Batch { plan, connection, decoders, rows: 0, bytes: 0 }
    }

    /// Refuses a result whose types are not the described ones.
    fn check_types(&self, row: &MySqlRow) -> Result<()> {
        for (at, (_, logical)) in self.decoders.iter().enumerate() {
            let info = row.columns().get(at).map(Column::type_info);
            let fits = info.is_some_and(|i| types::arrives_as(logical, i.name(), query::is_unsigned(i)));
            if !fits {
                return Err(self.changed(at));
            }
        }
        Ok(())
    }

    fn changed(&self, at: usize) -> Error {
        let message = format!(
            "{}: column {} of {} no longer has the type that was described; run the comparison again",
            self.connection,
            self.column(at),
            self.plan.label()
        );
        Error::new(ErrorKind::Data, message)
    }

    fn push(&mut self, row: &MySqlRow) -> Result<()> {
        for at in 0..self.decoders.len() {
            let raw = row.try_get_raw(at).map_err(|_| self.changed(at))?;
            // Decoding to bytes fails for NULL and nothing else.
            let value = <&[u8] as Decode<MySql>>::decode(raw).ok();
            self.bytes += value.map_or(0, <[u8]>::len);
            if self.decoders[at].0.append(value).is_none() {
                let message = format!(
                    "{}: column {} of {} holds a value that is no valid {}",
                    self.connection,
                    self.column(at),
                    self.plan.label(),
                    self.decoders[at].1
                );
                return Err(Error::new(ErrorKind::Data, message));
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn column(&self, at: usize) -> &str {
        self.plan.request.columns.get(at).map_or("", String::as_str)
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let arrays = self.decoders.iter_mut().map(|(decoder, _)| decoder.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(Arc::clone(&self.plan.schema), arrays, &options).map_err(|e| {
            Error::new(ErrorKind::Data, format!("{}: a batch cannot be built: {e}", self.connection))
        })
    }
}
