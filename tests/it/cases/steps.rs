//! What others do to the rows of a case, in sessions of their own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::format::{Step, StepSide};
use url::Url;

use crate::support::database::Session;

/// The sessions of one call, by side and name; they end when this is dropped.
#[derive(Default)]
pub struct Sessions(BTreeMap<(StepSide, String), Session>);

impl Sessions {
    /// Does what comes before drift starts.
    pub fn before(&mut self, steps: &[Step], servers: &[Url; 2]) {
        for step in steps.iter().filter(|step| step.after.is_none()) {
            self.take(step, servers);
        }
    }

    /// Does the rest, each at its time from now.
    pub fn meanwhile(&mut self, steps: &[Step], servers: &[Url; 2]) {
        let start = Instant::now();
        for step in steps {
            let Some(after) = step.after else { continue };
            std::thread::sleep(Duration::from_secs_f64(after).saturating_sub(start.elapsed()));
            self.take(step, servers);
        }
    }

    fn take(&mut self, step: &Step, servers: &[Url; 2]) {
        let url = &servers[step.side as usize];
        let session = self.0.entry((step.side, step.session.clone()));
        session.or_insert_with(|| Session::open(url)).execute(&step.sql);
    }
}
