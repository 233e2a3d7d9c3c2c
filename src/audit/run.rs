//! One run of one level of a pair's checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::check::{CheckResult, Reason, Status, check_id};
use super::measure::{Against, RowMeasure, SchemaFinding, SchemaMeasure, reason_of};
use super::request::{request, settle};
use super::store::{self, Known, Run};
use super::{cell, judge};
use crate::compare::{CompareOutcome, Control, Endpoints, compare};
use crate::config::settings::{Level, Pair, Reacts, Switch, Weight};
use crate::endpoint::{self, Endpoint};
use crate::incident::store as incidents;
use crate::incident::{Attribution, Breach, Event, Finding, Incident, Kind, News, Severity};
use crate::notify::Message;
use crate::schema;
use crate::state::{self, Clock, Store, Tx, failpoint, lease, outbox};
use crate::value::shape::TableShape;

/// How often a lease that another holds is asked for.
const ASKED_AGAIN: Duration = Duration::from_millis(200);

/// A pair with the means to read it.
#[derive(Clone)]
pub struct Watched {
    /// What the configuration says.
    pub pair: Pair,
    /// Its two tables.
    pub endpoints: Endpoints,
    /// Queries for the newest time of change on both sides, where a greatest lag is configured.
    pub newest: Option<[Arc<dyn Endpoint>; 2]>,
    /// A query for the version of the source's schema, where one is configured.
    pub version: Option<Arc<dyn Endpoint>>,
}

/// Runs checks and remembers what they found.
#[derive(Clone)]
pub struct Auditor {
    /// Where everything is remembered.
    pub store: Store,
    /// drift's clock; never used to tell how old a row is.
    pub clock: Arc<dyn Clock>,
    /// Who is told, by name.
    pub notifiers: Vec<String>,
    /// What identifies the configuration.
    pub config: String,
    /// Key ranges that are read at once, at most.
    pub threads: usize,
    /// How long to wait for another process that checks the same, or was killed while it did.
    pub patience: Duration,
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The run as it is remembered.
    pub run: Run,
    /// How it ended.
    pub status: Status,
    /// What each check found.
    pub results: Vec<CheckResult>,
    /// The incident that is open about it, and what was told of it.
    pub incident: Option<(Incident, Option<News>)>,
}

/// What a level has measured, before it is remembered.
struct Measured {
    results: Vec<CheckResult>,
    measure: Value,
    differences: Option<String>,
    rows: u64,
    power: f64,
    confirmed: bool,
    attribution: Attribution,
    lag: Option<i64>,
    /// Both sides as they are now, the source's version, and whether to accept each.
    shapes: Option<([TableShape; 2], Option<String>, [bool; 2])>,
}

impl Measured {
    fn without_answer(result: CheckResult) -> Measured {
        Measured {
            measure: json!({ "reason": result.reason, "not_compared": [result.summary] }),
            results: vec![result],
            differences: None,
            rows: 0,
            power: 0.0,
            confirmed: true,
            attribution: Attribution::Infrastructure,
            lag: None,
            shapes: None,
        }
    }
}

