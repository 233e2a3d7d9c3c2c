//! `drift validate --online`: asks the real systems.

use futures::StreamExt;

use super::budget::threads;
use super::watched;
use crate::audit;
use crate::config::settings::{Config, Level};
use crate::preflight::{self, Finding, Severity, Subject};
use crate::state::Store;

/// Pairs that are looked at at the same time.
const AT_ONCE: usize = 4;

/// Looks at the store and at every pair.
pub async fn validate(config: &Config) -> Vec<Finding> {
    let mut out = Vec::new();
    if let Err(error) = Store::open(&config.state.url).await {
        out.push(Finding { pair: "state".into(), severity: Severity::Fail, message: error.message });
    }
    let looks = config.pairs.iter().map(|pair| async move {
        let watched = match watched(config, pair) {
            Ok(watched) => watched,
            Err(error) => {
                return vec![Finding {
                    pair: pair.name.clone(),
                    severity: Severity::Fail,
                    message: error.message,
                }];
            }
        };
        let age = audit::age_column(pair).map(|column| {
            let there = pair.columns.in_target(column);
            [column.to_string(), there.to_string()]
        });
        let subject = Subject {
            name: pair.name.clone(),
            endpoints: watched.endpoints,
            request: audit::request(pair, Level::Rows, 0, threads(config, pair)),
            age,
        };
        preflight::pair(&subject).await
    });
    let found: Vec<Vec<Finding>> = futures::stream::iter(looks).buffered(AT_ONCE).collect().await;
    out.extend(found.into_iter().flatten());
    out
}
