//! What the differences have in common: "31 rows: `created_at` is 2 hours later" instead of 31 rows.
//!
//! Each pair of differing values gives a set of guesses ([`crate::value::guess`]). Pairs with the same set are counted
//! together. In the end, per column, the guess that holds for most pairs becomes a pattern and takes its pairs away;
//! then the next one, as long as chance does not explain it. So a value that was both cut and rounded counts where most
//! of its column does, and several patterns in one column are told apart.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::difference::Difference;
use super::place::{Place, Spot, Spread};
use crate::value::guess::Guess;

/// Sets of guesses that are counted at once.
const MOST_SETS: usize = 8192;
/// So many rows in a run that one side lacks are called a range.
pub(crate) const RUN: u64 = 3;

/// Something that many differences have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// The column; `None` for whole rows.
    pub column: Option<String>,
    /// The pattern's name, one of those in `docs/interface.md`.
    pub pattern: &'static str,
    /// Its constants, for people.
    pub detail: String,
    /// How many rows show it.
    pub rows: u64,
    /// Where all of them lie, as far as chance does not explain it.
    pub places: Vec<Place>,
    /// What made the values differ, of a column.
    pub(crate) guess: Option<Guess>,
}

impl Pattern {
    /// Whether it explains how a row differs in a column.
    pub fn explains(&self, difference: &Difference, column: &str) -> bool {
        let at = difference.columns.iter().position(|name| name == column);
        let guesses = at.and_then(|at| difference.guesses.get(at));
        self.column.as_deref() == Some(column)
            && guesses.is_some_and(|guesses| self.guess.as_ref().is_some_and(|g| guesses.contains(g)))
    }
}

/// A pattern of a column before its places are judged.
pub(crate) struct Found {
    pub(crate) column: usize,
    pub(crate) guess: Guess,
    pub(crate) rows: u64,
    pub(crate) spread: Option<Spread>,
}

/// Guesses about all pairs so far, in bounded memory. Constants that many pairs do not share may be forgotten; counts are
/// never too high.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guesses {
    sets: HashMap<(usize, Vec<Guess>), Counted>,
}

/// How many pairs share a set, and where their rows lie.
#[derive(Debug, Clone, Default)]
struct Counted {
    pairs: u64,
    spread: Option<Spread>,
}

impl Counted {
    fn merge(&mut self, other: Counted) {
        self.pairs += other.pairs;
        Spread::merge_into(&mut self.spread, other.spread);
    }
}

impl Guesses {
    /// Counts a pair of differing values of a column.
    pub(crate) fn add(&mut self, column: usize, guesses: Vec<Guess>, spot: Option<&Spot<'_>>) {
        if guesses.is_empty() {
            return;
        }
        let counted = self.sets.entry((column, guesses)).or_default();
        counted.pairs += 1;
        if let Some(spot) = spot {
            Spread::add_to(&mut counted.spread, spot);
        }
        self.bound();
    }

    /// Takes in those of the part behind this one, which holds so many differing rows and runs.
    pub(crate) fn append(&mut self, other: Guesses, differing: u64, runs: u64) {
        for (set, mut counted) in other.sets {
            if let Some(spread) = &mut counted.spread {
                spread.shift(differing, runs);
            }
            self.sets.entry(set).or_default().merge(counted);
            self.bound();
        }
    }

    /// Drops the constants of the rarest sets until half of the room is free, once there is none.
    fn bound(&mut self) {
        if self.sets.len() <= MOST_SETS {
            return;
        }
        let mut counts: Vec<u64> = self.sets.values().map(|counted| counted.pairs).collect();
        let (_, limit, _) = counts.select_nth_unstable(MOST_SETS / 2);
        let limit = *limit;
        let (rare, kept) =
            std::mem::take(&mut self.sets).into_iter().partition(|(_, counted)| counted.pairs <= limit);
        self.sets = kept;
        let rare: HashMap<(usize, Vec<Guess>), Counted> = rare;
        for ((column, mut guesses), counted) in rare {
            guesses.retain(|guess| !guess.is_arbitrary());
            if !guesses.is_empty()
                && (self.sets.len() < MOST_SETS || self.sets.contains_key(&(column, guesses.clone())))
            {
                self.sets.entry((column, guesses)).or_default().merge(counted);
            }
        }
    }

