//! `drift compare`.

mod tables;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::{
    CsvArgs, Exit, Global, Output, endpoint, exit_of, print, print_human, print_json, print_report, progress,
};
use crate::compare::{self, CompareOutcome, CompareRequest, Confirm, Control, Endpoints, KeyChoice, Verdict};
use crate::config::units;
use crate::endpoint::{Error, ErrorKind};
use crate::report::file::Pending;
use crate::report::{diff, html, human, json, junit, markdown, repair};
use crate::value::hash::Hash;
use crate::value::recipe::{Normalize, Tolerance};

/// More ranges at once than this burden a server for little gain.
const MOST_THREADS: usize = 4;

/// The age from which a row is judged under a cutoff.
const MIN_AGE: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Where rows come from: postgres://…#table, mysql://…#table, sqlite:file#table, or files
    source: String,
    /// Where they should have arrived, in the same forms
    target: String,
    /// Compare all tables of two databases whose names match: 'public.*', or orders,order_items. SOURCE and TARGET are
    /// then URLs without #table
    #[arg(long, value_name = "PATTERN[,PATTERN]", env = "DRIFT_TABLES", value_delimiter = ',',
        conflicts_with_all = ["key", "columns", "map", "both_where", "source_where", "target_where", "tolerance", "normalize",
            "diff", "repair", "explain"])]
    tables: Vec<String>,
    /// The columns that pair rows (default: the shared primary key); `none` compares multisets of rows
    #[arg(short, long, value_name = "COL[,COL]", env = "DRIFT_KEY", value_delimiter = ',')]
    key: Vec<String>,
    /// Compare these columns only
    #[arg(long, value_name = "COL[,COL]", env = "DRIFT_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Leave these columns out
    #[arg(long, value_name = "COL[,COL]", env = "DRIFT_EXCLUDE", value_delimiter = ',')]
    exclude: Vec<String>,
    /// A column that has another name in the target
    #[arg(long, value_name = "SRC=TGT", env = "DRIFT_MAP", value_delimiter = ',', value_parser = pair)]
    map: Vec<(String, String)>,
    /// A condition for both sides, in the SQL of each
    #[arg(long = "where", value_name = "SQL", env = "DRIFT_WHERE")]
    both_where: Option<String>,
    /// A condition for the source, in its SQL
    #[arg(long, value_name = "SQL", env = "DRIFT_SOURCE_WHERE", conflicts_with = "both_where")]
    source_where: Option<String>,
    /// A condition for the target, in its SQL
    #[arg(long, value_name = "SQL", env = "DRIFT_TARGET_WHERE", conflicts_with = "both_where")]
    target_where: Option<String>,
    /// Values this near to each other count as equal: 0.01, 1% or 2s
    #[arg(long, value_name = "COL=ABS|REL%|DURATION", env = "DRIFT_TOLERANCE", value_delimiter = ',', value_parser = units::tolerance)]
    tolerance: Vec<(String, Tolerance)>,
    /// Differences in a text column that do not count: trim, rtrim, nfc, casefold, crlf, empty_is_null
    #[arg(long, value_name = "COL=WISH", env = "DRIFT_NORMALIZE", value_delimiter = ',', value_parser = wish)]
    normalize: Vec<(String, Normalize)>,
    /// Whether 0000-00-00 and its kin are values of their own, or NULL
    #[arg(long, value_enum, default_value = "keep", env = "DRIFT_IMPOSSIBLE_DATES")]
    impossible_dates: ImpossibleDates,
    #[command(flatten)]
    csv: CsvArgs,
    /// How many differences are listed; all are counted
    #[arg(long, value_name = "N", default_value_t = 1000, env = "DRIFT_LIMIT")]
    limit: usize,
    /// End the run, as incomplete, after this many differences
    #[arg(long, value_name = "N", env = "DRIFT_STOP_AFTER", value_parser = clap::value_parser!(u64).range(1..))]
    stop_after: Option<u64>,
    /// End the run, as incomplete, after this time: 30s, 5m
    #[arg(long, value_name = "DURATION", env = "DRIFT_DEADLINE", value_parser = units::duration)]
    deadline: Option<Duration>,
    /// How many key ranges are read at once, at most (default: the number of cores, at most 4)
    #[arg(long, value_name = "N", env = "DRIFT_THREADS")]
    threads: Option<usize>,
    /// What drift's buffers, sort and spill may hold
    #[arg(long, value_name = "SIZE", default_value = "256MiB", env = "DRIFT_MEMORY", value_parser = memory)]
    memory: usize,
    /// How many times a lost connection is opened again, per range
    #[arg(long, value_name = "N", default_value_t = 3, env = "DRIFT_RETRIES")]
    retries: u32,
    /// Compare a sample: a share of the rows (1%), or so many of the source's (5000)
    #[arg(long, value_name = "SHARE%|N", env = "DRIFT_SAMPLE", value_parser = sample_size)]
    sample: Option<compare::Size>,
    /// Which rows a sample draws; the same seed draws the same
    #[arg(long, value_name = "N", default_value_t = 1, env = "DRIFT_SEED")]
    seed: u64,
    /// The hash by which rows are compared and drawn: 64 bits, or crc32, whose 32 bits miss a change now and then
    #[arg(long, value_enum, default_value = "native", env = "DRIFT_HASH")]
    hash: Hashing,
    /// How row values appear in the result: as they are, as ***, or as a hash that equal values share
    #[arg(long, value_enum, default_value = "none", env = "DRIFT_MASK")]
    mask: Masking,
    /// List the keys of differing rows, without values
    #[arg(long, env = "DRIFT_KEYS_ONLY")]
    keys_only: bool,
    /// Write the report to a file as one page, with examples of the differences
    #[arg(long, value_name = "FILE", env = "DRIFT_HTML")]
    html: Option<PathBuf>,
    /// Write all differences to a file, beyond --limit: FILE.csv, FILE.jsonl or FILE.parquet
    #[arg(long, value_name = "FILE", env = "DRIFT_DIFF")]
    diff: Option<PathBuf>,
    /// Write the statements that would make the target equal to a file, for a person to review; they are never run
    #[arg(long, value_name = "FILE.sql", env = "DRIFT_REPAIR")]
    repair: Option<PathBuf>,
    /// Print the plan and its statements, and run nothing
    #[arg(long, env = "DRIFT_EXPLAIN")]
    explain: bool,
    /// How late rows are told from wrong ones: `confirm` looks at what differs again, `cutoff` judges no row younger than
    /// --min-age, `none` reports each difference
    #[arg(long, value_enum, default_value = "confirm", env = "DRIFT_CONSISTENCY")]
    consistency: Consistency,
    /// The column that tells when a row was last written, for `--consistency cutoff`
    #[arg(long, value_name = "COL", env = "DRIFT_UPDATED_AT")]
    updated_at: Option<String>,
    /// The age from which `--consistency cutoff` judges a row, by the database's clock [default: 10m]
    #[arg(long, value_name = "DURATION", env = "DRIFT_MIN_AGE", value_parser = units::duration)]
    min_age: Option<Duration>,
    /// How many times differences are looked at again, at most
    #[arg(long, value_name = "N", default_value_t = 3, env = "DRIFT_CONFIRM_ROUNDS", value_parser = clap::value_parser!(u32).range(1..=100))]
    confirm_rounds: u32,
    /// The time between two looks: more than the replication's lag
    #[arg(long, value_name = "DURATION", default_value = "5s", env = "DRIFT_CONFIRM_WAIT", value_parser = units::duration)]
    confirm_wait: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImpossibleDates {
    Keep,
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Hashing {
    Native,
    Crc32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Masking {
    None,
    Mask,
    Hash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Consistency {
    None,
    Cutoff,
    Confirm,
}

fn memory(text: &str) -> Result<usize, String> {
    match units::size(text)? {
        size if size < 8 << 20 => Err("at least 8MiB are needed".into()),
        size => Ok(size),
    }
}

fn sample_size(text: &str) -> Result<compare::Size, String> {
    let wrong = || "write a share of the rows, such as 1%, or a number of rows, such as 5000".to_string();
    match text.strip_suffix('%') {
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(compare::Size::Share(percent / 100.0)),
            _ => Err(wrong()),
        },
        None => match text.replace('_', "").parse() {
            Ok(rows) if rows > 0 => Ok(compare::Size::Rows(rows)),
            _ => Err(wrong()),
        },
    }
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.into(), to.into())),
        _ => Err("write SOURCE_COLUMN=TARGET_COLUMN".into()),
    }
}

