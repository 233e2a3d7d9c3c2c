//! What a merge finds, in bounded memory: counts, the first differences, the smallest ranges, digests.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::confirm::{Known, Standing, Suspects, image, key_of};
use super::cutoff::Age;
use super::difference::{Difference, DifferenceKind, DuplicateKey, Values};
use super::digest::RangeDigest;
use super::pattern::{Guesses, Pattern};
use super::place::{Spot, Spread, Whole};
use super::ranges::Ranges;
use super::records::{Differing, Records, Wanted};
use super::request::Mask;
use super::rows::Rows;
use super::side::border_of;
use crate::value::canon::Column;
use crate::value::guess::{Guess, guesses};
use crate::value::recipe::{ColumnRule, Recipe};
use crate::value::same::same;
use crate::value::show;

/// Examples of one kind of difference, and of all.
const EXAMPLES: u32 = 20;
const MOST_EXAMPLES: usize = 1000;

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Where rows come from.
    Source,
    /// Where they should have arrived.
    Target,
}

impl Side {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Side::Source => "source",
            Side::Target => "target",
        }
    }
}

/// Everything found in some part of the tables.
#[derive(Debug)]
pub struct Tally {
    recipe: Arc<Recipe>,
    limit: usize,
    mask: Mask,
    keys_only: bool,
    /// Rows that were equal.
    pub equal: u64,
    /// Keys on both sides with other values.
    pub changed: u64,
    /// Rows that only the source has.
    pub only_in_source: u64,
    /// Rows that only the target has.
    pub only_in_target: u64,
    /// Changed rows by value column, in the recipe's order.
    pub by_column: Vec<u64>,
    /// The first differences in key order.
    pub differences: Vec<Difference>,
    /// Duplicate keys: of the source, of the target.
    pub duplicates: [Vec<DuplicateKey>; 2],
    /// How many duplicate keys there are in all, by side.
    pub duplicate_count: [u64; 2],
    /// Further differences, a few of each kind, for reports that show examples.
    pub examples: Vec<Difference>,
    /// The damaged ranges.
    pub ranges: Ranges,
    /// The digest of each side's rows.
    pub digests: [RangeDigest; 2],
    /// Rows whose hashes differ although their values are the same within the rules.
    pub same_within_rules: u64,
    /// The last key that was settled.
    pub last_key: Option<Values>,
    /// Suspects that kept changing while they were looked at again, or rows that a cutoff leaves alone.
    pub in_flight: u64,
    /// Rows that are too young to be judged, where there is a cutoff.
    age: Option<Age>,
    /// Equal rows since the last range.
    gap: u64,
    /// What differs, where it is to be confirmed.
    pub(crate) suspects: Option<Suspects>,
    /// What differed before, in a reading that confirms.
    sieve: Option<Known>,
    guesses: Guesses,
    /// Whether examples are kept, with the values of their equal columns.
    context: bool,
    /// How many differences of each kind were offered as examples.
    exemplified: HashMap<(String, &'static str), u32>,
    /// Where the rows lie that only the source, or only the target has.
    only: [Option<Spread>; 2],
    /// Runs of differing rows so far.
    runs: u64,
    /// What the table looks like as a whole.
    whole: Whole,
    /// The last suspect that was confirmed.
    confirmed: Option<usize>,
    /// The key of the group of rows that is being looked at.
    group: Option<u64>,
    /// Every difference, as far as that was asked for.
    pub(crate) records: Records,
}

impl Tally {
    /// An empty tally.
    pub fn new(recipe: Arc<Recipe>, limit: usize, mask: Mask, keys_only: bool) -> Tally {
        let columns = recipe.values.len();
        Tally {
            recipe,
            limit,
            mask,
            keys_only,
            equal: 0,
            changed: 0,
            only_in_source: 0,
            only_in_target: 0,
            by_column: vec![0; columns],
            differences: Vec::new(),
            duplicates: [Vec::new(), Vec::new()],
            duplicate_count: [0, 0],
            ranges: Ranges::default(),
            digests: [RangeDigest::default(); 2],
            same_within_rules: 0,
            last_key: None,
            in_flight: 0,
            age: None,
            gap: 0,
            suspects: None,
            sieve: None,
            guesses: Guesses::default(),
            examples: Vec::new(),
            context: false,
            exemplified: HashMap::new(),
            only: [None, None],
            runs: 0,
            whole: Whole::default(),
            confirmed: None,
            group: None,
            records: Records::default(),
        }
    }

