//! One read-only connection, and what its errors mean.

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::endpoint::{Error, ErrorKind, LOCK_TIMEOUT, Result};

/// Opens the file for reading only; a file that is missing is never created.
pub(super) fn open(path: &str) -> Result<Connection> {
    let usage = |message: String| Err(Error::new(ErrorKind::Usage, message));
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return usage(format!("sqlite:{path}: there is no such file"));
        }
        Err(e) => {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("sqlite:{path}: the file cannot be reached: {e}"),
            ));
        }
        Ok(meta) if meta.is_dir() => {
            return usage(format!("sqlite:{path}: this is a folder, not a database"));
        }
        Ok(_) => {}
    }
    // SQLite reads names such as `file:x` and `:memory:` in its own way; an absolute path is always a path.
    let absolute = std::path::absolute(path).map_err(|e| {
        Error::new(ErrorKind::Usage, format!("sqlite:{path}: the path cannot be resolved: {e}"))
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let setup = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(&absolute, flags)?;
        connection.busy_timeout(LOCK_TIMEOUT)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    setup().map_err(|e| error(path, e))
}

/// Starts the read transaction and pins the state it sees: SQLite takes its snapshot at the first read.
pub(super) fn begin(connection: &Connection, path: &str) -> Result<()> {
    connection
        .execute_batch("begin")
        .and_then(|()| connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(())))
        .map_err(|e| error(path, e))
}

/// A SQLite error in drift's kinds.
pub(super) fn error(path: &str, error: rusqlite::Error) -> Error {
    let code = error.sqlite_error_code();
    let (kind, what) = match code {
        Some(ErrorCode::NotADatabase) => (ErrorKind::Data, "the file is not a SQLite database".to_string()),
        Some(ErrorCode::DatabaseCorrupt) => {
            (ErrorKind::Data, format!("the database is damaged ({error}); check it with pragma integrity_check"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            format!("a writer has kept the database locked for {} s; try again", LOCK_TIMEOUT.as_secs()),
        ),
        Some(ErrorCode::CannotOpen) => (
            ErrorKind::Unavailable,
            "the database cannot be opened; in WAL mode its -wal and -shm files must exist or its folder must be writable"
                .to_string(),
        ),
        Some(ErrorCode::ReadOnly) => (
            ErrorKind::Refused,
            "the database needs recovery after a crash, which writes to it; open it once with the application or sqlite3"
                .to_string(),
        ),
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (ErrorKind::Refused, "reading is not permitted".to_string())
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed) => {
            (ErrorKind::Lost, format!("reading failed: {error}"))
        }
        Some(ErrorCode::Unknown) | None => (ErrorKind::Usage, format!("the query is refused: {}", reason(&error))),
        Some(_) => (ErrorKind::Data, format!("reading failed: {}", reason(&error))),
    };
    Error::new(kind, format!("sqlite:{path}: {what}"))
}

/// SQLite's own words, without the statement around them.
fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    }
}

/// A name inside SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
