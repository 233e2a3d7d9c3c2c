//! PostgreSQL's types in drift's words.

use std::collections::HashMap;

use crate::value::shape::{LogicalType, NativeOrder};

/// One row of `pg_type`, as far as drift needs it.
#[derive(Debug, Clone, Default)]
pub(super) struct PgType {
    pub(super) schema: String,
    pub(super) name: String,
    /// `b` base, `c` composite, `d` domain, `e` enum, `r` range, …
    pub(super) kind: String,
    /// `A` for arrays.
    pub(super) category: String,
    pub(super) element: u32,
    pub(super) base: u32,
    /// The modifier that a domain gives its base type.
    pub(super) base_modifier: i32,
    /// A domain's NOT NULL.
    pub(super) not_null: bool,
}

/// The types that a table uses, with the types below them.
#[derive(Debug, Default)]
pub(super) struct Types {
    pub(super) by_oid: HashMap<u32, PgType>,
    /// Digits behind the point of `money`, which the server's locale decides.
    pub(super) money_digits: i8,
}

impl Types {
    /// The logical type of a column.
    pub(super) fn logical(&self, oid: u32, modifier: i32) -> LogicalType {
        let Some(found) = self.by_oid.get(&oid) else { return LogicalType::Other };
        if found.kind == "d" {
            return match self.logical(found.base, found.base_modifier) {
                // The function that reads it is found by the type's schema, which a domain hides.
                LogicalType::Geometry => LogicalType::Other,
                logical => logical,
            };
        }
        if found.kind == "e" {
            return LogicalType::Enum;
        }
        if found.schema != "pg_catalog" {
            return match (found.kind.as_str(), found.name.as_str()) {
                ("b", "citext") => LogicalType::TEXT,
                ("b", "geometry" | "geography") => LogicalType::Geometry,
                ("b", _) if self.is_array(found) => self.array(found, modifier),
                _ => LogicalType::Other,
            };
        }
        self.builtin(found, modifier)
    }

    fn builtin(&self, found: &PgType, modifier: i32) -> LogicalType {
        match found.name.as_str() {
            "bool" => LogicalType::Bool,
            "int2" => LogicalType::Int { bits: 16, signed: true },
            "int4" => LogicalType::Int { bits: 32, signed: true },
            "int8" => LogicalType::Int { bits: 64, signed: true },
            "oid" => LogicalType::Int { bits: 32, signed: false },
            "float4" => LogicalType::Float32,
            "float8" => LogicalType::Float64,
            "numeric" => decimal(modifier),
            "money" => LogicalType::Decimal { precision: 19, scale: self.money_digits },
            "text" | "name" | "char" | "macaddr" | "macaddr8" => LogicalType::TEXT,
            "varchar" => LogicalType::Text { max: length(modifier), padded: false },
            "bpchar" => LogicalType::Text { max: length(modifier), padded: true },
            "bytea" => LogicalType::Bytes,
            "date" => LogicalType::Date,
            "time" => LogicalType::Time { digits: digits(modifier) },
            "timestamp" => LogicalType::Timestamp { digits: digits(modifier), zoned: false },
            "timestamptz" => LogicalType::Timestamp { digits: digits(modifier), zoned: true },
            "interval" => LogicalType::Interval,
            "uuid" => LogicalType::Uuid,
            "json" | "jsonb" => LogicalType::Json,
            "bit" => LogicalType::Bits { len: u32::try_from(modifier).ok().filter(|n| *n > 0) },
            "varbit" => LogicalType::Bits { len: None },
            "inet" | "cidr" => LogicalType::Inet,
            "int2vector" | "oidvector" => LogicalType::Other,
            _ if self.is_array(found) => self.array(found, modifier),
            _ => LogicalType::Other,
        }
    }

    fn is_array(&self, found: &PgType) -> bool {
        found.category == "A" && found.element != 0
    }

    /// Arrays whose elements JSON carries without loss; the rest stays in PostgreSQL's own text.
    fn array(&self, found: &PgType, modifier: i32) -> LogicalType {
        match self.logical(found.element, modifier) {
            LogicalType::Other | LogicalType::Geometry | LogicalType::Array(_) => LogicalType::Other,
            element => LogicalType::Array(Box::new(element)),
        }
    }

    /// Whether a domain on the way to the base type forbids NULL.
    pub(super) fn not_null(&self, oid: u32) -> bool {
        self.by_oid.get(&oid).is_some_and(|t| t.kind == "d" && (t.not_null || self.not_null(t.base)))
    }

    /// The name of the type below all domains.
    pub(super) fn base_name(&self, oid: u32) -> &str {
        match self.by_oid.get(&oid) {
            Some(t) if t.kind == "d" => self.base_name(t.base),
            Some(t) => &t.name,
            None => "",
        }
    }
}

