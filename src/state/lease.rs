//! Leases: who may do something until when. A process that dies holds up nobody for longer than its lease.

use std::time::Duration;

use sqlx::Row;

use super::{Result, Store, Tx};

/// How long a lease lasts, in microseconds; it is renewed while its holder works.
pub const LASTS: i64 = 30_000_000;
/// How often it is renewed. It outlives two misses.
pub const RENEWED: Duration = Duration::from_secs(10);

/// Takes or renews a lease from `now` on, in a transaction of its own. False if another holds it.
pub async fn claim(store: &Store, name: &str, holder: &str, now: i64) -> Result<bool> {
    let mut tx = store.begin().await?;
    let mine = take(&mut tx, name, holder, now, now + LASTS).await?;
    tx.commit().await?;
    Ok(mine)
}

/// Takes the lease `name` for `holder` until an instant, if nobody else holds it at `now`. A holder may take its own lease
/// again, which makes it last longer. False if another holds it.
pub async fn take(tx: &mut Tx, name: &str, holder: &str, now: i64, until: i64) -> Result<bool> {
    let held = tx.row("select holder, until from drift_lease where name = $1", &[name.into()]).await?;
    if let Some(row) = held {
        let (other, end): (String, i64) = (row.get(0), row.get(1));
        if other != holder && end > now {
            return Ok(false);
        }
    }
    tx.execute(
        "insert into drift_lease (name, holder, until) values ($1, $2, $3) on conflict (name) do update set holder = excluded.holder, until = excluded.until",
        &[name.into(), holder.into(), until.into()],
    )
    .await?;
    Ok(true)
}

/// Gives a lease back, if `holder` still has it.
pub async fn give_back(tx: &mut Tx, name: &str, holder: &str) -> Result<()> {
    tx.execute("delete from drift_lease where name = $1 and holder = $2", &[name.into(), holder.into()])
        .await
        .map(|_| ())
}
