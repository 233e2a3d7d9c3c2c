//! The service: checks on schedule, killed and stopped, a simulated week, and the world around it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drift::config::settings::Level;
use drift::control::{Request, Service};
use drift::incident::Incident;
use drift::state::{Clock, ManualClock, Store};
use drift::telemetry::Metrics;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::drift::{Drift, Running};
use crate::support::parquet::{self, Cell};
use crate::support::services::{Alertmanager, MailServer, Prometheus, Webhook, free_port, get};
use crate::support::shop::{Shop, incident, on_both};
use crate::support::{block_on, eventually, runtime};

/// A pair that is checked every second, a port, and notifiers.
fn serving(shop: &Shop, port: u16, notifiers: &str) {
    shop.write(&format!(
        "    schedule: {{ schema: every 1s, rows: every 1s }}\nserver: {{ listen: \"127.0.0.1:{port}\" }}\n{notifiers}"
    ));
}

fn webhook(webhook: &Webhook) -> String {
    format!("notifiers: {{ hook: {{ kind: webhook, url: \"{}\" }} }}\n", webhook.url())
}

fn serve(shop: &Shop) -> Drift {
    shop.drift(&["serve"])
}

/// Waits until a service schedules.
fn scheduling(port: u16) {
    eventually("the service schedules", || get(&format!("http://127.0.0.1:{port}/readyz")) == "scheduling\n");
}

fn stop(running: Running) -> String {
    running.signal("TERM");
    running.wait().expect_code(0).stderr
}

#[test]
fn a_service_killed_anywhere_goes_on_and_doubles_nothing() {
    on_both(|shop| {
        let hook = Webhook::fresh();
        let port = free_port();
        serving(&shop, port, &webhook(&hook));
        shop.sql("target.db", "delete from orders where id = 7");
        let places = [
            "serve.elected",
            "serve.started",
            "audit.begun",
            "audit.measured",
            "audit.remembered",
            "audit.committed",
            "serve.ended",
            "deliver.sent",
        ];
        for place in places {
            if place == "deliver.sent" {
                // The service before may have sent it, and noted that.
                shop.state_execute("update drift_outbox set sent = null");
            }
            let killed = serve(&shop).env("DRIFT_FAILPOINT", place).run();
            assert_eq!(killed.code, -1, "{place}: {killed:?}");
            // What was killed holds its leases for half a minute.
            shop.forget_leases();
        }
        let running = serve(&shop).spawn();
        scheduling(port);
        eventually("the message arrives", || !hook.messages().is_empty());
        eventually("what was sent before the kill is sent again", || {
            shop.state_numbers("select count(*) from drift_outbox where sent is null") == [0]
        });
        stop(running);
        assert_eq!(shop.incidents(), [incident("rows", "open", "pipeline")]);
        let messages = hook.messages();
        assert!(messages.iter().all(|(id, _)| *id == messages[0].0), "one message, by its id: {messages:?}");
        let slots = "select count(*) from drift_run where ended is not null group by pair, level, bucket";
        assert!(shop.state_numbers(slots).iter().all(|runs| *runs == 1), "each slot ran once");
        shop.verify_chain();
    });
}

#[test]
fn one_of_two_services_schedules_and_the_other_takes_over() {
    on_both(|shop| {
        let ports = [free_port(), free_port()];
        serving(&shop, ports[0], "");
        let first = serve(&shop).spawn();
        scheduling(ports[0]);
        serving(&shop, ports[1], "");
        let second = serve(&shop).spawn();
        let ready = |port: u16| get(&format!("http://127.0.0.1:{port}/readyz"));
        eventually("the second stands by", || ready(ports[1]) == "standing by\n");
        let runs = || shop.state_numbers("select count(*) from drift_run where ended is not null")[0];
        let before = runs();
        eventually("the first runs checks", || runs() > before);
        drop(first);
        shop.forget_leases();
        scheduling(ports[1]);
        let before = runs();
        eventually("the second runs checks", || runs() > before);
        stop(second);
        let slots = "select count(*) from drift_run group by pair, level, bucket";
        assert!(shop.state_numbers(slots).iter().all(|runs| *runs == 1), "each slot ran once");
        assert_eq!(shop.state_numbers("select count(*) from drift_lease"), [0], "leases are given back");
    });
}

