//! One differing row, as reports show it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::value::guess::Guess;

/// How a row differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// Both sides have the key, with other values.
    Changed,
    /// The target lacks the row.
    OnlyInSource,
    /// The source lacks the row.
    OnlyInTarget,
}

impl DifferenceKind {
    /// The name in reports.
    pub fn word(self) -> &'static str {
        match self {
            DifferenceKind::Changed => "changed",
            DifferenceKind::OnlyInSource => "only_in_source",
            DifferenceKind::OnlyInTarget => "only_in_target",
        }
    }
}

/// Names and values of some columns.
pub type Values = Map<String, Value>;

/// One differing row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// How it differs.
    pub kind: DifferenceKind,
    /// The key's values; empty without a key.
    pub key: Values,
    /// The differing columns of a changed row.
    pub columns: Vec<String>,
    /// The source's values (of the differing columns, or of the whole row); `None` with `--keys-only`.
    pub source: Option<Values>,
    /// The target's values.
    pub target: Option<Values>,
    /// What may have made each differing column so, in the order of `columns`; empty where it was read back from a file.
    #[serde(skip)]
    pub(crate) guesses: Vec<Vec<Guess>>,
    /// The values of a changed row's equal columns, where they were asked for.
    #[serde(skip)]
    pub(crate) same: Option<Values>,
}

impl Difference {
    /// The difference as the JSON document shows it. `confirmed` tells whether it was looked at again.
    pub fn json(&self, confirmed: bool) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("kind".into(), self.kind.word().into());
        out.insert("key".into(), Value::Object(self.key.clone()));
        if !self.columns.is_empty() {
            out.insert("columns".into(), self.columns.clone().into());
        }
        if confirmed {
            out.insert("confirmed_by".into(), "stability".into());
        }
        for (side, values) in [("source", &self.source), ("target", &self.target)] {
            if let Some(values) = values {
                out.insert(side.into(), Value::Object(values.clone()));
            }
        }
        out
    }
}

/// A key that stands in several rows of one side.
#[derive(Debug, Clone, PartialEq)]
pub struct DuplicateKey {
    /// The key's values.
    pub key: Values,
    /// How many rows have it.
    pub rows: u64,
}
