//! The command line: one file per command. Arguments become a typed request, the outcome becomes text and an exit code.
//!
//! The result goes to stdout and nothing else does; progress and messages go to stderr.

mod audit;
mod compare;
mod config;
mod demo;
mod history;
mod incident;
mod init;
mod progress;
mod report;
mod schema;
mod serve;
mod version;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::config::address::{Address, CsvOptions, Parsed};
use crate::endpoint::{self, Endpoint, Error, ErrorKind};
use crate::report::human::{self, Style};

/// What a command ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Equal.
    Equal = 0,
    /// Drift.
    Drift = 1,
    /// The user's arguments: nothing was compared.
    Usage = 2,
    /// Not everything could be compared.
    Incomplete = 3,
    /// All that is left are rows that kept changing.
    Inconclusive = 4,
    /// Drift, and somebody could not be told.
    NotTold = 5,
}

/// Finds the rows that differ between a source and its replica.
#[derive(Debug, Parser)]
#[command(name = "drift", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 equal, 1 drift, 2 usage error (nothing was compared), 3 not everything could be compared, \
     4 inconclusive (only rows that keep changing), 5 drift, and a notification failed, 130 or 143 interrupted";

/// The heading of the flags that every command has.
const GLOBAL: &str = "Options of all commands";

#[derive(Debug, Clone, Args)]
struct Global {
    /// A configuration; several merge by name, the later ones counting [default: drift.yaml]
    #[arg(short, long, global = true, value_name = "FILE", env = "DRIFT_CONFIG", value_delimiter = ',', help_heading = GLOBAL)]
    config: Vec<PathBuf>,
    /// Where drift keeps its state: sqlite:FILE or postgres://… [default: as configured]
    #[arg(long, global = true, value_name = "URL", env = "DRIFT_STATE", help_heading = GLOBAL)]
    state: Option<String>,
    /// How the result is written
    #[arg(short, long, global = true, value_enum, default_value = "human", env = "DRIFT_OUTPUT", help_heading = GLOBAL)]
    output: Output,
    /// Print the first line of the answer only
    #[arg(short, long, global = true, env = "DRIFT_QUIET", help_heading = GLOBAL)]
    quiet: bool,
    /// Say on stderr what reading took on each side
    #[arg(short, long, global = true, env = "DRIFT_VERBOSE", help_heading = GLOBAL)]
    verbose: bool,
    /// Colours in human output
    #[arg(long, global = true, value_enum, default_value = "auto", env = "DRIFT_COLOR", help_heading = GLOBAL)]
    color: Color,
    /// Progress on stderr: a bar on a terminal, else a line every 30 s
    #[arg(long, global = true, value_enum, default_value = "auto", env = "DRIFT_PROGRESS", help_heading = GLOBAL)]
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Human,
    Json,
    Jsonl,
    Markdown,
    Junit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Progress {
    Auto,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find the rows that differ between two tables
    #[command(after_help = EXIT_CODES)]
    Compare(Box<compare::CompareArgs>),
    /// Compare the schemas of two tables only; warnings and failures exit 1
    #[command(after_help = EXIT_CODES)]
    Schema(schema::SchemaArgs),
    /// Run the configured checks once, remember what they found, and tell who wants to know
    #[command(after_help = EXIT_CODES)]
    Audit(audit::AuditArgs),
    /// Run the configured checks on their schedules, and serve metrics; SIGHUP reads the configuration again
    Serve,
    /// Send a test message to a notifier
    Notify(serve::NotifyArgs),
    /// What is wrong: list, show, ack, resolve, mute
    Incident(incident::IncidentArgs),
    /// Print what earlier runs found
    History(history::HistoryArgs),
    /// Write what is watched, its runs and incidents, as one HTML page
    Report(report::ReportArgs),
    /// Write a configuration from two databases: tables that match by name, their keys, and when to check what
    Init(init::InitArgs),
    /// Check the configuration
    Validate(config::ValidateArgs),
    /// Print the configuration with all its defaults, without secrets
    Config,
    /// Plant differences in two small shops in a fresh folder and find them, with nothing to install
    Demo,
    /// Print the manual page of drift, or of one of its commands
    Man {
        /// The command
        command: Option<String>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the version, and what it is tested against
    Version {
        /// Each engine, and the release it is tested against
        #[arg(long, env = "DRIFT_ENGINES")]
        engines: bool,
    },
}

/// How CSV files are written, for both commands that read files.
#[derive(Debug, Clone, Args)]
pub(crate) struct CsvArgs {
    /// The character between the fields of CSV files
    #[arg(long, value_name = "CHAR", default_value = ",", env = "DRIFT_CSV_DELIMITER", value_parser = delimiter)]
    csv_delimiter: u8,
    /// CSV files begin with data instead of names; columns are called c1, c2, …
    #[arg(long, env = "DRIFT_CSV_NO_HEADER")]
    csv_no_header: bool,
    /// The unquoted text that means NULL in CSV files (default: the empty field)
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, env = "DRIFT_CSV_NULL")]
    csv_null: String,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" | "\t" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [b] if b.is_ascii() && !matches!(b, b'"' | b'\n' | b'\r') => Ok(*b),
            _ => Err("a delimiter is one ASCII character, such as ; or \\t".into()),
        },
    }
}

