//! `drift report`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Exit, Global, print, print_json};
use crate::report::file::Pending;
use crate::report::watch;
use crate::state::{Clock, Store, SystemClock};

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The pairs that it shows (default: all)
    pairs: Vec<String>,
    /// The page's file
    #[arg(long, value_name = "FILE", default_value = "drift-report.html", env = "DRIFT_HTML")]
    html: PathBuf,
}

pub(super) async fn run(global: &Global, args: &ReportArgs) -> Exit {
    let (loaded, store) = match super::config::opened(global).await {
        Ok(opened) => opened,
        Err(exit) => return exit,
    };
    let known: Vec<String> = loaded.config.pairs.iter().map(|pair| pair.name.clone()).collect();
    if let Some(name) = args.pairs.iter().find(|name| !known.contains(name)) {
        global.say(&format!("there is no pair {name:?} in the configuration; it has {}", known.join(", ")));
        return Exit::Usage;
    }
    let pairs = if args.pairs.is_empty() { &known } else { &args.pairs };
    match write(&store, pairs, SystemClock.now(), &args.html).await {
        Ok(headline) => {
            if global.writes_json() {
                let file = args.html.display().to_string();
                print_json(
                    global,
                    &serde_json::json!({ "schema_version": 1, "file": file, "headline": headline }),
                );
            } else {
                print(&format!("{headline}\n{}\n", args.html.display()));
            }
            Exit::Equal
        }
        Err(why) => {
            global.say(&why);
            Exit::Incomplete
        }
    }
}

/// Writes the page of some pairs; its first line.
pub(super) async fn write(store: &Store, pairs: &[String], now: i64, file: &Path) -> Result<String, String> {
    let watched = watch::gather(store, pairs, now).await.map_err(|error| error.message)?;
    let page = watched.page();
    Pending::create(file).and_then(|pending| {
        pending.finish(|out| out.write_all(page.as_bytes()).map_err(|e| e.to_string()))
    })?;
    Ok(watched.headline())
}