impl Auditor {
    /// One run, as [`Auditor::check`] says.
    async fn run(
        &self,
        watched: &Watched,
        level: Level,
        bucket: i64,
        slot: Option<i64>,
    ) -> state::Result<Ran> {
        let pair = &watched.pair.name;
        let mut run = Run {
            id: Uuid::now_v7().simple().to_string(),
            pair: pair.clone(),
            level: level.word().into(),
            bucket,
            started: self.clock.now(),
            ended: None,
            status: None,
            rows: 0,
        };
        let lease = format!("audit/{pair}/{}", level.word());
        let waiting = std::time::Instant::now();
        let mut tx = loop {
            let now = self.clock.now();
            let mut tx = self.store.begin().await?;
            if lease::take(&mut tx, &lease, &run.id, now, now + lease::LASTS).await? {
                break tx;
            }
            drop(tx);
            if waiting.elapsed() >= self.patience {
                return Ok(left_out(run, Reason::Busy, "another process checks this now"));
            }
            tokio::time::sleep(ASKED_AGAIN).await;
        };
        if slot.is_some() && store::slot(&mut tx, pair, level.word()).await? >= slot {
            return Ok(left_out(run, Reason::Done, "another process has checked this"));
        }
        run.started = self.clock.now();
        store::begin(&mut tx, &run, &self.config).await?;
        tx.commit().await?;
        failpoint("audit.begun");
        let mut measured = tokio::select! {
            measured = self.measure(watched, level, run.bucket) => measured?,
            lost = self.keep(&lease, &run.id) => return Err(lost),
        };
        failpoint("audit.measured");
        run.ended = Some(self.clock.now());
        run.rows = i64::try_from(measured.rows).unwrap_or(i64::MAX);
        let mut tx = self.store.begin().await?;
        self.count_silence(&mut tx, watched, level, &run, &mut measured).await?;
        let status = Status::worst(measured.results.iter().map(|result| result.status));
        run.status = Some(status);
        let measure = measured.measure.to_string();
        let differences = measured.differences.as_deref();
        store::end(&mut tx, &run, &measured.results, &measure, differences, measured.lag).await?;
        if let Some((shapes, tag, accept)) = &measured.shapes {
            for (at, side) in ["source", "target"].into_iter().enumerate() {
                let tag = tag.as_deref().filter(|_| at == 0);
                store::saw(&mut tx, &run.pair, side, &shapes[at], tag, accept[at], run.started).await?;
            }
        }
        if status == Status::Pass && measured.power >= 1.0 {
            let settled = i64::try_from(settle(&watched.pair).as_micros()).unwrap_or(0);
            store::verified(&mut tx, &run.pair, level.word(), run.started - settled).await?;
        }
        if let Some(slot) = slot {
            store::slot_done(&mut tx, &run.pair, level.word(), slot).await?;
        }
        let incident = self.follow(&mut tx, watched, level, &run, &measured).await?;
        lease::give_back(&mut tx, &lease, &run.id).await?;
        failpoint("audit.remembered");
        tx.commit().await?;
        failpoint("audit.committed");
        Ok(Ran { run, status, results: measured.results, incident })
    }

    /// Runs a level. `bucket` says which run it is: a second one of the same bucket replaces the first. `slot` is the time
    /// of the schedule that it was due at.
    ///
    /// An error means that the state could not be written; whatever goes wrong at the tables is a result.
    ///
    /// A sample that fails is followed by a look at all rows, where the pair wants that: a sample tells that something is
    /// wrong, and not where.
    pub async fn check(
        &self,
        watched: &Watched,
        level: Level,
        bucket: i64,
        slot: Option<i64>,
    ) -> state::Result<Vec<Ran>> {
        let ran = self.run(watched, level, bucket, slot).await?;
        let rows = watched.pair.checks.rows.on().filter(|rows| rows.sample.is_some() && level == Level::Rows);
        // Once for each outbreak: what is known already does not have to be found again.
        let is_news = ran.status == Status::Fail && matches!(ran.incident, Some((_, Some(_))));
        let Some(most) = rows.and_then(|rows| rows.localize).filter(|_| is_news) else {
            return Ok(vec![ran]);
        };
        let mut whole = watched.clone();
        if let Switch::On(checks) = &mut whole.pair.checks.rows {
            checks.deadline = Some(most);
        }
        let localized = self.run(&whole, Level::Full, bucket, None).await?;
        // Another process may be at it already.
        Ok(if localized.status == Status::Skipped { vec![ran] } else { vec![ran, localized] })
    }

    /// Renews a lease for as long as it is polled; ends only when it is lost.
    async fn keep(&self, lease: &str, holder: &str) -> state::Error {
        loop {
            tokio::time::sleep(lease::RENEWED).await;
            match lease::claim(&self.store, lease, holder, self.clock.now()).await {
                Ok(true) => {}
                Ok(false) => {
                    return state::Error {
                        message: format!(
                            "the state {}: another process has taken over {lease}; this run is given up",
                            self.store.name()
                        ),
                    };
                }
                // A state that is out of reach for a moment is asked again; the lease outlives two misses.
                Err(_) => {}
            }
        }
    }

    async fn measure(&self, watched: &Watched, level: Level, bucket: i64) -> state::Result<Measured> {
        match level {
            Level::Schema => self.measure_schema(watched).await,
            Level::Rows | Level::Full => self.measure_rows(watched, level, bucket).await,
        }
    }

