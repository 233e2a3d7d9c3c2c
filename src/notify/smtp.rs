//! Mail.

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message as Mail};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use url::Url;

use super::{Failure, Message, Result};
use crate::config::settings::Smtp;
use crate::state::rfc3339;

/// Sends messages as one mail. Its Message-ID is the first message's id, so that a mail that is sent twice is known again.
pub(super) async fn send(settings: &Smtp, messages: &[Message]) -> Result<()> {
    let url = with_encryption(&settings.url)?;
    let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(&url)
        .map_err(|e| Failure { why: format!("its url cannot be used: {e}") })?
        .timeout(Some(std::time::Duration::from_secs(20)))
        .build();
    let mail = mail(settings, messages)?;
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

fn mail(settings: &Smtp, messages: &[Message]) -> Result<Mail> {
    let mailbox = |text: &str| {
        text.parse::<Mailbox>().map_err(|e| Failure { why: format!("{text} is no mail address: {e}") })
    };
    let from = mailbox(&settings.from)?;
    let domain = from.email.domain().to_string();
    let first = messages.first().map_or("", |message| message.id.as_str());
    let mut mail = Mail::builder()
        .from(from)
        .subject(subject(messages))
        .message_id(Some(format!("<{first}@{domain}>")))
        .header(ContentType::TEXT_PLAIN);
    for to in &settings.to {
        mail = mail.to(mailbox(to)?);
    }
    let texts: Vec<String> = messages.iter().map(text).collect();
    mail.body(texts.join("\n----\n\n")).map_err(|e| Failure { why: format!("the mail cannot be made: {e}") })
}

fn subject(messages: &[Message]) -> String {
    match messages {
        [one] => format!("[drift] {} {}: {}", one.severity.to_uppercase(), one.event, one.title),
        several => {
            let ended = several.iter().filter(|message| message.until.is_some()).count();
            let worst = ["page", "fail", "warn"].into_iter().find(|word| {
                several.iter().any(|message| message.until.is_none() && message.severity == *word)
            });
            let worst = worst.map_or(String::new(), |word| format!("{} ", word.to_uppercase()));
            format!("[drift] {worst}{} incidents, {ended} of them over", several.len())
        }
    }
}

fn text(message: &Message) -> String {
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
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, severity: &str, until: Option<i64>) -> Message {
        Message {
            id: id.into(),
            incident: Some(1),
            event: "opened".into(),
            severity: severity.into(),
            title: "orders: 1 of 100 rows differs".into(),
            facts: vec!["1 of 100 rows differs".into()],
            labels: [("pair".to_string(), "orders".to_string())].into(),
            since: 0,
            until,
        }
    }

    #[test]
    fn many_incidents_are_one_mail_that_names_the_worst() {
        let one = [message("a", "fail", None)];
        assert_eq!(subject(&one), "[drift] FAIL opened: orders: 1 of 100 rows differs");
        let many = [
            message("a", "warn", None),
            message("b", "fail", None),
            message("c", "page", Some(1)),
            message("d", "warn", None),
        ];
        assert_eq!(subject(&many), "[drift] FAIL 4 incidents, 1 of them over");
        let settings =
            Smtp { url: String::new(), from: "drift@example.org".into(), to: vec!["a@example.org".into()] };
        let mail = mail(&settings, &many).map(|mail| String::from_utf8_lossy(&mail.formatted()).into_owned());
        let mail = mail.unwrap_or_else(|e| panic!("{e}"));
        assert!(mail.contains("<a@example.org>") && mail.matches("pair: orders").count() == 4, "{mail}");
    }
}
