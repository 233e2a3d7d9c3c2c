//! One connection to a server, set up so that nobody's defaults change what drift reads.

use std::sync::Arc;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{Column, ConnectOptions, Decode, Executor, MySql, Row};

use super::{failure, sql};
use crate::endpoint::{CONNECT_TIMEOUT, Cost, Error, ErrorKind, LOCK_TIMEOUT, Result, STATEMENT_TIMEOUT};

/// Opens sessions of one address.
#[derive(Clone)]
pub(super) struct Connector {
    /// The connection for people.
    pub(super) name: Arc<str>,
    pub(super) options: MySqlConnectOptions,
    pub(super) cost: Arc<Cost>,
}

/// A set-up connection. Dropping it closes the socket.
pub(super) struct Session {
    pub(super) connection: MySqlConnection,
    connector: Connector,
    /// MariaDB rather than MySQL.
    pub(super) mariadb: bool,
    /// The server's number for this connection.
    id: u64,
}

impl Connector {
    /// Connects and prepares the session: UTC, UTF-8, reading only, bounded waits.
    pub(super) async fn connect(&self) -> Result<Session> {
        let connection = tokio::time::timeout(CONNECT_TIMEOUT, self.options.connect())
            .await
            .map_err(|_| {
                let seconds = CONNECT_TIMEOUT.as_secs();
                let message = format!("cannot connect to {}: no answer within {seconds} s", self.name);
                Error::new(ErrorKind::Unavailable, message)
            })?
            .map_err(|e| failure::while_connecting(&self.name, &e))?;
        let mut session = Session { connection, connector: self.clone(), mariadb: false, id: 0 };
        let server = session.rows("asking for the version", "select version(), connection_id()").await?;
        let first = server.first();
        session.mariadb = first.and_then(|r| text(r, 0)).is_some_and(|v| v.contains("MariaDB"));
        session.id = first.and_then(|r| text(r, 1)).and_then(|v| v.parse().ok()).unwrap_or(0);
        session.prepare().await?;
        Ok(session)
    }
}

impl Session {
    async fn prepare(&mut self) -> Result<()> {
        let lock = LOCK_TIMEOUT.as_secs();
        let mut settings = vec![
            // No mode that changes how SQL is read or text is returned; the strictness of grouping stays the server's.
            "sql_mode = if(find_in_set('ONLY_FULL_GROUP_BY', @@sql_mode), 'ONLY_FULL_GROUP_BY', '')"
                .to_string(),
            format!("lock_wait_timeout = {lock}"),
            format!("innodb_lock_wait_timeout = {lock}"),
            // The server must bear with a reader that waits for the other side, and with an idle snapshot.
            "net_write_timeout = 3600".to_string(),
            "wait_timeout = 86400".to_string(),
            // Settings that would silently cut rows off or bend conditions.
            "sql_select_limit = 18446744073709551615".to_string(),
            "sql_big_selects = 1".to_string(),
            "sql_auto_is_null = 0".to_string(),
        ];
        if self.mariadb {
            settings.push("idle_transaction_timeout = 0".into());
            settings.push("idle_readonly_transaction_timeout = 0".into());
        }
        self.run("setting the session up", format!("set session {}", settings.join(", "))).await?;
        self.run(
            "setting the session up",
            "set session transaction isolation level repeatable read, read only".into(),
        )
        .await?;
        self.limit(Some(STATEMENT_TIMEOUT)).await
    }

    /// Bounds the time of the statements that follow; `None` lifts the bound.
    pub(super) async fn limit(&mut self, time: Option<Duration>) -> Result<()> {
        let time = time.unwrap_or(Duration::ZERO);
        let setting = if self.mariadb {
            format!("set session max_statement_time = {}", time.as_secs())
        } else {
            format!("set session max_execution_time = {}", time.as_millis())
        };
        self.run("setting the session up", setting).await
    }

    /// The connection for people.
    pub(super) fn name(&self) -> &str {
        &self.connector.name
    }

    /// Counts what the session costs.
    pub(super) fn cost(&self) -> &Arc<Cost> {
        &self.connector.cost
    }

    /// What is needed to end this session's statement from outside.
    pub(super) fn killer(&self) -> Killer {
        Killer { connector: self.connector.clone(), id: self.id }
    }

    /// Runs a statement without a result.
    pub(super) async fn run(&mut self, doing: &str, statement: String) -> Result<()> {
        self.connector.cost.statement();
        let outcome = self.connection.execute(sqlx::raw_sql(sql::trusted(statement))).await;
        outcome.map(drop).map_err(|e| self.failed(doing, &e))
    }

    /// The rows of a small result, as text.
    pub(super) async fn rows(&mut self, doing: &str, statement: &str) -> Result<Vec<MySqlRow>> {
        self.try_rows(statement).await.map_err(|e| self.failed(doing, &e))
    }

    /// Like [`Session::rows`], for callers that look at the error themselves.
    pub(super) async fn try_rows(
        &mut self,
        statement: &str,
    ) -> std::result::Result<Vec<MySqlRow>, sqlx::Error> {
        self.connector.cost.statement();
        self.connection.fetch_all(sqlx::raw_sql(sql::trusted(statement.to_string()))).await
    }

    /// One value as text; `None` if it is NULL or there is no row.
    pub(super) async fn value(&mut self, doing: &str, statement: &str) -> Result<Option<String>> {
        Ok(self.rows(doing, statement).await?.first().and_then(|row| text(row, 0)))
    }

    /// This session's error in drift's words.
    pub(super) fn failed(&self, doing: &str, error: &sqlx::Error) -> Error {
        failure::while_reading(&self.connector.name, doing, error)
    }
}

/// Ends an abandoned session, whose server may be busy for long before it notices that nobody listens.
pub(super) struct Killer {
    connector: Connector,
    id: u64,
}

impl Killer {
    /// Asks the server to end the session, if it still exists. Numbers are never used twice.
    pub(super) async fn kill(self) {
        if let Ok(mut session) = self.connector.connect().await {
            let _ = session.run("ending an abandoned read", format!("kill {}", self.id)).await;
        }
    }
}

/// A column of a text row.
pub(super) fn text(row: &MySqlRow, index: usize) -> Option<String> {
    let raw = row.try_get_raw(index).ok()?;
    let bytes = <&[u8] as Decode<MySql>>::decode(raw).ok()?;
    std::str::from_utf8(bytes).ok().map(str::to_string)
}

/// A column of a text row by its name, in any case; servers differ in which ones they have.
pub(super) fn named(row: &MySqlRow, name: &str) -> Option<String> {
    let index = row.columns().iter().position(|c| c.name().eq_ignore_ascii_case(name))?;
    text(row, index)
}
