//! The ranges that hold every difference: as small as they can be, and never too many.

use std::ops::Deref;
use std::sync::Arc;

use super::difference::Values;
use super::pattern::RUN;
use super::tally::Side;
use crate::endpoint::Border;

/// The greatest number of ranges in a result.
pub const MAX_RANGES: usize = 1000;

/// A run of differing rows without an equal row between them; both ends inclusive.
#[derive(Debug, Clone, PartialEq)]
pub struct DamagedRange {
    /// The least differing key.
    pub from: Arc<Values>,
    /// The greatest differing key.
    pub to: Arc<Values>,
    /// Differing rows inside.
    pub rows: u64,
    /// The leading key column's values at both ends, where it can be cut into ranges.
    pub(crate) span: Option<(Border, Border)>,
    /// Equal rows between the range before and this one.
    gap: u64,
    /// All rows from `from` to `to`; more than `rows` only where ranges were joined.
    width: u64,
}

impl DamagedRange {
    /// Goes on to the end of the range behind it.
    fn join(&mut self, next: DamagedRange) {
        self.to = next.to;
        self.rows += next.rows;
        self.width += next.gap + next.width;
        self.span = self.span.take().zip(next.span).map(|((from, _), (_, to))| (from, to));
    }
}

/// The ranges of a part in key order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranges {
    list: Vec<DamagedRange>,
    merged: bool,
    missing: Missing,
}

/// Runs of rows that only the source has, next to each other, whatever differs before and behind them.
#[derive(Debug, Clone, Default, PartialEq)]
struct Missing {
    /// The run that the part begins with, once it has ended: the part before may hold its start.
    lead: Option<u64>,
    /// The run that the part ends with.
    current: u64,
    /// Runs in between that are long enough, and their rows.
    runs: u64,
    rows: u64,
}

impl Missing {
    fn end(&mut self) {
        let length = std::mem::take(&mut self.current);
        match self.lead {
            None => self.lead = Some(length),
            Some(_) if length >= RUN => {
                self.runs += 1;
                self.rows += length;
            }
            Some(_) => {}
        }
    }

    fn append(&mut self, other: Missing, is_next: bool) {
        if !is_next {
            self.end();
        }
        self.current += other.lead.unwrap_or(other.current);
        if other.lead.is_some() {
            self.end();
            self.runs += other.runs;
            self.rows += other.rows;
            self.current = other.current;
        }
    }

    /// How many runs there are, and how many rows in all.
    fn total(&self) -> (u64, u64) {
        let ends = [self.lead.unwrap_or(0), self.current].into_iter().filter(|length| *length >= RUN);
        ends.fold((self.runs, self.rows), |(runs, rows), length| (runs + 1, rows + length))
    }
}

impl Deref for Ranges {
    type Target = [DamagedRange];

    fn deref(&self) -> &[DamagedRange] {
        &self.list
    }
}

impl Ranges {
    /// Whether ranges were joined to keep their number down.
    pub fn are_merged(&self) -> bool {
        self.merged
    }

    /// Runs of at least [`RUN`] rows that only the source has: how many, and how many rows in all.
    pub(super) fn missing(&self) -> (u64, u64) {
        self.missing.total()
    }

    /// Notes that equal rows may lie inside.
    pub(super) fn doubt(&mut self, doubtful: bool) {
        self.merged |= doubtful;
    }

    /// For each range, how many rows of the table lie before it in key order, and how many it spans.
    pub fn places(&self) -> impl Iterator<Item = (u64, u64)> {
        self.list.iter().scan(0, |end, range| {
            let start = *end + range.gap;
            *end = start + range.width;
            Some((start, range.width))
        })
    }

    /// One more differing row, `gap` equal rows behind the last one; whether it begins a range of its own.
    pub(super) fn add(
        &mut self,
        only: Option<Side>,
        key: &Arc<Values>,
        border: Option<Border>,
        gap: u64,
    ) -> bool {
        let is_missing = only == Some(Side::Source);
        if gap > 0 || !is_missing {
            self.missing.end();
        }
        self.missing.current += u64::from(is_missing);
        let span = border.map(|border| (border.clone(), border));
        let row = DamagedRange { from: Arc::clone(key), to: Arc::clone(key), rows: 1, span, gap, width: 1 };
        match self.list.last_mut() {
            Some(last) if gap == 0 => {
                last.join(row);
                false
            }
            _ => {
                self.list.push(row);
                self.bound();
                true
            }
        }
    }

