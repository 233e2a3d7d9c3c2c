//! Services around drift, each a process or a thread of its own on a free port, ended with its guard: Prometheus,
//! Alertmanager, a mail server, and a receiver of webhooks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::{block_on, eventually};

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// The answer to a GET; an empty text where there is none.
pub fn get(url: &str) -> String {
    let asked = async { reqwest::get(url).await.ok()?.text().await.ok() };
    block_on(asked).unwrap_or_default()
}

/// The answer to a GET as JSON; null where there is none.
pub fn get_json(url: &str) -> Value {
    serde_json::from_str(&get(url)).unwrap_or_default()
}

/// A process in a folder of its own.
struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    fn start(folder: TempDir, mut command: Command) -> Process {
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?} does not start: {e}; tests/run.sh installs it"));
        Process { child, folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Prometheus that scrapes drift each second and evaluates the rules that drift ships.
pub struct Prometheus {
    process: Process,
    port: u16,
}

impl Prometheus {
    /// Starts one that scrapes an address.
    pub fn scraping(drift: &str) -> Prometheus {
        let folder = tempfile::tempdir().expect("a folder");
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/rules.yml");
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n  - job_name: drift\n    static_configs: [{{ targets: [\"{drift}\"] }}]\n",
            rules.display()
        );
        std::fs::write(folder.path().join("prometheus.yml"), config).expect("a configuration");
        let port = free_port();
        let mut command = Command::new("prometheus");
        command.args([
            format!("--config.file={}", folder.path().join("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", folder.path().join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ]);
        let prometheus = Prometheus { process: Process::start(folder, command), port };
        eventually("Prometheus is ready", || get(&prometheus.url("/-/ready")).contains("Ready"));
        prometheus
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The names of the alerts that fire.
    pub fn firing(&self) -> Vec<String> {
        let answer = get_json(&self.url("/api/v1/alerts"));
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_string)).collect()
    }

    /// The status and the result of a query.
    pub fn query(&self, promql: &str) -> Value {
        let mut url = url::Url::parse(&self.url("/api/v1/query")).expect("a URL");
        url.query_pairs_mut().append_pair("query", promql);
        get_json(url.as_str())
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

/// An Alertmanager that tells nobody.
pub struct Alertmanager {
    _process: Process,
    port: u16,
}

impl Alertmanager {
    /// Starts one.
    pub fn fresh() -> Alertmanager {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join("alertmanager.yml"),
            "route: { receiver: nobody }\nreceivers: [{ name: nobody }]\n",
        )
        .expect("a configuration");
        let port = free_port();
        let mut command = Command::new("prometheus-alertmanager");
        command.args([
            format!("--config.file={}", folder.path().join("alertmanager.yml").display()),
            format!("--storage.path={}", folder.path().join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--cluster.listen-address=".to_string(),
        ]);
        let alertmanager = Alertmanager { _process: Process::start(folder, command), port };
        eventually("Alertmanager is ready", || {
            get(&format!("{}/-/ready", alertmanager.url())).contains("OK")
        });
        alertmanager
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The alerts that it knows, ended ones left out.
    pub fn alerts(&self) -> Vec<Value> {
        get_json(&format!("{}/api/v2/alerts", self.url())).as_array().cloned().unwrap_or_default()
    }
}

/// A mail server that wants STARTTLS and a password.
pub struct MailServer {
    _process: Process,
    port: u16,
    http: u16,
    certificate: std::path::PathBuf,
}

impl MailServer {
    /// Starts one at a port.
    pub fn at(port: u16) -> MailServer {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let http = free_port();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/mail_server.py");
        // Debian's own Python has Debian's packages.
        let mut command = Command::new("/usr/bin/python3");
        command.arg(script).args([port.to_string(), http.to_string()]).arg(&certificate).arg(&key);
        let server = MailServer { _process: Process::start(folder, command), port, http, certificate };
        eventually("the mail server is ready", || get(&server.url("/messages")).starts_with('['));
        server
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.http)
    }

    /// The notifier's URL, with user and password.
    pub fn smtp_url(&self) -> String {
        format!("smtp://drift:secret-of-the-mail@localhost:{}?tls=required", self.port)
    }

    /// The certificate that has to be trusted.
    pub fn certificate(&self) -> &str {
        self.certificate.to_str().expect("a path in UTF-8")
    }

    /// All mails that it took.
    pub fn mails(&self) -> Vec<Value> {
        get_json(&self.url("/messages")).as_array().cloned().unwrap_or_default()
    }

    /// Lets it answer the next mails with 451.
    pub fn refuse(&self, mails: usize) {
        get(&self.url(&format!("/refuse?{mails}")));
    }
}

/// A receiver of webhooks.
pub struct Webhook {
    at: SocketAddr,
    taken: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Webhook {
    /// Starts one that takes everything.
    pub fn fresh() -> Webhook {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("its address");
        let taken = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&taken);
        std::thread::spawn(move || {
            for message in listener.incoming().flatten().filter_map(take) {
                into.lock().expect("the test").push(message);
            }
        });
        Webhook { at, taken }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.at)
    }

    /// Id and content of every message that it took.
    pub fn messages(&self) -> Vec<(String, Value)> {
        self.taken.lock().expect("the receiver").clone()
    }
}

/// Reads one request and answers it.
fn take(mut stream: TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut id, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "drift-message-id" => id = value.trim().to_string(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()?;
    Some((id, serde_json::from_slice(&body).ok()?))
}
