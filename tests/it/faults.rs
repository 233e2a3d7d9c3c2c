//! What breaks while drift runs, as its user sees it: a clear error, an exit code that says "not proved", never
//! "equal", and nothing left behind on the servers.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use url::Url;

use crate::support::database::{MySql, Postgres, Sqlite, fresh_name, mysql_execute, mysql_server};
use crate::support::drift::{Drift, Outcome};
use crate::support::eventually;
use crate::support::proxy::{Cut, Proxy};

/// So many rows of 500 bytes do not fit into the buffers between a server and drift (the kernel may take 10 MB).
const ROWS: u64 = 60_000;
/// So many bytes of a server are surely rows, and surely not all of them.
const AMID_THE_ROWS: u64 = 1_000_000;

/// The same rows on both servers.
struct Servers {
    postgres: Postgres,
    mysql: MySql,
}

impl Servers {
    fn with_equal_rows() -> Servers {
        let (postgres, mysql) = (Postgres::fresh(), MySql::fresh());
        postgres.execute(&format!(
            "create table numbers (id int primary key, pad text);
             insert into numbers select n, repeat('x', 500) from generate_series(1, {ROWS}) n;
             create table other (n int)"
        ));
        mysql.execute(&format!(
            "create table numbers (id int primary key, pad text);
             insert into numbers select seq, repeat('x', 500) from seq_1_to_{ROWS};
             create table other (n int)"
        ));
        Servers { postgres, mysql }
    }

    fn kill(&self, server: Server) {
        match server {
            Server::Postgres => self.postgres.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name = 'drift' and datname = current_database()",
            ),
            Server::MySql => {
                for session in self.mysql.numbers(&self.mysql_sessions()) {
                    // It may have ended by itself since.
                    self.mysql.execute(&format!(
                        "begin not atomic declare continue handler for 1094 begin end; kill {session}; end"
                    ));
                }
            }
        }
    }

    /// Moves the server's place in its log.
    fn write(&self, server: Server) {
        match server {
            Server::Postgres => self.postgres.execute("insert into other values (1)"),
            Server::MySql => self.mysql.execute("insert into other values (1)"),
        }
    }

    fn mysql_sessions(&self) -> String {
        format!(
            "select cast(id as signed) from information_schema.processlist
             where db = '{}' and id <> connection_id()",
            self.mysql.name()
        )
    }

    /// Drift's sessions on both servers.
    fn sessions(&self) -> usize {
        let postgres = "select pid::bigint from pg_stat_activity
                        where application_name = 'drift' and datname = current_database()";
        self.postgres.numbers(postgres).len() + self.mysql.numbers(&self.mysql_sessions()).len()
    }

    fn url(&self, server: Server) -> Url {
        match server {
            Server::Postgres => self.postgres.url(),
            Server::MySql => self.mysql.url(),
        }
    }

    /// Compares PostgreSQL with MariaDB, one of them through a proxy.
    fn compare_through(&self, server: Server, proxy: &Proxy) -> Drift {
        let [source, target] = [Server::Postgres, Server::MySql].map(|each| {
            let url = self.url(each);
            format!("{}#numbers", if each == server { proxy.url(url) } else { url })
        });
        Drift::compare(&source, &target)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Postgres,
    MySql,
}

const SERVERS: [Server; 2] = [Server::Postgres, Server::MySql];

/// Fails unless the call says, in its format, that nothing was proved, and contains these words.
fn is_unproved(outcome: &Outcome, words: &[&str]) {
    assert_eq!(outcome.code, 3, "{outcome}");
    if outcome.stdout.starts_with('{') {
        assert_eq!(outcome.json()["verdict"], "incomplete", "{outcome}");
    } else {
        assert!(outcome.stdout.starts_with("incomplete"), "{outcome}");
    }
    let said = format!("{}{}", outcome.stdout, outcome.stderr).to_lowercase();
    for word in words {
        assert!(said.contains(&word.to_lowercase()), "nothing says {word:?}: {outcome}");
    }
}

#[test]
fn a_killed_backend_of_either_server() {
    let servers = Servers::with_equal_rows();
    for server in SERVERS {
        for format in ["json", "human"] {
            let proxy = Proxy::in_front_of(&servers.url(server), Cut::Hold, AMID_THE_ROWS);
            let running =
                servers.compare_through(server, &proxy).args(["--retries", "0", "-o", format]).spawn();
            eventually("rows on their way", || proxy.has_cut());
            servers.kill(server);
            proxy.let_go();
            let side = if server == Server::Postgres { "source" } else { "target" };
            is_unproved(&running.wait(), &[side, "numbers", "connection lost"]);
        }
    }
}

