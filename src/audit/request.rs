//! A pair's configuration as a comparison.

use std::time::Duration;

use crate::compare::{CompareRequest, Confirm, Cutoff, KeyChoice, Mask, Sample, Size};
use crate::config::settings::{Condition, Consistency, Key, Level, Pair};
use crate::config::threshold::SampleSize;
use crate::config::{plain, units};
use crate::value::recipe::Normalize;

/// Differing rows that are remembered, at most.
const REMEMBERED: usize = 100;
/// A day in microseconds.
const DAY: i64 = 86_400_000_000;

/// The comparison that a level of checks makes. `bucket` is the run's time in microseconds since 1970: the sample changes
/// with the day.
pub fn request(pair: &Pair, level: Level, bucket: i64, threads: usize) -> CompareRequest {
    let key = match &pair.key {
        None => KeyChoice::Primary,
        Some(Key::Word(_)) => KeyChoice::Keyless,
        Some(Key::Columns(columns)) => KeyChoice::Columns(columns.clone()),
    };
    let columns = &pair.columns;
    let (source_where, target_where) = match &pair.condition {
        None => (None, None),
        Some(Condition::Both(sql)) => (Some(sql.clone()), Some(sql.clone())),
        Some(Condition::Each(sides)) => (sides.source.clone(), sides.target.clone()),
    };
    let checks = pair.checks.rows.on();
    let sample = checks.and_then(|checks| checks.sample).filter(|_| level == Level::Rows);
    CompareRequest {
        key,
        columns: columns.include.clone(),
        exclude: columns.exclude.clone(),
        exclude_any: true,
        map: columns.rename.iter().map(|(from, to)| (from.clone(), to.clone())).collect(),
        source_where,
        target_where,
        normalize: columns
            .normalize
            .iter()
            .flat_map(|(column, wishes)| wishes.iter().map(move |wish| (column, wish)))
            .filter_map(|(column, wish)| {
                let found = Normalize::ALL.iter().find(|(name, _)| name == wish)?;
                Some((column.clone(), found.1))
            })
            .collect(),
        tolerance: columns
            .tolerance
            .iter()
            .filter_map(|(column, value)| units::tolerance(&format!("{column}={}", plain(value))).ok())
            .collect(),
        limit: REMEMBERED,
        deadline: checks.and_then(|checks| checks.deadline).map(|span| span.0),
        threads,
        confirm: (pair.consistency == Consistency::Confirm)
            .then_some(Confirm { rounds: pair.confirm.rounds, wait: pair.confirm.wait.0 }),
        cutoff: age_column(pair)
            .zip(pair.cutoff.as_ref())
            .filter(|_| pair.consistency != Consistency::None)
            .map(|(column, cutoff)| Cutoff { column: column.to_string(), min_age: cutoff.settle.0 }),
        sample: sample.map(|size| Sample {
            size: match size {
                SampleSize::Share(share) => Size::Share(share.0),
                SampleSize::Rows(rows) => Size::Rows(rows),
            },
            seed: u64::try_from(bucket / DAY).unwrap_or(0),
        }),
        mask: Mask::Mask,
        ..CompareRequest::default()
    }
}

/// The column that tells when a row was last written, by its name at the source.
pub fn age_column(pair: &Pair) -> Option<&str> {
    let own = pair.cutoff.as_ref().and_then(|cutoff| cutoff.column.as_deref());
    own.or(pair.version.as_ref().map(|version| version.column.as_str()))
}

/// How young rows are not judged.
pub(super) fn settle(pair: &Pair) -> Duration {
    pair.cutoff.as_ref().map_or(Duration::ZERO, |cutoff| cutoff.settle.0)
}
