//! Progress and early ends, shared by all threads of a run.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::tally::Side;

/// Why a run ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// `--deadline` passed.
    Deadline,
    /// `--stop-after` differences were found.
    Enough,
    /// Another part of the run failed.
    Failed,
}

/// Counters that a progress bar reads, and the switch that ends a run.
#[derive(Debug, Default)]
pub struct Control {
    /// Rows read from the source and the target.
    pub rows: [AtomicU64; 2],
    /// Rows that the engines expect in the source and the target; 0 when unknown.
    pub expected: [AtomicU64; 2],
    /// Where the views stand from which each side was read on after a lost connection.
    seams: Mutex<[Vec<String>; 2]>,
    /// Whether all was read, and what differs is being looked at again.
    pub looking_again: AtomicBool,
    stop: AtomicU8,
    stop_after: Option<u64>,
    deadline: Option<Instant>,
}

impl Control {
    /// A control with these limits.
    pub fn new(stop_after: Option<u64>, deadline: Option<Instant>) -> Control {
        Control { stop_after, deadline, ..Control::default() }
    }

    /// Ends the run; the first reason counts.
    pub fn stop(&self, why: Stop) {
        let code = match why {
            Stop::Deadline => 1,
            Stop::Enough => 2,
            Stop::Failed => 3,
        };
        let _ = self.stop.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Why the run has to end, if so.
    pub fn stopped(&self) -> Option<Stop> {
        if self.deadline.is_some_and(|at| Instant::now() >= at) {
            self.stop(Stop::Deadline);
        }
        match self.stop.load(Ordering::Acquire) {
            1 => Some(Stop::Deadline),
            2 => Some(Stop::Enough),
            3 => Some(Stop::Failed),
            _ => None,
        }
    }

    /// Forgets what was read: all of it is read again.
    pub(crate) fn begin_again(&self) {
        self.rows.iter().for_each(|rows| rows.store(0, Ordering::Relaxed));
        *self.seams.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }

    /// Notes that a side is read on from another view.
    pub(crate) fn read_on(&self, side: Side, position: String) {
        self.seams.lock().unwrap_or_else(PoisonError::into_inner)[side as usize].push(position);
    }

    /// Where those views stood.
    pub(crate) fn seams(&self, side: Side) -> Vec<String> {
        self.seams.lock().unwrap_or_else(PoisonError::into_inner)[side as usize].clone()
    }

    /// When the run has to end, if there is a limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Ends the other parts of a run, because this one failed.
    pub(crate) fn fail(&self) {
        self.stop(Stop::Failed);
    }

    /// Makes the control ready for another attempt after a failure.
    pub(crate) fn forgive(&self) {
        let _ = self.stop.compare_exchange(3, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Tells how many differences one part of the run has found so far.
    pub(crate) fn found(&self, differences: u64) {
        if self.stop_after.is_some_and(|limit| differences >= limit) {
            self.stop(Stop::Enough);
        }
    }
}