#[test]
fn rows_that_may_have_changed_after_a_cut_are_not_compared() {
    let servers = Servers::with_equal_rows();
    for server in SERVERS {
        let proxy = Proxy::in_front_of(&servers.url(server), Cut::Hold, AMID_THE_ROWS);
        let call = servers.compare_through(server, &proxy);
        let running = call.args(["--retries", "5", "-o", "json"]).spawn();
        eventually("rows on their way", || proxy.has_cut());
        servers.write(server);
        servers.kill(server);
        proxy.let_go();
        is_unproved(&running.wait(), &["connection lost", "a new snapshot need not show the same rows"]);
    }
}

#[test]
fn the_rest_after_a_cut_is_read_from_a_new_snapshot_where_differences_are_confirmed() {
    for server in SERVERS {
        let servers = Servers::with_equal_rows();
        for differs in [false, true] {
            let proxy = Proxy::in_front_of(&servers.url(server), Cut::Hold, AMID_THE_ROWS);
            let args = ["--retries", "5", "-o", "json", "--threads", "1"];
            let args = [&args[..], &["--consistency", "confirm", "--confirm-wait", "200ms"]].concat();
            let running = servers.compare_through(server, &proxy).args(args).spawn();
            eventually("rows on their way", || proxy.has_cut());
            servers.write(server);
            if differs {
                let statement = format!("update numbers set pad = 'y' where id = {ROWS}");
                match server {
                    Server::Postgres => servers.postgres.execute(&statement),
                    Server::MySql => servers.mysql.execute(&statement),
                }
            }
            servers.kill(server);
            proxy.let_go();
            let outcome = running.wait();
            let report = outcome.json();
            let side = if server == Server::Postgres { "source" } else { "target" };
            assert_eq!(report[side]["read_on_at"].as_array().map(Vec::len), Some(1), "{outcome}");
            assert_eq!(report["rows"]["compared"], ROWS, "{outcome}");
            assert_eq!(
                (outcome.code, &report["rows"]["changed"]),
                (differs.into(), &u64::from(differs).into()),
                "{outcome}"
            );
            if differs {
                assert_eq!(report["differences"][0]["key"]["id"], ROWS.to_string(), "{outcome}");
            }
        }
    }
}

#[test]
fn a_server_that_stays_away() {
    let servers = Servers::with_equal_rows();
    for server in SERVERS {
        let proxy = Proxy::in_front_of(&servers.url(server), Cut::ForGood, AMID_THE_ROWS);
        let call = servers.compare_through(server, &proxy).args(["--retries", "2", "-o", "json"]);
        is_unproved(&call.run(), &["connection lost", "gave up after 2 attempts"]);
        assert!(proxy.has_cut());
    }
}

#[test]
fn a_disk_that_is_full_while_rows_are_spilled() {
    let source = Postgres::fresh();
    source.execute(
        "create table notes (id text, note text);
         insert into notes select md5(n::text), repeat(md5(n::text), 3) from generate_series(1, 200000) n",
    );
    let address = format!("{}#notes", source.url());
    let folder = tempfile::tempdir().expect("a folder");
    // A file system of its own that ends with its process; without root's rights in a name space of its own as well.
    let script = "mount -t tmpfs -o size=2m none \"$0\" && TMPDIR=\"$0\" exec \"$@\"";
    for format in ["json", "human"] {
        let call =
            Drift::compare(&address, &address).args(["--key", "id", "--memory", "16MiB", "-o", format]);
        let mount = folder.path().display().to_string();
        let outcome =
            call.within(["unshare", "--map-root-user", "--mount", "sh", "-c", script, &mount]).run();
        is_unproved(&outcome, &["cannot spill", "TMPDIR", "--memory", "No space left"]);
    }
}

