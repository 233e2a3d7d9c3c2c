//! Finds the differing rows of two tables in bounded memory.
//!
//! One way for everything: both sides become streams of canonical rows in key order, and the kernel in `merge` walks
//! them side by side. A side whose engine delivers that order is streamed as it comes (and checked on the way); any
//! other side is sorted by drift itself (`sort`), spilling to disk. `plan` decides which, `side` reads and survives lost
//! connections, `tally` keeps what was found in bounded memory, `outcome` derives the verdict, `run` ties them together.

mod confirm;
mod control;
mod cutoff;
mod difference;
mod digest;
mod merge;
mod outcome;
mod pattern;
mod place;
mod plan;
mod ranges;
mod records;
mod request;
mod rows;
mod run;
mod sample;
mod side;
mod sort;
mod tally;
#[cfg(test)]
mod testing;

pub use confirm::{Confirm, Confirmation};
pub use control::{Control, Stop};
pub use cutoff::Cutoff;
pub use difference::{Difference, DifferenceKind, DuplicateKey, Values};
pub use digest::RangeDigest;
pub use outcome::{CompareOutcome, NotCompared, SideOutcome, Verdict};
pub use pattern::Pattern;
pub use place::Place;
pub use ranges::{DamagedRange, MAX_RANGES, Ranges};
pub use request::{CompareRequest, KeyChoice, Mask};
pub use run::{Endpoints, Explanation, compare, compare_schemas, explain};
pub use sample::{Bound, CONFIDENCE, Population, Sample, Sampled, Size};
pub use tally::{Side, Tally};
