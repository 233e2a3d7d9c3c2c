//! The difference of two table shapes, by meaning: columns are matched by name, types by what they can hold.

pub mod rename;

use crate::value::recipe::{ColumnRule, Common};
use crate::value::shape::{ColumnShape, Engine, LogicalType, TableShape};

/// What kind of difference it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// The source has the column, the target lacks it.
    ColumnMissing,
    /// The target has a column that the source lacks.
    ColumnAdded,
    /// The types hold different values.
    TypeChanged,
    /// One side allows NULL, the other does not.
    NullabilityChanged,
    /// The primary keys differ.
    KeyChanged,
    /// The shared columns stand in another order.
    OrderChanged,
    /// The defaults differ.
    DefaultChanged,
}

impl FindingKind {
    /// The name in reports.
    pub fn word(self) -> &'static str {
        match self {
            FindingKind::ColumnMissing => "column_missing",
            FindingKind::ColumnAdded => "column_added",
            FindingKind::TypeChanged => "type_changed",
            FindingKind::NullabilityChanged => "nullability_changed",
            FindingKind::KeyChanged => "key_changed",
            FindingKind::OrderChanged => "order_changed",
            FindingKind::DefaultChanged => "default_changed",
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// May lose data or surprise.
    Warn,
    /// Loses data.
    Fail,
}

impl Severity {
    /// The name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warn => "warn",
            Severity::Fail => "fail",
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// The column, by its name at the source (at the target for an added one); `None` for the table itself.
    pub column: Option<String>,
    /// What the source has.
    pub source: Option<String>,
    /// What the target has.
    pub target: Option<String>,
    /// How bad it is.
    pub severity: Severity,
}

/// Which columns of the two sides belong together.
#[derive(Debug, Clone, Default)]
pub struct Pairing {
    /// Source name and target name of every shared column, in the source's order.
    pub shared: Vec<(String, String)>,
    /// Columns that only the source has.
    pub only_source: Vec<String>,
    /// Columns that only the target has.
    pub only_target: Vec<String>,
}

/// Pairs columns by name. `map` renames source columns; names are exact, except that a name that differs in case only
/// is paired where nothing else can be meant.
pub fn pair(source: &TableShape, target: &TableShape, map: &[(String, String)]) -> Pairing {
    let mut pairing = Pairing::default();
    let mut taken: Vec<&str> = Vec::new();
    let reserved = |name: &str| map.iter().any(|(_, t)| t == name);
    for column in &source.columns {
        let mapped = map.iter().find(|(s, _)| *s == column.name).map(|(_, t)| t.as_str());
        let found = match mapped {
            Some(name) => target.column(name),
            None => target.column(&column.name).filter(|c| !reserved(&c.name)).or_else(|| {
                let mut alike = target.columns.iter().filter(|c| {
                    c.name.to_lowercase() == column.name.to_lowercase()
                        && source.column(&c.name).is_none()
                        && !reserved(&c.name)
                });
                match (alike.next(), alike.next()) {
                    (Some(one), None) => Some(one),
                    _ => None,
                }
            }),
        };
        match found.filter(|c| !taken.contains(&c.name.as_str())) {
            Some(c) => {
                taken.push(&c.name);
                pairing.shared.push((column.name.clone(), c.name.clone()));
            }
            None => pairing.only_source.push(column.name.clone()),
        }
    }
    pairing.only_target =
        target.columns.iter().filter(|c| !taken.contains(&c.name.as_str())).map(|c| c.name.clone()).collect();
    pairing
}

/// All differences of two shapes, columns in the source's order.
pub fn findings(source: &TableShape, target: &TableShape, pairing: &Pairing) -> Vec<Finding> {
    let mut out = Vec::new();
    for name in &pairing.only_source {
        let engine_type = source.column(name).map(|c| c.engine_type.clone());
        out.push(Finding {
            kind: FindingKind::ColumnMissing,
            column: Some(name.clone()),
            source: engine_type,
            target: None,
            severity: Severity::Fail,
        });
    }
    for name in &pairing.only_target {
        let engine_type = target.column(name).map(|c| c.engine_type.clone());
        out.push(Finding {
            kind: FindingKind::ColumnAdded,
            column: Some(name.clone()),
            source: None,
            target: engine_type,
            severity: Severity::Warn,
        });
    }
    for (s, t) in &pairing.shared {
        let (Some(a), Some(b)) = (source.column(s), target.column(t)) else { continue };
        out.extend(column_findings(source, a, target, b));
    }
    out.extend(key_finding(source, target, pairing));
    out.extend(order_finding(source, target, pairing));
    out
}

fn column_findings(
    source: &TableShape,
    a: &ColumnShape,
    target: &TableShape,
    b: &ColumnShape,
) -> Vec<Finding> {
    let finding = |kind, from: String, to: String, severity| Finding {
        kind,
        column: Some(a.name.clone()),
        source: Some(from),
        target: Some(to),
        severity,
    };
    let mut out = Vec::new();
    if let Some(severity) = type_change(source.engine, a, target.engine, b) {
        out.push(finding(FindingKind::TypeChanged, a.engine_type.clone(), b.engine_type.clone(), severity));
    }
    if let (Some(from), Some(to)) = (a.nullable, b.nullable)
        && from != to
        && untyped_engine(source.engine) == untyped_engine(target.engine)
        && !(source.primary_key.contains(&a.name) && target.primary_key.contains(&b.name))
    {
        // (A key's own columns hold no NULL, though SQLite's catalogue allows it.)
        let word = |nullable: bool| if nullable { "null" } else { "not null" }.to_string();
        // A target that refuses NULL will refuse rows; one that allows more refuses nothing.
        let severity = if from { Severity::Warn } else { Severity::Info };
        out.push(finding(FindingKind::NullabilityChanged, word(from), word(to), severity));
    }
    if source.engine == target.engine && a.default != b.default {
        let text = |d: &Option<String>| d.clone().unwrap_or_else(|| "none".into());
        out.push(finding(FindingKind::DefaultChanged, text(&a.default), text(&b.default), Severity::Info));
    }
    out
}

fn untyped_engine(engine: Engine) -> bool {
    matches!(engine, Engine::TypedFile | Engine::UntypedFile)
}

/// How bad the step from one type to the other is; `None` when both hold the same values.
fn type_change(from: Engine, a: &ColumnShape, to: Engine, b: &ColumnShape) -> Option<Severity> {
    use LogicalType as L;
    if a.logical.is_untyped() || b.logical.is_untyped() {
        let both_declared = from == to && !a.engine_type.is_empty() && !b.engine_type.is_empty();
        return (both_declared && !a.engine_type.eq_ignore_ascii_case(&b.engine_type))
            .then_some(Severity::Warn);
    }
    let Ok(rule) = ColumnRule::between(a, from, b, to) else { return Some(Severity::Fail) };
    match (&a.logical, &b.logical) {
        (x, y) if x == y => None,
        (L::Text { max: x, .. }, L::Text { max: y, .. }) => match (x, y) {
            (Some(x), Some(y)) if y < x => Some(Severity::Warn),
            (Some(x), Some(y)) if y > x => Some(Severity::Info),
            // An unlimited column into a limited one; files do not declare limits.
            (None, Some(_)) if !untyped_engine(from) && from == to => Some(Severity::Warn),
            _ => None,
        },
        (L::Int { bits: x, signed: p }, L::Int { bits: y, signed: q }) => {
            let range = |bits: u8, signed: bool| {
                let top = 1i128 << (bits - u8::from(signed));
                (if signed { -top } else { 0 }, top - 1)
            };
            let ((lo, hi), (lo2, hi2)) = (range(*x, *p), range(*y, *q));
            Some(if lo2 > lo || hi2 < hi { Severity::Warn } else { Severity::Info })
        }
        (L::Decimal { precision: p, scale: s }, L::Decimal { precision: q, scale: r }) => {
            let whole = |precision: u8, scale: i8| i32::from(precision) - i32::from(scale);
            Some(if r < s || whole(*q, *r) < whole(*p, *s) { Severity::Warn } else { Severity::Info })
        }
        (L::DecimalText, L::Decimal { .. }) => Some(Severity::Warn),
        (L::Decimal { .. }, L::DecimalText) => Some(Severity::Info),
        (L::Timestamp { digits: x, zoned: p }, L::Timestamp { digits: y, zoned: q }) => {
            Some(if y < x || p != q { Severity::Warn } else { Severity::Info })
        }
        (L::Time { digits: x }, L::Time { digits: y }) => {
            Some(if y < x { Severity::Warn } else { Severity::Info })
        }
        (L::Float32, L::Float64) => Some(Severity::Info),
        (L::Bits { len: x }, L::Bits { len: y }) => (x != y).then_some(Severity::Warn),
        (L::Enum, L::Enum) | (L::Bytes, L::Geometry) | (L::Geometry, L::Bytes) => Some(Severity::Info),
        // Another family of types: lossless by the rule is worth knowing, lossy is worth a warning.
        _ if rule.lossy => Some(Severity::Warn),
        _ if rule.common == Common::Bool => Some(Severity::Info),
        _ => Some(Severity::Info),
    }
}

fn key_finding(source: &TableShape, target: &TableShape, pairing: &Pairing) -> Option<Finding> {
    if source.primary_key.is_empty() || target.primary_key.is_empty() {
        return None;
    }
    let renamed: Vec<&str> = source
        .primary_key
        .iter()
        .map(|s| pairing.shared.iter().find(|(from, _)| from == s).map_or(s.as_str(), |(_, t)| t.as_str()))
        .collect();
    (renamed != target.primary_key).then(|| Finding {
        kind: FindingKind::KeyChanged,
        column: None,
        source: Some(source.primary_key.join(", ")),
        target: Some(target.primary_key.join(", ")),
        severity: Severity::Warn,
    })
}

fn order_finding(source: &TableShape, target: &TableShape, pairing: &Pairing) -> Option<Finding> {
    let place = |name: &str| target.columns.iter().position(|c| c.name == name);
    let places: Vec<_> = pairing.shared.iter().filter_map(|(_, t)| place(t)).collect();
    if places.is_sorted() || untyped_engine(source.engine) || untyped_engine(target.engine) {
        return None;
    }
    let names = |shape: &TableShape, of: Vec<&String>| {
        let order: Vec<&str> =
            shape.columns.iter().filter(|c| of.contains(&&c.name)).map(|c| c.name.as_str()).collect();
        order.join(", ")
    };
    Some(Finding {
        kind: FindingKind::OrderChanged,
        column: None,
        source: Some(names(source, pairing.shared.iter().map(|(s, _)| s).collect())),
        target: Some(names(target, pairing.shared.iter().map(|(_, t)| t).collect())),
        severity: Severity::Info,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::shape::NativeOrder;

    fn table(engine: Engine, columns: &[(&str, &str, LogicalType)]) -> TableShape {
        TableShape {
            engine,
            columns: columns
                .iter()
                .map(|(name, engine_type, logical)| ColumnShape {
                    name: (*name).into(),
                    engine_type: (*engine_type).into(),
                    logical: logical.clone(),
                    nullable: Some(true),
                    default: None,
                    unreadable: None,
                    order: NativeOrder::Value,
                })
                .collect(),
            primary_key: vec![],
            unique: vec![],
            index_orders: vec![],
            comment: None,
            may_be_ordered: false,
            row_estimate: None,
            hidden_rows: None,
        }
    }

    const INT: LogicalType = LogicalType::Int { bits: 32, signed: true };

    fn varchar(n: u32) -> LogicalType {
        LogicalType::Text { max: Some(n), padded: false }
    }

    #[test]
    fn a_column_in_the_middle_is_one_finding() {
        let a = table(Engine::Postgres, &[("id", "integer", INT), ("c", "integer", INT)]);
        let b = table(
            Engine::MySql,
            &[("id", "int(11)", INT), ("b", "varchar(1)", varchar(1)), ("c", "int(11)", INT)],
        );
        let found = findings(&a, &b, &pair(&a, &b, &[]));
        let kinds: Vec<_> = found.iter().map(|f| (f.kind, f.column.as_deref())).collect();
        assert_eq!(kinds, [(FindingKind::ColumnAdded, Some("b"))]);
    }

    #[test]
    fn a_narrower_target_is_a_warning() {
        let a = table(Engine::Postgres, &[("memo", "varchar(255)", varchar(255))]);
        let b = table(Engine::MySql, &[("memo", "varchar(20)", varchar(20))]);
        let found = findings(&a, &b, &pair(&a, &b, &[]));
        assert_eq!(found[0].kind, FindingKind::TypeChanged);
        assert_eq!(found[0].severity, Severity::Warn);
        let back = findings(&b, &a, &pair(&b, &a, &[]));
        assert_eq!(back[0].severity, Severity::Info);
    }

    #[test]
    fn a_map_makes_two_names_one_column() {
        let a = table(Engine::Postgres, &[("qty", "integer", INT)]);
        let b = table(Engine::Postgres, &[("quantity", "integer", INT)]);
        assert_eq!(findings(&a, &b, &pair(&a, &b, &[])).len(), 2);
        assert!(findings(&a, &b, &pair(&a, &b, &[("qty".into(), "quantity".into())])).is_empty());
    }
}