impl CsvArgs {
    fn options(&self) -> CsvOptions {
        CsvOptions {
            delimiter: self.csv_delimiter,
            no_header: self.csv_no_header,
            null: self.csv_null.clone(),
        }
    }
}

impl Global {
    /// Whether the result is a JSON document.
    fn writes_json(&self) -> bool {
        matches!(self.output, Output::Json | Output::Jsonl)
    }

    fn style(&self) -> Style {
        let color = match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        };
        Style { color }
    }

    /// A message for people on stderr.
    fn say(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "drift: {text}");
    }

    /// What is being done, for people who watch.
    fn step(&self, text: &str) {
        if !self.quiet && self.progress != Progress::Never {
            self.say(text);
        }
    }

    fn warn(&self, text: &str) {
        if !self.quiet {
            self.say(&format!("warning: {text}"));
        }
    }
}

/// Writes to stdout; a reader that has gone away is no error.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a report for people like [`print_report`], made to fit their terminal.
fn print_human(global: &Global, text: &str) {
    let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    match width {
        Some(width) => print_report(global, &human::fitted(text, width)),
        None => print_report(global, text),
    }
}

/// Prints the whole report, or its first line.
fn print_report(global: &Global, text: &str) {
    match text.split_once('\n') {
        Some((first, _)) if global.quiet => print(&format!("{first}\n")),
        _ => print(text),
    }
}

