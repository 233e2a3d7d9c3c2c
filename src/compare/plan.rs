//! From two table shapes and a request to a recipe and a way of reading. Pure: connects to nothing.

use super::outcome::NotCompared;
use super::request::{CompareRequest, KeyChoice};
use super::side::Delivery;
use super::tally::Side;
use crate::endpoint::{Error, ErrorKind};
use crate::schema::{self, Finding, FindingKind, Pairing, Severity};
use crate::value::recipe::{ColumnRule, Common, Normalize, Recipe, Tolerance};
use crate::value::shape::{ColumnShape, Engine, LogicalType, NativeOrder, TableShape};

/// How two tables will be compared.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) recipe: Recipe,
    pub(crate) deliveries: [Delivery; 2],
    /// The key's columns by their names on each side.
    pub(crate) keys: [Vec<String>; 2],
    pub(crate) findings: Vec<Finding>,
    pub(crate) not_compared: Vec<NotCompared>,
    /// Whether the leading key column can be cut into ranges on both sides.
    pub(crate) divisible: bool,
}

impl Plan {
    /// The columns to read on one side, key first.
    pub(crate) fn columns(&self, side: Side) -> Vec<String> {
        let name = |rule: &ColumnRule| match side {
            Side::Source => rule.name.clone(),
            Side::Target => rule.target_name.clone(),
        };
        self.recipe.key.iter().chain(&self.recipe.values).map(name).collect()
    }

    /// Why the rows are read as they are, for people.
    pub(crate) fn reason(&self) -> String {
        let word = |delivery| match delivery {
            Delivery::Ordered => "ordered by an index",
            Delivery::Hoped => "expected to lie in order, checked",
            Delivery::Sorted => "sorted by drift",
        };
        let how = if self.recipe.key.is_empty() { "merged by row hash" } else { "merged in key order" };
        match self.deliveries {
            [source, target] if source == target => format!("{how}; both sides {}", word(source)),
            [source, target] => format!("{how}; source {}, target {}", word(source), word(target)),
        }
    }
}

/// Makes the plan. Errors are about what the user asked for.
pub(crate) fn plan(
    source: &TableShape,
    target: &TableShape,
    names: [&str; 2],
    request: &CompareRequest,
) -> Result<Plan, Error> {
    check_names(source, target, names, request)?;
    let pairing = schema::pair(source, target, &request.map);
    let key = choose_key(source, target, names, request, &pairing)?;
    let excluded = |name: &String| request.exclude.contains(name);
    let wanted = |name: &String| request.columns.as_ref().is_none_or(|wanted| wanted.contains(name));
    let mut recipe = Recipe {
        key: Vec::new(),
        values: Vec::new(),
        impossible_dates_as_null: request.impossible_dates_as_null,
        hash: request.hash,
    };
    let mut not_compared = Vec::new();
    for (s, t) in &pairing.shared {
        let (Some(a), Some(b)) = (source.column(s), target.column(t)) else { continue };
        let is_key = key.iter().any(|(k, _)| k == s);
        if !is_key && (excluded(s) || excluded(t) || !(wanted(s) || wanted(t))) {
            continue;
        }
        if let Some(why) = a.unreadable.as_ref().or(b.unreadable.as_ref()) {
            if is_key {
                return Err(Error::new(
                    ErrorKind::Refused,
                    format!("the key column {s:?} cannot be read: {why}"),
                ));
            }
            not_compared.push(NotCompared::column(s, why));
            continue;
        }
        if is_key {
            continue;
        }
        match ColumnRule::between(a, source.engine, b, target.engine) {
            Ok(mut rule) => {
                apply_wishes(&mut rule, request)?;
                recipe.values.push(rule);
            }
            Err(why) => not_compared.push(NotCompared::column(s, &why.0)),
        }
    }
    for (s, t) in &key {
        let (Some(a), Some(b)) = (source.column(s), target.column(t)) else { continue };
        let mut rule = ColumnRule::between(a, source.engine, b, target.engine)
            .map_err(|why| Error::usage(format!("the key column {s:?} cannot be paired: {}", why.0)))?;
        apply_wishes(&mut rule, request)?;
        if rule.tolerance.is_some() {
            return Err(Error::usage(format!(
                "--tolerance: {s:?} is a key column, and keys are paired exactly"
            )));
        }
        if rule.coarse.take().is_some() {
            rule.add_note("but as a key it is paired exactly");
        }
        recipe.key.push(rule);
    }
    for (shape, side) in [(source, Side::Source), (target, Side::Target)] {
        if let Some(why) = &shape.hidden_rows {
            let visible_part_named = request.columns.is_some()
                || (if side == Side::Source { &request.source_where } else { &request.target_where })
                    .is_some();
            let severity = if visible_part_named { Severity::Warn } else { Severity::Fail };
            not_compared.push(NotCompared::table(side, why, severity));
        }
    }
    let keys: [Vec<String>; 2] =
        [key.iter().map(|(s, _)| s.clone()).collect(), key.iter().map(|(_, t)| t.clone()).collect()];
    let deliveries = [
        delivery(source, &keys[0], &recipe, Side::Source),
        delivery(target, &keys[1], &recipe, Side::Target),
    ];
    let divisible = deliveries == [Delivery::Ordered; 2]
        && recipe.key.first().is_some_and(|rule| {
            matches!(
                rule.common,
                Common::Int64
                    | Common::UInt64
                    | Common::Decimal { scale: 0, .. }
                    | Common::Date
                    | Common::Timestamp { nanos: false, .. }
                    | Common::Uuid
                    | Common::Bytes
            )
        });
    let mut findings: Vec<Finding> = schema::findings(source, target, &pairing)
        .into_iter()
        .filter(|f| relevant(f, request, &pairing))
        .collect();
    unreadable_is_no_finding(source, target, &mut findings, &mut not_compared);
    Ok(Plan { recipe, deliveries, keys, findings, not_compared, divisible })
}

