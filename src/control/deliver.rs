//! Empties the outbox: at least once, later again where it fails, and never in the way of a check. Reminds those that want
//! to hear of an incident again while it lasts.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit;
use crate::config::settings::Config;
use crate::incident::store as incidents;
use crate::incident::{Incident, State};
use crate::notify::{Message, Sender};
use crate::state::outbox::Waiting;
use crate::state::{Clock, Result, Store, failpoint, outbox};

/// Messages taken at once.
const BATCH: i64 = 200;
/// While one is being sent, nobody else takes it.
const HIDDEN: i64 = 120_000_000;
/// The wait after the first failure, doubled after each further one.
const FIRST_WAIT: i64 = 10_000_000;
/// The longest wait.
const LONGEST_WAIT: i64 = 900_000_000;
/// So long the end of an incident is told again, to reach a receiver that was away.
const ENDS_TOLD: i64 = 900_000_000;

/// What became of the messages that were due.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Sent, by notifier.
    pub sent: Vec<String>,
    /// Not sent: notifier and why.
    pub failed: Vec<(String, String)>,
}

impl Delivered {
    /// What could not be sent, for people: each notifier and reason once, however many messages wait.
    pub fn failures(&self) -> BTreeSet<&(String, String)> {
        self.failed.iter().collect()
    }
}

/// Sends what is due, each message once.
pub async fn deliver(
    store: &Store,
    sender: &Sender,
    config: &Config,
    clock: &dyn Clock,
) -> Result<Delivered> {
    let repeated: Vec<String> = sender.repeated().into_iter().map(|(name, _)| name).collect();
    let mut done = Delivered::default();
    loop {
        let now = clock.now();
        let batch = outbox::take_due(store, now, now + HIDDEN, BATCH).await?;
        if batch.is_empty() {
            return Ok(done);
        }
        let mut by_notifier: BTreeMap<&str, Vec<(&str, Message)>> = BTreeMap::new();
        let mut results: Vec<(&Waiting, std::result::Result<(), String>)> = Vec::new();
        for waiting in &batch {
            match serde_json::from_str::<Message>(&waiting.payload) {
                Ok(mut message) => {
                    if repeated.contains(&waiting.notifier) {
                        // What has waited for long may no longer be so.
                        message = present(store, config, message).await;
                    }
                    by_notifier.entry(&waiting.notifier).or_default().push((&waiting.id, message));
                }
                Err(error) => results.push((waiting, Err(format!("the message cannot be read: {error}")))),
            }
        }
        let sending = by_notifier.into_iter().map(|(name, messages)| async move {
            let (ids, messages): (Vec<&str>, Vec<Message>) = messages.into_iter().unzip();
            let sent = sender.send_all(name, &messages, now).await;
            ids.into_iter().zip(sent).collect::<Vec<_>>()
        });
        let sent: Vec<(&str, crate::notify::Result<()>)> =
            futures::future::join_all(sending).await.into_iter().flatten().collect();
        for (id, result) in sent {
            if let Some(waiting) = batch.iter().find(|waiting| waiting.id == id) {
                results.push((waiting, result.map_err(|failure| failure.why)));
            }
        }
        failpoint("deliver.sent");
        for (waiting, result) in results {
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

/// The message about an incident as it is now.
async fn present(store: &Store, config: &Config, message: Message) -> Message {
    let Some(number) = message.incident else { return message };
    match incidents::find(store, number).await {
        Ok(Some(incident)) => state_of(config, &incident),
        Ok(None) | Err(_) => message,
    }
}

fn state_of(config: &Config, incident: &Incident) -> Message {
    let labels = config.pair(&incident.pair).map(|pair| pair.labels.clone()).unwrap_or_default();
    audit::message(incident, incident.state.word(), &labels)
}

/// When each notifier was last reminded.
#[derive(Debug, Default)]
pub(super) struct Reminded(BTreeMap<String, i64>);

/// Tells those that want to hear again how all incidents stand that are open or have just ended. One that was out of reach
/// is told at the next time: nothing is kept, because it is the present that is told.
pub(super) async fn remind(
    store: &Store,
    sender: &Sender,
    config: &Config,
    clock: &dyn Clock,
    reminded: &mut Reminded,
) -> Result<Delivered> {
    let now = clock.now();
    let mut due: Vec<String> = Vec::new();
    for (name, every) in sender.repeated() {
        if reminded.0.get(&name).is_none_or(|last| now - last >= every) {
            reminded.0.insert(name.clone(), now);
            due.push(name);
        }
    }
    let mut done = Delivered::default();
    if due.is_empty() {
        return Ok(done);
    }
    let told = |incident: &Incident| {
        (incident.is_active() || incident.state == State::Resolved) && !incident.is_muted(now)
    };
    let incidents = incidents::since(store, now - ENDS_TOLD).await?;
    for incident in incidents.iter().filter(|incident| told(incident)) {
        let message = state_of(config, incident);
        for name in &due {
            match sender.send(name, &message, now).await {
                Ok(()) => done.sent.push(name.clone()),
                Err(failure) => done.failed.push((name.clone(), failure.why)),
            }
        }
    }
    Ok(done)
}
