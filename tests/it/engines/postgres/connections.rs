//! Connections: failures, limits, poolers, sessions.

use super::*;

#[tokio::test]
async fn connections_that_fail_say_why_without_secrets() {
    let mut url = server();
    let good = url.clone();
    url.set_password(Some("wrong-geheim")).unwrap();
    let fail = async |address: String| endpoint(&address).unwrap().describe().await.unwrap_err();
    let error = fail(format!("{url}#t")).await;
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(
        error.message.contains("password authentication failed") && !error.message.contains("geheim"),
        "{error}"
    );
    let mut url = good.clone();
    url.set_path("no_such_database");
    let error = fail(format!("{url}#t")).await;
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("no_such_database"), "{error}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = fail(format!("postgres://ada:geheim@127.0.0.1:{free}/shop#t")).await;
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("refused") && !error.message.contains("geheim"), "{error}");
    let error = endpoint(&format!("{good}?sslmoode=require#t")).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("sslmoode"), "{error}");
}

#[tokio::test]
async fn a_silent_server_is_given_up_in_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = format!("postgres://ada@127.0.0.1:{port}/shop?connect_timeout=1#t");
    let error = endpoint(&address).unwrap().describe().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("within 1 s"), "{error}");
}

#[tokio::test]
async fn a_killed_backend_is_a_lost_connection() {
    database(|db| async move {
        db.run("create table t (id int primary key, pad text); insert into t select i, repeat('x', 1000) from generate_series(1, 100000) i").await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape, &[], 1)).await.unwrap();
        let mut stream = snapshot.scan(&Scope::Whole).await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        db.run("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'drift' and query like 'copy%' and datname = current_database()").await;
        let error = loop {
            match stream.next().await {
                Some(Ok(_)) => {}
                Some(Err(e)) => break e,
                None => panic!("a broken scan must not end as if it were complete"),
            }
        };
        assert_eq!(error.kind, ErrorKind::Lost);
        assert!(error.message.contains("connection lost while reading") && error.message.contains("#t"), "{error}");
        assert!(stream.next().await.is_none());
        // The view lives on in the coordinator: another connection joins it.
        assert_eq!(count(&batches(snapshot.as_ref(), &Scope::Whole).await.unwrap()), 100000);
        db.run("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'drift' and datname = current_database()").await;
        for _ in 0..2 {
            let error = batches(snapshot.as_ref(), &Scope::Whole).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Lost, "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn fewer_slots_mean_fewer_workers() {
    database(|db| async move {
        let (other, user) = db.user().await;
        db.run(&format!("create table t (id int); insert into t values (1); grant select on t to {user}"))
            .await;
        for (limit, workers) in [(3, 2), (2, 1), (1, 1)] {
            db.run(&format!("alter user {user} connection limit {limit}")).await;
            let endpoint = other.endpoint("t");
            // Closed connections of the round before leave their slots a moment later.
            let shape = loop {
                match endpoint.describe().await {
                    Ok(shape) => break shape,
                    Err(e) => assert!(e.message.contains("too many connections"), "{e}"),
                }
            };
            tokio::time::sleep(Duration::from_millis(500)).await;
            let snapshot = endpoint.open(&shape, request(&shape, &[], 8)).await.unwrap();
            assert_eq!(snapshot.workers(), workers, "limit {limit}");
            for _ in 0..2 {
                assert_eq!(count(&batches(snapshot.as_ref(), &Scope::Whole).await.unwrap()), 1);
            }
            drop(snapshot);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
    .await;
}

/// A pgbouncer in front of the server, for as long as it is held.
struct Bouncer {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Bouncer {
    fn start(mode: &str, pool: usize) -> Bouncer {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"]
            .into_iter()
            .find(|p| std::path::Path::new(p).exists())
            .expect("pgbouncer is not installed: run tests/run.sh");
        let url = server();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("pgbouncer.ini");
        let (host, user) = (url.host_str().unwrap(), url.username());
        let password = url.password().unwrap_or_default();
        let users = folder.path().join("users");
        std::fs::write(&users, format!("\"{user}\" \"{password}\"\n")).unwrap();
        std::fs::write(
            &config,
            format!(
                "[databases]\n* = host={host} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
                 auth_type = plain\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = {pool}\nquery_wait_timeout = 5\n",
                url.port().unwrap_or(5432),
                users.display()
            ),
        )
        .unwrap();
        let mut command = Command::new(program);
        if running_as_root() {
            // pgbouncer refuses to run as root.
            command.args(["-u", "nobody"]);
            for path in [folder.path(), &config, &users] {
                let mode = if path.is_dir() { 0o755 } else { 0o644 };
                std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            }
        }
        let child = command.arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let bouncer = Bouncer { child, port, _folder: folder };
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return bouncer;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("pgbouncer does not start");
    }

    fn in_front_of(&self, db: &Database) -> Database {
        let mut url = db.url.clone();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(self.port)).unwrap();
        Database { url, name: db.name.clone() }
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn running_as_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

#[tokio::test]
async fn a_transaction_pooler_is_refused_and_left_as_it_was() {
    database(|db| async move {
        db.run("create table t (id int primary key); insert into t select generate_series(1, 100)").await;
        for pool in [1, 2, 5] {
            let bouncer = Bouncer::start("transaction", pool);
            let pooled = bouncer.in_front_of(&db);
            let endpoint = pooled.endpoint("t");
            let shape = endpoint.describe().await.unwrap();
            let error = endpoint.open(&shape, request(&shape, &["id"], 4)).await.err().expect("refused");
            assert_eq!(error.kind, ErrorKind::Refused, "{error}");
            assert!(error.message.contains("transaction pooler") && error.message.contains("pool_mode=session"), "{error}");
            // The pool's connections go back to others without any of drift's settings.
            let mut connection = pooled.connect().await;
            for _ in 0..pool * 2 {
                let rows = sqlx::raw_sql("select current_setting('default_transaction_read_only') || current_setting('statement_timeout') || current_setting('row_security')")
                    .fetch_all(&mut connection).await.unwrap();
                assert_eq!(sqlx::Row::get::<String, _>(&rows[0], 0), "off0on");
            }
        }
        let bouncer = Bouncer::start("statement", 2);
        let error = bouncer.in_front_of(&db).endpoint("t").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_session_pooler_works_as_far_as_its_pool_reaches() {
    database(|db| async move {
        db.run("create table t (id int primary key); insert into t select generate_series(1, 100)").await;
        let bouncer = Bouncer::start("session", 3);
        let endpoint = bouncer.in_front_of(&db).endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape, &["id"], 8)).await.unwrap();
        assert_eq!(snapshot.workers(), 2);
        assert_eq!(count(&batches(snapshot.as_ref(), &Scope::Whole).await.unwrap()), 100);
    })
    .await;
}

#[tokio::test]
async fn sessions_carry_their_name_and_cannot_write() {
    database(|db| async move {
        db.run("create table t (id int primary key); create function f() returns int language sql as 'insert into t values (1) returning id'").await;
        let error = db.endpoint("(select f() as id)");
        let shape = error.describe().await.unwrap();
        let snapshot = error.open(&shape, request(&shape, &[], 1)).await.unwrap();
        assert!(batches(snapshot.as_ref(), &Scope::Whole).await.is_err(), "a query that writes must fail");
        let name = "(select current_setting('application_name') as n, current_setting('timezone') as z)";
        let (_, rows) = read(&db.endpoint(name), &[]).await;
        assert_eq!((column(&rows, "n"), column(&rows, "z")), (vec!["drift".to_string()], vec!["UTC".to_string()]));
    })
    .await;
}
