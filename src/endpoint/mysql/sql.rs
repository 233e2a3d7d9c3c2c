//! The SQL text that drift sends: names, literals and the scan.

use sqlx::AssertSqlSafe;

use crate::config::address::Object;
use crate::endpoint::{APPLICATION_NAME, Border, ReadRequest, Scope, any_of};
use crate::value::shape::{ColumnShape, LogicalType, NativeOrder, TableShape};
use crate::value::{temporal, text};

/// Hands a statement to sqlx. Every name in it went through [`name`] and every value through [`quoted`] or
/// [`literal`]; filters and queries are the user's own words.
pub(super) fn trusted(sql: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(sql)
}

/// A quoted identifier.
pub(in crate::endpoint) fn name(identifier: &str) -> String {
    format!("`{}`", identifier.replace('`', "``"))
}

/// A quoted text literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A user's query without the semicolon that would end it too early.
pub(super) fn bare(query: &str) -> &str {
    query.trim_end().trim_end_matches(';').trim_end()
}

/// What stands behind `from`.
pub(super) fn source(object: &Object) -> String {
    match object {
        Object::Table { schema: Some(schema), name: table } => format!("{}.{}", name(schema), name(table)),
        Object::Table { schema: None, name: table } => name(table),
        // The line's end keeps a trailing comment from swallowing the parenthesis.
        Object::Query(query) => format!("({}\n) q", bare(query)),
    }
}

/// The statement that reads `scope`. `index` is the index that delivers the requested order.
pub(super) fn scan(
    object: &Object,
    shape: &TableShape,
    request: &ReadRequest,
    scope: &Scope,
    index: Option<&str>,
) -> String {
    let columns: Vec<String> = request.columns.iter().map(|c| name(c)).collect();
    // A scan of no columns still counts rows.
    let columns = if columns.is_empty() { "1".into() } else { columns.join(", ") };
    let mut out = format!("select /* {APPLICATION_NAME} */ {columns} from {}", source(object));
    if let Some(index) = index.filter(|_| !request.order.is_empty()) {
        // Without the hint the server prefers to sort when the index does not hold all columns.
        out.push_str(&format!(" force index ({})", name(index)));
    }
    let mut conditions = Vec::new();
    if let Some(filter) = &request.filter {
        conditions.push(format!("({filter}\n)"));
    }
    conditions.extend(range(shape, scope));
    if !conditions.is_empty() {
        out.push_str(" where ");
        out.push_str(&conditions.join(" and "));
    }
    if !request.order.is_empty() {
        let order: Vec<String> = request.order.iter().map(|c| name(c)).collect();
        out.push_str(&format!(" order by {}", order.join(", ")));
    }
    out
}

fn range(shape: &TableShape, scope: &Scope) -> Vec<String> {
    if let Scope::Keys { columns, keys } = scope {
        let equal = |column: &str, key: &Border| Ok(bound(column, shape.column(column), "=", key));
        return any_of(columns, keys, equal).into_iter().collect();
    }
    let Scope::KeyRange { column, from, to } = scope else { return Vec::new() };
    let described = shape.column(column);
    let mut out = Vec::new();
    if let Some(from) = from {
        out.push(bound(column, described, ">=", from));
    }
    if let Some(to) = to {
        let below = bound(column, described, "<", to);
        let nullable = described.is_none_or(|c| c.nullable != Some(false));
        // Every row must lie in some range: NULL lies in the first one, where this engine sorts it.
        out.push(if from.is_none() && nullable {
            format!("({below} or {} is null)", name(column))
        } else {
            below
        });
    }
    out
}

