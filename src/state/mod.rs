//! What drift remembers: one store, in a SQLite file or in a PostgreSQL database that several processes share.
//!
//! This room has the primitives: opening and migrating, write transactions, leases, the outbox, the hash-chained audit log,
//! and the clock. Each room above keeps its own tables in its `store.rs`; all tables are created here, in
//! `migrations/`, because a database has one history.
//!
//! One write transaction runs at a time: SQLite begins it `immediate`, PostgreSQL takes an advisory lock. Both engines so
//! behave alike, and no transaction has to be tried again.

pub mod audit_log;
mod clock;
mod failpoint;
pub mod lease;
pub mod outbox;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::{Any, AnyPool, Row, Transaction};

pub use clock::{Clock, ManualClock, SystemClock, rfc3339};
pub use failpoint::failpoint;

use crate::config::address;

/// The SQL of each version of the store, in order. What was released never changes.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001.sql")];
/// How long a transaction waits for another process.
const PATIENCE: Duration = Duration::from_secs(10);
/// The advisory lock of write transactions in PostgreSQL: "drift" in ASCII.
const WRITER: &str = "select pg_advisory_xact_lock(431232837236)";

/// What the store could not do. The message names the store and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// For the reader.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The result of the store's work.
pub type Result<T> = std::result::Result<T, Error>;

/// The store.
#[derive(Debug, Clone)]
pub struct Store {
    pool: AnyPool,
    name: String,
    is_sqlite: bool,
}

/// A write transaction; it is rolled back unless it is committed.
#[derive(Debug)]
pub struct Tx {
    inner: Transaction<'static, Any>,
    name: String,
}

impl Store {
    /// Opens the store of a URL, `sqlite:FILE` or `postgres://…`, and brings its tables up to date.
    pub async fn open(url: &str) -> Result<Store> {
        sqlx::any::install_default_drivers();
        let is_sqlite = url.starts_with("sqlite:");
        let name = shown(url);
        let place = match url.strip_prefix("sqlite:") {
            Some(path) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                let encoded: String = url::form_urlencoded::byte_serialize(path.as_bytes()).collect();
                format!("sqlite://{}?mode=rwc", encoded.replace('+', "%20").replace("%2F", "/"))
            }
            None => url.to_string(),
        };
        let options = AnyConnectOptions::from_str(&place).map_err(|e| Error::of(&name, &e))?;
        // The pool would try again what cannot work, and hide why.
        first_look(&options, is_sqlite).await.map_err(|e| Error::of(&name, &e))?;
        let pool = AnyPoolOptions::new()
            .max_connections(if is_sqlite { 4 } else { 8 })
            .acquire_timeout(PATIENCE)
            // Where SQLite has rolled back by itself (a full disk), the driver still believes in the transaction.
            .before_acquire(|connection, _| {
                Box::pin(async move { Ok(!sqlx::Connection::is_in_transaction(connection)) })
            })
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    use sqlx::Executor as _;
                    let settings = if is_sqlite {
                        "pragma busy_timeout = 10000; pragma synchronous = full; pragma foreign_keys = on"
                    } else {
                        "set lock_timeout = '10s'; set statement_timeout = '30s'; set application_name = 'drift'"
                    };
                    connection.execute(settings).await.map(|_| ())
                })
            })
            .connect_with(options)
            .await
            .map_err(|e| Error::of(&name, &e))?;
        let store = Store { pool, name, is_sqlite };
        store.migrate().await?;
        Ok(store)
    }

    /// The store for people, without a password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins a write transaction. It waits for its turn for at most ten seconds.
    pub async fn begin(&self) -> Result<Tx> {
        let begun = if self.is_sqlite {
            self.pool.begin_with("begin immediate").await
        } else {
            self.pool.begin().await
        };
        let mut inner = begun.map_err(|e| Error::of(&self.name, &e))?;
        if !self.is_sqlite {
            sqlx::query(WRITER).execute(&mut *inner).await.map_err(|e| Error::of(&self.name, &e))?;
        }
        Ok(Tx { inner, name: self.name.clone() })
    }

    /// All rows of a query, outside any write transaction.
    pub async fn rows(&self, sql: &'static str, values: &[Bound<'_>]) -> Result<Vec<AnyRow>> {
        bind(sqlx::query(sql), values).fetch_all(&self.pool).await.map_err(|e| Error::of(&self.name, &e))
    }

    async fn migrate(&self) -> Result<()> {
        let mut tx = self.begin().await?;
        tx.execute("create table if not exists drift_store (version bigint not null)", &[]).await?;
        let rows = tx.rows("select version from drift_store", &[]).await?;
        let known = MIGRATIONS.len() as i64;
        let has: i64 = rows.first().map_or(0, |row| row.get(0));
        if has > known {
            return Err(Error {
                message: format!(
                    "{}: a newer drift has used this store (version {has}, this drift knows {known}); update drift, or name another store with --state",
                    self.name
                ),
            });
        }
        for sql in &MIGRATIONS[has as usize..] {
            for statement in sql.split(";\n").map(str::trim).filter(|s| !s.is_empty()) {
                tx.execute(statement, &[]).await?;
            }
        }
        if rows.is_empty() {
            tx.execute("insert into drift_store (version) values ($1)", &[known.into()]).await?;
        } else if has < known {
            tx.execute("update drift_store set version = $1", &[known.into()]).await?;
        }
        tx.commit().await
    }
}

