//! The rules between engines: for two column shapes, the one type in which both are compared, and what that loses.
//!
//! This table is the only place where normalisation is decided; [`crate::value::canon`] carries it out.

use super::hash::Hash;
use super::shape::{ColumnShape, Engine, LogicalType};

/// The version of the rules and of the canonical forms; part of every stored digest.
pub const VERSION: u32 = 1;

/// The common form of a column pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Common {
    /// Arrow `Boolean`.
    Bool,
    /// Arrow `Int64`.
    Int64,
    /// Arrow `UInt64`.
    UInt64,
    /// Arrow `Decimal128(38, scale)`.
    Decimal {
        /// Digits in all, for the reader.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// Arrow `Utf8`: canonical decimal text.
    DecimalText,
    /// Arrow `Float32`.
    Float32,
    /// Arrow `Float64`.
    Float64,
    /// Arrow `Utf8`.
    Text,
    /// Arrow `Binary`.
    Bytes,
    /// Arrow `Date32`.
    Date,
    /// Arrow `Time64`, nanoseconds if `nanos`, else microseconds.
    Time {
        /// The unit.
        nanos: bool,
    },
    /// Arrow `Timestamp`, nanoseconds if `nanos`, else microseconds.
    Timestamp {
        /// The unit.
        nanos: bool,
        /// Whether values are instants (shown with `Z`).
        zoned: bool,
    },
    /// Arrow `FixedSizeBinary(16)`.
    Uuid,
    /// Arrow `Utf8`: canonical JSON.
    Json,
    /// Arrow `Utf8`: members sorted.
    Set,
    /// Arrow `Utf8` of `0` and `1`.
    Bits,
    /// Arrow `Utf8`: canonical address.
    Inet,
    /// Arrow `Utf8`: canonical interval.
    Interval,
}

/// A wish of the user about a text column; each one loses something, and the report says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalize {
    /// Blanks at both ends are no data.
    Trim,
    /// Blanks at the end are no data.
    Rtrim,
    /// Unicode normalisation form C.
    Nfc,
    /// Upper and lower case are the same.
    Casefold,
    /// `\r\n` is `\n`.
    Crlf,
    /// The empty text is NULL.
    EmptyIsNull,
}

impl Normalize {
    /// All wishes with their names on the command line.
    pub const ALL: [(&'static str, Normalize); 6] = [
        ("trim", Normalize::Trim),
        ("rtrim", Normalize::Rtrim),
        ("nfc", Normalize::Nfc),
        ("casefold", Normalize::Casefold),
        ("crlf", Normalize::Crlf),
        ("empty_is_null", Normalize::EmptyIsNull),
    ];
}

/// How far two values may lie apart and still be the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Absolute, in the column's own unit.
    Absolute(f64),
    /// A share of the greater magnitude: 0.01 is one percent.
    Relative(f64),
    /// A span of time in microseconds.
    Duration(i64),
}

/// How one pair of columns is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnRule {
    /// The column's name at the source; reports use it.
    pub name: String,
    /// The column's name at the target.
    pub target_name: String,
    /// The source's type.
    pub source: LogicalType,
    /// The target's type.
    pub target: LogicalType,
    /// The type in which both are compared.
    pub common: Common,
    /// Instants closer than this many units of the common form are the same, because one side keeps no more.
    pub coarse: Option<i64>,
    /// Wishes of the user.
    pub normalize: Vec<Normalize>,
    /// A wish of the user.
    pub tolerance: Option<Tolerance>,
    /// Whether the common form can hide a difference that one side could hold.
    pub lossy: bool,
    /// What the reader has to know.
    pub note: Option<String>,
    /// Whether words such as `true` are 1 or 0: MySQL's `tinyint(1)` beside values without a type.
    pub flags: bool,
}

/// Everything that decides whether two rows are the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// The key's columns in order; empty for a comparison of multisets.
    pub key: Vec<ColumnRule>,
    /// The other compared columns.
    pub values: Vec<ColumnRule>,
    /// Whether MySQL's impossible dates count as NULL.
    pub impossible_dates_as_null: bool,
    /// Which hash says that two rows are equal.
    pub hash: Hash,
}

/// Why two types have no common form, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCommonForm(pub String);

/// MySQL has no booleans: it declares them as `tinyint(1)`.
fn is_flag(column: &ColumnShape, engine: Engine) -> bool {
    engine == Engine::MySql && column.engine_type == "tinyint(1)"
}

