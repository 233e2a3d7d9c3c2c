//! The kernel: two streams of rows in key order become a tally.
//!
//! It runs on a thread of its own and takes batches from two channels; it holds two batches and the rows that share the
//! key at the end of each.

use std::cmp::Ordering;

use tokio::sync::mpsc::Receiver;

use super::control::Control;
use super::rows::Rows;
use super::side::SideError;
use super::tally::{Side, Tally};

/// How many rows may share one key. They are held together to be compared as a multiset.
pub(crate) const MAX_GROUP: usize = 1_000_000;

/// Rows of one side on their way to the kernel.
pub(crate) type Feed = Receiver<Result<Rows, SideError>>;

/// One side's batches, cut so that no key spans two of them.
struct Cursor {
    side: Side,
    feed: Feed,
    keyless: bool,
    rows: Option<Rows>,
    at: usize,
    /// The rows of the last key seen, which may go on in the next batch.
    tail: Option<Rows>,
    /// What came behind the tail.
    pending: Option<Rows>,
}

impl Cursor {
    fn new(side: Side, feed: Feed, keyless: bool) -> Cursor {
        Cursor { side, feed, keyless, rows: None, at: 0, tail: None, pending: None }
    }

    /// Makes sure that a row is at hand; false at the end.
    fn load(&mut self, tally: &mut Tally) -> Result<bool, SideError> {
        if self.rows.as_ref().is_some_and(|rows| self.at < rows.len()) {
            return Ok(true);
        }
        self.at = 0;
        self.rows = self.next_whole()?;
        if let (Side::Source, Some(rows)) = (self.side, &self.rows) {
            tally.saw(rows);
        }
        Ok(self.rows.is_some())
    }

    fn receive(&mut self) -> Result<Option<Rows>, SideError> {
        if let Some(rows) = self.pending.take() {
            return Ok(Some(rows));
        }
        loop {
            match self.feed.blocking_recv() {
                None => return Ok(None),
                Some(Err(error)) => return Err(error),
                Some(Ok(rows)) if rows.len() == 0 => {}
                Some(Ok(rows)) => return Ok(Some(rows)),
            }
        }
    }

    /// The next batch in which every key is complete.
    fn next_whole(&mut self) -> Result<Option<Rows>, SideError> {
        loop {
            let next = self.receive()?;
            if self.keyless {
                return Ok(next);
            }
            match (self.tail.take(), next) {
                (tail, None) => return Ok(tail),
                (None, Some(rows)) => {
                    let last = rows.len() - 1;
                    let from =
                        (0..last).rev().take_while(|r| rows.key(*r) == rows.key(last)).last().unwrap_or(last);
                    self.tail = Some(rows.slice(from, rows.len() - from));
                    if from > 0 {
                        return Ok(Some(rows.slice(0, from)));
                    }
                }
                (Some(tail), Some(rows)) => {
                    let same = (0..rows.len()).take_while(|r| rows.key(*r) == tail.key(0)).count();
                    if same < rows.len() {
                        self.pending = Some(rows.slice(same, rows.len() - same));
                    }
                    if same == 0 {
                        return Ok(Some(tail));
                    }
                    if tail.len() + same > MAX_GROUP {
                        return Err(SideError::too_many(self.side));
                    }
                    let picks: Vec<(usize, usize)> =
                        (0..tail.len()).map(|r| (0, r)).chain((0..same).map(|r| (1, r))).collect();
                    let whole = Rows::pick(&[&tail, &rows], &picks)
                        .map_err(|e| SideError::internal(self.side, e.to_string()))?;
                    if same < rows.len() {
                        return Ok(Some(whole));
                    }
                    self.tail = Some(whole);
                }
            }
        }
    }
}

/// Merges the two sides into `tally` until both end, an error comes, or `control` stops the run. What was settled until
/// then stays in the tally.
pub(crate) fn merge(
    source: Feed,
    target: Feed,
    keyless: bool,
    tally: &mut Tally,
    control: &Control,
) -> Result<(), SideError> {
    let mut left = Cursor::new(Side::Source, source, keyless);
    let mut right = Cursor::new(Side::Target, target, keyless);
    loop {
        let (more_left, more_right) = (left.load(tally)?, right.load(tally)?);
        if control.stopped().is_some() {
            return Ok(());
        }
        match (&left.rows, &right.rows) {
            (Some(a), Some(b)) if more_left && more_right => {
                (left.at, right.at) = both(a, left.at, b, right.at, keyless, tally);
            }
            (Some(rows), _) if more_left => left.at = alone(Side::Source, rows, left.at, tally),
            (_, Some(rows)) if more_right => right.at = alone(Side::Target, rows, right.at, tally),
            _ => return Ok(()),
        }
        for cursor in [&left, &right] {
            if let (Some(rows), true) = (&cursor.rows, cursor.at > 0) {
                tally.settled_to(rows, cursor.at - 1);
            }
        }
        control.found(tally.different());
    }
}

