//! Who is told. This room knows messages only, and nothing of what they are about.

mod alertmanager;
mod http;
mod smtp;
mod webhook;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::config::settings::Notifier;

/// So many mails are sent one by one.
const SINGLE_MAILS: usize = 3;

/// Something to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// What identifies it: the same id twice is the same message.
    pub id: String,
    /// The incident that it is about; `None` for a test.
    pub incident: Option<i64>,
    /// What happened, as `opened` or `resolved`.
    pub event: String,
    /// `warn`, `fail` or `page`.
    pub severity: String,
    /// One line.
    pub title: String,
    /// The facts, one line each: counts and names, no values.
    pub facts: Vec<String>,
    /// What it is about, by name: `pair`, `kind`, and the pair's own labels. The same things always have the same ones.
    pub labels: BTreeMap<String, String>,
    /// When what it is about began, in microseconds since 1970.
    pub since: i64,
    /// When it ended.
    pub until: Option<i64>,
}

/// Why a message could not leave; without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For the reader.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Failure {}

/// The result of sending.
pub type Result<T> = std::result::Result<T, Failure>;

/// Sends messages.
#[derive(Debug, Clone)]
pub struct Sender {
    notifiers: BTreeMap<String, Notifier>,
    http: http::Http,
}

impl Sender {
    /// A sender to the configured notifiers.
    pub fn new(notifiers: &BTreeMap<String, Notifier>) -> Sender {
        Sender { notifiers: notifiers.clone(), http: http::client() }
    }

    /// The names of those that are told once, when something happens.
    pub fn names(&self) -> Vec<String> {
        self.notifiers.keys().cloned().collect()
    }

    /// Those that want to hear again, while something lasts, and how often, in microseconds. They are told what is, not what
    /// happened.
    pub fn repeated(&self) -> Vec<(String, i64)> {
        let of = |(name, notifier): (&String, &Notifier)| match notifier {
            Notifier::Alertmanager(settings) => Some((name.clone(), settings.resend.micros())),
            Notifier::Smtp(_) | Notifier::Webhook(_) => None,
        };
        self.notifiers.iter().filter_map(of).collect()
    }

    /// Tells one about several things; a result for each. Many mails that are due at once become one: who is woken by fifty
    /// reads none of them.
    pub async fn send_all(&self, name: &str, messages: &[Message], now: i64) -> Vec<Result<()>> {
        match self.notifiers.get(name) {
            Some(Notifier::Smtp(settings)) if messages.len() > SINGLE_MAILS => {
                let result = smtp::send(settings, messages).await;
                vec![result; messages.len()]
            }
            _ => {
                let sending = messages.iter().map(|message| self.send(name, message, now));
                futures::future::join_all(sending).await
            }
        }
    }

    /// Tells one. `now` is in microseconds since 1970.
    pub async fn send(&self, name: &str, message: &Message, now: i64) -> Result<()> {
        match self.notifiers.get(name) {
            Some(Notifier::Smtp(settings)) => smtp::send(settings, std::slice::from_ref(message)).await,
            Some(Notifier::Alertmanager(settings)) => {
                alertmanager::send(&self.http, settings, message, now).await
            }
            Some(Notifier::Webhook(settings)) => webhook::send(&self.http, settings, message, now).await,
            None => {
                Err(Failure { why: format!("there is no notifier {name} in the configuration any more") })
            }
        }
    }
}
