//! Columns that were probably renamed: one side lost a name and gained another at the same place with the same type.

use super::{Finding, FindingKind};
use crate::value::shape::TableShape;

/// Pairs of a missing and an added column that look like one column under two names.
pub fn suspected(source: &TableShape, target: &TableShape, findings: &[Finding]) -> Vec<(String, String)> {
    let named = |kind: FindingKind| -> Vec<&str> {
        findings.iter().filter(|f| f.kind == kind).filter_map(|f| f.column.as_deref()).collect()
    };
    let added = named(FindingKind::ColumnAdded);
    let mut out: Vec<(String, String)> = Vec::new();
    for missing in named(FindingKind::ColumnMissing) {
        let place = |shape: &TableShape, name: &str| shape.columns.iter().position(|c| c.name == name);
        let Some(from) = source.column(missing) else { continue };
        let here = place(source, missing);
        let alike: Vec<&str> = added
            .iter()
            .copied()
            .filter(|name| !out.iter().any(|(_, taken)| taken == name))
            .filter(|name| target.column(name).is_some_and(|to| to.logical == from.logical))
            .collect();
        let found = alike.iter().find(|name| place(target, name) == here).or(match alike.as_slice() {
            [only] => Some(only),
            _ => None,
        });
        if let Some(name) = found {
            out.push((missing.to_string(), (*name).to_string()));
        }
    }
    out
}
