//! Connections and the statements that do not deliver rows of the table.
//!
//! Everything goes through the simple query protocol, which every pooler understands, and every setting is local to a
//! transaction: behind a pooler a session's settings would stay on a connection that belongs to somebody else.

use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, ValueRef};

use super::options::Target;
use crate::endpoint::{Cost, Error, ErrorKind, LOCK_TIMEOUT, Result, STATEMENT_TIMEOUT};

/// How much longer than the server drift itself waits for a statement, before it takes the connection for dead.
const GRACE: Duration = Duration::from_secs(5);

/// One row of a catalogue query, every value as text.
pub(super) type TextRow = Vec<Option<String>>;

/// A connection with what errors and settings need to know. Dropping it says goodbye to the server, which would log a
/// broken connection otherwise.
pub(super) struct Session {
    /// `None` only while it is dropped.
    connection: Option<PgConnection>,
    name: String,
    version: u32,
    linux: bool,
}

impl Session {
    /// Connects.
    pub(super) async fn connect(target: &Target, name: &str, cost: &Cost) -> Result<Session> {
        let connecting = async {
            let connection = target.options.connect().await.map_err(|e| refused(name, &e))?;
            // The first statement shows that a server stands behind a pooler, and which one.
            let mut session =
                Session { connection: Some(connection), name: name.to_string(), version: 0, linux: false };
            let about = "select current_setting('server_version_num'), version() ~ 'linux'";
            let about = session.rows(cost, about).await?;
            let about = |at: usize| about.first()?.get(at)?.clone();
            session.version = about(0).and_then(|v| v.parse().ok()).unwrap_or(0);
            session.linux = about(1).as_deref() == Some("t");
            Ok(session)
        };
        let session = match tokio::time::timeout(target.timeout, connecting).await {
            Ok(session) => session?,
            Err(_) => {
                let seconds = target.timeout.as_secs();
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!(
                        "{name}: no connection within {seconds} s; check host, port, firewall and free connection slots"
                    ),
                ));
            }
        };
        if session.version < 100_000 {
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "{name}: this server is older than PostgreSQL 10, or none; drift needs PostgreSQL 10 or newer"
                ),
            ));
        }
        Ok(session)
    }

    /// The server's version as a number, such as 150004.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// Begins a read-only transaction with drift's settings; `import` is the snapshot to join.
    pub(super) async fn begin(&mut self, cost: &Cost, import: Option<&str>) -> Result<()> {
        let text = begin_text(self.version, self.linux, import);
        self.rows(cost, &text).await.map(drop)
    }

    /// Runs statements and returns their rows.
    pub(super) async fn rows(&mut self, cost: &Cost, text: &str) -> Result<Vec<TextRow>> {
        self.raw_rows(cost, text).await?.iter().map(|row| self.text_row(row)).collect()
    }

    /// The first value of the first row.
    pub(super) async fn one(&mut self, cost: &Cost, text: &str) -> Result<String> {
        let rows = self.rows(cost, text).await?;
        rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()).ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                format!("{}: the server answered a question with nothing", self.name),
            )
        })
    }

    /// Runs statements and returns the driver's rows.
    pub(super) async fn raw_rows(&mut self, cost: &Cost, text: &str) -> Result<Vec<PgRow>> {
        cost.statement();
        let running = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(self.connection()?);
        match tokio::time::timeout(STATEMENT_TIMEOUT + GRACE, running).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(e)) => Err(failed(&self.name, &e)),
            Err(_) => Err(lost(&self.name, "the server does not answer")),
        }
    }

    fn text_row(&self, row: &PgRow) -> Result<TextRow> {
        (0..row.len())
            .map(|i| {
                let value = row.try_get_raw(i).map_err(|e| failed(&self.name, &e))?;
                if value.is_null() {
                    return Ok(None);
                }
                value.as_str().map(|s| Some(s.to_string())).map_err(|_| {
                    Error::new(
                        ErrorKind::Data,
                        format!("{}: the catalogue holds a name that is not valid UTF-8", self.name),
                    )
                })
            })
            .collect()
    }

    /// Runs a statement whose failure must not end the transaction; nothing it set survives.
    pub(super) async fn attempt(&mut self, cost: &Cost, text: &str) -> Result<Result<Vec<TextRow>>> {
        self.rows(cost, "savepoint drift").await?;
        match self.rows(cost, text).await {
            Err(e) if e.kind == ErrorKind::Lost => Err(e),
            outcome => {
                self.rows(cost, "rollback to savepoint drift; release savepoint drift").await?;
                Ok(outcome)
            }
        }
    }

    /// The driver's connection, for COPY.
    pub(super) fn connection(&mut self) -> Result<&mut PgConnection> {
        self.connection.as_mut().ok_or_else(|| lost(&self.name, "the connection is closed"))
    }

    /// Says goodbye and waits until that is sent.
    pub(super) async fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            goodbye(connection).await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let (Some(connection), Ok(runtime)) =
            (self.connection.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(goodbye(connection));
        }
    }
}

