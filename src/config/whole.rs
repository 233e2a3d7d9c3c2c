//! What only the whole configuration can tell: names that lead nowhere, names given twice, settings that contradict each
//! other.

use std::collections::{BTreeMap, BTreeSet};

use super::address::Address;
use super::load::suggestion;
use super::settings::{Config, Consistency, Notifier, Pair, Role, SCHEMA_FINDINGS, Table};
use super::tree::Step;
use super::units;
use crate::value::recipe::Normalize;

type Report<'a> = &'a mut dyn FnMut(Vec<Step>, String);

fn key(name: impl Into<String>) -> Step {
    Step::Key(name.into())
}

/// Looks at the whole.
pub(super) fn check(config: &Config, report: Report<'_>) {
    state(config, report);
    for (name, connection) in &config.connections {
        let path = || vec![key("connections"), key(name.as_str()), key("url")];
        let url = &connection.url;
        if url.contains('#') {
            report(path(), "a connection is a whole database; leave out # and what follows it".into());
        } else if let Err(why) = address(url, "t") {
            report(path(), why);
        }
        if connection.budget.checks == 0 || connection.budget.connections == 0 {
            let path = vec![key("connections"), key(name.as_str()), key("budget")];
            report(path, "with 0, nothing could ever be checked; write at least 1".into());
        }
    }
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, pair) in config.pairs.iter().enumerate() {
        let at = |rest: &[&str]| {
            let mut path = vec![key("pairs"), Step::Index(index)];
            path.extend(rest.iter().map(|name| key(*name)));
            path
        };
        if let Some(first) = names.insert(&pair.name, index) {
            let message =
                format!("the name is taken by the pair {} in the list; names tell pairs apart", first + 1);
            report(at(&["name"]), message);
        }
        if pair.name.is_empty() || !pair.name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)) {
            report(at(&["name"]), "a pair's name has letters, digits, `_`, `-` and `.` only".into());
        }
        check_pair(config, pair, &at, report);
    }
    notifiers(config, report);
    server(config, report);
}

fn state(config: &Config, report: Report<'_>) {
    let url = &config.state.url;
    let known = ["sqlite:", "postgres:", "postgresql:"].iter().any(|scheme| url.starts_with(scheme));
    if !known || url == "sqlite:" {
        let message = "drift keeps its state in sqlite:FILE or in postgres://…".into();
        report(vec![key("state"), key("url")], message);
    }
}

/// The address of a table of a connection.
pub fn address(url: &str, table: &str) -> Result<Address, String> {
    // Secrets are in place already.
    let none = |_: &str| None;
    let is_files =
        matches!(Address::parse(&format!("{url}/x"), &none), Ok(p) if matches!(p.address, Address::Files(_)));
    let text = if is_files {
        format!("{}/{}", url.trim_end_matches('/'), table.trim_start_matches('/'))
    } else {
        format!("{url}#{table}")
    };
    Address::parse(&text, &none).map(|parsed| parsed.address)
}