#[test]
fn a_configuration_is_read_again_only_if_it_is_right() {
    let shop = Shop::new();
    let port = free_port();
    serving(&shop, port, "");
    let running = serve(&shop).spawn();
    scheduling(port);
    let metric = |name: &str| {
        let text = get(&format!("http://127.0.0.1:{port}/metrics"));
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
    };
    assert_eq!(metric("drift_config_last_reload_successful"), Some(1.0));
    let right = std::fs::read_to_string(shop.path().join("drift.yaml")).unwrap();
    std::fs::write(shop.path().join("drift.yaml"), right.replace("table: orders", "tabel: orders")).unwrap();
    running.signal("HUP");
    eventually("the mistake is told", || running.stderr_so_far().contains("drift.yaml:8"));
    eventually("the mistake shows", || metric("drift_config_last_reload_successful") == Some(0.0));
    let completed = r#"drift_check_last_completed_timestamp_seconds{level="rows",pair="orders"}"#;
    let before = metric(completed);
    eventually("checks go on", || metric(completed) > before);
    std::fs::write(
        shop.path().join("drift.yaml"),
        right.replace("schema: every 1s, rows: every 1s", "rows: every 2s"),
    )
    .unwrap();
    running.signal("HUP");
    eventually("it is read", || metric("drift_config_last_reload_successful") == Some(1.0));
    let interval =
        |level: &str| metric(&format!("drift_check_interval_seconds{{level=\"{level}\",pair=\"orders\"}}"));
    assert_eq!((interval("rows"), interval("schema")), (Some(2.0), None));
    stop(running);
}

#[test]
fn a_service_without_a_schedule_is_a_mistake() {
    let shop = Shop::new();
    let outcome = serve(&shop).run().expect_code(2);
    assert!(outcome.stderr.contains("no pair has a schedule"), "{}", outcome.stderr);
}

#[test]
fn prometheus_alertmanager_and_the_mail_hear_of_it() {
    let shop = Shop::new();
    let (port, mail_port) = (free_port(), free_port());
    let alertmanager = Alertmanager::fresh();
    let mail = MailServer::at(mail_port);
    let notifiers = format!(
        "notifiers:\n  pager: {{ kind: alertmanager, url: \"{}\", resend: 1s }}\n  mail: {{ kind: smtp, url: \"${{SMTP_URL:-smtp://localhost:1}}\", from: drift@example.org, to: [payments@example.org] }}\n",
        alertmanager.url()
    );
    serving(&shop, port, &notifiers);
    let prometheus = Prometheus::scraping(&format!("127.0.0.1:{port}"));
    let running =
        serve(&shop).env("SMTP_URL", &mail.smtp_url()).env("SSL_CERT_FILE", mail.certificate()).spawn();
    scheduling(port);
    eventually("Prometheus has the metrics", || {
        prometheus.query("drift_check_status{status=\"pass\"} == 1")["data"]["result"]
            .as_array()
            .is_some_and(|found| found.len() == 2)
    });
    assert!(prometheus.firing().is_empty() && alertmanager.alerts().is_empty() && mail.mails().is_empty());

    mail.refuse(1);
    shop.sql("target.db", "delete from orders where id = 7");
    eventually("the shipped rule fires", || prometheus.firing() == ["DriftConfirmed"]);
    eventually("the Alertmanager has drift's own alert", || !alertmanager.alerts().is_empty());
    let alerts = alertmanager.alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let labels = &alerts[0]["labels"];
    assert_eq!((&labels["alertname"], &labels["pair"]), (&"DriftRows".into(), &"orders".into()));
    assert_eq!((&labels["team"], &labels["severity"]), (&"payments".into(), &"fail".into()));
    // The first try was answered with 451, and the second comes after ten seconds.
    eventually("the mail arrives after a refusal", || mail.mails().len() == 1);
    let first = &mail.mails()[0];
    assert_eq!(first["encrypted"], true);
    assert!(first["subject"].as_str().unwrap().contains("orders: 1 of 100 rows is missing"), "{first}");

    board_answers(&prometheus);

    // Nobody answers while the incident ends.
    drop(mail);
    shop.sql("target.db", "insert into orders values (7, 10.5, 'n7')");
    eventually("the incident recovers", || shop.incidents() == [incident("rows", "recovering", "pipeline")]);
    shop.drift(&["incident", "resolve", "1", "--reason", "fixed"])
        .env("SMTP_URL", "smtp://localhost:1")
        .run()
        .expect_code(0);
    eventually("the Alertmanager hears of the end", || alertmanager.alerts().is_empty());
    eventually("the shipped rule is silent", || prometheus.firing().is_empty());
    let mail = MailServer::at(mail_port);
    stop(running);
    // The next start trusts the new certificate.
    let running =
        serve(&shop).env("SMTP_URL", &mail.smtp_url()).env("SSL_CERT_FILE", mail.certificate()).spawn();
    eventually("the mail survives the outage", || !mail.mails().is_empty());
    let subject = mail.mails()[0]["subject"].to_string();
    assert!(subject.contains("resolved"), "{subject}");
    stop(running);
    assert_eq!(mail.mails().len(), 1, "no mail comes twice");
    assert!(!prometheus.log().contains("error loading"), "{}", prometheus.log());
}

