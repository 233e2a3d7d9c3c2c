//! Where the rows of a pattern lie: in one run of the key, in one hour, day or month, or where a column has one value.
//!
//! A place is only named where chance would hardly have chosen it: so many rows, drawn from the table at random, would lie
//! there less than once in a thousand times. What the table looks like as a whole is known from all its instants and from
//! a sample of its other values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::compute::{max, min};
use arrow::datatypes::{
    DataType, Date32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use xxhash_rust::xxh3::xxh3_64;

use super::difference::Values;
use super::rows::Rows;
use crate::value::canon::Column;
use crate::value::recipe::{Common, Recipe};
use crate::value::same::ticks;
use crate::value::{show, temporal};

/// Fewer rows have no place in common worth telling.
const FEW: u64 = 3;
/// What chance may explain is not told.
const CHANCE: f64 = 1e-3;
/// Values of one batch that are looked at for the picture of the whole table.
const SAMPLE: usize = 64;
/// Distinct values of a column that are counted; one with more holds no groups of rows.
const MOST_VALUES: usize = 64;
const HOUR: i64 = 3_600_000_000;

/// Where all rows of a pattern lie.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// In one run of differing rows, without an equal row between them.
    Run {
        /// The least key.
        from: Values,
        /// The greatest key.
        to: Values,
    },
    /// In one hour, day or month of a column.
    Time {
        /// The column.
        column: String,
        /// `hour`, `day` or `month`.
        unit: &'static str,
        /// Its beginning, as the column's values are written.
        from: String,
    },
    /// Where a column has one value.
    Value {
        /// The column.
        column: String,
        /// The value.
        value: String,
    },
}

/// What one row says about its place, by column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Nothing.
    Blank,
    /// Microseconds since 1970-01-01.
    Time(i64),
    /// The hash of a value.
    Value(u64),
}

/// A day or instant in microseconds since 1970-01-01, unless it is infinite or impossible.
fn micros_of(column: &Column, row: usize) -> Option<i64> {
    let values = &column.values;
    match values.data_type() {
        DataType::Date32 => temporal::timestamp_of_date(values.as_primitive::<Date32Type>().value(row))
            .filter(|micros| !temporal::is_reserved_timestamp(*micros)),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            ticks(column, row).map(|nanos| nanos.div_euclid(1000))
        }
        _ => ticks(column, row),
    }
}

fn mark(common: &Common, column: &Column, row: usize) -> Mark {
    let values = &column.values;
    if values.is_null(row) {
        return Mark::Blank;
    }
    match common {
        Common::Timestamp { .. } | Common::Date => micros_of(column, row).map_or(Mark::Blank, Mark::Time),
        Common::Text => Mark::Value(xxh3_64(values.as_string::<i32>().value(row).as_bytes())),
        Common::Int64 => Mark::Value(xxh3_64(&values.as_primitive::<Int64Type>().value(row).to_le_bytes())),
        Common::Bool => Mark::Value(u64::from(values.as_boolean().value(row))),
        _ => Mark::Blank,
    }
}

/// One differing row on its way into a [`Spread`].
pub(crate) struct Spot<'a> {
    recipe: &'a Recipe,
    rows: &'a Rows,
    row: usize,
    /// Its number among the differing rows, and that of its run.
    at: u64,
    run: u64,
    key: Arc<Values>,
    marks: Vec<Mark>,
}

impl<'a> Spot<'a> {
    pub(crate) fn new(
        recipe: &'a Recipe,
        rows: &'a Rows,
        row: usize,
        at: u64,
        run: u64,
        key: Arc<Values>,
    ) -> Spot<'a> {
        let rules = recipe.key.iter().chain(&recipe.values);
        let marks = rules.zip(&rows.columns).map(|(rule, column)| mark(&rule.common, column, row)).collect();
        Spot { recipe, rows, row, at, run, key, marks }
    }
}

/// What the rows of a pattern have in common in one column.
#[derive(Debug, Clone)]
enum Shared {
    Nothing,
    Times(i64, i64),
    Value(u64, Arc<str>),
}

/// Where some rows lie, so far.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    first: (u64, Arc<Values>),
    last: (u64, Arc<Values>),
    runs: (u64, u64),
    columns: Vec<Shared>,
}

impl Spread {
    fn of(spot: &Spot<'_>) -> Spread {
        let rules = spot.recipe.key.iter().chain(&spot.recipe.values);
        let columns =
            rules.zip(&spot.rows.columns).zip(&spot.marks).map(|((rule, column), mark)| match mark {
                Mark::Blank => Shared::Nothing,
                Mark::Time(micros) => Shared::Times(*micros, *micros),
                Mark::Value(hash) => {
                    let text = show::text_of(rule, column, spot.row).unwrap_or_default();
                    Shared::Value(*hash, text.into())
                }
            });
        Spread {
            first: (spot.at, Arc::clone(&spot.key)),
            last: (spot.at, Arc::clone(&spot.key)),
            runs: (spot.run, spot.run),
            columns: columns.collect(),
        }
    }

