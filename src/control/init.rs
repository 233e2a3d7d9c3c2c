//! `drift init`: a configuration of two databases, written so that it is valid as it stands and says why it is as it is.

use futures::StreamExt;

use crate::compare::{CompareRequest, Endpoints, Explanation, KeyChoice, explain};
use crate::config::address::{Address, CsvOptions, without_typed_password};
use crate::endpoint::{self, Error, Sibling, partner};
use crate::report::words::{counted, grouped};
use crate::schema::{self, FindingKind};
use crate::value::shape::{LogicalType, TableShape};

/// Pairs that are looked at at the same time.
const AT_ONCE: usize = 4;
/// Columns that loaders add to what they load; a name that only the target has and that fits is left out.
const LOADERS: [&str; 12] = [
    "_loaded_at",
    "_ingested_at",
    "_synced_at",
    "_fivetran_*",
    "_airbyte_*",
    "_sdc_*",
    "_dlt_*",
    "__deleted",
    "__op",
    "__source_*",
    "__ts_ms",
    "__lsn",
];
/// Columns that tell when a row was last written, the likeliest first.
const VERSIONS: [&str; 10] = [
    "updated_at",
    "modified_at",
    "last_updated_at",
    "last_modified_at",
    "changed_at",
    "last_updated",
    "last_modified",
    "update_time",
    "updated_on",
    "row_version",
];
/// Tables up to this size are read whole each time.
const SMALL: u64 = 1_000_000;
/// Tables from this size on are sampled more thinly.
const LARGE: u64 = 100_000_000;
/// Rows that a check reads in a second, for the estimate in the comments. Measured between two local servers on two cores.
const RATE: u64 = 300_000;

/// A configuration that has been drawn up.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The YAML.
    pub text: String,
    /// Tables that are paired.
    pub pairs: usize,
    /// Tables that are not, and why.
    pub left_out: Vec<String>,
    /// Environment variables that have to be set, because a password was typed.
    pub variables: Vec<&'static str>,
}

/// One of the two databases.
#[derive(Debug, Clone)]
pub struct Database {
    /// Its address.
    pub address: Address,
    /// As the user wrote it.
    pub typed: String,
}

/// What is proposed for one pair.
struct Proposal {
    name: String,
    tables: [String; 2],
    rows: Option<u64>,
    lines: Vec<String>,
}

/// Draws up a configuration of all tables that match by name.
pub async fn init(source: &Database, target: &Database) -> Result<Draft, Error> {
    let of = |database: &Database| endpoint::of(&database.address, &CsvOptions::default());
    let (ours, theirs) = (of(source)?.siblings().await?, of(target)?.siblings().await?);
    let mut left_out: Vec<String> = Vec::new();
    let mut matched: Vec<(&Sibling, &Sibling)> = Vec::new();
    for table in &ours {
        match partner(table, &theirs) {
            Ok(other) => matched.push((table, other)),
            Err(why) => left_out.push(format!("{}: {why}", table.object)),
        }
    }
    let met = |other: &&Sibling| matched.iter().any(|(_, known)| known == other);
    left_out.extend(
        theirs
            .iter()
            .filter(|other| !met(other))
            .map(|o| format!("{}: the source has no such table", o.object)),
    );
    if matched.is_empty() {
        return Err(Error::usage(format!(
            "no table of {} has a namesake in {}; the source has {} tables, the target {}",
            source.address.database_name(),
            target.address.database_name(),
            ours.len(),
            theirs.len()
        )));
    }
    let looks = matched.iter().map(|(ours, theirs)| async move {
        let pair = [
            source.address.with_table(ours.object.clone()),
            target.address.with_table(theirs.object.clone()),
        ];
        (*ours, propose(&pair, ours, theirs).await)
    });
    let looks: Vec<_> = futures::stream::iter(looks).buffered(AT_ONCE).collect().await;
    let mut proposals: Vec<Proposal> = Vec::new();
    for (table, proposal) in looks {
        match proposal {
            Ok(proposal) => proposals.push(proposal),
            Err(why) => left_out.push(format!("{}: {why}", table.object)),
        }
    }
    if proposals.is_empty() {
        return Err(Error::usage(format!("no pair of tables can be compared: {}", left_out.join("; "))));
    }
    unique_names(&mut proposals);
    let mut variables = Vec::new();
    let text = written(source, target, &proposals, &left_out, &mut variables);
    Ok(Draft { text, pairs: proposals.len(), left_out, variables })
}

