//! The text of drift's SELECTs: quoting, one expression per column, and borders as literals.

use super::types;
use crate::config::address::Object;
use crate::endpoint::{Border, Error, ErrorKind, ReadRequest, Result, Scope, any_of};
use crate::value::shape::{ColumnShape, LogicalType, NativeOrder, TableShape};
use crate::value::temporal;
use crate::value::text;

/// Days from 1970-01-01 to PostgreSQL's own epoch, 2000-01-01.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// PostgreSQL's first day, 4714-11-24 BC, counted from 1970-01-01; earlier borders mean this one.
const FIRST_DAY: i64 = -2_440_588;
/// PostgreSQL's last day, 5874897-12-31; behind it there is only infinity.
const LAST_DAY: i64 = 2_145_042_905;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A name as an identifier.
pub(in crate::endpoint) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What stands behind FROM. A line break ends a comment at the end of the user's query.
pub(super) fn source(object: &Object) -> String {
    match object {
        Object::Table { schema: Some(schema), name } => {
            format!("{}.{}", identifier(schema), identifier(name))
        }
        Object::Table { schema: None, name } => identifier(name),
        Object::Query(query) => {
            format!("({}\n) as q", query.trim_end_matches(|c: char| c == ';' || c.is_whitespace()))
        }
    }
}

/// The expression that delivers a column in the form that [`super::copy`] decodes.
fn expression(column: &ColumnShape) -> String {
    let name = identifier(&column.name);
    match &column.logical {
        // `char(n)` stays as stored: its cast to text would drop trailing blanks at the server's cost.
        LogicalType::Text { padded: true, .. } => name,
        LogicalType::Text { .. } | LogicalType::Json | LogicalType::Enum | LogicalType::Other => {
            format!("{name}::text")
        }
        LogicalType::Decimal { .. } | LogicalType::DecimalText if !is_numeric(column) => {
            format!("{name}::numeric")
        }
        // Elements and nesting; that PostgreSQL can also count them from another number than 1 is left out.
        LogicalType::Array(_) => format!("array_to_json({name})::text"),
        LogicalType::Geometry => {
            format!("{}st_asbinary({name}, 'NDR')", types::schema_prefix(&column.engine_type))
        }
        _ => name,
    }
}

fn is_numeric(column: &ColumnShape) -> bool {
    column.engine_type.starts_with("numeric")
}

/// The SELECT that reads `scope`.
pub(super) fn select(
    object: &Object,
    shape: &TableShape,
    request: &ReadRequest,
    scope: &Scope,
) -> Result<String> {
    let columns: Result<Vec<String>> =
        request.columns.iter().map(|name| Ok(expression(find(shape, name)?))).collect();
    let mut out = format!("select {} from {}", columns?.join(", "), source(object));
    let mut conditions: Vec<String> = request.filter.iter().map(|f| format!("({f}\n)")).collect();
    match scope {
        Scope::Whole => {}
        Scope::KeyRange { column, from, to } => {
            let column = find(shape, column)?;
            for (border, operator) in [(from, ">="), (to, "<")] {
                if let Some(border) = border {
                    conditions.push(condition(column, operator, border)?);
                }
            }
        }
        Scope::Keys { columns, keys } => {
            conditions.push(any_of(columns, keys, |column, key| condition(find(shape, column)?, "=", key))?);
        }
    }
    if !conditions.is_empty() {
        out.push_str(&format!(" where {}", conditions.join(" and ")));
    }
    if !request.order.is_empty() {
        let order: Vec<String> = request.order.iter().map(|name| identifier(name)).collect();
        out.push_str(&format!(" order by {}", order.join(", ")));
    }
    Ok(out)
}

/// The COPY around a SELECT.
pub(super) fn copy(select: &str) -> String {
    format!("copy ({select}) to stdout (format binary)")
}

fn find<'a>(shape: &'a TableShape, name: &str) -> Result<&'a ColumnShape> {
    shape.column(name).ok_or_else(|| {
        Error::new(ErrorKind::Usage, format!("there is no column {name:?} in the described table"))
    })
}

