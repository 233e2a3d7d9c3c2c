//! What a declared column type promises. SQLite stores any value in any column (unless the table is STRICT), so this is
//! a hint for reading texts and numbers, never a fact about the values.

use crate::value::shape::LogicalType;

/// The type that a declaration names clearly, if it does.
pub(super) fn hint(declared: &str) -> Option<LogicalType> {
    let upper = declared.to_ascii_uppercase();
    let (name, arguments) = match upper.split_once('(') {
        Some((name, rest)) => (name.trim(), numbers(rest.split(')').next().unwrap_or(""))),
        None => (upper.trim(), Vec::new()),
    };
    let words: Vec<&str> = name.split_whitespace().collect();
    let is = |candidates: &[&str]| words.iter().any(|w| candidates.contains(w));
    if is(&["BOOL", "BOOLEAN"]) {
        return Some(LogicalType::Bool);
    }
    if is(&["UUID", "GUID"]) {
        return Some(LogicalType::Uuid);
    }
    if is(&["JSON", "JSONB"]) {
        return Some(LogicalType::Json);
    }
    if is(&["DATETIME", "TIMESTAMP", "TIMESTAMPTZ"]) {
        let zoned = name == "TIMESTAMPTZ" || upper.contains("WITH TIME ZONE");
        return Some(LogicalType::Timestamp { digits: 6, zoned });
    }
    if is(&["DATE"]) {
        return Some(LogicalType::Date);
    }
    if is(&["TIME"]) {
        return Some(LogicalType::Time { digits: 6 });
    }
    if is(&["DECIMAL", "NUMERIC", "DEC", "NUMBER"]) {
        return Some(decimal(&arguments));
    }
    if is(&["REAL", "DOUBLE", "FLOAT", "FLOAT4", "FLOAT8"]) {
        return Some(LogicalType::Float64);
    }
    if is(&[
        "INT",
        "INTEGER",
        "TINYINT",
        "SMALLINT",
        "MEDIUMINT",
        "BIGINT",
        "INT2",
        "INT4",
        "INT8",
        "SERIAL",
        "BIGSERIAL",
    ]) {
        return Some(LogicalType::Int { bits: 64, signed: true });
    }
    if ["CHAR", "CLOB", "TEXT"].iter().any(|part| name.contains(part)) || is(&["STRING"]) {
        let max = arguments.first().and_then(|n| u32::try_from(*n).ok());
        return Some(LogicalType::Text { max, padded: false });
    }
    is(&["BLOB", "BINARY", "VARBINARY", "BYTEA"]).then_some(LogicalType::Bytes)
}

fn numbers(arguments: &str) -> Vec<i64> {
    arguments.split(',').map_while(|n| n.trim().parse().ok()).collect()
}

fn decimal(arguments: &[i64]) -> LogicalType {
    let (precision, scale) = match arguments {
        [precision] => (*precision, 0),
        [precision, scale, ..] => (*precision, *scale),
        [] => return LogicalType::DecimalText,
    };
    if !(1..=38).contains(&precision) || !(0..=precision).contains(&scale) {
        return LogicalType::DecimalText;
    }
    LogicalType::Decimal { precision: precision as u8, scale: scale as i8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_give_hints() {
        let int = LogicalType::Int { bits: 64, signed: true };
        let stamp = LogicalType::Timestamp { digits: 6, zoned: false };
        let text = |max| LogicalType::Text { max, padded: false };
        for (declared, want) in [
            ("INTEGER", Some(int.clone())),
            ("unsigned big int", Some(int.clone())),
            ("int(11)", Some(int)),
            ("BOOLEAN", Some(LogicalType::Bool)),
            ("decimal(12, 2)", Some(LogicalType::Decimal { precision: 12, scale: 2 })),
            ("DECIMAL(10)", Some(LogicalType::Decimal { precision: 10, scale: 0 })),
            ("NUMERIC", Some(LogicalType::DecimalText)),
            ("NUMERIC(50,2)", Some(LogicalType::DecimalText)),
            ("DOUBLE PRECISION", Some(LogicalType::Float64)),
            ("DATE", Some(LogicalType::Date)),
            ("DATETIME", Some(stamp.clone())),
            ("TIMESTAMP(3)", Some(stamp)),
            ("timestamp with time zone", Some(LogicalType::Timestamp { digits: 6, zoned: true })),
            ("TIME", Some(LogicalType::Time { digits: 6 })),
            ("VARCHAR(20)", Some(text(Some(20)))),
            ("text", Some(text(None))),
            ("BLOB", Some(LogicalType::Bytes)),
            ("uuid", Some(LogicalType::Uuid)),
            ("json", Some(LogicalType::Json)),
            ("POINT", None),
            ("ANY", None),
            ("", None),
        ] {
            assert_eq!(hint(declared), want, "{declared}");
        }
    }
}