async fn propose(addresses: &[Address; 2], ours: &Sibling, theirs: &Sibling) -> Result<Proposal, String> {
    let make = |address: &Address| endpoint::of(address, &CsvOptions::default()).map(std::sync::Arc::from);
    let endpoints: Endpoints = [make(&addresses[0]).map_err(message)?, make(&addresses[1]).map_err(message)?];
    let described = futures::future::try_join(endpoints[0].describe(), endpoints[1].describe()).await;
    let (source, target) = described.map_err(message)?;
    let mut lines = Vec::new();
    let key = key(&source, &target)?;
    if let Some(key) = &key {
        lines.push(format!("key: [{}]", list(key)));
    }
    let alone = |name: &str| source.column(name).is_none();
    let mut exclude: Vec<String> = target
        .columns
        .iter()
        .map(|column| column.name.clone())
        .filter(|name| alone(name) && LOADERS.iter().any(|pattern| fits(pattern, name)))
        .collect();
    let request = |exclude: &[String]| CompareRequest {
        key: key.clone().map_or(KeyChoice::Primary, KeyChoice::Columns),
        exclude: exclude.to_vec(),
        exclude_any: true,
        ..CompareRequest::default()
    };
    let plan = explain(&endpoints, &request(&exclude)).await.map_err(message)?;
    let mut comments = Vec::new();
    for left in plan.not_compared.iter().filter(|left| left.severity == schema::Severity::Fail) {
        let Some(column) = &left.column else { return Err(left.reason.clone()) };
        comments.push(format!("# {column} is left out: {}", left.reason));
        exclude.push(column.clone());
    }
    for rule in plan.recipe.key.iter().chain(&plan.recipe.values).filter(|rule| rule.lossy) {
        let note = rule.note.as_deref().unwrap_or("what one side cannot hold is not compared");
        comments.push(format!("# {} is compared as {}: {note}", rule.name, rule.compared_as()));
    }
    if !exclude.is_empty() {
        lines.push(format!("columns: {{ exclude: [{}] }}", list(&exclude)));
    }
    lines.extend(comments);
    lines.extend(version(&source, &target, &plan));
    let rows = source.row_estimate.or(target.row_estimate);
    let (schedule, sample) = effort(rows);
    lines.extend(schedule);
    lines.extend(checks(&standing(&source, &target, &exclude), sample));
    Ok(Proposal {
        name: name(&ours.name),
        tables: [ours.object.written(), theirs.object.written()],
        rows,
        lines,
    })
}

fn message(error: Error) -> String {
    error.message
}