impl ColumnRule {
    /// The rule for two columns; the error says what to do instead.
    pub fn between(
        source: &ColumnShape,
        source_engine: Engine,
        target: &ColumnShape,
        target_engine: Engine,
    ) -> Result<ColumnRule, NoCommonForm> {
        let (s, t) = (&source.logical, &target.logical);
        let pair = Pair::of(s, t);
        let same_engine_type = source_engine == target_engine && source.engine_type == target.engine_type;
        let found = pair.common(same_engine_type).ok_or_else(|| {
            let (from, to) = (&source.engine_type, &target.engine_type);
            let what = if from == to { from.clone() } else { format!("{from} and {to}") };
            let verb = if from == to { "has" } else { "have" };
            NoCommonForm(format!(
                "{what} {verb} no common form; cast the column in a query (url#(select …)) or exclude it"
            ))
        })?;
        Ok(ColumnRule {
            name: source.name.clone(),
            target_name: target.name.clone(),
            source: s.clone(),
            target: t.clone(),
            coarse: found.coarse,
            normalize: Vec::new(),
            tolerance: None,
            lossy: found.lossy,
            note: found.note,
            common: found.common,
            flags: is_flag(source, source_engine) && t.is_untyped()
                || is_flag(target, target_engine) && s.is_untyped(),
        })
    }

    /// The logical type of one side.
    pub fn side(&self, source: bool) -> &LogicalType {
        if source { &self.source } else { &self.target }
    }

    /// The common form's name, for reports.
    pub fn compared_as(&self) -> String {
        let digits = |nanos: bool| {
            let both = [&self.source, &self.target].map(|t| match t {
                LogicalType::Timestamp { digits, .. } | LogicalType::Time { digits } => Some(*digits),
                _ => None,
            });
            both.into_iter().flatten().min().unwrap_or(if nanos { 9 } else { 6 })
        };
        match &self.common {
            Common::Bool => "bool".into(),
            Common::Int64 => "int64".into(),
            Common::UInt64 => "uint64".into(),
            Common::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
            Common::DecimalText => "decimal".into(),
            Common::Float32 => "float32".into(),
            Common::Float64 => "float64".into(),
            Common::Text => "text".into(),
            Common::Bytes => "bytes".into(),
            Common::Date => "date".into(),
            Common::Time { nanos } => format!("time({})", digits(*nanos)),
            Common::Timestamp { nanos, zoned: false } => format!("timestamp({})", digits(*nanos)),
            Common::Timestamp { nanos, zoned: true } => format!("timestamptz({})", digits(*nanos)),
            Common::Uuid => "uuid".into(),
            Common::Json => "json".into(),
            Common::Set => "set".into(),
            Common::Bits => "bits".into(),
            Common::Inet => "inet".into(),
            Common::Interval => "interval".into(),
        }
    }

    /// Whether 64-bit integers can occur, which JSON readers do not hold.
    pub fn is_wide_integer(&self) -> bool {
        let narrow = |t: &LogicalType| match t {
            LogicalType::Int { bits, .. } => *bits <= 32,
            LogicalType::Bool | LogicalType::Bits { len: Some(0..=32) } => true,
            LogicalType::Untyped(None) => true,
            LogicalType::Untyped(Some(hint)) => !matches!(**hint, LogicalType::Int { bits: 64, .. }),
            _ => false,
        };
        !(narrow(&self.source) && narrow(&self.target))
    }

    /// Adds a sentence to the note.
    pub fn add_note(&mut self, sentence: &str) {
        self.note = Some(match self.note.take() {
            Some(note) => format!("{note}; {sentence}"),
            None => sentence.to_string(),
        });
    }
}

struct Found {
    common: Common,
    coarse: Option<i64>,
    lossy: bool,
    note: Option<String>,
}

impl From<Common> for Found {
    fn from(common: Common) -> Found {
        Found { common, coarse: None, lossy: false, note: None }
    }
}

impl Found {
    fn lossy(common: Common, note: impl Into<String>) -> Found {
        Found { common, coarse: None, lossy: true, note: Some(note.into()) }
    }

    fn noted(common: Common, note: impl Into<String>) -> Found {
        Found { common, coarse: None, lossy: false, note: Some(note.into()) }
    }
}

/// A pair of types without regard to sides: `a` is the one that decides.
struct Pair<'a> {
    a: &'a LogicalType,
    b: &'a LogicalType,
}

