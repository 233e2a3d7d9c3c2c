//! Incidents: what is wrong, from the first sighting to its end.
//!
//! One incident per pair and kind holds all findings. [`Incident::apply`] is pure: an incident and an event give the next
//! state and what has to be told. Findings of an incident carry counts and names, never row values.

pub mod store;

use serde::{Deserialize, Serialize};

/// An incident that broke out again within this time is the same one.
const REOPENS_WITHIN: i64 = 24 * HOUR;
/// So long checks have to pass before an incident is over.
const KEPT_OPEN: i64 = HOUR / 2;
/// That many passing checks at least.
const PASSES: u32 = 2;
/// So many outbreaks …
const FLAPS: usize = 3;
/// … within this time are flapping.
const FLAPS_WITHIN: i64 = 6 * HOUR;
/// Microseconds.
const HOUR: i64 = 3_600_000_000;

/// What an incident is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The schemas differ, or one has changed.
    Schema,
    /// Rows differ.
    Rows,
    /// Checks come to no answer.
    Unchecked,
}

impl Kind {
    /// The name in reports and in the store.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Schema => "schema",
            Kind::Rows => "rows",
            Kind::Unchecked => "unchecked",
        }
    }
}

/// How far an incident has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Seen once, and nothing has confirmed it.
    Pending,
    /// Confirmed.
    Open,
    /// Somebody looks after it: it is not told again.
    Acknowledged,
    /// Checks pass again, but not for long enough.
    Recovering,
    /// Over.
    Resolved,
}

impl State {
    /// The name in reports and in the store.
    pub fn word(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Open => "open",
            State::Acknowledged => "acknowledged",
            State::Recovering => "recovering",
            State::Resolved => "resolved",
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Above a warning threshold.
    Warn,
    /// Above a failure threshold.
    Fail,
    /// To be looked at by a person now, whatever the hour.
    Page,
}

impl Severity {
    /// The name in reports, metrics and labels.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Warn => "warn",
            Severity::Fail => "fail",
            Severity::Page => "page",
        }
    }
}

/// Where the cause lies, as far as the checks can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// Between source and target.
    Pipeline,
    /// Both sides have changed alike.
    UpstreamChange,
    /// One side's schema.
    Schema,
    /// Servers, networks, permissions.
    Infrastructure,
}

impl Attribution {
    /// The name in reports and labels.
    pub fn word(self) -> &'static str {
        match self {
            Attribution::Pipeline => "pipeline",
            Attribution::UpstreamChange => "upstream_change",
            Attribution::Schema => "schema",
            Attribution::Infrastructure => "infrastructure",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The check that found it.
    pub check: String,
    /// What kind it is, as `changed` or `column_missing`.
    pub metric: String,
    /// How bad it is.
    pub severity: Severity,
    /// For people: counts and names, no values.
    pub summary: String,
    /// The columns that it is about, if it is about columns.
    pub columns: Vec<String>,
}

/// Why a person ends an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It was mended.
    Fixed,
    /// drift was wrong.
    FalsePositive,
    /// It was meant to be: what is there now is accepted.
    Expected,
    /// The cause lies before the source.
    Upstream,
    /// Something else.
    Other,
}

impl Reason {
    /// The name on the command line and in the store.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Fixed => "fixed",
            Reason::FalsePositive => "false_positive",
            Reason::Expected => "expected",
            Reason::Upstream => "upstream",
            Reason::Other => "other",
        }
    }

    /// Whether what stands there now becomes the accepted state.
    pub fn accepts_what_is(self) -> bool {
        matches!(self, Reason::Expected | Reason::FalsePositive | Reason::Upstream)
    }
}

/// An incident. Instants are microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// Its number, from 1.
    pub number: i64,
    /// The pair.
    pub pair: String,
    /// What it is about.
    pub kind: Kind,
    /// How far it has come.
    pub state: State,
    /// The worst that was found since it opened.
    pub severity: Severity,
    /// Where the cause lies.
    pub attribution: Attribution,
    /// When it was first seen.
    pub opened: i64,
    /// When its state last changed.
    pub changed: i64,
    /// When a check last saw it.
    pub last_seen: i64,
    /// When it was over.
    pub resolved: Option<i64>,
    /// What is wrong now, or was at the end.
    pub findings: Vec<Finding>,
    /// The share of the rows that was looked at when it was found; less cannot show that it is over.
    pub power: f64,
    /// The run whose evidence says where the damage lies: the latest of those that looked at the most.
    #[serde(default)]
    pub run: String,
    /// The share of the rows that this run looked at.
    #[serde(default)]
    pub run_power: f64,
    /// How many checks in a row have passed.
    pub passes: u32,
    /// When each outbreak began, the latest at the end.
    pub outbreaks: Vec<i64>,
    /// It comes and goes: it is held open and told once.
    pub flapping: bool,
    /// Nothing is told until then.
    pub muted_until: Option<i64>,
    /// Who looks after it.
    pub acknowledged_by: Option<String>,
    /// Why a person ended it.
    pub reason: Option<Reason>,
}

