//! Judges what was measured by the thresholds. Pure: the same evidence and the same thresholds give the same results, now
//! and when stored evidence is judged again.

use serde_json::{Value, json};

use super::check::{CheckResult, Reason, Status, check_id};
use super::measure::{Against, RowMeasure, SchemaFinding, SchemaMeasure};
use crate::compare::Bound;
use crate::config::settings::{RowChecks, SCHEMA_FINDINGS, SchemaChecks, Thresholds, TypeWeights, Weight};
use crate::config::threshold::Limit;

/// Findings named in a summary.
const NAMED: usize = 3;

/// How bad a finding is by the configuration.
pub fn weight(finding: &SchemaFinding, checks: &SchemaChecks) -> Weight {
    let configured = match finding.kind.as_str() {
        "column_missing" => checks.column_missing,
        "column_added" => checks.column_added,
        "type_changed" => match checks.type_changed {
            TypeWeights::Any(weight) => weight,
            TypeWeights::ByKind { narrowing, widening } => {
                if finding.narrows {
                    narrowing
                } else {
                    widening
                }
            }
        },
        // Who allows more NULLs than before refuses nothing.
        "nullability_changed" if !finding.narrows => checks.nullability_changed.min(Weight::Info),
        "nullability_changed" => checks.nullability_changed,
        "key_changed" => checks.key_changed,
        "order_changed" => checks.order_changed,
        "default_changed" => checks.default_changed,
        _ => checks.untagged_version,
    };
    let known = finding.against == Against::Target
        && finding.column.as_ref().is_some_and(|column| checks.accept.contains(column));
    if known || finding.agreed { configured.min(Weight::Info) } else { configured }
}

/// The results of a schema check: one for each kind of finding.
pub fn schema(pair: &str, measure: &SchemaMeasure, checks: &SchemaChecks) -> Vec<CheckResult> {
    let mut out = Vec::new();
    for kind in SCHEMA_FINDINGS {
        if kind == "untagged_version" && checks.version_tag.is_none() {
            continue;
        }
        let found: Vec<(&SchemaFinding, Weight)> = measure
            .findings
            .iter()
            .filter(|finding| finding.kind == kind)
            .map(|finding| (finding, weight(finding, checks)))
            .filter(|(_, weight)| *weight != Weight::Ignore)
            .collect();
        let worst = found.iter().map(|(_, weight)| *weight).max();
        let status = match worst {
            Some(Weight::Fail) => Status::Fail,
            Some(Weight::Warn) => Status::Warn,
            _ => Status::Pass,
        };
        let listed: Vec<String> = found
            .iter()
            .filter(|(_, weight)| Some(*weight) == worst)
            .map(|(finding, _)| finding.summary())
            .collect();
        let evidence: Value =
            found.iter().map(|(finding, weight)| json!({ "finding": finding, "weight": weight })).collect();
        out.push(CheckResult {
            id: check_id(pair, "schema", kind),
            metric: kind.into(),
            status,
            reason: None,
            measured: Some(found.iter().filter(|(_, weight)| *weight > Weight::Info).count() as f64),
            threshold: Some("0".into()),
            n: None,
            bound: None,
            summary: shortened(&listed),
            evidence,
        });
    }
    out
}

/// A check that could not be made at all.
pub fn impossible(pair: &str, level: &str, status: Status, reason: Reason, why: &str) -> CheckResult {
    CheckResult {
        id: check_id(pair, level, "compared"),
        metric: "compared".into(),
        status,
        reason: Some(reason),
        measured: None,
        threshold: None,
        n: None,
        bound: None,
        summary: why.into(),
        evidence: Value::Null,
    }
}

fn shortened(parts: &[String]) -> String {
    match parts.len() {
        n if n > NAMED => format!("{}; and {} more", parts[..NAMED].join("; "), n - NAMED),
        _ => parts.join("; "),
    }
}

