//! When what runs. Pure: instants go in, and what is due comes out.
//!
//! A *slot* is a time of the schedule: `every 15m` has one at each quarter of an hour, cron one at each fitting minute. A
//! check begins at its slot, later by its jitter, and not inside a maintenance window. Of several slots that were missed,
//! only the latest runs, once.

use std::hash::Hasher;

use chrono::{DateTime, Datelike, Duration, Timelike, Utc};
use chrono_tz::Tz;
use xxhash_rust::xxh3::Xxh3;

use crate::config::settings::{Config, Level, Overlap, Pair};
use crate::config::threshold::{Span, Timing, Window};

/// Without a jitter of their own, checks at equal distances are spread over the distance, up to this.
const SPREAD: Span = Span::seconds(15 * 60);
const MINUTE: i64 = 60_000_000;
/// No maintenance window is longer than a week.
const WEEK: i64 = 7 * 24 * 60 * MINUTE;
/// The wait before something is tried again that the store did not take, or that another process is at.
const AGAIN: i64 = 5_000_000;

/// When one level of one pair is checked. Instants are microseconds since 1970.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    timing: Timing,
    zone: Tz,
    jitter: i64,
    overlap: Overlap,
    maintenance: Vec<Window>,
}

impl Schedule {
    /// The schedule of a level, if it has one.
    pub(super) fn of(config: &Config, pair: &Pair, level: Level) -> Option<Schedule> {
        let written = &pair.schedule;
        let timing = match level {
            Level::Schema => written.schema.clone(),
            Level::Rows => written.rows.clone(),
            Level::Full => written.full.clone(),
        }?;
        let most = match (written.jitter, &timing) {
            (Some(jitter), _) => jitter.micros(),
            // Who gives an offset has chosen.
            (None, Timing::Every { every, offset }) if offset.0.is_zero() => {
                every.micros().min(SPREAD.micros())
            }
            _ => 0,
        };
        let mut hasher = Xxh3::new();
        hasher.write(pair.name.as_bytes());
        hasher.write(level.word().as_bytes());
        // The same pair always has the same one, so that its runs keep their distance.
        let jitter = if most > 0 { (hasher.finish() >> 1) as i64 % most } else { 0 };
        let windows = written.maintenance.iter().filter_map(|name| config.windows.get(name)).copied();
        Some(Schedule {
            timing,
            zone: config.timezone.0,
            jitter,
            overlap: written.overlap,
            maintenance: windows.collect(),
        })
    }

    /// The first slot after an instant.
    fn next(&self, after: i64) -> Option<i64> {
        match &self.timing {
            Timing::Every { every, offset } => {
                let (every, offset) = (every.micros(), offset.micros());
                Some(((after - offset).div_euclid(every) + 1) * every + offset)
            }
            Timing::Cron { cron, .. } => {
                let at = self.local(after)?;
                Some(cron.find_next_occurrence(&at, false).ok()?.timestamp_micros())
            }
        }
    }

    /// The latest slot that is not after an instant.
    fn latest(&self, until: i64) -> Option<i64> {
        match &self.timing {
            Timing::Every { every, offset } => {
                let (every, offset) = (every.micros(), offset.micros());
                Some((until - offset).div_euclid(every) * every + offset)
            }
            Timing::Cron { cron, .. } => {
                // Occurrences lie at whole seconds; one at this very second counts.
                let at = self.local(until)?.with_nanosecond(0)? + Duration::seconds(1);
                Some(cron.find_previous_occurrence(&at, false).ok()?.timestamp_micros())
            }
        }
    }

    fn local(&self, at: i64) -> Option<DateTime<Tz>> {
        Some(DateTime::<Utc>::from_timestamp_micros(at)?.with_timezone(&self.zone))
    }

    /// When the check of a slot begins.
    fn begins(&self, slot: i64) -> i64 {
        self.after_maintenance(slot.saturating_add(self.jitter))
    }