/// Something that happens to an incident.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A check found a breach.
    Breach(Breach),
    /// A check passed that looked at this share of the rows.
    Pass {
        /// From 0 to 1.
        power: f64,
    },
    /// Somebody looks after it.
    Acknowledge {
        /// Who.
        actor: String,
    },
    /// Somebody ends it.
    Resolve {
        /// Why.
        reason: Reason,
    },
    /// Nothing is to be told until then.
    Mute {
        /// Microseconds since 1970.
        until: i64,
    },
}

/// What a check found.
#[derive(Debug, Clone, PartialEq)]
pub struct Breach {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Where the cause lies.
    pub attribution: Attribution,
    /// The share of the rows that was looked at.
    pub power: f64,
    /// Whether it has survived what replication could still repair; what has not waits for another sighting.
    pub confirmed: bool,
    /// The run that found it.
    pub run: String,
}

impl Breach {
    fn severity(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Warn)
    }
}

/// What has to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// It is confirmed.
    Opened,
    /// It has broken out again.
    Reopened,
    /// It has become worse.
    Worsened,
    /// It comes and goes; it is not told again before it is over.
    Flapping,
    /// It is over.
    Resolved,
}

impl News {
    /// The name in messages and in the store.
    pub fn word(self) -> &'static str {
        match self {
            News::Opened => "opened",
            News::Reopened => "reopened",
            News::Worsened => "worsened",
            News::Flapping => "flapping",
            News::Resolved => "resolved",
        }
    }
}

impl Incident {
    /// A new incident of a breach, and what has to be told of it.
    pub fn open(number: i64, pair: &str, kind: Kind, breach: Breach, now: i64) -> (Incident, Option<News>) {
        let state = if breach.confirmed { State::Open } else { State::Pending };
        let incident = Incident {
            number,
            pair: pair.into(),
            kind,
            state,
            severity: breach.severity(),
            attribution: breach.attribution,
            opened: now,
            changed: now,
            last_seen: now,
            resolved: None,
            power: breach.power,
            run: breach.run,
            run_power: breach.power,
            passes: 0,
            outbreaks: vec![now],
            flapping: false,
            muted_until: None,
            acknowledged_by: None,
            reason: None,
            findings: breach.findings,
        };
        (incident, (state == State::Open).then_some(News::Opened))
    }

    /// Whether a new breach belongs to this incident: it is not over, or it was not for long.
    pub fn takes(&self, now: i64) -> bool {
        self.resolved.is_none_or(|at| now - at < REOPENS_WITHIN)
    }

    /// Whether it is confirmed and not over.
    pub fn is_active(&self) -> bool {
        matches!(self.state, State::Open | State::Acknowledged | State::Recovering)
    }

    /// Whether nothing is to be told now.
    pub fn is_muted(&self, now: i64) -> bool {
        self.muted_until.is_some_and(|until| now < until)
    }

    /// The next state, and what has to be told. An event that does not fit the state changes nothing.
    pub fn apply(mut self, event: Event, now: i64) -> (Incident, Option<News>) {
        let news = match event {
            Event::Breach(breach) => self.breach(breach, now),
            Event::Pass { power } => self.pass(power, now),
            Event::Acknowledge { actor } => {
                if matches!(self.state, State::Pending | State::Open | State::Recovering) {
                    self.enter(State::Acknowledged, now);
                    self.acknowledged_by = Some(actor);
                }
                None
            }
            Event::Resolve { reason } if self.state != State::Resolved => {
                let told = self.is_active();
                self.end(now);
                self.reason = Some(reason);
                told.then_some(News::Resolved)
            }
            Event::Resolve { .. } => None,
            Event::Mute { until } => {
                self.muted_until = Some(until);
                None
            }
        };
        let news = news.filter(|_| !self.is_muted(now));
        (self, news)
    }

    fn enter(&mut self, state: State, now: i64) {
        if self.state != state {
            self.state = state;
            self.changed = now;
        }
    }

    fn end(&mut self, now: i64) {
        self.enter(State::Resolved, now);
        self.resolved = Some(now);
        self.flapping = false;
    }

    fn breach(&mut self, breach: Breach, now: i64) -> Option<News> {
        let severity = breach.severity();
        let seen_again = self.state == State::Pending;
        let began_again = matches!(self.state, State::Recovering | State::Resolved);
        let news = match self.state {
            State::Pending if breach.confirmed || seen_again => {
                self.enter(State::Open, now);
                Some(News::Opened)
            }
            State::Pending => None,
            State::Open | State::Acknowledged => {
                let worse = severity > self.severity;
                if worse {
                    // Who looked after it knew of something smaller.
                    self.enter(State::Open, now);
                }
                worse.then_some(News::Worsened)
            }
            State::Recovering | State::Resolved => {
                let was_over = self.state == State::Resolved;
                self.outbreaks.push(now);
                self.outbreaks.retain(|at| now - at < FLAPS_WITHIN);
                let known = self.flapping;
                self.flapping = self.outbreaks.len() >= FLAPS;
                self.enter(State::Open, now);
                self.resolved = None;
                self.reason = None;
                if was_over {
                    self.acknowledged_by = None;
                    self.severity = severity;
                }
                match (self.flapping, known, was_over) {
                    (true, false, _) => Some(News::Flapping),
                    (true, true, _) => None,
                    (false, _, true) => Some(News::Reopened),
                    // It had not been told that it was getting better.
                    (false, _, false) => (severity > self.severity).then_some(News::Worsened),
                }
            }
        };
        self.severity = self.severity.max(severity);
        self.attribution = breach.attribution;
        self.findings = breach.findings;
        self.power = breach.power;
        if breach.power >= self.run_power || began_again {
            self.run = breach.run;
            self.run_power = breach.power;
        }
        self.passes = 0;
        self.last_seen = now;
        news
    }