#[test]
fn a_table_that_is_altered_or_dropped_after_it_was_described() {
    let alter = "alter table numbers drop column pad";
    let retype = "alter table numbers alter column pad type varchar(900)";
    let modify = "alter table numbers modify pad varchar(900)";
    let drop = "drop table numbers";
    for (server, changes) in
        [(Server::Postgres, [alter, retype, drop]), (Server::MySql, [alter, modify, drop])]
    {
        for change in changes {
            let servers = Servers::with_equal_rows();
            let other = if server == Server::Postgres { Server::MySql } else { Server::Postgres };
            // The other side hangs at its first byte, so that this side is described and then waits for it.
            let watched = Proxy::in_front_of(&servers.url(server), Cut::Once, u64::MAX);
            let hanging = Proxy::in_front_of(&servers.url(other), Cut::Hold, 0);
            let [source, target] = [Server::Postgres, Server::MySql].map(|each| {
                let proxy = if each == server { &watched } else { &hanging };
                format!("{}#numbers", proxy.url(servers.url(each)))
            });
            let running = Drift::compare(&source, &target).args(["-o", "json"]).spawn();
            eventually("the end of the description", || watched.ended() > 0);
            match server {
                Server::Postgres => servers.postgres.execute(change),
                Server::MySql => servers.mysql.execute(change),
            }
            hanging.let_go();
            let outcome = running.wait();
            is_unproved(&outcome, &["numbers"]);
            let said = outcome.stderr.to_lowercase();
            let clear = ["meanwhile", "exist", "it was there"];
            assert!(clear.iter().any(|word| said.contains(word)), "{change}: {outcome}");
        }
    }
}

#[test]
fn a_column_without_privilege_is_not_equal() {
    let servers = Servers::with_equal_rows();
    let user = format!("reader_{}", fresh_name());
    let database = servers.mysql.name();
    mysql_execute(
        &mysql_server(),
        [
            format!("create user '{user}' identified by '{user}'"),
            format!("grant select (id) on {database}.numbers to '{user}'"),
        ],
    );
    let mut url = servers.mysql.url();
    url.set_username(&user).expect("a user");
    url.set_password(Some(&user)).expect("a password");
    let source = format!("{}#numbers", servers.postgres.url());
    let outcomes = ["json", "human"]
        .map(|format| Drift::compare(&source, &format!("{url}#numbers")).args(["-o", format]).run());
    mysql_execute(&mysql_server(), [format!("drop user '{user}'")]);
    for outcome in outcomes {
        is_unproved(&outcome, &["pad"]);
    }
}

#[test]
fn a_server_that_does_not_let_drift_in() {
    let servers = Servers::with_equal_rows();
    for server in SERVERS {
        for break_it in [
            (|url: &mut Url| url.set_password(Some("wrong-geheim")).expect("a password")) as fn(&mut Url),
            |url| {
                let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
                url.set_port(Some(free.local_addr().expect("an address").port())).expect("a port");
            },
        ] {
            let mut url = servers.url(server);
            break_it(&mut url);
            let other = if server == Server::Postgres { Server::MySql } else { Server::Postgres };
            let (broken, whole) = (format!("{url}#numbers"), format!("{}#numbers", servers.url(other)));
            for format in ["json", "human"] {
                let outcome = Drift::compare(&broken, &whole).args(["-o", format]).run();
                is_unproved(&outcome, &[url.scheme()]);
                assert!(!outcome.stderr.is_empty(), "{outcome}");
            }
        }
    }
}

#[test]
fn a_database_that_does_not_exist_is_a_slip_of_the_user() {
    let servers = Servers::with_equal_rows();
    for server in SERVERS {
        let mut url = servers.url(server);
        url.set_path("no_such_database");
        let address = format!("{url}#numbers");
        let outcome = Drift::compare(&address, &address).args(["-o", "json"]).run();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{outcome}");
        assert!(outcome.stderr.contains("no_such_database"), "{outcome}");
    }
}

