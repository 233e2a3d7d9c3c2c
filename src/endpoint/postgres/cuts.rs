//! Borders between ranges of similar size, from what the server already knows: the planner's statistics, or the ends of
//! an index. Never from reading the table.

use super::session::Session;
use super::sql::{identifier, literal, source};
use crate::config::address::Object;
use crate::endpoint::{Border, Cost, Result};
use crate::value::shape::{ColumnShape, LogicalType, NativeOrder, TableShape};
use crate::value::text;

/// How a column's values become borders: the type of `v`, and the expression that writes `v` as text.
struct Spelling {
    of: &'static str,
    expression: &'static str,
    /// Which `v` have a border at all.
    condition: &'static str,
}

fn spelling(column: &ColumnShape) -> Option<Spelling> {
    let (of, expression, condition) = match &column.logical {
        LogicalType::Int { signed: true, .. } => ("int8", "v::text", "true"),
        LogicalType::Int { .. } => ("oid", "v::text", "true"),
        LogicalType::Decimal { .. } | LogicalType::DecimalText
            if column.engine_type.starts_with("numeric") =>
        {
            ("numeric", "floor(v)::text", "v <> 'NaN'")
        }
        LogicalType::Date => ("date", "(v - '1970-01-01'::date)::text", "isfinite(v)"),
        LogicalType::Timestamp { zoned, .. } => (
            if *zoned { "timestamptz" } else { "timestamp" },
            "floor(extract(epoch from v)::numeric * 1000000)::text",
            "isfinite(v)",
        ),
        LogicalType::Uuid => ("uuid", "v::text", "true"),
        LogicalType::Bytes => ("bytea", "encode(v, 'hex')", "true"),
        LogicalType::Text { .. } if column.order == NativeOrder::Bytes => ("text", "v", "true"),
        _ => return None,
    };
    Some(Spelling { of, expression, condition })
}

fn border(column: &ColumnShape, value: &str) -> Option<Border> {
    match &column.logical {
        LogicalType::Int { .. } | LogicalType::Decimal { .. } | LogicalType::DecimalText => {
            value.parse().ok().map(Border::Int)
        }
        LogicalType::Date => value.parse().ok().map(Border::Date),
        LogicalType::Timestamp { .. } => value.parse().ok().map(Border::Timestamp),
        LogicalType::Uuid => text::parse_uuid(value).map(Border::Uuid),
        LogicalType::Bytes => text::parse_hex(&format!("0x{value}")).map(Border::Bytes),
        LogicalType::Text { padded: true, .. } => {
            Some(Border::Bytes(value.trim_end_matches(' ').as_bytes().to_vec()))
        }
        LogicalType::Text { .. } => Some(Border::Bytes(value.as_bytes().to_vec())),
        _ => None,
    }
}

/// About `n - 1` ascending borders; fewer or none where the server knows too little.
pub(super) async fn cuts(
    session: &mut Session,
    cost: &Cost,
    object: &Object,
    shape: &TableShape,
    column: &str,
    n: usize,
) -> Result<Vec<Border>> {
    let Some(column) = shape.column(column) else { return Ok(Vec::new()) };
    let (Object::Table { .. }, Some(spelling)) = (object, spelling(column)) else { return Ok(Vec::new()) };
    if n < 2 {
        return Ok(Vec::new());
    }
    let known = borders(session, cost, column, &histogram_query(object, column, &spelling)).await?;
    if known.len() > 2 {
        return Ok(pick(&known, n));
    }
    let indexed = shape.index_orders.iter().any(|order| order.first() == Some(&column.name));
    if !indexed {
        return Ok(Vec::new());
    }
    let ends = borders(session, cost, column, &ends_query(object, column, &spelling)).await?;
    Ok(match ends.as_slice() {
        [low, high] => between(low, high, n),
        _ => Vec::new(),
    })
}

/// Runs a query for borders; one that fails (a missing privilege, a slow server) only means that there are none.
async fn borders(
    session: &mut Session,
    cost: &Cost,
    column: &ColumnShape,
    query: &str,
) -> Result<Vec<Border>> {
    let rows = session.attempt(cost, query).await?.unwrap_or_default();
    Ok(rows.iter().filter_map(|row| border(column, row.first()?.as_deref()?)).collect())
}