    /// Keeps examples of every kind of difference.
    pub(crate) fn exemplifying(mut self, context: bool) -> Tally {
        self.context = context;
        self
    }

    /// Writes down every difference.
    pub(crate) fn recording(mut self, wanted: Wanted) -> Tally {
        self.records = Records::new(wanted);
        self
    }

    /// Remembers what differs, within about `memory` bytes.
    pub(crate) fn suspecting(mut self, memory: usize) -> Tally {
        self.suspects = Some(Suspects::within(memory));
        self
    }

    /// Judges no row that is too young.
    pub(crate) fn sparing(mut self, age: Option<Age>) -> Tally {
        self.age = age;
        self
    }

    /// Whether a differing row is too young to be judged, on any side; then it is counted as that.
    fn spares(&mut self, rows: &[(&Rows, usize)]) -> bool {
        let is_young = self.age.is_some_and(|age| rows.iter().any(|(rows, row)| age.is_young(rows, *row)));
        if is_young {
            self.in_flight += 1;
            self.gap += 1;
        }
        is_young
    }

    /// Counts only what differed before, and still does in the same way.
    pub(crate) fn confirming(mut self, sieve: Known) -> Tally {
        self.sieve = Some(sieve);
        self
    }

    /// Ends a reading that confirms; returns the sieve, which has learnt what the reading saw differ.
    pub(crate) fn end_of_sieve(&mut self) -> Option<Known> {
        let mut known = self.sieve.take()?;
        known.learn(&self.suspects.take()?);
        Some(known)
    }

    /// Makes a reading that confirmed the first one the whole answer; `late` suspects no longer differ,
    /// and they were all known if `complete`.
    pub(crate) fn completes(&mut self, first: &Tally, late: u64, complete: bool) {
        self.equal = first.equal + late;
        self.same_within_rules = first.same_within_rules;
        self.digests = first.digests;
        self.duplicates = first.duplicates.clone();
        self.duplicate_count = first.duplicate_count;
        self.last_key = first.last_key.clone();
        self.whole = first.whole.clone();
        if self.different() == first.different() {
            // Everything is confirmed. The first reading saw all equal rows between the ranges.
            self.ranges = first.ranges.clone();
        } else {
            // Around suspects that found no room, two ranges may have become one.
            self.ranges.doubt(!complete);
        }
        self.finish();
    }

    /// What the differences have in common, by column, then whole rows.
    pub fn patterns(&self) -> Vec<Pattern> {
        let columns: Vec<String> = self.recipe.values.iter().map(|rule| rule.name.clone()).collect();
        let shows_values = self.mask == Mask::None && !self.keys_only;
        let places = |spread: Option<&Spread>, rows, except| {
            spread.map_or_else(Vec::new, |s| s.places(&self.recipe, &self.whole, rows, except, shows_values))
        };
        let of_columns = self.guesses.patterns(&self.by_column).into_iter().map(|found| Pattern {
            column: Some(columns[found.column].clone()),
            pattern: found.guess.pattern(),
            detail: found.guess.detail(&columns),
            rows: found.rows,
            places: places(found.spread.as_ref(), found.rows, Some(found.column)),
            guess: Some(found.guess),
        });
        let mut patterns: Vec<Pattern> = of_columns.collect();
        let mut whole = |pattern, detail, rows, side: Side| {
            // What is known of all rows that one side lacks says nothing about some of them.
            let all = [self.only_in_source, self.only_in_target][side as usize];
            let spread = self.only[side as usize].as_ref().filter(|_| rows == all);
            let places = places(spread, rows, None);
            patterns.push(Pattern { column: None, pattern, detail, rows, places, guess: None });
        };
        let (runs, missing) = self.ranges.missing();
        if runs > 0 {
            let detail = match runs {
                1 => "one run of rows that only the source has".to_string(),
                several => format!("{several} runs of rows that only the source has"),
            };
            whole("missing_range", detail, missing, Side::Source);
        }
        if self.only_in_target > 0 {
            let detail = "rows that only the target has".to_string();
            whole("surplus_rows", detail, self.only_in_target, Side::Target);
        }
        patterns
    }

    /// Hands over every difference in key order, where [`super::CompareRequest::list_all`] asked for them.
    pub fn differences_to(
        &mut self,
        each: impl FnMut(Difference) -> std::io::Result<()>,
    ) -> Result<(), String> {
        self.records.differences(each)
    }

