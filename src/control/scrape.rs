//! Sets the gauges of what the store knows, so that they are right whichever process did the work, and after a start.

use std::collections::BTreeMap;

use super::serve::Service;
use crate::audit::Status;
use crate::audit::measure::RowMeasure;
use crate::audit::store as runs;
use crate::config::settings::Level;
use crate::incident::store as incidents;
use crate::state::{Result, outbox};

const SECOND: f64 = 1e6;

impl Service {
    /// All metrics in Prometheus' text format.
    pub async fn metrics_text(&self) -> Result<String> {
        let store = self.store();
        let (latest, coverage) = (runs::latest(store).await?, runs::coverage(store).await?);
        let (open, waiting) = (incidents::list(store, false).await?, outbox::waiting(store).await?);
        let (metrics, loaded) = (self.metrics(), self.loaded());
        let known = |pair: &str| loaded.config.pairs.iter().any(|known| known.name == pair);
        for gauges in [
            &metrics.check_status,
            &metrics.last_completed,
            &metrics.last_success,
            &metrics.check_interval,
            &metrics.watched_since,
            &metrics.verified_through,
            &metrics.rows_mismatched,
            &metrics.match_ratio,
            &metrics.replication_lag,
            &metrics.incidents_open,
        ] {
            gauges.reset();
        }
        for (key, watching) in self.watching().iter() {
            let labels = [key.0.as_str(), key.1.word()];
            metrics.watched_since.with_label_values(&labels).set(watching.since as f64 / SECOND);
            metrics.check_interval.with_label_values(&labels).set(watching.interval as f64 / SECOND);
        }
        // The rows of a pair are those of its latest run, of a sample or of all.
        let mut rows: BTreeMap<&str, (i64, RowMeasure)> = BTreeMap::new();
        for run in latest.iter().filter(|run| known(&run.pair)) {
            let labels = [run.pair.as_str(), run.level.as_str()];
            for status in Status::ALL {
                let labels = [labels[0], labels[1], status.word()];
                metrics
                    .check_status
                    .with_label_values(&labels)
                    .set(f64::from(u8::from(run.status == status.word())));
            }
            metrics.last_completed.with_label_values(&labels).set(run.completed as f64 / SECOND);
            if let Some(lag) = run.lag {
                metrics.replication_lag.with_label_values(&labels[..1]).set(lag as f64 / SECOND);
            }
            let Some(answered) = run.answered else { continue };
            metrics.last_success.with_label_values(&labels).set(answered as f64 / SECOND);
            let measure = run.measure.clone().filter(|_| run.level != Level::Schema.word());
            let Some(measure) = measure.and_then(|json| serde_json::from_value::<RowMeasure>(json).ok())
            else {
                continue;
            };
            if rows.get(run.pair.as_str()).is_none_or(|(at, _)| *at < answered) {
                rows.insert(&run.pair, (answered, measure));
            }
        }
        for (pair, (_, measure)) in &rows {
            let kinds = [
                ("only_in_source", measure.only_in_source),
                ("only_in_target", measure.only_in_target),
                ("changed", measure.changed),
            ];
            for (kind, number) in kinds {
                metrics.rows_mismatched.with_label_values(&[*pair, kind]).set(number as f64);
            }
            let differing: u64 = kinds.iter().map(|(_, number)| number).sum();
            let ratio = if measure.rows == 0 {
                1.0
            } else {
                1.0 - differing.min(measure.rows) as f64 / measure.rows as f64
            };
            metrics.match_ratio.with_label_values(&[*pair]).set(ratio);
        }
        for (pair, level, through) in coverage.iter().filter(|(pair, _, _)| known(pair)) {
            let through = *through as f64 / SECOND;
            metrics.verified_through.with_label_values(&[pair.as_str(), level.as_str()]).set(through);
        }
        for pair in &loaded.config.pairs {
            for severity in ["warn", "fail", "page"] {
                metrics.incidents_open.with_label_values(&[pair.name.as_str(), severity]).set(0.0);
            }
        }
        for incident in open.iter().filter(|incident| incident.is_active() && known(&incident.pair)) {
            let labels = [incident.pair.as_str(), incident.severity.word()];
            metrics.incidents_open.with_label_values(&labels).inc();
        }
        metrics.notifications_waiting.set(waiting as f64);
        Ok(metrics.text())
    }
}
