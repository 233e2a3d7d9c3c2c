//! `drift version`.

use serde_json::json;

use super::{Exit, Global, print, print_json};

/// Each engine, the release that the tests run against, and what is known of its kin.
const ENGINES: [(&str, &str, &str); 4] = [
    ("PostgreSQL", "15", "tested on a real server; 10 and later are expected to work"),
    (
        "MySQL/MariaDB",
        "MariaDB 10.11",
        "tested on a real server; MySQL 8 speaks the same protocol but is not tested",
    ),
    ("SQLite", "3.51 (built in)", "tested; reads files of every SQLite 3"),
    (
        "files",
        "Parquet, CSV, NDJSON, Arrow IPC",
        "tested on local files; S3 by the object_store library, not tested against a server",
    ),
];

pub(super) fn run(global: &Global, engines: bool) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    let sqlite = rusqlite::version();
    if global.writes_json() {
        let list: Vec<_> = ENGINES
            .iter()
            .map(|(engine, tested, note)| json!({ "engine": engine, "tested_against": tested, "note": note }))
            .collect();
        let mut doc = json!({ "version": version, "sqlite": sqlite });
        if engines {
            doc["engines"] = list.into();
        }
        print_json(global, &doc);
    } else {
        let mut text = format!("drift {version}\n");
        if engines {
            for (engine, tested, note) in ENGINES {
                text.push_str(&format!("  {engine:14} {tested:32} {note}\n"));
            }
        }
        print(&text);
    }
    Exit::Equal
}