impl<'a> Pair<'a> {
    fn of(source: &'a LogicalType, target: &'a LogicalType) -> Pair<'a> {
        if rank(source) <= rank(target) {
            Pair { a: source, b: target }
        } else {
            Pair { a: target, b: source }
        }
    }

    fn common(&self, same_engine_type: bool) -> Option<Found> {
        use LogicalType as L;
        Some(match (self.a, self.b) {
            (L::Untyped(a), L::Untyped(b)) => match (a, b) {
                (Some(a), Some(b)) => Pair::of(a, b).common(false).unwrap_or_else(|| Common::Text.into()),
                (Some(hint), None) | (None, Some(hint)) => {
                    Pair { a: hint, b: &L::Untyped(None) }.common(false)?
                }
                (None, None) => Common::Text.into(),
            },

            (L::Other, L::Other) if same_engine_type => {
                Found::noted(Common::Text, "compared by the engine's own text form")
            }
            (L::Other, L::Text { .. } | L::Untyped(_)) => {
                Found::noted(Common::Text, "compared by the engine's own text form")
            }
            (L::Other, _) => return None,

            (L::Json | L::Array(_), L::Json | L::Array(_) | L::Text { .. } | L::Untyped(_)) => {
                Common::Json.into()
            }
            (L::Json | L::Array(_), _) => return None,

            (L::Geometry, L::Geometry) => Common::Bytes.into(),
            (L::Geometry, L::Bytes) => Found::noted(Common::Bytes, "compared as well-known bytes"),
            (L::Geometry, _) => return None,

            (L::Uuid, L::Uuid | L::Bytes | L::Text { .. } | L::Untyped(_)) => Common::Uuid.into(),
            (L::Uuid, _) => return None,

            (L::Inet, L::Inet | L::Text { .. } | L::Untyped(_)) => Common::Inet.into(),
            (L::Inet, _) => return None,

            (L::Interval, L::Interval | L::Text { .. } | L::Untyped(_)) => Common::Interval.into(),
            (L::Interval, _) => return None,

            (L::Set, L::Set) => Common::Set.into(),
            (L::Set, L::Text { .. } | L::Untyped(_)) => {
                Found::noted(Common::Set, "the order of the members is no data")
            }
            (L::Set, _) => return None,

            (L::Timestamp { digits, zoned }, other) => return timestamp(*digits, *zoned, other),
            (L::Time { digits: a }, L::Time { digits: b }) => {
                let nanos = *a > 6 && *b > 6;
                with_precision(Common::Time { nanos }, *a, *b, nanos)
            }
            (L::Time { digits }, L::Text { .. } | L::Untyped(_)) => {
                Common::Time { nanos: *digits > 6 }.into()
            }
            (L::Time { .. }, _) => return None,
            (L::Date, L::Date | L::Text { .. } | L::Untyped(_)) => Common::Date.into(),
            (L::Date, _) => return None,

            (L::Bool, L::Bool | L::Text { .. } | L::Enum | L::Untyped(_)) => Common::Bool.into(),
            (L::Bool, L::Bits { len: Some(1) }) => Common::Bool.into(),
            (L::Bool, L::Int { .. }) => Found::noted(Common::Int64, "false is 0 and true is 1"),
            (L::Bool, _) => return None,

            (L::Bits { .. }, L::Bits { .. } | L::Text { .. } | L::Untyped(_)) => Common::Bits.into(),
            (L::Bits { len: Some(0..=64) }, L::Int { .. }) => {
                Found::noted(Common::Int64, "bits are read as an unsigned number")
            }
            (L::Bits { .. }, _) => return None,

            (L::Int { bits: 64, signed: false }, L::Int { bits: 64, signed: false }) => Common::UInt64.into(),
            (L::Int { bits: 64, signed: false }, L::Text { .. } | L::Untyped(_)) => Common::UInt64.into(),
            (L::Int { .. }, L::Int { .. } | L::DecimalText | L::Text { .. } | L::Untyped(_)) => {
                Common::Int64.into()
            }
            (L::Int { .. }, L::Float32 | L::Float64) => {
                Found::noted(Common::Int64, "a fraction on one side is a difference")
            }
            (L::Int { bits, signed }, L::Decimal { precision, scale }) => {
                let digits = match (bits, signed) {
                    (64, true) => 19,
                    (64, false) => 20,
                    (8, _) => 3,
                    (16, _) => 5,
                    _ => 10,
                };
                decimal(digits.max(i32::from(*precision) - i32::from(*scale)), *scale)
            }
            (L::Int { .. }, _) => return None,

            (L::Decimal { precision: p, scale: s }, L::Decimal { precision: q, scale: r }) => {
                let whole = (i32::from(*p) - i32::from(*s)).max(i32::from(*q) - i32::from(*r));
                decimal(whole, *s.max(r))
            }
            (L::Decimal { precision, scale }, L::DecimalText | L::Text { .. } | L::Untyped(_)) => {
                Common::Decimal { precision: *precision, scale: *scale }.into()
            }
            (L::Decimal { .. } | L::DecimalText, L::Float32 | L::Float64) => Found::lossy(
                Common::Float64,
                "compared as double precision, because the other side keeps no decimals",
            ),
            (L::DecimalText, L::DecimalText | L::Text { .. } | L::Untyped(_)) => Common::DecimalText.into(),
            (L::Decimal { .. } | L::DecimalText, _) => return None,

            (L::Float32, L::Float32 | L::Text { .. } | L::Untyped(_)) => Common::Float32.into(),
            (L::Float32, L::Float64) => {
                Found::lossy(Common::Float32, "compared at single precision, because one side keeps no more")
            }
            (L::Float64, L::Float64 | L::Text { .. } | L::Untyped(_)) => Common::Float64.into(),
            (L::Float32 | L::Float64, _) => return None,

            (L::Bytes, L::Bytes | L::Text { .. } | L::Untyped(_)) => Common::Bytes.into(),
            (L::Bytes, _) => return None,

            (L::Enum, L::Enum | L::Text { .. } | L::Untyped(_)) => Common::Text.into(),
            (L::Enum, _) => return None,
            (L::Text { .. }, L::Text { .. } | L::Untyped(_)) => Common::Text.into(),
            (L::Text { .. } | L::Untyped(_), _) => return None,
        })
    }
}