    /// Those of the part behind this one. `gap` counts the equal rows behind the last range, here and then there. Whether
    /// the last range goes on in the first one of the other part.
    pub(super) fn append(&mut self, mut other: Ranges, gap: &mut u64, behind: u64) -> bool {
        self.merged |= other.merged;
        let Some(first) = other.list.first_mut() else {
            *gap += behind;
            return false;
        };
        first.gap += *gap;
        *gap = behind;
        let is_next = first.gap == 0;
        self.missing.append(other.missing, is_next);
        let mut more = other.list.into_iter();
        let goes_on = match self.list.last_mut() {
            Some(last) if is_next => {
                more.next().into_iter().for_each(|first| last.join(first));
                true
            }
            _ => false,
        };
        self.list.extend(more);
        self.bound();
        goes_on
    }

    /// The last touch: the promised number of ranges.
    pub(super) fn finish(&mut self) {
        self.join(MAX_RANGES);
    }

    /// Joins the ranges with the smallest gaps once there are far more than may be shown.
    fn bound(&mut self) {
        if self.list.len() >= 8 * MAX_RANGES {
            self.join(MAX_RANGES);
        }
    }

    fn join(&mut self, keep: usize) {
        let excess = self.list.len().saturating_sub(keep);
        if excess == 0 {
            return;
        }
        let mut gaps: Vec<u64> = self.list[1..].iter().map(|r| r.gap).collect();
        let (_, limit, _) = gaps.select_nth_unstable(excess - 1);
        let limit = *limit;
        let mut ties = excess - self.list[1..].iter().filter(|r| r.gap < limit).count();
        let mut joined: Vec<DamagedRange> = Vec::with_capacity(keep);
        for range in std::mem::take(&mut self.list) {
            let near = range.gap < limit || (range.gap == limit && ties > 0);
            match joined.last_mut() {
                Some(last) if near => {
                    if range.gap == limit {
                        ties -= 1;
                    }
                    last.join(range);
                }
                _ => joined.push(range),
            }
        }
        self.list = joined;
        self.merged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `=` equal, `-` only in the source, `+` only in the target, `~` changed.
    fn ranges(rows: &str) -> (Ranges, u64) {
        let (mut ranges, mut gap) = (Ranges::default(), 0);
        let key = Arc::new(Values::new());
        for row in rows.chars() {
            let only = match row {
                '=' => {
                    gap += 1;
                    continue;
                }
                '-' => Some(Side::Source),
                '+' => Some(Side::Target),
                _ => None,
            };
            ranges.add(only, &key, None, std::mem::take(&mut gap));
        }
        (ranges, gap)
    }

    #[test]
    fn runs_of_missing_rows_are_found_among_others_and_across_parts() {
        for (rows, expected) in [
            ("", (0, 0)),
            ("--", (0, 0)),
            ("---", (1, 3)),
            ("=---=", (1, 3)),
            ("--=-", (0, 0)),
            ("~---~----+", (2, 7)),
            ("+~--~---", (1, 3)),
            ("---=---", (2, 6)),
            ("-----~=~---=--", (2, 8)),
        ] {
            assert_eq!(ranges(rows).0.missing(), expected, "{rows}");
            for first in 0..=rows.len() {
                for second in first..=rows.len() {
                    let (mut all, mut gap) = ranges(&rows[..first]);
                    for part in [&rows[first..second], &rows[second..]] {
                        let (other, behind) = ranges(part);
                        all.append(other, &mut gap, behind);
                    }
                    assert_eq!(all.missing(), expected, "{rows} cut at {first} and {second}");
                    assert_eq!(all.len(), ranges(rows).0.len(), "{rows} cut at {first} and {second}");
                }
            }
        }
    }
}
