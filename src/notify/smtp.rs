//! Mail.

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message as Mail};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use url::Url;

use super::{Failure, Message, Result};
use crate::config::settings::Smtp;
use crate::state::rfc3339;

/// Sends a message as mail. Its Message-ID is the message's id, so that a mail that is sent twice is known again.
pub(super) async fn send(settings: &Smtp, message: &Message) -> Result<()> {
    let url = with_encryption(&settings.url)?;
    let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(&url)
        .map_err(|e| Failure { why: format!("its url cannot be used: {e}") })?
        .timeout(Some(std::time::Duration::from_secs(20)))
        .build();
    let mail = mail(settings, message)?;
    let result = transport.send(mail).await;
    transport.shutdown().await;
    match result {
        Ok(_) => Ok(()),
        Err(error) => {
            let code = error.status().map_or(String::new(), |code| format!("{code} "));
            let what = if error.is_tls() {
                "no encrypted connection"
            } else if error.is_timeout() {
                "no answer in time"
            } else if error.status().is_some() {
                "the server refused the mail"
            } else {
                "no connection"
            };
            Err(Failure { why: format!("{what}: {code}{error}") })
        }
    }
}

/// A password travels encrypted only, unless it stays on this machine; anything else is encrypted where the server can.
fn with_encryption(text: &str) -> Result<String> {
    let mut url = Url::parse(text).map_err(|e| Failure { why: format!("its url cannot be read: {e}") })?;
    if url.scheme() == "smtp" && !url.query_pairs().any(|(name, _)| name == "tls") {
        let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let secret = url.password().is_some() && !is_here;
        url.query_pairs_mut().append_pair("tls", if secret { "required" } else { "opportunistic" });
    }
    Ok(url.into())
}

fn mail(settings: &Smtp, message: &Message) -> Result<Mail> {
    let mailbox = |text: &str| {
        text.parse::<Mailbox>().map_err(|e| Failure { why: format!("{text} is no mail address: {e}") })
    };
    let from = mailbox(&settings.from)?;
    let domain = from.email.domain().to_string();
    let mut mail = Mail::builder()
        .from(from)
        .subject(format!("[drift] {} {}: {}", message.severity.to_uppercase(), message.event, message.title))
        .message_id(Some(format!("<{}@{domain}>", message.id)))
        .header(ContentType::TEXT_PLAIN);
    for to in &settings.to {
        mail = mail.to(mailbox(to)?);
    }
    let mut text = format!("{}\n\n", message.title);
    for fact in &message.facts {
        text.push_str(&format!("- {fact}\n"));
    }
    text.push_str(&format!("\nsince {}", rfc3339(message.since)));
    if let Some(until) = message.until {
        text.push_str(&format!(", until {}", rfc3339(until)));
    }
    text.push('\n');
    for (name, value) in &message.labels {
        text.push_str(&format!("{name}: {value}\n"));
    }
    mail.body(text).map_err(|e| Failure { why: format!("the mail cannot be made: {e}") })
}
