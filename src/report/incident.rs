//! Incidents, for people and programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::words::{rows, visible};
use crate::config::plain;
use crate::incident::Incident;
use crate::incident::store::{Happened, summary};
use crate::state::rfc3339;

/// Ranges shown to people.
const RANGES: usize = 10;

/// One incident as an object.
pub fn json(incident: &Incident) -> Value {
    let findings: Value = incident
        .findings
        .iter()
        .map(|f| json!({ "check": f.check, "metric": f.metric, "severity": f.severity.word(), "summary": f.summary, "columns": f.columns }))
        .collect();
    json!({
        "number": incident.number,
        "pair": incident.pair,
        "kind": incident.kind.word(),
        "state": incident.state.word(),
        "severity": incident.severity.word(),
        "attribution": incident.attribution.word(),
        "opened": rfc3339(incident.opened),
        "last_seen": rfc3339(incident.last_seen),
        "resolved": incident.resolved.map(rfc3339),
        "flapping": incident.flapping,
        "muted_until": incident.muted_until.map(rfc3339),
        "acknowledged_by": incident.acknowledged_by,
        "reason": incident.reason.map(|reason| reason.word()),
        "findings": findings,
    })
}

/// A line for each.
pub fn list(incidents: &[Incident], now: i64) -> String {
    if incidents.is_empty() {
        return "no incidents\n".into();
    }
    let mut out = String::new();
    for incident in incidents {
        let mut flags = String::new();
        if incident.flapping {
            flags.push_str(", flapping");
        }
        if incident.is_muted(now) {
            flags.push_str(", muted");
        }
        let _ = writeln!(
            out,
            "{:>4}  {:<12}  {:<4}  {}  {} ({}{flags})  {}",
            incident.number,
            incident.state.word(),
            incident.severity.word(),
            rfc3339(incident.opened),
            incident.pair,
            incident.attribution.word(),
            summary(incident),
        );
    }
    out
}

/// Where the damage of an incident lies, by the evidence of its run (see [`crate::audit::store::evidence`]).
fn places(incident: &Incident, places: &Value) -> String {
    let ranges = places["ranges"].as_array().cloned().unwrap_or_default();
    if ranges.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nWhere it lies\n");
    let text = |key: &Value| -> String {
        let parts = key.as_object().into_iter().flatten();
        let part = |(name, value): (&String, &Value)| format!("{name}={}", plain(value));
        visible(&parts.map(part).collect::<Vec<_>>().join(", "))
    };
    for range in ranges.iter().take(RANGES) {
        let (from, to) = (text(&range["from"]), text(&range["to"]));
        let span = if from == to { from } else { format!("{from} … {to}") };
        let _ = writeln!(out, "  {span}  {}", rows(range["rows"].as_u64().unwrap_or(0)));
    }
    if ranges.len() > RANGES {
        let _ = writeln!(
            out,
            "  and {} more ranges; drift incident show {} -o json has them",
            ranges.len() - RANGES,
            incident.number
        );
    }
    if incident.run_power < 1.0 {
        let _ = writeln!(out, "  found by a sample: drift audit {} --full finds all of it", incident.pair);
    }
    out
}

/// Everything about one. `evidence` says where the damage lies.
pub fn one(incident: &Incident, events: &[Happened], evidence: &Value, now: i64) -> String {
    let mut out = list(std::slice::from_ref(incident), now);
    if let Some(actor) = &incident.acknowledged_by {
        let _ = writeln!(out, "      {actor} looks after it");
    }
    out.push_str("\nWhat is wrong\n");
    for finding in &incident.findings {
        let _ = writeln!(out, "  {:<4}  {}: {}", finding.severity.word(), finding.metric, finding.summary);
    }
    out.push_str(&places(incident, evidence));
    out.push_str("\nWhat happened\n");
    for event in events {
        let _ =
            writeln!(out, "  {}  {:<12}  {}  {}", rfc3339(event.at), event.event, event.actor, event.detail);
    }
    out
}
