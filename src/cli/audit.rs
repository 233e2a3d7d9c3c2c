//! `drift audit`.

use std::sync::Arc;

use clap::Args;

use super::{Exit, Global, Output, print, print_human, print_json, print_report};
use crate::audit::Status;
use crate::config::settings::Level;
use crate::control::{self, Audit, Refused, Wanted};
use crate::report::audit as report;
use crate::state::SystemClock;

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// The pairs to check (default: all)
    pairs: Vec<String>,
    /// Check these levels only: schema, rows
    #[arg(long, value_name = "LEVEL[,LEVEL]", env = "DRIFT_LEVEL", value_delimiter = ',', value_parser = level)]
    level: Vec<Level>,
    /// Compare all rows, also where a sample is configured
    #[arg(long, env = "DRIFT_FULL")]
    full: bool,
    /// Check the pairs with this label only; several labels all have to fit
    #[arg(long, value_name = "NAME=VALUE", env = "DRIFT_LABEL", value_delimiter = ',', value_parser = super::compare::pair)]
    label: Vec<(String, String)>,
    /// Only look: nothing but drift's own state is changed
    #[arg(long, env = "DRIFT_NO_ACTIONS")]
    no_actions: bool,
}

fn level(text: &str) -> Result<Level, String> {
    Level::of(text).ok_or_else(|| "a level is schema, rows or full".into())
}

pub(super) async fn run(global: &Global, args: &AuditArgs) -> Exit {
    let (loaded, store) = match super::config::opened(global).await {
        Ok(opened) => opened,
        Err(exit) => return exit,
    };
    // Until something acts, looking is all there is.
    let _ = args.no_actions;
    let wanted = Wanted {
        pairs: args.pairs.clone(),
        labels: args.label.clone(),
        levels: args.level.clone(),
        full: args.full,
    };
    let told = |text: &str| global.step(text);
    match control::audit(&loaded, &store, Arc::new(SystemClock), &wanted, &told).await {
        Ok(audit) => {
            show(global, &audit);
            for (notifier, why) in audit.delivered.failures() {
                global.say(&format!("notifier {notifier}: {why}; the message is kept and sent again by the next audit or by drift serve"));
            }
            exit(&audit)
        }
        Err(Refused::Usage(message)) => {
            global.say(&message);
            Exit::Usage
        }
        Err(Refused::State(error)) => {
            global.say(&error.message);
            Exit::Incomplete
        }
    }
}

fn show(global: &Global, audit: &Audit) {
    match global.output {
        Output::Json => print_json(global, &report::json(&audit.runs)),
        Output::Jsonl => audit.runs.iter().for_each(|ran| print_json(global, &report::run(ran))),
        Output::Markdown => print_report(global, &report::markdown(&audit.runs)),
        Output::Junit => print(&report::junit(&audit.runs)),
        Output::Human => print_human(global, &report::human(&audit.runs, global.style())),
    }
}

/// Precedence: could not finish, notification failed, drift, inconclusive.
fn exit(audit: &Audit) -> Exit {
    let any = |status| audit.runs.iter().any(|ran| ran.results.iter().any(|result| result.status == status));
    let mut names: Vec<&str> = audit.runs.iter().map(|ran| ran.run.pair.as_str()).collect();
    names.dedup();
    let silent = names.iter().any(|name| {
        let mut of = audit.runs.iter().filter(|ran| ran.run.pair == *name);
        of.all(|ran| matches!(ran.status, Status::Inconclusive))
    });
    if any(Status::Error) || audit.runs.iter().any(|ran| ran.status == Status::Skipped) {
        Exit::Incomplete
    } else if any(Status::Fail) && !audit.delivered.failed.is_empty() {
        Exit::NotTold
    } else if any(Status::Fail) {
        Exit::Drift
    } else if silent {
        Exit::Inconclusive
    } else {
        Exit::Equal
    }
}
