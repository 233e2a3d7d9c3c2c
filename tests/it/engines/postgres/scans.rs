//! Reading: batches, order, ranges, one state for all workers.

use super::*;

#[tokio::test]
async fn batches_keep_their_limits() {
    database(|db| async move {
        db.run("create table t (id int primary key, pad text);
                insert into t select i, case when i <= 20000 then 'x' else repeat('y', 100000) end from generate_series(1, 20200) i").await;
        let (_, batches) = read(&db.endpoint("t"), &["id"]).await;
        assert_eq!(count(&batches), 20200);
        assert!(batches.iter().all(|b| b.num_rows() <= BATCH_ROWS));
        let widest = batches.iter().map(|b| b.column(1).as_string::<i32>().value_data().len()).max().unwrap();
        assert!(widest > BATCH_BYTES / 2 && widest < BATCH_BYTES + 200_000, "{widest}");
        let ids: Vec<i64> = column(&batches, "id").iter().map(|s| s.parse().unwrap()).collect();
        assert!(ids.windows(2).all(|w| w[0] < w[1]));
    })
    .await;
}

#[tokio::test]
async fn an_ordered_scan_reads_the_index_and_never_sorts() {
    database(|db| async move {
        db.run(r#"create table t (code text collate "C" primary key, pad text);
                insert into t select md5(i::text), repeat('x', 200) from generate_series(1, 30000) i; analyze t;
                create table p (id int primary key, v int) partition by hash (id);
                create table p0 partition of p for values with (modulus 2, remainder 0);
                create table p1 partition of p for values with (modulus 2, remainder 1);
                insert into p select i, i from generate_series(1, 20000) i; analyze p"#).await;
        let mut connection = db.connect().await;
        for (table, key) in [("t", "code"), ("p", "id")] {
            let endpoint = db.endpoint(table);
            let shape = endpoint.describe().await.unwrap();
            assert!(shape.delivers_order(&[key.to_string()]), "{table}");
            assert_eq!(shape.row_estimate, Some(if table == "t" { 30000 } else { 20000 }));
            let request = request(&shape, &[key], 1);
            let statements = endpoint.explain(&shape, &request, &Scope::Whole);
            let copy = statements.last().unwrap();
            let select = copy.strip_prefix("copy (").unwrap().split(") to stdout").next().unwrap();
            let plan = format!("begin; {}; explain {select}", statements[1]);
            let rows = sqlx::raw_sql(AssertSqlSafe(plan)).fetch_all(&mut connection).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|r| sqlx::Row::get::<String, _>(r, 0)).collect();
            assert!(plan.iter().any(|l| l.contains("Index Scan")), "{plan:#?}");
            assert!(!plan.iter().any(|l| l.contains("Sort  ")), "{plan:#?}");
            connection.execute("rollback").await.unwrap();
            let (_, batches) = read(&endpoint, &[key]).await;
            let keys = column(&batches, key);
            let ascending = |w: &[String]| if key == "id" { w[0].parse::<i64>().unwrap() < w[1].parse().unwrap() } else { w[0] < w[1] };
            assert!(keys.windows(2).all(ascending));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_see_one_state_while_others_commit() {
    database(|db| async move {
        db.run("create table t (id int primary key, v int not null); insert into t select i, 1 from generate_series(1, 20000) i; analyze t").await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape, &["id"], 4)).await.unwrap();
        assert_eq!(snapshot.workers(), 4);
        let cuts = snapshot.cuts("id", 8).await.unwrap();
        assert_eq!(cuts.len(), 7);
        let writer = tokio::spawn({
            let db = db.clone();
            async move {
                for i in 0..20 {
                    db.run(&format!("update t set v = v + 1; insert into t values ({}, 5); delete from t where id = {}", 30000 + i, i + 1)).await;
                }
            }
        });
        let mut scopes = vec![Scope::KeyRange { column: "id".into(), from: None, to: cuts.first().cloned() }];
        scopes.extend(cuts.windows(2).map(|w| Scope::KeyRange { column: "id".into(), from: Some(w[0].clone()), to: Some(w[1].clone()) }));
        scopes.push(Scope::KeyRange { column: "id".into(), from: cuts.last().cloned(), to: None });
        for _ in 0..3 {
            // More scans than workers: the rest wait for a free one.
            let scans = scopes.iter().map(|scope| batches(snapshot.as_ref(), scope));
            let parts = futures::future::try_join_all(scans).await.unwrap();
            let all: Vec<RecordBatch> = parts.into_iter().flatten().collect();
            assert_eq!(count(&all), 20000);
            assert!(column(&all, "v").iter().all(|v| v == "1"));
            assert_eq!(column(&all, "id").into_iter().collect::<HashSet<_>>().len(), 20000);
        }
        writer.await.unwrap();
        let later = endpoint.open(&shape, request(&shape, &[], 1)).await.unwrap();
        assert!(!later.position().shows_the_same(&snapshot.position()));
        assert!(later.position().log.is_some());
        let cost = snapshot.cost();
        assert!(cost.bytes.load(Ordering::Relaxed) > 3 * 20000 * 8);
        assert!(cost.statements.load(Ordering::Relaxed) > 20);
    })
    .await;
}

#[tokio::test]
async fn a_quiet_database_shows_the_same_state_twice() {
    database(|db| async move {
        db.run("create table t (id int)").await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        // Other tests write to the same server all the time, so one of many attempts has to be undisturbed.
        for attempt in 0.. {
            let first = endpoint.open(&shape, request(&shape, &[], 1)).await.unwrap().position();
            let second = endpoint.open(&shape, request(&shape, &[], 1)).await.unwrap().position();
            assert!(first.state.is_some());
            if first.shows_the_same(&second) {
                break;
            }
            assert!(attempt < 200, "{first:?} {second:?}");
        }
        let filtered = ReadRequest { filter: Some("id > 0".into()), ..request(&shape, &[], 1) };
        assert_eq!(endpoint.open(&shape, filtered).await.unwrap().position().state, None);
    })
    .await;
}

#[tokio::test]
async fn a_scan_that_is_dropped_leaves_room_for_the_next() {
    database(|db| async move {
        db.run("create table t (id int primary key, pad text); insert into t select i, repeat('x', 1000) from generate_series(1, 50000) i").await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape, &[], 1)).await.unwrap();
        db.run("delete from t").await;
        for _ in 0..3 {
            let mut stream = snapshot.scan(&Scope::Whole).await.unwrap();
            assert!(stream.next().await.unwrap().is_ok());
            drop(stream);
        }
        assert_eq!(count(&batches(snapshot.as_ref(), &Scope::Whole).await.unwrap()), 50000);
        drop(snapshot);
        let left = "select count(*) from pg_stat_activity where application_name = 'drift' and datname = current_database()";
        let mut connection = db.connect().await;
        for _ in 0..100 {
            let n: i64 = sqlx::query_scalar(left).fetch_one(&mut connection).await.unwrap();
            if n == 0 { return }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("sessions stay behind");
    })
    .await;
}

#[tokio::test]
async fn filters_and_ranges_narrow_the_scan() {
    database(|db| async move {
        db.run(r#"create table t (id int, d date, at timestamptz, u uuid, b bytea, c text collate "C", l text, n numeric);
                insert into t select i, '2026-01-01'::date + i, timestamptz '2026-01-01 00:00+00' + i * interval '1 hour',
                    (lpad(to_hex(i), 2, '0') || repeat('0', 30))::uuid, decode(lpad(to_hex(i), 2, '0'), 'hex'),
                    'k' || lpad(i::text, 3, '0'), 'k' || lpad(i::text, 3, '0'), i from generate_series(0, 99) i;
                insert into t values (100, 'infinity', 'infinity', 'ff000000-0000-0000-0000-000000000000', '\xff', 'z', 'z', 'NaN');
                insert into t values (-1, '-infinity', '-infinity', '00000000-0000-0000-0000-000000000000', '', '', '', -1)"#).await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape, &[], 2)).await.unwrap();
        let day = temporal::days_from_civil(2026, 1, 1) as i32;
        let mut uuid = [0; 16];
        uuid[0] = 50;
        let borders = [
            ("id", Border::Int(50)), ("n", Border::Int(50)), ("d", Border::Date(day + 50)),
            ("d", Border::Timestamp(i64::from(day + 50) * 86_400_000_000)),
            ("at", Border::Timestamp(i64::from(day) * 86_400_000_000 + 50 * 3_600_000_000)),
            ("u", Border::Uuid(uuid)), ("b", Border::Bytes(vec![50])), ("c", Border::Bytes(b"k050".to_vec())),
            ("l", Border::Bytes(b"k050".to_vec())),
        ];
        for (name, border) in borders {
            let below = Scope::KeyRange { column: name.into(), from: None, to: Some(border.clone()) };
            let above = Scope::KeyRange { column: name.into(), from: Some(border), to: None };
            assert_eq!(count(&batches(snapshot.as_ref(), &below).await.unwrap()), 51, "{name}");
            assert_eq!(count(&batches(snapshot.as_ref(), &above).await.unwrap()), 51, "{name}");
        }
        for (name, border, below) in [
            ("id", Border::Int(i128::from(i64::MAX) * 4), 102), ("id", Border::Int(i128::from(i64::MIN) * 4), 0),
            ("d", Border::Date(i32::MAX), 101), ("d", Border::Date(temporal::mysql_date(0, 0, 0)), 1), ("d", Border::Date(i32::MIN), 0),
            ("at", Border::Timestamp(i64::MAX), 101), ("at", Border::Timestamp(i64::MAX - 1), 101),
            ("at", Border::Timestamp(i64::MIN + 1), 1), ("at", Border::Date(i32::MAX - 1), 101), ("at", Border::Date(i32::MIN + 1), 1),
            ("c", Border::Bytes(vec![0xff]), 102), ("c", Border::Bytes(vec![b'k', 0]), 1),
        ] {
            let scope = Scope::KeyRange { column: name.into(), from: None, to: Some(border.clone()) };
            assert_eq!(count(&batches(snapshot.as_ref(), &scope).await.unwrap()), below, "{name} {border:?}");
        }
        let filter = |f: &str| ReadRequest { filter: Some(f.into()), ..request(&shape, &[], 1) };
        let snapshot = endpoint.open(&shape, filter("id < 10 -- comment")).await.unwrap();
        assert_eq!(count(&batches(snapshot.as_ref(), &Scope::Whole).await.unwrap()), 11);
        let error = endpoint.open(&shape, filter("idd < 10")).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        let snapshot = endpoint.open(&shape, filter("l::int > 0")).await.unwrap();
        let error = batches(snapshot.as_ref(), &Scope::Whole).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(!error.message.contains("k0"), "no row values: {error}");
    })
    .await;
}

#[tokio::test]
async fn cuts_come_from_statistics_or_the_ends_of_an_index() {
    database(|db| async move {
        db.run(r#"create table t (id int primary key, u uuid unique, c text collate "C" unique, at timestamp unique, plain int)
                    with (autovacuum_enabled = off);
                insert into t select i, md5(i::text)::uuid, md5(i::text), timestamp '2026-01-01' + i * interval '1 s', i from generate_series(1, 3000) i"#).await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        assert_eq!(shape.row_estimate, None);
        let cut = async |column: &str, shape: &TableShape| {
            let snapshot = endpoint.open(shape, request(shape, &[], 1)).await.unwrap();
            snapshot.cuts(column, 4).await.unwrap()
        };
        assert_eq!(cut("id", &shape).await, [750, 1500, 2250].map(Border::Int));
        assert_eq!(cut("u", &shape).await.len(), 3);
        assert_eq!(cut("at", &shape).await.len(), 3);
        assert_eq!(cut("c", &shape).await, []);
        assert_eq!(cut("plain", &shape).await, [], "no index, no statistics: no scan for balance");
        db.run("analyze t").await;
        for column in ["id", "u", "c", "at", "plain"] {
            let cuts = cut(column, &shape).await;
            assert_eq!(cuts.len(), 3, "{column}");
            let snapshot = endpoint.open(&shape, request(&shape, &[], 1)).await.unwrap();
            let scope = Scope::KeyRange { column: column.into(), from: Some(cuts[0].clone()), to: Some(cuts[2].clone()) };
            let half = count(&batches(snapshot.as_ref(), &scope).await.unwrap());
            assert!((1400..1600).contains(&half), "{column} {half}");
        }
    })
    .await;
}
