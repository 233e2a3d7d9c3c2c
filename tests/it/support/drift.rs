//! The built binary, run with a deadline, away from the settings of whoever runs the tests.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use url::Url;

/// One call of the binary.
pub struct Drift {
    command: Command,
    deadline: Duration,
    shown: Vec<String>,
}

/// What one call left behind.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code; -1 where a signal ended it.
    pub code: i32,
    /// Everything on standard output.
    pub stdout: String,
    /// Everything on standard error.
    pub stderr: String,
    /// The greatest resident memory that was seen, in bytes.
    pub peak_memory: u64,
    call: String,
}

impl Drift {
    /// A call with no arguments yet.
    pub fn new() -> Drift {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drift"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if ["DRIFT_", "PG", "MYSQL", "MARIADB", "AWS_"].iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        // No password file and no configuration of the person who runs the tests.
        let nowhere = std::env::temp_dir().join("drift-tests-have-no-home");
        // Differences are not looked at again unless a test asks for it.
        command.env("DRIFT_CONSISTENCY", "none");
        command.env("HOME", &nowhere).env("NO_COLOR", "1").stdin(Stdio::null());
        Drift { command, deadline: Duration::from_secs(120), shown: Vec::new() }
    }

    /// `drift compare SOURCE TARGET`.
    pub fn compare(source: &str, target: &str) -> Drift {
        Drift::new().args(["compare", source, target])
    }

    /// Adds one argument.
    pub fn arg(self, arg: impl AsRef<str>) -> Drift {
        self.args([arg])
    }

    /// Adds arguments.
    pub fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Drift {
        for arg in args {
            self.command.arg(arg.as_ref());
            self.shown.push(arg.as_ref().to_string());
        }
        self
    }

    /// Lets another program start it: `program args… drift args…`.
    pub fn within<S: AsRef<OsStr>>(mut self, program: impl IntoIterator<Item = S>) -> Drift {
        let mut words = program.into_iter();
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null());
        self.command = command;
        self
    }

    /// Puts spilled rows into this folder.
    pub fn spilling_to(mut self, folder: &Path) -> Drift {
        self.command.env("TMPDIR", folder);
        self
    }

    /// Runs in another folder.
    pub fn current_dir(mut self, folder: &Path) -> Drift {
        self.command.current_dir(folder);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Drift {
        self.command.env(name, value);
        self
    }

    /// Sets how long the call may take; two minutes otherwise.
    pub fn deadline(mut self, deadline: Duration) -> Drift {
        self.deadline = deadline;
        self
    }

    /// Starts it without waiting; for tests that do something meanwhile.
    pub fn spawn(mut self) -> Running {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the built binary starts");
        let stdout = drain(child.stdout.take().expect("a pipe"));
        let stderr = drain(child.stderr.take().expect("a pipe"));
        Running { child, stdout, stderr, deadline: Instant::now() + self.deadline, shown: self.shown }
    }

    /// Runs it to its end. Fails if it takes too long, panics, or tells a password.
    pub fn run(self) -> Outcome {
        self.spawn().wait()
    }

    /// Runs it with `-o json`.
    pub fn run_json(self) -> (Outcome, Value) {
        let outcome = self.args(["-o", "json"]).run();
        let json = outcome.json();
        (outcome, json)
    }
}

/// A call on its way; killed if the test ends before it.
pub struct Running {
    child: Child,
    stdout: Drain,
    stderr: Drain,
    deadline: Instant,
    shown: Vec<String>,
}

/// A pipe that is read while the process runs.
struct Drain {
    read: Arc<Mutex<Vec<u8>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// What it has written to standard error so far.
    pub fn stderr_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stderr.read.lock().expect("the reader's end")).into_owned()
    }

    /// Sends a signal by its name, such as `INT`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("the kill command").success(), "SIG{name} could not be sent");
    }

    /// Whether it has a file open in this folder, named or not.
    pub fn holds_files_in(&self, folder: &Path) -> bool {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten();
        open.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|path| path.starts_with(folder)))
    }

    /// Waits for its end. Fails if it takes too long, panics, or tells a password.
    pub fn wait(mut self) -> Outcome {
        let mut peak_memory = 0;
        let status = loop {
            peak_memory = peak_memory.max(resident_peak(self.child.id()));
            if let Some(status) = self.child.try_wait().expect("the state of the process") {
                break Some(status);
            }
            if Instant::now() > self.deadline {
                self.child.kill().expect("the end of the process");
                self.child.wait().expect("the end of the process");
                break None;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let outcome = Outcome {
            code: status.and_then(|s| s.code()).unwrap_or(-1),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
            peak_memory,
            call: format!("drift {}", self.shown.join(" ")),
        };
        assert!(status.is_some(), "still running at its deadline: {outcome}");
        let printed = [&outcome.stdout, &outcome.stderr];
        assert!(!printed.iter().any(|p| p.contains("panicked at")), "a panic: {outcome}");
        for secret in passwords(&self.shown) {
            assert!(!printed.iter().any(|p| p.contains(&secret)), "a password was printed: {}", outcome.call);
        }
        outcome
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> Drain {
    let read = Arc::new(Mutex::new(Vec::new()));
    let filled = Arc::clone(&read);
    let reader = thread::spawn(move || {
        let mut chunk = [0; 8192];
        loop {
            match pipe.read(&mut chunk).expect("the output of the process") {
                0 => break,
                n => filled.lock().expect("the one who reads along").extend_from_slice(&chunk[..n]),
            }
        }
    });
    Drain { read, reader: Some(reader) }
}

impl Drain {
    /// Everything, once the process has ended.
    fn text(&mut self) -> String {
        self.reader.take().expect("nobody has waited before").join().expect("the reader's end");
        let bytes = std::mem::take(&mut *self.read.lock().expect("the reader's end"));
        String::from_utf8(bytes).expect("output in UTF-8")
    }
}

/// The passwords in the URLs among the arguments.
fn passwords(args: &[String]) -> Vec<String> {
    let urls = args.iter().filter_map(|arg| Url::parse(arg).ok());
    // A password that is also the user's name may be shown as that.
    urls.filter_map(|url| url.password().filter(|p| *p != url.username()).map(str::to_string)).collect()
}

/// The greatest resident size of a process so far, in bytes; 0 once it has ended.
fn resident_peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

impl Outcome {
    /// Standard output as the one JSON document that it has to be.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON on stdout: {e}\n{self}"))
    }

    /// Fails unless the exit code is this one.
    pub fn expect_code(self, code: i32) -> Outcome {
        assert_eq!(self.code, code, "exit code of {self}");
        self
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut call = self.call.clone();
        for secret in passwords(&call.split(' ').map(str::to_string).collect::<Vec<_>>()) {
            call = call.replace(&secret, "…");
        }
        write!(f, "{call}\nexit code {}\n--- stdout\n{}\n--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}
