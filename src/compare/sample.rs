//! Samples: which rows are compared when not all are, and what the rest may hold.
//!
//! Where both sides can seek by key, the key's range is cut into many cells of equal width and some are drawn; both sides
//! read only these. Elsewhere all rows are read, and those are compared whose key's hash lies below a threshold. Either
//! way a row is in the sample by its key alone, so that both sides hold the same ones and a row that one side lacks is
//! as likely to be drawn as any other.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use futures::StreamExt;
use statrs::distribution::{Beta, ContinuousCDF};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::rows::Rows;
use crate::endpoint::{Border, Result, Scope, Snapshot};
use crate::value::hash::{Hash, crc32};
use crate::value::recipe::Recipe;

/// Cells that are drawn, at most: each is a statement on both sides.
const MOST_DRAWN: f64 = 400.0;
/// Below this number of rows a table is read whole, and sampled by hash.
const WORTH_SEEKING: u64 = 20_000;
/// Borders asked for before they are refined.
const COARSE: usize = 100;
/// For a fixed number of rows, cells are drawn for so many times as many.
const MARGIN: f64 = 1.5;
/// The level of the bound, two-sided unless no row differs.
pub const CONFIDENCE: f64 = 0.95;

/// How much of a table is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// A share of the rows, above 0 and below 1.
    Share(f64),
    /// So many rows of the source.
    Rows(u64),
}

/// A wish for a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// How much.
    pub size: Size,
    /// Another seed draws other rows; the same one draws the same.
    pub seed: u64,
}

/// How many rows the source has, of which some were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Population {
    /// All were read.
    Counted(u64),
    /// By the server's own statistics.
    Estimated(u64),
}

/// A sample that was compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// What was asked for.
    pub wish: Sample,
    /// What it says about the whole table.
    pub bound: Bound,
    /// What it was drawn from; `None` where nobody knows.
    pub of: Option<Population>,
}

/// What a sample says about the whole table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Rows in the sample: keys found on either side.
    pub rows: u64,
    /// Those that differ.
    pub differing: u64,
    /// The least share of differing rows that the sample agrees with.
    pub low: f64,
    /// The greatest one.
    pub high: f64,
}

impl Bound {
    /// The interval of Clopper and Pearson (1934): the quantiles of the beta distribution at `differing` of `rows`. It holds for rows
    /// drawn one by one; differences that lie together in few cells are rather missed by a sample of cells.
    pub(crate) fn of(differing: u64, rows: u64) -> Bound {
        let (k, n) = (differing as f64, rows as f64);
        // With nothing or everything differing all of the doubt lies on one side.
        let tail =
            if differing == 0 || differing == rows { 1.0 - CONFIDENCE } else { (1.0 - CONFIDENCE) / 2.0 };
        let quantile = |a: f64, b: f64, p: f64| Beta::new(a, b).map(|beta| beta.inverse_cdf(p));
        let low = if differing == 0 { Ok(0.0) } else { quantile(k, n - k + 1.0, tail) };
        let high = if differing == rows { Ok(1.0) } else { quantile(k + 1.0, n - k, 1.0 - tail) };
        Bound { rows, differing, low: low.unwrap_or(0.0), high: high.unwrap_or(1.0) }
    }
}

/// Rows by the hash of their key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold {
    kind: Hash,
    seed: u64,
    /// The greatest hash inside.
    most: u64,
}

impl Threshold {
    fn hash(&self, rows: &Rows, row: usize) -> u64 {
        match self.kind {
            Hash::Native => xxh3_64_with_seed(rows.key(row), self.seed),
            Hash::Crc32 => crc32(rows.key(row), self.seed) << 32,
        }
    }

    /// Which rows are inside.
    pub(crate) fn of(&self, rows: &Rows) -> Vec<bool> {
        (0..rows.len()).map(|row| self.hash(rows, row) <= self.most).collect()
    }
}

/// What is read and compared of two tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draw {
    /// The drawn cells of the key, `None` if all is read.
    pub(crate) cells: Option<Vec<Cell>>,
    /// Which of the rows read are compared.
    pub(crate) threshold: Option<Threshold>,
}

