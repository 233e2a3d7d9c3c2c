//! What stands in `tests/cases/*.yaml`. Unknown names are errors, so that a misspelled expectation cannot pass unread.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::support::parquet::Cell;
use crate::support::proxy::Cut;

/// One kind of trouble: two small tables, options, the right answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A speaking name.
    pub case: String,
    /// What went wrong for somebody, and why the expected answer is the right one.
    pub trouble: String,
    /// The table's name in databases and the file's name elsewhere.
    pub table: String,
    /// The key's columns; without them drift finds the key itself.
    #[serde(default)]
    pub key: Vec<String>,
    /// More arguments of every call.
    #[serde(default)]
    pub args: Vec<String>,
    /// The rows of the source, by the engine that holds them.
    pub source: Side,
    /// The rows of the target, by the engine that holds them.
    pub target: Side,
    /// Which engines are compared; all engines of the source with all of the target otherwise.
    pub pairs: Option<Vec<(Engine, Engine)>>,
    /// Whether the same must hold, mirrored, with the sides exchanged.
    #[serde(default)]
    pub exchange: bool,
    /// Makes a PostgreSQL role with no rights; `{role}` in a set-up is its name, and it reads the source.
    #[serde(default)]
    pub role: bool,
    /// The answer is asked for under each of these default time zones of the servers.
    #[serde(default)]
    pub server_time_zones: Vec<ServerTimeZone>,
    /// A fault of the connection to the target.
    pub fault: Option<Fault>,
    /// What happens to the rows before and while they are compared. Each call has fresh ones.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The right answer.
    pub expect: Expect,
    /// The same rows with other arguments.
    #[serde(default)]
    pub variants: Vec<Variant>,
}

/// The same rows with other arguments and another answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Arguments, added to those of the case.
    #[serde(default)]
    pub args: Vec<String>,
    /// Instead of the case's fault.
    pub fault: Option<Fault>,
    /// The right answer.
    pub expect: Expect,
}

/// Who holds rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mysql,
    /// A SQLite file.
    Sqlite,
    /// Parquet files.
    Parquet,
    /// CSV files.
    Csv,
    /// Newline-delimited JSON files.
    Ndjson,
}

/// The same rows, by engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// SQL, one session.
    pub postgres: Option<String>,
    /// SQL, one session that starts in UTC.
    pub mysql: Option<String>,
    /// SQL.
    pub sqlite: Option<String>,
    /// A file, or several by name.
    pub csv: Option<Files<String>>,
    /// A file, or several by name.
    pub ndjson: Option<Files<String>>,
    /// A file, or several by name.
    pub parquet: Option<Files<ParquetFile>>,
}

impl Side {
    /// The engines that hold these rows.
    pub fn engines(&self) -> Vec<Engine> {
        let all = [
            (Engine::Postgres, self.postgres.is_some()),
            (Engine::Mysql, self.mysql.is_some()),
            (Engine::Sqlite, self.sqlite.is_some()),
            (Engine::Parquet, self.parquet.is_some()),
            (Engine::Csv, self.csv.is_some()),
            (Engine::Ndjson, self.ndjson.is_some()),
        ];
        all.into_iter().filter(|(_, present)| *present).map(|(engine, _)| engine).collect()
    }

    /// Whether the rows of this engine lie in several files, whose order must not matter.
    pub fn has_several_files(&self, engine: Engine) -> bool {
        match engine {
            Engine::Csv => self.csv.as_ref().is_some_and(Files::are_several),
            Engine::Ndjson => self.ndjson.as_ref().is_some_and(Files::are_several),
            Engine::Parquet => self.parquet.as_ref().is_some_and(Files::are_several),
            Engine::Postgres | Engine::Mysql | Engine::Sqlite => false,
        }
    }
}

/// One file, or several by name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Files<T> {
    /// Several, in a folder; they are read in both orders of their names.
    Several {
        /// Name without ending, and content.
        files: BTreeMap<String, T>,
    },
    /// One.
    One(T),
}

impl<T> Files<T> {
    fn are_several(&self) -> bool {
        matches!(self, Files::Several { .. })
    }
}

