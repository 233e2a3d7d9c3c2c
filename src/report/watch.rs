//! What is watched, as one page: how each pair stands, its latest runs, its incidents. Keys of differing rows identify
//! them and are shown; their values are not.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::html::document;
use super::words::{counted, escaped, grouped, rows, visible};
use crate::audit::measure::RowMeasure;
use crate::audit::store::{self as runs, Run, Shown};
use crate::audit::{Reason, Status};
use crate::incident::store::{self as incidents, Happened};
use crate::incident::{Incident, Severity, State};
use crate::state::{Result, Store, rfc3339};

/// Runs of a level that its strip shows.
const STRIP: usize = 60;
/// Runs of a pair that are read for them.
const READ: i64 = 400;
/// Incidents shown.
const INCIDENTS: usize = 50;
/// Keys shown of a run.
const KEYS: usize = 20;
const MINUTE: i64 = 60_000_000;

/// Everything that the page shows.
#[derive(Debug, Clone)]
pub struct Watched {
    now: i64,
    pairs: Vec<Pair>,
    incidents: Vec<(Incident, Vec<Happened>)>,
}

#[derive(Debug, Clone)]
struct Pair {
    name: String,
    levels: Vec<Level>,
}

/// One level of a pair, and what its latest run found.
#[derive(Debug, Clone)]
struct Level {
    word: String,
    runs: Vec<Run>,
    verified: Option<i64>,
    results: Vec<Shown>,
    measure: Option<RowMeasure>,
    differences: Vec<Value>,
}

/// Reads what is known of some pairs. `now` is in microseconds since 1970.
pub async fn gather(store: &Store, pairs: &[String], now: i64) -> Result<Watched> {
    let coverage = runs::coverage(store).await?;
    let mut out = Vec::new();
    for name in pairs {
        let mut by_level: BTreeMap<String, Vec<Run>> = BTreeMap::new();
        for run in runs::runs(store, name, READ).await? {
            if run.ended.is_some() {
                by_level.entry(run.level.clone()).or_default().push(run);
            }
        }
        let mut levels = Vec::new();
        for (word, mut of) in by_level {
            of.truncate(STRIP);
            let latest = of[0].id.clone();
            let (measure, differences) = runs::evidence(store, &latest).await?;
            let verified = coverage.iter().find(|(pair, level, _)| pair == name && *level == word);
            levels.push(Level {
                results: runs::results(store, &latest).await?,
                measure: (word != "schema").then(|| serde_json::from_value(measure).ok()).flatten(),
                differences: differences["rows"].as_array().cloned().unwrap_or_default(),
                verified: verified.map(|(_, _, at)| *at),
                runs: of,
                word,
            });
        }
        // The schema stands above the rows that follow it.
        levels.sort_by_key(|level| (level.word != "schema", level.word.clone()));
        out.push(Pair { name: name.clone(), levels });
    }
    let mut listed = Vec::new();
    for incident in incidents::list(store, true).await? {
        if pairs.contains(&incident.pair) && listed.len() < INCIDENTS {
            let events = incidents::events(store, incident.number).await?;
            listed.push((incident, events));
        }
    }
    listed.sort_by_key(|(incident, _)| (incident.state == State::Resolved, -incident.number));
    Ok(Watched { now, pairs: out, incidents: listed })
}

impl Watched {
    fn open(&self) -> impl Iterator<Item = &Incident> {
        self.incidents.iter().map(|(incident, _)| incident).filter(|incident| incident.is_active())
    }

    /// The answer in one line.
    pub fn headline(&self) -> String {
        let pairs = counted(self.pairs.len() as u64, "pair", "pairs");
        let unseen = self.pairs.iter().filter(|pair| pair.levels.is_empty()).count();
        let open = self.open().count();
        let worst = match open {
            0 => "no incident is open".to_string(),
            n => format!("{} open", counted(n as u64, "incident is", "incidents are")),
        };
        match unseen {
            0 => format!("{pairs}: {worst}"),
            n => format!("{pairs}: {worst}; {n} never checked"),
        }
    }

