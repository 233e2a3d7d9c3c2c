//! The server's errors in drift's words.

use sqlx::mysql::MySqlDatabaseError;

use crate::endpoint::{Error, ErrorKind};

/// Turns an error of an established session into drift's. `doing` completes "while …".
pub(super) fn while_reading(connection: &str, doing: &str, error: &sqlx::Error) -> Error {
    if let Some(server) = database(error) {
        let (kind, advice) = judge(server.number());
        let reason = reason(server);
        return match kind {
            ErrorKind::Lost => {
                Error::new(kind, format!("{connection}: connection lost while {doing}: {reason}{advice}"))
            }
            _ => Error::new(kind, format!("{connection}: {doing} failed: {reason}{advice}")),
        };
    }
    match error {
        sqlx::Error::Io(io) => {
            Error::new(ErrorKind::Lost, format!("{connection}: connection lost while {doing}: {io}"))
        }
        sqlx::Error::Tls(tls) => {
            Error::new(ErrorKind::Lost, format!("{connection}: connection lost while {doing}: {tls}"))
        }
        // The message of a protocol error may hold bytes of a row.
        _ => Error::new(
            ErrorKind::Lost,
            format!("{connection}: connection lost while {doing}: the server's answer makes no sense"),
        ),
    }
}

/// Turns a failed connection attempt into drift's error.
pub(super) fn while_connecting(connection: &str, error: &sqlx::Error) -> Error {
    if let Some(server) = database(error) {
        // An unknown database is the user's slip; everything else is the server's refusal.
        let kind = if server.number() == 1049 { ErrorKind::Usage } else { ErrorKind::Unavailable };
        return Error::new(kind, format!("cannot connect to {connection}: {}", server.message()));
    }
    let reason = match error {
        sqlx::Error::Io(io) => io.to_string(),
        sqlx::Error::Tls(tls) => format!("TLS failed: {tls}"),
        sqlx::Error::Configuration(e) => e.to_string(),
        sqlx::Error::Protocol(_) => {
            "no MySQL server answers there, or it asks for an unknown login method".into()
        }
        _ => "the handshake failed".into(),
    };
    Error::new(ErrorKind::Unavailable, format!("cannot connect to {connection}: {reason}"))
}

/// The server's error number, if the server answered at all.
pub(super) fn number(error: &sqlx::Error) -> Option<u16> {
    database(error).map(MySqlDatabaseError::number)
}

fn database(error: &sqlx::Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error().and_then(|e| e.try_downcast_ref::<MySqlDatabaseError>())
}

/// What an error number asks of the caller, and a word of advice.
fn judge(number: u16) -> (ErrorKind, &'static str) {
    match number {
        // Syntax, names and types in the user's own filter or query.
        1046 | 1052 | 1054 | 1055 | 1056 | 1060 | 1064 | 1066 | 1109 | 1111 | 1139 | 1140 | 1210 | 1222
        | 1241 | 1242 | 1247 | 1248 | 1267 | 1270 | 1271 | 1295 | 1305 | 1318 | 1347 | 1582 | 1630 | 3065 => {
            (ErrorKind::Usage, "; check the filter or query")
        }
        1044 | 1142 | 1143 | 1227 | 1370 | 1449 | 1345 | 4166 => {
            (ErrorKind::Refused, "; grant the privilege")
        }
        1049 | 1051 | 1146 | 1176 | 1412 | 1615 => {
            (ErrorKind::Data, "; the table changed meanwhile, run the comparison again")
        }
        1356 => (ErrorKind::Refused, "; check the view and the privileges of its definer"),
        1021 | 1037 | 1038 | 1040 | 1041 | 1114 | 1203 | 1226 | 1461 => {
            (ErrorKind::Unavailable, "; the server is short of room or connections")
        }
        1205 => (ErrorKind::Unavailable, "; another session holds a lock on the table, try again later"),
        1969 | 3024 => (ErrorKind::Unavailable, "; the server is too busy, or a statistic is too dear"),
        1053 | 1077 | 1078 | 1079 | 1080 | 1152 | 1156 | 1157 | 1158 | 1159 | 1160 | 1161 | 1184 | 1317
        | 1927 | 2006 | 2013 | 3169 | 4031 => (ErrorKind::Lost, ""),
        _ => (ErrorKind::Data, ""),
    }
}

/// The server's own message where it speaks of names only; messages about values would repeat them.
fn reason(server: &MySqlDatabaseError) -> String {
    let names_only =
        matches!(judge(server.number()).0, ErrorKind::Usage | ErrorKind::Refused | ErrorKind::Lost)
            || matches!(
                server.number(),
                1030 | 1033
                    | 1034
                    | 1051
                    | 1146
                    | 1176
                    | 1194
                    | 1195
                    | 1205
                    | 1356
                    | 1412
                    | 1932
                    | 1969
                    | 3024
            );
    let state = server.code().unwrap_or("HY000");
    if names_only && server.number() != 1210 {
        format!("{} (server error {}, {state})", server.message(), server.number())
    } else {
        format!("server error {}, SQLSTATE {state}", server.number())
    }
}