fn histogram_query(object: &Object, column: &ColumnShape, spelling: &Spelling) -> String {
    format!(
        "select {expression}
         from (select histogram_bounds::text::{of}[] from pg_stats
               where (schemaname, tablename) = (select n.nspname, c.relname from pg_class c
                                                join pg_namespace n on n.oid = c.relnamespace
                                                where c.oid = to_regclass({table}))
                 and attname = {name} and histogram_bounds is not null
               order by inherited desc limit 1) h(bounds)
         cross join lateral unnest(h.bounds) with ordinality u(v, at)
         where {condition} order by at",
        expression = spelling.expression,
        of = spelling.of,
        condition = spelling.condition,
        table = literal(&source(object)),
        name = literal(&column.name),
    )
}

/// Least and greatest value, each one step into the index.
fn ends_query(object: &Object, column: &ColumnShape, spelling: &Spelling) -> String {
    let end = |direction: &str| {
        format!(
            "(select {name} v from {source} where {name} is not null order by {name} {direction} limit 1)",
            name = identifier(&column.name),
            source = source(object)
        )
    };
    format!(
        "set local enable_sort = off; set local enable_seqscan = off;
         select {} from ({} union all {}) e where {}",
        spelling.expression,
        end("asc"),
        end("desc"),
        spelling.condition
    )
}

/// Evenly spread inner elements of the histogram's bounds, each once.
fn pick(bounds: &[Border], n: usize) -> Vec<Border> {
    let last = bounds.len() - 1;
    let mut out: Vec<Border> = Vec::new();
    for i in 1..n {
        let at = i * last / n;
        if at > 0 && at < last && out.last() != Some(&bounds[at]) {
            out.push(bounds[at].clone());
        }
    }
    out
}

/// Evenly spread values between two ends.
fn between(low: &Border, high: &Border, n: usize) -> Vec<Border> {
    let spread = |low: i128, high: i128| -> Vec<i128> {
        let Some(width) = high.checked_sub(low).filter(|w| *w > 0) else { return Vec::new() };
        let n = n as i128;
        // Whole steps and the rest apart, so that no product overflows.
        let mut out: Vec<i128> =
            (1..n).map(|i| low + width / n * i + width % n * i / n).filter(|v| *v > low).collect();
        out.dedup();
        out
    };
    match (low, high) {
        (Border::Int(a), Border::Int(b)) => spread(*a, *b).into_iter().map(Border::Int).collect(),
        (Border::Date(a), Border::Date(b)) => spread(i128::from(*a), i128::from(*b))
            .into_iter()
            .filter_map(|v| i32::try_from(v).ok().map(Border::Date))
            .collect(),
        (Border::Timestamp(a), Border::Timestamp(b)) => spread(i128::from(*a), i128::from(*b))
            .into_iter()
            .filter_map(|v| i64::try_from(v).ok().map(Border::Timestamp))
            .collect(),
        (Border::Uuid(a), Border::Uuid(b)) => {
            // The leading half is enough for balance and keeps the arithmetic within 128 bits.
            let lead = |v: &[u8; 16]| i128::from((u128::from_be_bytes(*v) >> 64) as u64);
            spread(lead(a), lead(b))
                .into_iter()
                .map(|v| Border::Uuid(((v as u128) << 64).to_be_bytes()))
                .collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_spread_evenly_and_ascend() {
        assert_eq!(between(&Border::Int(0), &Border::Int(100), 4), [25, 50, 75].map(Border::Int));
        assert_eq!(between(&Border::Int(3), &Border::Int(4), 8), []);
        assert_eq!(between(&Border::Int(3), &Border::Int(3), 8), []);
        assert_eq!(between(&Border::Date(0), &Border::Date(2), 2), [Border::Date(1)]);
        let ends = (Border::Timestamp(i64::MIN + 1), Border::Timestamp(i64::MAX - 1));
        assert_eq!(between(&ends.0, &ends.1, 4).len(), 3);
        let uuids = between(&Border::Uuid([0; 16]), &Border::Uuid([0xff; 16]), 2);
        assert!(matches!(&uuids[..], [Border::Uuid(u)] if u[0] == 0x7f));
        let bounds: Vec<Border> = (0..=100).map(Border::Int).collect();
        assert_eq!(pick(&bounds, 4), [25, 50, 75].map(Border::Int));
        assert_eq!(pick(&bounds[..4], 50), [1, 2].map(Border::Int));
    }
}