/// A half-open part of the key's range, with open ends at both ends of the key.
pub(crate) type Cell = (Option<Border>, Option<Border>);

impl Draw {
    /// Whether some rows are left out; not if all turned out to be wanted.
    pub(crate) fn is_sample(&self) -> bool {
        self.cells.is_some() || self.threshold.is_some()
    }

    /// The same cells as scopes of a side.
    pub(crate) fn scopes(cells: &[Cell], column: &str) -> Vec<Scope> {
        let scope = |(from, to): &Cell| match (from, to) {
            (None, None) => Scope::Whole,
            _ => Scope::KeyRange { column: column.to_string(), from: from.clone(), to: to.clone() },
        };
        cells.iter().map(scope).collect()
    }
}

/// Draws the sample. `estimate` is the greater of both sides' guesses; `columns` are the key's leading column on each side
/// where both can seek by it.
pub(crate) async fn draw(
    sample: Sample,
    [source, target]: [&dyn Snapshot; 2],
    recipe: &Recipe,
    columns: Option<[&str; 2]>,
    estimate: Option<u64>,
) -> Result<Draw> {
    let estimate = estimate.unwrap_or(0);
    let share = match sample.size {
        Size::Share(share) => share,
        Size::Rows(rows) => rows as f64 * MARGIN / estimate.max(1) as f64,
    };
    let mut cells = None;
    if let Some([here, there]) = columns.filter(|_| estimate >= WORTH_SEEKING && share < 0.5) {
        let count = (MOST_DRAWN / share).min(estimate as f64 / 50.0) as usize;
        // A side may have keys where the other has none.
        let coarse = joined(source.cuts(here, COARSE).await?, target.cuts(there, COARSE).await?);
        let all = refined(&coarse, count.max(100));
        // Few wide cells would be no sample of the table.
        if all.len() >= COARSE {
            cells = Some(drawn(all, share, sample.seed));
        }
    }
    let Size::Rows(rows) = sample.size else {
        let most = (share * u64::MAX as f64) as u64;
        let threshold = cells.is_none().then_some(Threshold { kind: recipe.hash, seed: sample.seed, most });
        return Ok(Draw { cells, threshold });
    };
    // A number is kept to the row: by the hashes of so many keys of the source.
    if let (Some(drawn), Some([column, _])) = (&cells, columns) {
        let scopes = Draw::scopes(drawn, column);
        if let Some(most) = nth_hash(source, recipe, &scopes, rows, sample.seed).await? {
            return Ok(Draw {
                threshold: Some(Threshold { kind: recipe.hash, seed: sample.seed, most }),
                cells,
            });
        }
    }
    let most = nth_hash(source, recipe, &[Scope::Whole], rows, sample.seed).await?;
    let threshold = most.map(|most| Threshold { kind: recipe.hash, seed: sample.seed, most });
    Ok(Draw { cells: None, threshold })
}

/// The greatest of the `rows` least key hashes; `None` if there are no more rows than that.
async fn nth_hash(
    source: &dyn Snapshot,
    recipe: &Recipe,
    scopes: &[Scope],
    rows: u64,
    seed: u64,
) -> Result<Option<u64>> {
    let all = Threshold { kind: recipe.hash, seed, most: u64::MAX };
    let mut least = BinaryHeap::new();
    let mut beyond = false;
    for scope in scopes {
        let mut stream = source.scan(scope).await?;
        while let Some(batch) = stream.next().await {
            let batch = Rows::from_wire(recipe, true, &batch?)
                .map_err(|why| crate::endpoint::Error::new(crate::endpoint::ErrorKind::Data, why))?;
            for row in 0..batch.len() {
                least.push(all.hash(&batch, row));
                if least.len() as u64 > rows {
                    least.pop();
                    beyond = true;
                }
            }
        }
    }
    Ok(least.peek().copied().filter(|_| beyond))
}

