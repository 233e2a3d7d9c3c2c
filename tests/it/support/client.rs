//! The engines' own command-line clients, as a person would run a script with them.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use url::Url;

/// Runs a script against the database of an address (with or without its `#table`); fails if a statement fails.
pub fn apply(address: &str, script: &Path) {
    let database = address.split_once('#').map_or(address, |(database, _)| database);
    let mut command = match database.strip_prefix("sqlite:") {
        Some(path) => {
            let mut command = Command::new("sqlite3");
            command.args(["-bail", path]);
            command
        }
        None => {
            let url = Url::parse(database).expect("a URL");
            if url.scheme() == "mysql" {
                let mut command = Command::new("mariadb");
                command
                    .args(["--no-defaults", "-h", url.host_str().expect("a host"), "-u", url.username()])
                    .args([
                        "-P",
                        &url.port().expect("a port").to_string(),
                        url.path().trim_start_matches('/'),
                    ])
                    .env("MYSQL_PWD", url.password().unwrap_or_default());
                command
            } else {
                let mut command = Command::new("psql");
                command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-", database]);
                command
            }
        }
    };
    let file = File::open(script).expect("the script");
    let done = command.stdin(Stdio::from(file)).output().expect("the client starts");
    assert!(
        done.status.success(),
        "{command:?}: {}{}\n{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
        std::fs::read_to_string(script).unwrap_or_default().chars().take(4000).collect::<String>()
    );
}