    /// All differing rows.
    pub fn different(&self) -> u64 {
        self.changed + self.only_in_source + self.only_in_target
    }

    /// Whether anything is wrong.
    pub fn has_drift(&self) -> bool {
        self.different() > 0 || self.has_duplicates()
    }

    /// Whether a key stands in several rows.
    pub fn has_duplicates(&self) -> bool {
        self.duplicate_count != [0, 0]
    }

    /// Rows read on one side.
    pub fn rows(&self, side: Side) -> u64 {
        self.digests[side as usize].rows
    }

    /// Takes a batch of the source into the picture of the whole table.
    pub(crate) fn saw(&mut self, rows: &Rows) {
        // Readings that confirm take the first one's picture.
        if self.sieve.is_none() {
            self.whole.saw(&self.recipe, rows);
        }
    }

    pub(crate) fn read(&mut self, side: Side, hash: u64) {
        self.digests[side as usize].add(hash);
    }

    /// Two rows with the same key and the same hash.
    pub(crate) fn equal(&mut self) {
        self.equal += 1;
        self.gap += 1;
    }

    /// Two rows of one duplicate key that differ in hash only, by the rules.
    pub(crate) fn equal_within_rules(&mut self) {
        self.same_within_rules += 1;
        self.equal();
    }

    /// Whether rows are compared as a multiset.
    pub(crate) fn is_keyless(&self) -> bool {
        self.recipe.key.is_empty()
    }

    /// Whether two rows are the same within a tolerance; never where all columns are exact, for then hashes decide.
    pub(crate) fn same_row(&self, source: &Rows, i: usize, target: &Rows, j: usize) -> bool {
        let mut rules = self.recipe.values.iter();
        if !rules.any(|rule| rule.tolerance.is_some() || rule.coarse.is_some()) {
            return false;
        }
        let columns = value_columns(&self.recipe, source).zip(value_columns(&self.recipe, target));
        self.recipe.values.iter().zip(columns).all(|(rule, (a, b))| same(rule, a, i, b, j))
    }

    /// Two rows with the same key and other hashes: the values decide.
    pub(crate) fn judge(&mut self, source: &Rows, i: usize, target: &Rows, j: usize) {
        let recipe = Arc::clone(&self.recipe);
        let columns = value_columns(&recipe, source).zip(value_columns(&recipe, target));
        let differing: Vec<usize> = recipe
            .values
            .iter()
            .zip(columns)
            .enumerate()
            .filter(|(_, (rule, (a, b)))| !same(rule, a, i, b, j))
            .map(|(at, _)| at)
            .collect();
        if differing.is_empty() {
            self.same_within_rules += 1;
            return self.equal();
        }
        if self.spares(&[(source, i), (target, j)]) {
            return;
        }
        let image = image(Side::Source, source.hash(i)).wrapping_add(image(Side::Target, target.hash(j)));
        let Some(key) = self.differs(None, source, i, image) else { return };
        let spot = Spot::new(&recipe, source, i, self.different(), self.runs, Arc::clone(&key));
        self.changed += 1;
        let mut all_guesses = Vec::with_capacity(differing.len());
        for at in &differing {
            self.by_column[*at] += 1;
            let guesses = guesses_of(&recipe, *at, &differing, source, i, target, j);
            self.guesses.add(*at, guesses.clone(), Some(&spot));
            all_guesses.push(guesses);
        }
        let rows = ((&*source.columns, i), (&*target.columns, j));
        self.records.mend(&Differing::Changed(rows.0, rows.1, &differing));
        self.note(|tally| Difference {
            kind: DifferenceKind::Changed,
            key: Values::clone(&key),
            columns: differing.iter().map(|at| recipe.values[*at].name.clone()).collect(),
            source: tally.values(source, i, Some(&differing)),
            target: tally.values(target, j, Some(&differing)),
            guesses: all_guesses,
            same: tally.context.then(|| tally.same_values(source, i, &differing)).flatten(),
        });
    }

    /// The values of the columns that do not differ.
    fn same_values(&self, rows: &Rows, row: usize, differing: &[usize]) -> Option<Values> {
        let same: Vec<usize> = (0..self.recipe.values.len()).filter(|at| !differing.contains(at)).collect();
        self.values(rows, row, Some(&same))
    }