    /// The page.
    pub fn page(&self) -> String {
        let class = match self.open().map(|incident| incident.severity).max() {
            Some(Severity::Fail | Severity::Page) => "drift",
            Some(Severity::Warn) => "warned",
            None => "equal",
        };
        let mut out = format!("<section>\n<h1 class=\"{class}\">{}</h1>\n", escaped(&self.headline()));
        self.overview(&mut out);
        self.tell_incidents(&mut out);
        out.push_str("</section>\n");
        for pair in &self.pairs {
            self.pair(&mut out, pair);
        }
        let title = escaped(&self.headline());
        document(&title, &out, "<code>drift compare</code> shows the rows behind a number.")
    }

    fn overview(&self, out: &mut String) {
        out.push_str("<div class=\"wide\"><table>\n<tr><th>pair</th><th>check</th><th>status</th><th>last run</th><th>all right until</th><th>latest runs, the newest right</th></tr>\n");
        for pair in &self.pairs {
            let name = escaped(&visible(&pair.name));
            if pair.levels.is_empty() {
                let _ = writeln!(
                    out,
                    "<tr><td><code>{name}</code></td><td colspan=\"5\" class=\"faint\">never checked</td></tr>"
                );
            }
            for (index, level) in pair.levels.iter().enumerate() {
                let shown = if index == 0 {
                    format!("<a href=\"#{name}\"><code>{name}</code></a>")
                } else {
                    String::new()
                };
                let latest = &level.runs[0];
                let verified = level.verified.map_or("never".into(), |at| self.ago(at));
                let _ = writeln!(
                    out,
                    "<tr><td>{shown}</td><td>{}</td><td>{}</td><td>{}</td><td>{verified}</td><td>{}</td></tr>",
                    level.word,
                    status(latest.status),
                    self.ago(latest.started),
                    strip(&level.runs),
                );
            }
        }
        out.push_str("</table></div>\n");
    }

    fn tell_incidents(&self, out: &mut String) {
        out.push_str("<h2>Incidents</h2>\n");
        if self.incidents.is_empty() {
            out.push_str("<p class=\"faint\">There have been none.</p>\n");
        }
        for (incident, events) in &self.incidents {
            let class = if incident.is_active() { incident.severity.word() } else { "" };
            let class = if class == "page" { "fail" } else { class };
            let _ = writeln!(
                out,
                "<h3>{} <code>{}</code>: <span class=\"status {class}\">{}</span>, {}, {} <span class=\"faint\">since {}</span></h3>",
                incident.number,
                escaped(&visible(&incident.pair)),
                incident.state.word(),
                incident.severity.word(),
                incident.attribution.word(),
                rfc3339(incident.opened)
            );
            out.push_str("<ul>\n");
            for finding in &incident.findings {
                let _ = writeln!(out, "<li>{}</li>", escaped(&finding.summary));
            }
            out.push_str("</ul>\n<details><summary>what happened</summary><div class=\"wide\"><table>\n");
            for event in events {
                let _ = writeln!(
                    out,
                    "<tr><td class=\"key\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                    rfc3339(event.at),
                    escaped(&event.event),
                    escaped(&visible(&event.actor)),
                    escaped(&visible(&event.detail))
                );
            }
            out.push_str("</table></div></details>\n");
        }
    }

