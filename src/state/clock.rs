//! Time, as everything that remembers or schedules sees it.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use tokio::sync::watch;

/// Tells the time and waits for it. The one place where drift's own clock is read, so that a week can pass in a second.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Microseconds since 1970-01-01 UTC.
    fn now(&self) -> i64;

    /// Returns at that instant, or at once if it has passed.
    async fn sleep_until(&self, at: i64);
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> i64 {
        Utc::now().timestamp_micros()
    }

    async fn sleep_until(&self, at: i64) {
        // In steps, because the machine's clock may be set while this waits.
        loop {
            let left = at - self.now();
            if left <= 0 {
                return;
            }
            tokio::time::sleep(Duration::from_micros(left.unsigned_abs()).min(Duration::from_secs(30))).await;
        }
    }
}

/// A clock that stands until it is set, for days that pass in a moment.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<i64>,
}

impl ManualClock {
    /// A clock that stands at an instant.
    pub fn at(now: i64) -> ManualClock {
        ManualClock { now: watch::channel(now).0 }
    }

    /// Sets it forward. Whoever waited for an instant that has come goes on.
    pub fn set(&self, now: i64) {
        self.now.send_modify(|at| *at = now.max(*at));
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> i64 {
        *self.now.borrow()
    }

    async fn sleep_until(&self, at: i64) {
        // The sender lives as long as the clock, so that this cannot fail.
        let _ = self.now.subscribe().wait_for(|now| *now >= at).await;
    }
}

/// An instant as RFC 3339 in UTC, to the second.
pub fn rfc3339(micros: i64) -> String {
    DateTime::<Utc>::from_timestamp_micros(micros)
        .map_or_else(|| micros.to_string(), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true))
}
