//! Fresh databases on the servers of `tests/run.sh`, and SQLite files; each is dropped with its guard.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tempfile::TempDir;
use url::Url;

use super::block_on;

/// The URL of the PostgreSQL server, with the rights of a superuser.
pub fn postgres_server() -> Url {
    server("DRIFT_TEST_POSTGRES")
}

/// The URL of the MariaDB server, with all rights.
pub fn mysql_server() -> Url {
    server("DRIFT_TEST_MYSQL")
}

fn server(variable: &str) -> Url {
    let text = std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: run tests/run.sh, which starts the servers"));
    Url::parse(&text).unwrap_or_else(|e| panic!("{variable} is no URL: {e}"))
}

/// A name that no other test on this server uses.
pub fn fresh_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn in_database(mut server: Url, name: &str) -> Url {
    server.set_path(name);
    server
}

/// A database of its own on the PostgreSQL server.
pub struct Postgres {
    name: String,
}

impl Postgres {
    /// Makes an empty one.
    pub fn fresh() -> Postgres {
        let name = fresh_name();
        postgres_execute(&postgres_server(), &format!("create database {name} template template0"));
        Postgres { name }
    }

    /// Its URL.
    pub fn url(&self) -> Url {
        in_database(postgres_server(), &self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs any number of statements in one session.
    pub fn execute(&self, sql: &str) {
        postgres_execute(&self.url(), sql);
    }

    /// The whole numbers of a query's first column.
    pub fn numbers(&self, sql: &str) -> Vec<i64> {
        block_on(async {
            let mut connection = postgres_connect(&self.url()).await;
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.expect("whole numbers")
        })
    }

    /// The one text that a query gives.
    pub fn text(&self, sql: &str) -> String {
        block_on(async {
            let mut connection = postgres_connect(&self.url()).await;
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.expect("a text")
        })
    }

    /// Sends text rows through `COPY … FROM STDIN`; the statement says their format.
    pub fn copy_in(&self, statement: &str, rows: Vec<u8>) {
        block_on(async {
            let mut connection = postgres_connect(&self.url()).await;
            let mut copy = connection.copy_in_raw(statement).await.expect("copy in");
            for chunk in rows.chunks(1 << 20) {
                copy.send(chunk).await.expect("copy data");
            }
            copy.finish().await.expect("end of copy");
        });
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        postgres_execute(&postgres_server(), &format!("drop database {} with (force)", self.name));
    }
}

async fn postgres_connect(url: &Url) -> PgConnection {
    let options = PgConnectOptions::from_url(url).expect("a PostgreSQL URL").application_name("drift tests");
    options.connect().await.expect("a connection to the PostgreSQL server of tests/run.sh")
}

/// Runs any number of statements on a PostgreSQL server.
pub fn postgres_execute(url: &Url, sql: &str) {
    block_on(async {
        let mut connection = postgres_connect(url).await;
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut connection)
            .await
            .unwrap_or_else(|e| panic!("PostgreSQL: {e}\n{}", head(sql)));
        connection.close().await.expect("a clean end");
    });
}

/// A role of its own on the PostgreSQL server, dropped with its guard. Make it before the database in which it gets
/// rights, so that it goes after it.
pub struct PostgresRole {
    /// Its name; the password is the same.
    pub name: String,
}

impl PostgresRole {
    /// Makes one that may log in and nothing else.
    pub fn fresh() -> PostgresRole {
        let name = format!("role_{}", fresh_name());
        postgres_execute(&postgres_server(), &format!("create role {name} login password '{name}'"));
        PostgresRole { name }
    }

    /// The URL with this role as the user.
    pub fn in_url(&self, mut url: Url) -> Url {
        url.set_username(&self.name).expect("a user in the URL");
        url.set_password(Some(&self.name)).expect("a password in the URL");
        url
    }
}

impl Drop for PostgresRole {
    fn drop(&mut self) {
        postgres_execute(&postgres_server(), &format!("drop role {}", self.name));
    }
}

/// The statements that the PostgreSQL server has logged for a user.
pub fn postgres_log(user: &str) -> Vec<String> {
    let path = std::env::var("DRIFT_TEST_PG_LOG").expect("DRIFT_TEST_PG_LOG is not set: run tests/run.sh");
    let log = std::fs::read(path).expect("the server's log");
    let log = String::from_utf8_lossy(&log).into_owned();
    let mine = log.lines().filter_map(|line| line.strip_prefix(user)?.strip_prefix('|'));
    // "LOG:  statement: …" of the simple protocol, "LOG:  execute NAME: …" of the extended one.
    let sql = mine.filter_map(|line| {
        let said = line.strip_prefix("LOG:")?.trim_start();
        match said.strip_prefix("statement: ") {
            Some(sql) => Some(sql),
            None => said.strip_prefix("execute ")?.split_once(": ").map(|(_, sql)| sql),
        }
    });
    sql.map(str::to_string).collect()
}

/// The MariaDB server's log of all statements, while this lives.
pub struct GeneralLog;

impl GeneralLog {
    /// Turns it on.
    pub fn on() -> GeneralLog {
        mysql_execute(&mysql_server(), ["set global log_output = 'TABLE'", "set global general_log = 1"]);
        GeneralLog
    }