/// The borders of both sides in order, each once; the source's alone where they cannot be ordered.
fn joined(source: Vec<Border>, target: Vec<Border>) -> Vec<Border> {
    let mut out = source.clone();
    out.extend(target);
    out.sort_by(|a, b| match (a.is_before(b), b.is_before(a)) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    });
    out.dedup();
    if out.windows(2).all(|pair| pair[0].is_before(&pair[1])) { out } else { source }
}

/// A cell with its place in a grid that does not depend on the borders.
type Placed = (Cell, u64);

/// About `count` cells between and around `coarse` borders, in order. Between two borders they are those of a grid of some
/// power of two, so that a cell is the same one when the server knows its borders a little differently the next time.
fn refined(coarse: &[Border], count: usize) -> Vec<Placed> {
    let parts = (count / (coarse.len() + 1)).max(1) as i128;
    let mut starts: Vec<(Option<Border>, u64)> = vec![(None, place(0, "below".as_bytes()))];
    let gaps = coarse.windows(2).map(|pair| (&pair[0], &pair[1]));
    // The outer parts go on as wide as their neighbours, so that their open ends hold little.
    let below = match coarse {
        [first, second, ..] => moved(first, second, -1).map(|start| (start, first.clone())),
        _ => None,
    };
    let above = match coarse {
        [.., before, last] => moved(before, last, 1).map(|end| (last.clone(), end)),
        _ => None,
    };
    if let Some((from, to)) = &below {
        starts.extend(grid(from, to, parts));
    }
    for (from, to) in gaps {
        starts.extend(grid(from, to, parts));
    }
    if let Some((from, to)) = &above {
        starts.extend(grid(from, to, parts));
    }
    if let Some(end) = above.map(|(_, end)| end).or_else(|| coarse.last().cloned()) {
        starts.push((Some(end), place(0, "above".as_bytes())));
    }
    let ends: Vec<Option<Border>> =
        starts.iter().skip(1).map(|(start, _)| start.clone()).chain([None]).collect();
    starts.into_iter().zip(ends).map(|((start, place), end)| ((start, end), place)).collect()
}

fn place(shift: u32, of: &[u8]) -> u64 {
    xxh3_64_with_seed(of, u64::from(shift))
}

/// The starts of the cells from one border to the next: the border itself, and what lies on the grid.
fn grid(from: &Border, to: &Border, parts: i128) -> Vec<(Option<Border>, u64)> {
    let (Some(a), Some(b)) = (number(from), number(to)) else {
        let bytes = if let Border::Bytes(bytes) = from { bytes.as_slice() } else { &[] };
        return vec![(Some(from.clone()), place(0, bytes))];
    };
    let shift = (b.saturating_sub(a) / parts).max(1).ilog2();
    let of = |n: i128| place(shift, &(n >> shift).to_le_bytes());
    let inner = ((a >> shift) + 1..).map(|n| n << shift).take_while(|n| *n < b);
    let cells = inner.filter_map(|n| Some((Some(border(from, n)?), of(n))));
    [(Some(from.clone()), of(a))].into_iter().chain(cells).collect()
}

/// The first border moved by `times` the way to the second, or the second likewise.
fn moved(from: &Border, to: &Border, times: i128) -> Option<Border> {
    let (a, b) = (number(from)?, number(to)?);
    let width = b.checked_sub(a)?;
    if times < 0 { border(from, a.checked_sub(width)?) } else { border(to, b.checked_add(width)?) }
}

/// A border as a number, and back. Bytes have no steps.
fn number(border: &Border) -> Option<i128> {
    match border {
        Border::Int(n) => Some(*n),
        Border::Date(days) => Some(i128::from(*days)),
        Border::Timestamp(micros) => Some(i128::from(*micros)),
        // The last bytes decide nothing.
        Border::Uuid(bytes) => Some((u128::from_be_bytes(*bytes) >> 32) as i128),
        Border::Bytes(_) => None,
    }
}

fn border(like: &Border, n: i128) -> Option<Border> {
    Some(match like {
        Border::Int(_) => Border::Int(n),
        Border::Date(_) => Border::Date(i32::try_from(n).ok()?),
        Border::Timestamp(_) => Border::Timestamp(i64::try_from(n).ok()?),
        Border::Uuid(_) => {
            let n = u128::try_from(n).ok().filter(|n| *n < 1 << 96)?;
            Border::Uuid((n << 32).to_be_bytes())
        }
        Border::Bytes(_) => return None,
    })
}