    async fn measure_schema(&self, watched: &Watched) -> state::Result<Measured> {
        let pair = &watched.pair;
        let Some(checks) = pair.checks.schema.on() else { return Ok(off(pair, Level::Schema)) };
        let seen = async {
            let [source, target] = &watched.endpoints;
            let shapes = futures::future::try_join(source.describe(), target.describe()).await?;
            let tag = match (&watched.version, checks.version_tag.as_deref()) {
                (Some(query), _) => cell::text(query.as_ref()).await?,
                (None, Some("comment")) => shapes.0.comment.clone(),
                (None, _) => None,
            };
            Ok::<_, endpoint::Error>(([shapes.0, shapes.1], tag))
        };
        let (mut shapes, tag) = match seen.await {
            Ok(seen) => seen,
            Err(error) => {
                let result =
                    judge::impossible(&pair.name, "schema", Status::Error, reason_of(&error), &error.message);
                return Ok(Measured::without_answer(result));
            }
        };
        for (shape, is_target) in shapes.iter_mut().zip([false, true]) {
            shape.columns.retain(|column| is_wanted(pair, &column.name, is_target));
            // These change with every row.
            shape.row_estimate = None;
        }
        let map: Vec<(String, String)> =
            pair.columns.rename.iter().map(|(from, to)| (from.clone(), to.clone())).collect();
        let mut measure =
            SchemaMeasure { findings: differences(&shapes[0], &shapes[1], &map, Against::Target) };
        let before = [
            store::accepted(&self.store, &pair.name, "source").await?,
            store::accepted(&self.store, &pair.name, "target").await?,
        ];
        if let [Some(Known { agreed: Some(source), .. }), Some(Known { agreed: Some(target), .. })] = &before
        {
            let known = differences(source, target, &map, Against::Target);
            for finding in &mut measure.findings {
                finding.agreed = known.contains(finding);
            }
        }
        let is_meant = |finding: &SchemaFinding| judge::weight(finding, checks) <= Weight::Info;
        let sides_agree = measure.findings.iter().all(is_meant);
        let mut accept = [true, true];
        let mut changed = [false, false];
        for (at, known) in before.into_iter().enumerate() {
            let Some(Known { accepted, tag: told, .. }) = known else { continue };
            let against = [Against::SourceBefore, Against::TargetBefore][at];
            let mut found = differences(&accepted, &shapes[at], &[], against);
            if at == 0 && checks.version_tag.is_some() && !found.is_empty() {
                if told == tag {
                    found.push(SchemaFinding {
                        kind: "untagged_version".into(),
                        against,
                        column: None,
                        from: told,
                        to: tag.clone(),
                        narrows: false,
                        renamed: None,
                        agreed: false,
                    });
                } else {
                    // A change that its version tells was meant to be.
                    found.clear();
                }
            }
            if at == 1 && accept[0] && sides_agree {
                // The target has followed a source that is as it should be; where it may differ, nobody can tell.
                found.retain(|f| f.column.as_ref().is_some_and(|column| checks.accept.contains(column)));
            }
            accept[at] = found.iter().all(is_meant);
            changed[at] = !accept[at];
            measure.findings.extend(found);
        }
        let attribution = match changed {
            [true, true] if sides_agree => Attribution::UpstreamChange,
            _ => Attribution::Schema,
        };
        Ok(Measured {
            results: judge::schema(&pair.name, &measure, checks),
            measure: serde_json::to_value(&measure).unwrap_or_default(),
            differences: None,
            rows: 0,
            power: 1.0,
            confirmed: true,
            attribution,
            lag: None,
            shapes: Some((shapes, tag, accept)),
        })
    }