    /// The first instant from `at` on that lies in no maintenance window.
    fn after_maintenance(&self, at: i64) -> i64 {
        let end = at.saturating_add(WEEK);
        let mut at = at;
        while at < end && self.is_maintenance(at) {
            at = (at.div_euclid(MINUTE) + 1) * MINUTE;
        }
        at
    }

    fn is_maintenance(&self, at: i64) -> bool {
        if self.maintenance.is_empty() {
            return false;
        }
        let Some(local) = self.local(at) else { return false };
        let day = u8::try_from(local.weekday().num_days_from_monday()).unwrap_or(0);
        let minute = u16::try_from(local.hour() * 60 + local.minute()).unwrap_or(0);
        self.maintenance.iter().any(|window| window.contains(day, minute))
    }

    /// The longest time between two runs in the week that follows, in microseconds: nights, weekends and maintenance count.
    pub(super) fn longest_gap(&self, now: i64) -> i64 {
        if let (Timing::Every { every, .. }, true) = (&self.timing, self.maintenance.is_empty()) {
            return every.micros();
        }
        let (end, mut longest, mut before) = (now.saturating_add(WEEK), 0, None);
        let mut slot = self.next(now);
        while let Some(at) = slot {
            let begins = self.begins(at);
            longest = longest.max(before.map_or(0, |before| begins - before));
            if begins > end && before.is_some() {
                break;
            }
            before = Some(begins);
            // Slots inside a window all begin at its end.
            slot = self.next(at.max(begins - self.jitter));
        }
        longest
    }

    fn runs_at_first_sight(&self) -> bool {
        matches!(self.timing, Timing::Every { .. })
    }
}

/// One level of one pair on its way through time.
#[derive(Debug, Clone)]
pub(super) struct Task {
    schedule: Schedule,
    /// The latest slot that is done with.
    done: Option<i64>,
    /// The slot that runs now.
    running: Option<i64>,
    /// Whether another is to follow at once.
    queued: bool,
    /// When to look next.
    at: Option<i64>,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// The run of this slot, which was to begin at that instant.
    Run { slot: i64, since: i64 },
    /// A slot whose predecessor still runs.
    LeftOut,
}

/// How a run came out, as far as the schedule minds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is remembered.
    Done,
    /// It is not: another process is at it, or the store did not take it.
    Again,
}

impl Task {
    /// A schedule whose latest slot that is done is `done`.
    pub(super) fn new(schedule: Schedule, done: Option<i64>, now: i64) -> Task {
        let mut task = Task { schedule, done, running: None, queued: false, at: None };
        task.at = match done {
            None if !task.schedule.runs_at_first_sight() => {
                task.schedule.next(now).map(|slot| task.schedule.begins(slot))
            }
            None => Some(task.schedule.after_maintenance(now)),
            Some(done) => task.follows(done, now),
        };
        task
    }

    /// The same work by another schedule, after the configuration was read again.
    pub(super) fn with(mut self, schedule: Schedule, now: i64) -> Task {
        let running = self.running;
        self = Task::new(schedule, self.done.max(running), now);
        self.running = running;
        self
    }

    /// When the slot after a done one begins; now if that was missed.
    fn follows(&self, done: i64, now: i64) -> Option<i64> {
        let slot = self.schedule.next(done)?;
        let begins = self.schedule.begins(slot);
        Some(if begins < now { self.schedule.after_maintenance(now) } else { begins })
    }

    /// When something is due next.
    pub(super) fn at(&self) -> Option<i64> {
        self.at
    }

    /// What is due now. Of a run, the caller has to tell the end.
    pub(super) fn due(&mut self, now: i64) -> Due {
        let Some(since) = self.at.filter(|at| *at <= now) else { return Due::Nothing };
        // The first check of all does not wait for its jitter.
        let jitter = if self.done.is_none() { 0 } else { self.schedule.jitter };
        let slot = self.schedule.latest(now.saturating_sub(jitter));
        let Some(slot) = slot.filter(|slot| self.done.is_none_or(|done| *slot > done)) else {
            self.at =
                self.done.and_then(|done| self.schedule.next(done)).map(|slot| self.schedule.begins(slot));
            return Due::Nothing;
        };
        self.at = self.schedule.next(slot).map(|next| self.schedule.begins(next).max(now + 1));
        if self.running.is_some() {
            return match self.schedule.overlap {
                Overlap::Queue => {
                    self.queued = true;
                    Due::Nothing
                }
                Overlap::Skip => {
                    self.done = Some(slot);
                    Due::LeftOut
                }
            };
        }
        self.running = Some(slot);
        Due::Run { slot, since }
    }

