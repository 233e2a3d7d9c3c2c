//! `drift serve` and `drift notify`.

use std::io::Write as _;
use std::sync::Arc;

use clap::{Args, Subcommand};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Exit, Global, print};
use crate::config;
use crate::control::{Request, Service};
use crate::notify::{Message, Sender};
use crate::server;
use crate::state::{Clock, SystemClock, rfc3339};
use crate::telemetry::Metrics;

#[derive(Debug, Args)]
pub(super) struct NotifyArgs {
    #[command(subcommand)]
    command: Notify,
}

#[derive(Debug, Subcommand)]
enum Notify {
    /// Send a message that says that it is a test
    Test {
        /// The notifier, by the configuration's name
        name: String,
    },
}

/// Serves until SIGTERM or Ctrl-C; SIGHUP reads the configuration again.
pub(super) async fn run(global: &Global) -> Exit {
    let (loaded, store) = match super::config::opened(global).await {
        Ok(opened) => opened,
        Err(exit) => return exit,
    };
    let listen = loaded.config.server.listen.clone();
    let bound = match TcpListener::bind(&listen).await {
        Ok(listener) => listener.local_addr().map(|at| (listener, at)),
        Err(error) => Err(error),
    };
    let (listener, at) = match bound {
        Ok(bound) => bound,
        Err(error) => {
            global.say(&format!("server.listen: {listen} cannot be used: {error}"));
            return Exit::Usage;
        }
    };
    let metrics = match Metrics::new() {
        Ok(metrics) => Arc::new(metrics),
        Err(error) => {
            global.say(&format!("the metrics cannot be made: {error}"));
            return Exit::Incomplete;
        }
    };
    let (files, state) = (loaded.files.clone(), global.state.clone());
    let load = Box::new(move || {
        let mut loaded = config::load(&files)?;
        if let Some(url) = &state {
            loaded.config.state.url.clone_from(url);
        }
        Ok(loaded)
    });
    let quiet = global.quiet;
    let say = Arc::new(move |text: &str| {
        if !quiet {
            let _ = writeln!(std::io::stderr().lock(), "{} drift: {text}", rfc3339(SystemClock.now()));
        }
    });
    let service = Arc::new(Service::new(store, Arc::new(SystemClock), metrics, loaded, load, say.clone()));
    (say)(&format!("listening on http://{at}"));
    let (requests, asked) = mpsc::channel(4);
    let signals = tokio::spawn(signals(requests));
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let http = tokio::spawn(server::serve(listener, Arc::clone(&service), async {
        let _ = ended.await;
    }));
    let result = service.run(asked).await;
    signals.abort();
    let _ = end.send(());
    // Whoever keeps a connection open must not hold up the end.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), http).await;
    match result {
        Ok(()) => {
            (say)("ended");
            Exit::Equal
        }
        Err(why) => {
            global.say(&why);
            Exit::Usage
        }
    }
}

/// Turns signals into requests. The first that asks for the end is obeyed in peace, the second at once.
async fn signals(requests: mpsc::Sender<Request>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
    else {
        return;
    };
    let mut ending = false;
    loop {
        let (request, code) = tokio::select! {
            _ = terminate.recv() => (Request::Stop, 143),
            _ = interrupt.recv() => (Request::Stop, 130),
            _ = hangup.recv() => (Request::Reload, 0),
        };
        if code != 0 {
            if ending {
                std::process::exit(code);
            }
            ending = true;
        }
        if requests.send(request).await.is_err() {
            return;
        }
    }
}

/// `drift notify test NAME`.
pub(super) async fn notify(global: &Global, args: &NotifyArgs) -> Exit {
    let Notify::Test { name } = &args.command;
    let loaded = match super::config::loaded(global) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let notifiers = &loaded.config.notifiers;
    if !notifiers.contains_key(name) {
        let known: Vec<&str> = notifiers.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        global.say(&format!("there is no notifier {name:?} in the configuration; it has {known}"));
        return Exit::Usage;
    }
    let now = SystemClock.now();
    let message = Message {
        id: format!("test-{now}"),
        incident: None,
        event: "test".into(),
        severity: "warn".into(),
        title: "this is a test".into(),
        facts: vec![
            "drift notify test has sent this message; nothing is wrong, and nothing has to be done".into(),
        ],
        labels: [("kind".to_string(), "test".to_string())].into(),
        since: now,
        until: Some(now + 60_000_000),
    };
    match Sender::new(notifiers).send(name, &message, now).await {
        Ok(()) => {
            print(&format!("{name} has taken the message\n"));
            Exit::Equal
        }
        Err(failure) => {
            global.say(&format!("notifier {name}: {failure}"));
            Exit::Incomplete
        }
    }
}
