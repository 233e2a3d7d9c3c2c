//! The audit log: who did what, when and why; append-only. Each entry holds the hash of the one before it, so that a
//! change of the past shows.

use sha2::{Digest, Sha256};
use sqlx::Row;

use super::{Error, Result, Store, Tx};

/// What an entry tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When, in microseconds since 1970.
    pub at: i64,
    /// Who: a user of the command line, or `drift`.
    pub actor: String,
    /// What was done, as `incident.opened`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// More about it, as JSON; never row values, never secrets.
    pub detail: String,
}

/// Appends an entry.
pub async fn append(tx: &mut Tx, entry: &Entry) -> Result<()> {
    let last = tx.row("select seq, hash from drift_audit order by seq desc limit 1", &[]).await?;
    let (seq, previous) = last.map_or((0, String::new()), |row| (row.get(0), row.get(1)));
    let seq: i64 = seq + 1;
    let hash = chained(seq, &previous, entry);
    tx.execute(
        "insert into drift_audit (seq, at, actor, action, subject, detail, previous, hash) values ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            seq.into(),
            entry.at.into(),
            (&entry.actor).into(),
            (&entry.action).into(),
            (&entry.subject).into(),
            (&entry.detail).into(),
            (&previous).into(),
            (&hash).into(),
        ],
    )
    .await
    .map(|_| ())
}

/// Every field with its length in front, so that no two entries look the same.
fn chained(seq: i64, previous: &str, entry: &Entry) -> String {
    let mut hasher = Sha256::new();
    let (seq, at) = (seq.to_string(), entry.at.to_string());
    for field in [&seq, previous, &at, &entry.actor, &entry.action, &entry.subject, &entry.detail] {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field.as_bytes());
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the whole chain and says how many entries it has. An entry that was changed, taken out or put in is an error
/// that names it.
pub async fn verify(store: &Store) -> Result<u64> {
    let rows = store
        .rows(
            "select seq, at, actor, action, subject, detail, previous, hash from drift_audit order by seq",
            &[],
        )
        .await?;
    let mut previous = String::new();
    for (row, expected) in rows.iter().zip(1i64..) {
        let entry = Entry {
            at: row.get(1),
            actor: row.get(2),
            action: row.get(3),
            subject: row.get(4),
            detail: row.get(5),
        };
        let (seq, said, hash): (i64, String, String) = (row.get(0), row.get(6), row.get(7));
        if seq != expected || said != previous || hash != chained(seq, &said, &entry) {
            return Err(Error {
                message: format!(
                    "the state {}: the audit log was changed at entry {expected}; what it says from there on cannot be trusted",
                    store.name()
                ),
            });
        }
        previous = hash;
    }
    Ok(rows.len() as u64)
}
