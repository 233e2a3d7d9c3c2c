//! The HTTP client of the notifiers.

use std::time::Duration;

use super::{Failure, Result};

/// The client; it keeps connections open.
pub(super) type Http = reqwest::Client;

/// How long a service may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn client() -> Http {
    let built = reqwest::Client::builder()
        .timeout(PATIENCE)
        .user_agent("drift")
        .redirect(reqwest::redirect::Policy::none())
        .build();
    built.unwrap_or_default()
}

/// Sends a request that has to be answered with success. Addresses may hold secrets, so that errors do not repeat them.
pub(super) async fn accepted(request: reqwest::RequestBuilder) -> Result<()> {
    let answer = request.send().await.map_err(|error| {
        let what = if error.is_timeout() {
            "no answer within 10 s".to_string()
        } else if error.is_connect() {
            "no connection".to_string()
        } else {
            error.without_url().to_string()
        };
        Failure { why: what }
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let hint = match status.as_u16() {
        401 | 403 => "; check its credentials",
        404 => "; check its url",
        _ => "",
    };
    Err(Failure { why: format!("it answered {status}{hint}") })
}
