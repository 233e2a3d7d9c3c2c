//! Alertmanager: an alert that is sent again while it lasts, and whose end is sent as well.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::http::{self, Http};
use super::{Message, Result};
use crate::config::settings::Alertmanager;
use crate::state::rfc3339;

/// Facts in the description, at most.
const MOST_FACTS: usize = 10;
/// So many times the distance between two sendings, an alert ends by itself.
const OUTLASTS: i64 = 4;

/// Posts a message as an alert. `now` is in microseconds since 1970.
pub(super) async fn send(http: &Http, settings: &Alertmanager, message: &Message, now: i64) -> Result<()> {
    let url = format!("{}/api/v2/alerts", settings.url.trim_end_matches('/'));
    let body = json!([alert(settings, message, now)]);
    http::accepted(http.post(&url).header("content-type", "application/json").body(body.to_string())).await
}

fn alert(settings: &Alertmanager, message: &Message, now: i64) -> Value {
    let kind = message.labels.get("kind").map_or("", String::as_str);
    let name = match kind {
        "schema" => "DriftSchema",
        "rows" => "DriftRows",
        "unchecked" => "DriftUnchecked",
        _ => "DriftMessage",
    };
    // Labels say what the alert is, and never how much: another label would be another alert.
    let mut labels: BTreeMap<String, String> =
        message.labels.iter().map(|(name, value)| (label_name(name), value.clone())).collect();
    labels.extend(settings.labels.iter().map(|(name, value)| (label_name(name), value.clone())));
    labels.insert("alertname".into(), name.into());
    labels.insert("severity".into(), message.severity.clone());
    labels.insert("drift_instance".into(), "drift".into());
    labels.retain(|_, value| !value.is_empty());
    let facts: Vec<&str> = message.facts.iter().take(MOST_FACTS).map(String::as_str).collect();
    let ends = message
        .until
        .unwrap_or_else(|| now.saturating_add(settings.resend.micros().saturating_mul(OUTLASTS)));
    json!({
        "labels": labels,
        "annotations": { "summary": message.title, "description": facts.join("\n"), "event": message.event },
        "startsAt": rfc3339(message.since),
        // An alert whose end is its begin is refused.
        "endsAt": rfc3339(ends.max(message.since + 1_000_000)),
    })
}

/// Letters, digits and `_`, as Prometheus wants them.
fn label_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
