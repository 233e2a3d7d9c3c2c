//! Progress on stderr: a bar on a terminal, one line every 30 seconds elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Global, Progress};
use crate::compare::Control;
use crate::report::words::grouped;

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(200);
/// How often a line is written where there is no terminal.
const LINE: Duration = Duration::from_secs(30);

/// Progress being shown.
pub(super) struct Watching {
    task: Option<tokio::task::JoinHandle<()>>,
    bar: Option<ProgressBar>,
}

impl Watching {
    /// Takes the bar away.
    pub(super) fn end(self) {
        if let Some(task) = self.task {
            task.abort();
        }
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

pub(super) fn watch(global: &Global, control: Arc<Control>) -> Watching {
    if global.progress == Progress::Never || global.quiet {
        return Watching { task: None, bar: None };
    }
    let started = Instant::now();
    if !io::stderr().is_terminal() {
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LINE).await;
                let _ = writeln!(io::stderr().lock(), "drift: {}", line(&control, started));
            }
        });
        return Watching { task: Some(task), bar: None };
    }
    // Where nobody knows how many rows there are, a bar would only pretend.
    let style = |known: bool| {
        let template = if known { "{spinner} {wide_bar} {msg}" } else { "{spinner} {msg}" };
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
    };
    let bar = ProgressBar::new(0).with_style(style(false));
    let drawn = bar.clone();
    let task = tokio::spawn(async move {
        loop {
            tokio::time::sleep(DRAW).await;
            let (done, expected) = totals(&control);
            drawn.set_style(style(expected > 0));
            drawn.set_length(expected.max(done));
            drawn.set_position(done);
            drawn.set_message(line(&control, started));
        }
    });
    Watching { task: Some(task), bar: Some(bar) }
}

fn totals(control: &Control) -> (u64, u64) {
    let sum =
        |of: &[std::sync::atomic::AtomicU64; 2]| of.iter().map(|n| n.load(Ordering::Relaxed)).sum::<u64>();
    let expected = if control.expected.iter().all(|n| n.load(Ordering::Relaxed) > 0) {
        sum(&control.expected)
    } else {
        0
    };
    (sum(&control.rows), expected)
}

/// `1,200,000 rows, 350,000 rows/s, 12 s left`, then `1,200,000 rows; looking again at what differs`.
fn line(control: &Control, started: Instant) -> String {
    let (done, expected) = totals(control);
    if control.looking_again.load(Ordering::Relaxed) {
        return format!("{} rows; looking again at what differs", grouped(done));
    }
    let rate = done as f64 / started.elapsed().as_secs_f64().max(0.001);
    let mut text = format!("{} rows, {} rows/s", grouped(done), grouped(rate as u64));
    if expected > done && rate > 1.0 {
        text.push_str(&format!(", {} s left", grouped(((expected - done) as f64 / rate).ceil() as u64)));
    }
    text
}
