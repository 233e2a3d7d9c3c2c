//! One consistent view: sessions whose snapshots agree, and what is read through them.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::try_join_all;

use super::session::{Connector, Session, named, text};
use super::{cuts, scan, sql};
use crate::config::address::Object;
use crate::endpoint::{
    BatchStream, Border, Cost, Error, ErrorKind, Position, ReadRequest, Result, STATEMENT_TIMEOUT, Scope,
    Snapshot, wire_schema,
};
use crate::value::shape::TableShape;

/// The statement that pins the view.
pub(super) const START: &str = "start transaction with consistent snapshot, read only";
const OPENING: &str = "opening the snapshot";
const MOST_WORKERS: usize = 16;
const TRIES: usize = 3;
/// So many times in a row a session must name the same place.
const SAME_ANSWERS: usize = 5;

/// Sessions on one view, before it is known what to read.
pub(super) struct Opened {
    sessions: Vec<Session>,
    position: Position,
}

impl Opened {
    /// Opens up to `workers` sessions on the same view; one if the server cannot tell whether views are the same.
    pub(super) async fn new(connector: &Connector, workers: usize) -> Result<Opened> {
        let mut first = connector.connect().await?;
        let log = Log::of(&mut first).await?;
        let mut sessions = vec![first];
        if log.is_exact {
            for _ in 1..workers.clamp(1, MOST_WORKERS) {
                // A server that is out of connections is read with those it gave.
                let Ok(session) = connector.connect().await else { break };
                sessions.push(session);
            }
        }
        let mut attempt = 1;
        loop {
            let before = log.gtid(&mut sessions[0]).await?;
            try_join_all(sessions.iter_mut().map(|s| s.run(OPENING, START.into()))).await?;
            let after = log.gtid(&mut sessions[0]).await?;
            let mut places = Vec::with_capacity(sessions.len());
            for session in &mut sessions {
                places.push(log.place(session).await?);
            }
            // Replication that began meanwhile may have changed rows without a trace in this server's log.
            let exact = log.is_exact && Log::of(&mut sessions[0]).await?.is_exact;
            let agreed = largest_group(&places);
            if agreed.len() < sessions.len() && attempt < TRIES {
                try_join_all(sessions.iter_mut().map(|s| s.run(OPENING, "rollback".into()))).await?;
                attempt += 1;
                continue;
            }
            let place = agreed.first().and_then(|at| places[*at].clone());
            let kept = if exact { agreed } else { vec![0] };
            let mut at = 0;
            sessions.retain(|_| {
                at += 1;
                kept.contains(&(at - 1))
            });
            let state = place.clone().filter(|_| exact).map(|place| format!("{}/{place}", log.server));
            let gtid = before.clone().filter(|_| before == after);
            return Ok(Opened { sessions, position: Position { log: gtid.or(place).or(before), state } });
        }
    }

    /// The session through which to look at the table.
    pub(super) fn first(&mut self) -> &mut Session {
        &mut self.sessions[0]
    }

    /// Fixes what is read.
    pub(super) fn finish(
        self,
        object: Object,
        shape: TableShape,
        request: ReadRequest,
        index: Option<String>,
    ) -> Result<MySqlSnapshot> {
        let schema = wire_schema(&shape, &request.columns)?;
        Ok(MySqlSnapshot {
            workers: self.sessions.len(),
            cost: Arc::clone(self.sessions[0].cost()),
            connection: self.sessions[0].name().into(),
            idle: Arc::new(Idle(Mutex::new(self.sessions))),
            position: self.position,
            plan: Arc::new(scan::Plan { object, shape, request, index, schema }),
        })
    }
}

/// The indices of the sessions that stand at the same known place, as many as possible; else the first alone.
fn largest_group(places: &[Option<String>]) -> Vec<usize> {
    let mut best = vec![0];
    for place in places.iter().flatten() {
        let group: Vec<usize> = (0..places.len()).filter(|i| places[*i].as_ref() == Some(place)).collect();
        if group.len() > best.len() {
            best = group;
        }
    }
    best
}

/// What the server can tell about its log.
struct Log {
    mariadb: bool,
    /// What tells this server from others.
    server: String,
    /// Whether equal places mean equal rows. MariaDB notes the binary log's place with each snapshot, under the lock
    /// that orders commits; that is exact as long as every change goes through this log. MySQL has only its set of
    /// GTIDs, which trails the commits by a moment.
    is_exact: bool,
}

impl Log {
    async fn of(session: &mut Session) -> Result<Log> {
        if !session.mariadb {
            return Ok(Log { mariadb: false, server: String::new(), is_exact: false });
        }
        let rows = session
            .rows(
                OPENING,
                "select concat_ws('/', @@hostname, @@port, @@server_id, @@datadir), @@log_bin, @@log_slave_updates",
            )
            .await?;
        let get = |at| rows.first().and_then(|row| text(row, at)).unwrap_or_default();
        let replicating = session
            .rows(OPENING, "show global status like 'Slaves_running'")
            .await?
            .first()
            .and_then(|row| text(row, 1))
            .is_none_or(|n| n != "0");
        let is_exact = get(1) == "1" && (get(2) == "1" || !replicating);
        Ok(Log { mariadb: true, server: get(0), is_exact })
    }

