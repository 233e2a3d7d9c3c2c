//! Empties the outbox: at least once, later again where it fails, and never in the way of a check.

use crate::notify::{Message, Sender};
use crate::state::{Clock, Result, Store, failpoint, outbox};

/// Messages taken at once.
const BATCH: i64 = 20;
/// While one is being sent, nobody else takes it.
const HIDDEN: i64 = 120_000_000;
/// The wait after the first failure, doubled after each further one.
const FIRST_WAIT: i64 = 10_000_000;
/// The longest wait.
const LONGEST_WAIT: i64 = 900_000_000;

/// What became of the messages that were due.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Sent, by notifier.
    pub sent: Vec<String>,
    /// Not sent: notifier and why.
    pub failed: Vec<(String, String)>,
}

/// Sends what is due, each message once.
pub async fn deliver(store: &Store, sender: &Sender, clock: &dyn Clock) -> Result<Delivered> {
    let mut done = Delivered::default();
    loop {
        let now = clock.now();
        let batch = outbox::take_due(store, now, now + HIDDEN, BATCH).await?;
        if batch.is_empty() {
            return Ok(done);
        }
        let sending = batch.iter().map(|waiting| async move {
            match serde_json::from_str::<Message>(&waiting.payload) {
                Ok(message) => sender.send(&waiting.notifier, &message, now).await.map_err(|f| f.why),
                Err(error) => Err(format!("the message cannot be read: {error}")),
            }
        });
        let results = futures::future::join_all(sending).await;
        failpoint("deliver.sent");
        for (waiting, result) in batch.iter().zip(results) {
            match result {
                Ok(()) => {
                    outbox::sent(store, &waiting.id, clock.now()).await?;
                    done.sent.push(waiting.notifier.clone());
                }
                Err(why) => {
                    let doubled = FIRST_WAIT.saturating_mul(1 << waiting.tries.clamp(0, 20));
                    let due = clock.now() + doubled.min(LONGEST_WAIT);
                    outbox::failed(store, &waiting.id, &why, due).await?;
                    done.failed.push((waiting.notifier.clone(), why));
                }
            }
        }
    }
}
