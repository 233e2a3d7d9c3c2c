//! `drift serve`: the configured checks on schedule.
//!
//! Several processes on one store elect one scheduler by a lease; the others stand by. Each slot of a schedule runs once: a
//! run holds the lease of its pair and level, and its end, its results and its slot are remembered together.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use uuid::Uuid;

use super::budget::{Budgets, threads};
use super::deliver::{Reminded, deliver, remind};
use super::schedule::{Due, End, Schedule, Task};
use super::{Delivered, watched};
use crate::audit::{self, Auditor, Ran, Reason, Status, Watched};
use crate::config::settings::{Level, Pair};
use crate::config::{Loaded, Problem};
use crate::notify::Sender;
use crate::report::words::counted;
use crate::state::{self, Clock, Store, failpoint, lease};
use crate::telemetry::Metrics;

/// The lease of the process that schedules.
const SCHEDULER: &str = "scheduler";
/// How often a process that stands by asks for it, and messages are looked for that nobody announced.
const LOOKED: Duration = Duration::from_secs(2);
/// How long running checks may take after the end was asked for.
const GRACE: Duration = Duration::from_secs(20);
/// How often old results are removed, in microseconds.
const PRUNED: i64 = 3_600_000_000;
/// The longest sleep, in microseconds.
const LONGEST: i64 = 3_600_000_000;

/// How the service stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether this process schedules.
    pub leads: bool,
    /// Checks that run.
    pub running: usize,
    /// When the next check is due, in microseconds since 1970.
    pub next: Option<i64>,
    /// What is wrong with the store, if something is.
    pub trouble: Option<String>,
}

/// What may be asked of the service from outside.
#[derive(Debug)]
pub enum Request {
    /// Read the configuration again.
    Reload,
    /// End, when the running checks have ended.
    Stop,
}

/// Reads the configuration.
pub type Load = Box<dyn Fn() -> Result<Loaded, Vec<Problem>> + Send + Sync>;
/// Takes a line for people.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// The service.
pub struct Service {
    store: Store,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    say: Say,
    load: Load,
    loaded: RwLock<Arc<Loaded>>,
    standing: watch::Sender<Standing>,
    /// There may be something in the outbox.
    outbox: Notify,
    watching: RwLock<BTreeMap<Key, Watching>>,
    /// Who this process is, where several share a store.
    me: String,
}

/// What is told of a scheduled check before it has run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watching {
    /// Since when this process watches it, in microseconds since 1970.
    pub(super) since: i64,
    /// The longest time between two runs, in microseconds.
    pub(super) interval: i64,
}

/// A level of a pair.
pub(super) type Key = (String, Level);

/// What is being watched, made of one reading of the configuration.
struct Watch {
    tasks: BTreeMap<Key, Task>,
    pairs: BTreeMap<String, Arc<Watched>>,
    shared: Arc<Shared>,
}

/// What one run came to.
struct Ended {
    key: Key,
    end: End,
}