/// Connects once, and makes a SQLite file one that is read while it is written. SQLite does not wait for others when it
/// changes that, so that it is tried again while another process opens the same new file.
async fn first_look(options: &AnyConnectOptions, is_sqlite: bool) -> std::result::Result<(), sqlx::Error> {
    use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
    let started = std::time::Instant::now();
    loop {
        let tried = async {
            let mut connection = tokio::time::timeout(PATIENCE, options.connect())
                .await
                .map_err(|_| sqlx::Error::PoolTimedOut)??;
            if is_sqlite {
                connection.execute("pragma journal_mode = wal").await?;
            }
            connection.close().await
        };
        match tried.await {
            Err(error) if is_busy(&error) && started.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            done => return done,
        }
    }
}

/// Whether SQLite says that another process holds the file.
fn is_busy(error: &sqlx::Error) -> bool {
    matches!(code(error).as_deref(), Some("5" | "261" | "517"))
}

/// The engine's own code of an error.
fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(|code| code.to_string())
}

/// The store's URL without password and options.
fn shown(url: &str) -> String {
    match url::Url::parse(url) {
        _ if url.starts_with("sqlite:") => url.to_string(),
        Ok(parsed) => address::connection_name(&parsed),
        // It may hold a password.
        Err(_) => "postgres://…".into(),
    }
}

impl Tx {
    /// All rows of a query.
    pub async fn rows(&mut self, sql: &'static str, values: &[Bound<'_>]) -> Result<Vec<AnyRow>> {
        bind(sqlx::query(sql), values)
            .fetch_all(&mut *self.inner)
            .await
            .map_err(|e| Error::of(&self.name, &e))
    }

    /// The first row of a query.
    pub async fn row(&mut self, sql: &'static str, values: &[Bound<'_>]) -> Result<Option<AnyRow>> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs a statement; how many rows it has changed.
    pub async fn execute(&mut self, sql: &'static str, values: &[Bound<'_>]) -> Result<u64> {
        let done = bind(sqlx::query(sql), values).execute(&mut *self.inner).await;
        done.map(|done| done.rows_affected()).map_err(|e| Error::of(&self.name, &e))
    }

    /// Makes everything lasting.
    pub async fn commit(self) -> Result<()> {
        let Tx { inner, name } = self;
        inner.commit().await.map_err(|e| Error::of(&name, &e))
    }
}

/// A value for a statement.
#[derive(Debug, Clone, Copy)]
pub enum Bound<'a> {
    /// A whole number, or an instant in microseconds since 1970.
    Int(Option<i64>),
    /// A real number.
    Real(Option<f64>),
    /// Text.
    Text(Option<&'a str>),
}

impl From<i64> for Bound<'_> {
    fn from(value: i64) -> Self {
        Bound::Int(Some(value))
    }
}

impl From<Option<i64>> for Bound<'_> {
    fn from(value: Option<i64>) -> Self {
        Bound::Int(value)
    }
}

impl From<Option<f64>> for Bound<'_> {
    fn from(value: Option<f64>) -> Self {
        Bound::Real(value)
    }
}

impl<'a> From<&'a str> for Bound<'a> {
    fn from(value: &'a str) -> Self {
        Bound::Text(Some(value))
    }
}

impl<'a> From<&'a String> for Bound<'a> {
    fn from(value: &'a String) -> Self {
        Bound::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Bound<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Bound::Text(value)
    }
}

type Query = sqlx::query::Query<'static, Any, sqlx::any::AnyArguments>;

fn bind(query: Query, values: &[Bound<'_>]) -> Query {
    values.iter().fold(query, |query, value| match value {
        Bound::Int(int) => query.bind(*int),
        Bound::Real(real) => query.bind(*real),
        Bound::Text(text) => query.bind(text.map(str::to_string)),
    })
}

impl Error {
    /// What a driver reports, in words that tell what to do.
    fn of(store: &str, error: &sqlx::Error) -> Error {
        let text = error.to_string();
        let code = code(error);
        let has = |part: &str| text.contains(part);
        let hint = match code.as_deref() {
            // SQLite's primary codes, and PostgreSQL's lock_not_available and query_canceled.
            Some("5" | "6" | "261" | "517" | "55P03" | "57014") => {
                "another process holds it; nothing was lost, run this again"
            }
            Some("13" | "53100") => "the disk is full; nothing was lost, make room and run this again",
            // Writing, syncing, shrinking, and the map of a write-ahead log.
            Some("10" | "778" | "1034" | "1546" | "4874" | "5130") => {
                "the disk is full or failing; nothing was lost, make room and run this again"
            }
            Some("8" | "264" | "520" | "776" | "1032") => {
                "it cannot be written; check the permissions of the file and its folder"
            }
            Some("14" | "526" | "1038") => {
                "it cannot be opened; check that the folder exists and may be written"
            }
            Some("26" | "11") => "this is no SQLite database, or it is damaged; name another with --state",
            _ if has("database is locked") => "another process holds it; nothing was lost, run this again",
            _ if has("disk is full") => "the disk is full; nothing was lost, make room and run this again",
            _ if has("unable to open") => {
                "it cannot be opened; check that the folder exists and may be written"
            }
            _ if matches!(error, sqlx::Error::PoolTimedOut) => {
                "no connection within ten seconds; check that the server is reachable"
            }
            _ => "check the store, or name another with --state",
        };
        Error { message: format!("the state {store}: {text}; {hint}") }
    }
}
