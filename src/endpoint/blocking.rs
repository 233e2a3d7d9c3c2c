//! Reads that block a thread: the rows of a library without async (SQLite, file decoders) as a stream.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::record_batch::RecordBatch;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;

use super::{BatchStream, Error, ErrorKind, Result};

/// Batches that may wait between the reading thread and the consumer.
const WAITING: usize = 2;

/// Where the reading thread puts its batches.
pub(crate) struct Outlet(mpsc::Sender<Result<RecordBatch>>);

/// The consumer has gone, so that reading on is of no use.
pub(crate) struct Abandoned;

impl Outlet {
    /// Hands over a batch, waiting while the consumer is behind.
    pub(crate) fn send(&self, batch: RecordBatch) -> std::result::Result<(), Abandoned> {
        self.0.blocking_send(Ok(batch)).map_err(|_| Abandoned)
    }
}

/// Why a reading thread ends early.
pub(crate) enum Stop {
    /// An error for the consumer.
    Failed(Error),
    /// Nobody listens any more.
    Abandoned,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl From<Abandoned> for Stop {
    fn from(_: Abandoned) -> Stop {
        Stop::Abandoned
    }
}

/// Runs `read` on a thread of its own and streams what it sends. A panic inside becomes a [`ErrorKind::Data`] error that
/// starts with `what`: a stream must never just end where rows are missing. `on_drop` runs when the stream is dropped.
pub(crate) fn stream(
    what: String,
    read: impl FnOnce(&Outlet) -> std::result::Result<(), Stop> + Send + 'static,
    on_drop: impl FnOnce() + Send + 'static,
) -> BatchStream {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let outlet = Outlet(sender);
        let end = guarded(&what, || read(&outlet));
        if let Err(Stop::Failed(error)) = end {
            // A consumer that has gone needs no error.
            let _ = outlet.0.blocking_send(Err(error));
        }
    });
    Batches { receiver, on_drop: Some(Box::new(on_drop)) }.boxed()
}

/// Runs `work`, turning a panic into an error.
fn guarded<T, E: From<Error>>(
    what: &str,
    work: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Data, format!("{what}: the decoder failed; the data is damaged")).into())
    })
}

/// Runs `work` on a thread of its own and waits for it; a panic inside becomes an error that starts with `what`.
pub(crate) async fn run<T: Send + 'static>(
    what: String,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(move || guarded(&what, work))
        .await
        .map_err(|_| Error::new(ErrorKind::Lost, "drift is shutting down"))?
}

struct Batches {
    receiver: mpsc::Receiver<Result<RecordBatch>>,
    on_drop: Option<Box<dyn FnOnce() + Send>>,
}

impl Stream for Batches {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context)
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.receiver.close();
        if let Some(on_drop) = self.on_drop.take() {
            on_drop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_not_the_end() {
        let mut stream = stream("a.parquet".into(), |_| panic!("broken page"), || ());
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(error.message.starts_with("a.parquet:"), "{error}");
        assert!(stream.next().await.is_none());
        let result: Result<()> = run("b".into(), || panic!("broken footer")).await;
        assert_eq!(result.unwrap_err().kind, ErrorKind::Data);
    }

    #[tokio::test]
    async fn a_dropped_stream_ends_its_thread() {
        let (ended, wait) = tokio::sync::oneshot::channel();
        let batch = RecordBatch::new_empty(std::sync::Arc::new(arrow::datatypes::Schema::empty()));
        let endless = stream(
            "x".into(),
            move |outlet| {
                while outlet.send(batch.clone()).is_ok() {}
                let _ = ended.send(());
                Err(Stop::Abandoned)
            },
            || (),
        );
        drop(endless);
        wait.await.unwrap();
    }
}