impl Service {
    /// A service that does nothing yet.
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        loaded: Loaded,
        load: Load,
        say: Say,
    ) -> Service {
        metrics.config_reloaded.set(1.0);
        metrics.config_loaded_at.set(clock.now() as f64 / 1e6);
        Service {
            store,
            clock,
            metrics,
            say,
            load,
            loaded: RwLock::new(Arc::new(loaded)),
            standing: watch::channel(Standing::default()).0,
            outbox: Notify::new(),
            watching: RwLock::default(),
            me: Uuid::now_v7().simple().to_string(),
        }
    }

    /// How it stands, now and whenever that changes.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// The configuration in use.
    pub fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How it stands, if the store answers.
    pub async fn reaches_state(&self) -> state::Result<Standing> {
        self.store.rows("select version from drift_store", &[]).await?;
        Ok(self.standing.borrow().clone())
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The scheduled checks.
    pub(super) fn watching(&self) -> RwLockReadGuard<'_, BTreeMap<Key, Watching>> {
        self.watching.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until it is asked to stop. An error means that the configuration cannot be used at all; a store that is out of
    /// reach is waited for.
    pub async fn run(&self, mut requests: mpsc::Receiver<Request>) -> Result<(), String> {
        let mut plan = self.plan(&BTreeMap::new())?;
        let stop = Notify::new();
        let scheduling = async {
            loop {
                let done = tokio::select! {
                    done = self.elected() => done,
                    request = requests.recv() => match request {
                        Some(Request::Reload) => {
                            if let Some(next) = self.reload(&BTreeMap::new()) {
                                plan = next;
                            }
                            continue;
                        }
                        Some(Request::Stop) | None => break,
                    },
                };
                failpoint("serve.elected");
                match self.lead(&mut plan, done, &mut requests).await {
                    Led::Stopped => break,
                    Led::Lost => (self.say)("another process schedules now; this one stands by"),
                }
            }
            stop.notify_one();
        };
        tokio::join!(scheduling, self.pump(&stop));
        Ok(())
    }

    /// Returns when this process holds the scheduler's lease, with the slots that are done.
    async fn elected(&self) -> Vec<(String, String, i64)> {
        let mut stood_by = false;
        loop {
            let taken = async {
                match self.take_lead().await? {
                    true => audit::store::slots(&self.store).await.map(Some),
                    false => Ok(None),
                }
            };
            match taken.await {
                Ok(Some(done)) => return done,
                Ok(None) if !stood_by => {
                    (self.say)("another process schedules, or was killed while it did; this one stands by");
                    stood_by = true;
                    self.stand(|standing| standing.trouble = None);
                }
                Ok(None) => self.stand(|standing| standing.trouble = None),
                Err(error) => self.trouble(&error),
            }
            tokio::time::sleep(LOOKED).await;
        }
    }

    async fn take_lead(&self) -> state::Result<bool> {
        lease::claim(&self.store, SCHEDULER, &self.me, self.clock.now()).await
    }

    /// Renews the scheduler's lease; ends when it is lost.
    async fn keep_lead(&self) {
        // Without an answer for as long as the lease lasts, another may have it.
        let mut renewed = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(lease::RENEWED).await;
            match self.take_lead().await {
                Ok(true) => renewed = tokio::time::Instant::now(),
                Ok(false) => return,
                Err(error) => {
                    self.trouble(&error);
                    if renewed.elapsed() > Duration::from_micros(lease::LASTS.unsigned_abs()) {
                        return;
                    }
                }
            }
        }
    }

    /// Schedules, until it is asked to stop or loses the lease. `done` says which slots were done before: pair, level, slot.
    async fn lead(
        &self,
        plan: &mut Watch,
        done: Vec<(String, String, i64)>,
        requests: &mut mpsc::Receiver<Request>,
    ) -> Led {
        let mut pruned = 0;
        let now = self.clock.now();
        let done: BTreeMap<(&str, &str), i64> =
            done.iter().map(|(pair, level, slot)| ((pair.as_str(), level.as_str()), *slot)).collect();
        // All of them: what ran when a lease was lost runs no longer.
        for (key, task) in &mut plan.tasks {
            if let Some(schedule) = self.schedule(&key.0, key.1) {
                *task = Task::new(schedule, done.get(&(key.0.as_str(), key.1.word())).copied(), now);
            }
        }
        self.metrics.leader.set(1.0);
        (self.say)(&format!("scheduling {}", plan.size()));
        let mut running: FuturesUnordered<BoxFuture<'_, Ended>> = FuturesUnordered::new();
        let lost = self.keep_lead();
        tokio::pin!(lost);
        let led = loop {
            let now = self.clock.now();
            for (key, task) in &mut plan.tasks {
                match task.due(now) {
                    Due::Run { slot, since } => {
                        if let Some(watched) = plan.pairs.get(&key.0) {
                            running.push(self.start(
                                Arc::clone(watched),
                                Arc::clone(&plan.shared),
                                key,
                                slot,
                                since,
                            ));
                        }
                    }
                    Due::LeftOut => {
                        self.metrics.check_runs.with_label_values(&[&key.0, key.1.word(), "skipped"]).inc();
                        (self.say)(&format!(
                            "{} {}: the run before has not ended; one is left out",
                            key.0,
                            key.1.word()
                        ));
                    }
                    Due::Nothing => {}
                }
            }
            if now - pruned >= PRUNED {
                pruned = now;
                self.prune(now).await;
            }
            let next = plan.tasks.values().filter_map(Task::at).min();
            self.stand(|standing| {
                standing.leads = true;
                standing.running = running.len();
                standing.next = next;
            });
            let wake = next.unwrap_or(i64::MAX).min(now + LONGEST);
            tokio::select! {
                () = self.clock.sleep_until(wake) => {}
                Some(ended) = running.next() => {
                    let now = self.clock.now();
                    if let Some(task) = plan.tasks.get_mut(&ended.key) {
                        task.ended(ended.end, now);
                    }
                    self.outbox.notify_one();
                }
                () = &mut lost => break Led::Lost,
                request = requests.recv() => match request {
                    Some(Request::Reload) => {
                        if let Some(next) = self.reload(&plan.tasks) {
                            *plan = next;
                        }
                    }
                    Some(Request::Stop) | None => {
                        self.finish(&mut running).await;
                        break Led::Stopped;
                    }
                },
            }
        };
        self.metrics.leader.set(0.0);
        self.stand(|standing| {
            *standing = Standing { trouble: standing.trouble.take(), ..Standing::default() }
        });
        led
    }

    /// Lets running checks end, for a while, and gives the lease back.
    async fn finish(&self, running: &mut FuturesUnordered<BoxFuture<'_, Ended>>) {
        if !running.is_empty() {
            (self.say)(&format!(
                "ending: {} still running",
                counted(running.len() as u64, "check", "checks")
            ));
        }
        let all = async { while running.next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            (self.say)(&format!(
                "{} given up; the next start runs them again",
                counted(running.len() as u64, "check", "checks")
            ));
        }
        let given = async {
            let mut tx = self.store.begin().await?;
            lease::give_back(&mut tx, SCHEDULER, &self.me).await?;
            tx.commit().await
        };
        if let Err(error) = given.await {
            self.trouble(&error);
        }
    }

    /// Starts the run of a slot.
    fn start(
        &self,
        watched: Arc<Watched>,
        shared: Arc<Shared>,
        key: &Key,
        slot: i64,
        since: i64,
    ) -> BoxFuture<'_, Ended> {
        let key = key.clone();
        Box::pin(async move {
            let loaded = self.loaded();
            // The servers' budgets first: who waits for a busy server must not keep a worker from the others.
            let _permits = shared.budgets.take(&loaded.config, &watched.pair).await;
            let Ok(_worker) = shared.workers.acquire().await else {
                return Ended { key, end: End::Again };
            };
            let begun = self.clock.now();
            let auditor = Auditor {
                store: self.store.clone(),
                clock: Arc::clone(&self.clock),
                notifiers: shared.notifiers.clone(),
                config: shared.fingerprint.clone(),
                threads: threads(&loaded.config, &watched.pair),
                patience: Duration::ZERO,
            };
            failpoint("serve.started");
            let level = key.1;
            // A task of its own: neither a panic nor a long computation of one check may hold up the others.
            let task = tokio::spawn({
                let watched = Arc::clone(&watched);
                async move { auditor.check(&watched, level, slot, Some(slot)).await }
            });
            let end = match Abort(task).await {
                Ok(Ok(runs)) => {
                    let ends: Vec<End> = runs.iter().map(|ran| self.note(ran, since, begun)).collect();
                    ends.first().copied().unwrap_or(End::Done)
                }
                Ok(Err(error)) => {
                    self.trouble(&error);
                    End::Again
                }
                Err(panic) => {
                    (self.say)(&format!("{} {}: the check broke off: {panic}", key.0, level.word()));
                    self.metrics.check_runs.with_label_values(&[&key.0, level.word(), "error"]).inc();
                    End::Done
                }
            };
            failpoint("serve.ended");
            Ended { key, end }
        })
    }

    /// Counts a run, and says what a person should know.
    fn note(&self, ran: &Ran, since: i64, begun: i64) -> End {
        let reason = ran.results.first().and_then(|result| result.reason);
        match (ran.status, reason) {
            (Status::Skipped, Some(Reason::Busy)) => return End::Again,
            (Status::Skipped, Some(Reason::Done)) => return End::Done,
            _ => self.stand(|standing| standing.trouble = None),
        }
        let (pair, level) = (ran.run.pair.as_str(), ran.run.level.as_str());
        let seconds = |micros: i64| micros.max(0) as f64 / 1e6;
        self.metrics.schedule_lag.observe(seconds(begun - since));
        self.metrics.check_runs.with_label_values(&[pair, level, ran.status.word()]).inc();
        let took = seconds(ran.run.ended.unwrap_or(ran.run.started) - ran.run.started);
        self.metrics.check_duration.with_label_values(&[level]).observe(took);
        if level != Level::Schema.word() {
            let rows = u64::try_from(ran.run.rows).unwrap_or(0);
            self.metrics.rows_compared.with_label_values(&[pair, "stream"]).inc_by(rows);
        }
        if let Some((incident, Some(news))) = &ran.incident {
            let first = incident.findings.first().map_or("", |finding| finding.summary.as_str());
            (self.say)(&format!("incident {} {}: {pair}: {first}", incident.number, news.word()));
        } else if ran.status == Status::Error {
            let first = ran.results.iter().find(|result| result.status == Status::Error);
            let why = first.map_or("", |result| result.summary.as_str());
            (self.say)(&format!("{pair} {}: {why}", level));
        }
        End::Done
    }

    /// Sends messages until the service ends, and once more then.
    async fn pump(&self, stop: &Notify) {
        let mut reminded = Reminded::default();
        let mut ends = false;
        let mut loaded = self.loaded();
        let mut sender = Sender::new(&loaded.config.notifiers);
        loop {
            let latest = self.loaded();
            if !Arc::ptr_eq(&latest, &loaded) {
                sender = Sender::new(&latest.config.notifiers);
                loaded = latest;
            }
            let round = async {
                let delivered = deliver(&self.store, &sender, &loaded.config, self.clock.as_ref()).await?;
                self.count(&delivered);
                if self.standing.borrow().leads {
                    let again =
                        remind(&self.store, &sender, &loaded.config, self.clock.as_ref(), &mut reminded)
                            .await?;
                    self.count(&again);
                }
                Ok::<(), state::Error>(())
            };
            if let Err(error) = round.await {
                self.trouble(&error);
            }
            if ends {
                return;
            }
            tokio::select! {
                () = self.outbox.notified() => {}
                () = tokio::time::sleep(LOOKED) => {}
                () = stop.notified() => ends = true,
            }
        }
    }

    fn count(&self, delivered: &Delivered) {
        for notifier in &delivered.sent {
            self.metrics.notifications.with_label_values(&[notifier.as_str(), "sent"]).inc();
        }
        for (notifier, _) in &delivered.failed {
            self.metrics.notifications.with_label_values(&[notifier.as_str(), "failed"]).inc();
        }
        for (notifier, why) in delivered.failures() {
            (self.say)(&format!("notifier {notifier}: {why}; it is tried again"));
        }
    }

    async fn prune(&self, now: i64) {
        let history = &self.loaded().config.history;
        let (runs, rows) = (now - history.keep_runs.micros(), now - history.keep_diff_rows.micros());
        if let Err(error) = audit::store::prune(&self.store, runs, rows).await {
            self.trouble(&error);
        }
    }

    /// Reads the configuration again. One with problems changes nothing.
    fn reload(&self, tasks: &BTreeMap<Key, Task>) -> Option<Watch> {
        let before = self.loaded();
        let refused = |problems: &[String]| {
            self.metrics.config_reloaded.set(0.0);
            for problem in problems {
                (self.say)(problem);
            }
            (self.say)("the configuration was not read again; the one before stays in use");
            None
        };
        let loaded = match (self.load)() {
            Ok(loaded) => loaded,
            Err(problems) => {
                return refused(&problems.iter().map(ToString::to_string).collect::<Vec<_>>());
            }
        };
        if loaded.config.state != before.config.state
            || loaded.config.server.listen != before.config.server.listen
        {
            return refused(&["state.url and server.listen change with a new start only".into()]);
        }
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
        match self.plan(tasks) {
            Ok(plan) => {
                self.metrics.config_reloaded.set(1.0);
                self.metrics.config_loaded_at.set(self.clock.now() as f64 / 1e6);
                (self.say)(&format!("the configuration was read again: {}", plan.size()));
                Some(plan)
            }
            Err(why) => {
                *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = before;
                refused(&[why])
            }
        }
    }

    fn schedule(&self, pair: &str, level: Level) -> Option<Schedule> {
        let loaded = self.loaded();
        scheduled(&loaded, loaded.config.pair(pair)?, level)
    }

    /// What the configuration in use means; tasks that were there before go on.
    fn plan(&self, before: &BTreeMap<Key, Task>) -> Result<Watch, String> {
        let loaded = self.loaded();
        let config = &loaded.config;
        let now = self.clock.now();
        let (mut tasks, mut pairs, mut watching) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for pair in &config.pairs {
            for level in Level::ALL {
                let Some(schedule) = scheduled(&loaded, pair, level) else { continue };
                let key = (pair.name.clone(), level);
                let since = self.watching().get(&key).map_or(now, |known| known.since);
                watching.insert(key.clone(), Watching { since, interval: schedule.longest_gap(now) });
                let task = match before.get(&key) {
                    Some(task) => task.clone().with(schedule, now),
                    None => Task::new(schedule, None, now),
                };
                tasks.insert(key, task);
            }
            let made =
                watched(config, pair).map_err(|error| format!("pair {}: {}", pair.name, error.message))?;
            pairs.insert(pair.name.clone(), Arc::new(made));
        }
        if tasks.is_empty() {
            return Err("no pair has a schedule; give pairs one, such as `schedule: { schema: every 5m, rows: every 15m }`, or run drift audit".into());
        }
        let notifiers = Sender::new(&config.notifiers).names();
        self.begin_counting(&watching, &notifiers);
        *self.watching.write().unwrap_or_else(PoisonError::into_inner) = watching;
        Ok(Watch {
            tasks,
            pairs,
            shared: Arc::new(Shared {
                budgets: Budgets::of(config),
                workers: Semaphore::new(config.server.workers as usize),
                notifiers,
                fingerprint: loaded.fingerprint(),
            }),
        })
    }

    /// Counters begin at 0: one that appears with its first event would hide that event from `increase()`.
    fn begin_counting(&self, watching: &BTreeMap<Key, Watching>, notifiers: &[String]) {
        for (pair, level) in watching.keys() {
            self.metrics.check_duration.with_label_values(&[level.word()]);
            for status in Status::ALL {
                self.metrics.check_runs.with_label_values(&[pair.as_str(), level.word(), status.word()]);
            }
        }
        for notifier in notifiers {
            for result in ["sent", "failed"] {
                self.metrics.notifications.with_label_values(&[notifier.as_str(), result]);
            }
        }
    }

    fn trouble(&self, error: &state::Error) {
        let known = self.standing.borrow().trouble.as_deref() == Some(error.message.as_str());
        if !known {
            (self.say)(&error.message);
        }
        self.stand(|standing| standing.trouble = Some(error.message.clone()));
    }

    fn stand(&self, change: impl FnOnce(&mut Standing)) {
        self.standing.send_if_modified(|standing| {
            let before = standing.clone();
            change(standing);
            self.metrics.checks_running.set(standing.running as f64);
            *standing != before
        });
    }
}

/// How leading ended.
enum Led {
    Stopped,
    Lost,
}

/// What all runs of one reading of the configuration share.
struct Shared {
    budgets: Budgets,
    workers: Semaphore,
    notifiers: Vec<String>,
    fingerprint: String,
}

impl Watch {
    fn size(&self) -> String {
        let checks = counted(self.tasks.len() as u64, "check", "checks");
        format!("{checks} of {}", counted(self.pairs.len() as u64, "pair", "pairs"))
    }
}

/// The schedule of a level that is not off.
fn scheduled(loaded: &Loaded, pair: &Pair, level: Level) -> Option<Schedule> {
    let on = match level {
        Level::Schema => pair.checks.schema.on().is_some(),
        Level::Rows | Level::Full => pair.checks.rows.on().is_some(),
    };
    if on { Schedule::of(&loaded.config, pair, level) } else { None }
}

/// A task that ends with the one who waits for it.
struct Abort<T>(tokio::task::JoinHandle<T>);

impl<T> Future for Abort<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Abort<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