    /// The patterns by column. `differing` counts the changed rows per column.
    pub(crate) fn patterns(&self, differing: &[u64]) -> Vec<Found> {
        let mut out = Vec::new();
        for (at, all) in differing.iter().enumerate() {
            let mut left: Vec<(&[Guess], &Counted)> = self
                .sets
                .iter()
                .filter(|((c, _), _)| *c == at)
                .map(|((_, g), n)| (g.as_slice(), n))
                .collect();
            while let Some((guess, rows)) = most_frequent(&left, *all) {
                let mut together = Counted::default();
                left.retain(|(guesses, counted)| {
                    let explained = guesses.contains(&guess);
                    if explained {
                        together.merge((*counted).clone());
                    }
                    !explained
                });
                out.push(Found { column: at, guess, rows, spread: together.spread });
            }
        }
        out
    }
}

/// The guess that holds for most pairs, if chance does not explain it; of equals the most telling one.
fn most_frequent(left: &[(&[Guess], &Counted)], differing: u64) -> Option<(Guess, u64)> {
    let mut totals: HashMap<&Guess, u64> = HashMap::new();
    for (guesses, counted) in left {
        for guess in *guesses {
            *totals.entry(guess).or_default() += counted.pairs;
        }
    }
    let believable = totals.into_iter().filter(|(guess, rows)| *rows >= guess.least(differing));
    let best = believable.max_by_key(|(guess, rows)| (*rows, Reverse(weight(guess))))?;
    Some((best.0.clone(), best.1))
}

/// The order among equals: that of the guesses, but more decimals first.
fn weight(guess: &Guess) -> Guess {
    match guess {
        Guess::CutNumber(decimals, side) => Guess::CutNumber(-decimals, *side),
        Guess::Rounded(decimals, side) => Guess::Rounded(-decimals, *side),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::guess::Where;

    fn found(sets: &[(&[Guess], u64)], differing: u64) -> Vec<(&'static str, String, u64)> {
        let mut guesses = Guesses::default();
        for (set, pairs) in sets {
            for _ in 0..*pairs {
                guesses.add(0, set.to_vec(), None);
            }
        }
        let patterns = guesses.patterns(&[differing]);
        patterns
            .into_iter()
            .map(|p| (p.guess.pattern(), p.guess.detail(&["c".to_string()]), p.rows))
            .collect()
    }

    #[test]
    fn a_value_counts_where_most_of_its_column_does() {
        let t = Where::Target;
        let both = [Guess::CutNumber(1, t), Guess::Rounded(1, t)];
        let rounded = [Guess::Rounded(1, t)];
        assert_eq!(found(&[(&both, 5), (&rounded, 4)], 9), [("rounded", "1 decimal".into(), 9)]);
        assert_eq!(found(&[(&both, 5)], 5), [("cut", "1 decimal".into(), 5)]);
        let coarse = [Guess::CutNumber(0, t), Guess::CutNumber(1, t)];
        assert_eq!(found(&[(&coarse, 1)], 1), [("cut", "1 decimal".into(), 1)]);
    }

    #[test]
    fn several_patterns_in_one_column_are_told_apart() {
        let hours = |n: i128| Guess::Later(n * 3_600_000_000_000);
        let sets: [(&[Guess], u64); 3] = [(&[hours(2)], 50), (&[hours(1)], 20), (&[hours(7)], 2)];
        assert_eq!(found(&sets, 72), [("shifted", "+2 h".into(), 50), ("shifted", "+1 h".into(), 20)]);
    }

    #[test]
    fn any_number_of_constants_takes_bounded_memory() {
        let mut guesses = Guesses::default();
        for n in 0..100_000 {
            guesses.add(0, vec![Guess::Greater(n, 0)], None);
            guesses.add(0, vec![Guess::Times(100), Guess::Greater(n, 0)], None);
            if n % 4 == 0 {
                guesses.add(0, vec![Guess::Greater(-5, 1)], None);
            }
        }
        assert!(guesses.sets.len() <= MOST_SETS);
        let patterns = guesses.patterns(&[225_000]);
        let detail = |p: &Found| p.guess.detail(&["c".to_string()]);
        let rows: Vec<(String, u64)> = patterns.iter().map(|p| (detail(p), p.rows)).collect();
        assert_eq!(rows, [("×100".to_string(), 100_000), ("-0.5".to_string(), 25_000)]);
    }
}