/// The more specific type comes first in a [`Pair`].
fn rank(t: &LogicalType) -> u8 {
    match t {
        LogicalType::Other => 0,
        LogicalType::Json => 1,
        LogicalType::Array(_) => 2,
        LogicalType::Geometry => 3,
        LogicalType::Uuid => 4,
        LogicalType::Inet => 5,
        LogicalType::Interval => 6,
        LogicalType::Set => 7,
        LogicalType::Timestamp { .. } => 8,
        LogicalType::Time { .. } => 9,
        LogicalType::Date => 10,
        LogicalType::Bool => 11,
        LogicalType::Bits { .. } => 12,
        LogicalType::Int { .. } => 13,
        LogicalType::Decimal { .. } => 14,
        LogicalType::DecimalText => 15,
        LogicalType::Float32 => 16,
        LogicalType::Float64 => 17,
        LogicalType::Bytes => 18,
        LogicalType::Enum => 19,
        LogicalType::Text { .. } => 20,
        LogicalType::Untyped(_) => 21,
    }
}

/// A decimal of `whole` digits before and `scale` behind the point; text where that exceeds 38 digits.
fn decimal(whole: i32, scale: i8) -> Found {
    match u8::try_from(whole + i32::from(scale)) {
        Ok(precision @ 1..=38) if scale >= 0 => Common::Decimal { precision, scale }.into(),
        _ => Common::DecimalText.into(),
    }
}

fn timestamp(digits: u8, zoned: bool, other: &LogicalType) -> Option<Found> {
    match other {
        LogicalType::Timestamp { digits: d, zoned: z } => {
            let nanos = digits > 6 && *d > 6;
            let mut found = with_precision(
                Common::Timestamp { nanos, zoned: zoned || *z },
                digits,
                *d,
                digits > 6 || *d > 6,
            );
            if let (Common::Timestamp { nanos, .. }, true) = (&mut found.common, found.coarse.is_some()) {
                *nanos = digits > 6 || *d > 6;
            }
            if zoned != *z {
                let sentence = "the side without a zone is taken as UTC";
                found.note = Some(match found.note {
                    Some(note) => format!("{note}; {sentence}"),
                    None => sentence.into(),
                });
            }
            Some(found)
        }
        LogicalType::Date => Some(Found::noted(
            Common::Timestamp { nanos: digits > 6, zoned },
            "a date is compared as midnight",
        )),
        LogicalType::Text { .. } | LogicalType::Untyped(_) => {
            Some(Common::Timestamp { nanos: digits > 6, zoned }.into())
        }
        _ => None,
    }
}