/// Prints a document: on many lines, or on one.
fn print_json(global: &Global, value: &serde_json::Value) {
    let text = match global.output {
        Output::Jsonl => Ok(value.to_string()),
        _ => serde_json::to_string_pretty(value),
    };
    print(&format!("{}\n", text.unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}"))));
}

/// The endpoint of one argument.
fn endpoint(global: &Global, text: &str, csv: &CsvOptions) -> Result<Arc<dyn Endpoint>, Error> {
    Ok(Arc::from(endpoint::of(&parsed(global, text, Address::parse)?, csv)?))
}

/// How an address is read, given how environment variables are.
type Parse = fn(&str, &dyn Fn(&str) -> Option<String>) -> Result<Parsed, String>;

/// The address of one argument, with the warnings that its text deserves.
fn parsed(global: &Global, text: &str, parse: Parse) -> Result<Address, Error> {
    let lookup = |name: &str| std::env::var(name).ok();
    let parsed = parse(text, &lookup).map_err(|message| Error::new(ErrorKind::Usage, message))?;
    if parsed.typed_password {
        global.warn(&format!(
            "the password of {} stands in the command line, where other users and the shell's history see it; use ${{NAME}}, PGPASSWORD, ~/.pgpass, MYSQL_PWD or ~/.my.cnf",
            parsed.address.database_name()
        ));
    }
    Ok(parsed.address)
}

fn exit_of(error: &Error) -> Exit {
    if error.kind == ErrorKind::Usage { Exit::Usage } else { Exit::Incomplete }
}

/// Runs a command until it ends or the user interrupts it.
pub fn run() -> ExitCode {
    // One provider is compiled in; installing it twice (in tests) is no error.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let threads = std::thread::available_parallelism().map_or(4, usize::from).max(4);
    let runtime =
        match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                cli.global.say(&format!("cannot start: {error}"));
                return ExitCode::from(3);
            }
        };
    let code = runtime.block_on(async {
        tokio::select! {
            exit = dispatch(&cli) => exit as u8,
            // The service ends by itself when it is asked to.
            code = interrupted(), if !matches!(cli.command, Command::Serve) => {
                cli.global.say("interrupted; nothing is left behind, and nothing was proved");
                code
            }
        }
    });
    // Threads that still wait for a server must not hold up the end.
    runtime.shutdown_background();
    ExitCode::from(code)
}

async fn interrupted() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => 130,
            _ = terminate.recv() => 143,
        },
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
            130
        }
    }
}

async fn dispatch(cli: &Cli) -> Exit {
    let is_report = matches!(cli.command, Command::Compare(_) | Command::Audit(_));
    if !is_report && matches!(cli.global.output, Output::Markdown | Output::Junit) {
        cli.global
            .say("only drift compare and drift audit write markdown and junit; use -o human, json or jsonl");
        return Exit::Usage;
    }
    match &cli.command {
        Command::Compare(args) => compare::run(&cli.global, args).await,
        Command::Schema(args) => schema::run(&cli.global, args).await,
        Command::Audit(args) => audit::run(&cli.global, args).await,
        Command::Serve => serve::run(&cli.global).await,
        Command::Notify(args) => serve::notify(&cli.global, args).await,
        Command::Incident(args) => incident::run(&cli.global, args).await,
        Command::History(args) => history::run(&cli.global, args).await,
        Command::Report(args) => report::run(&cli.global, args).await,
        Command::Init(args) => init::run(&cli.global, args).await,
        Command::Validate(args) => config::validate(&cli.global, args).await,
        Command::Config => config::show(&cli.global),
        Command::Demo => demo::run(&cli.global).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "drift", &mut script);
            print(&String::from_utf8_lossy(&script));
            Exit::Equal
        }
        Command::Man { command } => man(&cli.global, command.as_deref()),
        Command::Version { engines } => version::run(&cli.global, *engines),
    }
}

/// Prints a manual page, made of the same words as `--help`.
fn man(global: &Global, command: Option<&str>) -> Exit {
    let mut program = Cli::command();
    program.build();
    let page = match command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(found) => found.clone().version(env!("CARGO_PKG_VERSION")),
            None => {
                global.say(&format!("there is no command {name:?}; see drift --help"));
                return Exit::Usage;
            }
        },
    };
    let mut text = Vec::new();
    match clap_mangen::Man::new(page).render(&mut text) {
        Ok(()) => {
            print(&String::from_utf8_lossy(&text));
            Exit::Equal
        }
        Err(error) => {
            global.say(&format!("cannot make the manual page: {error}"));
            Exit::Incomplete
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_twin() {
        for command in Cli::command().get_subcommands() {
            for arg in command
                .get_arguments()
                .filter(|a| a.get_long().is_some_and(|l| l != "help" && l != "version"))
            {
                let long = arg.get_long().unwrap_or_default();
                let want = format!("DRIFT_{}", long.to_uppercase().replace('-', "_"));
                assert_eq!(arg.get_env().and_then(|e| e.to_str()), Some(want.as_str()), "--{long}");
            }
        }
    }
}