/// What a Parquet file holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParquetFile {
    /// In Parquet's own words: `optional int64 id; optional binary name (STRING);`.
    pub columns: String,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// Bytes that are cut off the end of the file.
    #[serde(default)]
    pub truncate_last_bytes: u64,
}

/// A pair of default time zones, each in its server's own words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTimeZone {
    /// For `alter database … set timezone`.
    pub postgres: String,
    /// For `set global time_zone`.
    pub mysql: String,
}

/// A fault of the connection to the target.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What breaks.
    pub cut: Cut,
    /// After so many bytes of the server.
    pub after_bytes: u64,
}

/// Statements of somebody else, for the engines of a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Where.
    pub side: StepSide,
    /// Steps of one name on one side share a session, which stays open to the end.
    #[serde(default)]
    pub session: String,
    /// So many seconds after drift started; before it otherwise.
    pub after: Option<f64>,
    /// What, in the words of every engine that the side has.
    pub sql: String,
}

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepSide {
    /// Where the rows come from.
    Source,
    /// Where they should be.
    Target,
}

/// The right answer. Lists of rows are complete: what they do not name must not be reported.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The exit code.
    pub exit: i32,
    /// Keys of rows that only the source has.
    #[serde(default)]
    pub only_in_source: Vec<Vec<Cell>>,
    /// Keys of rows that only the target has.
    #[serde(default)]
    pub only_in_target: Vec<Vec<Cell>>,
    /// Rows that both have and that differ.
    #[serde(default)]
    pub changed: Vec<Changed>,
    /// Whether rows are listed that the three lists do not name; only the counts are then compared.
    #[serde(default)]
    pub rows_unlisted: bool,
    /// First and last key of every range that differs, where given.
    pub ranges: Option<Vec<(Vec<Cell>, Vec<Cell>)>>,
    /// Numbers of rows.
    #[serde(default)]
    pub counts: Counts,
    /// Keys that several rows share; none otherwise.
    #[serde(default)]
    pub duplicate_keys: DuplicateKeys,
    /// The schema's findings above `info`, complete where given.
    pub schema: Option<Vec<SchemaFinding>>,
    /// The exit code of `drift schema` on the same two tables.
    pub schema_exit: Option<i32>,
    /// Columns that could not be compared, complete.
    #[serde(default)]
    pub not_compared: Vec<String>,
    /// What the note of a column has to contain.
    #[serde(default)]
    pub column_notes: BTreeMap<String, String>,
    /// What the text for people has to contain, on either output.
    #[serde(default)]
    pub says: Vec<String>,
    /// What no output may contain.
    #[serde(default)]
    pub never_says: Vec<String>,
    /// What the JSON document has to contain, as it is written there.
    #[serde(default)]
    pub json_contains: Vec<String>,
    /// The greatest resident memory, in MiB.
    pub peak_memory_mib: Option<u64>,
}

/// A row that differs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// Its key.
    pub key: Vec<Cell>,
    /// The columns that differ.
    pub columns: Vec<String>,
}

/// Numbers of rows; only those given are compared.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Rows of the source.
    pub source: Option<u64>,
    /// Rows of the target.
    pub target: Option<u64>,
    /// Keys found on both sides.
    pub compared: Option<u64>,
    /// Rows only in the source.
    pub only_in_source: Option<u64>,
    /// Rows only in the target.
    pub only_in_target: Option<u64>,
    /// Rows that differ.
    pub changed: Option<u64>,
}

/// Keys that several rows share.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuplicateKeys {
    /// In the source.
    #[serde(default)]
    pub source: Vec<DuplicateKey>,
    /// In the target.
    #[serde(default)]
    pub target: Vec<DuplicateKey>,
}

/// A key that several rows share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuplicateKey {
    /// The key.
    pub key: Vec<Cell>,
    /// How many rows have it.
    pub rows: u64,
}

/// A finding about the schema.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaFinding {
    /// `column_missing` and so on.
    pub kind: String,
    /// The column.
    pub column: String,
    /// What the source's type contains.
    pub source: Option<String>,
    /// What the target's type contains.
    pub target: Option<String>,
}

/// Reads one file of `tests/cases`.
pub fn read(file: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_norway::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