    fn pass(&mut self, power: f64, now: i64) -> Option<News> {
        if power < self.power * 0.999 || self.state == State::Resolved {
            return None;
        }
        if self.state == State::Pending {
            // Nobody was told.
            self.end(now);
            return None;
        }
        self.passes += 1;
        self.enter(State::Recovering, now);
        let held = if self.flapping { FLAPS_WITHIN } else { KEPT_OPEN };
        if self.passes >= PASSES && now - self.changed >= held {
            self.end(now);
            return Some(News::Resolved);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn breach(severity: Severity) -> Breach {
        Breach {
            findings: vec![Finding {
                check: "c".into(),
                metric: "changed".into(),
                severity,
                summary: "7 rows".into(),
                columns: Vec::new(),
            }],
            attribution: Attribution::Pipeline,
            power: 1.0,
            confirmed: true,
            run: "r".into(),
        }
    }

    /// Runs events, each so many minutes after the begin, and returns the state and what was told.
    fn story(events: &[(i64, Event)]) -> (Incident, Vec<News>) {
        let (mut incident, first) = Incident::open(1, "orders", Kind::Rows, breach(Severity::Warn), 0);
        let mut told: Vec<News> = first.into_iter().collect();
        for (minute, event) in events {
            let (next, news) = incident.apply(event.clone(), minute * MINUTE);
            incident = next;
            told.extend(news);
        }
        (incident, told)
    }

    const PASS: Event = Event::Pass { power: 1.0 };

    #[test]
    fn it_is_over_after_passes_for_long_enough() {
        let (incident, told) = story(&[(15, PASS), (30, PASS)]);
        assert_eq!((incident.state, told), (State::Recovering, vec![News::Opened]));
        let (incident, told) = story(&[(15, PASS), (30, PASS), (45, PASS)]);
        assert_eq!((incident.state, told), (State::Resolved, vec![News::Opened, News::Resolved]));
    }

    #[test]
    fn a_check_that_sees_less_heals_nothing() {
        let sample = Event::Pass { power: 0.01 };
        let (incident, _) = story(&[(15, sample.clone()), (60, sample.clone()), (120, sample)]);
        assert_eq!(incident.state, State::Open);
    }

    #[test]
    fn what_gets_worse_is_told_and_what_gets_better_is_not() {
        let worse = Event::Breach(breach(Severity::Fail));
        let same = Event::Breach(breach(Severity::Warn));
        let ack = Event::Acknowledge { actor: "ada".into() };
        let (incident, told) = story(&[(5, ack), (10, same.clone()), (15, worse), (20, same)]);
        assert_eq!(told, [News::Opened, News::Worsened]);
        assert_eq!((incident.state, incident.severity), (State::Open, Severity::Fail));
    }

    #[test]
    fn what_comes_and_goes_is_held_open_and_told_once() {
        let again = Event::Breach(breach(Severity::Warn));
        let mut events = Vec::new();
        for round in 0..5 {
            events.extend([(round * 30 + 10, PASS), (round * 30 + 20, again.clone())]);
        }
        let (incident, told) = story(&events);
        assert_eq!(told, [News::Opened, News::Flapping]);
        assert!(incident.flapping && incident.state == State::Open);
    }

    #[test]
    fn it_opens_again_within_a_day_and_is_muted_when_asked() {
        let end = Event::Resolve { reason: Reason::Fixed };
        let again = Event::Breach(breach(Severity::Warn));
        let (incident, told) = story(&[(10, end.clone()), (600, again.clone())]);
        assert_eq!(told, [News::Opened, News::Resolved, News::Reopened]);
        assert!(incident.takes(600 * MINUTE));
        let mute = Event::Mute { until: 700 * MINUTE };
        let (incident, told) = story(&[(5, mute), (10, end), (600, again)]);
        assert_eq!((told, incident.state), (vec![News::Opened], State::Open));
    }

    #[test]
    fn what_nothing_confirmed_waits_for_a_second_sighting() {
        let unsure = Breach { confirmed: false, ..breach(Severity::Fail) };
        let (pending, news) = Incident::open(1, "orders", Kind::Rows, unsure.clone(), 0);
        assert_eq!((pending.state, news), (State::Pending, None));
        let (open, news) = pending.clone().apply(Event::Breach(unsure), MINUTE);
        assert_eq!((open.state, news), (State::Open, Some(News::Opened)));
        let (gone, news) = pending.apply(PASS, MINUTE);
        assert_eq!((gone.state, news), (State::Resolved, None));
    }
}
