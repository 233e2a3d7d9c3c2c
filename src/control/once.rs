//! `drift audit`: the configured checks, once.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};

use super::budget::{Budgets, threads};
use super::deliver::{Reminded, deliver, remind};
use super::{Delivered, watched};
use crate::audit::{self, Auditor, Ran, Status};
use crate::config::Loaded;
use crate::config::settings::{Level, Pair};
use crate::notify::Sender;
use crate::state::{self, Clock, Store};

/// How long an audit waits for another process: longer than the lease of one that was killed lasts.
const PATIENCE: Duration = Duration::from_secs(40);

/// Which checks to run.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// These pairs; all if empty.
    pub pairs: Vec<String>,
    /// Pairs with all these labels.
    pub labels: Vec<(String, String)>,
    /// These levels; schema and rows if empty.
    pub levels: Vec<Level>,
    /// All rows instead of a sample.
    pub full: bool,
}

/// What the checks came to.
#[derive(Debug)]
pub struct Audit {
    /// Every run, in the configuration's order.
    pub runs: Vec<Ran>,
    /// What became of the messages.
    pub delivered: Delivered,
}

impl Wanted {
    /// The pairs that are meant; the error names what is meant and does not exist.
    fn of<'a>(&self, pairs: &'a [Pair]) -> Result<Vec<&'a Pair>, String> {
        for name in &self.pairs {
            if !pairs.iter().any(|pair| pair.name == *name) {
                let known: Vec<&str> = pairs.iter().map(|pair| pair.name.as_str()).collect();
                return Err(format!(
                    "there is no pair {name:?} in the configuration; it has {}",
                    known.join(", ")
                ));
            }
        }
        let found: Vec<&Pair> = pairs
            .iter()
            .filter(|pair| self.pairs.is_empty() || self.pairs.contains(&pair.name))
            .filter(|pair| self.labels.iter().all(|(name, value)| pair.labels.get(name) == Some(value)))
            .collect();
        if found.is_empty() {
            return Err("no pair of the configuration is meant; see drift config".into());
        }
        Ok(found)
    }

    fn levels(&self) -> Vec<Level> {
        let rows = if self.full { Level::Full } else { Level::Rows };
        match self.levels.as_slice() {
            [] => vec![Level::Schema, rows],
            levels => levels.iter().map(|level| if *level == Level::Rows { rows } else { *level }).collect(),
        }
    }
}

/// Why an audit could not be made.
#[derive(Debug)]
pub enum Refused {
    /// What was asked for does not exist.
    Usage(String),
    /// The state cannot be written.
    State(state::Error),
}

/// Runs the checks, as many at once as the configuration allows, and sends the messages that follow.
pub async fn audit(
    loaded: &Loaded,
    store: &Store,
    clock: Arc<dyn Clock>,
    wanted: &Wanted,
    told: &(dyn Fn(&str) + Sync),
) -> Result<Audit, Refused> {
    let config = &loaded.config;
    let pairs = wanted.of(&config.pairs).map_err(Refused::Usage)?;
    let sender = Sender::new(&config.notifiers);
    let budgets = Budgets::of(config);
    let bucket = clock.now();
    let fingerprint = loaded.fingerprint();
    let levels = wanted.levels();
    let jobs = pairs.iter().map(|pair| {
        let auditor = Auditor {
            store: store.clone(),
            clock: Arc::clone(&clock),
            notifiers: sender.names(),
            config: fingerprint.clone(),
            threads: threads(config, pair),
            patience: PATIENCE,
        };
        let (budgets, levels) = (&budgets, &levels);
        async move {
            let watched = watched(config, pair).map_err(|error| Refused::Usage(error.message))?;
            let _permits = budgets.take(config, pair).await;
            let mut runs = Vec::with_capacity(levels.len());
            for level in levels {
                told(&format!("{}: {}", pair.name, level.word()));
                // Rows whose schema is broken are judged by what the schema check has just found.
                runs.extend(auditor.check(&watched, *level, bucket, None).await.map_err(Refused::State)?);
            }
            Ok::<Vec<Ran>, Refused>(runs)
        }
    });
    let runs: Vec<Vec<Ran>> =
        futures::stream::iter(jobs).buffered(config.server.workers as usize).try_collect().await?;
    let mut delivered = deliver(store, &sender, config, clock.as_ref()).await.map_err(Refused::State)?;
    let mut reminded = Reminded::default();
    let again =
        remind(store, &sender, config, clock.as_ref(), &mut reminded).await.map_err(Refused::State)?;
    delivered.failed.extend(again.failed);
    let keep = |span: crate::config::threshold::Span| clock.now().saturating_sub(span.micros());
    audit::store::prune(store, keep(config.history.keep_runs), keep(config.history.keep_diff_rows))
        .await
        .map_err(Refused::State)?;
    Ok(Audit { runs: runs.into_iter().flatten().collect(), delivered })
}

impl Audit {
    /// The worst that happened.
    pub fn status(&self) -> Status {
        Status::worst(self.runs.iter().map(|ran| ran.status))
    }
}