    async fn measure_rows(&self, watched: &Watched, level: Level, bucket: i64) -> state::Result<Measured> {
        let pair = &watched.pair;
        let Some(checks) = pair.checks.rows.on() else { return Ok(off(pair, level)) };
        let lag = lag(watched).await;
        let (mut measure, differences) = match too_late(pair, lag.as_ref()) {
            Some(measure) => (measure, None),
            None => {
                let request = request(pair, level, bucket, self.threads);
                let live = watched.endpoints.iter().any(|endpoint| !endpoint.is_immutable());
                let deadline = request.deadline.map(|limit| std::time::Instant::now() + limit);
                let control = Arc::new(Control::new(None, deadline));
                match compare(&watched.endpoints, &request, control).await {
                    Ok(outcome) => {
                        let measure = RowMeasure::of(&outcome, live && request.cutoff.is_none());
                        (measure, places(&outcome))
                    }
                    Err(error) => (RowMeasure::failed(&error), None),
                }
            }
        };
        measure.lag = match lag {
            Some(Ok(Lag::Known(micros))) => Some(micros),
            _ => None,
        };
        let broken = self.broken_columns(&pair.name).await?;
        Ok(Measured {
            results: judge::rows(&pair.name, level.word(), &measure, checks, &broken),
            measure: serde_json::to_value(&measure).unwrap_or_default(),
            differences,
            rows: measure.rows,
            power: measure.power,
            confirmed: measure.confirmed,
            attribution: Attribution::Pipeline,
            lag: measure.lag,
            shapes: None,
        })
    }

    /// The columns of the open schema incident that fail.
    async fn broken_columns(&self, pair: &str) -> state::Result<Vec<String>> {
        let open = incidents::list(&self.store, false).await?;
        let schema = open.into_iter().filter(|i| i.pair == pair && i.kind == Kind::Schema && i.is_active());
        let failing = schema.flat_map(|incident| incident.findings).filter(|f| f.severity >= Severity::Fail);
        Ok(failing.flat_map(|finding| finding.columns).collect())
    }

    /// Silence must not look like health: too many runs without an answer become a warning.
    async fn count_silence(
        &self,
        tx: &mut Tx,
        watched: &Watched,
        level: Level,
        run: &Run,
        measured: &mut Measured,
    ) -> state::Result<()> {
        let status = Status::worst(measured.results.iter().map(|result| result.status));
        if !matches!(status, Status::Error | Status::Inconclusive) {
            return Ok(());
        }
        let most = watched.pair.checks.max_inconclusive;
        let before = store::without_answer(tx, &run.pair, level.word(), &run.id, i64::from(most)).await?;
        if before + 1 >= most {
            let why = measured.results.iter().find(|r| r.status == status).map_or("", |r| r.summary.as_str());
            let summary = format!("{} runs in a row came to no answer: {why}", before + 1);
            measured.results.push(CheckResult {
                id: check_id(&run.pair, level.word(), "answered"),
                metric: "answered".into(),
                measured: Some(f64::from(before + 1)),
                threshold: Some((most.max(1) - 1).to_string()),
                ..judge::impossible(&run.pair, level.word(), Status::Warn, Reason::NoAnswerForLong, &summary)
            });
        }
        Ok(())
    }

