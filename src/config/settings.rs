//! The configuration as typed data: one struct per block of the YAML, strict, with every default in one place.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::threshold::{Limit, Ratio, SampleSize, Span, Timing, Window, Zone};

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The version of this format: 1
    pub version: Version,
    /// Where drift keeps what it knows
    #[serde(default)]
    pub state: State,
    /// What drift may do by itself
    #[serde(default)]
    pub actions: Actions,
    /// For cron, windows and days
    #[serde(default = "utc")]
    pub timezone: Zone,
    /// Hours of the week by name, for maintenance
    #[serde(default)]
    pub windows: BTreeMap<String, Window>,
    /// How long results are kept
    #[serde(default)]
    pub history: History,
    /// Databases and folders by name
    #[serde(default)]
    pub connections: BTreeMap<String, Connection>,
    /// What is watched
    #[serde(default)]
    pub pairs: Vec<Pair>,
    /// Who is told, by name
    #[serde(default)]
    pub notifiers: BTreeMap<String, Notifier>,
    /// `drift serve`
    #[serde(default)]
    pub server: Server,
}

fn utc() -> Zone {
    Zone(chrono_tz::UTC)
}

/// The version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Version(pub u32);

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        match Value::deserialize(deserializer)?.as_u64() {
            Some(1) => Ok(Version(1)),
            _ => Err(D::Error::custom("this drift reads version 1; write `version: 1`")),
        }
    }
}

impl JsonSchema for Version {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "const": 1 })
    }
}

/// Where drift keeps its state.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// `sqlite:FILE`, or `postgres://…` where several processes share it
    pub url: String,
}

impl Default for State {
    fn default() -> State {
        State { url: "sqlite:drift-state.db".into() }
    }
}

/// What drift may do by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Actions {
    /// Look, remember and tell; nothing else.
    #[default]
    Observe,
}

/// How long results are kept.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct History {
    /// Runs and their results
    pub keep_runs: Span,
    /// The keys of differing rows
    pub keep_diff_rows: Span,
}

impl Default for History {
    fn default() -> History {
        History { keep_runs: Span::seconds(90 * 86_400), keep_diff_rows: Span::seconds(14 * 86_400) }
    }
}

/// Which end of a replication a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Rows come from it; nothing is ever written there.
    Source,
    /// Rows arrive in it.
    Target,
}

/// A database, or a folder of files.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// A database URL without `#table`, or a folder or object store; passwords only as ${ENV} or ${file:NAME}
    pub url: String,
    /// Which end of a replication it is
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What drift may ask of the server
    #[serde(default)]
    pub budget: Budget,
    /// How its CSV files are written
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<Csv>,
}

/// What drift may ask of one server, shared by all pairs on it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Checks that read from it at the same time
    pub checks: u32,
    /// Connections that one check may open at once
    pub connections: u32,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { checks: 2, connections: 1 }
    }
}

/// How CSV files are written.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Csv {
    /// The character between fields
    pub delimiter: char,
    /// Whether the first line holds the names
    pub header: bool,
    /// The unquoted text that means NULL
    pub null: String,
}

impl Default for Csv {
    fn default() -> Csv {
        Csv { delimiter: ',', header: true, null: String::new() }
    }
}

/// Two tables that should hold the same rows.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Its name: letters, digits, `_`, `-` and `.`
    pub name: String,
    /// Free labels, such as `team: payments`; they travel with messages
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Where rows come from
    pub source: Table,
    /// Where they should have arrived
    pub target: Table,
    /// The columns that pair rows (default: the shared primary key); `none` compares multisets of rows
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// The column that tells when a row was last written
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionColumn>,
    /// Which columns are compared, and how
    #[serde(default)]
    pub columns: Columns,
    /// A condition in SQL, for both sides or for each
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// Rows that are too young to be judged
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoff: Option<Cutoff>,
    /// How late rows are told from wrong ones
    #[serde(default)]
    pub consistency: Consistency,
    /// How what differs is looked at again
    #[serde(default)]
    pub confirm: Confirm,
    /// When each level is checked
    #[serde(default)]
    pub schedule: Schedule,
    /// What is checked, and what is accepted
    #[serde(default)]
    pub checks: Checks,
    /// What follows from a breach; the last matching entry wins
    #[serde(default)]
    pub react: Vec<Reaction>,
    /// What drift may do by itself for this pair; the lowest of all that apply holds
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Actions>,
}

/// One side of a pair.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The name of a connection
    pub connection: String,
    /// The table, `schema.table`, `(select …)`, or files below the connection's folder
    pub table: String,
}

/// The columns that pair rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Key {
    /// These columns, in this order.
    Columns(Vec<String>),
    /// The word `none`: rows are compared as a multiset.
    Word(String),
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "none" => Ok(Key::Word(word)),
            Value::String(column) => Ok(Key::Columns(vec![column])),
            Value::Array(items) if !items.is_empty() => items
                .into_iter()
                .map(|item| match item {
                    Value::String(column) => Ok(column),
                    _ => Err(D::Error::custom("a key is a list of column names")),
                })
                .collect::<Result<_, _>>()
                .map(Key::Columns),
            _ => Err(D::Error::custom("write the key's columns, such as [id], or `none`")),
        }
    }
}