/// `column operator border`, written so that an index on the column serves wherever the types allow.
fn condition(column: &ColumnShape, operator: &str, border: &Border) -> Result<String> {
    let name = identifier(&column.name);
    let refused = || {
        Error::new(
            ErrorKind::Usage,
            format!("column {} of type {} cannot be cut at such a border", column.name, column.engine_type),
        )
    };
    let with = |left: &str, right: String| Ok(format!("{left} {operator} {right}"));
    match (&column.logical, border) {
        (LogicalType::Int { signed: true, .. }, Border::Int(n)) => match i64::try_from(*n) {
            Ok(n) => with(&name, format!("'{n}'::int8")),
            Err(_) => with(&name, format!("'{n}'::numeric")),
        },
        (LogicalType::Int { .. }, Border::Int(n)) => match u32::try_from(*n) {
            Ok(n) => with(&name, format!("'{n}'::oid")),
            Err(_) => with(&format!("{name}::int8"), format!("'{n}'::numeric")),
        },
        (LogicalType::Decimal { .. } | LogicalType::DecimalText, Border::Int(n)) => {
            let left = if is_numeric(column) { name } else { format!("{name}::numeric") };
            with(&left, format!("'{n}'::numeric"))
        }
        (LogicalType::Date, Border::Date(days)) => with(&name, date(*days)),
        (LogicalType::Date, Border::Timestamp(micros)) => {
            with(&format!("{name}::timestamp"), timestamp(*micros, false))
        }
        (LogicalType::Timestamp { zoned, .. }, Border::Timestamp(micros)) => {
            with(&name, timestamp(*micros, *zoned))
        }
        (LogicalType::Timestamp { zoned, .. }, Border::Date(days)) => {
            // A day outside the range of timestamps lies below or above all finite ones.
            let beyond = if *days < 0 { i64::MIN + 1 } else { i64::MAX };
            with(&name, timestamp(temporal::timestamp_of_date(*days).unwrap_or(beyond), *zoned))
        }
        (LogicalType::Uuid, Border::Uuid(bytes)) => {
            with(&name, format!("'{}'::uuid", text::format_uuid(bytes)))
        }
        (LogicalType::Uuid, Border::Bytes(bytes)) if bytes.len() == 16 => {
            with(&name, format!("'{}'::uuid", text::format_uuid(bytes)))
        }
        (LogicalType::Bytes, Border::Uuid(bytes)) => with(&name, bytea(bytes)),
        (LogicalType::Bytes, Border::Bytes(bytes)) => with(&name, bytea(bytes)),
        (LogicalType::Text { .. }, Border::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            // Equal bytes are equal under every collation.
            Ok(border)
                if (column.order == NativeOrder::Bytes || operator == "=") && !border.contains('\0') =>
            {
                with(&name, literal(border))
            }
            // Right for every collation and every border, though no index serves it.
            _ => with(&format!("convert_to({name}::text, 'UTF8')"), bytea(bytes)),
        },
        _ => Err(refused()),
    }
}

fn bytea(bytes: &[u8]) -> String {
    format!("'\\x{}'::bytea", text::hex(bytes))
}

fn date(days: i32) -> String {
    match i64::from(days) {
        _ if days == i32::MIN => "'-infinity'::date".into(),
        d if d > LAST_DAY => "'infinity'::date".into(),
        // MySQL's impossible dates too: they sort between -infinity and the first real day.
        d if d <= FIRST_DAY => "'4714-11-24 BC'::date".into(),
        _ => format!("'{}'::date", calendar(i64::from(days))),
    }
}

