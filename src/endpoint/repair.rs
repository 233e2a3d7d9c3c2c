//! Statements that would make a table equal to another one. They are written for a person to review; drift never runs
//! them.
//!
//! Each statement stands on a line of its own and is guarded: it changes a row only as long as the row is what the
//! comparison saw, so that whatever was written since then stays. What a table cannot hold, or drift cannot spell with
//! certainty, is an error and never a guess.

use std::fmt::Write;

use super::{mysql, postgres, sqlite};
use crate::value::canon::Column;
use crate::value::recipe::{ColumnRule, Common, Recipe};
use crate::value::shape::{ColumnShape, Engine, LogicalType, TableShape};
use crate::value::show;
use crate::value::text::{hex, parse_hex};

/// How the rows of one table are mended.
#[derive(Debug)]
pub struct Repair {
    engine: Engine,
    table: String,
    /// The compared columns: the key's, then the others.
    columns: Vec<Written>,
    keys: usize,
    /// Columns of the table that no statement names.
    untouched: Vec<String>,
}

/// A column of the target.
#[derive(Debug)]
struct Written {
    rule: ColumnRule,
    /// The name as an identifier.
    sql: String,
    /// SQLite's affinity, by the declared type.
    affinity: Affinity,
    /// The engine computes it.
    is_generated: bool,
}

/// SQLite's rules for declared types (https://www.sqlite.org/datatype3.html, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Affinity {
    Integer,
    Text,
    Blob,
    Number,
}

impl Affinity {
    fn of(declared: &str) -> Affinity {
        let declared = declared.to_ascii_uppercase();
        let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
        if has(&["INT"]) {
            Affinity::Integer
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Affinity::Text
        } else if declared.is_empty() || has(&["BLOB"]) {
            Affinity::Blob
        } else {
            Affinity::Number
        }
    }
}

/// A row of one side: its compared columns and its place in them.
pub type Row<'a> = (&'a [Column], usize);

impl Repair {
    /// The repair of `table` (an identifier in its engine's SQL). The error says why it cannot be written.
    pub fn of(table: String, shape: &TableShape, recipe: &Recipe) -> Result<Repair, String> {
        if recipe.key.is_empty() {
            return Err("without a key no row can be told from another; name one with --key".into());
        }
        let columns: Vec<Written> = recipe
            .key
            .iter()
            .chain(&recipe.values)
            .map(|rule| {
                let column = shape.column(&rule.target_name);
                Written {
                    rule: rule.clone(),
                    sql: identifier(shape.engine, &rule.target_name),
                    affinity: column.map_or(Affinity::Blob, |c| Affinity::of(&c.engine_type)),
                    is_generated: column.is_some_and(ColumnShape::is_generated),
                }
            })
            .collect();
        for (at, column) in columns.iter().enumerate() {
            let name = &column.rule.name;
            if column.rule.lossy {
                return Err(format!(
                    "column {name:?} is compared as {}, which does not hold all of the source's value; exclude it",
                    column.rule.compared_as()
                ));
            }
            if matches!(column.rule.target, LogicalType::Array(_) | LogicalType::Geometry) {
                return Err(format!("column {name:?} is of a type that drift does not write; exclude it"));
            }
            if at < recipe.key.len() && !column.is_exact_key(shape.engine) {
                return Err(format!("a row cannot surely be found by the key column {name:?} in its form"));
            }
        }
        let named = |name: &str| recipe.key.iter().chain(&recipe.values).any(|rule| rule.target_name == name);
        let untouched = shape.columns.iter().map(|c| c.name.clone()).filter(|name| !named(name)).collect();
        Ok(Repair { engine: shape.engine, table, columns, keys: recipe.key.len(), untouched })
    }

    /// What stands before the statements.
    pub fn opening(&self) -> String {
        let mut out = String::new();
        if !self.untouched.is_empty() {
            let names: Vec<String> = self.untouched.iter().map(|name| one_line(name)).collect();
            let _ = writeln!(out, "-- columns that were not compared stay as they are: {}", names.join(", "));
        }
        out.push_str(match self.engine {
            Engine::Postgres => {
                "-- apply with: psql -v ON_ERROR_STOP=1 -f FILE\nset client_encoding = 'UTF8';\nset standard_conforming_strings = on;\n\
                 set time zone 'UTC';\nset datestyle = 'ISO, YMD';\nbegin;\n"
            }
            Engine::MySql => {
                "-- apply with: mariadb DATABASE < FILE\nset names utf8mb4;\nset time_zone = '+00:00';\n\
                 set sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\nstart transaction;\n"
            }
            _ => "-- apply with: sqlite3 -bail DATABASE < FILE\nbegin;\n",
        });
        out
    }