impl JsonSchema for Key {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Key".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }] })
    }
}

/// The column that tells when a row was last written.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionColumn {
    /// A timestamp that every change of a row moves forward
    pub column: String,
}

/// Which columns are compared, and how.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// Compare these only
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// Leave these out
    pub exclude: Vec<String>,
    /// Columns with another name in the target: source name to target name
    pub rename: BTreeMap<String, String>,
    /// Values this near to each other count as equal: 0.01, 1% or 2s
    pub tolerance: BTreeMap<String, Value>,
    /// Differences of a text column that do not count: trim, rtrim, nfc, casefold, crlf, empty_is_null
    pub normalize: BTreeMap<String, Vec<String>>,
}

/// A condition in SQL.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Condition {
    /// For both sides.
    Both(String),
    /// For each side.
    Each(Sides),
}

/// A text for each side.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sides {
    /// For the source
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// For the target
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Condition, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(both) => Ok(Condition::Both(both)),
            each @ Value::Object(_) => {
                Sides::deserialize(each).map(Condition::Each).map_err(|e| D::Error::custom(e.to_string()))
            }
            _ => Err(D::Error::custom("write a condition, or { source: …, target: … }")),
        }
    }
}

impl JsonSchema for Condition {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Condition".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let each = generator.subschema_for::<Sides>();
        json_schema!({ "anyOf": [{ "type": "string" }, each] })
    }
}

/// Rows that are too young to be judged, by the database's own clock.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cutoff {
    /// The column that tells when a row was last written (default: that of `version`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// The age from which a row is judged
    #[serde(default = "ten_minutes")]
    pub settle: Span,
    /// With more lag than this between the two sides, rows are not judged at all
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lag: Option<Span>,
}

fn ten_minutes() -> Span {
    Span::seconds(600)
}

/// How late rows are told from wrong ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// What differs is looked at again.
    #[default]
    Confirm,
    /// Only the cutoff tells; each older difference counts.
    Cutoff,
    /// Each difference counts: for tables that rest.
    None,
}

/// How what differs is looked at again.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Confirm {
    /// How many times, at most
    pub rounds: u32,
    /// The time between two looks: more than the replication's lag
    pub wait: Span,
}

impl Default for Confirm {
    fn default() -> Confirm {
        Confirm { rounds: 3, wait: Span::seconds(5) }
    }
}

/// When each level is checked by `drift serve`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// The two schemas
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Timing>,
    /// The rows, as `checks.rows` says
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Timing>,
    /// All rows, without a sample
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<Timing>,
    /// How far a run may be moved, so that not all begin at once
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// What happens when the run before has not ended
    pub overlap: Overlap,
    /// No check begins in these windows: their names
    pub maintenance: Vec<String>,
}

/// What happens to a run whose predecessor has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is left out.
    #[default]
    Skip,
    /// It runs afterwards, once.
    Queue,
}

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
    /// End a check, without an answer, after this time
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
}

impl Default for RowChecks {
    fn default() -> RowChecks {
        let nothing = Thresholds { warn: None, fail: Some(Limit::Rows(0)) };
        RowChecks {
            sample: None,
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

/// Who is told.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Notifier {
    /// Mail.
    Smtp(Smtp),
    /// An Alertmanager.
    Alertmanager(Alertmanager),
    /// Any HTTP service.
    Webhook(Webhook),
}

/// Mail.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Smtp {
    /// `smtp://user:${ENV}@host:587?tls=required` (STARTTLS), or `smtps://…`
    pub url: String,
    /// The sender
    pub from: String,
    /// The receivers
    pub to: Vec<String>,
}

/// An Alertmanager.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alertmanager {
    /// Its address, such as http://alertmanager:9093
    pub url: String,
    /// How often an open alert is sent again, so that it does not end by itself
    #[serde(default = "one_minute")]
    pub resend: Span,
    /// Labels that every alert carries
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

fn one_minute() -> Span {
    Span::seconds(60)
}

/// Any HTTP service that takes JSON.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Where messages are posted
    pub url: String,
    /// The secret of the signature (HMAC-SHA256) in the header `Drift-Signature`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac: Option<String>,
}

/// `drift serve`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Address and port; off loopback, `behind_proxy: true` says that something else keeps strangers out
    pub listen: String,
    /// Something in front of drift ends TLS and lets in whom it knows
    pub behind_proxy: bool,
    /// How many checks run at the same time
    pub workers: u32,
}

impl Default for Server {
    fn default() -> Server {
        Server { listen: "127.0.0.1:8480".into(), behind_proxy: false, workers: 4 }
    }
}