fn wish(text: &str) -> Result<(String, Normalize), String> {
    let (column, name) = text.rsplit_once('=').ok_or("write COLUMN=trim")?;
    let found = Normalize::ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, wish)| (column.to_string(), *wish)).ok_or_else(|| {
        let known: Vec<&str> = Normalize::ALL.iter().map(|(name, _)| *name).collect();
        format!("{name:?} is unknown; use one of {}", known.join(", "))
    })
}

impl CompareArgs {
    fn request(&self) -> Result<CompareRequest, Error> {
        let key = match self.key.as_slice() {
            [] => KeyChoice::Primary,
            [only] if only == "none" => KeyChoice::Keyless,
            columns => KeyChoice::Columns(columns.to_vec()),
        };
        if self.threads == Some(0) {
            return Err(Error::usage("--threads must be at least 1"));
        }
        if self.hash == Hashing::Crc32 && key == KeyChoice::Keyless {
            let message =
                "--hash crc32 does not go with --key none: without a key, 32 bits cannot tell rows apart";
            return Err(Error::usage(message));
        }
        let cutoff = match (self.consistency, &self.updated_at) {
            (Consistency::Cutoff, Some(column)) => {
                let min_age = self.min_age.unwrap_or(MIN_AGE);
                Some(compare::Cutoff { column: column.clone(), min_age })
            }
            (Consistency::Cutoff, None) => {
                let message = "--consistency cutoff needs --updated-at COL, the column that tells when a row was last written";
                return Err(Error::usage(message));
            }
            (_, None) if self.min_age.is_none() => None,
            _ => {
                let message = "--updated-at and --min-age belong to --consistency cutoff";
                return Err(Error::usage(message));
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(CompareRequest {
            key,
            columns: (!self.columns.is_empty()).then(|| self.columns.clone()),
            exclude: self.exclude.clone(),
            exclude_any: !self.tables.is_empty(),
            map: self.map.clone(),
            source_where: self.both_where.clone().or_else(|| self.source_where.clone()),
            target_where: self.both_where.clone().or_else(|| self.target_where.clone()),
            normalize: self.normalize.clone(),
            tolerance: self.tolerance.clone(),
            impossible_dates_as_null: self.impossible_dates == ImpossibleDates::Null,
            limit: self.limit,
            stop_after: self.stop_after,
            deadline: self.deadline,
            threads: self.threads.unwrap_or(cores.min(MOST_THREADS)),
            memory: self.memory,
            retries: self.retries,
            confirm: (self.consistency == Consistency::Confirm)
                .then_some(Confirm { rounds: self.confirm_rounds, wait: self.confirm_wait }),
            cutoff,
            hash: match self.hash {
                Hashing::Native => Hash::Native,
                Hashing::Crc32 => Hash::Crc32,
            },
            sample: self.sample.map(|size| compare::Sample { size, seed: self.seed }),
            mask: match self.mask {
                Masking::None => compare::Mask::None,
                Masking::Mask => compare::Mask::Mask,
                Masking::Hash => compare::Mask::Hash,
            },
            keys_only: self.keys_only,
            context: self.html.is_some(),
            list_all: self.diff.is_some(),
            repair: self.repair.is_some(),
        })
    }
}

/// The files that were asked for, each made before the run, so that nobody waits for one that cannot be written.
#[derive(Default)]
struct Files {
    html: Option<Pending>,
    diff: Option<(Pending, diff::Format)>,
    repair: Option<Pending>,
}

impl Files {
    fn create(args: &CompareArgs) -> Result<Files, Error> {
        let usage = |flag: &'static str| move |why: String| Error::usage(format!("{flag}: {why}"));
        let create = |flag, path: &PathBuf| Pending::create(path).map_err(usage(flag));
        let diff = match &args.diff {
            Some(path) => {
                let format = diff::Format::of(path).map_err(usage("--diff"))?;
                Some((create("--diff", path)?, format))
            }
            None => None,
        };
        let repair = args.repair.as_ref().map(|path| create("--repair", path)).transpose()?;
        let html = args.html.as_ref().map(|path| create("--html", path)).transpose()?;
        Ok(Files { html, diff, repair })
    }

    /// Writes them; false if one could not be written.
    fn write(self, global: &Global, outcome: &mut CompareOutcome) -> bool {
        let mut written = Vec::new();
        if let Some(file) = self.html {
            let done = file.finish(|out| html::write(&[outcome], out));
            written.push(done.map_err(|why| format!("--html: {why}")));
        }
        if let Some((file, format)) = self.diff {
            let done = file.finish(|out| diff::write(outcome, format, out));
            written.push(done.map_err(|why| format!("--diff: {why}")));
        }
        if let Some(file) = self.repair {
            let done = file.finish(|out| repair::write(outcome, out));
            written.push(done.map_err(|why| format!("--repair: {why}")));
        }
        for why in written.iter().filter_map(|done| done.as_ref().err()) {
            global.say(why);
        }
        written.iter().all(Result::is_ok)
    }
}

pub(super) async fn run(global: &Global, args: &CompareArgs) -> Exit {
    if !args.tables.is_empty() {
        return tables::run(global, args).await;
    }
    let prepared = args.request().and_then(|request| {
        let csv = args.csv.options();
        let source = endpoint(global, &args.source, &csv)
            .map_err(|e| Error::new(e.kind, format!("source: {}", e.message)))?;
        let target = endpoint(global, &args.target, &csv)
            .map_err(|e| Error::new(e.kind, format!("target: {}", e.message)))?;
        let files = if args.explain { Files::default() } else { Files::create(args)? };
        Ok((request, [source, target], files))
    });
    let (request, endpoints, files): (CompareRequest, Endpoints, Files) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            global.say(&error.message);
            return exit_of(&error);
        }
    };
    if args.explain {
        return explain(global, &endpoints, &request).await;
    }
    let deadline = request.deadline.map(|limit| Instant::now() + limit);
    match compared(global, &endpoints, &request, deadline).await {
        Ok(mut outcome) => {
            let written = files.write(global, &mut outcome);
            let exit = report(global, &outcome);
            if written { exit } else { Exit::Incomplete }
        }
        Err(error) => {
            global.say(&error.message);
            if error.kind != ErrorKind::Usage {
                let names = [endpoints[0].name().to_string(), endpoints[1].name().to_string()];
                let outcome = CompareOutcome::nothing_read(names, error.message.clone(), &request);
                report(global, &outcome);
            }
            exit_of(&error)
        }
    }
}