#[test]
fn files_that_are_damaged_or_malformed() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path.display().to_string()
    };
    let lines: String = (1..=5000).map(|n| format!("{n},line {n}\n")).collect();
    let whole = write("whole.csv", format!("id,note\n{lines}").as_bytes());
    let faults = [
        ("short.csv", format!("id,note\n{lines}5001\n"), "5002"),
        ("long.csv", format!("id,note\n{lines}5001,a,b\n"), "5002"),
        ("open.csv", format!("id,note\n{lines}5001,\"never closed\n"), "quote"),
        ("utf8.csv", format!("id,note\n{lines}5001,\u{1}\n"), "UTF-8"),
    ];
    for (name, content, word) in faults {
        let mut bytes = content.into_bytes();
        if name == "utf8.csv" {
            let at = bytes.len() - 2;
            bytes[at] = 0xff;
        }
        let broken = write(name, &bytes);
        for (source, target) in [(&whole, &broken), (&broken, &whole)] {
            let outcome = Drift::compare(source, target).args(["-k", "id", "-o", "json"]).run();
            is_unproved(&outcome, &[name, word]);
        }
    }
    let database = Sqlite::fresh();
    database.execute(
        "create table t (id integer primary key, note text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
         insert into t select i, 'row number ' || i from n",
    );
    let path = database.path();
    let size = std::fs::metadata(&path).expect("the file").len();
    overwrite(&path, size / 2, &[0xa5; 4096]);
    let address = format!("sqlite:{}#t", path.display());
    is_unproved(&Drift::compare(&address, &address).args(["-o", "json"]).run(), &["data.db"]);
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("the file");
    file.write_all_at(bytes, at).expect("the damage");
}

#[test]
fn an_interrupted_run_ends_at_once_and_leaves_nothing() {
    let servers = Servers::with_equal_rows();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        // Amid the rows, and while a server does not answer at all.
        for after in [AMID_THE_ROWS, 0] {
            let proxy = Proxy::in_front_of(&servers.postgres.url(), Cut::Hold, after);
            let running = servers.compare_through(Server::Postgres, &proxy).spawn();
            eventually("a server that hangs", || proxy.has_cut());
            let at = Instant::now();
            running.signal(signal);
            let outcome = running.wait();
            assert_eq!(outcome.code, code, "{outcome}");
            assert!(at.elapsed() < Duration::from_secs(1), "SIG{signal} took {:?}: {outcome}", at.elapsed());
            assert_eq!(outcome.stdout, "", "{outcome}");
            assert!(outcome.stderr.contains("interrupted"), "{outcome}");
            drop(proxy);
            eventually("the end of drift's sessions", || servers.sessions() == 0);
        }
    }
}

#[test]
fn an_interrupted_or_killed_sort_leaves_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    writeln!(file, "id,note").expect("a line");
    for n in (1..=2_000_000).rev() {
        writeln!(file, "key-{n},a note that takes some room {n}").expect("a line");
    }
    file.flush().expect("the end of the file");
    let address = path.display().to_string();
    for (signal, code) in [("INT", 130), ("KILL", -1)] {
        let spill = tempfile::tempdir().expect("a folder");
        let call = Drift::compare(&address, &address).args(["-k", "id", "--memory", "16MiB"]);
        let running = call.spilling_to(spill.path()).spawn();
        // Spilled rows have no name; only the process's open files tell.
        eventually("spilled rows", || running.holds_files_in(spill.path()));
        let at = Instant::now();
        running.signal(signal);
        let outcome = running.wait();
        assert_eq!(outcome.code, code, "{outcome}");
        assert!(at.elapsed() < Duration::from_secs(1), "SIG{signal} took {:?}", at.elapsed());
        assert_eq!(std::fs::read_dir(spill.path()).expect("the folder").count(), 0);
    }
}

#[test]
fn a_deadline_ends_a_run_that_hangs() {
    let servers = Servers::with_equal_rows();
    for server in SERVERS {
        for after in [AMID_THE_ROWS, 0] {
            let proxy = Proxy::in_front_of(&servers.url(server), Cut::Hold, after);
            let call = servers.compare_through(server, &proxy).args(["--deadline", "2s", "-o", "json"]);
            let outcome = call.deadline(Duration::from_secs(20)).run();
            assert!(proxy.has_cut(), "{outcome}");
            is_unproved(&outcome, &["--deadline"]);
            drop(proxy);
            eventually("the end of drift's sessions", || servers.sessions() == 0);
        }
    }
}

#[test]
fn a_reader_that_goes_away_changes_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, target] = [("source.csv", 1), ("target.csv", 2)].map(|(name, change)| {
        let path = folder.path().join(name);
        let rows: String = (1..=5000).map(|n| format!("{n},{}\n", n * change)).collect();
        std::fs::write(&path, format!("id,v\n{rows}")).expect("a file");
        path
    });
    for format in ["json", "human"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drift"))
            .args(["compare", "-k", "id", "--limit", "5000", "-o", format])
            .args([&source, &target])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the built binary starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("its end");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{format}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}
