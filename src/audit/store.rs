//! Runs and their results, what was verified until when, and the accepted schemas.

use serde_json::Value;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::check::{CheckResult, Status};
use crate::state::{Error, Result, Store, Tx};
use crate::value::shape::TableShape;

/// A run that is remembered. Instants are microseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// The pair.
    pub pair: String,
    /// The level's name.
    pub level: String,
    /// Which slot of the schedule it belongs to, or when it was started by hand.
    pub bucket: i64,
    /// When it began.
    pub started: i64,
    /// When it ended; `None` while it runs, or where it was killed.
    pub ended: Option<i64>,
    /// How it ended.
    pub status: Option<Status>,
    /// Rows compared.
    pub rows: i64,
}

/// Begins a run. One of the same bucket is replaced, with all its results.
pub async fn begin(tx: &mut Tx, run: &Run, config: &str) -> Result<()> {
    tx.execute(
        "delete from drift_run where pair = $1 and level = $2 and bucket = $3",
        &[(&run.pair).into(), (&run.level).into(), run.bucket.into()],
    )
    .await?;
    tx.execute(
        "insert into drift_run (id, pair, level, bucket, started, config) values ($1, $2, $3, $4, $5, $6)",
        &[
            (&run.id).into(),
            (&run.pair).into(),
            (&run.level).into(),
            run.bucket.into(),
            run.started.into(),
            config.into(),
        ],
    )
    .await
    .map(|_| ())
}

/// Ends a run with its results. `measure` and `differences` are JSON; `lag` is in microseconds, where it is known.
pub async fn end(
    tx: &mut Tx,
    run: &Run,
    results: &[CheckResult],
    measure: &str,
    differences: Option<&str>,
    lag: Option<i64>,
) -> Result<()> {
    let ended = run.ended.unwrap_or(run.started);
    tx.execute(
        "update drift_run set ended = $2, status = $3, rows_compared = $4, elapsed_micros = $5, measure = $6, differences = $7 where id = $1",
        &[
            (&run.id).into(),
            ended.into(),
            run.status.map(Status::word).into(),
            run.rows.into(),
            (ended - run.started).into(),
            measure.into(),
            differences.into(),
        ],
    )
    .await?;
    let status = run.status.map_or("", Status::word);
    let answered = matches!(run.status, Some(Status::Pass | Status::Warn | Status::Fail));
    tx.execute(
        "insert into drift_latest (pair, level, run, status, completed, answered, measure, lag) values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (pair, level) do update set run = excluded.run, status = excluded.status, completed = excluded.completed, lag = excluded.lag, answered = coalesce(excluded.answered, drift_latest.answered), measure = coalesce(excluded.measure, drift_latest.measure)",
        &[
            (&run.pair).into(),
            (&run.level).into(),
            (&run.id).into(),
            status.into(),
            ended.into(),
            answered.then_some(ended).into(),
            answered.then_some(measure).into(),
            lag.into(),
        ],
    )
    .await?;
    for result in results {
        let evidence = result.evidence.to_string();
        tx.execute(
            "insert into drift_result (run, check_id, metric, subject, status, reason, measured, threshold, n, bound_low, bound_high, evidence) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            &[
                (&run.id).into(),
                (&result.id).into(),
                (&result.metric).into(),
                (&result.summary).into(),
                result.status.word().into(),
                result.reason.map(|reason| reason.word()).into(),
                result.measured.into(),
                result.threshold.as_deref().into(),
                result.n.and_then(|n| i64::try_from(n).ok()).into(),
                result.bound.map(|(low, _)| low).into(),
                result.bound.map(|(_, high)| high).into(),
                (&evidence).into(),
            ],
        )
        .await?;
    }
    Ok(())
}

fn run(row: &AnyRow) -> Run {
    Run {
        id: row.get(0),
        pair: row.get(1),
        level: row.get(2),
        bucket: row.get(3),
        started: row.get(4),
        ended: row.get(5),
        status: row.get::<Option<String>, _>(6).and_then(|word| Status::of(&word)),
        rows: row.get(7),
    }
}

/// The latest runs of a pair, the latest first.
pub async fn runs(store: &Store, pair: &str, most: i64) -> Result<Vec<Run>> {
    let rows = store
        .rows(
            "select id, pair, level, bucket, started, ended, status, rows_compared from drift_run where pair = $1 order by started desc, level limit $2",
            &[pair.into(), most.into()],
        )
        .await?;
    Ok(rows.iter().map(run).collect())
}

