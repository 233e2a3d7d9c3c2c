//! The configuration as typed data: one struct per block of the YAML, strict, with every default in one place.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::threshold::{Span, Timing, Window, Zone};

pub use super::checks::{
    Checks, Level, Priority, Reaction, Reacts, RowChecks, SCHEMA_FINDINGS, SchemaChecks, Switch, Thresholds,
    TypeWeights, Weight,
};

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

impl Config {
    /// The pair of that name.
    pub fn pair(&self, name: &str) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.name == name)
    }
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

impl Columns {
    /// The name that a column of the source has in the target.
    pub fn in_target<'a>(&'a self, column: &'a str) -> &'a str {
        self.rename.get(column).map_or(column, String::as_str)
    }
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