fn timestamp(micros: i64, zoned: bool) -> String {
    let kind = if zoned { "timestamptz" } else { "timestamp" };
    if micros == i64::MIN {
        return format!("'-infinity'::{kind}");
    }
    if micros == i64::MAX {
        return format!("'infinity'::{kind}");
    }
    let micros = micros.max(FIRST_DAY * MICROS_PER_DAY);
    let day = calendar(micros.div_euclid(MICROS_PER_DAY));
    let (day, era) = match day.strip_suffix(" BC") {
        Some(day) => (day.to_string(), " BC"),
        None => (day, ""),
    };
    let rest = micros.rem_euclid(MICROS_PER_DAY);
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let zone = if zoned { "+00" } else { "" };
    format!(
        "'{day} {:02}:{:02}:{:02}.{fraction:06}{zone}{era}'::{kind}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// A day in PostgreSQL's spelling: year 0 is 1 BC.
fn calendar(days: i64) -> String {
    let (year, month, day) = temporal::civil_from_days(days);
    if year > 0 {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{:04}-{month:02}-{day:02} BC", 1 - year)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(logical: LogicalType, engine_type: &str, order: NativeOrder) -> ColumnShape {
        ColumnShape {
            name: "k\"1".into(),
            engine_type: engine_type.into(),
            logical,
            nullable: Some(false),
            default: None,
            unreadable: None,
            order,
        }
    }

    #[test]
    fn names_and_literals_cannot_break_out() {
        assert_eq!(identifier("a\"; drop"), "\"a\"\"; drop\"");
        assert_eq!(literal("it's"), "'it''s'");
        let table = Object::Table { schema: Some("S".into()), name: "a.b".into() };
        assert_eq!(source(&table), "\"S\".\"a.b\"");
        assert_eq!(source(&Object::Query("select 1 -- one; ".into())), "(select 1 -- one\n) as q");
    }

    #[test]
    fn borders_are_typed_and_clamped() {
        let int = column(LogicalType::Int { bits: 32, signed: true }, "integer", NativeOrder::Value);
        let of = |c: &ColumnShape, b: Border| condition(c, ">=", &b).map_err(|e| e.message);
        assert_eq!(of(&int, Border::Int(-5)).unwrap(), "\"k\"\"1\" >= '-5'::int8");
        assert_eq!(
            of(&int, Border::Int(i128::from(u64::MAX))).unwrap(),
            "\"k\"\"1\" >= '18446744073709551615'::numeric"
        );
        let oid = column(LogicalType::Int { bits: 32, signed: false }, "oid", NativeOrder::Value);
        assert_eq!(of(&oid, Border::Int(7)).unwrap(), "\"k\"\"1\" >= '7'::oid");
        assert_eq!(of(&oid, Border::Int(-1)).unwrap(), "\"k\"\"1\"::int8 >= '-1'::numeric");
        assert_eq!(temporal::days_from_civil(-4713, 11, 24), FIRST_DAY);
        assert_eq!(temporal::days_from_civil(5_874_897, 12, 31), LAST_DAY);
        assert_eq!(date(0), "'1970-01-01'::date");
        assert_eq!(date(temporal::days_from_civil(0, 12, 31) as i32), "'0001-12-31 BC'::date");
        assert_eq!(date(i32::MAX), "'infinity'::date");
        assert_eq!(date(i32::MIN), "'-infinity'::date");
        assert_eq!(date(temporal::mysql_date(0, 0, 0)), "'4714-11-24 BC'::date");
        assert_eq!(timestamp(-1, true), "'1969-12-31 23:59:59.999999+00'::timestamptz");
        assert_eq!(timestamp(i64::MIN + 1, false), "'4714-11-24 00:00:00.000000 BC'::timestamp");
        let binary = column(LogicalType::TEXT, "text", NativeOrder::Bytes);
        let local = column(LogicalType::TEXT, "text", NativeOrder::Other);
        assert_eq!(of(&binary, Border::Bytes(b"o'k".to_vec())).unwrap(), "\"k\"\"1\" >= 'o''k'");
        for (c, bytes) in [(&binary, vec![0xff]), (&binary, vec![0]), (&local, b"a".to_vec())] {
            assert!(of(c, Border::Bytes(bytes)).unwrap().starts_with("convert_to("));
        }
        assert!(of(&int, Border::Uuid([0; 16])).unwrap_err().contains("cannot be cut"));
        // Equal bytes are equal under every collation, so that its index serves.
        let equal = |text: &[u8]| condition(&local, "=", &Border::Bytes(text.to_vec())).unwrap();
        assert_eq!(equal(b"o'k"), "\"k\"\"1\" = 'o''k'");
        assert!(equal(b"\0").starts_with("convert_to("));
    }
}