/// Merges two batches until one is used up; returns the places reached.
fn both(a: &Rows, mut i: usize, b: &Rows, mut j: usize, keyless: bool, tally: &mut Tally) -> (usize, usize) {
    while i < a.len() && j < b.len() {
        match a.key(i).cmp(b.key(j)) {
            Ordering::Less => i = one_group(Side::Source, a, i, keyless, tally),
            Ordering::Greater => j = one_group(Side::Target, b, j, keyless, tally),
            Ordering::Equal => {
                let (m, n) = if keyless { (1, 1) } else { (group(a, i), group(b, j)) };
                for row in i..i + m {
                    tally.read(Side::Source, a.hash(row));
                }
                for row in j..j + n {
                    tally.read(Side::Target, b.hash(row));
                }
                if m > 1 || n > 1 {
                    multiset(a, i, m, b, j, n, tally);
                } else if a.hash(i) == b.hash(j) {
                    tally.equal();
                } else {
                    tally.judge(a, i, b, j);
                }
                (i, j) = (i + m, j + n);
            }
        }
    }
    (i, j)
}

/// Rows that the other side has ended before.
fn alone(side: Side, rows: &Rows, mut at: usize, tally: &mut Tally) -> usize {
    while at < rows.len() {
        at = one_group(side, rows, at, false, tally);
    }
    at
}

/// The rows of a key that the other side lacks.
fn one_group(side: Side, rows: &Rows, at: usize, keyless: bool, tally: &mut Tally) -> usize {
    let n = if keyless { 1 } else { group(rows, at) };
    if n > 1 && !tally.is_keyless() {
        tally.duplicate(side, rows, at, n as u64);
    }
    for row in at..at + n {
        tally.read(side, rows.hash(row));
        tally.only_in(side, rows, row);
    }
    at + n
}

/// How many rows from `at` on have the same key.
fn group(rows: &Rows, at: usize) -> usize {
    let key = rows.key(at);
    1 + (at + 1..rows.len()).take_while(|r| rows.key(*r) == key).count()
}