    /// What it has for a user.
    pub fn statements(&self, user: &str) -> Vec<String> {
        block_on(async {
            let options = MySqlConnectOptions::from_url(&mysql_server()).expect("a MySQL URL");
            let mut connection = options.connect().await.expect("a connection");
            let sql = format!(
                "select convert(argument using utf8mb4) from mysql.general_log where user_host like '{user}[%' and command_type in ('Query', 'Prepare', 'Execute')"
            );
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.expect("texts")
        })
    }
}

impl Drop for GeneralLog {
    fn drop(&mut self) {
        mysql_execute(&mysql_server(), ["set global general_log = 0"]);
    }
}

/// A user of its own on the MariaDB server, dropped with its guard.
pub struct MySqlUser {
    /// Its name; the password is the same.
    pub name: String,
}

impl MySqlUser {
    /// Makes one that may log in and nothing else.
    pub fn fresh() -> MySqlUser {
        let name = format!("user_{}", fresh_name());
        mysql_execute(&mysql_server(), [format!("create user {name} identified by '{name}'")]);
        MySqlUser { name }
    }

    /// The URL with this user.
    pub fn in_url(&self, mut url: Url) -> Url {
        url.set_username(&self.name).expect("a user in the URL");
        url.set_password(Some(&self.name)).expect("a password in the URL");
        url
    }
}

impl Drop for MySqlUser {
    fn drop(&mut self) {
        mysql_execute(&mysql_server(), [format!("drop user {}", self.name)]);
    }
}

/// A database of its own on the MariaDB server.
pub struct MySql {
    name: String,
}

impl MySql {
    /// Makes an empty one.
    pub fn fresh() -> MySql {
        let name = fresh_name();
        mysql_execute(&mysql_server(), [format!("create database {name} character set utf8mb4")]);
        MySql { name }
    }

    /// Its URL.
    pub fn url(&self) -> Url {
        in_database(mysql_server(), &self.name)
    }

    /// Runs any number of statements in one session, in UTC.
    pub fn execute(&self, sql: &str) {
        mysql_execute(&self.url(), [sql]);
    }

    /// The whole numbers of a query's first column.
    pub fn numbers(&self, sql: &str) -> Vec<i64> {
        block_on(async {
            let options = MySqlConnectOptions::from_url(&self.url()).expect("a MySQL URL");
            let mut connection = options.connect().await.expect("a connection");
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.expect("whole numbers")
        })
    }

    /// The one text that a query gives.
    pub fn text(&self, sql: &str) -> String {
        block_on(async {
            let options = MySqlConnectOptions::from_url(&self.url()).expect("a MySQL URL");
            let mut connection = options.connect().await.expect("a connection");
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.expect("a text")
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements one after the other in one session and transaction.
    pub fn execute_all(&self, statements: impl IntoIterator<Item = String>) {
        let begin = "begin".to_string();
        mysql_execute(&self.url(), [begin].into_iter().chain(statements).chain(["commit".to_string()]));
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        mysql_execute(&mysql_server(), [format!("drop database {}", self.name)]);
    }
}

/// Runs statements on a MariaDB server as they are.
pub fn mysql_execute<S: AsRef<str>>(url: &Url, statements: impl IntoIterator<Item = S>) {
    block_on(async {
        let options = MySqlConnectOptions::from_url(url).expect("a MySQL URL");
        let mut connection: MySqlConnection =
            options.connect().await.expect("a connection to the MariaDB server of tests/run.sh");
        for sql in statements {
            let sql = sql.as_ref();
            let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
            done.unwrap_or_else(|e| panic!("MariaDB: {e}\n{}", head(sql)));
        }
        connection.close().await.expect("a clean end");
    });
}

/// A session on either server that stays open.
pub enum Session {
    /// On PostgreSQL.
    Postgres(PgConnection),
    /// On MariaDB.
    MySql(MySqlConnection),
}

impl Session {
    /// Opens one.
    pub fn open(url: &Url) -> Session {
        block_on(async {
            if url.scheme() == "mysql" {
                let options = MySqlConnectOptions::from_url(url).expect("a MySQL URL");
                Session::MySql(options.connect().await.expect("a connection"))
            } else {
                Session::Postgres(postgres_connect(url).await)
            }
        })
    }

    /// Runs any number of statements.
    pub fn execute(&mut self, sql: &str) {
        block_on(async {
            let query = sqlx::raw_sql(AssertSqlSafe(sql));
            match self {
                Session::Postgres(connection) => query.execute(connection).await.map(drop),
                Session::MySql(connection) => query.execute(connection).await.map(drop),
            }
            .unwrap_or_else(|e| panic!("{e}\n{}", head(sql)));
        });
    }
}

/// A SQLite file in a folder of its own.
pub struct Sqlite {
    folder: TempDir,
}

impl Sqlite {
    /// Makes an empty one.
    pub fn fresh() -> Sqlite {
        Sqlite { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Its file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("data.db")
    }

    /// Runs any number of statements.
    pub fn execute(&self, sql: &str) {
        let connection = self.connect();
        connection.execute_batch(sql).unwrap_or_else(|e| panic!("SQLite: {e}\n{}", head(sql)));
    }

    /// A connection to it.
    pub fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).expect("a SQLite file")
    }
}

fn head(sql: &str) -> String {
    sql.chars().take(500).collect()
}