/// The results of a row check: one for each kind of difference, and `compared` for what could not be looked at. `broken`
/// names columns whose schema has failed: rows that differ in these alone follow from that.
pub fn rows(
    pair: &str,
    level: &str,
    measure: &RowMeasure,
    checks: &RowChecks,
    broken: &[String],
) -> Vec<CheckResult> {
    let mut out = Vec::new();
    // Nothing was read: there is nothing to judge.
    let read = measure.rows > 0 || measure.reason.is_none();
    if read && measure.reason != Some(Reason::Unconfirmed) {
        let follows = !measure.by_column.is_empty()
            && measure.by_column.iter().all(|(column, _)| broken.contains(column));
        let kinds: [(&str, u64, &Thresholds, bool); 4] = [
            ("changed", measure.changed, &checks.changed, follows),
            ("only_in_source", measure.only_in_source, &checks.only_in_source, false),
            ("only_in_target", measure.only_in_target, &checks.only_in_target, false),
            ("duplicate_keys", measure.duplicate_keys, &checks.duplicate_keys, false),
        ];
        for (metric, count, thresholds, follows) in kinds {
            out.push(counted(pair, level, measure, metric, count, thresholds, follows));
        }
    }
    out.push(match measure.reason {
        Some(reason) => {
            let status = match reason {
                Reason::InFlight | Reason::LagTooHigh | Reason::Unconfirmed | Reason::BudgetExceeded => {
                    Status::Inconclusive
                }
                _ => Status::Error,
            };
            let why = match reason {
                Reason::InFlight => {
                    format!("{} rows kept changing while they were looked at", measure.in_flight)
                }
                _ => shortened(&measure.not_compared),
            };
            let mut result = impossible(pair, level, status, reason, &why);
            result.n = Some(measure.rows);
            result.evidence = json!({ "not_compared": measure.not_compared });
            result
        }
        None => CheckResult {
            id: check_id(pair, level, "compared"),
            metric: "compared".into(),
            status: Status::Pass,
            reason: None,
            measured: Some(measure.rows as f64),
            threshold: None,
            n: Some(measure.rows),
            bound: None,
            summary: format!("{} rows compared", measure.rows),
            evidence: Value::Null,
        },
    });
    out
}

