//! Confirmation: what differed is looked at again, until it settles, stays as it is, or keeps changing.
//!
//! Between two live sides a first reading also shows rows that are merely late. Each key that differs becomes a suspect
//! with an image, a hash of what both sides showed for it. In later readings, from new snapshots, a suspect that no
//! longer differs was late; one whose image is the same in all readings is confirmed (by stability); one whose image
//! changes is in flight. Rows that differ later for the first time are no suspects: the first reading has proved them
//! equal. Only durations are measured here, never times of day.

use std::collections::HashMap;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::plan::Plan;
use super::ranges::DamagedRange;
use super::rows::Rows;
use super::side::border_of;
use super::tally::Side;
use crate::endpoint::{Border, Scope};
use crate::value::recipe::{ColumnRule, Common, Recipe};
use crate::value::shape::LogicalType;

/// So many suspects are looked up by their keys; more are found by reading the damaged ranges again.
pub(crate) const BY_KEY: usize = 10_000;
/// Keys in one statement.
const KEYS_AT_ONCE: usize = 500;
/// What one suspect takes in memory, in bytes.
const SUSPECT_BYTES: usize = 64;

/// How differences are confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirm {
    /// How many readings follow the first one.
    pub rounds: u32,
    /// The time between two readings.
    pub wait: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmation {
    /// Readings that followed the first one.
    pub rounds: u32,
    /// The time between two readings.
    pub wait: Duration,
    /// Suspects that turned out to be late.
    pub late: u64,
}

/// A key that differs.
#[derive(Debug, Clone)]
pub(crate) struct Suspect {
    id: u64,
    image: u64,
    /// Equal rows between the suspect before and this one.
    gap: u64,
    /// The key's values, where there are few suspects and an engine can look for them.
    key: Option<Box<[Border]>>,
}

/// The suspects of one reading in key order, in bounded memory.
#[derive(Debug, Clone)]
pub(crate) struct Suspects {
    list: Vec<Suspect>,
    most: usize,
    /// Suspects that found no room.
    beyond: u64,
}

impl Suspects {
    /// A list that may take about `memory` bytes.
    pub(crate) fn within(memory: usize) -> Suspects {
        Suspects { list: Vec::new(), most: memory / SUSPECT_BYTES, beyond: 0 }
    }

    /// One differing row (of several, where keys are not unique). `gap` counts the equal rows before it.
    pub(crate) fn add(&mut self, id: u64, image: u64, gap: u64, key: impl FnOnce() -> Option<Box<[Border]>>) {
        let count = self.list.len();
        match self.list.last_mut() {
            Some(last) if last.id == id => last.image = last.image.wrapping_add(image),
            _ if count < self.most => {
                let key = if count < BY_KEY { key() } else { None };
                self.list.push(Suspect { id, image, gap, key });
            }
            _ => self.beyond += 1,
        }
    }

    /// Those of the part behind this one, `gap` equal rows away.
    pub(crate) fn append(&mut self, mut other: Suspects, gap: u64) {
        if let Some(first) = other.list.first_mut() {
            first.gap += gap;
        }
        let room = self.most.saturating_sub(self.list.len());
        self.beyond += other.beyond + other.list.len().saturating_sub(room) as u64;
        self.list.extend(other.list.into_iter().take(room));
    }
}

/// What a row of one side adds to the image of its key; sums do not depend on the order of rows.
pub(crate) fn image(side: Side, hash: u64) -> u64 {
    xxh3_64_with_seed(&hash.to_le_bytes(), side as u64)
}

/// The key's values as an engine can look for them.
pub(crate) fn key_of(recipe: &Recipe, rows: &Rows, row: usize) -> Option<Box<[Border]>> {
    if recipe.key.is_empty() {
        return None;
    }
    let columns = recipe.key.iter().zip(&rows.columns);
    columns
        .map(|(rule, column)| match column.values.data_type() {
            DataType::Utf8 if rule.common == Common::Text => {
                let text = || column.values.as_string::<i32>().value(row).as_bytes().to_vec();
                column.values.is_valid(row).then(|| Border::Bytes(text()))
            }
            _ => border_of(column, row),
        })
        .collect()
}