fn bound(column: &str, described: Option<&ColumnShape>, operator: &str, border: &Border) -> String {
    let always = |yes: bool| if yes { "1 = 1".to_string() } else { "1 = 0".to_string() };
    let (below, equal) = (operator == "<", operator == "=");
    let quoted_name = name(column);
    let compare = |literal: String| format!("{quoted_name} {operator} {literal}");
    match border {
        Border::Int(n) => compare(n.to_string()),
        Border::Date(days) => match calendar(i64::from(*days), temporal::is_impossible_date(*days)) {
            Calendar::Real => compare(format!("date'{}'", temporal::format_date(*days))),
            Calendar::Impossible => compare(quoted(&temporal::format_date(*days))),
            Calendar::BehindAll => always(below),
            Calendar::BeforeAll => always(!below && !equal),
        },
        Border::Timestamp(micros) => {
            let text = || temporal::format_timestamp_micros(*micros, false).replace('T', " ");
            let days = micros.div_euclid(86_400_000_000);
            match calendar(days, temporal::is_impossible_timestamp(*micros)) {
                Calendar::Real => compare(format!("timestamp'{}'", text())),
                Calendar::Impossible => compare(quoted(&text())),
                Calendar::BehindAll => always(below),
                Calendar::BeforeAll => always(!below && !equal),
            }
        }
        Border::Uuid(bytes) => match described.map(|c| &c.logical) {
            Some(LogicalType::Uuid) if equal => compare(quoted(&text::format_uuid(bytes))),
            // The server keeps uuids in an order of its own; their binary form has the order of the bytes.
            Some(LogicalType::Uuid) => {
                format!("cast({quoted_name} as binary(16)) {operator} x'{}'", text::hex(bytes))
            }
            Some(LogicalType::Bytes) | None => compare(format!("x'{}'", text::hex(bytes))),
            Some(_) => as_bytes(&quoted_name, operator, text::format_uuid(bytes).as_bytes()),
        },
        Border::Bytes(bytes) => match (described, std::str::from_utf8(bytes)) {
            (Some(ColumnShape { logical: LogicalType::Bytes, .. }) | None, _) => {
                compare(format!("x'{}'", text::hex(bytes)))
            }
            (
                Some(ColumnShape { logical: LogicalType::Text { .. }, order: NativeOrder::Bytes, .. }),
                Ok(_),
            ) => compare(format!("_utf8mb4 x'{}'", text::hex(bytes))),
            // Equal bytes are equal under every collation.
            (Some(ColumnShape { logical: LogicalType::Text { .. }, .. }), Ok(_)) if equal => {
                compare(format!("_utf8mb4 x'{}'", text::hex(bytes)))
            }
            _ => as_bytes(&quoted_name, operator, bytes),
        },
    }
}

/// Compares text by its UTF-8 bytes whatever its collation says; right everywhere, but without the help of an index.
fn as_bytes(column: &str, operator: &str, bytes: &[u8]) -> String {
    format!("cast(convert({column} using utf8mb4) as binary) {operator} x'{}'", text::hex(bytes))
}

enum Calendar {
    Real,
    Impossible,
    BeforeAll,
    BehindAll,
}

