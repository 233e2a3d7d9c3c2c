//! What drift tells about itself: every metric by its name, declared once. Names, labels and units are part of the
//! interface; this room knows nothing of what is counted.

use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry,
    TextEncoder,
};

/// The buckets of a check's duration, in seconds.
const DURATIONS: [f64; 11] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0, 3600.0];
/// The buckets of how late a check begins, in seconds.
const LAGS: [f64; 8] = [0.01, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// All metrics. Gauges of what the store knows are set at each scrape; counters and histograms count since the start.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// `drift_check_status{pair,level,status}`: 1 for the status of the latest run, 0 for the others.
    pub check_status: GaugeVec,
    /// `drift_check_runs_total{pair,level,status}`.
    pub check_runs: IntCounterVec,
    /// `drift_check_duration_seconds{level}`.
    pub check_duration: HistogramVec,
    /// `drift_check_last_completed_timestamp_seconds{pair,level}`: the latest run that ended, whatever it found.
    pub last_completed: GaugeVec,
    /// `drift_check_last_success_timestamp_seconds{pair,level}`: the latest run that had an answer.
    pub last_success: GaugeVec,
    /// `drift_check_interval_seconds{pair,level}`: the longest time between two runs in the coming week.
    pub check_interval: GaugeVec,
    /// `drift_check_watched_since_timestamp_seconds{pair,level}`: what stands in where a check never had an answer.
    pub watched_since: GaugeVec,
    /// `drift_verified_through_timestamp_seconds{pair,level}`.
    pub verified_through: GaugeVec,
    /// `drift_rows_compared_total{pair,strategy}`.
    pub rows_compared: IntCounterVec,
    /// `drift_rows_mismatched{pair,kind}` of the latest run.
    pub rows_mismatched: GaugeVec,
    /// `drift_match_ratio{pair}` of the latest run: equal rows per row compared.
    pub match_ratio: GaugeVec,
    /// `drift_replication_lag_seconds{pair}`, where the pair has a column that tells.
    pub replication_lag: GaugeVec,
    /// `drift_incidents_open{pair,severity}`.
    pub incidents_open: GaugeVec,
    /// `drift_notifications_total{notifier,result}`: `sent` or `failed`.
    pub notifications: IntCounterVec,
    /// `drift_notifications_waiting`: messages that have not left.
    pub notifications_waiting: Gauge,
    /// `drift_schedule_lag_seconds`: how long after its time a check begins.
    pub schedule_lag: Histogram,
    /// `drift_checks_running`.
    pub checks_running: Gauge,
    /// `drift_scheduler_leader`: 1 where this process schedules.
    pub leader: Gauge,
    /// `drift_config_last_reload_successful`.
    pub config_reloaded: Gauge,
    /// `drift_config_last_reload_success_timestamp_seconds`.
    pub config_loaded_at: Gauge,
}

impl Metrics {
    /// The metrics of one process. Names and labels are constants, so that only a mistake in them is an error.
    pub fn new() -> Result<Metrics, prometheus::Error> {
        let registry = Registry::new();
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let metric = GaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<GaugeVec, prometheus::Error>(metric)
        };
        let gauge = |name: &str, help: &str| {
            let metric = Gauge::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<Gauge, prometheus::Error>(metric)
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<IntCounterVec, prometheus::Error>(metric)
        };
        let check_duration = HistogramVec::new(
            HistogramOpts::new("drift_check_duration_seconds", "How long checks take")
                .buckets(DURATIONS.to_vec()),
            &["level"],
        )?;
        registry.register(Box::new(check_duration.clone()))?;
        let schedule_lag = Histogram::with_opts(
            HistogramOpts::new("drift_schedule_lag_seconds", "How long after its time a check begins")
                .buckets(LAGS.to_vec()),
        )?;
        registry.register(Box::new(schedule_lag.clone()))?;
        let metrics = Metrics {
            check_status: gauges(
                "drift_check_status",
                "1 for the status of the latest run, 0 for every other",
                &["pair", "level", "status"],
            )?,
            check_runs: counters("drift_check_runs_total", "Runs that ended", &["pair", "level", "status"])?,
            check_duration,
            last_completed: gauges(
                "drift_check_last_completed_timestamp_seconds",
                "When the latest run ended, whatever it found",
                &["pair", "level"],
            )?,
            last_success: gauges(
                "drift_check_last_success_timestamp_seconds",
                "When the latest run with an answer ended: pass, warn or fail",
                &["pair", "level"],
            )?,
            check_interval: gauges(
                "drift_check_interval_seconds",
                "The longest time between two runs in the coming week, by the schedule",
                &["pair", "level"],
            )?,
            watched_since: gauges(
                "drift_check_watched_since_timestamp_seconds",
                "Since when this process watches a scheduled check",
                &["pair", "level"],
            )?,
            verified_through: gauges(
                "drift_verified_through_timestamp_seconds",
                "Until when everything was found to be right: what passed, all rows of it",
                &["pair", "level"],
            )?,
            rows_compared: counters("drift_rows_compared_total", "Rows compared", &["pair", "strategy"])?,
            rows_mismatched: gauges(
                "drift_rows_mismatched",
                "Rows that differed in the latest run that had an answer",
                &["pair", "kind"],
            )?,
            match_ratio: gauges(
                "drift_match_ratio",
                "Equal rows per row compared, in the latest run that had an answer",
                &["pair"],
            )?,
            replication_lag: gauges(
                "drift_replication_lag_seconds",
                "The newest change at the source, less the newest one at the target",
                &["pair"],
            )?,
            incidents_open: gauges(
                "drift_incidents_open",
                "Incidents that are open, acknowledged or recovering",
                &["pair", "severity"],
            )?,
            notifications: counters(
                "drift_notifications_total",
                "Messages, by what became of them",
                &["notifier", "result"],
            )?,
            notifications_waiting: gauge("drift_notifications_waiting", "Messages that have not left")?,
            schedule_lag,
            checks_running: gauge("drift_checks_running", "Checks that run now")?,
            leader: gauge("drift_scheduler_leader", "1 where this process schedules, 0 where it stands by")?,
            config_reloaded: gauge(
                "drift_config_last_reload_successful",
                "1 if the configuration was read without a problem the last time",
            )?,
            config_loaded_at: gauge(
                "drift_config_last_reload_success_timestamp_seconds",
                "When the configuration in use was read",
            )?,
            registry: registry.clone(),
        };
        gauges("drift_build_info", "1, with the version as a label", &["version"])?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1.0);
        Ok(metrics)
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        match TextEncoder::new().encode(&self.registry.gather(), &mut out) {
            Ok(()) => String::from_utf8_lossy(&out).into_owned(),
            Err(error) => format!("# {error}\n"),
        }
    }
}