    /// The place in the binary log at which the session's snapshot stands.
    ///
    /// The server fills variables that all sessions share before it prints them, so that an answer may be the place of
    /// whoever else asks for the status at that moment (one in a hundred where two ask without pause). Only an answer
    /// that comes again and again is believed.
    async fn place(&self, session: &mut Session) -> Result<Option<String>> {
        if !self.mariadb {
            return Ok(None);
        }
        let place = self.place_once(session).await?;
        for _ in 1..SAME_ANSWERS {
            if self.place_once(session).await? != place {
                return Ok(None);
            }
        }
        Ok(place)
    }

    async fn place_once(&self, session: &mut Session) -> Result<Option<String>> {
        let rows = session.rows(OPENING, "show session status like 'binlog_snapshot_%'").await?;
        let get = |name: &str| {
            rows.iter()
                .find(|row| named(row, "Variable_name").is_some_and(|n| n.eq_ignore_ascii_case(name)))
                .and_then(|row| text(row, 1))
                .filter(|value| !value.is_empty())
        };
        let place = get("binlog_snapshot_file").zip(get("binlog_snapshot_position"));
        Ok(place.map(|(file, position)| format!("{file}:{position}")))
    }

    /// The server's GTIDs now.
    async fn gtid(&self, session: &mut Session) -> Result<Option<String>> {
        let variable = if self.mariadb { "gtid_current_pos" } else { "gtid_executed" };
        let value = session.value(OPENING, &format!("select @@global.{variable}")).await?;
        Ok(value.map(|v| v.replace('\n', "")).filter(|v| !v.is_empty()))
    }
}

/// The sessions that are not reading just now.
pub(super) struct Idle(Mutex<Vec<Session>>);

impl Idle {
    pub(super) fn take(&self) -> Option<Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Takes back a session that has read its result to the end.
    pub(super) fn give(&self, session: Session) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }
}

/// One consistent view of a table.
pub(super) struct MySqlSnapshot {
    connection: String,
    idle: Arc<Idle>,
    workers: usize,
    position: Position,
    plan: Arc<scan::Plan>,
    cost: Arc<Cost>,
}

#[async_trait]
impl Snapshot for MySqlSnapshot {
    fn position(&self) -> Position {
        self.position.clone()
    }

    fn workers(&self) -> usize {
        self.workers
    }

    async fn now(&self) -> Result<Option<i64>> {
        let Some(mut session) = self.idle.take() else { return Ok(None) };
        let statement = "select cast(unix_timestamp(now(6)) * 1000000 as signed)";
        let now = session.value("asking for the time", statement).await?;
        self.idle.give(session);
        Ok(now.and_then(|text| text.parse().ok()))
    }

    async fn cuts(&self, column: &str, n: usize) -> Result<Vec<Border>> {
        let plan = &self.plan;
        let indexed = plan.shape.index_orders.iter().any(|i| i.first().is_some_and(|c| c == column));
        let Some(described) = plan.shape.column(column).filter(|_| indexed && n > 1) else {
            return Ok(Vec::new());
        };
        let Some(statement) = cuts::ends(described, &sql::source(&plan.object)) else {
            return Ok(Vec::new());
        };
        // Borders are for balance only: when all sessions are busy there are none.
        let Some(mut session) = self.idle.take() else { return Ok(Vec::new()) };
        session.limit(Some(STATEMENT_TIMEOUT)).await?;
        let rows = session.rows("looking for the ends of the key", &statement).await?;
        self.idle.give(session);
        let ends = rows.first().and_then(|row| Some((text(row, 0)?, text(row, 1)?)));
        Ok(ends.map_or_else(Vec::new, |(least, greatest)| cuts::between(described, &least, &greatest, n)))
    }

    async fn scan(&self, scope: &Scope) -> Result<BatchStream> {
        let mut session = self.idle.take().ok_or_else(|| {
            let message = format!(
                "{}: all connections of the snapshot are in use or were closed by a read that was given up",
                self.connection
            );
            Error::new(ErrorKind::Lost, message)
        })?;
        session.limit(None).await?;
        Ok(scan::stream(session, Arc::clone(&self.plan), scope, Arc::clone(&self.idle)))
    }

    fn cost(&self) -> Arc<Cost> {
        Arc::clone(&self.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::largest_group;

    #[test]
    fn only_sessions_at_one_known_place_work_together() {
        let place = |s: &str| Some(s.to_string());
        assert_eq!(largest_group(&[place("a"), place("b"), place("b")]), [1, 2]);
        assert_eq!(largest_group(&[place("a"), place("b")]), [0]);
        assert_eq!(largest_group(&[None, None]), [0]);
    }
}