    fn add(&mut self, spot: &Spot<'_>) {
        for (shared, mark) in self.columns.iter_mut().zip(&spot.marks) {
            match (&mut *shared, mark) {
                (Shared::Times(least, greatest), Mark::Time(micros)) => {
                    (*least, *greatest) = ((*least).min(*micros), (*greatest).max(*micros));
                }
                (Shared::Value(hash, _), Mark::Value(other)) if hash == other => {}
                _ => *shared = Shared::Nothing,
            }
        }
        let here = (spot.at, Arc::clone(&spot.key));
        self.reach(here.clone(), here, (spot.run, spot.run));
    }

    /// Adds a row to those so far, if any.
    pub(crate) fn add_to(spread: &mut Option<Spread>, spot: &Spot<'_>) {
        match spread {
            Some(spread) => spread.add(spot),
            none => *none = Some(Spread::of(spot)),
        }
    }

    /// Adds other rows to those so far, if any.
    pub(crate) fn merge_into(spread: &mut Option<Spread>, more: Option<Spread>) {
        match (spread, more) {
            (Some(spread), Some(more)) => spread.merge(more),
            (none @ None, more) => *none = more,
            (Some(_), None) => {}
        }
    }

    fn merge(&mut self, other: Spread) {
        for (mine, more) in self.columns.iter_mut().zip(other.columns) {
            match (&mut *mine, more) {
                (Shared::Times(a, b), Shared::Times(c, d)) => (*a, *b) = ((*a).min(c), (*b).max(d)),
                (Shared::Value(hash, _), Shared::Value(more, _)) if *hash == more => {}
                _ => *mine = Shared::Nothing,
            }
        }
        self.reach(other.first, other.last, other.runs);
    }

    /// Makes it span these rows and runs as well.
    fn reach(&mut self, first: (u64, Arc<Values>), last: (u64, Arc<Values>), runs: (u64, u64)) {
        if first.0 < self.first.0 {
            self.first = first;
        }
        if last.0 > self.last.0 {
            self.last = last;
        }
        self.runs = (self.runs.0.min(runs.0), self.runs.1.max(runs.1));
    }

    /// Makes the numbers those of a part that lies behind others.
    pub(crate) fn shift(&mut self, differing: u64, runs: u64) {
        self.first.0 += differing;
        self.last.0 += differing;
        self.runs = (self.runs.0 + runs, self.runs.1 + runs);
    }

    /// The places worth telling. `except` is the column that the pattern is about; values of columns that are no keys
    /// are only told if `shows_values`.
    pub(crate) fn places(
        &self,
        recipe: &Recipe,
        whole: &Whole,
        rows: u64,
        except: Option<usize>,
        shows_values: bool,
    ) -> Vec<Place> {
        let mut out = Vec::new();
        if rows < FEW {
            return out;
        }
        if self.runs.0 == self.runs.1 && !recipe.key.is_empty() {
            out.push(Place::Run { from: (*self.first.1).clone(), to: (*self.last.1).clone() });
        }
        let mut times = Vec::new();
        let mut values = Vec::new();
        for (at, (shared, rule)) in
            self.columns.iter().zip(recipe.key.iter().chain(&recipe.values)).enumerate()
        {
            let is_key = at < recipe.key.len();
            if except.is_some_and(|except| except + recipe.key.len() == at) || !(is_key || shows_values) {
                continue;
            }
            match (shared, whole.columns.get(at)) {
                (Shared::Times(least, greatest), Some(Picture::Times(from, to))) => {
                    let zoned = matches!(rule.common, Common::Timestamp { zoned: true, .. });
                    if let Some((unit, start)) = bucket(*least, *greatest, *from, *to, rows) {
                        let text = temporal::format_timestamp_micros(start, zoned);
                        let from =
                            if unit == "hour" { text } else { text.chars().take(unit_chars(unit)).collect() };
                        times.push((unit_chars(unit), Place::Time { column: rule.name.clone(), unit, from }));
                    }
                }
                (Shared::Value(hash, text), Some(Picture::Values(counts, total))) => {
                    let seen = counts.get(hash).copied().unwrap_or(0);
                    let share = (seen + 1) as f64 / (*total + 2) as f64;
                    let chance = share.powf((rows - 1) as f64);
                    if chance < CHANCE {
                        values.push((
                            chance,
                            Place::Value { column: rule.name.clone(), value: text.to_string() },
                        ));
                    }
                }
                _ => {}
            }
        }
        out.extend(times.into_iter().max_by_key(|(chars, _)| *chars).map(|(_, place)| place));
        out.extend(values.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, place)| place));
        out
    }
}

/// How much of an instant's text names its hour, day or month: the longer, the narrower.
fn unit_chars(unit: &str) -> usize {
    match unit {
        "hour" => 13,
        "day" => 10,
        _ => 7,
    }
}