/// Every query of the board means something to Prometheus, and most of them find something here.
fn board_answers(prometheus: &Prometheus) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/drift.json");
    let board: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("the board")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let (mut asked, mut empty) = (0, Vec::new());
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default()) {
        let written = target["expr"].as_str().expect("a query").to_string();
        let query = [
            ("$__rate_interval", "1m"),
            ("$__interval", "1m"),
            ("$__range", "1h"),
            ("$pair", ".*"),
            ("${pair:regex}", ".*"),
            ("$level", ".*"),
            ("${level:regex}", ".*"),
        ]
        .iter()
        .fold(written.clone(), |query, (variable, value)| query.replace(variable, value));
        let answer = prometheus.query(&query);
        assert_eq!(answer["status"], "success", "{written}: {answer}");
        asked += 1;
        if answer["data"]["result"].as_array().is_none_or(Vec::is_empty) {
            empty.push(written);
        }
    }
    assert!(asked > 10, "{asked} queries");
    // This pair has no column that tells how far the target lies behind.
    assert!(empty.iter().all(|query| query.contains("lag_seconds")), "these find nothing: {empty:#?}");
}

#[test]
fn the_shipped_rules_fire_when_they_should_and_only_then() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards");
    let tested = std::process::Command::new("promtool")
        .args(["test", "rules", "rules_test.yml"])
        .current_dir(&folder)
        .output()
        .expect("promtool; tests/run.sh installs it");
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stdout));
    let rules = std::fs::read_to_string(folder.join("rules.yml")).expect("the rules");
    let names: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(names, ["DriftConfirmed", "DriftCheckStale"]);
    for name in names {
        assert!(folder.join("runbooks").join(format!("{name}.md")).is_file(), "the runbook of {name}");
    }
}

/// Two pairs of four engines, watched for a week that passes in seconds.
#[test]
fn a_simulated_week_tells_what_was_planted_and_nothing_else() {
    // A process of its own, whose memory is nobody else's.
    const CHILD: &str = "DRIFT_TEST_WEEK";
    if std::env::var_os(CHILD).is_some() {
        return Week::new().pass();
    }
    let done = std::process::Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "serve::a_simulated_week_tells_what_was_planted_and_nothing_else", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("this binary runs");
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{printed}\n{}", String::from_utf8_lossy(&done.stderr));
    assert!(printed.contains("1 passed"), "{printed}");
}

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

struct Week {
    folder: tempfile::TempDir,
    start: i64,
    source: Postgres,
    target: MySql,
    events: Sqlite,
}

/// Rows of the events table; one may be missing in the file.
fn write_events(path: &Path, missing: Option<i64>) {
    let rows: Vec<Vec<Cell>> = (1..=500)
        .filter(|id| Some(*id) != missing)
        .map(|id| vec![Cell::Int(id), Cell::Text(format!("event {id}"))])
        .collect();
    parquet::write(path, "required int64 id; optional binary what (STRING);", &rows);
}