fn counted(
    pair: &str,
    level: &str,
    measure: &RowMeasure,
    metric: &str,
    count: u64,
    thresholds: &Thresholds,
    follows: bool,
) -> CheckResult {
    let sampled = measure.power < 1.0;
    let bound = Bound::of(count, measure.rows);
    let above = |limit: &Limit| match limit {
        // Rows that were seen to differ are a fact, whatever the sample.
        Limit::Rows(rows) => count > *rows,
        Limit::Share(share) => {
            let measured = match (sampled, measure.rows) {
                (_, 0) => 0.0,
                (true, _) => bound.low,
                (false, rows) => count as f64 / rows as f64,
            };
            measured > share.0
        }
    };
    let (status, threshold) = match (&thresholds.fail, &thresholds.warn) {
        (Some(fail), _) if above(fail) => (Status::Fail, Some(fail)),
        (_, Some(warn)) if above(warn) => (Status::Warn, Some(warn)),
        (fail, warn) => (Status::Pass, warn.as_ref().or(fail.as_ref())),
    };
    let breached = matches!(status, Status::Warn | Status::Fail);
    let whole = if sampled { "a sample of " } else { "" };
    let of = format!("{count} of {whole}{} rows", measure.rows);
    let verb = if count == 1 { "is" } else { "are" };
    let summary = match metric {
        "changed" => format!("{of} {}", if count == 1 { "differs" } else { "differ" }),
        "only_in_source" => format!("{of} {verb} missing in the target"),
        "only_in_target" => format!("{of} {verb} in the target only"),
        _ if count == 1 => "1 key stands in several rows".to_string(),
        _ => format!("{count} keys stand in several rows"),
    };
    CheckResult {
        id: check_id(pair, level, metric),
        metric: metric.into(),
        status,
        reason: (breached && follows).then_some(Reason::SchemaMismatch),
        measured: Some(count as f64),
        threshold: threshold.map(Limit::to_string),
        n: Some(measure.rows),
        bound: sampled.then_some((bound.low, bound.high)),
        summary,
        evidence: if count == 0 {
            Value::Null
        } else {
            json!({ "patterns": measure.patterns, "by_column": measure.by_column, "ranges": measure.ranges })
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::measure::Against;
    use crate::config::threshold::Ratio;

    fn measured(rows: u64, changed: u64) -> RowMeasure {
        RowMeasure { rows, changed, power: 1.0, confirmed: true, ..RowMeasure::default() }
    }

    fn checks(warn: Option<Limit>, fail: Option<Limit>) -> RowChecks {
        RowChecks { changed: Thresholds { warn, fail }, ..RowChecks::default() }
    }

    fn changed(measure: &RowMeasure, checks: &RowChecks) -> Status {
        rows("p", "rows", measure, checks, &[])[0].status
    }

    #[test]
    fn a_threshold_is_the_largest_accepted_value() {
        let share = Some(Limit::Share(Ratio(0.001)));
        let both = checks(Some(Limit::Rows(0)), share);
        assert_eq!(changed(&measured(10_000, 0), &both), Status::Pass);
        assert_eq!(changed(&measured(10_000, 10), &both), Status::Warn, "exactly the threshold is accepted");
        assert_eq!(changed(&measured(10_000, 11), &both), Status::Fail);
        assert_eq!(changed(&measured(0, 0), &both), Status::Pass);
        assert_eq!(changed(&measured(10, 1), &checks(None, None)), Status::Pass);
    }

    #[test]
    fn a_sample_fails_by_what_it_proves() {
        let both = checks(Some(Limit::Rows(0)), Some(Limit::Share(Ratio(0.001))));
        let sample = |changed| RowMeasure { power: 0.01, ..measured(1000, changed) };
        // 3 of 1,000 are 0.3 %, yet the whole table may well hold less than 0.1 %.
        assert_eq!(changed(&sample(3), &both), Status::Warn);
        assert_eq!(changed(&sample(30), &both), Status::Fail);
        let proven = checks(None, Some(Limit::Rows(0)));
        assert_eq!(changed(&sample(1), &proven), Status::Fail, "a row that was seen is a fact");
    }

    #[test]
    fn what_could_not_be_checked_is_no_pass() {
        let lost = RowMeasure {
            reason: Some(Reason::Unreachable),
            not_compared: vec!["source: gone".into()],
            ..RowMeasure::default()
        };
        let results = rows("p", "rows", &lost, &RowChecks::default(), &[]);
        assert_eq!(results.len(), 1);
        assert_eq!(Status::worst(results.iter().map(|r| r.status)), Status::Error);
        let half = RowMeasure { reason: Some(Reason::Unreachable), ..measured(500, 2) };
        let statuses: Vec<Status> =
            rows("p", "rows", &half, &RowChecks::default(), &[]).iter().map(|r| r.status).collect();
        assert!(statuses.contains(&Status::Fail) && statuses.contains(&Status::Error), "{statuses:?}");
        let unsure = RowMeasure { reason: Some(Reason::Unconfirmed), ..measured(500, 2) };
        let results = rows("p", "rows", &unsure, &RowChecks::default(), &[]);
        assert_eq!(Status::worst(results.iter().map(|r| r.status)), Status::Inconclusive);
    }

    #[test]
    fn rows_that_differ_in_a_broken_column_alone_follow_from_it() {
        let measure = RowMeasure { by_column: vec![("rate".into(), 5)], ..measured(500, 5) };
        let broken = ["rate".to_string()];
        let result = rows("p", "rows", &measure, &RowChecks::default(), &broken).remove(0);
        assert_eq!((result.status, result.reason), (Status::Fail, Some(Reason::SchemaMismatch)));
        let more = RowMeasure { by_column: vec![("rate".into(), 5), ("note".into(), 1)], ..measured(500, 6) };
        assert_eq!(rows("p", "rows", &more, &RowChecks::default(), &broken)[0].reason, None);
    }

    #[test]
    fn schema_findings_weigh_as_configured() {
        let finding = |kind: &str, narrows| SchemaFinding {
            kind: kind.into(),
            against: Against::Target,
            column: Some("memo".into()),
            from: Some("text".into()),
            to: Some("varchar(20)".into()),
            narrows,
            renamed: None,
            agreed: false,
        };
        let measure = SchemaMeasure {
            findings: vec![
                finding("type_changed", false),
                finding("column_added", true),
                finding("order_changed", false),
            ],
        };
        let statuses = |measure: &SchemaMeasure| -> Vec<(String, Status)> {
            schema("p", measure, &SchemaChecks::default())
                .into_iter()
                .filter(|r| r.status != Status::Pass)
                .map(|r| (r.metric, r.status))
                .collect()
        };
        assert_eq!(statuses(&measure), [("column_added".to_string(), Status::Warn)]);
        let narrower = SchemaMeasure { findings: vec![finding("type_changed", true)] };
        assert_eq!(statuses(&narrower), [("type_changed".to_string(), Status::Fail)]);
    }

    #[test]
    fn a_check_keeps_its_identity_whatever_its_thresholds() {
        let a = rows("p", "rows", &measured(10, 0), &checks(None, None), &[]);
        let b = rows("p", "rows", &measured(10, 5), &checks(Some(Limit::Rows(3)), None), &[]);
        assert_eq!(a[0].id, b[0].id);
        assert_ne!(a[0].id, a[1].id);
        assert_ne!(check_id("ab", "c", "d"), check_id("a", "bc", "d"));
    }
}