    /// Notes the end of the run.
    pub(super) fn ended(&mut self, end: End, now: i64) {
        let Some(slot) = self.running.take() else { return };
        match end {
            End::Done => {
                self.done = self.done.max(Some(slot));
                if std::mem::take(&mut self.queued) {
                    self.at = Some(now);
                }
            }
            End::Again => {
                self.queued = false;
                let at = self.schedule.after_maintenance(now + AGAIN);
                self.at = Some(self.at.map_or(at, |known| known.min(at)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60 * MINUTE;

    fn at(text: &str) -> i64 {
        DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros()
    }

    fn schedule(timing: &str) -> Schedule {
        Schedule {
            timing: timing.parse().unwrap(),
            zone: chrono_tz::Europe::Berlin,
            jitter: 0,
            overlap: Overlap::Skip,
            maintenance: Vec::new(),
        }
    }

    #[test]
    fn slots_are_the_same_whoever_asks_when() {
        for timing in ["every 15m", "every 15m offset 4m", "7 * * * *", "30 2 * * sun", "0 9 1 * *"] {
            let schedule = schedule(timing);
            let mut slot = schedule.next(at("2026-03-20T00:00:00Z")).unwrap();
            for _ in 0..20 {
                assert_eq!(schedule.latest(slot), Some(slot), "{timing}");
                assert_eq!(schedule.latest(slot + 999_999), Some(slot), "{timing}");
                let next = schedule.next(slot).unwrap();
                assert_eq!(schedule.latest(next - 1), Some(slot), "{timing}");
                slot = next;
            }
        }
    }

    #[test]
    fn cron_keeps_to_the_clock_on_the_wall() {
        let nightly = schedule("30 4 * * *");
        // The clocks go forward on 29 March 2026.
        assert_eq!(nightly.next(at("2026-03-28T12:00:00Z")), Some(at("2026-03-29T02:30:00Z")));
        assert_eq!(nightly.next(at("2026-03-27T12:00:00Z")), Some(at("2026-03-28T03:30:00Z")));
        // 02:30 does not exist that night, and exists twice on 25 October: once each is right.
        let at_night = schedule("30 2 * * *");
        for (from, to) in [
            ("2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"),
            ("2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z"),
        ] {
            let mut runs = 0;
            let mut slot = at_night.next(at(from)).unwrap();
            while slot < at(to) {
                runs += 1;
                slot = at_night.next(slot).unwrap();
            }
            assert_eq!(runs, 3, "{from}");
        }
    }

    /// Everything that runs until an instant, if each run takes so long.
    fn simulate(task: &mut Task, from: i64, to: i64, takes: i64) -> Vec<i64> {
        let (mut now, mut ends, mut ran) = (from, None, Vec::new());
        while now <= to {
            if ends.is_some_and(|end| end <= now) {
                task.ended(End::Done, now);
                ends = None;
            }
            if let Due::Run { slot, .. } = task.due(now) {
                ran.push(slot);
                ends = Some(now + takes);
            }
            now += MINUTE;
        }
        ran
    }

    #[test]
    fn every_slot_runs_once() {
        let start = at("2026-06-01T00:00:00Z");
        for jitter in [0, 7 * MINUTE] {
            let mut task = Task::new(Schedule { jitter, ..schedule("every 15m") }, Some(start), start);
            let ran = simulate(&mut task, start, start + 6 * HOUR, 0);
            let expected: Vec<i64> = (1..=24)
                .map(|n| start + n * 15 * MINUTE)
                .filter(|slot| slot + jitter <= start + 6 * HOUR)
                .collect();
            assert_eq!(ran, expected, "jitter {jitter}");
        }
    }

    #[test]
    fn missed_slots_run_once_and_late() {
        let start = at("2026-06-01T00:00:00Z");
        let mut task = Task::new(schedule("every 15m"), Some(start - 5 * HOUR), start + MINUTE);
        assert_eq!(task.due(start + MINUTE), Due::Run { slot: start, since: start + MINUTE });
        task.ended(End::Done, start + 2 * MINUTE);
        assert_eq!(task.at(), Some(start + 15 * MINUTE));
    }

    #[test]
    fn a_long_run_leaves_slots_out_or_is_followed_at_once() {
        let start = at("2026-06-01T00:00:00Z");
        let mut skipping = Task::new(schedule("every 10m"), Some(start), start);
        let ran = simulate(&mut skipping, start, start + HOUR, 15 * MINUTE);
        assert_eq!(ran, [10, 30, 50].map(|minutes| start + minutes * MINUTE));
        let queue = Schedule { overlap: Overlap::Queue, ..schedule("every 10m") };
        let mut queueing = Task::new(queue, Some(start), start);
        let ran = simulate(&mut queueing, start, start + HOUR, 15 * MINUTE);
        assert_eq!(ran, [10, 20, 40, 50].map(|minutes| start + minutes * MINUTE));
    }

    #[test]
    fn nothing_begins_in_a_maintenance_window() {
        let start = at("2026-06-01T00:00:00Z");
        let window: Window = "daily 04:00-06:00".parse().unwrap();
        let mut task =
            Task::new(Schedule { maintenance: vec![window], ..schedule("every 30m") }, Some(start), start);
        // 04:00 in Berlin is 02:00 in UTC.
        let ran = simulate(&mut task, start, start + 5 * HOUR, 0);
        let expected = [30, 60, 90, 240, 270, 300].map(|minutes| start + minutes * MINUTE);
        assert_eq!(ran, expected);
    }

    #[test]
    fn the_longest_gap_counts_nights_weekends_and_maintenance() {
        let now = at("2026-06-01T08:00:00Z");
        let gap = |schedule: &Schedule| schedule.longest_gap(now);
        assert_eq!(gap(&schedule("every 15m")), 15 * MINUTE);
        // From 18:55 to 8:00.
        assert_eq!(gap(&schedule("*/5 8-18 * * *")), 13 * HOUR + 5 * MINUTE);
        assert_eq!(gap(&schedule("0 9 * * mon-fri")), 72 * HOUR);
        // The next two: 1 July and 1 August.
        assert_eq!(gap(&schedule("0 9 1 * *")), 31 * 24 * HOUR);
        let window: Window = "daily 04:00-06:00".parse().unwrap();
        let with = Schedule { maintenance: vec![window], ..schedule("every 30m") };
        assert_eq!(gap(&with), 150 * MINUTE);
    }

    #[test]
    fn what_the_store_did_not_take_is_tried_again() {
        let start = at("2026-06-01T00:00:00Z");
        let mut task = Task::new(schedule("every 15m"), Some(start - 15 * MINUTE), start);
        assert_eq!(task.due(start), Due::Run { slot: start, since: start });
        task.ended(End::Again, start + MINUTE);
        assert_eq!(task.at(), Some(start + MINUTE + AGAIN));
        assert!(matches!(task.due(start + 2 * MINUTE), Due::Run { slot, .. } if slot == start));
    }

    #[test]
    fn a_first_check_does_not_wait_but_cron_means_its_hour() {
        let now = at("2026-06-01T10:07:00Z");
        let mut every = Task::new(Schedule { jitter: 9 * MINUTE, ..schedule("every 15m") }, None, now);
        assert!(matches!(every.due(now), Due::Run { slot, .. } if slot == at("2026-06-01T10:00:00Z")));
        every.ended(End::Done, now);
        assert_eq!(every.at(), Some(at("2026-06-01T10:24:00Z")));
        assert_eq!(Task::new(schedule("30 2 * * *"), None, now).at(), Some(at("2026-06-02T00:30:00Z")));
    }
}