/// Two precisions: the coarser one is what can be demanded. `nanos` says whether the common unit is the nanosecond.
fn with_precision(common: Common, a: u8, b: u8, nanos: bool) -> Found {
    if a == b {
        return common.into();
    }
    let coarse_digits = a.min(b);
    let unit_digits = if nanos { 9 } else { 6 };
    let unit = match coarse_digits {
        0 => "second",
        3 => "millisecond",
        6 => "microsecond",
        _ => "coarser",
    };
    Found {
        common,
        coarse: Some(10i64.pow(u32::from(unit_digits - coarse_digits))),
        lossy: true,
        note: Some(format!(
            "compared at {unit} precision ({coarse_digits} digits), because one side keeps no more"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::shape::NativeOrder;

    fn column(logical: LogicalType) -> ColumnShape {
        ColumnShape {
            name: "c".into(),
            engine_type: logical.to_string(),
            logical,
            nullable: None,
            default: None,
            unreadable: None,
            order: NativeOrder::Other,
        }
    }

    fn rule(a: LogicalType, b: LogicalType) -> Option<ColumnRule> {
        let forth =
            ColumnRule::between(&column(a.clone()), Engine::Postgres, &column(b.clone()), Engine::MySql).ok();
        let back = ColumnRule::between(&column(b), Engine::MySql, &column(a), Engine::Postgres).ok();
        assert_eq!(
            forth.as_ref().map(|r| (&r.common, r.coarse, r.lossy)),
            back.as_ref().map(|r| (&r.common, r.coarse, r.lossy)),
            "the rule depends on the side"
        );
        forth
    }

    #[test]
    fn common_forms_do_not_depend_on_the_side() {
        use LogicalType as L;
        let all = [
            L::Bool,
            L::Int { bits: 16, signed: true },
            L::Int { bits: 64, signed: true },
            L::Int { bits: 64, signed: false },
            L::Decimal { precision: 12, scale: 2 },
            L::Decimal { precision: 38, scale: 10 },
            L::DecimalText,
            L::Float32,
            L::Float64,
            L::TEXT,
            L::Bytes,
            L::Date,
            L::Time { digits: 0 },
            L::Time { digits: 9 },
            L::Timestamp { digits: 3, zoned: false },
            L::Timestamp { digits: 6, zoned: true },
            L::Timestamp { digits: 9, zoned: false },
            L::Interval,
            L::Uuid,
            L::Json,
            L::Array(Box::new(L::TEXT)),
            L::Enum,
            L::Set,
            L::Bits { len: Some(1) },
            L::Bits { len: Some(8) },
            L::Inet,
            L::Geometry,
            L::Untyped(None),
            L::Untyped(Some(Box::new(L::Float64))),
            L::Other,
        ];
        for a in &all {
            for b in &all {
                rule(a.clone(), b.clone());
            }
        }
    }

    #[test]
    fn lost_precision_is_said() {
        let coarse = rule(
            LogicalType::Timestamp { digits: 6, zoned: false },
            LogicalType::Timestamp { digits: 3, zoned: false },
        )
        .unwrap();
        assert_eq!((coarse.coarse, coarse.lossy), (Some(1000), true));
        assert!(coarse.note.unwrap().contains("millisecond precision"));
        let nanos = rule(
            LogicalType::Timestamp { digits: 9, zoned: false },
            LogicalType::Timestamp { digits: 6, zoned: false },
        )
        .unwrap();
        assert_eq!(
            (nanos.common, nanos.coarse),
            (Common::Timestamp { nanos: true, zoned: false }, Some(1000))
        );
        let float = rule(LogicalType::Float32, LogicalType::Float64).unwrap();
        assert_eq!((float.common, float.lossy), (Common::Float32, true));
    }

    #[test]
    fn decimals_keep_every_digit() {
        let d = |p, s| LogicalType::Decimal { precision: p, scale: s };
        let common = |a, b| rule(a, b).unwrap().common;
        assert_eq!(common(d(25, 5), d(25, 2)), Common::Decimal { precision: 28, scale: 5 });
        assert_eq!(common(d(38, 0), d(38, 10)), Common::DecimalText);
        assert_eq!(
            common(LogicalType::Int { bits: 64, signed: false }, d(20, 0)),
            Common::Decimal { precision: 20, scale: 0 }
        );
    }

    #[test]
    fn types_without_a_common_form_say_what_to_do() {
        let error = ColumnRule::between(
            &column(LogicalType::Geometry),
            Engine::Postgres,
            &column(LogicalType::Bool),
            Engine::MySql,
        )
        .unwrap_err();
        assert!(error.0.contains("exclude it"), "{}", error.0);
    }
}