    /// Lists a difference, as far as that was asked for.
    fn note(&mut self, difference: impl FnOnce(&Tally) -> Difference) {
        let has_room = self.differences.len() < self.limit;
        if !has_room && !self.records.lists() && !self.context {
            return;
        }
        let difference = difference(self);
        if self.records.lists() {
            self.records.list(&difference);
        }
        if has_room {
            self.differences.push(difference);
        } else if self.context && self.is_another_example(&difference) {
            self.examples.push(difference);
        }
    }

    /// Whether a difference shows something of which there are few examples yet.
    fn is_another_example(&mut self, difference: &Difference) -> bool {
        let kinds: Vec<(String, &'static str)> = match difference.kind {
            DifferenceKind::Changed => {
                let guesses = difference.columns.iter().zip(&difference.guesses);
                guesses.map(|(column, g)| (column.clone(), g.first().map_or("", Guess::pattern))).collect()
            }
            kind => vec![(String::new(), kind.word())],
        };
        let mut is_new = false;
        for kind in kinds {
            let seen = self.exemplified.entry(kind).or_default();
            is_new |= *seen < EXAMPLES;
            *seen += 1;
        }
        is_new && self.examples.len() < MOST_EXAMPLES
    }

    /// A row that one side lacks.
    pub(crate) fn only_in(&mut self, side: Side, rows: &Rows, row: usize) {
        if self.spares(&[(rows, row)]) {
            return;
        }
        let Some(key) = self.differs(Some(side), rows, row, image(side, rows.hash(row))) else { return };
        let recipe = Arc::clone(&self.recipe);
        let spot = Spot::new(&recipe, rows, row, self.different(), self.runs, Arc::clone(&key));
        Spread::add_to(&mut self.only[side as usize], &spot);
        let here = (&*rows.columns, row);
        let kind = match side {
            Side::Source => {
                self.only_in_source += 1;
                self.records.mend(&Differing::OnlyInSource(here));
                DifferenceKind::OnlyInSource
            }
            Side::Target => {
                self.only_in_target += 1;
                self.records.mend(&Differing::OnlyInTarget(here));
                DifferenceKind::OnlyInTarget
            }
        };
        self.note(|tally| {
            let values = tally.values(rows, row, None);
            let (source, target) = if side == Side::Source { (values, None) } else { (None, values) };
            let key = Values::clone(&key);
            Difference { kind, key, columns: Vec::new(), source, target, guesses: Vec::new(), same: None }
        });
    }

    /// A key with several rows on one side.
    pub(crate) fn duplicate(&mut self, side: Side, rows: &Rows, row: usize, count: u64) {
        self.group = Some(rows.key_hash(row));
        self.duplicate_count[side as usize] += 1;
        if self.duplicates[side as usize].len() < self.limit {
            let key = key_values(&self.recipe, rows, row);
            self.duplicates[side as usize].push(DuplicateKey { key, rows: count });
        }
    }

    /// Notes how far the merge has come.
    pub(crate) fn settled_to(&mut self, rows: &Rows, row: usize) {
        if !self.recipe.key.is_empty() {
            self.last_key = Some(key_values(&self.recipe, rows, row));
        }
    }

    /// Notes a row that differs and gives its key; `None` if it does not count, because it is not confirmed.
    fn differs(&mut self, only: Option<Side>, rows: &Rows, row: usize, image: u64) -> Option<Arc<Values>> {
        let mut gap = std::mem::take(&mut self.gap);
        let id = rows.key_hash(row);
        let in_group = self.recipe.key.is_empty() || self.group == Some(id);
        let standing = self.sieve.as_ref().map(|sieve| sieve.standing(id, image, in_group));
        // What did not differ at first must not take the room of what did.
        if let (Some(suspects), Some(Standing::Confirmed { .. } | Standing::InFlight) | None) =
            (&mut self.suspects, standing)
        {
            suspects.add(id, image, gap, || key_of(&self.recipe, rows, row));
        }
        match standing {
            Some(Standing::Confirmed { at }) => {
                gap = self.sieve.as_ref().map_or(gap, |sieve| sieve.gap(self.confirmed, at));
                self.confirmed = Some(at);
            }
            Some(Standing::InFlight) => {
                self.in_flight += 1;
                return None;
            }
            Some(Standing::New) => return None,
            Some(Standing::Again) | None => {}
        }
        let key = Arc::new(key_values(&self.recipe, rows, row));
        if !self.recipe.key.is_empty() {
            let border = rows.columns.first().and_then(|column| border_of(column, row));
            self.runs += u64::from(self.ranges.add(only, &key, border, gap));
        }
        Some(key)
    }