/// Rows that share a key: equal ones cancel each other out, what is left is surplus.
fn multiset(a: &Rows, i: usize, m: usize, b: &Rows, j: usize, n: usize, tally: &mut Tally) {
    if m > 1 {
        tally.duplicate(Side::Source, a, i, m as u64);
    }
    if n > 1 {
        tally.duplicate(Side::Target, b, j, n as u64);
    }
    let sorted = |rows: &Rows, from: usize, len: usize| {
        let mut order: Vec<usize> = (from..from + len).collect();
        order.sort_by_key(|r| rows.hash(*r));
        order
    };
    let (left, right) = (sorted(a, i, m), sorted(b, j, n));
    let (mut l, mut r) = (0, 0);
    let (mut only_left, mut only_right) = (Vec::new(), Vec::new());
    while l < left.len() || r < right.len() {
        let order = match (left.get(l), right.get(r)) {
            (Some(x), Some(y)) => a.hash(*x).cmp(&b.hash(*y)),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Less => {
                only_left.push(left[l]);
                l += 1;
            }
            Ordering::Greater => {
                only_right.push(right[r]);
                r += 1;
            }
            Ordering::Equal => {
                tally.equal();
                (l, r) = (l + 1, r + 1);
            }
        }
    }
    // Rows that differ in hash only because of a tolerance are the same row.
    only_left.retain(|x| {
        let twin = only_right.iter().position(|y| tally.same_row(a, *x, b, *y));
        if let Some(at) = twin {
            only_right.remove(at);
            tally.equal_within_rules();
        }
        twin.is_none()
    });
    for row in only_left {
        tally.only_in(Side::Source, a, row);
    }
    for row in only_right {
        tally.only_in(Side::Target, b, row);
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::Mask;
    use super::super::testing::{int_recipe, int_rows};
    use super::*;
    use std::sync::Arc;
    use tokio::sync::mpsc::channel;

    /// Merges two tables of `(key, value)`, fed in batches of `chunk` rows.
    fn run(left: &[(i64, i64)], right: &[(i64, i64)], chunk: usize) -> Tally {
        let recipe = Arc::new(int_recipe());
        let feed = |rows: &[(i64, i64)]| {
            let (send, receive) = channel(rows.len() + 1);
            for part in rows.chunks(chunk) {
                let (keys, values): (Vec<i64>, Vec<i64>) = part.iter().copied().unzip();
                send.try_send(Ok(int_rows(&recipe, &keys, &values))).unwrap();
            }
            receive
        };
        let mut tally = Tally::new(Arc::clone(&recipe), 1000, Mask::None, false);
        merge(feed(left), feed(right), false, &mut tally, &Control::default()).unwrap();
        tally
    }

    fn key(text: &str) -> super::super::difference::Values {
        [("k".to_string(), text.into())].into_iter().collect()
    }

    #[test]
    fn every_batch_size_gives_the_same_answer() {
        let left: Vec<(i64, i64)> =
            vec![(i64::MIN, 1), (-1, 2), (0, 3), (1, 4), (5, 5), (5, 6), (5, 6), (9, 1), (i64::MAX, 5)];
        let right: Vec<(i64, i64)> =
            vec![(i64::MIN, 11), (-1, 2), (1, 4), (5, 6), (5, 7), (9, 1), (10, 1), (i64::MAX, 55)];
        let mut seen = None;
        for chunk in [1, 2, 3, 7, 100] {
            let tally = run(&left, &right, chunk);
            assert_eq!(
                (tally.changed, tally.only_in_source, tally.only_in_target),
                (2, 3, 2),
                "chunk {chunk}"
            );
            assert_eq!(tally.equal, 4);
            assert_eq!(tally.duplicate_count, [1, 1]);
            assert_eq!(tally.duplicates[0][0].rows, 3);
            let answer = (tally.differences, tally.ranges.len(), tally.digests);
            assert_eq!(*seen.get_or_insert_with(|| answer.clone()), answer, "chunk {chunk}");
        }
    }

    #[test]
    fn ranges_join_only_where_no_equal_row_lies_between() {
        let left: Vec<(i64, i64)> = (1..=10).map(|k| (k, 0)).collect();
        let right: Vec<(i64, i64)> = [1, 2, 5, 6, 7, 10].map(|k| (k, i64::from(k == 7))).into();
        let tally = run(&left, &right, 4);
        let ranges: Vec<_> =
            tally.ranges.iter().map(|r| ((*r.from).clone(), (*r.to).clone(), r.rows)).collect();
        assert_eq!(ranges, [(key("3"), key("4"), 2), (key("7"), key("9"), 3)]);
    }

    #[test]
    fn an_empty_side_is_a_state_like_any_other() {
        let rows: Vec<(i64, i64)> = vec![(1, 1), (2, 2)];
        assert_eq!(run(&rows, &[], 1).only_in_source, 2);
        assert_eq!(run(&[], &rows, 1).only_in_target, 2);
        assert!(!run(&[], &[], 1).has_drift());
    }

    #[test]
    fn swapped_values_do_not_cancel_out() {
        let tally = run(&[(1, 7), (2, 9)], &[(1, 9), (2, 7)], 10);
        assert_eq!(tally.changed, 2);
        assert_ne!(tally.digests[0], tally.digests[1]);
    }

    #[test]
    fn many_ranges_are_joined_and_said_to_be() {
        let left: Vec<(i64, i64)> = (0..20_000).map(|k| (k, 0)).collect();
        let right: Vec<(i64, i64)> = (0..20_000).map(|k| (k, i64::from(k % 3 == 0))).collect();
        let mut tally = run(&left, &right, 1000);
        tally.finish();
        assert!(tally.ranges.len() <= super::super::MAX_RANGES && tally.ranges.are_merged());
        assert_eq!(tally.ranges.iter().map(|r| r.rows).sum::<u64>(), tally.changed);
    }

    #[test]
    fn parts_join_across_their_border() {
        let recipe = Arc::new(int_recipe());
        let all: Vec<(i64, i64)> = (0..100).map(|k| (k, 0)).collect();
        let other: Vec<(i64, i64)> = (0..100).map(|k| (k, i64::from((45..55).contains(&k)))).collect();
        let whole = run(&all, &other, 7);
        let mut parts = Tally::new(recipe, 1000, Mask::None, false);
        for at in [0, 50] {
            parts.append(run(&all[at..at + 50], &other[at..at + 50], 7));
        }
        assert_eq!(parts.ranges, whole.ranges);
        assert_eq!(parts.differences, whole.differences);
        assert_eq!(parts.digests, whole.digests);
    }
}