/// Runs a comparison with its progress shown.
async fn compared(
    global: &Global,
    endpoints: &Endpoints,
    request: &CompareRequest,
    deadline: Option<Instant>,
) -> Result<CompareOutcome, Error> {
    let control = Arc::new(Control::new(request.stop_after, deadline));
    let watching = progress::watch(global, Arc::clone(&control));
    let result = match deadline {
        // Connecting may hang as well; once rows flow, the run ends itself and keeps what it has found.
        Some(at) => {
            let grace = at + Duration::from_secs(2);
            tokio::time::timeout_at(grace.into(), compare::compare(endpoints, request, control))
                .await
                .unwrap_or_else(|_| {
                    Err(Error::new(ErrorKind::Unavailable, "--deadline passed before a row was read"))
                })
        }
        None => compare::compare(endpoints, request, control).await,
    };
    watching.end();
    result
}

fn report(global: &Global, outcome: &CompareOutcome) -> Exit {
    if global.verbose {
        for side in &outcome.sides {
            global.say(&format!(
                "{}: {} statements, {} bytes of rows, {} at once",
                side.name, side.statements, side.bytes, side.workers
            ));
        }
    }
    match global.output {
        Output::Json | Output::Jsonl => print_json(global, &json::compare(outcome)),
        Output::Markdown => print_report(global, &markdown::compare(outcome)),
        Output::Junit => print(&junit::compare(&[outcome])),
        Output::Human => print_human(global, &human::compare(outcome, global.style())),
    }
    exit_for(outcome.verdict())
}

fn exit_for(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Equal => Exit::Equal,
        Verdict::Drift => Exit::Drift,
        Verdict::Inconclusive => Exit::Inconclusive,
        Verdict::Incomplete => Exit::Incomplete,
    }
}

async fn explain(global: &Global, endpoints: &Endpoints, request: &CompareRequest) -> Exit {
    match compare::explain(endpoints, request).await {
        Ok(plan) => {
            match global.output {
                Output::Json | Output::Jsonl => print_json(
                    global,
                    &serde_json::json!({
                        "plan": {
                            "strategy": "stream",
                            "reason": plan.reason,
                            "threads": plan.threads,
                            "source": { "name": plan.names[0], "row_estimate": plan.row_estimates[0], "statements": plan.statements[0] },
                            "target": { "name": plan.names[1], "row_estimate": plan.row_estimates[1], "statements": plan.statements[1] },
                        }
                    }),
                ),
                _ => print(&human::explain(&plan, global.style())),
            }
            Exit::Equal
        }
        Err(error) => {
            global.say(&error.message);
            exit_of(&error)
        }
    }
}
