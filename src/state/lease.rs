//! Leases: who may do something until when. A process that dies holds up nobody for longer than its lease.

use sqlx::Row;

use super::{Result, Tx};

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