/// Findings about columns that the user left out do not count; `--columns` also leaves out what is missing.
fn relevant(finding: &Finding, request: &CompareRequest, pairing: &Pairing) -> bool {
    let Some(column) = &finding.column else { return true };
    if request.exclude.contains(column) {
        return false;
    }
    let target_name = pairing.shared.iter().find(|(s, _)| s == column).map(|(_, t)| t);
    if target_name.is_some_and(|t| request.exclude.contains(t)) {
        return false;
    }
    match (&request.columns, finding.kind) {
        (Some(wanted), FindingKind::ColumnMissing | FindingKind::ColumnAdded) => wanted.contains(column),
        _ => true,
    }
}

/// A column that one side hides or refuses may well exist there: what it leaves alone on the other side is not compared
/// rather than different.
fn unreadable_is_no_finding(
    source: &TableShape,
    target: &TableShape,
    findings: &mut Vec<Finding>,
    not_compared: &mut Vec<NotCompared>,
) {
    let hidden = |shape: &TableShape, name: &str| shape.column(name).and_then(|c| c.unreadable.clone());
    let alone = |kind| {
        let of = if kind == FindingKind::ColumnMissing { source } else { target };
        findings
            .iter()
            .filter(move |f| f.kind == kind)
            .filter_map(move |f| f.column.as_deref().and_then(|name| hidden(of, name)))
    };
    let reasons = [alone(FindingKind::ColumnMissing).next(), alone(FindingKind::ColumnAdded).next()];
    if reasons == [None, None] {
        return;
    }
    findings.retain(|f| {
        let (own, other) = match f.kind {
            FindingKind::ColumnMissing => (source, &reasons[1]),
            FindingKind::ColumnAdded => (target, &reasons[0]),
            _ => return true,
        };
        let Some(name) = f.column.as_deref() else { return true };
        match hidden(own, name)
            .or_else(|| other.as_ref().map(|why| format!("the other side may hide it: {why}")))
        {
            Some(why) => {
                not_compared.push(NotCompared::column(name, &why));
                false
            }
            None => true,
        }
    });
}

