//! One read-only connection, and what its errors mean.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::endpoint::stamp::stamp;
use crate::endpoint::{Error, ErrorKind, LOCK_TIMEOUT, Result};

/// An open database. It is read-only and creates no file.
pub(super) struct Session {
    path: String,
    pub(super) connection: Connection,
    /// The file's stamp, where SQLite reads it without locks, so that a change has to be noticed here.
    unlocked: Option<Option<String>>,
}

impl Session {
    /// Opens the file; one that is missing is never created.
    pub(super) fn open(path: &str) -> Result<Session> {
        let meta = metadata(path)?;
        // SQLite reads names such as `file:x` and `:memory:` in its own way; an absolute path is always a path.
        let absolute = std::path::absolute(path).map_err(|e| {
            Error::new(ErrorKind::Usage, format!("sqlite:{path}: the path cannot be resolved: {e}"))
        })?;
        let alone = is_wal(&absolute) && !has_wal(path, &absolute)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let setup = || -> rusqlite::Result<Connection> {
            let connection = if alone {
                // SQLite would create the -wal and -shm files, even for a reader. Without them the file itself holds
                // everything and nobody has it open.
                Connection::open_with_flags(immutable(&absolute), flags | OpenFlags::SQLITE_OPEN_URI)?
            } else {
                Connection::open_with_flags(&absolute, flags)?
            };
            connection.busy_timeout(LOCK_TIMEOUT)?;
            connection.pragma_update(None, "query_only", true)?;
            Ok(connection)
        };
        let connection = setup().map_err(|e| error(path, e))?;
        let session = Session { path: path.to_string(), connection, unlocked: alone.then(|| stamp(&meta)) };
        if alone && has_wal(path, &absolute)? {
            return Err(session.changed());
        }
        Ok(session)
    }

    /// Starts the read transaction and pins the state it sees: SQLite takes its snapshot at the first read.
    pub(super) fn begin(&self) -> Result<()> {
        self.connection
            .execute_batch("begin")
            .and_then(|()| self.connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(())))
            .map_err(|e| self.error(e))
    }

    /// Checks, after reading, that what was read was one state.
    pub(super) fn verify(&self) -> Result<()> {
        match &self.unlocked {
            Some(before) if before.is_none() || stamp(&metadata(&self.path)?) != *before => {
                Err(self.changed())
            }
            _ => Ok(()),
        }
    }

    /// What an error means; one from a file that changed under the reader means just that.
    pub(super) fn error(&self, e: rusqlite::Error) -> Error {
        self.verify().err().unwrap_or_else(|| error(&self.path, e))
    }

    fn changed(&self) -> Error {
        let path = &self.path;
        Error::new(
            ErrorKind::Data,
            format!("sqlite:{path}: a writer opened the database while drift was reading it; run again"),
        )
    }
}

fn metadata(path: &str) -> Result<Metadata> {
    let usage = |message: String| Err(Error::new(ErrorKind::Usage, message));
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            usage(format!("sqlite:{path}: there is no such file"))
        }
        Err(e) => {
            Err(Error::new(ErrorKind::Unavailable, format!("sqlite:{path}: the file cannot be reached: {e}")))
        }
        Ok(meta) if meta.is_dir() => usage(format!("sqlite:{path}: this is a folder, not a database")),
        Ok(meta) => Ok(meta),
    }
}

/// Whether the header says that the database is in WAL mode. An unreadable file is left to SQLite's own error.
fn is_wal(path: &Path) -> bool {
    let mut header = [0; 20];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).is_ok() && header[18..20] == [2, 2]
}

/// Whether changes lie beside the file, shared with the processes that have it open.
fn has_wal(path: &str, absolute: &Path) -> Result<bool> {
    let beside = |suffix: &str| {
        let mut name = absolute.as_os_str().to_owned();
        name.push(suffix);
        std::fs::metadata(PathBuf::from(name)).ok().map(|meta| meta.len())
    };
    match (beside("-wal"), beside("-shm")) {
        (None, _) | (Some(0), None) => Ok(false),
        (Some(_), Some(_)) => Ok(true),
        // Reading them would create the -shm file.
        (Some(_), None) => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "sqlite:{path}: the -wal file holds changes that are not in the database yet, and no process has it \
                 open; open it once with the application or sqlite3, or compare a copy made with .backup"
            ),
        )),
    }
}

/// The file as a URI that promises SQLite that nobody writes to it.
fn immutable(path: &Path) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-~".contains(b);
    let mut uri = String::from("file:");
    for b in path.as_os_str().as_encoded_bytes() {
        if plain(b) { uri.push(char::from(*b)) } else { uri.push_str(&format!("%{b:02X}")) }
    }
    uri + "?immutable=1"
}

/// A SQLite error in drift's kinds.
fn error(path: &str, error: rusqlite::Error) -> Error {
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
            "the database cannot be opened; check the rights on the file and on its -wal and -shm files".to_string(),
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
pub(in crate::endpoint) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_makes_a_uri() {
        assert_eq!(immutable(Path::new("/a b/ü?#%.db")), "file:/a%20b/%C3%BC%3F%23%25.db?immutable=1");
    }
}
