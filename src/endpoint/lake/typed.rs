//! Arrow types in drift's words, and one table out of files whose types differ a little.

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

use crate::value::shape::{LogicalType, NativeOrder};

/// A column of one typed file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TypedColumn {
    /// Its name.
    pub(super) name: String,
    /// Its type, or why drift cannot read it.
    pub(super) logical: Result<LogicalType, String>,
    /// A short name of the type in the file.
    pub(super) engine_type: String,
    /// The file promises that there is no NULL.
    pub(super) required: bool,
}

/// What Arrow's type alone does not say, since Parquet keeps it in its own annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Annotation {
    None,
    Uuid,
    Json,
    /// Twelve bytes: months, days, milliseconds.
    Interval,
}

impl Annotation {
    /// The annotation in Arrow's extension types.
    pub(super) fn of_field(field: &Field) -> Annotation {
        match field.metadata().get("ARROW:extension:name").map(String::as_str) {
            Some("arrow.uuid") => Annotation::Uuid,
            Some("arrow.json") => Annotation::Json,
            _ => Annotation::None,
        }
    }
}

/// Describes a field.
pub(super) fn column(field: &Field, annotation: Annotation) -> TypedColumn {
    let logical = logical(field.data_type(), annotation).ok_or_else(|| {
        format!("drift does not read Arrow's type {}", short_name(field.data_type(), annotation))
    });
    TypedColumn {
        name: field.name().clone(),
        logical,
        engine_type: short_name(field.data_type(), annotation),
        required: !field.is_nullable(),
    }
}

/// The logical type of an Arrow type.
pub(super) fn logical(data_type: &DataType, annotation: Annotation) -> Option<LogicalType> {
    let int = |bits, signed| LogicalType::Int { bits, signed };
    Some(match data_type {
        DataType::Null => LogicalType::Untyped(None),
        DataType::Boolean => LogicalType::Bool,
        DataType::Int8 => int(8, true),
        DataType::Int16 => int(16, true),
        DataType::Int32 => int(32, true),
        DataType::Int64 => int(64, true),
        DataType::UInt8 => int(8, false),
        DataType::UInt16 => int(16, false),
        DataType::UInt32 => int(32, false),
        DataType::UInt64 => int(64, false),
        DataType::Float16 | DataType::Float32 => LogicalType::Float32,
        DataType::Float64 => LogicalType::Float64,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            if *precision <= 38 && (0..=38).contains(scale) {
                LogicalType::Decimal { precision: *precision, scale: *scale }
            } else {
                LogicalType::DecimalText
            }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match annotation {
            Annotation::Json => LogicalType::Json,
            _ => LogicalType::TEXT,
        },
        DataType::FixedSizeBinary(16) if annotation == Annotation::Uuid => LogicalType::Uuid,
        DataType::FixedSizeBinary(12) if annotation == Annotation::Interval => LogicalType::Interval,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            LogicalType::Bytes
        }
        DataType::Date32 | DataType::Date64 => LogicalType::Date,
        DataType::Time32(unit) | DataType::Time64(unit) => LogicalType::Time { digits: digits(*unit) },
        DataType::Timestamp(unit, zone) => {
            LogicalType::Timestamp { digits: digits(*unit), zoned: zone.is_some() }
        }
        DataType::Interval(_) | DataType::Duration(_) => LogicalType::Interval,
        DataType::Dictionary(_, value) => logical(value, annotation)?,
        DataType::RunEndEncoded(_, values) => logical(values.data_type(), annotation)?,
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            match logical(element.data_type(), Annotation::of_field(element))? {
                LogicalType::Json | LogicalType::Array(_) | LogicalType::Untyped(_) => LogicalType::Json,
                simple => LogicalType::Array(Box::new(simple)),
            }
        }
        DataType::Struct(fields) => {
            fields.iter().try_for_each(|f| logical(f.data_type(), Annotation::of_field(f)).map(drop))?;
            LogicalType::Json
        }
        DataType::Map(entries, _) => {
            logical(entries.data_type(), Annotation::None)?;
            LogicalType::Json
        }
        _ => return None,
    })
}

fn digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