/// What ORDER BY yields. `binary` says that the column's collation compares bytes.
pub(super) fn order(logical: &LogicalType, base_name: &str, binary: bool) -> NativeOrder {
    match logical {
        LogicalType::Bool
        | LogicalType::Int { .. }
        | LogicalType::Decimal { .. }
        | LogicalType::DecimalText
        | LogicalType::Date
        | LogicalType::Timestamp { .. } => NativeOrder::Value,
        LogicalType::Uuid | LogicalType::Bytes => NativeOrder::Bytes,
        LogicalType::Text { .. } if binary && matches!(base_name, "text" | "varchar" | "bpchar") => {
            NativeOrder::Bytes
        }
        _ => NativeOrder::Other,
    }
}

/// The schema before a type's name, with its dot, quoted as the server writes it; empty where the search path finds it.
pub(super) fn schema_prefix(engine_type: &str) -> &str {
    let name = engine_type.split('(').next().unwrap_or(engine_type);
    name.rfind('.').map_or("", |dot| &engine_type[..=dot])
}

fn decimal(modifier: i32) -> LogicalType {
    if modifier < 4 {
        return LogicalType::DecimalText;
    }
    let packed = modifier - 4;
    let precision = (packed >> 16) & 0xffff;
    // Eleven bits with a sign since PostgreSQL 15; older servers know no scale above 1000.
    let scale = ((packed & 0x7ff) ^ 1024) - 1024;
    if precision <= 38 && (0..=precision).contains(&scale) {
        LogicalType::Decimal { precision: precision as u8, scale: scale as i8 }
    } else {
        LogicalType::DecimalText
    }
}

fn length(modifier: i32) -> Option<u32> {
    u32::try_from(modifier.checked_sub(4)?).ok()
}

fn digits(modifier: i32) -> u8 {
    u8::try_from(modifier).ok().filter(|d| *d <= 6).unwrap_or(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types() -> Types {
        let builtin = |name: &str| PgType {
            schema: "pg_catalog".into(),
            name: name.into(),
            kind: "b".into(),
            ..PgType::default()
        };
        let array = |name: &str, element: u32| PgType { category: "A".into(), element, ..builtin(name) };
        let domain = |base: u32, base_modifier: i32, not_null: bool| PgType {
            schema: "public".into(),
            name: "d".into(),
            kind: "d".into(),
            base,
            base_modifier,
            not_null,
            ..PgType::default()
        };
        let own = |name: &str| PgType { schema: "public".into(), ..builtin(name) };
        let by_oid = [
            (1, builtin("numeric")),
            (2, array("_numeric", 1)),
            (3, domain(1, (12 << 16 | 2) + 4, true)),
            (4, domain(3, -1, false)),
            (5, builtin("varchar")),
            (6, builtin("point")),
            (7, array("_point", 6)),
            (8, own("int4")),
            (9, own("geometry")),
            (10, domain(9, -1, false)),
            (11, builtin("bpchar")),
            (12, builtin("timestamptz")),
        ];
        Types { by_oid: by_oid.into(), money_digits: 2 }
    }

    #[test]
    fn modifiers_and_domains_reach_the_base_type() {
        let t = types();
        let money = LogicalType::Decimal { precision: 12, scale: 2 };
        assert_eq!(t.logical(1, -1), LogicalType::DecimalText);
        assert_eq!(t.logical(1, (12 << 16 | 2) + 4), money);
        assert_eq!(t.logical(1, (39 << 16) + 4), LogicalType::DecimalText);
        assert_eq!(t.logical(1, (5 << 16 | (0x7ff & -3)) + 4), LogicalType::DecimalText);
        assert_eq!((t.logical(3, -1), t.not_null(3)), (money.clone(), true));
        assert_eq!((t.logical(4, -1), t.not_null(4), t.base_name(4)), (money.clone(), true, "numeric"));
        assert_eq!(t.logical(2, (12 << 16 | 2) + 4), LogicalType::Array(Box::new(money)));
        assert_eq!(t.logical(7, -1), LogicalType::Other);
        assert_eq!(t.logical(5, 24), LogicalType::Text { max: Some(20), padded: false });
        assert_eq!(t.logical(11, 14), LogicalType::Text { max: Some(10), padded: true });
        assert_eq!(t.logical(12, 3), LogicalType::Timestamp { digits: 3, zoned: true });
        assert_eq!(t.logical(8, -1), LogicalType::Other);
        assert_eq!((t.logical(9, -1), t.logical(10, -1)), (LogicalType::Geometry, LogicalType::Other));
        assert_eq!(t.logical(99, -1), LogicalType::Other);
    }

    #[test]
    fn text_orders_by_bytes_only_under_a_binary_collation() {
        assert_eq!(order(&LogicalType::TEXT, "text", true), NativeOrder::Bytes);
        assert_eq!(order(&LogicalType::TEXT, "text", false), NativeOrder::Other);
        assert_eq!(order(&LogicalType::TEXT, "citext", true), NativeOrder::Other);
        assert_eq!(schema_prefix("\"Geo\".geometry(Point,4326)"), "\"Geo\".");
        assert_eq!(schema_prefix("geometry(Point,4.1)"), "");
    }
}
