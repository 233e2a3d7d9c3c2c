//! Column types as the server writes them, in drift's words.

use crate::value::shape::{LogicalType, NativeOrder};

/// A column's type as the catalogue tells it.
pub(super) struct Declared<'a> {
    /// `COLUMN_TYPE`, such as `decimal(12,2) unsigned`.
    pub(super) text: &'a str,
    /// The character set of text, such as `utf8mb4`.
    pub(super) charset: Option<&'a str>,
    /// The collation of text.
    pub(super) collation: Option<&'a str>,
    /// Whether it is MariaDB's `json`, which is text with a check.
    pub(super) json: bool,
}

/// What a declared type means, and what `ORDER BY` does with it.
pub(super) fn interpret(declared: &Declared<'_>) -> (LogicalType, NativeOrder) {
    let text = declared.text.to_ascii_lowercase();
    let base = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
    let args = arguments(&text);
    let signed = !text.split([' ', ')']).any(|word| matches!(word, "unsigned" | "zerofill"));
    let arg = |i: usize| args.get(i).copied();
    let digits = arg(0).unwrap_or(0).min(6) as u8;
    let int = |bits| (LogicalType::Int { bits, signed }, NativeOrder::Value);
    let value = |logical| (logical, NativeOrder::Value);
    let other = |logical| (logical, NativeOrder::Other);
    match base {
        "tinyint" => int(8),
        "smallint" => int(16),
        "mediumint" => int(24),
        "int" | "integer" => int(32),
        "bigint" => int(64),
        "year" => value(LogicalType::Int { bits: 16, signed: false }),
        "decimal" | "numeric" | "fixed" => {
            let (precision, scale) = (arg(0).unwrap_or(10), arg(1).unwrap_or(0));
            value(if precision <= 38 {
                LogicalType::Decimal { precision: precision as u8, scale: scale as i8 }
            } else {
                LogicalType::DecimalText
            })
        }
        "float" => value(LogicalType::Float32),
        "double" | "real" => value(LogicalType::Float64),
        "date" => value(LogicalType::Date),
        "time" => value(LogicalType::Time { digits }),
        "datetime" => value(LogicalType::Timestamp { digits, zoned: false }),
        "timestamp" => value(LogicalType::Timestamp { digits, zoned: true }),
        "bit" => other(LogicalType::Bits { len: Some(arg(0).unwrap_or(1)) }),
        "enum" => other(LogicalType::Enum),
        "set" => other(LogicalType::Set),
        "json" => other(LogicalType::Json),
        "uuid" => other(LogicalType::Uuid),
        "inet4" | "inet6" => other(LogicalType::Inet),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector" => {
            (LogicalType::Bytes, NativeOrder::Bytes)
        }
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geometrycollection" | "geomcollection" => other(LogicalType::Geometry),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => {
            if declared.json {
                return other(LogicalType::Json);
            }
            if declared.charset == Some("binary") || declared.collation == Some("binary") {
                return (LogicalType::Bytes, NativeOrder::Bytes);
            }
            let max = if base.ends_with("char") { Some(arg(0).unwrap_or(1)) } else { None };
            let padded = base == "char";
            let order = if padded { NativeOrder::Other } else { text_order(declared) };
            (LogicalType::Text { max, padded }, order)
        }
        _ => other(LogicalType::Other),
    }
}

/// Text sorts by its bytes only under binary collations that do not pad: the padding ones (`utf8mb4_bin`) put `a\t`
/// before `a`, since they compare as if blanks followed; so does every `char`. In other character sets the stored bytes are not those of UTF-8.
fn text_order(declared: &Declared<'_>) -> NativeOrder {
    let unicode = matches!(declared.charset, Some("utf8mb4" | "utf8mb3" | "utf8" | "ascii"));
    let collation = declared.collation.unwrap_or("");
    let unpadded = collation.ends_with("_nopad_bin") || collation == "utf8mb4_0900_bin";
    if unicode && unpadded { NativeOrder::Bytes } else { NativeOrder::Other }
}

/// The numbers in the type's parentheses.
fn arguments(text: &str) -> Vec<u32> {
    let inside =
        text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(inside, _)| inside);
    inside.split(',').map_while(|n| n.trim().parse().ok()).collect()
}

