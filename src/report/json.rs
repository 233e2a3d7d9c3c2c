//! The document of `-o json`, exactly as `docs/interface.md` fixes it.

use serde_json::{Map, Value, json};

use crate::compare::{
    CONFIDENCE, CompareOutcome, DuplicateKey, NotCompared, Pattern, Place, Population, Sampled, Tally,
};
use crate::schema::{Finding, FindingKind, Severity};
use crate::value::hash::Hash;
use crate::value::recipe::VERSION;

/// The version of the document.
pub const SCHEMA_VERSION: u32 = 1;

/// The document of `drift compare`.
pub fn compare(outcome: &CompareOutcome) -> Value {
    let mut doc = Map::new();
    doc.insert("schema_version".into(), SCHEMA_VERSION.into());
    doc.insert("verdict".into(), outcome.verdict().word().into());
    doc.insert("confirmed_drift".into(), outcome.confirmed_drift().into());
    for (name, side) in ["source", "target"].into_iter().zip(&outcome.sides) {
        doc.insert(
            name.into(),
            json!({ "name": side.name, "rows": side.rows, "position": side.position.log }),
        );
        if !side.read_on_at.is_empty() {
            doc[name]["read_on_at"] = json!(side.read_on_at);
        }
    }
    let recipe = outcome.recipe.as_ref();
    let key: Vec<&str> = recipe.map_or(Vec::new(), |r| r.key.iter().map(|rule| rule.name.as_str()).collect());
    doc.insert("key".into(), json!(key));
    doc.insert("columns".into(), columns(outcome));
    let tally = outcome.tally.as_ref();
    doc.insert("rows".into(), rows(tally, outcome.sample.is_some()));
    if let Some(cutoff) = &outcome.cutoff {
        let seconds = cutoff.min_age.as_secs_f64();
        doc.insert("cutoff".into(), json!({ "updated_at": cutoff.column, "min_age_seconds": seconds }));
    }
    if let Some(sample) = &outcome.sample {
        doc.insert("sample".into(), sampled(sample));
    }
    doc.insert(
        "differences".into(),
        tally.map_or(json!([]), |t| {
            t.differences.iter().map(|d| Value::Object(d.json(outcome.confirmation.is_some()))).collect()
        }),
    );
    let truncated = tally.is_some_and(|t| t.different() > t.differences.len() as u64);
    doc.insert("differences_truncated".into(), truncated.into());
    let duplicates = |side: usize| -> Value {
        tally.map_or(json!([]), |t| t.duplicates[side].iter().map(duplicate).collect())
    };
    doc.insert("duplicate_keys".into(), json!({ "source": duplicates(0), "target": duplicates(1) }));
    let ranges: Vec<Value> = tally.map_or(Vec::new(), |t| {
        t.ranges.iter().map(|r| json!({ "from": *r.from, "to": *r.to, "rows": r.rows })).collect()
    });
    doc.insert("ranges".into(), ranges.into());
    doc.insert("ranges_merged".into(), tally.is_some_and(|t| t.ranges.are_merged()).into());
    doc.insert("patterns".into(), tally.map_or(json!([]), |t| t.patterns().iter().map(pattern).collect()));
    doc.insert("schema".into(), findings(outcome));
    doc.insert("not_compared".into(), outcome.not_compared.iter().map(not_compared).collect());
    doc.insert("hops".into(), json!([]));
    let lossy: Vec<&str> = recipe.map_or(Vec::new(), |r| {
        r.key.iter().chain(&r.values).filter(|rule| rule.lossy).map(|rule| rule.name.as_str()).collect()
    });
    doc.insert(
        "equality".into(),
        json!({ "digest_version": VERSION, "hash_bits": recipe.map_or(Hash::default(), |r| r.hash).bits(), "lost_by_normalization": lossy }),
    );
    doc.insert(
        "plan".into(),
        json!({
            "strategy": "stream",
            "statements": { "source": outcome.sides[0].statements, "target": outcome.sides[1].statements },
            "reason": outcome.reason,
        }),
    );
    doc.insert(
        "cost".into(),
        json!({
            "elapsed_seconds": (outcome.elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
            "source_rows_read": outcome.sides[0].read,
            "target_rows_read": outcome.sides[1].read,
            "bytes_received": outcome.sides[0].bytes + outcome.sides[1].bytes,
        }),
    );
    Value::Object(doc)
}

/// The document of `drift schema`: the same without the row parts.
pub fn schema(outcome: &CompareOutcome) -> Value {
    let bad = schema_breaks(outcome);
    let side = |at: usize| json!({ "name": outcome.sides[at].name });
    let verdict = if !outcome.not_compared.is_empty() {
        "incomplete"
    } else if bad {
        "drift"
    } else {
        "equal"
    };
    json!({
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict,
        "confirmed_drift": bad,
        "source": side(0),
        "target": side(1),
        "schema": findings(outcome),
        "not_compared": outcome.not_compared.iter().map(not_compared).collect::<Value>(),
        "cost": { "elapsed_seconds": (outcome.elapsed.as_secs_f64() * 1000.0).round() / 1000.0 },
    })
}

/// Whether a finding is more than information.
pub fn schema_breaks(outcome: &CompareOutcome) -> bool {
    outcome.findings.iter().any(|f| {
        f.severity != Severity::Info
            || matches!(f.kind, FindingKind::ColumnMissing | FindingKind::ColumnAdded)
    })
}

fn columns(outcome: &CompareOutcome) -> Value {
    let Some(recipe) = &outcome.recipe else { return json!([]) };
    let types = outcome.engine_types.iter().skip(recipe.key.len());
    let counts = outcome.tally.as_ref().map(|t| t.by_column.clone()).unwrap_or_default();
    recipe
        .values
        .iter()
        .zip(types)
        .zip(counts)
        .map(|((rule, (source, target)), differing)| {
            json!({
                "name": rule.name,
                "source_type": source,
                "target_type": target,
                "compared_as": rule.compared_as(),
                "lossy": rule.lossy,
                "note": rule.note,
                "differing_rows": differing,
            })
        })
        .collect()
}

/// The counts; all zero when nothing was read, so that scripts find them in every document.
fn rows(tally: Option<&Tally>, sampled: bool) -> Value {
    let count = |of: fn(&Tally) -> u64| tally.map_or(0, of);
    json!({
        "compared": count(|t| t.equal + t.changed + t.in_flight),
        "equal": count(|t| t.equal),
        "only_in_source": count(|t| t.only_in_source),
        "only_in_target": count(|t| t.only_in_target),
        "changed": count(|t| t.changed),
        "in_flight": count(|t| t.in_flight),
        "sampled": sampled,
    })
}

fn sampled(sample: &Sampled) -> Value {
    let bound = &sample.bound;
    let (of, estimated) = match sample.of {
        Some(Population::Counted(rows)) => (Some(rows), false),
        Some(Population::Estimated(rows)) => (Some(rows), true),
        None => (None, false),
    };
    json!({
        "seed": sample.wish.seed,
        "rows": bound.rows,
        "of": of,
        "of_estimated": estimated,
        "differing": bound.differing,
        "share_low": bound.low,
        "share_high": bound.high,
        "confidence": CONFIDENCE,
    })
}

fn pattern(p: &Pattern) -> Value {
    let places: Vec<Value> = p.places.iter().map(place).collect();
    json!({ "column": p.column, "pattern": p.pattern, "detail": p.detail, "rows": p.rows, "where": places })
}

fn place(place: &Place) -> Value {
    match place {
        Place::Run { from, to } => json!({ "from": from, "to": to }),
        Place::Time { column, unit, from } => json!({ "column": column, "unit": unit, "from": from }),
        Place::Value { column, value } => json!({ "column": column, "value": value }),
    }
}

fn duplicate(d: &DuplicateKey) -> Value {
    json!({ "key": d.key, "rows": d.rows })
}

fn findings(outcome: &CompareOutcome) -> Value {
    let finding = |f: &Finding| {
        json!({
            "kind": f.kind.word(),
            "column": f.column,
            "source": f.source,
            "target": f.target,
            "severity": f.severity.word(),
        })
    };
    outcome.findings.iter().map(finding).collect()
}

fn not_compared(n: &NotCompared) -> Value {
    json!({ "column": n.column, "reason": n.reason, "severity": n.severity.word() })
}