/// One result of a run, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The run.
    pub run: String,
    /// What was measured.
    pub metric: String,
    /// For people.
    pub summary: String,
    /// How it ended.
    pub status: String,
    /// Why.
    pub reason: Option<String>,
    /// What was measured.
    pub measured: Option<f64>,
    /// The threshold, as written.
    pub threshold: Option<String>,
    /// More, as JSON.
    pub evidence: Value,
}

/// The results of a run.
pub async fn results(store: &Store, run: &str) -> Result<Vec<Shown>> {
    let rows = store
        .rows(
            "select run, metric, subject, status, reason, measured, threshold, evidence from drift_result where run = $1 order by metric",
            &[run.into()],
        )
        .await?;
    let shown = |row: &AnyRow| Shown {
        run: row.get(0),
        metric: row.get(1),
        summary: row.get(2),
        status: row.get(3),
        reason: row.get(4),
        measured: row.get(5),
        threshold: row.get(6),
        evidence: serde_json::from_str(row.get::<&str, _>(7)).unwrap_or_default(),
    };
    Ok(rows.iter().map(shown).collect())
}

/// What a run has measured, and where the damage lies: `rows`, `ranges` and `ranges_merged`, as in the document of `drift
/// compare`. Both are null where they are not remembered (any more).
pub async fn evidence(store: &Store, run: &str) -> Result<(Value, Value)> {
    let rows = store.rows("select measure, differences from drift_run where id = $1", &[run.into()]).await?;
    let json = |row: &AnyRow, at: usize| {
        let text: Option<String> = row.get(at);
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    };
    Ok(rows.first().map_or((Value::Null, Value::Null), |row| (json(row, 0), json(row, 1))))
}

/// How many of the latest runs of a level, this one not among them, came to no answer, counted back to the last that did.
pub async fn without_answer(tx: &mut Tx, pair: &str, level: &str, before: &str, most: i64) -> Result<u32> {
    let rows = tx
        .rows(
            "select status from drift_run where pair = $1 and level = $2 and id <> $3 and ended is not null order by started desc limit $4",
            &[pair.into(), level.into(), before.into(), most.into()],
        )
        .await?;
    let answered = |row: &AnyRow| {
        let status = row.get::<Option<String>, _>(0);
        !matches!(status.as_deref(), Some("error" | "inconclusive"))
    };
    Ok(rows.iter().take_while(|row| !answered(row)).count() as u32)
}

/// Notes until when everything was found to be right.
pub async fn verified(tx: &mut Tx, pair: &str, level: &str, through: i64) -> Result<()> {
    tx.execute(
        "insert into drift_coverage (pair, level, verified_through) values ($1, $2, $3) on conflict (pair, level) do update set verified_through = excluded.verified_through where excluded.verified_through > drift_coverage.verified_through",
        &[pair.into(), level.into(), through.into()],
    )
    .await
    .map(|_| ())
}