async fn goodbye(connection: PgConnection) {
    // Nothing is left to do for a connection that does not even take a goodbye.
    let _ = tokio::time::timeout(GRACE, connection.close()).await;
}

/// The statements that begin drift's transactions.
fn begin_text(version: u32, linux: bool, import: Option<&str>) -> String {
    let mut out = String::from("begin isolation level repeatable read read only");
    if let Some(snapshot) = import {
        out.push_str(&format!("; set transaction snapshot {}", super::sql::literal(snapshot)));
    }
    let mut set = |name: &str, value: &str| out.push_str(&format!("; set local {name} = '{value}'"));
    set("lock_timeout", &format!("{}s", LOCK_TIMEOUT.as_secs()));
    set("statement_timeout", &format!("{}s", STATEMENT_TIMEOUT.as_secs()));
    set("idle_in_transaction_session_timeout", "0");
    if version >= 170_000 {
        set("transaction_timeout", "0");
    }
    if version >= 140_000 && linux {
        // Frees the server's process soon after drift has died, also in the middle of a long wait. Elsewhere some
        // servers refuse the setting.
        set("client_connection_check_interval", "5s");
    }
    set("row_security", "on");
    set("standard_conforming_strings", "on");
    set("client_encoding", "UTF8");
    set("timezone", "UTC");
    set("datestyle", "ISO, MDY");
    set("intervalstyle", "postgres");
    set("bytea_output", "hex");
    set("extra_float_digits", "3");
    out
}

/// A broken connection.
pub(super) fn lost(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::Lost, format!("{name}: connection lost while reading: {why}"))
}

/// A connection that did not come about.
fn refused(name: &str, error: &sqlx::Error) -> Error {
    let text = match error {
        // An unknown database is the user's slip; everything else is the server's refusal.
        sqlx::Error::Database(e) if e.code().as_deref() == Some("3D000") => {
            return Error::new(ErrorKind::Usage, format!("{name}: cannot connect: {}", e.message()));
        }
        sqlx::Error::Database(e) if e.code().is_some_and(|code| code.starts_with("28")) => {
            format!(
                "{}; give the password in PGPASSWORD, in ~/.pgpass or as ${{NAME}} inside the URL",
                e.message()
            )
        }
        sqlx::Error::Database(e) => e.message().to_string(),
        // How the driver hands on what rustls says about certificates.
        sqlx::Error::Io(e) if e.kind() == std::io::ErrorKind::InvalidData => {
            format!("{e}; check sslmode and sslrootcert")
        }
        sqlx::Error::Io(e) => format!("{e}; check host and port, and that the server listens there"),
        sqlx::Error::Tls(e) => format!("TLS failed: {e}; check sslmode and sslrootcert"),
        sqlx::Error::Configuration(_) => "the options for the connection cannot be used".to_string(),
        e => e.to_string(),
    };
    Error::new(ErrorKind::Unavailable, format!("{name}: cannot connect: {text}"))
}

