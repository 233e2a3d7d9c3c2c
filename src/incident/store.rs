//! The incidents that drift remembers, with everything that happened to them.

use serde_json::{Value, json};
use sqlx::Row;

use super::{Breach, Event, Incident, Kind, News};
use crate::state::audit_log::{self, Entry};
use crate::state::{Error, Result, Store, Tx};

/// What happened to an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// When, in microseconds since 1970.
    pub at: i64,
    /// Who did it.
    pub actor: String,
    /// What it was, as `opened`.
    pub event: String,
    /// More about it.
    pub detail: String,
}

fn read(store: &str, body: &str) -> Result<Incident> {
    serde_json::from_str(body).map_err(|e| Error {
        message: format!(
            "the state {store}: an incident cannot be read: {e}; it was written by another drift"
        ),
    })
}

/// The latest incident of a pair and kind.
pub async fn latest(tx: &mut Tx, pair: &str, kind: Kind) -> Result<Option<Incident>> {
    let row = tx
        .row(
            "select body from drift_incident where pair = $1 and kind = $2 order by number desc limit 1",
            &[pair.into(), kind.word().into()],
        )
        .await?;
    row.map(|row| read("", row.get::<&str, _>(0))).transpose()
}

/// One incident.
pub async fn one(tx: &mut Tx, number: i64) -> Result<Option<Incident>> {
    let row = tx.row("select body from drift_incident where number = $1", &[number.into()]).await?;
    row.map(|row| read("", row.get::<&str, _>(0))).transpose()
}

/// All incidents, the latest first; those that are over only where asked for.
pub async fn list(store: &Store, resolved_too: bool) -> Result<Vec<Incident>> {
    let rows = if resolved_too {
        store.rows("select body from drift_incident order by number desc", &[]).await?
    } else {
        store
            .rows("select body from drift_incident where state <> 'resolved' order by number desc", &[])
            .await?
    };
    rows.iter().map(|row| read(store.name(), row.get::<&str, _>(0))).collect()
}

/// One incident, outside any write transaction.
pub async fn find(store: &Store, number: i64) -> Result<Option<Incident>> {
    let rows = store.rows("select body from drift_incident where number = $1", &[number.into()]).await?;
    rows.first().map(|row| read(store.name(), row.get::<&str, _>(0))).transpose()
}

/// The incidents that are not over, and those that ended after an instant.
pub async fn since(store: &Store, ended_after: i64) -> Result<Vec<Incident>> {
    let rows = store
        .rows(
            "select body from drift_incident where state <> 'resolved' or changed > $1 order by number",
            &[ended_after.into()],
        )
        .await?;
    rows.iter().map(|row| read(store.name(), row.get::<&str, _>(0))).collect()
}

/// What happened to an incident, in order.
pub async fn events(store: &Store, number: i64) -> Result<Vec<Happened>> {
    let rows = store
        .rows(
            "select at, actor, event, detail from drift_event where incident = $1 order by seq",
            &[number.into()],
        )
        .await?;
    let happened = |row: &sqlx::any::AnyRow| Happened {
        at: row.get(0),
        actor: row.get(1),
        event: row.get(2),
        detail: row.get(3),
    };
    Ok(rows.iter().map(happened).collect())
}

/// A breach: it goes to the incident of its kind that is not over, or opens one.
pub async fn breach(
    tx: &mut Tx,
    pair: &str,
    kind: Kind,
    breach: Breach,
    now: i64,
) -> Result<(Incident, Option<News>)> {
    match latest(tx, pair, kind).await?.filter(|incident| incident.takes(now)) {
        Some(incident) => happens(tx, incident, Event::Breach(breach), "drift", "", now).await,
        None => {
            let row = tx.row("select coalesce(max(number), 0) from drift_incident", &[]).await?;
            let number = row.map_or(0, |row| row.get::<i64, _>(0)) + 1;
            let (incident, news) = Incident::open(number, pair, kind, breach, now);
            tx.execute(
                "insert into drift_incident (number, pair, kind, state, opened, changed, body) values ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    number.into(),
                    pair.into(),
                    kind.word().into(),
                    incident.state.word().into(),
                    now.into(),
                    now.into(),
                    (&body(&incident)).into(),
                ],
            )
            .await?;
            let event = if news.is_some() { "opened" } else { "seen" };
            record(tx, &incident, "drift", event, &summary(&incident), now).await?;
            Ok((incident, news))
        }
    }
}

/// Lets something happen to an incident and remembers both.
pub async fn happens(
    tx: &mut Tx,
    incident: Incident,
    event: Event,
    actor: &str,
    note: &str,
    now: i64,
) -> Result<(Incident, Option<News>)> {
    let before = incident.state;
    let word = match &event {
        Event::Breach(_) | Event::Pass { .. } => None,
        Event::Acknowledge { .. } => Some("acknowledged"),
        Event::Resolve { .. } => Some("resolved"),
        Event::Mute { .. } => Some("muted"),
    };
    let reason = if let Event::Resolve { reason } = &event { Some(*reason) } else { None };
    let (incident, news) = incident.apply(event, now);
    tx.execute(
        "update drift_incident set state = $2, changed = $3, body = $4 where number = $1",
        &[
            incident.number.into(),
            incident.state.word().into(),
            incident.changed.into(),
            (&body(&incident)).into(),
        ],
    )
    .await?;
    let name = word.or(news.map(News::word)).or((incident.state != before).then(|| incident.state.word()));
    if let Some(name) = name {
        let detail = match (reason, note) {
            (Some(reason), "") => reason.word().to_string(),
            (Some(reason), note) => format!("{}: {note}", reason.word()),
            (None, "") => summary(&incident),
            (None, note) => note.to_string(),
        };
        record(tx, &incident, actor, name, &detail, now).await?;
    }
    Ok((incident, news))
}

async fn record(
    tx: &mut Tx,
    incident: &Incident,
    actor: &str,
    event: &str,
    detail: &str,
    now: i64,
) -> Result<()> {
    let row = tx
        .row("select coalesce(max(seq), 0) from drift_event where incident = $1", &[incident.number.into()])
        .await?;
    let seq = row.map_or(0, |row| row.get::<i64, _>(0)) + 1;
    tx.execute(
        "insert into drift_event (incident, seq, at, actor, event, detail) values ($1, $2, $3, $4, $5, $6)",
        &[incident.number.into(), seq.into(), now.into(), actor.into(), event.into(), detail.into()],
    )
    .await?;
    let more: Value = json!({ "pair": incident.pair, "kind": incident.kind.word(), "severity": incident.severity.word(), "detail": detail });
    let entry = Entry {
        at: now,
        actor: actor.into(),
        action: format!("incident.{event}"),
        subject: incident.number.to_string(),
        detail: more.to_string(),
    };
    audit_log::append(tx, &entry).await
}

fn body(incident: &Incident) -> String {
    serde_json::to_string(incident).unwrap_or_default()
}

/// What is wrong, in one line.
pub fn summary(incident: &Incident) -> String {
    let parts: Vec<&str> = incident.findings.iter().map(|finding| finding.summary.as_str()).collect();
    parts.join("; ")
}