impl Week {
    fn new() -> Week {
        let (source, target, events) = (Postgres::fresh(), MySql::fresh(), Sqlite::fresh());
        source.execute("create table orders (id bigint primary key, amount numeric(12,2), at timestamp)");
        target.execute("create table orders (id bigint primary key, amount decimal(12,2), at datetime(6))");
        source.execute("insert into orders select i, i * 1.25, timestamp '2026-01-01' + i * interval '1 minute' from generate_series(1, 2000) i");
        target.execute("insert into orders select seq, seq * 1.25, timestamp '2026-01-01 00:00:00' + interval seq minute from seq_1_to_2000");
        events.execute("create table events (id integer primary key, what text); with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) insert into events select i, 'event ' || i from n");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("lake")).expect("a folder");
        write_events(&folder.path().join("lake/events.parquet"), None);
        // A Monday.
        let start = chrono::DateTime::parse_from_rfc3339("2026-06-01T00:00:00Z").expect("an instant");
        Week { folder, start: start.timestamp_micros(), source, target, events }
    }

    fn config(&self) -> String {
        format!(
            "version: 1
state: {{ url: \"sqlite:{state}\" }}
windows: {{ backup: \"daily 03:00-04:00\" }}
connections:
  shop: {{ url: \"${{SOURCE}}\" }}
  copy: {{ url: \"${{TARGET}}\" }}
  app: {{ url: \"{events}\" }}
  lake: {{ url: \"{lake}\" }}
pairs:
  - name: orders
    source: {{ connection: shop, table: orders }}
    target: {{ connection: copy, table: orders }}
    confirm: {{ rounds: 2, wait: 5ms }}
    schedule: {{ schema: every 6h, rows: every 1h, full: \"30 2 * * *\", maintenance: [backup] }}
    checks: {{ rows: {{ sample: 50% }} }}
  - name: events
    source: {{ connection: app, table: events }}
    target: {{ connection: lake, table: events.parquet }}
    confirm: {{ rounds: 2, wait: 5ms }}
    schedule: {{ schema: every 12h, rows: every 2h, jitter: 0s }}
",
            state = self.folder.path().join("state.db").display(),
            events = format_args!("sqlite:{}", self.events.path().display()),
            lake = self.folder.path().join("lake").display(),
        )
    }

    /// What happens, and when.
    fn happenings(&self) -> Vec<(i64, Box<dyn Fn() + '_>)> {
        let file = self.folder.path().join("lake/events.parquet");
        let (gone, away) = (file.clone(), file.with_extension("away"));
        let (there, back) = (away.clone(), file.clone());
        let mended = file.clone();
        let day = |day: i64, hour: i64| self.start + day * DAY + hour * HOUR + MINUTE;
        let lost = "update orders set amount = 0 where id between 100 and 400";
        let found = "update orders set amount = id * 1.25 where id between 100 and 400";
        let new = "alter table orders add column currency varchar(3)";
        vec![
            (day(1, 10), Box::new(move || self.target.execute(lost))),
            (day(1, 15), Box::new(move || self.target.execute(found))),
            (
                day(2, 9),
                Box::new(move || {
                    self.source.execute(new);
                    self.target.execute(new);
                }),
            ),
            (day(3, 5), Box::new(move || write_events(&file, Some(250)))),
            (day(3, 11), Box::new(move || write_events(&mended, None))),
            (day(4, 0), Box::new(move || std::fs::rename(&gone, &away).expect("a file"))),
            (day(4, 20), Box::new(move || std::fs::rename(&there, &back).expect("a file"))),
        ]
    }

    fn pass(&self) {
        let text = self.config();
        let (source, target) = (self.source.url().to_string(), self.target.url().to_string());
        let load = move || {
            drift::config::read(&[("drift.yaml".to_string(), text.clone())], &|name| match name {
                "SOURCE" => Some(source.clone()),
                "TARGET" => Some(target.clone()),
                _ => None,
            })
        };
        let loaded = load().unwrap_or_else(|problems| panic!("{problems:?}"));
        let clock = Arc::new(ManualClock::at(self.start));
        let store = block_on(Store::open(&loaded.config.state.url)).expect("a store");
        let said = Arc::new(Mutex::new(Vec::new()));
        let says = Arc::clone(&said);
        let service = Arc::new(Service::new(
            store.clone(),
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::new(Metrics::new().expect("metrics")),
            loaded,
            Box::new(load),
            Arc::new(move |text: &str| says.lock().expect("the test").push(text.to_string())),
        ));
        let (requests, asked) = mpsc::channel(1);
        let end = self.start + 7 * DAY;
        let mut happenings = self.happenings().into_iter().peekable();
        let (mut memory, mut steps) = (Vec::new(), 0);
        let running = runtime().spawn({
            let service = Arc::clone(&service);
            async move { service.run(asked).await }
        });
        let mut standing = service.standing();
        loop {
            let idle = standing.wait_for(|now| {
                now.leads && now.running == 0 && now.next.is_some_and(|next| next > clock.now())
            });
            let idle = block_on(async { tokio::time::timeout(Duration::from_secs(60), idle).await });
            let next = idle
                .unwrap_or_else(|_| panic!("no rest at {}: {:?}", clock.now(), said.lock()))
                .expect("the service lives")
                .next
                .expect("a next check");
            if next > end {
                break;
            }
            while let Some((_, happens)) = happenings.next_if(|(at, _)| *at <= next) {
                happens();
            }
            clock.set(next);
            steps += 1;
            if steps % 50 == 0 {
                memory.push(resident());
            }
        }
        block_on(requests.send(Request::Stop)).expect("the service lives");
        block_on(running).expect("no panic").expect("a good configuration");
        drop(happenings);
        self.check_runs(&store);
        check_incidents(&store, self.start);
        let (early, late) = (memory[memory.len() / 3], memory[memory.len() - 1]);
        assert!(late < early + (16 << 20), "memory grows: {memory:?}");
    }

    /// Every slot ran once, and no other.
    fn check_runs(&self, store: &Store) {
        let slots = |level: Level, every: i64| -> Vec<(String, i64)> {
            let last = (7 * DAY).div_euclid(every);
            (0..=last).map(|n| (level.word().to_string(), self.start + n * every)).collect()
        };
        for (pair, expected) in [
            ("orders", vec![slots(Level::Schema, 6 * HOUR), slots(Level::Rows, HOUR)]),
            ("events", vec![slots(Level::Schema, 12 * HOUR), slots(Level::Rows, 2 * HOUR)]),
        ] {
            let mut expected: Vec<(String, i64)> = expected.into_iter().flatten().collect();
            if pair == "orders" {
                expected.extend((0..7).map(|day| ("full".into(), self.start + day * DAY + 5 * HOUR / 2)));
            }
            let runs = block_on(drift::audit::store::runs(store, pair, 10_000)).expect("runs");
            let mut found: Vec<(String, i64)> =
                runs.iter().map(|run| (run.level.clone(), run.bucket)).collect();
            assert!(runs.iter().all(|run| run.ended.is_some() && run.started >= run.bucket), "{pair}");
            let in_window = |at: i64| (3 * HOUR..4 * HOUR).contains(&(at - self.start).rem_euclid(DAY));
            assert!(pair == "events" || !runs.iter().any(|run| in_window(run.started)), "maintenance");
            // The jitter puts the last slots beyond the week's end, and a window puts slots together.
            let reached = found.iter().map(|(_, at)| *at).max().unwrap_or(0);
            expected.retain(|(level, at)| {
                let joined = pair == "orders" && level == "rows" && in_window(*at);
                *at <= reached && !joined
            });
            found.retain(|(level, at)| !(pair == "orders" && level == "rows" && in_window(*at)));
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{pair}");
        }
    }
}

fn check_incidents(store: &Store, start: i64) {
    let mut incidents = block_on(drift::incident::store::list(store, true)).expect("incidents");
    incidents.reverse();
    let told: Vec<(&str, &str, &str, &str)> = incidents
        .iter()
        .map(|i| (i.pair.as_str(), i.kind.word(), i.attribution.word(), i.state.word()))
        .collect();
    assert_eq!(
        told,
        [
            ("orders", "rows", "pipeline", "resolved"),
            ("orders", "schema", "upstream_change", "open"),
            ("events", "rows", "pipeline", "resolved"),
            ("events", "unchecked", "infrastructure", "resolved"),
        ]
    );
    let day = |incident: &Incident| (incident.opened - start).div_euclid(DAY);
    assert_eq!(incidents.iter().map(day).collect::<Vec<_>>(), [1, 2, 3, 4], "quiet days open none");
    let verified = block_on(drift::state::audit_log::verify(store)).expect("a whole audit log");
    assert!(verified > 0);
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the state of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
