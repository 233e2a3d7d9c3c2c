//! What the user asked for.

use std::time::Duration;

use super::confirm::Confirm;
use super::cutoff::Cutoff;
use super::sample::Sample;
use crate::value::hash::Hash;
use crate::value::recipe::{Normalize, Tolerance};

/// By which columns rows are paired.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeyChoice {
    /// The primary key that both sides share.
    #[default]
    Primary,
    /// These columns, by their names at the source.
    Columns(Vec<String>),
    /// None: the tables are compared as multisets of rows.
    Keyless,
}

/// How row values appear in the result. Keys are never masked: they identify the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mask {
    /// As they are.
    #[default]
    None,
    /// As `***`.
    Mask,
    /// As a hash, so that equal values look equal.
    Hash,
}

/// A comparison to run.
#[derive(Debug, Clone)]
pub struct CompareRequest {
    /// How rows are paired.
    pub key: KeyChoice,
    /// The value columns to compare, by their names at the source; all shared ones by default.
    pub columns: Option<Vec<String>>,
    /// Columns of either side to leave out.
    pub exclude: Vec<String>,
    /// Whether `exclude` may name columns that this table lacks, because it holds for several tables.
    pub exclude_any: bool,
    /// Source column, target column.
    pub map: Vec<(String, String)>,
    /// A condition in the source's language.
    pub source_where: Option<String>,
    /// A condition in the target's language.
    pub target_where: Option<String>,
    /// Wishes by column.
    pub normalize: Vec<(String, Normalize)>,
    /// Tolerances by column.
    pub tolerance: Vec<(String, Tolerance)>,
    /// Whether MySQL's impossible dates count as NULL.
    pub impossible_dates_as_null: bool,
    /// Which hash says that two rows are equal.
    pub hash: Hash,
    /// How many differences are listed; all are counted.
    pub limit: usize,
    /// End the run after this many differences.
    pub stop_after: Option<u64>,
    /// End the run after this time.
    pub deadline: Option<Duration>,
    /// How many key ranges are read at once, at most.
    pub threads: usize,
    /// What drift's buffers, sort and spill may hold, in bytes.
    pub memory: usize,
    /// How many times a lost connection is opened again, per range.
    pub retries: u32,
    /// How differences are confirmed; `None` reports them as first read.
    pub confirm: Option<Confirm>,
    /// Judge only rows that rest; goes without confirmation.
    pub cutoff: Option<Cutoff>,
    /// Compare some rows instead of all.
    pub sample: Option<Sample>,
    /// How values appear.
    pub mask: Mask,
    /// Whether values appear at all.
    pub keys_only: bool,
    /// Whether examples of every kind of difference are kept, with the values of their equal columns.
    pub context: bool,
    /// Whether every difference is written down, beyond `limit`.
    pub list_all: bool,
    /// Whether the statements that would make the target equal are written down.
    pub repair: bool,
}

impl Default for CompareRequest {
    fn default() -> Self {
        CompareRequest {
            key: KeyChoice::Primary,
            columns: None,
            exclude: Vec::new(),
            exclude_any: false,
            map: Vec::new(),
            source_where: None,
            target_where: None,
            normalize: Vec::new(),
            tolerance: Vec::new(),
            impossible_dates_as_null: false,
            hash: Hash::default(),
            limit: 1000,
            stop_after: None,
            deadline: None,
            threads: 1,
            memory: 256 << 20,
            retries: 3,
            confirm: None,
            cutoff: None,
            sample: None,
            mask: Mask::None,
            keys_only: false,
            context: false,
            list_all: false,
            repair: false,
        }
    }
}