/// Whether both engines can look for a key column's values as they stand in the common form.
fn can_be_looked_up(rule: &ColumnRule) -> bool {
    use LogicalType as L;
    let plain = rule.normalize.is_empty() && rule.coarse.is_none() && rule.tolerance.is_none();
    plain
        && [&rule.source, &rule.target].into_iter().all(|logical| match (&rule.common, logical) {
            (
                Common::Int64 | Common::UInt64 | Common::Decimal { scale: 0, .. },
                L::Int { .. } | L::Decimal { .. },
            ) => true,
            (Common::Int64, L::Untyped(Some(hint))) => matches!(**hint, L::Int { .. }),
            (Common::Text, L::Untyped(Some(hint))) => matches!(**hint, L::Text { .. }),
            (Common::Text, L::Text { .. }) => true,
            (Common::Date, L::Date) => true,
            (Common::Timestamp { nanos: false, .. }, L::Timestamp { digits, .. }) => *digits <= 6,
            (Common::Uuid, L::Uuid | L::Bytes) | (Common::Bytes, L::Bytes) => true,
            _ => false,
        })
}

/// What a row that differs again is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// As it was in all readings; its place among the suspects.
    Confirmed { at: usize },
    /// One of those that found no room: it differs again.
    Again,
    /// It keeps changing.
    InFlight,
    /// It did not differ at first.
    New,
}

/// The suspects on their way through the readings.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    suspects: Vec<Suspect>,
    /// Whether a suspect's image has changed.
    unsteady: Vec<bool>,
    /// Whether a suspect no longer differed when it was last looked at.
    settled: Vec<bool>,
    by_id: HashMap<u64, usize>,
    complete: bool,
    /// Per suspect: rows from the first suspect to this one, itself included.
    places: Vec<u64>,
}

impl Known {
    pub(crate) fn new(suspects: Suspects) -> Known {
        let by_id = suspects.list.iter().enumerate().map(|(at, s)| (s.id, at)).collect();
        let places = suspects
            .list
            .iter()
            .scan(0, |place, suspect| {
                *place += suspect.gap + 1;
                Some(*place)
            })
            .collect();
        Known {
            unsteady: vec![false; suspects.list.len()],
            settled: vec![false; suspects.list.len()],
            suspects: suspects.list,
            by_id,
            complete: suspects.beyond == 0,
            places,
        }
    }

    /// Judges a row that differs again. In a group of rows with one key, a single row's image says nothing.
    pub(crate) fn standing(&self, id: u64, image: u64, in_group: bool) -> Standing {
        match self.by_id.get(&id) {
            Some(&at) if !self.unsteady[at] && (in_group || self.suspects[at].image == image) => {
                Standing::Confirmed { at }
            }
            Some(_) => Standing::InFlight,
            None if self.complete => Standing::New,
            None => Standing::Again,
        }
    }

    /// Equal rows between two suspects; those between them that are not confirmed count as such.
    pub(crate) fn gap(&self, before: Option<usize>, at: usize) -> u64 {
        (self.places[at] - before.map_or(0, |before| self.places[before])).saturating_sub(1)
    }

    /// Takes in what another reading has shown.
    pub(crate) fn learn(&mut self, seen: &Suspects) {
        self.settled.fill(true);
        for suspect in &seen.list {
            if let Some(&at) = self.by_id.get(&suspect.id) {
                self.settled[at] = false;
                self.unsteady[at] |= self.suspects[at].image != suspect.image;
                self.suspects[at].image = suspect.image;
            }
        }
        // Should one that has settled differ once more, it keeps changing.
        for (unsteady, settled) in self.unsteady.iter_mut().zip(&self.settled) {
            *unsteady |= settled;
        }
    }

    /// Whether all suspects found room.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// How many suspects there are.
    pub(crate) fn len(&self) -> u64 {
        self.suspects.len() as u64
    }

    /// How many of them no longer differ.
    pub(crate) fn late(&self) -> u64 {
        self.settled.iter().filter(|settled| **settled).count() as u64
    }