    /// What stands behind them.
    pub fn closing(&self) -> &'static str {
        "commit;\n"
    }

    /// Adds a row that only the source has, unless its key has arrived by now.
    pub fn insert(&self, source: Row<'_>) -> Result<String, String> {
        let written = self.columns.iter().enumerate().filter(|(_, column)| !column.is_generated);
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for (at, column) in written {
            names.push(column.sql.as_str());
            values.push(self.literal(at, source)?);
        }
        let (table, key) = (&self.table, self.key(source)?);
        let (overriding, from) = match self.engine {
            Engine::Postgres => (" overriding system value", ""),
            Engine::MySql => ("", " from dual"),
            _ => ("", ""),
        };
        Ok(format!(
            "insert into {table} ({}){overriding} select {}{from} where not exists (select 1 from {table} where {key});",
            names.join(", "),
            values.join(", ")
        ))
    }

    /// Gives a row the source's values in `differing` (places among the columns behind the key), if the target still
    /// has those that were seen.
    pub fn update(&self, source: Row<'_>, target: Row<'_>, differing: &[usize]) -> Result<String, String> {
        let mut set = Vec::new();
        let mut conditions = vec![self.key(source)?];
        for at in differing.iter().map(|at| at + self.keys) {
            let column = &self.columns[at];
            if !column.is_generated {
                set.push(format!("{} = {}", column.sql, self.literal(at, source)?));
                conditions.extend(self.guard(at, target));
            }
        }
        if set.is_empty() {
            return Err("a row differs in columns only that the target computes itself".into());
        }
        Ok(format!("update {} set {} where {};", self.table, set.join(", "), conditions.join(" and ")))
    }

    /// Removes a row that only the target has, if it is still the one that was seen.
    pub fn delete(&self, target: Row<'_>) -> Result<String, String> {
        let guards = (self.keys..self.columns.len()).filter_map(|at| self.guard(at, target));
        let conditions: Vec<String> = [self.key(target)?].into_iter().chain(guards).collect();
        Ok(format!("delete from {} where {};", self.table, conditions.join(" and ")))
    }

    /// The condition that finds a row's key.
    fn key(&self, row: Row<'_>) -> Result<String, String> {
        let conditions: Result<Vec<String>, String> = (0..self.keys)
            .map(|at| {
                let column = &self.columns[at];
                if row.0[at].is_null(row.1) {
                    return Ok(format!("{} is null", column.sql));
                }
                let value = self.literal(at, row)?;
                let found = format!("{} = {value}", column.sql);
                // An index finds the text by its collation; bytes decide.
                Ok(match self.exactly(column, &value) {
                    Some(exactly) => format!("{found} and {exactly}"),
                    None => found,
                })
            })
            .collect();
        Ok(conditions?.join(" and "))
    }

    /// A comparison of texts that no collation softens.
    fn exactly(&self, column: &Written, value: &str) -> Option<String> {
        let name = &column.sql;
        let is_text = matches!(column.rule.target, LogicalType::Text { .. } | LogicalType::Untyped(_))
            && column.rule.common == Common::Text;
        is_text.then(|| match self.engine {
            Engine::Postgres => format!("{name}::text collate \"C\" = {value}"),
            Engine::MySql => {
                format!("cast(convert({name} using utf8mb4) as binary) = cast({value} as binary)")
            }
            _ => format!("{name} collate binary = {value}"),
        })
    }

    /// The condition that a column still has the value that was seen; `None` where no comparison is surely right.
    fn guard(&self, at: usize, row: Row<'_>) -> Option<String> {
        let column = &self.columns[at];
        let name = &column.sql;
        if !column.is_comparable(self.engine) || row.0[at].odd_at(row.1).is_some() {
            return None;
        }
        if row.0[at].is_null(row.1) {
            return Some(format!("{name} is null"));
        }
        let value = self.literal(at, row).ok()?;
        Some(self.exactly(column, &value).unwrap_or_else(|| format!("{name} = {value}")))
    }

    /// A value in the target's SQL.
    fn literal(&self, at: usize, (columns, row): Row<'_>) -> Result<String, String> {
        let (column, values) = (&self.columns[at], &columns[at]);
        if values.is_null(row) {
            return Ok("null".into());
        }
        let rule = &column.rule;
        let refused =
            || format!("column {:?} has a value in the source that the target's type cannot hold", rule.name);
        if values.odd_at(row).is_some() {
            return Err(refused());
        }
        let text = show::text_of(rule, values, row).ok_or_else(refused)?;
        let target = match &rule.target {
            LogicalType::Untyped(Some(hint)) => hint,
            other => other,
        };
        let is_text = matches!(target, LogicalType::Text { .. } | LogicalType::Enum);
        if self.engine != Engine::Sqlite && !has_room(target, &text) {
            return Err(refused());
        }
        match (&rule.common, target) {
            (Common::Bytes, _) if is_text => {
                let bytes = parse_hex(&text).ok_or_else(refused)?;
                String::from_utf8(bytes).map(|text| self.text(&text)).map_err(|_| refused())
            }
            (Common::Bytes, _) => Ok(self.bytes(text.trim_start_matches("0x"))),
            (Common::Uuid, LogicalType::Bytes) => Ok(self.bytes(&text.replace('-', ""))),
            (Common::Bool, LogicalType::Bits { .. }) => Ok(self.bits(if text == "true" { "1" } else { "0" })),
            (Common::Bool, _) if self.engine == Engine::Sqlite && !is_text => {
                Ok(if text == "true" { "1" } else { "0" }.into())
            }
            (Common::Int64, LogicalType::Bool) if text != "0" && text != "1" => Err(refused()),
            (Common::Int64, LogicalType::Bool) if self.engine == Engine::Postgres => Ok(self.text(&text)),
            (Common::Int64, LogicalType::Bits { len }) => {
                let number: i64 = text.parse().map_err(|_| refused())?;
                Ok(self.bits(&format!("{number:0width$b}", width = len.unwrap_or(1) as usize)))
            }
            (Common::Bits, _) if !is_text => Ok(self.bits(&text)),
            (Common::Int64 | Common::UInt64 | Common::Decimal { .. } | Common::DecimalText, _) => {
                self.number(column, &text, is_text).ok_or_else(refused)
            }
            (Common::Float32 | Common::Float64, _) => self.float(&text, is_text).ok_or_else(refused),
            (Common::Date | Common::Timestamp { .. }, _) => {
                self.moment(target, &text, is_text).ok_or_else(refused)
            }
            _ => Ok(self.text(&text)),
        }
    }

    fn number(&self, column: &Written, text: &str, is_text: bool) -> Option<String> {
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
        match self.engine {
            _ if is_text => Some(self.text(text)),
            Engine::Postgres => {
                let is_int = matches!(column.rule.target, LogicalType::Int { .. });
                Some(if is_int && is_plain { text.to_string() } else { self.text(text) })
            }
            Engine::MySql => is_plain.then(|| text.to_string()),
            // Beyond 15 digits a number with a fraction would be rounded to a double.
            _ => {
                let digits = text.bytes().filter(u8::is_ascii_digit).count();
                let is_exact = !text.contains('.') && text.parse::<i64>().is_ok() || digits <= 15;
                match column.affinity {
                    _ if is_plain && is_exact => Some(text.to_string()),
                    Affinity::Text | Affinity::Blob => Some(self.text(text)),
                    Affinity::Integer | Affinity::Number => None,
                }
            }
        }
    }

    fn float(&self, text: &str, is_text: bool) -> Option<String> {
        let is_finite = text.parse::<f64>().is_ok_and(f64::is_finite);
        match self.engine {
            _ if is_text => Some(self.text(text)),
            Engine::Postgres => Some(self.text(text)),
            _ if is_finite => {
                let has_exponent = text.contains(['e', 'E']);
                Some(if has_exponent { text.to_string() } else { format!("{text}e0") })
            }
            Engine::Sqlite if text == "Infinity" => Some("9e999".into()),
            Engine::Sqlite if text == "-Infinity" => Some("-9e999".into()),
            _ => None,
        }
    }

    fn moment(&self, target: &LogicalType, text: &str, is_text: bool) -> Option<String> {
        let is_plain = text.len() >= 10
            && text.bytes().take(4).all(|b| b.is_ascii_digit())
            && (self.engine == Engine::MySql || !text.contains("-00") && !text.starts_with("0000"));
        let is_infinite = text.ends_with("infinity");
        if is_text || (is_infinite && self.engine == Engine::Postgres) {
            return Some(self.text(text));
        }
        if !is_plain {
            return None;
        }
        let (day, clock) = text.split_once('T').map_or((text, None), |(day, clock)| (day, Some(clock)));
        let clock = clock.map(|clock| clock.trim_end_matches('Z'));
        match (target, clock) {
            (LogicalType::Date, Some(clock)) if clock != "00:00:00" => None,
            (LogicalType::Date, _) | (_, None) => Some(self.text(day)),
            (LogicalType::Timestamp { zoned: true, .. }, Some(clock)) if self.engine != Engine::MySql => {
                Some(self.text(&format!("{day} {clock}Z")))
            }
            (_, Some(clock)) => Some(self.text(&format!("{day} {clock}"))),
        }
    }

    fn bits(&self, bits: &str) -> String {
        match self.engine {
            Engine::Sqlite => self.text(bits),
            _ => format!("b'{bits}'"),
        }
    }

    fn bytes(&self, hex: &str) -> String {
        match self.engine {
            Engine::Postgres => format!("'\\x{hex}'"),
            _ => format!("x'{hex}'"),
        }
    }

    /// A text on one line, whatever client reads it.
    fn text(&self, text: &str) -> String {
        let is_plain = !text.chars().any(|c| c.is_control() || (c == '\\' && self.engine == Engine::MySql));
        let quoted = text.replace('\'', "''");
        if is_plain {
            return format!("'{quoted}'");
        }
        let hex = hex(text.as_bytes());
        match self.engine {
            Engine::Postgres => {
                let mut out = String::from("E'");
                for c in quoted.chars() {
                    let _ = match c {
                        '\\' => write!(out, "\\\\"),
                        c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)),
                        c => write!(out, "{c}"),
                    };
                }
                out.push('\'');
                out
            }
            Engine::MySql => format!("_utf8mb4 x'{hex}'"),
            _ => format!("cast(x'{hex}' as text)"),
        }
    }
}

