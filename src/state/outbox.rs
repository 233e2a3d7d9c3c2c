//! The outbox: messages that are to leave, written in the transaction that decided them and delivered afterwards, at least
//! once. A message has an id by which a receiver knows it again.

use sqlx::Row;

use super::{Result, Store, Tx};

/// A message that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What identifies it: the same id twice is the same message.
    pub id: String,
    /// Who is told, by the configuration's name.
    pub notifier: String,
    /// The message, as JSON.
    pub payload: String,
    /// How many times it was tried.
    pub tries: i64,
}

/// Puts a message in, to leave at `due`. One that is there already stays as it is.
pub async fn put(tx: &mut Tx, id: &str, notifier: &str, payload: &str, now: i64, due: i64) -> Result<()> {
    tx.execute(
        "insert into drift_outbox (id, notifier, payload, created, due, tries) values ($1, $2, $3, $4, $5, 0) on conflict (id) do nothing",
        &[id.into(), notifier.into(), payload.into(), now.into(), due.into()],
    )
    .await
    .map(|_| ())
}

/// Takes messages that are due, and hides them until `until`, so that two processes do not send the same one at once.
pub async fn take_due(store: &Store, now: i64, until: i64, most: i64) -> Result<Vec<Waiting>> {
    // Most of the time there is nothing, and looking must not hold up who writes.
    let due = store
        .rows("select 1 from drift_outbox where sent is null and due <= $1 limit 1", &[now.into()])
        .await?;
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let mut tx = store.begin().await?;
    let rows = tx
        .rows(
            "select id, notifier, payload, tries from drift_outbox where sent is null and due <= $1 order by due, id limit $2",
            &[now.into(), most.into()],
        )
        .await?;
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        let waiting =
            Waiting { id: row.get(0), notifier: row.get(1), payload: row.get(2), tries: row.get(3) };
        tx.execute(
            "update drift_outbox set due = $2, tries = tries + 1 where id = $1",
            &[(&waiting.id).into(), until.into()],
        )
        .await?;
        out.push(waiting);
    }
    tx.commit().await?;
    Ok(out)
}

/// Notes that a message has left.
pub async fn sent(store: &Store, id: &str, now: i64) -> Result<()> {
    let mut tx = store.begin().await?;
    tx.execute("update drift_outbox set sent = $2, error = null where id = $1", &[id.into(), now.into()])
        .await?;
    tx.commit().await
}

/// Notes that a message could not leave, and when it is tried again.
pub async fn failed(store: &Store, id: &str, why: &str, due: i64) -> Result<()> {
    let mut tx = store.begin().await?;
    tx.execute(
        "update drift_outbox set error = $2, due = $3 where id = $1",
        &[id.into(), why.into(), due.into()],
    )
    .await?;
    tx.commit().await
}

/// How many messages wait.
pub async fn waiting(store: &Store) -> Result<i64> {
    let rows = store.rows("select count(*) from drift_outbox where sent is null", &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}