fn unit_name(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// The type's name for people.
pub(super) fn short_name(data_type: &DataType, annotation: Annotation) -> String {
    match annotation {
        Annotation::Uuid => return "uuid".into(),
        Annotation::Json => return "json".into(),
        Annotation::Interval => return "interval".into(),
        Annotation::None => {}
    }
    match data_type {
        DataType::Boolean => "bool".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".into(),
        DataType::FixedSizeBinary(n) => format!("binary({n})"),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("decimal({p},{s})"),
        DataType::Timestamp(unit, None) => format!("timestamp({})", unit_name(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("timestamptz({})", unit_name(unit)),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time({})", unit_name(unit)),
        DataType::Date32 | DataType::Date64 => "date".into(),
        DataType::Duration(unit) => format!("duration({})", unit_name(unit)),
        DataType::Interval(IntervalUnit::YearMonth) => "interval(months)".into(),
        DataType::Interval(IntervalUnit::DayTime) => "interval(days)".into(),
        DataType::Interval(IntervalUnit::MonthDayNano) => "interval".into(),
        DataType::Dictionary(_, value) => short_name(value, annotation),
        DataType::RunEndEncoded(_, values) => short_name(values.data_type(), annotation),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            format!("list({})", short_name(element.data_type(), Annotation::of_field(element)))
        }
        DataType::Struct(_) => "struct".into(),
        DataType::Map(..) => "map".into(),
        DataType::Union(..) => "union".into(),
        other => other.to_string().to_lowercase(),
    }
}

/// The order that rows written in key order have. Nothing promises it; it is checked while reading.
pub(super) fn order(logical: &LogicalType) -> NativeOrder {
    match logical {
        LogicalType::Bool
        | LogicalType::Int { .. }
        | LogicalType::Decimal { .. }
        | LogicalType::Float32
        | LogicalType::Float64
        | LogicalType::Date
        | LogicalType::Time { .. }
        | LogicalType::Timestamp { .. } => NativeOrder::Value,
        LogicalType::Text { .. } | LogicalType::Bytes | LogicalType::Uuid => NativeOrder::Bytes,
        _ => NativeOrder::Other,
    }
}

/// The narrowest type that holds both without loss.
pub(super) fn common(a: &LogicalType, b: &LogicalType) -> Option<LogicalType> {
    use LogicalType as T;
    Some(match (a, b) {
        (a, b) if a == b => a.clone(),
        (T::Untyped(None), other) | (other, T::Untyped(None)) => other.clone(),
        (T::Int { bits: a, signed: x }, T::Int { bits: b, signed: y }) if x == y => {
            T::Int { bits: *a.max(b), signed: *x }
        }
        (T::Int { bits: 64, signed: false }, T::Int { .. })
        | (T::Int { .. }, T::Int { bits: 64, signed: false }) => T::Decimal { precision: 20, scale: 0 },
        (T::Int { .. }, T::Int { .. }) => T::Int { bits: 64, signed: true },
        (T::Int { .. }, T::Decimal { precision, scale })
        | (T::Decimal { precision, scale }, T::Int { .. }) => {
            decimal(20.max(i16::from(*precision) - i16::from(*scale)), *scale)
        }
        (T::Decimal { precision: p, scale: s }, T::Decimal { precision: q, scale: t }) => {
            decimal((i16::from(*p) - i16::from(*s)).max(i16::from(*q) - i16::from(*t)), *s.max(t))
        }
        (T::DecimalText, T::Decimal { .. } | T::Int { .. })
        | (T::Decimal { .. } | T::Int { .. }, T::DecimalText) => T::DecimalText,
        (T::Float32, T::Float64) | (T::Float64, T::Float32) => T::Float64,
        (T::Time { digits: a }, T::Time { digits: b }) => T::Time { digits: *a.max(b) },
        (T::Timestamp { digits: a, zoned: x }, T::Timestamp { digits: b, zoned: y }) if x == y => {
            T::Timestamp { digits: *a.max(b), zoned: *x }
        }
        (T::Json, T::Array(_)) | (T::Array(_), T::Json) => T::Json,
        _ => return None,
    })
}

fn decimal(whole: i16, scale: i8) -> LogicalType {
    match u8::try_from(whole + i16::from(scale)) {
        Ok(precision) if precision <= 38 => LogicalType::Decimal { precision, scale },
        _ => LogicalType::DecimalText,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_widen_only_without_loss() {
        use LogicalType as T;
        let int = |bits, signed| T::Int { bits, signed };
        let dec = |precision, scale| T::Decimal { precision, scale };
        let stamp = |digits, zoned| T::Timestamp { digits, zoned };
        for (a, b, want) in [
            (int(32, true), int(64, true), Some(int(64, true))),
            (int(32, false), int(8, true), Some(int(64, true))),
            (int(64, false), int(64, true), Some(dec(20, 0))),
            (int(32, true), dec(10, 2), Some(dec(22, 2))),
            (dec(10, 2), dec(12, 6), Some(dec(14, 6))),
            (dec(38, 2), dec(38, 6), Some(T::DecimalText)),
            (T::Float32, T::Float64, Some(T::Float64)),
            (stamp(3, false), stamp(6, false), Some(stamp(6, false))),
            (stamp(6, false), stamp(6, true), None),
            (T::Untyped(None), T::TEXT, Some(T::TEXT)),
            (T::TEXT, int(64, true), None),
            (T::Float64, int(64, true), None),
        ] {
            assert_eq!(common(&a, &b), want, "{a} {b}");
            assert_eq!(common(&b, &a), want, "{b} {a}");
        }
    }

    #[test]
    fn arrow_types_have_short_names() {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(short_name(&utc, Annotation::None), "timestamptz(us)");
        assert_eq!(short_name(&DataType::Decimal128(12, 2), Annotation::None), "decimal(12,2)");
        assert_eq!(short_name(&DataType::Int64, Annotation::None), "int64");
        let list = DataType::new_list(DataType::Utf8, true);
        assert_eq!(short_name(&list, Annotation::None), "list(string)");
        assert_eq!(logical(&list, Annotation::None), Some(LogicalType::Array(Box::new(LogicalType::TEXT))));
        assert_eq!(logical(&DataType::FixedSizeBinary(16), Annotation::None), Some(LogicalType::Bytes));
        assert_eq!(logical(&DataType::FixedSizeBinary(16), Annotation::Uuid), Some(LogicalType::Uuid));
    }
}
