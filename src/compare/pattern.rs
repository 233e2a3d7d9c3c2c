//! What the differences have in common: "31 rows: `created_at` is 2 hours later" instead of 31 rows.
//!
//! Each pair of differing values gives a set of guesses ([`crate::value::guess`]). Pairs with the same set are counted
//! together. In the end, per column, the guess that holds for most pairs becomes a pattern and takes its pairs away;
//! then the next one, as long as chance does not explain it. So a value that was both cut and rounded counts where most
//! of its column does, and several patterns in one column are told apart.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::value::guess::Guess;

/// Sets of guesses that are counted at once.
const MOST_SETS: usize = 8192;
/// So many rows in a run that one side lacks are called a range.
pub(crate) const RUN: u64 = 3;

/// Something that many differences have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The column; `None` for whole rows.
    pub column: Option<String>,
    /// The pattern's name, one of those in `docs/interface.md`.
    pub pattern: &'static str,
    /// Its constants, for people.
    pub detail: String,
    /// How many rows show it.
    pub rows: u64,
}

/// Guesses about all pairs so far, in bounded memory. Constants that many pairs do not share may be forgotten; counts are
/// never too high.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guesses {
    sets: HashMap<(usize, Vec<Guess>), u64>,
}

impl Guesses {
    /// Counts a pair of differing values of a column.
    pub(crate) fn add(&mut self, column: usize, guesses: Vec<Guess>, pairs: u64) {
        if guesses.is_empty() {
            return;
        }
        *self.sets.entry((column, guesses)).or_default() += pairs;
        if self.sets.len() > MOST_SETS {
            self.forget();
        }
    }

    pub(crate) fn append(&mut self, other: Guesses) {
        for ((column, guesses), pairs) in other.sets {
            self.add(column, guesses, pairs);
        }
    }

    /// Drops the constants of the rarest sets until half of the room is free.
    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.sets.values().copied().collect();
        let (_, limit, _) = counts.select_nth_unstable(MOST_SETS / 2);
        let limit = *limit;
        let (rare, kept) = std::mem::take(&mut self.sets).into_iter().partition(|(_, pairs)| *pairs <= limit);
        self.sets = kept;
        let rare: HashMap<(usize, Vec<Guess>), u64> = rare;
        for ((column, mut guesses), pairs) in rare {
            guesses.retain(|guess| !guess.is_arbitrary());
            if !guesses.is_empty()
                && (self.sets.len() < MOST_SETS || self.sets.contains_key(&(column, guesses.clone())))
            {
                *self.sets.entry((column, guesses)).or_default() += pairs;
            }
        }
    }

    /// The patterns by column. `differing` counts the changed rows per column.
    pub(crate) fn patterns(&self, columns: &[String], differing: &[u64]) -> Vec<Pattern> {
        let mut out = Vec::new();
        for (at, name) in columns.iter().enumerate() {
            let all = differing.get(at).copied().unwrap_or(0);
            let mut left: Vec<(&[Guess], u64)> = self
                .sets
                .iter()
                .filter(|((c, _), _)| *c == at)
                .map(|((_, g), n)| (g.as_slice(), *n))
                .collect();
            while let Some((guess, rows)) = most_frequent(&left, all) {
                left.retain(|(guesses, _)| !guesses.contains(&guess));
                let (pattern, detail) = (guess.pattern(), guess.detail(columns));
                out.push(Pattern { column: Some(name.clone()), pattern, detail, rows });
            }
        }
        out
    }
}

/// The guess that holds for most pairs, if chance does not explain it; of equals the most telling one.
fn most_frequent(left: &[(&[Guess], u64)], differing: u64) -> Option<(Guess, u64)> {
    let mut totals: HashMap<&Guess, u64> = HashMap::new();
    for (guesses, pairs) in left {
        for guess in *guesses {
            *totals.entry(guess).or_default() += pairs;
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
            guesses.add(0, set.to_vec(), *pairs);
        }
        let patterns = guesses.patterns(&["c".to_string()], &[differing]);
        patterns.into_iter().map(|p| (p.pattern, p.detail, p.rows)).collect()
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
            guesses.add(0, vec![Guess::Greater(n, 0)], 1);
            guesses.add(0, vec![Guess::Times(100), Guess::Greater(n, 0)], 1);
            if n % 4 == 0 {
                guesses.add(0, vec![Guess::Greater(-5, 1)], 1);
            }
        }
        assert!(guesses.sets.len() <= MOST_SETS);
        let patterns = guesses.patterns(&["c".to_string()], &[225_000]);
        let rows: Vec<(String, u64)> = patterns.into_iter().map(|p| (p.detail, p.rows)).collect();
        assert_eq!(rows, [("×100".to_string(), 100_000), ("-0.5".to_string(), 25_000)]);
    }
}
