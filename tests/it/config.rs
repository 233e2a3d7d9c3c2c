//! The configuration: every way to break it ends in an error that names file, line, key and the mend.

use drift::config::{json_schema, read};

/// A configuration that uses every block; each line of [`BROKEN`] changes one text of it.
const WHOLE: &str = r#"version: 1
state: { url: "sqlite:state.db" }
actions: observe
timezone: Europe/Berlin
windows: { night: "daily 23:00-01:00" }
history: { keep_runs: 90d, keep_diff_rows: 14d }
connections:
  shop:
    url: "postgres://ada:${SHOP_PASSWORD}@localhost/shop"
    role: source
    budget: { checks: 2 }
  lake: { url: "lake/", role: target, csv: { delimiter: ";" } }
pairs:
  - name: orders
    labels: { team: payments }
    source: { connection: shop, table: public.orders }
    target: { connection: lake, table: "orders/*.csv" }
    key: [id]
    version: { column: updated_at }
    columns: { exclude: [_loaded_at], rename: { total_amt: total_amount }, tolerance: { rate: 0.01 } }
    cutoff: { settle: 10m, max_lag: 30m }
    consistency: confirm
    schedule: { schema: "every 5m", rows: "every 15m", full: "30 2 * * sun", maintenance: [night] }
    checks:
      schema: { column_missing: fail, type_changed: { narrowing: fail } }
      rows: { sample: 1%, changed: { warn: 0, fail: 0.1% } }
    react:
      - { level: rows, over: 0.1%, do: incident, priority: hot }
notifiers:
  mail: { kind: smtp, url: "smtp://mail.example.org", from: drift@example.org, to: [ops@example.org] }
  hook: { kind: webhook, url: "${HOOK:-http://localhost:1}", hmac: "${HMAC}" }
server: { listen: "127.0.0.1:8480" }
"#;

/// What to write instead of what, the line and key that the error names, and words of the mend.
const BROKEN: [(&str, &str, u64, &str, &str); 48] = [
    ("version: 1", "version: 2", 1, "version", "version: 1"),
    ("version: 1", "verison: 1", 1, "verison", "did you mean `version`?"),
    ("actions: observe", "actions: automtic", 3, "actions", "one of observe"),
    ("actions: observe", "actions: observe\nactions: observe", 4, "", "no YAML"),
    ("timezone: Europe/Berlin", "timezone: Berlin", 4, "timezone", "Europe/Berlin"),
    ("daily 23:00-01:00", "23:00-01:00", 5, "windows.night", "mon-fri 07:00-20:00"),
    ("keep_runs: 90d", "keep_runs: 90", 6, "history.keep_runs", "unit"),
    ("keep_runs: 90d", "keep_run: 90d", 6, "history.keep_run", "did you mean `keep_runs`?"),
    ("keep_runs: 90d", "keep_runs: [90d]", 6, "history.keep_runs", "text or a number"),
    ("sqlite:state.db", "redis://localhost", 2, "state.url", "sqlite:FILE"),
    ("${SHOP_PASSWORD}", "geheim", 9, "connections.shop.url", "${NAME}"),
    ("${SHOP_PASSWORD}", "${NOT_SET}", 9, "connections.shop.url", "NOT_SET is not set"),
    ("${SHOP_PASSWORD}", "${SHOP_PASSWORD", 9, "connections.shop.url", "closing brace"),
    ("${SHOP_PASSWORD}", "${file:no/such/secret}", 9, "connections.shop.url", "/run/secrets"),
    ("localhost/shop\"", "localhost/shop#orders\"", 9, "connections.shop.url", "leave out #"),
    ("postgres://ada", "oracle://ada", 9, "connections.shop.url", "postgres://"),
    ("role: source", "role: sauce", 10, "connections.shop.role", "did you mean `source`?"),
    ("role: source", "role: target", 16, "pairs.orders.source.connection", "source is expected"),
    ("budget: { checks: 2 }", "budget: { checks: 0 }", 11, "connections.shop.budget", "at least 1"),
    (
        "budget: { checks: 2 }",
        "budget: { checks: two }",
        11,
        "connections.shop.budget.checks",
        "whole number",
    ),
    ("budget: { checks: 2 }", "budget: 2", 11, "connections.shop.budget", "keys and values"),
    ("delimiter: \";\"", "delimiter: \"; \"", 12, "connections.lake.csv.delimiter", "character"),
    ("- name: orders", "- nam: orders", 14, "pairs.1.nam", "did you mean `name`?"),
    ("- name: orders", "- name: \"or ders\"", 14, "pairs.or ders.name", "letters, digits"),
    ("team: payments", "team: [payments]", 15, "pairs.orders.labels.team", "text"),
    ("connection: shop", "connection: shp", 16, "pairs.orders.source.connection", "did you mean `shop`?"),
    (
        "connection: shop, table: public.orders",
        "connection: shop",
        16,
        "pairs.orders.source",
        "`table` is missing",
    ),
    ("table: public.orders", "table: \"(select 1\"", 16, "pairs.orders.source.table", "closing parenthesis"),
    ("key: [id]", "key: []", 18, "pairs.orders.key", "[id]"),
    ("key: [id]", "keys: [id]", 18, "pairs.orders.keys", "did you mean `key`?"),
    ("key: [id]", "key: [[id]]", 18, "pairs.orders.key", "list of column names"),
    ("version: { column: updated_at }", "version: updated_at", 19, "pairs.orders.version", "keys and values"),
    ("version: { column: updated_at }", "labels2: {}", 19, "pairs.orders.labels2", "did you mean `labels`?"),
    (
        "tolerance: { rate: 0.01 }",
        "tolerance: { rate: much }",
        20,
        "pairs.orders.columns.tolerance.rate",
        "span of time",
    ),
    (
        "exclude: [_loaded_at]",
        "normalize: { note: [trimm] }",
        20,
        "pairs.orders.columns.normalize.note",
        "did you mean `trim`?",
    ),
    ("settle: 10m", "settle: ten", 21, "pairs.orders.cutoff.settle", "30s or 5m"),
    (
        "consistency: confirm",
        "consistency: watermark",
        22,
        "pairs.orders.consistency",
        "one of confirm, cutoff, none",
    ),
    ("every 5m", "every 5", 23, "pairs.orders.schedule.schema", "unit"),
    ("30 2 * * sun", "30 25 * * sun", 23, "pairs.orders.schedule.full", "minute, hour, day, month, weekday"),
    (
        "maintenance: [night]",
        "maintenance: [nigth]",
        23,
        "pairs.orders.schedule.maintenance.1",
        "did you mean `night`?",
    ),
    (
        "column_missing: fail",
        "column_missing: fial",
        25,
        "pairs.orders.checks.schema.column_missing",
        "did you mean `fail`?",
    ),
    (
        "narrowing: fail",
        "narowing: fail",
        25,
        "pairs.orders.checks.schema.type_changed.narowing",
        "did you mean `narrowing`?",
    ),
    ("fail: 0.1%", "fail: h0.2", 26, "pairs.orders.checks.rows.changed.fail", "0.1%"),
    ("sample: 1%", "sample: 101%", 26, "pairs.orders.checks.rows.sample", "5000"),
    ("do: incident", "do: incidnet", 28, "pairs.orders.react.1.do", "did you mean `incident`?"),
    ("to: [ops@example.org]", "to: [ops]", 30, "notifiers.mail.to", "mail address"),
    ("\"${HMAC}\"", "geheim", 31, "notifiers.hook.hmac", "${NAME}"),
    ("127.0.0.1:8480", "0.0.0.0:8480", 32, "server.listen", "behind_proxy: true"),
];