    /// Lets what was found happen to the incidents of the pair, and puts what has to be told into the outbox.
    async fn follow(
        &self,
        tx: &mut Tx,
        watched: &Watched,
        level: Level,
        run: &Run,
        measured: &Measured,
    ) -> state::Result<Option<(Incident, Option<News>)>> {
        let pair = &watched.pair;
        let now = run.ended.unwrap_or(run.started);
        let (silent, answers): (Vec<&CheckResult>, Vec<&CheckResult>) =
            measured.results.iter().partition(|r| matches!(r.metric.as_str(), "answered" | "compared"));
        let answered = silent.iter().all(|result| result.status == Status::Pass);

        let mut followed = None;
        let silence: Vec<Finding> = silent
            .iter()
            .filter(|result| result.status == Status::Warn)
            .map(|result| finding(result, Severity::Warn))
            .collect();
        if !silence.is_empty() {
            let breach = Breach {
                findings: silence,
                attribution: Attribution::Infrastructure,
                power: 0.0,
                confirmed: true,
                run: run.id.clone(),
            };
            followed = Some(incidents::breach(tx, &pair.name, Kind::Unchecked, breach, now).await?);
        } else if answered {
            let mine = check_id(&pair.name, level.word(), "answered");
            let open = incidents::latest(tx, &pair.name, Kind::Unchecked).await?;
            if let Some(incident) =
                open.filter(|i| i.resolved.is_none() && i.findings.iter().any(|f| f.check == mine))
            {
                let event = Event::Pass { power: 1.0 };
                followed = Some(incidents::happens(tx, incident, event, "drift", "", now).await?);
            }
        }
        if let Some((incident, Some(news))) = &followed {
            tell(tx, incident, *news, &pair.labels, &self.notifiers, now).await?;
        }

        let kind = if level == Level::Schema { Kind::Schema } else { Kind::Rows };
        let breached: Vec<&CheckResult> = answers
            .iter()
            .copied()
            .filter(|result| matches!(result.status, Status::Warn | Status::Fail))
            // The schema's incident tells of these.
            .filter(|result| result.reason != Some(Reason::SchemaMismatch))
            .collect();
        let of_kind = if !breached.is_empty() {
            let pages = pages(pair, level, measured, &breached);
            let findings = breached
                .iter()
                .map(|result| {
                    let severity =
                        if result.status == Status::Fail { Severity::Fail } else { Severity::Warn };
                    finding(result, if pages { Severity::Page } else { severity })
                })
                .collect();
            let breach = Breach {
                findings,
                attribution: measured.attribution,
                power: measured.power,
                confirmed: measured.confirmed,
                run: run.id.clone(),
            };
            Some(incidents::breach(tx, &pair.name, kind, breach, now).await?)
        } else if answered && answers.iter().all(|r| r.status == Status::Pass) && !answers.is_empty() {
            match incidents::latest(tx, &pair.name, kind).await?.filter(|i| i.resolved.is_none()) {
                Some(incident) => {
                    let event = Event::Pass { power: measured.power };
                    Some(incidents::happens(tx, incident, event, "drift", "", now).await?)
                }
                None => None,
            }
        } else {
            None
        };
        if let Some((incident, Some(news))) = &of_kind {
            tell(tx, incident, *news, &pair.labels, &self.notifiers, now).await?;
        }
        Ok(of_kind.or(followed))
    }
}

/// How far the target lies behind the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lag {
    /// So many microseconds; 0 where the target has all that has come.
    Known(i64),
    /// One side has no row with a time of change.
    Unknown,
}

/// The lag of a pair that wants to know it, by the newest times of change on both sides.
async fn lag(watched: &Watched) -> Option<Result<Lag, endpoint::Error>> {
    let [source, target] = watched.newest.as_ref()?;
    let asked =
        futures::future::try_join(cell::instant(source.as_ref()), cell::instant(target.as_ref())).await;
    Some(asked.map(|newest| match newest {
        (Some(source), Some(target)) => Lag::Known(source.saturating_sub(target).max(0)),
        // Nothing has come that could be late.
        (None, None) => Lag::Known(0),
        _ => Lag::Unknown,
    }))
}

/// Why rows are not judged, where the two sides lie farther apart in time than the pair allows, or nobody knows.
fn too_late(pair: &Pair, lag: Option<&Result<Lag, endpoint::Error>>) -> Option<RowMeasure> {
    let max = pair.cutoff.as_ref()?.max_lag?;
    match lag? {
        Err(error) => Some(RowMeasure::failed(error)),
        Ok(Lag::Known(micros)) if *micros <= max.micros() => None,
        Ok(Lag::Known(micros)) => Some(RowMeasure::too_late(format!(
            "the target lags {} s behind the source, more than max_lag {max}; rows are judged when it has caught up",
            micros / 1_000_000
        ))),
        Ok(Lag::Unknown) => Some(RowMeasure::too_late(
            "one side has no row with a time of change, so that its lag is unknown; rows are judged when both have one"
                .into(),
        )),
    }
}

/// A run that was not made.
fn left_out(run: Run, reason: Reason, why: &str) -> Ran {
    let result = judge::impossible(&run.pair, &run.level, Status::Skipped, reason, why);
    Ran { run, status: Status::Skipped, results: vec![result], incident: None }
}

/// Puts a message about an incident into the outbox, for everybody.
pub async fn tell(
    tx: &mut Tx,
    incident: &Incident,
    news: News,
    labels: &BTreeMap<String, String>,
    notifiers: &[String],
    now: i64,
) -> state::Result<()> {
    let mut message = message(incident, news.word(), labels);
    for notifier in notifiers {
        message.id = format!("{}-{}-{now}-{notifier}", incident.number, news.word());
        let payload = serde_json::to_string(&message).unwrap_or_default();
        outbox::put(tx, &message.id, notifier, &payload, now, now).await?;
    }
    Ok(())
}