/// What an expression's column in a query's result means, judged by the wire alone: its name as sqlx tells it, whether
/// it is unsigned and whether it is text.
pub(super) fn of_wire(name: &str, unsigned: bool, text: bool) -> LogicalType {
    let int = |bits| LogicalType::Int { bits, signed: !unsigned };
    match name.trim_end_matches(" UNSIGNED") {
        "BOOLEAN" | "TINYINT" => int(8),
        "SMALLINT" => int(16),
        "MEDIUMINT" => int(24),
        "INT" => int(32),
        "BIGINT" => int(64),
        "YEAR" => LogicalType::Int { bits: 16, signed: false },
        "FLOAT" => LogicalType::Float32,
        "DOUBLE" => LogicalType::Float64,
        // The result's metadata has no scale.
        "DECIMAL" => LogicalType::DecimalText,
        "DATE" => LogicalType::Date,
        "TIME" => LogicalType::Time { digits: 6 },
        "DATETIME" => LogicalType::Timestamp { digits: 6, zoned: false },
        "TIMESTAMP" => LogicalType::Timestamp { digits: 6, zoned: true },
        "BIT" => LogicalType::Bits { len: None },
        "JSON" => LogicalType::Json,
        "GEOMETRY" => LogicalType::Geometry,
        "ENUM" => LogicalType::Enum,
        "NULL" => LogicalType::TEXT,
        _ if text => LogicalType::TEXT,
        _ => LogicalType::Bytes,
    }
}

/// Whether values of a column of that wire type can be read as `logical`.
pub(super) fn arrives_as(logical: &LogicalType, name: &str, unsigned: bool) -> bool {
    let base = name.trim_end_matches(" UNSIGNED");
    if base == "NULL" {
        return true;
    }
    match logical {
        LogicalType::Int { signed, .. } => {
            matches!(base, "BOOLEAN" | "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" | "YEAR")
                && *signed != unsigned
        }
        LogicalType::Decimal { .. } | LogicalType::DecimalText => base == "DECIMAL",
        LogicalType::Float32 => base == "FLOAT",
        LogicalType::Float64 => base == "DOUBLE",
        LogicalType::Date => base == "DATE",
        LogicalType::Time { .. } => base == "TIME",
        LogicalType::Timestamp { .. } => matches!(base, "DATETIME" | "TIMESTAMP"),
        LogicalType::Bits { .. } => base == "BIT",
        LogicalType::Geometry => base == "GEOMETRY",
        _ => matches!(
            base,
            "CHAR"
                | "VARCHAR"
                | "TINYTEXT"
                | "TEXT"
                | "MEDIUMTEXT"
                | "LONGTEXT"
                | "BINARY"
                | "VARBINARY"
                | "TINYBLOB"
                | "BLOB"
                | "MEDIUMBLOB"
                | "LONGBLOB"
                | "ENUM"
                | "SET"
                | "JSON"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, collation: Option<&str>) -> (LogicalType, NativeOrder) {
        let charset = collation.map(|c| c.split('_').next().unwrap());
        interpret(&Declared { text, charset, collation, json: false })
    }

    #[test]
    fn declared_types_keep_width_sign_and_scale() {
        assert_eq!(of("tinyint(1)", None).0, LogicalType::Int { bits: 8, signed: true });
        assert_eq!(of("bigint(20) unsigned", None).0, LogicalType::Int { bits: 64, signed: false });
        assert_eq!(of("int(5) unsigned zerofill", None).0, LogicalType::Int { bits: 32, signed: false });
        assert_eq!(of("decimal(38,10)", None).0, LogicalType::Decimal { precision: 38, scale: 10 });
        assert_eq!(of("decimal(65,0)", None).0, LogicalType::DecimalText);
        assert_eq!(of("datetime(3)", None).0, LogicalType::Timestamp { digits: 3, zoned: false });
        assert_eq!(of("timestamp", None).0, LogicalType::Timestamp { digits: 0, zoned: true });
        assert_eq!(of("bit(9)", None).0, LogicalType::Bits { len: Some(9) });
        assert_eq!(of("enum('unsigned','b)')", Some("utf8mb4_bin")).0, LogicalType::Enum);
        assert_eq!(of("double unsigned", None).0, LogicalType::Float64);
        assert_eq!(
            of("varchar(9) /*M!100301 COMPRESSED*/", Some("utf8mb4_bin")).0,
            LogicalType::Text { max: Some(9), padded: false }
        );
    }

    #[test]
    fn only_unpadded_binary_collations_sort_by_bytes() {
        for (collation, want) in [
            ("utf8mb4_nopad_bin", NativeOrder::Bytes),
            ("utf8mb4_0900_bin", NativeOrder::Bytes),
            ("ascii_nopad_bin", NativeOrder::Bytes),
            ("utf8mb4_bin", NativeOrder::Other),
            ("ascii_bin", NativeOrder::Other),
            ("latin1_nopad_bin", NativeOrder::Other),
            ("utf8mb4_general_ci", NativeOrder::Other),
        ] {
            assert_eq!(of("varchar(9)", Some(collation)).1, want, "{collation}");
        }
        assert_eq!(of("char(9)", Some("utf8mb4_nopad_bin")).1, NativeOrder::Other);
        assert_eq!(of("varbinary(9)", None).1, NativeOrder::Bytes);
        assert_eq!(of("uuid", None), (LogicalType::Uuid, NativeOrder::Other));
    }
}