/// A share of the cells, by the seed, in order; neighbours are joined. At least one.
fn drawn(cells: Vec<Placed>, share: f64, seed: u64) -> Vec<Cell> {
    let lot = |place: u64| xxh3_64_with_seed(&place.to_le_bytes(), seed);
    let most = (share * u64::MAX as f64) as u64;
    let most = cells.iter().map(|(_, place)| lot(*place)).min().map_or(most, |least| most.max(least));
    let mut out: Vec<Cell> = Vec::new();
    for ((from, to), _) in cells.into_iter().filter(|(_, place)| lot(*place) <= most) {
        match out.last_mut() {
            Some(last) if last.1.is_some() && last.1 == from => last.1 = to,
            _ => out.push((from, to)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_that_of_clopper_and_pearson() {
        // scipy.stats.binomtest(k, n).proportion_ci(0.95, "exact"); with k = 0 at 0.9, which is one-sided 0.95.
        for (k, n, low, high) in [
            (0, 10_000, 0.0, 0.000_299_528_361_5),
            (1, 100, 0.000_253_146_035_72, 0.054_459_384_960_5),
            (50, 1_000, 0.037_335_4, 0.065_390_5),
            (7, 7, 0.651_836_3, 1.0),
        ] {
            let bound = Bound::of(k, n);
            assert!((bound.low - low).abs() < 1e-6, "{bound:?}");
            assert!((bound.high - high).abs() < 1e-6, "{bound:?}");
        }
    }

    fn ints(values: &[i128]) -> Vec<Border> {
        values.iter().map(|n| Border::Int(*n)).collect()
    }

    #[test]
    fn cells_cover_the_key_once() {
        for coarse in [ints(&[0, 100, 400]), ints(&[5]), ints(&[]), ints(&[1, 2, 3])] {
            let cells = refined(&coarse, 40);
            assert_eq!((&cells[0].0.0, &cells[cells.len() - 1].0.1), (&None, &None));
            for pair in cells.windows(2) {
                assert_eq!(pair[0].0.1, pair[1].0.0);
                if let (Some(a), Some(b)) = (&pair[0].0.0, &pair[1].0.0) {
                    assert!(a.is_before(b), "{a:?} {b:?}");
                }
            }
        }
        let cells = refined(&ints(&[0, 100, 400]), 40);
        assert!(cells.len() >= 35 && cells[1].0.0 == Some(Border::Int(-100)), "{cells:?}");
        let uuids = [Border::Uuid([0x40; 16]), Border::Uuid([0x80; 16])];
        assert!(refined(&uuids, 40).len() > 30);
    }

    #[test]
    fn borders_of_both_sides_are_joined() {
        assert_eq!(joined(ints(&[5, 9]), ints(&[1, 5, 7])), ints(&[1, 5, 7, 9]));
        assert_eq!(joined(ints(&[5, 9]), vec![Border::Date(3)]), ints(&[5, 9]));
    }

    #[test]
    fn the_seed_draws_the_same_cells_again_and_others_with_another() {
        let cells = refined(&ints(&[0, 1000, 2000]), 300);
        let [a, b, c] = [7, 7, 8].map(|seed| drawn(cells.clone(), 0.2, seed));
        assert_eq!(a, b);
        assert_ne!(a, c);
        assert!((20..200).contains(&a.len()), "{a:?}");
        assert_eq!(drawn(cells.clone(), 1.0, 1), [(None, None)]);
        assert_eq!(drawn(cells, 1e-9, 1).len(), 1);
        // Other borders of about the same table draw mostly the same.
        let moved = drawn(refined(&ints(&[8, 1005, 2012]), 300), 0.2, 7);
        let same = moved.iter().filter(|cell| a.contains(cell)).count();
        assert!(same * 3 > a.len() * 2, "{same} of {a:?}, {moved:?}");
    }
}
