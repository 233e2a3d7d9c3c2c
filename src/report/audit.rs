//! What an audit came to.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::human::Style;
use crate::audit::{CheckResult, Ran, Status};
use crate::incident::Incident;
use crate::state::rfc3339;

/// The runs by pair, in their order.
fn by_pair(runs: &[Ran]) -> Vec<(&str, Vec<&Ran>)> {
    let mut out: Vec<(&str, Vec<&Ran>)> = Vec::new();
    for ran in runs {
        match out.last_mut() {
            Some((pair, of)) if *pair == ran.run.pair => of.push(ran),
            _ => out.push((&ran.run.pair, vec![ran])),
        }
    }
    out
}

/// What a run has to say: its breaches and what it could not answer; for a pass, how much was compared.
fn said(ran: &Ran) -> Vec<&CheckResult> {
    let telling: Vec<&CheckResult> =
        ran.results.iter().filter(|r| r.status != Status::Pass && !r.summary.is_empty()).collect();
    if telling.is_empty() {
        ran.results.iter().filter(|result| result.metric == "compared").collect()
    } else {
        telling
    }
}

fn incident_line(incident: &Incident, news: Option<&str>) -> String {
    let muted = if incident.is_muted(incident.last_seen) { ", muted" } else { "" };
    format!(
        "incident {} {}{} ({}, since {}{muted})",
        incident.number,
        news.unwrap_or(incident.state.word()),
        if incident.flapping { ", flapping" } else { "" },
        incident.attribution.word(),
        rfc3339(incident.opened),
    )
}

/// The answer in one line.
pub fn head(runs: &[Ran]) -> String {
    let pairs = by_pair(runs);
    let of = |status: Status| -> Vec<&str> {
        let worst = |of: &[&Ran]| Status::worst(of.iter().map(|ran| ran.status));
        pairs.iter().filter(|(_, of)| worst(of) == status).map(|(pair, _)| *pair).collect()
    };
    let mut parts = Vec::new();
    for (status, word) in [
        (Status::Fail, "failed"),
        (Status::Error, "could not be checked"),
        (Status::Inconclusive, "came to no answer"),
        (Status::Warn, "with warnings"),
        (Status::Pass, "passed"),
    ] {
        let names = of(status);
        match names.len() {
            0 => {}
            n if status == Status::Pass || n > 5 => parts.push(format!("{n} {word}")),
            n => parts.push(format!("{n} {word} ({})", names.join(", "))),
        }
    }
    if parts.is_empty() {
        parts.push("nothing was checked".into());
    }
    format!("{} {}: {}", pairs.len(), if pairs.len() == 1 { "pair" } else { "pairs" }, parts.join(", "))
}

/// For people. The first line is the answer.
pub fn human(runs: &[Ran], style: Style) -> String {
    let mut out = format!("{}\n", head(runs));
    for (pair, of) in by_pair(runs) {
        let _ = writeln!(out, "\n{pair}");
        for ran in of {
            let word = match ran.status {
                Status::Pass => style.good("pass"),
                Status::Fail => style.bad("FAIL"),
                Status::Error => style.bad("ERROR"),
                Status::Warn => style.odd("warn"),
                other => style.odd(other.word()),
            };
            let _ = write!(out, "  {:<7} {word}", ran.run.level);
            for (at, result) in said(ran).into_iter().enumerate() {
                let reason = result.reason.map_or(String::new(), |reason| format!(" [{}]", reason.word()));
                let _ = match at {
                    0 => writeln!(out, "  {}{reason}", result.summary),
                    _ => writeln!(out, "                {}{reason}", result.summary),
                };
            }
            // Every kind of difference has the same ones.
            let patterns = ran.results.iter().find_map(|result| result.evidence["patterns"].as_array());
            for pattern in patterns.into_iter().flatten() {
                let _ = writeln!(out, "                {}", pattern.as_str().unwrap_or_default());
            }
            if said(ran).is_empty() {
                out.push('\n');
            }
            if let Some((incident, news)) = &ran.incident {
                let _ = writeln!(out, "                {}", incident_line(incident, news.map(|n| n.word())));
            }
        }
    }
    out
}

/// The document of `-o json`.
pub fn json(runs: &[Ran]) -> Value {
    json!({
        "schema_version": super::json::SCHEMA_VERSION,
        "status": Status::worst(runs.iter().map(|ran| ran.status)).word(),
        "runs": runs.iter().map(run).collect::<Value>(),
    })
}

/// One run, as an object.
pub fn run(ran: &Ran) -> Value {
    let results: Value = ran
        .results
        .iter()
        .map(|r| {
            json!({
                "check": r.id,
                "metric": r.metric,
                "status": r.status.word(),
                "reason": r.reason.map(|reason| reason.word()),
                "measured": r.measured,
                "threshold": r.threshold,
                "n": r.n,
                "bound": r.bound.map(|(low, high)| json!({ "low": low, "high": high })),
                "summary": r.summary,
                "evidence": r.evidence,
            })
        })
        .collect();
    json!({
        "run": ran.run.id,
        "pair": ran.run.pair,
        "level": ran.run.level,
        "status": ran.status.word(),
        "started": rfc3339(ran.run.started),
        "rows_compared": ran.run.rows,
        "results": results,
        "incident": ran.incident.as_ref().map(|(incident, news)| json!({
            "number": incident.number,
            "kind": incident.kind.word(),
            "state": incident.state.word(),
            "severity": incident.severity.word(),
            "attribution": incident.attribution.word(),
            "news": news.map(|n| n.word()),
        })),
    })
}

/// For a comment or a ticket.
pub fn markdown(runs: &[Ran]) -> String {
    let mut out = format!("**{}**\n\n| pair | level | status | |\n| --- | --- | --- | --- |\n", head(runs));
    for ran in runs {
        let what: Vec<String> =
            said(ran).iter().map(|result| super::markdown::text(&result.summary)).collect();
        let pair = super::markdown::text(&ran.run.pair);
        let _ =
            writeln!(out, "| {pair} | {} | {} | {} |", ran.run.level, ran.status.word(), what.join("<br>"));
    }
    out
}

/// For the test views of CI systems: one suite for each pair, one case for each check.
pub fn junit(runs: &[Ran]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for ran in runs {
        let count = |statuses: &[Status]| ran.results.iter().filter(|r| statuses.contains(&r.status)).count();
        let name = super::words::escaped(&format!("{} {}", ran.run.pair, ran.run.level));
        let _ = writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"{}\">",
            ran.results.len(),
            count(&[Status::Fail]),
            count(&[Status::Error, Status::Inconclusive]),
        );
        for result in &ran.results {
            let (metric, text) =
                (super::words::escaped(&result.metric), super::words::escaped(&result.summary));
            let inner = match result.status {
                Status::Fail => format!("<failure message=\"{text}\"/>"),
                Status::Error | Status::Inconclusive => format!("<error message=\"{text}\"/>"),
                Status::Skipped => "<skipped/>".into(),
                _ => String::new(),
            };
            let _ = writeln!(out, "    <testcase classname=\"{name}\" name=\"{metric}\">{inner}</testcase>");
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}
