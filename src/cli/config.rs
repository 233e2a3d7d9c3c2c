//! `drift config` and `drift validate`, and how every command finds its configuration.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{Exit, Global, print, print_json};
use crate::config::{self, Loaded, Problem};
use crate::control;
use crate::preflight;
use crate::report::words::counted;
use crate::state::Store;

/// The configuration that is read where none is named.
pub(super) const DEFAULT: &str = "drift.yaml";

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    /// Ask the real systems as well: connections, permissions, keys, indexes, types
    #[arg(long, env = "DRIFT_ONLINE")]
    online: bool,
    /// Print the JSON Schema of the configuration, for editors
    #[arg(long, env = "DRIFT_SCHEMA", conflicts_with = "online")]
    schema: bool,
}

/// The configuration of this call. What is wrong with it has been said.
pub(super) fn loaded(global: &Global) -> Result<Loaded, Exit> {
    let files = match global.config.as_slice() {
        [] if Path::new(DEFAULT).exists() => vec![PathBuf::from(DEFAULT)],
        [] => {
            global.say(&format!("there is no {DEFAULT} here; name a configuration with --config, or write one with drift init SOURCE TARGET"));
            return Err(Exit::Usage);
        }
        files => files.to_vec(),
    };
    let mut loaded = config::load(&files).map_err(|problems| {
        problems.iter().for_each(|problem| global.say(&problem.to_string()));
        Exit::Usage
    })?;
    if let Some(url) = &global.state {
        loaded.config.state.url.clone_from(url);
    }
    Ok(loaded)
}

/// The store of a configuration. What is wrong with it has been said.
pub(super) async fn store(global: &Global, loaded: &Loaded) -> Result<Store, Exit> {
    Store::open(&loaded.config.state.url).await.map_err(|error| {
        global.say(&error.message);
        Exit::Incomplete
    })
}

/// The configuration and its store.
pub(super) async fn opened(global: &Global) -> Result<(Loaded, Store), Exit> {
    let loaded = loaded(global)?;
    let store = store(global, &loaded).await?;
    Ok((loaded, store))
}

pub(super) fn show(global: &Global) -> Exit {
    match loaded(global) {
        Ok(loaded) => {
            print(&loaded.effective());
            Exit::Equal
        }
        Err(exit) => exit,
    }
}

pub(super) async fn validate(global: &Global, args: &ValidateArgs) -> Exit {
    if args.schema {
        print_json(global, &config::json_schema());
        return Exit::Equal;
    }
    let files = if global.config.is_empty() { vec![PathBuf::from(DEFAULT)] } else { global.config.clone() };
    let loaded = match config::load(&files) {
        Ok(loaded) => loaded,
        Err(problems) => {
            tell(global, &problems);
            return Exit::Usage;
        }
    };
    let pairs = loaded.config.pairs.len();
    if args.online {
        let found = control::validate(&loaded.config).await;
        let bad = found.iter().any(|finding| finding.severity == preflight::Severity::Fail);
        if global.writes_json() {
            let listed: Vec<_> = found.iter().map(preflight::Finding::json).collect();
            print_json(
                global,
                &serde_json::json!({ "schema_version": 1, "ok": !bad, "pairs": pairs, "findings": listed }),
            );
        } else {
            let lines: Vec<String> = found.iter().map(|finding| format!("{finding}\n")).collect();
            let failed = found.iter().filter(|f| f.severity == preflight::Severity::Fail).count();
            let head = if bad {
                format!(
                    "{} in {}\n",
                    counted(failed as u64, "problem", "problems"),
                    counted(pairs as u64, "pair", "pairs")
                )
            } else {
                format!("{} can be checked\n", counted(pairs as u64, "pair", "pairs"))
            };
            print(&format!("{head}{}", lines.concat()));
        }
        return if bad { Exit::Incomplete } else { Exit::Equal };
    }
    if global.writes_json() {
        print_json(
            global,
            &serde_json::json!({ "schema_version": 1, "ok": true, "pairs": pairs, "problems": [] }),
        );
    } else {
        print(&format!("the configuration is well-formed: {}\n", counted(pairs as u64, "pair", "pairs")));
    }
    Exit::Equal
}

fn tell(global: &Global, problems: &[Problem]) {
    if global.writes_json() {
        let listed: Vec<_> = problems
            .iter()
            .map(
                |p| serde_json::json!({ "file": p.file, "line": p.line, "key": p.key, "message": p.message }),
            )
            .collect();
        print_json(global, &serde_json::json!({ "schema_version": 1, "ok": false, "problems": listed }));
    } else {
        problems.iter().for_each(|problem| global.say(&problem.to_string()));
    }
}