/// Until when everything was found to be right: pair, level, instant.
pub async fn coverage(store: &Store) -> Result<Vec<(String, String, i64)>> {
    let rows = store
        .rows("select pair, level, verified_through from drift_coverage order by pair, level", &[])
        .await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// What is known of the latest run of a level.
#[derive(Debug, Clone, PartialEq)]
pub struct Latest {
    /// The pair.
    pub pair: String,
    /// The level's name.
    pub level: String,
    /// How it ended.
    pub status: String,
    /// When it ended.
    pub completed: i64,
    /// When the latest run ended that had an answer: pass, warn or fail.
    pub answered: Option<i64>,
    /// What that one measured, as JSON.
    pub measure: Option<Value>,
    /// How far the target lay behind the source at the latest run, in microseconds.
    pub lag: Option<i64>,
}

/// The latest run of each level of each pair.
pub async fn latest(store: &Store) -> Result<Vec<Latest>> {
    let rows = store
        .rows(
            "select pair, level, status, completed, answered, measure, lag from drift_latest order by pair, level",
            &[],
        )
        .await?;
    let latest = |row: &AnyRow| Latest {
        pair: row.get(0),
        level: row.get(1),
        status: row.get(2),
        completed: row.get(3),
        answered: row.get(4),
        measure: row.get::<Option<String>, _>(5).and_then(|text| serde_json::from_str(&text).ok()),
        lag: row.get(6),
    };
    Ok(rows.iter().map(latest).collect())
}

/// The latest slot of a schedule that is done.
pub async fn slot(tx: &mut Tx, pair: &str, level: &str) -> Result<Option<i64>> {
    let row = tx
        .row("select done from drift_slot where pair = $1 and level = $2", &[pair.into(), level.into()])
        .await?;
    Ok(row.map(|row| row.get(0)))
}

/// Notes that a slot of the schedule is done.
pub async fn slot_done(tx: &mut Tx, pair: &str, level: &str, slot: i64) -> Result<()> {
    tx.execute(
        "insert into drift_slot (pair, level, done) values ($1, $2, $3) on conflict (pair, level) do update set done = excluded.done where excluded.done > drift_slot.done",
        &[pair.into(), level.into(), slot.into()],
    )
    .await
    .map(|_| ())
}

/// The latest slot of each schedule that is done: pair, level, slot.
pub async fn slots(store: &Store) -> Result<Vec<(String, String, i64)>> {
    let rows = store.rows("select pair, level, done from drift_slot", &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// What is known of one side's schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// What was accepted.
    pub accepted: TableShape,
    /// The version that it had.
    pub tag: Option<String>,
    /// What a person has accepted, as the two sides stood then; `None` where nobody was asked.
    pub agreed: Option<TableShape>,
}

/// The accepted schema of a side.
pub async fn accepted(store: &Store, pair: &str, side: &str) -> Result<Option<Known>> {
    let rows = store
        .rows(
            "select accepted, accepted_tag, agreed from drift_shape where pair = $1 and side = $2",
            &[pair.into(), side.into()],
        )
        .await?;
    let shape = |text: &str| {
        serde_json::from_str(text).map_err(|e| Error {
            message: format!("the state {}: the accepted schema of {pair} cannot be read: {e}", store.name()),
        })
    };
    let known = |row: &AnyRow| {
        let agreed: Option<String> = row.get(2);
        Ok(Known {
            accepted: shape(row.get(0))?,
            tag: row.get(1),
            agreed: agreed.map(|text| shape(&text)).transpose()?,
        })
    };
    rows.first().map(known).transpose()
}

/// Notes what a side looks like now; `accept` makes that the accepted state.
pub async fn saw(
    tx: &mut Tx,
    pair: &str,
    side: &str,
    shape: &TableShape,
    tag: Option<&str>,
    accept: bool,
    now: i64,
) -> Result<()> {
    let text = serde_json::to_string(shape).unwrap_or_default();
    tx.execute(
        "insert into drift_shape (pair, side, accepted, accepted_tag, accepted_at, seen, seen_tag) values ($1, $2, $3, $4, $5, $3, $4) on conflict (pair, side) do update set seen = excluded.seen, seen_tag = excluded.seen_tag",
        &[pair.into(), side.into(), (&text).into(), tag.into(), now.into()],
    )
    .await?;
    if accept { accept_side(tx, pair, side, now).await } else { Ok(()) }
}

async fn accept_side(tx: &mut Tx, pair: &str, side: &str, now: i64) -> Result<()> {
    tx.execute(
        "update drift_shape set accepted = seen, accepted_tag = seen_tag, accepted_at = $3 where pair = $1 and side = $2",
        &[pair.into(), side.into(), now.into()],
    )
    .await
    .map(|_| ())
}

/// Makes what both sides look like now the accepted state.
pub async fn accept(tx: &mut Tx, pair: &str, now: i64) -> Result<()> {
    accept_side(tx, pair, "source", now).await?;
    accept_side(tx, pair, "target", now).await?;
    tx.execute("update drift_shape set agreed = seen where pair = $1", &[pair.into()]).await.map(|_| ())
}

/// Forgets runs that began before `runs`, and the keys of differing rows of runs before `differences`.
pub async fn prune(store: &Store, runs: i64, differences: i64) -> Result<u64> {
    let mut tx = store.begin().await?;
    tx.execute(
        "update drift_run set differences = null where started < $1 and differences is not null",
        &[differences.into()],
    )
    .await?;
    let gone = tx.execute("delete from drift_run where started < $1", &[runs.into()]).await?;
    tx.execute("delete from drift_outbox where sent is not null and sent < $1", &[runs.into()]).await?;
    tx.commit().await?;
    Ok(gone)
}
