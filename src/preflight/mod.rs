//! Questions to the real systems before anything is watched: can they be reached, may drift read, is the key a key, are
//! there indexes for what is asked often, and what gets lost between the types.

use std::fmt;

use serde_json::{Value, json};

use crate::compare::{CompareRequest, Endpoints, KeyChoice, explain};
use crate::endpoint::{Error, ErrorKind};
use crate::value::shape::TableShape;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// It will work, at a price.
    Warn,
    /// It will not work.
    Fail,
}

/// What was found out about a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The pair; empty for what concerns all.
    pub pair: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, and what to do.
    pub message: String,
}

impl Finding {
    /// As an object of the JSON document.
    pub fn json(&self) -> Value {
        json!({ "pair": self.pair, "severity": word(self.severity), "message": self.message })
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warn => "warn",
        Severity::Fail => "FAIL",
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<4}  {}: {}", word(self.severity), self.pair, self.message)
    }
}

/// A pair, as far as it is looked at here.
#[derive(Clone)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its two tables.
    pub endpoints: Endpoints,
    /// How its rows are compared.
    pub request: CompareRequest,
    /// The column that tells when a row was last written, on each side.
    pub age: Option<[String; 2]>,
}

/// Looks at one pair. Nothing is read but catalogues.
pub async fn pair(subject: &Subject) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut add = |severity, message: String| {
        out.push(Finding { pair: subject.name.clone(), severity, message });
    };
    let described =
        futures::future::join(subject.endpoints[0].describe(), subject.endpoints[1].describe()).await;
    let shapes = match described {
        (Ok(source), Ok(target)) => [source, target],
        (source, target) => {
            for error in [source.err(), target.err()].into_iter().flatten() {
                add(Severity::Fail, advice(&error));
            }
            return out;
        }
    };
    let plan = match explain(&subject.endpoints, &subject.request).await {
        Ok(plan) => plan,
        Err(error) => {
            add(Severity::Fail, advice(&error));
            return out;
        }
    };
    for left_out in &plan.not_compared {
        let column = left_out.column.as_ref().map_or(String::new(), |column| format!("column {column}: "));
        let severity =
            if left_out.severity == crate::schema::Severity::Fail { Severity::Fail } else { Severity::Warn };
        add(severity, format!("{column}{}", left_out.reason));
    }
    let lossy = plan.recipe.key.iter().chain(&plan.recipe.values).filter(|rule| rule.lossy);
    for rule in lossy {
        let note = rule.note.as_deref().unwrap_or("what one side cannot hold is not compared");
        add(Severity::Info, format!("column {} is compared as {}: {note}", rule.name, rule.compared_as()));
    }
    let words = ["source", "target"];
    let columns = |side: usize| -> Vec<String> {
        let name = |rule: &crate::value::recipe::ColumnRule| {
            if side == 0 { rule.name.clone() } else { rule.target_name.clone() }
        };
        plan.recipe.key.iter().map(name).collect()
    };
    for (side, shape) in shapes.iter().enumerate() {
        let key = columns(side);
        let is_file = subject.endpoints[side].is_immutable();
        if subject.request.key != KeyChoice::Keyless && !is_file && !is_unique(shape, &key) {
            add(
                Severity::Warn,
                format!(
                    "{}: no unique index on the key ({}); rows with the same key are reported as duplicates",
                    words[side],
                    key.join(", ")
                ),
            );
        }
        if let Some(age) = &subject.age
            && !is_file
        {
            let column = &age[side];
            if shape.column(column).is_none() {
                add(
                    Severity::Fail,
                    format!(
                        "{}: there is no column {column}, which is to tell when a row was last written",
                        words[side]
                    ),
                );
            } else if !shape.index_orders.iter().any(|index| index.first() == Some(column)) {
                add(
                    Severity::Warn,
                    format!(
                        "{}: no index on {column}; asking for the newest row reads the whole table",
                        words[side]
                    ),
                );
            }
        }
        if let Some(rows) = shape.row_estimate {
            add(Severity::Info, format!("{}: about {rows} rows", words[side]));
        }
    }
    add(Severity::Info, plan.reason);
    out
}

fn is_unique(shape: &TableShape, key: &[String]) -> bool {
    let same = |index: &Vec<String>| index.iter().all(|column| key.contains(column)) && !index.is_empty();
    same(&shape.primary_key) || shape.unique.iter().any(same)
}

fn advice(error: &Error) -> String {
    match error.kind {
        ErrorKind::Refused => format!("{} (a missing privilege)", error.message),
        _ => error.message.clone(),
    }
}