/// The narrowest hour, day or month that holds both instants, if chance does not explain it.
fn bucket(least: i64, greatest: i64, from: i64, to: i64, rows: u64) -> Option<(&'static str, i64)> {
    let month_of = |micros: i64| {
        let (year, month, _) = temporal::civil_from_days(micros.div_euclid(24 * HOUR));
        temporal::days_from_civil(year, month, 1) * 24 * HOUR
    };
    let start = |unit: &str, micros: i64| match unit {
        "hour" => micros.div_euclid(HOUR) * HOUR,
        "day" => micros.div_euclid(24 * HOUR) * 24 * HOUR,
        _ => month_of(micros),
    };
    let units = [("hour", HOUR), ("day", 24 * HOUR), ("month", 31 * 24 * HOUR)];
    let (unit, size) = units.into_iter().find(|(unit, _)| start(unit, least) == start(unit, greatest))?;
    let span = to.saturating_sub(from).max(1);
    let share = (size as f64 / span as f64).min(1.0);
    (share.powf((rows - 1) as f64) < CHANCE).then(|| (unit, start(unit, least)))
}

/// What a column of the whole table looks like.
#[derive(Debug, Clone)]
enum Picture {
    Unknown,
    /// The least and the greatest instant.
    Times(i64, i64),
    /// How often each value was seen in a sample of so many.
    Values(HashMap<u64, u64>, u64),
}

/// The picture of a table, from its source's rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whole {
    columns: Vec<Picture>,
}

impl Whole {
    /// Takes a batch into account.
    pub(crate) fn saw(&mut self, recipe: &Recipe, rows: &Rows) {
        self.columns.resize(rows.columns.len(), Picture::Unknown);
        let rules = recipe.key.iter().chain(&recipe.values);
        for ((picture, rule), column) in self.columns.iter_mut().zip(rules).zip(&rows.columns) {
            match rule.common {
                Common::Timestamp { .. } | Common::Date => {
                    if let Some((least, greatest)) = ends(column) {
                        match picture {
                            Picture::Times(a, b) => (*a, *b) = ((*a).min(least), (*b).max(greatest)),
                            _ => *picture = Picture::Times(least, greatest),
                        }
                    }
                }
                Common::Text | Common::Int64 | Common::Bool => {
                    if !matches!(picture, Picture::Values(..)) {
                        *picture = Picture::Values(HashMap::new(), 0);
                    }
                    let Picture::Values(counts, total) = picture else { continue };
                    for row in (0..rows.len()).step_by(rows.len().div_ceil(SAMPLE).max(1)) {
                        *total += 1;
                        if let Mark::Value(hash) = mark(&rule.common, column, row)
                            && (counts.len() < MOST_VALUES || counts.contains_key(&hash))
                        {
                            *counts.entry(hash).or_default() += 1;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the picture of another part.
    pub(crate) fn append(&mut self, other: Whole) {
        if self.columns.is_empty() {
            *self = other;
            return;
        }
        for (mine, more) in self.columns.iter_mut().zip(other.columns) {
            match (&mut *mine, more) {
                (Picture::Times(a, b), Picture::Times(c, d)) => (*a, *b) = ((*a).min(c), (*b).max(d)),
                (Picture::Values(counts, total), Picture::Values(more, all)) => {
                    *total += all;
                    for (hash, n) in more {
                        *counts.entry(hash).or_default() += n;
                    }
                }
                (Picture::Unknown, more) => *mine = more,
                _ => {}
            }
        }
    }
}

/// The least and greatest instant of a batch, in microseconds; `None` where one is infinite or impossible.
fn ends(column: &Column) -> Option<(i64, i64)> {
    fn both<T: arrow::datatypes::ArrowPrimitiveType>(
        array: &PrimitiveArray<T>,
    ) -> Option<(T::Native, T::Native)>
    where
        T::Native: arrow::datatypes::ArrowNativeType,
    {
        Some((min(array)?, max(array)?))
    }
    let values = &column.values;
    let (least, greatest) = match values.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let (a, b) = both(values.as_primitive::<TimestampNanosecondType>())?;
            (a.div_euclid(1000), b.div_euclid(1000))
        }
        DataType::Timestamp(..) => both(values.as_primitive::<TimestampMicrosecondType>())?,
        DataType::Date32 => {
            let (a, b) = both(values.as_primitive::<Date32Type>())?;
            (temporal::timestamp_of_date(a)?, temporal::timestamp_of_date(b)?)
        }
        _ => return None,
    };
    let is_plain = |micros| !temporal::is_reserved_timestamp(micros);
    (is_plain(least) && is_plain(greatest)).then_some((least, greatest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * HOUR;

    #[test]
    fn the_narrowest_unit_is_told_unless_chance_explains_it() {
        let year = 365 * DAY;
        assert_eq!(bucket(5 * DAY + 7, 5 * DAY + 9, 0, year, 3), Some(("hour", 5 * DAY)));
        assert_eq!(bucket(5 * DAY + 7, 5 * DAY + 9 * HOUR, 0, year, 3), Some(("day", 5 * DAY)));
        assert_eq!(bucket(5 * DAY, 9 * DAY, 0, year, 9), Some(("month", 0)));
        assert_eq!(bucket(5 * DAY, 9 * DAY, 0, year, 3), None);
        assert_eq!(bucket(5 * DAY, 9 * DAY, 0, 20 * DAY, 1000), None);
        assert_eq!(bucket(5 * DAY, 300 * DAY, 0, year, 1000), None);
    }
}