/// An incident as a message.
pub fn message(incident: &Incident, event: &str, labels: &BTreeMap<String, String>) -> Message {
    let mut all = labels.clone();
    all.insert("pair".into(), incident.pair.clone());
    all.insert("kind".into(), incident.kind.word().into());
    let first = incident.findings.first().map_or("", |finding| finding.summary.as_str());
    let more = match incident.findings.len() {
        0 | 1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    Message {
        id: format!("{}-{event}", incident.number),
        incident: Some(incident.number),
        event: event.into(),
        severity: incident.severity.word().into(),
        title: format!("{}: {first}{more}", incident.pair),
        facts: incident
            .findings
            .iter()
            .map(|finding| finding.summary.clone())
            .chain([format!("incident {}, attribution: {}", incident.number, incident.attribution.word())])
            .collect(),
        labels: all,
        since: incident.opened,
        until: incident.resolved,
    }
}

fn finding(result: &CheckResult, severity: Severity) -> Finding {
    let columns = match result.evidence.as_array() {
        Some(found) => {
            let told = found.iter().filter(|f| f["weight"] != "info");
            told.filter_map(|f| f["finding"]["column"].as_str()).map(str::to_string).collect()
        }
        None => Vec::new(),
    };
    Finding {
        check: result.id.clone(),
        metric: result.metric.clone(),
        severity,
        summary: result.summary.clone(),
        columns,
    }
}

/// Whether the last reaction that fits says that a person has to look now.
fn pages(pair: &Pair, level: Level, measured: &Measured, breached: &[&CheckResult]) -> bool {
    let different: f64 = breached.iter().filter_map(|result| result.measured).sum();
    let share = if measured.rows > 0 { different / measured.rows as f64 } else { 0.0 };
    let fits = pair.react.iter().rev().find(|reaction| {
        let same = reaction
            .level
            .is_none_or(|wanted| wanted == level || (wanted, level) == (Level::Rows, Level::Full));
        let over = reaction.over.is_none_or(|over| level != Level::Schema && share > over.0);
        let found = |when: &String| breached.iter().any(|result| result.metric == *when);
        same && over && (reaction.when.is_empty() || reaction.when.iter().any(found))
    });
    fits.is_some_and(|reaction| reaction.action == Reacts::Escalate)
}

fn off(pair: &Pair, level: Level) -> Measured {
    Measured::without_answer(CheckResult {
        status: Status::NotApplicable,
        reason: None,
        ..judge::impossible(
            &pair.name,
            level.word(),
            Status::NotApplicable,
            Reason::Configuration,
            "this check is off",
        )
    })
}

fn is_wanted(pair: &Pair, column: &str, is_target: bool) -> bool {
    let columns = &pair.columns;
    let included = columns.include.as_ref().is_none_or(|include| {
        include.iter().any(|name| {
            let there = if is_target { columns.in_target(name) } else { name };
            there == column
        })
    });
    // The key is compared whatever the list says.
    let key = matches!(&pair.key, Some(crate::config::settings::Key::Columns(key)) if key.iter().any(|k| k == column));
    (included || key) && !columns.exclude.iter().any(|name| name == column)
}

fn differences(
    a: &TableShape,
    b: &TableShape,
    map: &[(String, String)],
    against: Against,
) -> Vec<SchemaFinding> {
    let pairing = schema::pair(a, b, map);
    let findings = schema::findings(a, b, &pairing);
    let renames = schema::rename::suspected(a, b, &findings);
    findings.iter().map(|finding| SchemaFinding::of(finding, against, &renames)).collect()
}

/// Where the damage lies: the first differing rows by key, values masked, and the ranges that hold all of them.
fn places(outcome: &CompareOutcome) -> Option<String> {
    let tally = outcome.tally.as_ref().filter(|tally| !tally.differences.is_empty())?;
    let confirmed = outcome.confirmation.is_some();
    let rows: Vec<Value> = tally.differences.iter().map(|d| Value::Object(d.json(confirmed))).collect();
    let ranges: Vec<Value> = tally
        .ranges
        .iter()
        .map(|range| json!({ "from": *range.from, "to": *range.to, "rows": range.rows }))
        .collect();
    Some(json!({ "rows": rows, "ranges": ranges, "ranges_merged": tally.ranges.are_merged() }).to_string())
}