fn check_pair(config: &Config, pair: &Pair, at: &dyn Fn(&[&str]) -> Vec<Step>, report: Report<'_>) {
    for (side, table, wrong) in
        [("source", &pair.source, Role::Target), ("target", &pair.target, Role::Source)]
    {
        check_table(config, side, table, wrong, at, report);
    }
    if pair.source == pair.target {
        report(at(&["target"]), "source and target are the same table".into());
    }
    let updated = pair.cutoff.as_ref().and_then(|cutoff| cutoff.column.as_ref());
    if pair.cutoff.is_some() && updated.is_none() && pair.version.is_none() {
        let message = "a cutoff needs `column`, or the pair's `version: { column: … }`: the column that tells when a row was last written";
        report(at(&["cutoff"]), message.into());
    }
    if pair.consistency == Consistency::Cutoff && pair.cutoff.is_none() {
        report(at(&["consistency"]), "`cutoff` needs the block `cutoff: { settle: 10m }`".into());
    }
    if !(1..=100).contains(&pair.confirm.rounds) {
        report(at(&["confirm", "rounds"]), "write a number of looks from 1 to 100".into());
    }
    for (column, tolerance) in &pair.columns.tolerance {
        if let Err(why) = units::tolerance(&format!("{column}={}", plain(tolerance))) {
            report(at(&["columns", "tolerance", column]), why);
        }
    }
    for (column, wishes) in &pair.columns.normalize {
        let known: Vec<&str> = Normalize::ALL.iter().map(|(name, _)| *name).collect();
        for wish in wishes.iter().filter(|wish| !known.contains(&wish.as_str())) {
            let message = format!("{wish:?} is unknown; {}", suggestion(wish, &known));
            report(at(&["columns", "normalize", column]), message);
        }
    }
    if let Some(include) = &pair.columns.include {
        for column in include.iter().filter(|column| pair.columns.exclude.contains(column)) {
            report(
                at(&["columns", "exclude"]),
                format!("{column} is included as well; leave one of them out"),
            );
        }
    }
    let mut targets = BTreeSet::new();
    for target in pair.columns.rename.values().filter(|target| !targets.insert(target.as_str())) {
        report(at(&["columns", "rename"]), format!("two columns of the source are renamed to {target}"));
    }
    for (index, window) in pair.schedule.maintenance.iter().enumerate() {
        if !config.windows.contains_key(window) {
            let known: Vec<&String> = config.windows.keys().collect();
            let mut path = at(&["schedule", "maintenance"]);
            path.push(Step::Index(index));
            report(
                path,
                format!("there is no window {window:?} under `windows`; {}", suggestion(window, &known)),
            );
        }
    }
    if pair.checks.rows.on().is_none() && (pair.schedule.rows.is_some() || pair.schedule.full.is_some()) {
        report(at(&["schedule"]), "rows are scheduled, but `checks.rows` is off".into());
    }
    if pair.checks.schema.on().is_none() && pair.schedule.schema.is_some() {
        report(at(&["schedule", "schema"]), "it is scheduled, but `checks.schema` is off".into());
    }
    for (index, reaction) in pair.react.iter().enumerate() {
        // What a reaction can wait for.
        let known: Vec<&str> = SCHEMA_FINDINGS.into_iter().chain(["duplicate_keys"]).collect();
        for when in reaction.when.iter().filter(|when| !known.contains(&when.as_str())) {
            let mut path = at(&["react"]);
            path.extend([Step::Index(index), key("when")]);
            report(path, format!("{when:?} is no finding; {}", suggestion(when, &known)));
        }
    }
}

/// A scalar as it was written.
pub fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn check_table(
    config: &Config,
    side: &str,
    table: &Table,
    wrong: Role,
    at: &dyn Fn(&[&str]) -> Vec<Step>,
    report: Report<'_>,
) {
    let Some(connection) = config.connections.get(&table.connection) else {
        let known: Vec<&String> = config.connections.keys().collect();
        let name = &table.connection;
        let message =
            format!("there is no connection {name:?} under `connections`; {}", suggestion(name, &known));
        return report(at(&[side, "connection"]), message);
    };
    if connection.role == Some(wrong) {
        let message = format!("{} has another role; a {side} is expected here", table.connection);
        report(at(&[side, "connection"]), message);
    }
    if let Err(why) = address(&connection.url, &table.table) {
        report(at(&[side, "table"]), why);
    }
}

fn notifiers(config: &Config, report: Report<'_>) {
    for (name, notifier) in &config.notifiers {
        let path = |field: &str| vec![key("notifiers"), key(name.as_str()), key(field)];
        let (url, schemes): (&str, &[&str]) = match notifier {
            Notifier::Smtp(smtp) => {
                if smtp.to.is_empty() {
                    report(path("to"), "nobody would get the mail; name a receiver".into());
                }
                for (field, text) in smtp.to.iter().map(|to| ("to", to)).chain([("from", &smtp.from)]) {
                    if text.parse::<lettre::message::Mailbox>().is_err() {
                        report(path(field), "this is no mail address".into());
                    }
                }
                (&smtp.url, &["smtp", "smtps"])
            }
            Notifier::Alertmanager(alertmanager) => (&alertmanager.url, &["http", "https"]),
            Notifier::Webhook(webhook) => (&webhook.url, &["http", "https"]),
        };
        match url::Url::parse(url) {
            Ok(parsed) if schemes.contains(&parsed.scheme()) && parsed.has_host() => {}
            _ => report(path("url"), format!("write a URL that begins with {}://", schemes.join(":// or "))),
        }
    }
}

fn server(config: &Config, report: Report<'_>) {
    let path = || vec![key("server"), key("listen")];
    match config.server.listen.parse::<std::net::SocketAddr>() {
        Err(_) => report(path(), "write an address and a port, such as 127.0.0.1:8480".into()),
        Ok(address) if !address.ip().is_loopback() && !config.server.behind_proxy => {
            let message = "off loopback, anyone on the network could read the results; write `behind_proxy: true` where something in front keeps strangers out";
            report(path(), message.into());
        }
        Ok(_) => {}
    }
    if config.server.workers == 0 {
        report(
            vec![key("server"), key("workers")],
            "with 0, nothing could ever be checked; write at least 1".into(),
        );
    }
}