    fn pair(&self, out: &mut String, pair: &Pair) {
        let name = escaped(&visible(&pair.name));
        let _ = write!(out, "<section id=\"{name}\">\n<h2><code>{name}</code></h2>\n");
        for level in &pair.levels {
            let latest = &level.runs[0];
            let _ = write!(
                out,
                "<h3>{}: {} <span class=\"faint\">{}, {}</span></h3>\n<div class=\"wide\"><table>\n",
                level.word,
                status(latest.status),
                rfc3339(latest.started),
                if level.word == "schema" {
                    String::from("both sides described")
                } else {
                    format!("{} compared", rows(u64::try_from(latest.rows).unwrap_or(0)))
                },
            );
            for result in
                level.results.iter().filter(|result| !(result.summary.is_empty() && result.status == "pass"))
            {
                let threshold =
                    result.threshold.as_ref().map_or(String::new(), |limit| format!("accepted: {limit}"));
                let reason = result.reason.as_deref().map_or(String::new(), |reason| format!(" ({reason})"));
                let _ = writeln!(
                    out,
                    "<tr><td>{}</td><td><span class=\"status {1}\">{1}</span>{2}</td><td>{3}</td><td class=\"faint n\">{4}</td></tr>",
                    escaped(&result.metric),
                    escaped(&result.status),
                    escaped(&reason),
                    escaped(&visible(&result.summary)),
                    escaped(&threshold),
                );
            }
            out.push_str("</table></div>\n");
            if let Some(measure) = &level.measure {
                tell_rows(out, measure, &level.differences);
            }
        }
        if pair.levels.is_empty() {
            out.push_str("<p class=\"faint\">It was never checked: <code>drift audit</code> makes the first run.</p>\n");
        }
        out.push_str("</section>\n");
    }

    fn ago(&self, at: i64) -> String {
        let minutes = (self.now - at).max(0) / MINUTE;
        let text = match minutes {
            0 => "just now".to_string(),
            1..120 => format!("{minutes} min ago"),
            120..2880 => format!("{} h ago", minutes / 60),
            _ => format!("{} d ago", minutes / 1440),
        };
        format!("<span title=\"{}\">{text}</span>", rfc3339(at))
    }
}

fn tell_rows(out: &mut String, measure: &RowMeasure, differences: &[Value]) {
    if measure.power < 1.0 && measure.power > 0.0 {
        let _ =
            writeln!(out, "<p class=\"faint\">A sample of {:.4} % of the rows.</p>", measure.power * 100.0);
    }
    if measure.reason == Some(Reason::LagTooHigh) {
        out.push_str("<p>The rows were not judged: the target lies too far behind.</p>\n");
    }
    if !measure.by_column.is_empty() {
        let listed: Vec<String> = measure
            .by_column
            .iter()
            .map(|(column, n)| format!("<code>{}</code> {}", escaped(&visible(column)), grouped(*n)))
            .collect();
        let _ = writeln!(out, "<p>Differing rows by column: {}</p>", listed.join(", "));
    }
    for pattern in &measure.patterns {
        let _ = writeln!(out, "<p>In common: {}</p>", escaped(&visible(pattern)));
    }
    if differences.is_empty() {
        return;
    }
    let keys: Vec<String> = differences
        .iter()
        .take(KEYS)
        .map(|one| {
            let key = one["key"].as_object().cloned().unwrap_or_default();
            let parts: Vec<String> = key
                .iter()
                .map(|(name, value)| {
                    format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_string))
                })
                .collect();
            let kind = one["kind"].as_str().unwrap_or_default().replace('_', " ");
            format!(
                "<span class=\"key\"><code>{}</code> <span class=\"faint\">{kind}</span></span>",
                escaped(&visible(&parts.join(", ")))
            )
        })
        .collect();
    let more = if differences.len() > KEYS { ", and more" } else { "" };
    let _ = writeln!(
        out,
        "<details><summary>the first differing rows by key</summary><p class=\"cells\">{}{more}</p></details>",
        keys.join(" ")
    );
}

fn status(status: Option<Status>) -> String {
    let word = status.map_or("unfinished", Status::word);
    format!("<span class=\"status {word}\">{word}</span>")
}

/// The runs from the oldest to the newest. Height and colour tell the same.
fn strip(runs: &[Run]) -> String {
    let mut out = String::from("<div class=\"runs\">");
    for run in runs.iter().rev() {
        let word = run.status.map_or("unfinished", Status::word);
        let _ = write!(out, "<i class=\"{word}\" title=\"{}: {word}\"></i>", rfc3339(run.started));
    }
    out.push_str("</div>");
    out
}
