//! Incidents, for people and programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::incident::Incident;
use crate::incident::store::{Happened, summary};
use crate::state::rfc3339;

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

/// Everything about one.
pub fn one(incident: &Incident, events: &[Happened], now: i64) -> String {
    let mut out = list(std::slice::from_ref(incident), now);
    if let Some(actor) = &incident.acknowledged_by {
        let _ = writeln!(out, "      {actor} looks after it");
    }
    out.push_str("\nWhat is wrong\n");
    for finding in &incident.findings {
        let _ = writeln!(out, "  {:<4}  {}: {}", finding.severity.word(), finding.metric, finding.summary);
    }
    out.push_str("\nWhat happened\n");
    for event in events {
        let _ =
            writeln!(out, "  {}  {:<12}  {}  {}", rfc3339(event.at), event.event, event.actor, event.detail);
    }
    out
}
