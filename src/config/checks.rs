//! What is checked, what is accepted, and what follows: the blocks `checks` and `react` of a pair.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::threshold::{Limit, Ratio, SampleSize, Span};

/// What is checked, and what is accepted.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Checks {
    /// The schemas; `off` leaves them out
    pub schema: Switch<SchemaChecks>,
    /// The rows; `off` leaves them out
    pub rows: Switch<RowChecks>,
    /// After so many runs in a row that came to no answer, that is a warning
    pub max_inconclusive: u32,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks { schema: Switch::default(), rows: Switch::default(), max_inconclusive: 6 }
    }
}

/// A block that can be left out by the word `off`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Switch<T> {
    /// As the block says.
    On(T),
    /// The word `off`.
    Off(String),
}

impl<T: Default> Default for Switch<T> {
    fn default() -> Self {
        Switch::On(T::default())
    }
}

impl<T> Switch<T> {
    /// The block, unless it is off.
    pub fn on(&self) -> Option<&T> {
        match self {
            Switch::On(block) => Some(block),
            Switch::Off(_) => None,
        }
    }
}

impl<'de, T: for<'a> Deserialize<'a>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(std::marker::PhantomData<T>);

        impl<'de, T: for<'a> Deserialize<'a>> serde::de::Visitor<'de> for Either<T> {
            type Value = Switch<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the settings of this check, or `off`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    "off" => Ok(Switch::Off(text.into())),
                    _ => Err(E::custom("write the settings of this check, or `off`")),
                }
            }

            // Reading on from the map itself keeps the path of what is wrong inside.
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Switch::On)
            }
        }

        deserializer.deserialize_any(Either(std::marker::PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Switch<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}OrOff", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let on = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [on, { "const": "off" }] })
    }
}

/// How bad a finding of the schema is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// It is not even mentioned.
    Ignore,
    /// It is mentioned.
    Info,
    /// It is a warning.
    Warn,
    /// It fails.
    Fail,
}

/// How bad a changed type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TypeWeights {
    /// Whatever the change.
    Any(Weight),
    /// By what the new type can hold.
    ByKind {
        /// It holds less: values can be lost.
        narrowing: Weight,
        /// It holds all that the old one held.
        widening: Weight,
    },
}

impl<'de> Deserialize<'de> for TypeWeights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TypeWeights, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct ByKind {
            #[serde(default = "fail")]
            narrowing: Weight,
            #[serde(default = "info")]
            widening: Weight,
        }
        let custom = |e: serde_json::Error| D::Error::custom(e.to_string());
        match Value::deserialize(deserializer)? {
            word @ Value::String(_) => Weight::deserialize(word).map(TypeWeights::Any).map_err(custom),
            each => {
                let by = ByKind::deserialize(each).map_err(custom)?;
                Ok(TypeWeights::ByKind { narrowing: by.narrowing, widening: by.widening })
            }
        }
    }
}

fn fail() -> Weight {
    Weight::Fail
}

fn info() -> Weight {
    Weight::Info
}

impl JsonSchema for TypeWeights {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TypeWeights".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let weight = generator.subschema_for::<Weight>();
        json_schema!({
            "anyOf": [
                weight,
                { "type": "object", "properties": { "narrowing": weight, "widening": weight }, "additionalProperties": false }
            ]
        })
    }
}

/// The kinds of schema findings, in the order of reports.
pub const SCHEMA_FINDINGS: [&str; 8] = [
    "column_missing",
    "column_added",
    "type_changed",
    "nullability_changed",
    "key_changed",
    "order_changed",
    "default_changed",
    "untagged_version",
];

/// How bad each finding of the schemas is.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SchemaChecks {
    /// A column that the target lacks, or that a side has lost
    pub column_missing: Weight,
    /// A column that only the target has, or that a side has gained
    pub column_added: Weight,
    /// Another type: one word, or { narrowing, widening }
    pub type_changed: TypeWeights,
    /// NULL allowed on one side only, or no longer
    pub nullability_changed: Weight,
    /// Another primary key
    pub key_changed: Weight,
    /// Another order of the columns
    pub order_changed: Weight,
    /// Another default
    pub default_changed: Weight,
    /// A change of the source's schema that its version did not tell
    pub untagged_version: Weight,
    /// Columns whose standing differences between source and target are known; what changes later is still told
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
    /// Where the version of the source's schema is written: `comment` (the table's), or a query
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_tag: Option<String>,
}

impl Default for SchemaChecks {
    fn default() -> SchemaChecks {
        SchemaChecks {
            column_missing: Weight::Fail,
            column_added: Weight::Warn,
            type_changed: TypeWeights::ByKind { narrowing: Weight::Fail, widening: Weight::Info },
            nullability_changed: Weight::Warn,
            key_changed: Weight::Fail,
            order_changed: Weight::Ignore,
            default_changed: Weight::Ignore,
            untagged_version: Weight::Warn,
            accept: Vec::new(),
            version_tag: None,
        }
    }
}

/// What is checked of the rows.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RowChecks {
    /// Compare a sample: a share of the rows (1%), or so many (5000); `schedule.full` still reads all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleSize>,
    /// Rows whose values differ
    pub changed: Thresholds,
    /// Rows that the target lacks
    pub only_in_source: Thresholds,
    /// Rows that only the target has
    pub only_in_target: Thresholds,
    /// Keys that stand in several rows
    pub duplicate_keys: Thresholds,
    /// After a sample that fails, read all rows at once to find where the damage lies, for at most this long
    #[serde(skip_serializing_if = "Option::is_none")]
    pub localize: Option<Span>,
    /// End a check, without an answer, after this time
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
}

impl Default for RowChecks {
    fn default() -> RowChecks {
        let nothing = Thresholds { warn: None, fail: Some(Limit::Rows(0)) };
        RowChecks {
            sample: None,
            localize: None,
            changed: nothing.clone(),
            only_in_source: nothing.clone(),
            only_in_target: nothing.clone(),
            duplicate_keys: nothing,
            deadline: None,
        }
    }
}

/// The largest accepted values; what lies above is a breach.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Above this, a warning
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn: Option<Limit>,
    /// Above this, a failure
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<Limit>,
}

/// What follows from a breach.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reaction {
    /// The level that it is about (default: all)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// For the level rows: when more than this share of the rows differs
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Ratio>,
    /// When one of these was found
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// What to do
    #[serde(rename = "do")]
    pub action: Reacts,
    /// How urgent it is
    #[serde(default)]
    pub priority: Priority,
}

/// What to do about a breach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reacts {
    /// Open an incident.
    Incident,
    /// Open an incident that pages whatever its severity.
    Escalate,
}

/// How urgent something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Now.
    Hot,
    /// When there is room.
    #[default]
    Warm,
}

/// A level of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The two schemas.
    Schema,
    /// The rows, as configured.
    Rows,
    /// All rows.
    Full,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 3] = [Level::Schema, Level::Rows, Level::Full];

    /// The name in reports, metrics and the store.
    pub fn word(self) -> &'static str {
        match self {
            Level::Schema => "schema",
            Level::Rows => "rows",
            Level::Full => "full",
        }
    }

    /// The level with this name.
    pub fn of(word: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.word() == word)
    }
}