    /// The last touch: the promised number of ranges.
    pub(crate) fn finish(&mut self) {
        self.ranges.finish();
    }

    /// Appends what was found in the part behind this one.
    pub(crate) fn append(&mut self, mut other: Tally) {
        let before = self.different();
        self.equal += other.equal;
        self.changed += other.changed;
        self.only_in_source += other.only_in_source;
        self.only_in_target += other.only_in_target;
        self.same_within_rules += other.same_within_rules;
        for (mine, more) in self.by_column.iter_mut().zip(&other.by_column) {
            *mine += more;
        }
        let room = self.limit.saturating_sub(self.differences.len());
        let beyond = other.differences.split_off(room.min(other.differences.len()));
        self.differences.extend(other.differences);
        for difference in beyond.into_iter().chain(other.examples) {
            if self.context && self.is_another_example(&difference) {
                self.examples.push(difference);
            }
        }
        for side in [0, 1] {
            let room = self.limit.saturating_sub(self.duplicates[side].len());
            self.duplicates[side].extend(std::mem::take(&mut other.duplicates[side]).into_iter().take(room));
            self.duplicate_count[side] += other.duplicate_count[side];
            self.digests[side] = self.digests[side].combine(other.digests[side]);
        }
        if let (Some(mine), Some(more)) = (&mut self.suspects, other.suspects.take()) {
            mine.append(more, self.gap);
        }
        self.in_flight += other.in_flight;
        self.records.append(other.records);
        self.whole.append(std::mem::take(&mut other.whole));
        let is_one = self.ranges.append(std::mem::take(&mut other.ranges), &mut self.gap, other.gap);
        self.runs -= u64::from(is_one);
        self.guesses.append(std::mem::take(&mut other.guesses), before, self.runs);
        for (mine, mut more) in self.only.iter_mut().zip(std::mem::take(&mut other.only)) {
            if let Some(more) = &mut more {
                more.shift(before, self.runs);
            }
            Spread::merge_into(mine, more);
        }
        self.runs += other.runs;
        self.last_key = other.last_key.or(self.last_key.take());
    }

    fn values(&self, rows: &Rows, row: usize, only: Option<&[usize]>) -> Option<Values> {
        if self.keys_only {
            return None;
        }
        let columns = self.recipe.values.iter().zip(value_columns(&self.recipe, rows)).enumerate();
        Some(
            columns
                .filter(|(at, _)| only.is_none_or(|only| only.contains(at)))
                .map(|(_, (rule, column))| (rule.name.clone(), self.masked(rule, column, row)))
                .collect(),
        )
    }

    fn masked(&self, rule: &ColumnRule, column: &Column, row: usize) -> Value {
        match self.mask {
            Mask::None => show::json_of(rule, column, row),
            Mask::Mask => show::text_of(rule, column, row).map_or(Value::Null, |_| "***".into()),
            Mask::Hash => show::text_of(rule, column, row)
                .map_or(Value::Null, |text| format!("xxh3:{:016x}", xxh3_64(text.as_bytes())).into()),
        }
    }
}

/// What may have made the target's value of a differing column.
fn guesses_of(
    recipe: &Recipe,
    at: usize,
    differing: &[usize],
    source: &Rows,
    i: usize,
    target: &Rows,
    j: usize,
) -> Vec<Guess> {
    let rule = &recipe.values[at];
    let [of_source, of_target] = [source, target].map(|rows| &rows.columns[recipe.key.len()..]);
    let swapped = |other: usize| {
        recipe.values[other].common == rule.common
            && same(rule, &of_source[at], i, &of_target[other], j)
            && same(rule, &of_source[other], i, &of_target[at], j)
    };
    match differing.iter().find(|other| **other != at && swapped(**other)) {
        // Named once, at the first of the two.
        Some(other) if *other < at => Vec::new(),
        Some(other) => vec![Guess::Swapped(*other)],
        None => guesses(rule, &of_source[at], i, &of_target[at], j),
    }
}

fn value_columns<'a>(recipe: &Recipe, rows: &'a Rows) -> impl Iterator<Item = &'a Column> {
    rows.columns.iter().skip(recipe.key.len())
}

fn key_values(recipe: &Recipe, rows: &Rows, row: usize) -> Values {
    let columns = recipe.key.iter().zip(&rows.columns);
    columns.map(|(rule, column)| (rule.name.clone(), show::key_json_of(rule, column, row))).collect()
}