fn env(name: &str) -> Option<String> {
    ["SHOP_PASSWORD", "HMAC"].contains(&name).then(|| "p@ss geheim".to_string())
}

fn problems(text: &str) -> Vec<drift::config::Problem> {
    read(&[("drift.yaml".into(), text.into())], &env).err().unwrap_or_default()
}

#[test]
fn the_whole_configuration_is_read_and_shown_without_secrets() {
    let loaded = read(&[("drift.yaml".into(), WHOLE.into())], &env).unwrap_or_else(|p| panic!("{p:#?}"));
    let shown = loaded.effective();
    assert!(!shown.contains("geheim") && shown.contains("${SHOP_PASSWORD}"), "{shown}");
    assert!(shown.contains("only_in_target"), "defaults are shown: {shown}");
    let again =
        read(&[("shown.yaml".into(), shown.clone())], &env).unwrap_or_else(|p| panic!("{p:#?}\n{shown}"));
    assert_eq!(again.config, loaded.config, "what is shown means the same");
    assert_eq!(again.fingerprint(), loaded.fingerprint());
}

#[test]
fn every_way_to_break_it_names_file_line_key_and_mend() {
    let mut wrong = Vec::new();
    for (from, to, line, key, mend) in BROKEN {
        assert_eq!(WHOLE.matches(from).count(), 1, "{from} stands in the configuration once");
        let found = problems(&WHOLE.replacen(from, to, 1));
        let fits = found.iter().any(|p| {
            p.file == "drift.yaml" && p.line == Some(line) && p.key == key && p.message.contains(mend)
        });
        if !fits || found.iter().any(|p| p.message.contains("geheim")) {
            wrong.push(format!("{to}: wanted {line}: {key}: …{mend}…, got {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_lines() {
    let text = WHOLE
        .replace("actions: observe", "actions: now")
        .replace("key: [id]", "keys: [id]")
        .replace("sample: 1%, ", "sample: 7, x: 1, ");
    let lines: Vec<u64> = problems(&text).iter().filter_map(|p| p.line).collect();
    assert_eq!(lines, [3, 18, 26]);
}

#[test]
fn the_schema_for_editors_knows_every_key() {
    let schema = json_schema().to_string();
    for key in
        ["max_inconclusive", "only_in_source", "behind_proxy", "keep_diff_rows", "version_tag", "resend"]
    {
        assert!(schema.contains(key), "{key}");
    }
}
