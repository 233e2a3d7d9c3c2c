//! Any HTTP service that takes JSON; signed where a secret is configured.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::http::{self, Http};
use super::{Message, Result};
use crate::config::settings::Webhook;

/// Posts a message as JSON. The header `Drift-Message-Id` is the same for the same message. With a secret, the header
/// `Drift-Signature: t=SECONDS,v1=HEX` holds the HMAC-SHA256 of `SECONDS.BODY`.
pub(super) async fn send(http: &Http, settings: &Webhook, message: &Message, now: i64) -> Result<()> {
    let body = serde_json::to_string(message).unwrap_or_default();
    let mut request = http
        .post(&settings.url)
        .header("content-type", "application/json")
        .header("drift-message-id", &message.id);
    if let Some(secret) = &settings.hmac {
        request = request.header("drift-signature", signature(secret, now / 1_000_000, &body));
    }
    http::accepted(request.body(body)).await
}

fn signature(secret: &str, seconds: i64, body: &str) -> String {
    // A key of any length will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{seconds}.{body}").as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_that_receivers_compute() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
        assert_eq!(
            signature("key", 1_700_000_000, r#"{"a":1}"#),
            "t=1700000000,v1=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03"
        );
    }
}