/// The key to write, where the tables do not say it alike.
fn key(source: &TableShape, target: &TableShape) -> Result<Option<Vec<String>>, String> {
    if !source.primary_key.is_empty() && source.primary_key == target.primary_key {
        return Ok(None);
    }
    let sound = |key: &&Vec<String>| {
        !key.is_empty()
            && key.iter().all(|column| {
                let both = [source, target].map(|shape| shape.column(column));
                both.iter().all(|column| column.is_some_and(|c| c.nullable == Some(false)))
                    || source.primary_key == **key
            })
            && key.iter().all(|column| target.column(column).is_some() && source.column(column).is_some())
    };
    let candidates =
        [&source.primary_key, &target.primary_key].into_iter().chain(&source.unique).chain(&target.unique);
    candidates.into_iter().find(sound).map(|key| Some(key.clone())).ok_or_else(|| {
        "neither a primary key nor a unique index without NULL that both sides have; add the pair by hand, with `key: [column]` or `key: none`".into()
    })
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// The column that tells when a row was last written, and the cutoff that it makes possible.
fn version(source: &TableShape, target: &TableShape, plan: &Explanation) -> Vec<String> {
    let is_time = |shape: &TableShape, name: &str| {
        shape.column(name).is_some_and(|column| matches!(column.logical, LogicalType::Timestamp { .. }))
    };
    let compared =
        |name: &str| plan.recipe.values.iter().any(|rule| rule.name == name && rule.target_name == name);
    let Some(column) =
        VERSIONS.into_iter().find(|name| is_time(source, name) && is_time(target, name) && compared(name))
    else {
        return vec![
            "# no column tells when a row was last written: late rows are told by looking again".into(),
        ];
    };
    let mut lines = vec![
        format!("version: {{ column: {column} }}"),
        "cutoff: { settle: 10m }      # rows that changed in the last ten minutes are not judged yet".into(),
    ];
    for (shape, side) in [(source, "source"), (target, "target")] {
        if !shape.index_orders.iter().any(|index| index.first().is_some_and(|first| first == column)) {
            lines.push(format!(
                "# {side}: no index on {column}; `max_lag` would read the whole table to find the newest row"
            ));
        }
    }
    lines
}

/// When it is checked, by what that costs, and the sample that it takes.
fn effort(rows: Option<u64>) -> (Vec<String>, Option<&'static str>) {
    let Some(rows) = rows else {
        let lines = vec![
            "# the number of rows is unknown; each check reads all of them from both sides".into(),
            "schedule: { schema: every 15m, rows: every 1h }".into(),
        ];
        return (lines, None);
    };
    let reads =
        format!("# about {} rows; reading all of them takes about {}", grouped(rows), span(rows / RATE));
    if rows <= SMALL {
        return (vec![reads, "schedule: { schema: every 15m, rows: every 15m }".into()], None);
    }
    let (share, full) = if rows < LARGE { ("1%", "30 2 * * *") } else { ("0.1%", "30 2 * * sun") };
    let lines = vec![
        format!("{reads}: that is done at night, and a sample each hour"),
        format!("schedule: {{ schema: every 15m, rows: every 1h, full: \"{full}\" }}"),
    ];
    (lines, Some(share))
}

/// The columns whose types or NULLs differ between the two sides as they stand.
fn standing(source: &TableShape, target: &TableShape, exclude: &[String]) -> Vec<(String, String)> {
    let findings = schema::findings(source, target, &schema::pair(source, target, &[]));
    let told = findings.into_iter().filter(|finding| {
        matches!(finding.kind, FindingKind::TypeChanged | FindingKind::NullabilityChanged)
            && finding.severity != schema::Severity::Info
            && finding.column.as_ref().is_some_and(|column| !exclude.contains(column))
    });
    told.filter_map(|f| Some((f.column?, format!("{} is {} there", f.source?, f.target?)))).collect()
}

fn checks(standing: &[(String, String)], sample: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    if standing.is_empty() && sample.is_none() {
        return lines;
    }
    lines.push("checks:".into());
    if !standing.is_empty() {
        let mut names: Vec<String> = standing.iter().map(|(column, _)| column.clone()).collect();
        names.dedup();
        lines.push(format!("  schema: {{ accept: [{}] }}", list(&names)));
        lines.extend(standing.iter().map(|(column, what)| format!("  # {column}: {what}; taken as meant")));
    }
    lines.extend(sample.map(|share| format!("  rows: {{ sample: {share} }}")));
    lines
}

fn span(seconds: u64) -> String {
    match seconds {
        0 | 1 => "a second".into(),
        2..120 => format!("{seconds} seconds"),
        _ => format!("{} minutes", seconds / 60),
    }
}

/// A pair's name out of a table's.
fn name(table: &str) -> String {
    table.chars().map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' }).collect()
}

/// Tables of the same name in several schemas are told apart by the whole of theirs.
fn unique_names(proposals: &mut [Proposal]) {
    let names: Vec<String> = proposals.iter().map(|p| p.name.clone()).collect();
    let twice = |wanted: &str| names.iter().filter(|known| *known == wanted).count() > 1;
    for proposal in proposals.iter_mut().filter(|p| twice(&p.name)) {
        proposal.name = name(&proposal.tables[0]);
    }
}

/// A text as YAML.
fn quoted(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n", "none"]
            .contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_string() } else { serde_json::Value::from(text).to_string() }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

fn written(
    source: &Database,
    target: &Database,
    proposals: &[Proposal],
    left_out: &[String],
    variables: &mut Vec<&'static str>,
) -> String {
    let mut url = |database: &Database, variable: &'static str| {
        let safe = without_typed_password(&database.typed, variable);
        if safe.is_some() {
            variables.push(variable);
        }
        serde_json::Value::from(safe.unwrap_or_else(|| database.typed.clone())).to_string()
    };
    let mut out = format!(
        "# Written by drift init. Check it with `drift validate --online`, run it once with `drift audit`, and for good with
# `drift serve`. Editors know its keys by the output of `drift validate --schema`.
version: 1
state: {{ url: \"sqlite:drift-state.db\" }}   # or postgres://… to share one state
actions: observe                           # drift only looks

connections:
  source: {{ url: {}, role: source }}
  target: {{ url: {}, role: target }}

# Who is told:
# notifiers:
#   mail: {{ kind: smtp, url: \"smtp://drift:${{SMTP_PASSWORD}}@mail.example.org:587\", from: drift@example.org, to: [you@example.org] }}
#   pager: {{ kind: alertmanager, url: \"http://alertmanager:9093\" }}

pairs:
",
        url(source, "SOURCE_PASSWORD"),
        url(target, "TARGET_PASSWORD"),
    );
    for proposal in proposals {
        let [ours, theirs] = proposal.tables.each_ref().map(|table| quoted(table));
        out.push_str(&format!(
            "  - name: {}\n    source: {{ connection: source, table: {ours} }}\n    target: {{ connection: target, table: {theirs} }}\n",
            quoted(&proposal.name)
        ));
        for line in &proposal.lines {
            out.push_str(&format!("    {line}\n"));
        }
    }
    let all: u64 = proposals.iter().filter_map(|p| p.rows).sum();
    out.push_str(&format!(
        "\n# {}, about {} rows in all.\n",
        counted(proposals.len() as u64, "pair", "pairs"),
        grouped(all)
    ));
    if !left_out.is_empty() {
        out.push_str("# Not watched:\n");
        for line in left_out {
            out.push_str(&format!("#   {}\n", line.replace(['\n', '\r'], " ")));
        }
    }
    out
}