fn names_of(shape: &TableShape) -> String {
    shape.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Every column that the user names must exist.
fn check_names(
    source: &TableShape,
    target: &TableShape,
    names: [&str; 2],
    request: &CompareRequest,
) -> Result<(), Error> {
    let unknown = |flag: &str, column: &str, shape: &TableShape, name: &str| {
        Error::usage(format!("{flag}: {name} has no column {column:?}; it has {}", names_of(shape)))
    };
    for (s, t) in &request.map {
        if source.column(s).is_none() {
            return Err(unknown("--map", s, source, names[0]));
        }
        if target.column(t).is_none() {
            return Err(unknown("--map", t, target, names[1]));
        }
    }
    let anywhere = |flag: &str, column: &str| {
        if source.column(column).is_none() && target.column(column).is_none() {
            return Err(unknown(flag, column, source, names[0]));
        }
        Ok(())
    };
    for column in request.columns.iter().flatten() {
        anywhere("--columns", column)?;
    }
    if !request.exclude_any {
        for column in &request.exclude {
            anywhere("--exclude", column)?;
        }
    }
    for (column, _) in &request.normalize {
        anywhere("--normalize", column)?;
    }
    for (column, _) in &request.tolerance {
        anywhere("--tolerance", column)?;
    }
    Ok(())
}

/// The key as pairs of source and target names; empty for a comparison without one.
fn choose_key(
    source: &TableShape,
    target: &TableShape,
    names: [&str; 2],
    request: &CompareRequest,
    pairing: &Pairing,
) -> Result<Vec<(String, String)>, Error> {
    let paired = |s: &String| pairing.shared.iter().find(|(from, _)| from == s).cloned();
    match &request.key {
        KeyChoice::Keyless => Ok(Vec::new()),
        KeyChoice::Columns(columns) => columns
            .iter()
            .map(|s| {
                paired(s).or_else(|| pairing.shared.iter().find(|(_, t)| t == s).cloned()).ok_or_else(|| {
                    let (shape, name) =
                        if source.column(s).is_none() { (source, names[0]) } else { (target, names[1]) };
                    Error::usage(format!("--key: {name} has no column {s:?}; it has {}", names_of(shape)))
                })
            })
            .collect(),
        KeyChoice::Primary => {
            let as_source = |t: &String| pairing.shared.iter().find(|(_, to)| to == t).cloned();
            let from_source: Option<Vec<_>> = source.primary_key.iter().map(paired).collect();
            let from_target: Option<Vec<_>> = target.primary_key.iter().map(as_source).collect();
            let has_key = |shape: &TableShape| !shape.primary_key.is_empty();
            match (has_key(source), has_key(target)) {
                (true, true) => {
                    let same = match (&from_source, &from_target) {
                        (Some(a), Some(b)) => a.len() == b.len() && a.iter().all(|k| b.contains(k)),
                        _ => false,
                    };
                    from_source.filter(|_| same).ok_or_else(|| {
                        Error::usage(format!(
                            "the primary keys differ: {} has ({}), {} has ({}); choose one with --key",
                            names[0],
                            source.primary_key.join(", "),
                            names[1],
                            target.primary_key.join(", ")
                        ))
                    })
                }
                (true, false) => from_source.ok_or_else(|| missing_part(names[1], &source.primary_key)),
                (false, true) => from_target.ok_or_else(|| missing_part(names[0], &target.primary_key)),
                (false, false) => Err(no_key(source, target, names)),
            }
        }
    }
}

fn missing_part(name: &str, key: &[String]) -> Error {
    Error::usage(format!(
        "{name} lacks a column of the other side's primary key ({}); choose one with --key",
        key.join(", ")
    ))
}

fn no_key(source: &TableShape, target: &TableShape, names: [&str; 2]) -> Error {
    let mut candidates: Vec<String> = Vec::new();
    for index in source.unique.iter().chain(&target.unique) {
        let text = index.join(",");
        if !candidates.contains(&text) {
            candidates.push(text);
        }
    }
    let hint = if candidates.is_empty() {
        "name one with --key COL[,COL], or compare multisets of rows with --key none".to_string()
    } else {
        format!("unique candidates: {}; choose one with --key, or --key none", candidates.join("; "))
    };
    Error::usage(format!("neither {} nor {} has a primary key; {hint}", names[0], names[1]))
}

fn apply_wishes(rule: &mut ColumnRule, request: &CompareRequest) -> Result<(), Error> {
    let mine = |name: &String| *name == rule.name || *name == rule.target_name;
    let wishes: Vec<Normalize> = request.normalize.iter().filter(|(c, _)| mine(c)).map(|(_, w)| *w).collect();
    let tolerance = request.tolerance.iter().rfind(|(c, _)| mine(c)).map(|(_, t)| *t);
    if !wishes.is_empty() {
        if rule.common != Common::Text {
            return Err(Error::usage(format!(
                "--normalize: column {:?} is compared as {}; only text can be normalized",
                rule.name,
                rule.compared_as()
            )));
        }
        rule.normalize = wishes;
        rule.lossy = true;
        rule.add_note("normalized as asked");
    }
    if let Some(tolerance) = tolerance {
        let fits = match tolerance {
            Tolerance::Duration(_) => {
                matches!(rule.common, Common::Timestamp { .. } | Common::Time { .. } | Common::Date)
            }
            _ => matches!(
                rule.common,
                Common::Int64
                    | Common::UInt64
                    | Common::Decimal { .. }
                    | Common::DecimalText
                    | Common::Float32
                    | Common::Float64
            ),
        };
        if !fits {
            return Err(Error::usage(format!(
                "--tolerance: column {:?} is compared as {}, which this tolerance does not fit (numbers take 0.01 or 1%, times take 2s)",
                rule.name,
                rule.compared_as()
            )));
        }
        rule.tolerance = Some(tolerance);
        rule.lossy = true;
        rule.add_note("within the tolerance asked for");
    }
    Ok(())
}

fn delivery(shape: &TableShape, key: &[String], recipe: &Recipe, side: Side) -> Delivery {
    if recipe.key.is_empty() {
        return Delivery::Sorted;
    }
    let file = matches!(shape.engine, Engine::TypedFile | Engine::UntypedFile);
    let orders = recipe.key.iter().zip(key).all(|(rule, name)| {
        shape.column(name).is_some_and(|column| file || order_is_canonical(rule, column, side))
    });
    if orders && shape.delivers_order(key) {
        Delivery::Ordered
    } else if orders && shape.may_be_ordered {
        Delivery::Hoped
    } else {
        Delivery::Sorted
    }
}

/// Whether the engine's order of a column is the order of its common form.
fn order_is_canonical(rule: &ColumnRule, column: &ColumnShape, side: Side) -> bool {
    if !rule.normalize.is_empty() {
        return false;
    }
    let logical = rule.side(side == Side::Source);
    match rule.common {
        Common::Bool
        | Common::Int64
        | Common::UInt64
        | Common::Decimal { .. }
        | Common::DecimalText
        | Common::Date
        | Common::Time { .. }
        | Common::Timestamp { .. } => {
            column.order == NativeOrder::Value
                && !matches!(logical, LogicalType::Float32 | LogicalType::Float64)
        }
        Common::Text | Common::Bytes | Common::Uuid => {
            let text_as_uuid = rule.common == Common::Uuid && matches!(logical, LogicalType::Text { .. });
            column.order == NativeOrder::Bytes && !text_as_uuid
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], primary_key: &[&str]) -> TableShape {
        TableShape {
            engine: Engine::Postgres,
            columns: columns
                .iter()
                .map(|name| ColumnShape {
                    name: (*name).into(),
                    engine_type: "bigint".into(),
                    logical: LogicalType::Int { bits: 64, signed: true },
                    nullable: Some(false),
                    default: None,
                    unreadable: None,
                    order: NativeOrder::Value,
                })
                .collect(),
            primary_key: primary_key.iter().map(|s| s.to_string()).collect(),
            unique: vec![primary_key.iter().map(|s| s.to_string()).collect()],
            index_orders: vec![primary_key.iter().map(|s| s.to_string()).collect()],
            comment: None,
            may_be_ordered: false,
            row_estimate: None,
            hidden_rows: None,
        }
    }

    fn planned(source: &TableShape, target: &TableShape, request: &CompareRequest) -> Result<Plan, Error> {
        plan(source, target, ["a", "b"], request)
    }

    #[test]
    fn a_tolerance_on_a_key_is_refused() {
        let t = table(&["id", "v"], &["id"]);
        let request = CompareRequest {
            tolerance: vec![("id".into(), Tolerance::Absolute(1.0))],
            ..CompareRequest::default()
        };
        assert!(planned(&t, &t, &request).unwrap_err().message.contains("paired exactly"));
    }

    #[test]
    fn a_column_that_one_side_hides_is_not_compared_rather_than_different() {
        let source = table(&["id", "v", "secret"], &["id"]);
        let mut target = table(&["id", "v", "(hidden column 3)"], &["id"]);
        target.columns[2].unreadable = Some("no privilege".into());
        let plan = planned(&source, &target, &CompareRequest::default()).unwrap();
        assert!(plan.findings.is_empty());
        let named: Vec<_> = plan.not_compared.iter().filter_map(|n| n.column.as_deref()).collect();
        assert_eq!(named, ["secret", "(hidden column 3)"]);
    }

    #[test]
    fn without_any_key_the_unique_candidates_are_named() {
        let mut t = table(&["id", "v"], &[]);
        t.unique = vec![vec!["v".into(), "id".into()]];
        let error = planned(&t, &t, &CompareRequest::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("v,id"), "{}", error.message);
    }
}