/// Where a day lies in MySQL's calendar, which knows the years 0 to 9999.
fn calendar(days: i64, impossible: bool) -> Calendar {
    if impossible {
        Calendar::Impossible
    } else if days < temporal::days_from_civil(0, 1, 1) {
        Calendar::BeforeAll
    } else if days >= temporal::days_from_civil(10_000, 1, 1) {
        Calendar::BehindAll
    } else {
        Calendar::Real
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::shape::Engine;

    fn shape() -> TableShape {
        let column = |name: &str, logical, order, nullable| ColumnShape {
            name: name.into(),
            engine_type: String::new(),
            logical,
            nullable: Some(nullable),
            default: None,
            unreadable: None,
            order,
        };
        let text = || LogicalType::Text { max: None, padded: false };
        TableShape {
            engine: Engine::MySql,
            columns: vec![
                column("id", LogicalType::Int { bits: 32, signed: true }, NativeOrder::Value, false),
                column("n`m", LogicalType::Bytes, NativeOrder::Bytes, true),
                column("ci", text(), NativeOrder::Other, false),
                column("bin", text(), NativeOrder::Bytes, false),
                column("at", LogicalType::Timestamp { digits: 6, zoned: false }, NativeOrder::Value, false),
                column("u", LogicalType::Uuid, NativeOrder::Other, false),
            ],
            primary_key: vec!["id".into()],
            unique: vec![],
            index_orders: vec![],
            comment: None,
            may_be_ordered: false,
            row_estimate: None,
            hidden_rows: None,
        }
    }

    fn condition(column: &str, from: Option<Border>, to: Option<Border>) -> String {
        range(&shape(), &Scope::KeyRange { column: column.into(), from, to }).join(" and ")
    }

    #[test]
    fn scans_quote_names_and_keep_filters_whole() {
        let object = Object::Table { schema: Some("a`b".into()), name: "t".into() };
        let request = ReadRequest {
            columns: vec!["id".into(), "n`m".into()],
            filter: Some("id > 3 -- newer".into()),
            order: vec!["id".into()],
            workers: 1,
        };
        let scope = Scope::KeyRange { column: "id".into(), from: Some(Border::Int(-5)), to: None };
        assert_eq!(
            scan(&object, &shape(), &request, &scope, Some("PRIMARY")),
            "select /* drift */ `id`, `n``m` from `a``b`.`t` force index (`PRIMARY`) where (id > 3 -- newer\n) and `id` >= -5 order by `id`"
        );
        let query = Object::Query("select 1 as id;  ".into());
        let request = ReadRequest { columns: vec!["id".into()], ..ReadRequest::default() };
        assert_eq!(
            scan(&query, &shape(), &request, &Scope::Whole, None),
            "select /* drift */ `id` from (select 1 as id\n) q"
        );
    }

    #[test]
    fn borders_are_typed_literals() {
        let bytes = |b: &[u8]| Some(Border::Bytes(b.to_vec()));
        assert_eq!(condition("n`m", None, bytes(&[0, 255])), "(`n``m` < x'00ff' or `n``m` is null)");
        assert_eq!(condition("bin", bytes(b"a'"), None), "`bin` >= _utf8mb4 x'6127'");
        assert_eq!(
            condition("bin", bytes(&[0xff]), None),
            "cast(convert(`bin` using utf8mb4) as binary) >= x'ff'"
        );
        assert_eq!(
            condition("ci", bytes(b"a"), None),
            "cast(convert(`ci` using utf8mb4) as binary) >= x'61'"
        );
        assert_eq!(
            condition("at", None, Some(Border::Timestamp(1_500_000))),
            "`at` < timestamp'1970-01-01 00:00:01.5'"
        );
        assert_eq!(condition("at", None, Some(Border::Timestamp(i64::MAX))), "1 = 1");
        assert_eq!(
            condition("at", Some(Border::Date(i32::MAX)), Some(Border::Date(0))),
            "1 = 0 and `at` < date'1970-01-01'"
        );
        assert!(
            condition("u", Some(Border::Uuid([1; 16])), None)
                .starts_with("cast(`u` as binary(16)) >= x'0101")
        );
    }

    #[test]
    fn keys_are_looked_up_by_equality() {
        let keys = vec![
            vec![Border::Int(7), Border::Bytes(b"a'".to_vec())],
            vec![Border::Int(-8), Border::Bytes(b"\xc3\xa4".to_vec())],
        ];
        let scope = Scope::Keys { columns: vec!["id".into(), "ci".into()], keys };
        assert_eq!(
            range(&shape(), &scope),
            ["(`id` = 7 and `ci` = _utf8mb4 x'6127' or `id` = -8 and `ci` = _utf8mb4 x'c3a4')"]
        );
        let one = |column: &str, key| {
            range(&shape(), &Scope::Keys { columns: vec![column.into()], keys: vec![vec![key]] }).join("")
        };
        assert_eq!(one("u", Border::Uuid([1; 16])), "(`u` = '01010101-0101-0101-0101-010101010101')");
        // Days that this engine does not know are in no row.
        assert_eq!(one("at", Border::Date(i32::MAX)), "(1 = 0)");
        let before_all = i32::try_from(temporal::days_from_civil(-1, 1, 1)).unwrap();
        assert_eq!(one("at", Border::Date(before_all)), "(1 = 0)");
    }

    #[test]
    fn text_literals_escape_quotes_and_backslashes() {
        assert_eq!(quoted(r"a'b\"), r"'a''b\\'");
        assert_eq!(name("a`b"), "`a``b`");
    }
}