    /// What to read again, the same on both sides, in key order; and whether it is found by key.
    /// `found` tells whether both engines surely find what they are asked for by key.
    pub(crate) fn scopes(
        &self,
        plan: &Plan,
        ranges: &[DamagedRange],
        found: bool,
    ) -> ([Vec<Scope>; 2], bool) {
        let few = found && self.complete && self.suspects.len() <= BY_KEY;
        let open = self.suspects.iter().zip(&self.settled).filter(|(_, settled)| !**settled);
        let keys: Option<Vec<&[Border]>> = open.map(|(suspect, _)| suspect.key.as_deref()).collect();
        let by_key = keys.filter(|_| few && plan.recipe.key.iter().all(can_be_looked_up));
        if let Some(keys) = by_key {
            let scopes = [Side::Source, Side::Target].map(|side| {
                let some = |keys: &[&[Border]]| Scope::Keys {
                    columns: plan.keys[side as usize].clone(),
                    keys: keys.iter().map(|key| key.to_vec()).collect(),
                };
                keys.chunks(KEYS_AT_ONCE).map(some).collect()
            });
            return (scopes, true);
        }
        let spans: Option<Vec<(Border, Option<Border>)>> = ranges
            .iter()
            .map(|range| range.span.as_ref().map(|(from, to)| (from.clone(), to.successor())))
            .collect();
        match spans.filter(|_| plan.divisible) {
            Some(spans) => {
                let spans = joined(spans);
                let scopes = [Side::Source, Side::Target].map(|side| {
                    let column = plan.keys[side as usize].first().cloned().unwrap_or_default();
                    let range = |(from, to): &(Border, Option<Border>)| Scope::KeyRange {
                        column: column.clone(),
                        from: Some(from.clone()),
                        to: to.clone(),
                    };
                    spans.iter().map(range).collect()
                });
                (scopes, false)
            }
            None => ([vec![Scope::Whole], vec![Scope::Whole]], false),
        }
    }
}

/// Ranges that share a value of the leading column (of a composite key) become one.
fn joined(spans: Vec<(Border, Option<Border>)>) -> Vec<(Border, Option<Border>)> {
    let mut out: Vec<(Border, Option<Border>)> = Vec::with_capacity(spans.len());
    for (from, to) in spans {
        match out.last_mut() {
            Some(last) if last.1.is_none() => {}
            Some(last) if last.1.as_ref().is_some_and(|end| from.is_before(end)) => last.1 = to,
            _ => out.push((from, to)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::{int_recipe, int_rows};
    use super::*;

    /// Suspects with these keys, and equal rows before each.
    fn suspects(keys: &[(i64, u64)], image_of: impl Fn(i64) -> u64) -> Suspects {
        let mut out = Suspects::within(1 << 20);
        for (key, gap) in keys {
            out.add(id(*key), image_of(*key), *gap, || None);
        }
        out
    }

    fn id(key: i64) -> u64 {
        let recipe = int_recipe();
        int_rows(&recipe, &[key], &[0]).key_hash(0)
    }

    #[test]
    fn only_what_stays_the_same_is_confirmed() {
        let mut known = Known::new(suspects(&[(1, 0), (2, 5), (3, 0), (4, 0)], |_| 7));
        assert_eq!(known.standing(id(1), 7, false), Standing::Confirmed { at: 0 });
        assert_eq!(known.standing(id(1), 8, false), Standing::InFlight);
        assert_eq!(known.standing(id(9), 7, false), Standing::New);
        // 2 changes, 3 settles.
        known.learn(&suspects(&[(1, 0), (2, 0), (4, 0), (9, 0)], |key| if key == 2 { 8 } else { 7 }));
        assert_eq!((known.late(), known.len()), (1, 4));
        assert_eq!(known.standing(id(2), 8, false), Standing::InFlight);
        assert_eq!(known.standing(id(3), 7, false), Standing::InFlight);
        assert_eq!(known.standing(id(4), 7, false), Standing::Confirmed { at: 3 });
        // Between 1 and 4 lie five equal rows, and two that are not confirmed.
        assert_eq!(known.gap(Some(0), 3), 7);
        assert_eq!(known.gap(Some(2), 3), 0);
    }

    #[test]
    fn suspects_without_room_differ_again() {
        let mut few = Suspects::within(2 * SUSPECT_BYTES);
        for key in 0..5 {
            few.add(id(key), 7, 0, || None);
        }
        let known = Known::new(few);
        assert!(!known.is_complete());
        assert_eq!(known.standing(id(1), 7, false), Standing::Confirmed { at: 1 });
        assert_eq!(known.standing(id(4), 7, false), Standing::Again);
    }

    #[test]
    fn rows_of_one_key_make_one_image() {
        let (a, b) = (image(Side::Source, 1), image(Side::Target, 1));
        assert_ne!(a, b);
        let mut both = Suspects::within(1 << 20);
        both.add(id(1), a, 0, || None);
        both.add(id(1), b, 0, || None);
        assert_eq!((both.list.len(), both.list[0].image), (1, a.wrapping_add(b)));
    }

    #[test]
    fn ranges_that_share_a_leading_value_are_read_once() {
        let span = |from, to| (Border::Int(from), Some(Border::Int(to)));
        assert_eq!(joined(vec![span(1, 3), span(2, 4), span(4, 5)]), [span(1, 4), span(4, 5)]);
        let open = vec![(Border::Int(1), None), span(2, 4)];
        assert_eq!(joined(open), [(Border::Int(1), None)]);
    }
}