/// What a failed statement means. Texts of class 22 and 23 may quote values of rows and are left out.
pub(super) fn failed(name: &str, error: &sqlx::Error) -> Error {
    let sqlx::Error::Database(e) = error else {
        return match error {
            sqlx::Error::Io(e) => lost(name, &e.to_string()),
            sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => lost(name, "the connection broke"),
            _ => lost(name, "the driver gave the connection up"),
        };
    };
    let code = e.code().unwrap_or_default().into_owned();
    let message = e.message();
    let with = |kind: ErrorKind, text: String| Error::new(kind, format!("{name}: {text}"));
    // A pooler that does not keep a client on one connection shows in one of these ways.
    if message.contains("pooling mode") || matches!(code.as_str(), "26000" | "42P05") {
        return pooler(name);
    }
    match (&code[..code.len().min(2)], code.as_str()) {
        ("08", _) | (_, "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04") => lost(name, message),
        ("40", _) if message.contains("recovery") => lost(
            name,
            &format!(
                "{message}; on a standby, hot_standby_feedback or a greater max_standby_streaming_delay helps"
            ),
        ),
        ("40", _) => lost(name, message),
        ("53", _) => with(ErrorKind::Unavailable, format!("the server lacks resources: {message}")),
        (_, "57014") => {
            with(ErrorKind::Unavailable, format!("a statement was ended by the server: {message}"))
        }
        (_, "55P03") => with(
            ErrorKind::Unavailable,
            format!("the table is locked by somebody else: {message}; try again when that has ended"),
        ),
        (_, "42501") => with(ErrorKind::Refused, format!("{message}; grant SELECT on what is to be read")),
        (_, "22021" | "22P05") => with(
            ErrorKind::Data,
            format!(
                "a text is not valid in UTF-8 (SQLSTATE {code}); exclude its column, or convert it to bytea in a query"
            ),
        ),
        ("22" | "23", _) => with(
            ErrorKind::Data,
            format!(
                "the server could not compute a value (SQLSTATE {code}); check the query or filter against the data"
            ),
        ),
        ("42", _) => {
            with(ErrorKind::Usage, format!("the server does not accept the query or filter: {message}"))
        }
        ("3D" | "3F" | "28", _) => with(ErrorKind::Unavailable, message.to_string()),
        ("XX" | "58", _) => with(ErrorKind::Data, format!("the server cannot read its data: {message}")),
        _ => with(ErrorKind::Data, format!("{message} (SQLSTATE {code})")),
    }
}

/// Why there is no consistent view behind a transaction pooler, and the way out.
pub(super) fn pooler(name: &str) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "{name}: behind this address there is a transaction pooler: a consistent snapshot is impossible; connect \
             directly to the server or use session pooling (pool_mode=session)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_end_with_the_transaction_and_follow_the_version() {
        let text = begin_text(150_000, true, Some("0001'x"));
        assert!(text.starts_with(
            "begin isolation level repeatable read read only; set transaction snapshot '0001''x'; set local lock_timeout = '5s'"
        ));
        assert!(text.split("; ").skip(2).all(|s| s.starts_with("set local ")), "{text}");
        assert!(text.contains("client_connection_check_interval") && !text.contains("transaction_timeout"));
        assert!(!begin_text(150_000, false, None).contains("client_connection_check_interval"));
        assert!(begin_text(170_000, true, None).contains("set local transaction_timeout = '0'"));
    }

    #[test]
    fn broken_sockets_are_lost_connections() {
        let io = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "gone");
        let error = failed("postgres://db/shop#t", &sqlx::Error::Io(io));
        assert_eq!(error.kind, ErrorKind::Lost);
        assert!(error.message.contains("postgres://db/shop#t: connection lost while reading"));
    }
}
