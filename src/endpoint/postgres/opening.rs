//! How a view is opened: transaction, lock, check of the shape, export, workers.

use std::sync::Arc;

use super::session::{self, Session};
use super::{Side, catalog, sql};
use crate::config::address::Object;
use crate::endpoint::{Cost, Error, ErrorKind, Position, ReadRequest, Result, Scope};
use crate::value::shape::TableShape;

/// Rounds of the test for a transaction pooler.
const POOLER_ROUNDS: usize = 3;

/// An open view.
pub(super) struct Opened {
    pub(super) coordinator: Session,
    /// The exported snapshot that the workers joined; `None` where there are no workers.
    pub(super) exported: Option<String>,
    pub(super) workers: Vec<Session>,
    pub(super) position: Position,
}

/// Where the rows come from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reach {
    /// From this server: every connection on the snapshot sees the same.
    Here,
    /// From foreign tables too, whose servers know nothing of the snapshot: one connection has to read everything.
    Elsewhere,
}

pub(super) async fn open(
    side: &Side,
    cost: &Arc<Cost>,
    shape: &TableShape,
    request: &ReadRequest,
) -> Result<Opened> {
    let mut coordinator = side.connect(cost).await?;
    // Where the server has no slot for a second connection, the first reads alone.
    let helper = match side.connect(cost).await {
        Ok(mut helper) => {
            if behind_pooler(&mut coordinator, &mut helper, cost).await? {
                return Err(session::pooler(&side.name));
            }
            Some(helper)
        }
        Err(_) => None,
    };
    let (position, reach) = begin(side, cost, &mut coordinator, shape, request).await?;
    let Some(helper) = helper.filter(|_| reach == Reach::Here) else {
        return Ok(Opened { coordinator, exported: None, workers: Vec::new(), position });
    };
    // A failed statement ends the transaction, and with it the view: then a new one is opened, without workers.
    let Ok(exported) = coordinator.one(cost, "select pg_export_snapshot()").await else {
        helper.close().await;
        coordinator.rows(cost, "rollback").await?;
        let (position, _) = begin(side, cost, &mut coordinator, shape, request).await?;
        return Ok(Opened { coordinator, exported: None, workers: Vec::new(), position });
    };
    let workers = join(side, cost, helper, &exported, request.workers.max(1)).await?;
    Ok(Opened { coordinator, exported: Some(exported), workers, position })
}

