//! `drift incident`.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::{Exit, Global, print_human, print_json};
use crate::audit;
use crate::config::threshold::Span;
use crate::incident::{Event, Reason, State, store};
use crate::report::incident as report;
use crate::state::{Clock, Result, Store, SystemClock, rfc3339};

#[derive(Debug, Args)]
pub(super) struct IncidentArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List incidents that are not over
    List {
        /// Those that are over as well
        #[arg(long, env = "DRIFT_ALL")]
        all: bool,
    },
    /// Show one, with everything that happened to it
    Show {
        /// Its number
        number: i64,
    },
    /// Say that somebody looks after it: it is not told again, unless it gets worse
    Ack {
        /// Its number
        number: i64,
        /// Why, or what is being done
        #[arg(long, value_name = "TEXT", default_value = "", env = "DRIFT_NOTE")]
        note: String,
    },
    /// End it
    Resolve {
        /// Its number
        number: i64,
        /// Why it is over; `expected`, `upstream` and `false_positive` accept the schemas as they are now
        #[arg(long, value_enum, env = "DRIFT_REASON")]
        reason: Because,
        /// More about it
        #[arg(long, value_name = "TEXT", default_value = "", env = "DRIFT_NOTE")]
        note: String,
    },
    /// Tell nothing about it for some time; checks go on
    Mute {
        /// Its number
        number: i64,
        /// How long
        #[arg(long = "for", value_name = "DURATION", default_value = "4h", env = "DRIFT_FOR", value_parser = span)]
        time: Span,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Because {
    Fixed,
    #[value(name = "false_positive", alias = "false-positive")]
    FalsePositive,
    Expected,
    Upstream,
    Other,
}

impl Because {
    fn reason(self) -> Reason {
        match self {
            Because::Fixed => Reason::Fixed,
            Because::FalsePositive => Reason::FalsePositive,
            Because::Expected => Reason::Expected,
            Because::Upstream => Reason::Upstream,
            Because::Other => Reason::Other,
        }
    }
}

fn span(text: &str) -> std::result::Result<Span, String> {
    text.parse()
}

pub(super) async fn run(global: &Global, args: &IncidentArgs) -> Exit {
    let (loaded, store) = match super::config::opened(global).await {
        Ok(opened) => opened,
        Err(exit) => return exit,
    };
    let done = match &args.command {
        Command::List { all } => list(global, &store, *all).await,
        Command::Show { number } => show(global, &store, *number).await,
        Command::Ack { number, note } => {
            let event = Event::Acknowledge { actor: actor() };
            change(global, &loaded, &store, *number, event, note).await
        }
        Command::Resolve { number, reason, note } => {
            let event = Event::Resolve { reason: reason.reason() };
            change(global, &loaded, &store, *number, event, note).await
        }
        Command::Mute { number, time } => {
            let until = SystemClock.now().saturating_add(time.micros());
            let note = format!("until {}", rfc3339(until));
            change(global, &loaded, &store, *number, Event::Mute { until }, &note).await
        }
    };
    done.unwrap_or_else(|error| {
        global.say(&error.message);
        Exit::Incomplete
    })
}

/// Who is at the keyboard.
fn actor() -> String {
    ["SUDO_USER", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
        .unwrap_or_else(|| "somebody".into())
}

async fn list(global: &Global, store: &Store, all: bool) -> Result<Exit> {
    let incidents = store::list(store, all).await?;
    if global.writes_json() {
        let listed: Vec<Value> = incidents.iter().map(report::json).collect();
        print_json(global, &json!({ "schema_version": 1, "incidents": listed }));
    } else {
        print_human(global, &report::list(&incidents, SystemClock.now()));
    }
    Ok(Exit::Equal)
}

fn unknown(global: &Global, number: i64) -> Exit {
    global.say(&format!("there is no incident {number}; see drift incident list --all"));
    Exit::Usage
}

async fn show(global: &Global, store: &Store, number: i64) -> Result<Exit> {
    let Some(incident) = store::find(store, number).await? else { return Ok(unknown(global, number)) };
    let events = store::events(store, number).await?;
    let (_, places) = audit::store::evidence(store, &incident.run).await?;
    if global.writes_json() {
        let mut document = report::json(&incident);
        document["events"] = events
            .iter()
            .map(|e| json!({ "at": rfc3339(e.at), "actor": e.actor, "event": e.event, "detail": e.detail }))
            .collect();
        document["ranges"] = places["ranges"].clone();
        document["ranges_merged"] = places["ranges_merged"].clone();
        document["schema_version"] = json!(1);
        print_json(global, &document);
    } else {
        print_human(global, &report::one(&incident, &events, &places, SystemClock.now()));
    }
    Ok(Exit::Equal)
}

async fn change(
    global: &Global,
    loaded: &crate::config::Loaded,
    store: &Store,
    number: i64,
    event: Event,
    note: &str,
) -> Result<Exit> {
    let now = SystemClock.now();
    let sender = crate::notify::Sender::new(&loaded.config.notifiers);
    let mut tx = store.begin().await?;
    let Some(incident) = store::one(&mut tx, number).await? else { return Ok(unknown(global, number)) };
    if incident.state == State::Resolved {
        global.say(&format!("incident {number} is over since {}", rfc3339(incident.changed)));
        return Ok(Exit::Usage);
    }
    let accepts = matches!(event, Event::Resolve { reason } if reason.accepts_what_is());
    let (incident, news) = store::happens(&mut tx, incident, event, &actor(), note, now).await?;
    if accepts && incident.kind == crate::incident::Kind::Schema {
        audit::store::accept(&mut tx, &incident.pair, now).await?;
    }
    if let Some(news) = news {
        let labels = loaded.config.pair(&incident.pair).map(|pair| pair.labels.clone()).unwrap_or_default();
        audit::tell(&mut tx, &incident, news, &labels, &sender.names(), now).await?;
    }
    tx.commit().await?;
    if global.writes_json() {
        print_json(global, &report::json(&incident));
    } else {
        print_human(global, &report::list(std::slice::from_ref(&incident), now));
    }
    let delivered = crate::control::deliver(store, &sender, &loaded.config, &SystemClock).await?;
    for (notifier, why) in delivered.failures() {
        global.say(&format!("notifier {notifier}: {why}; the message is kept and sent again by the next audit or by drift serve"));
    }
    Ok(Exit::Equal)
}