impl Written {
    /// Whether equality in the engine finds the value as drift would write it.
    fn is_comparable(&self, engine: Engine) -> bool {
        use LogicalType as L;
        match engine {
            Engine::Sqlite => {
                use Common as C;
                let is_number = matches!(
                    self.rule.common,
                    C::Int64 | C::UInt64 | C::Decimal { .. } | C::DecimalText | C::Float64
                );
                match self.affinity {
                    Affinity::Integer | Affinity::Number => is_number,
                    Affinity::Text => self.rule.common == C::Text,
                    Affinity::Blob => self.rule.common == C::Bytes,
                }
            }
            Engine::MySql => {
                !matches!(self.rule.target, L::Float32 | L::Json | L::Set | L::Geometry | L::Other)
            }
            _ => !matches!(self.rule.target, L::Json | L::Array(_) | L::Geometry | L::Other),
        }
    }

    fn is_exact_key(&self, engine: Engine) -> bool {
        !self.is_generated
            && self.is_comparable(engine)
            && !matches!(self.rule.common, Common::Float32 | Common::Float64)
    }
}

/// Whether a text or whole number fits into the declared type.
fn has_room(target: &LogicalType, text: &str) -> bool {
    match target {
        LogicalType::Text { max: Some(max), .. } => text.chars().count() <= *max as usize,
        LogicalType::Int { bits, signed } => text.parse::<i128>().map_or(true, |n| {
            let (least, size) = if *signed { (-(1i128 << (bits - 1)), bits - 1) } else { (0, *bits) };
            (least..1i128 << size).contains(&n)
        }),
        _ => true,
    }
}

pub(crate) fn identifier(engine: Engine, name: &str) -> String {
    match engine {
        Engine::Postgres => postgres::identifier(name),
        Engine::MySql => mysql::identifier(name),
        _ => sqlite::identifier(name),
    }
}

/// A text that cannot leave its comment.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