/// Whether the two connections share server processes, as they do behind a transaction pooler. While the second holds a
/// transaction, the first must stay on its own process. Nothing is set on the way: it would stay on a connection that
/// belongs to somebody else.
async fn behind_pooler(first: &mut Session, second: &mut Session, cost: &Cost) -> Result<bool> {
    let pid = "select pg_backend_pid()";
    let own = first.one(cost, pid).await?;
    for _ in 0..POOLER_ROUNDS {
        let other = second.one(cost, &format!("begin read only; {pid}")).await?;
        if other == own || first.one(cost, pid).await? != own {
            return Ok(true);
        }
        second.rows(cost, "commit").await?;
        if first.one(cost, pid).await? != own {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Begins the transaction whose view is read, and makes sure that the table in it is the described one.
async fn begin(
    side: &Side,
    cost: &Cost,
    coordinator: &mut Session,
    shape: &TableShape,
    request: &ReadRequest,
) -> Result<(Position, Reach)> {
    coordinator.begin(cost, None).await?;
    // The first query takes the view, so this one tells the place in the log that belongs to it.
    let current =
        if coordinator.version() >= 130_000 { "pg_current_snapshot()" } else { "txid_current_snapshot()" };
    let place = format!(
        "select pg_is_in_recovery(), {current}, current_database(),
                case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end,
                case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end"
    );
    let place = coordinator.attempt(cost, &place).await?.unwrap_or_default();

    let (now, nature) = catalog::describe(coordinator, cost, &side.name, &side.object)
        .await
        .map_err(Error::described_again)?;
    if let Some(what) = difference(shape, &now) {
        return Err(side.error(ErrorKind::Data, format!("the table changed meanwhile: {what}; start again")));
    }
    let reach = lock(side, cost, coordinator, shape, request).await?;

    let position = place.first().cloned().unwrap_or_default();
    let part = |at: usize| position.get(at).cloned().flatten();
    let log = part(3);
    let standby = part(0).as_deref() != Some("f");
    // Beyond stored rows, a filter or policy may depend on the clock, and a view or query on other servers.
    let fixed = nature.stored && !standby && request.filter.is_none() && now.hidden_rows.is_none();
    let state = match (fixed, part(1), part(2), part(4)) {
        (true, Some(visible), Some(database), Some(timeline)) => {
            let id = coordinator.attempt(cost, "select system_identifier from pg_control_system()").await?;
            let id = id.ok().and_then(|rows| rows.into_iter().next()?.into_iter().next()?);
            id.map(|id| format!("{id}/{timeline}/{database}/{visible}"))
        }
        _ => None,
    };
    Ok((Position { log, state }, reach))
}

/// What is different between two descriptions, as far as reading depends on it.
fn difference(then: &TableShape, now: &TableShape) -> Option<String> {
    let same = |c: &&crate::value::shape::ColumnShape| {
        now.column(&c.name).is_some_and(|n| n.engine_type == c.engine_type && n.logical == c.logical)
    };
    if let Some(column) = then.columns.iter().find(|c| !same(c)) {
        return Some(format!("column {} is gone or has another type", column.name));
    }
    let new = now.columns.iter().find(|c| then.column(&c.name).is_none())?;
    Some(format!("column {} is new", new.name))
}

/// Takes the lightest lock on everything that will be read, held until the end, and proves that nobody replaced a
/// table's file (`truncate`, `alter table`) between the view and the lock: an older view of such a table shows no rows.
async fn lock(
    side: &Side,
    cost: &Cost,
    coordinator: &mut Session,
    shape: &TableShape,
    request: &ReadRequest,
) -> Result<Reach> {
    let unordered = ReadRequest { order: Vec::new(), ..request.clone() };
    let select = sql::select(&side.object, shape, &unordered, &Scope::Whole)?;
    coordinator.rows(cost, &format!("{select} limit 0")).await.map_err(|mut e| {
        if e.kind == ErrorKind::Usage
            && request.filter.is_none()
            && matches!(side.object, Object::Table { .. })
        {
            e.kind = ErrorKind::Data;
        }
        e
    })?;
    let locked = "select count(*) filter (where c.relkind in ('r', 'm') and c.relfilenode <> 0
                and c.relfilenode is distinct from pg_relation_filenode(c.oid)),
            count(*) filter (where c.relkind = 'f')
         from pg_class c
         where c.oid in (select l.relation from pg_locks l
                         where l.pid = pg_backend_pid() and l.locktype = 'relation')";
    let locked = coordinator.rows(cost, locked).await?;
    let none = |at: usize| locked.first().and_then(|row| row.get(at)?.as_deref()) == Some("0");
    if !none(0) {
        return Err(
            side.error(ErrorKind::Data, "the table was truncated or rewritten meanwhile; start again")
        );
    }
    Ok(if none(1) { Reach::Here } else { Reach::Elsewhere })
}

/// The workers that really came about, at most `wanted`; the helper is the first.
async fn join(
    side: &Side,
    cost: &Cost,
    helper: Session,
    exported: &str,
    wanted: usize,
) -> Result<Vec<Session>> {
    let mut workers = Vec::new();
    let mut next = Some(helper);
    while workers.len() < wanted {
        let mut session = match next.take() {
            Some(session) => session,
            None => match side.connect(cost).await {
                Ok(session) => session,
                // Fewer slots than wanted: fewer workers.
                Err(_) => break,
            },
        };
        session.begin(cost, Some(exported)).await.map_err(|e| match e.kind {
            // The snapshot is unknown there: this connection ended at another server than the first.
            ErrorKind::Data | ErrorKind::Usage => session::pooler(&side.name),
            _ => e,
        })?;
        workers.push(session);
    }
    Ok(workers)
}
