//! MySQL's endpoint against a real MariaDB with its binary log on.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, UInt64Type,
};
use arrow::record_batch::RecordBatch;
use drift::config::address::{Address, Object};
use drift::endpoint::mysql::MySql;
use drift::endpoint::{
    BATCH_BYTES, BATCH_ROWS, BatchStream, Border, Endpoint, ErrorKind, ReadRequest, Scope,
};
use drift::value::shape::{LogicalType, NativeOrder, TableShape};
use drift::value::temporal::{format_date, format_timestamp_micros};
use futures::{FutureExt, StreamExt, TryStreamExt};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

/// A database of its own for one test.
struct Database {
    root: MySqlConnection,
    /// With user and password, ending in the database's name.
    url: String,
    name: String,
}

impl Database {
    async fn sql(&mut self, sql: &str) {
        if let Err(e) = self.root.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_string()))).await {
            panic!("{sql}: {e}");
        }
    }

    async fn rows(&mut self, sql: &str) -> Vec<MySqlRow> {
        self.root.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql.to_string()))).await.unwrap()
    }

    fn endpoint(&self, object: &str) -> MySql {
        endpoint(&self.url, object)
    }

    /// The database's URL for another user.
    fn url_of(&self, user: &str, password: &str) -> String {
        let (_, place) = self.url.rsplit_once('@').unwrap();
        format!("mysql://{user}:{password}@{place}")
    }
}

fn endpoint(url: &str, object: &str) -> MySql {
    let parsed = Address::parse(&format!("{url}#{object}"), &|_| None).unwrap();
    let Address::MySql(url, object) = parsed.address else { panic!("{object} is no MySQL address") };
    MySql::new(&url, &object).unwrap()
}

async fn with_database<F: Future<Output = Database>>(test: impl FnOnce(Database) -> F) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let server = std::env::var("DRIFT_TEST_MYSQL").expect("no MySQL server to test with: run tests/run.sh");
    // The address may name the database to enter first; each test enters its own.
    let mut server = url::Url::parse(&server).unwrap();
    server.set_path("");
    let server = server.to_string().trim_end_matches('/').to_string();
    let name = format!("drift_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut root = MySqlConnection::connect(&server).await.unwrap();
    root.execute(AssertSqlSafe(format!("create database {name} character set utf8mb4"))).await.unwrap();
    let mut database = Database { root, url: format!("{server}/{name}"), name: name.clone() };
    // Users' defaults must not matter to drift; the tests write what strict mode would refuse.
    database.sql(&format!("use {name}; set sql_mode = 'ALLOW_INVALID_DATES'")).await;
    let outcome = std::panic::AssertUnwindSafe(test(database)).catch_unwind().await;
    let mut root = MySqlConnection::connect(&server).await.unwrap();
    root.execute(AssertSqlSafe(format!("drop database {name}"))).await.unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

fn request(shape: &TableShape) -> ReadRequest {
    let columns = shape.columns.iter().map(|c| c.name.clone()).collect();
    ReadRequest { columns, workers: 1, ..ReadRequest::default() }
}

async fn all(stream: BatchStream) -> RecordBatch {
    let batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

async fn read(endpoint: &MySql) -> (TableShape, RecordBatch) {
    let shape = endpoint.describe().await.unwrap();
    let snapshot = endpoint.open(&shape, request(&shape)).await.unwrap();
    let batch = all(snapshot.scan(&Scope::Whole).await.unwrap()).await;
    (shape, batch)
}

fn ints(batch: &RecordBatch, column: usize) -> Vec<i64> {
    batch.column(column).as_primitive::<Int64Type>().values().to_vec()
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let array = batch.column_by_name(name).unwrap().as_string::<i32>();
    array.iter().map(|v| v.map(str::to_string)).collect()
}

/// A table `name` with `rows` rows: `id` from 1, a unique `code`, and some text.
async fn numbered(db: &mut Database, name: &str, rows: u32) {
    db.sql(&format!(
        "create table {name} (id int primary key, code bigint not null, v varchar(40), unique key by_code (code))"
    ))
    .await;
    db.sql(&format!(
        "insert into {name} select seq, {rows} - seq, concat('value ', seq) from seq_1_to_{rows}"
    ))
    .await;
}

#[tokio::test]
async fn numbers_arrive_exactly() {
    with_database(|mut db| async move {
        db.sql(
            "create table t (id int primary key, t1 tinyint(1), tu tinyint unsigned, s smallint, m mediumint, \
             mu mediumint unsigned, iu int unsigned zerofill, b bigint, bu bigint unsigned, y year, d decimal(12,2), \
             dw decimal(65,30), f float, g double unsigned, bits bit(9), one bit)",
        )
        .await;
        db.sql(
            "insert into t values (1, -128, 255, -32768, -8388608, 16777215, 4294967295, -9223372036854775808, \
             18446744073709551615, 2155, -9999999999.99, 12345678901234567890123456789012345.000000000000000000000000000001, \
             1.5, 0.1, b'100000001', 1), \
             (2, 127, 0, 1, 1, 0, 0, 1, 0, 0, 0.05, 0, -0.25, 0, 0, b'0'), \
             (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)",
        )
        .await;
        let (shape, batch) = read(&db.endpoint("t")).await;
        let logical = |name: &str| shape.column(name).unwrap().logical.clone();
        assert_eq!(logical("t1"), LogicalType::Int { bits: 8, signed: true });
        assert_eq!(logical("bu"), LogicalType::Int { bits: 64, signed: false });
        assert_eq!(logical("y"), LogicalType::Int { bits: 16, signed: false });
        assert_eq!(logical("d"), LogicalType::Decimal { precision: 12, scale: 2 });
        assert_eq!(logical("dw"), LogicalType::DecimalText);
        assert_eq!(shape.column("d").unwrap().engine_type, "decimal(12,2)");
        let firsts: Vec<i64> =
            (1..8).map(|i| batch.column(i).as_primitive::<Int64Type>().value(0)).collect();
        assert_eq!(firsts, [-128, 255, -32768, -8388608, 16777215, 4294967295, i64::MIN]);
        assert_eq!(batch.column(8).as_primitive::<UInt64Type>().values()[..2], [u64::MAX, 0]);
        assert_eq!(ints(&batch, 9)[..2], [2155, 0]);
        assert_eq!(batch.column(10).as_primitive::<Decimal128Type>().values()[..2], [-999999999999, 5]);
        assert_eq!(
            texts(&batch, "dw")[0].as_deref(),
            Some("12345678901234567890123456789012345.000000000000000000000000000001")
        );
        assert_eq!(batch.column(12).as_primitive::<Float32Type>().values()[..2], [1.5, -0.25]);
        assert_eq!(batch.column(13).as_primitive::<Float64Type>().values()[..2], [0.1, 0.0]);
        assert_eq!(texts(&batch, "bits"), [Some("100000001".into()), Some("000000000".into()), None]);
        assert_eq!(texts(&batch, "one"), [Some("1".into()), Some("0".into()), None]);
        assert!((1..batch.num_columns()).all(|i| batch.column(i).is_null(2) && batch.column(i).null_count() == 1));
        db
    })
    .await;
}

#[tokio::test]
async fn days_and_times_arrive_as_stored_even_when_impossible() {
    with_database(|mut db| async move {
        db.sql("set time_zone = '+05:00'").await;
        db.sql(
            "create table t (id int primary key, d date, dt datetime(6), d3 datetime(3), ts timestamp(6) null, t time(6), t0 time)",
        )
        .await;
        db.sql(
            "insert into t values \
             (1, '2026-02-28', '2026-02-28 23:59:59.999999', '2026-01-01 00:00:00.120', '1970-01-01 05:00:01', '-838:59:58.999999', '838:59:59'), \
             (2, '0000-00-00', '0000-00-00 00:00:00', '2026-07-00 00:00:01', '0000-00-00 00:00:00', '00:00:00', '-00:00:01'), \
             (3, '2026-02-31', '2026-02-31 01:00:00', '9999-12-31 23:59:59.999', '2038-01-19 03:14:07', '24:00:00.000001', '12:30'), \
             (4, null, null, null, null, null, null)",
        )
        .await;
        let (shape, batch) = read(&db.endpoint("t")).await;
        assert_eq!(shape.column("ts").unwrap().logical, LogicalType::Timestamp { digits: 6, zoned: true });
        assert_eq!(shape.column("t0").unwrap().logical, LogicalType::Time { digits: 0 });
        let dates: Vec<String> =
            batch.column(1).as_primitive::<Date32Type>().iter().flatten().map(format_date).collect();
        assert_eq!(dates, ["2026-02-28", "0000-00-00", "2026-02-31"]);
        let stamps = |i: usize| -> Vec<String> {
            let array = batch.column(i).as_primitive::<TimestampMicrosecondType>();
            array.iter().flatten().map(|m| format_timestamp_micros(m, false)).collect()
        };
        assert_eq!(stamps(2), ["2026-02-28T23:59:59.999999", "0000-00-00T00:00:00", "2026-02-31T01:00:00"]);
        assert_eq!(stamps(3), ["2026-01-01T00:00:00.12", "2026-07-00T00:00:01", "9999-12-31T23:59:59.999"]);
        assert_eq!(stamps(4), ["1970-01-01T00:00:01", "0000-00-00T00:00:00", "2038-01-18T22:14:07"]);
        let micros = |i: usize| batch.column(i).as_primitive::<Time64MicrosecondType>().values()[..3].to_vec();
        assert_eq!(micros(5), [-3_020_398_999_999, 0, 86_400_000_001]);
        assert_eq!(micros(6), [3_020_399_000_000, -1_000_000, 45_000_000_000]);
        assert!((1..7).all(|i| batch.column(i).is_null(3) && batch.column(i).null_count() == 1));
        db
    })
    .await;
}

#[tokio::test]
async fn text_and_bytes_arrive_in_their_wire_form() {
    with_database(|mut db| async move {
        db.sql(
            "create table t (id int primary key, c char(5), l varchar(9) character set latin1, x text, bin binary(4), vb varbinary(9), \
             bl longblob, e enum('A','b'), s set('x','y','z'), j json, u uuid, i4 inet4, i6 inet6, g point, \
             gen int as (id + 1) stored, vir varchar(20) as (concat('v', id)), \
             nb varchar(9) collate utf8mb4_nopad_bin, pb varchar(9) collate utf8mb4_bin)",
        )
        .await;
        db.sql(
            r#"insert into t (id, c, l, x, bin, vb, bl, e, s, j, u, i4, i6, g, nb, pb) values
             (1, 'ab   ', 'Grün€', concat('snow ', _utf8mb4 x'F09F9883', char(0)), 'a', x'00ff', x'', 'b', 'z,x', '{"a": 1.0}',
              '123e4567-e89b-12d3-a456-426655440000', '10.0.0.1', '2001:db8::ff', point(1, 2), 'n', 'p'),
             (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)"#,
        )
        .await;
        let (shape, batch) = read(&db.endpoint("t")).await;
        let column = |name: &str| shape.column(name).unwrap();
        assert_eq!(column("c").logical, LogicalType::Text { max: Some(5), padded: true });
        assert_eq!(column("x").logical, LogicalType::TEXT);
        assert_eq!(column("j").logical, LogicalType::Json);
        assert_eq!(column("u").logical, LogicalType::Uuid);
        assert_eq!(column("i6").logical, LogicalType::Inet);
        assert_eq!(column("g").logical, LogicalType::Geometry);
        assert_eq!(column("e").engine_type, "enum('A','b')");
        assert_eq!(column("vb").order, NativeOrder::Bytes);
        assert_eq!(column("nb").order, NativeOrder::Bytes);
        assert_eq!(column("pb").order, NativeOrder::Other);
        let first = |name: &str| texts(&batch, name)[0].clone().unwrap();
        assert_eq!(first("c"), "ab");
        assert_eq!(first("l"), "Grün€");
        assert_eq!(first("x"), "snow 😃\0");
        assert_eq!(first("e"), "b");
        assert_eq!(first("s"), "x,z");
        assert_eq!(first("j"), r#"{"a": 1.0}"#);
        assert_eq!(first("i4"), "10.0.0.1");
        assert_eq!(first("i6"), "2001:db8::ff");
        assert_eq!(first("vir"), "v1");
        let bytes = |name: &str| batch.column_by_name(name).unwrap().as_binary::<i32>().value(0).to_vec();
        assert_eq!(bytes("bin"), b"a\0\0\0");
        assert_eq!(bytes("vb"), [0, 255]);
        assert_eq!(bytes("bl"), b"");
        let point = [&[1u8, 1, 0, 0, 0][..], &1f64.to_le_bytes(), &2f64.to_le_bytes()].concat();
        assert_eq!(bytes("g"), point);
        let uuid = batch.column_by_name("u").unwrap().as_fixed_size_binary().value(0).to_vec();
        assert_eq!(uuid[..4], [0x12, 0x3e, 0x45, 0x67]);
        let nullable = ["c", "l", "x", "bin", "vb", "bl", "e", "s", "j", "u", "i4", "i6", "g", "nb", "pb"];
        assert!(nullable.iter().all(|n| batch.column_by_name(n).unwrap().is_null(1)));
        db
    })
    .await;
}

#[tokio::test]
async fn shapes_tell_keys_indexes_and_defaults() {
    with_database(|mut db| async move {
        db.sql(
            "create table `or``ders` (id bigint unsigned not null, sub int not null, code varchar(20) not null, \
             note text default null, n int default 5, w varchar(9) default 'x''y', hid int invisible, \
             primary key (id, sub), unique key u1 (code), unique key u2 (code(3), sub), unique key u3 (n) ignored, key k (sub, note(9)))",
        )
        .await;
        db.sql("insert into `or``ders` (id, sub, code) values (1, 1, 'a')").await;
        let endpoint = db.endpoint("or`ders");
        let (shape, batch) = read(&endpoint).await;
        assert_eq!(batch.num_columns(), 7);
        assert_eq!(shape.primary_key, ["id", "sub"]);
        assert_eq!(shape.unique, [vec!["id", "sub"], vec!["code"], vec!["n"]]);
        assert_eq!(shape.index_orders, [vec!["id", "sub"], vec!["code"], vec!["sub"]]);
        let column = |name: &str| shape.column(name).unwrap();
        assert_eq!(column("id").nullable, Some(false));
        assert_eq!(column("note").nullable, Some(true));
        assert_eq!(column("note").default, None);
        assert_eq!(column("n").default.as_deref(), Some("5"));
        assert_eq!(column("w").default.as_deref(), Some("'x''y'"));
        assert!(shape.row_estimate.is_some());
        let error = db.endpoint("orders").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("did you mean or`ders?"), "{error}");
        let other = endpoint_without_database(&db, &format!("{}.\"or`ders\"", db.name));
        assert_eq!(other.describe().await.unwrap().primary_key, ["id", "sub"]);
        let error = endpoint_without_database(&db, "orders").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        db
    })
    .await;
}

fn endpoint_without_database(db: &Database, object: &str) -> MySql {
    endpoint(db.url.rsplit_once('/').unwrap().0, object)
}

#[tokio::test]
async fn batches_stay_small_and_count_what_they_cost() {
    with_database(|mut db| async move {
        numbered(&mut db, "t", 20_000).await;
        db.sql("create table wide (id int primary key, v longtext)").await;
        db.sql("insert into wide select seq, repeat('x', 300000) from seq_1_to_40").await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape)).await.unwrap();
        let batches: Vec<RecordBatch> =
            snapshot.scan(&Scope::Whole).await.unwrap().try_collect().await.unwrap();
        assert_eq!(
            batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(),
            [BATCH_ROWS, BATCH_ROWS, 3616]
        );
        assert!(snapshot.cost().bytes.load(Ordering::Relaxed) > 20_000 * 12);
        // A session that has read everything reads again.
        let again = all(snapshot.scan(&Scope::Whole).await.unwrap()).await;
        assert_eq!(again.num_rows(), 20_000);
        let wide = db.endpoint("wide");
        let shape = wide.describe().await.unwrap();
        let snapshot = wide.open(&shape, request(&shape)).await.unwrap();
        let batches: Vec<RecordBatch> =
            snapshot.scan(&Scope::Whole).await.unwrap().try_collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
        assert!(batches.iter().all(|b| b.get_array_memory_size() < 3 * BATCH_BYTES), "{}", batches.len());
        assert!(batches.len() >= 3);
        let none = ReadRequest { workers: 1, ..ReadRequest::default() };
        let snapshot = wide.open(&shape, none).await.unwrap();
        assert_eq!(all(snapshot.scan(&Scope::Whole).await.unwrap()).await.num_rows(), 40);
        db
    })
    .await;
}

#[tokio::test]
async fn ordered_reads_use_an_index_and_never_sort() {
    with_database(|mut db| async move {
        numbered(&mut db, "t", 100_000).await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        for (column, at) in [("id", 0), ("code", 1)] {
            assert!(shape.delivers_order(&[column.to_string()]));
            let wanted = ReadRequest { order: vec![column.to_string()], ..request(&shape) };
            let middle = Scope::KeyRange {
                column: column.into(),
                from: Some(Border::Int(1000)),
                to: Some(Border::Int(90_000)),
            };
            for (scope, rows) in [(&Scope::Whole, 100_000), (&middle, 89_000)] {
                let statement = endpoint.explain(&shape, &wanted, scope).pop().unwrap();
                let plan = db.rows(&format!("explain {statement}")).await;
                let extra: Option<String> = plan[0].get("Extra");
                assert!(!extra.clone().unwrap_or_default().contains("filesort"), "{statement}: {extra:?}");
                let snapshot = endpoint.open(&shape, wanted.clone()).await.unwrap();
                let batch = all(snapshot.scan(scope).await.unwrap()).await;
                assert_eq!(batch.num_rows(), rows);
                assert!(ints(&batch, at).is_sorted());
            }
        }
        db
    })
    .await;
}

#[tokio::test]
async fn ranges_hold_every_row_once() {
    with_database(|mut db| async move {
        numbered(&mut db, "t", 5000).await;
        db.sql("create table b (k varbinary(20) primary key, d date, key (d))").await;
        db.sql(
            "insert into b select unhex(md5(seq)), if(seq % 10 = 0, null, adddate('2020-01-01', seq)) from seq_1_to_500",
        )
        .await;
        for (table, column, total) in [("t", "id", 5000), ("t", "code", 5000), ("b", "k", 500), ("b", "d", 500)] {
            let endpoint = db.endpoint(table);
            let shape = endpoint.describe().await.unwrap();
            let snapshot = endpoint.open(&shape, request(&shape)).await.unwrap();
            let cuts = snapshot.cuts(column, 4).await.unwrap();
            assert_eq!(cuts.len(), 3, "{table}.{column}");
            let mut edges = vec![None];
            edges.extend(cuts.into_iter().map(Some));
            edges.push(None);
            let mut rows = 0;
            for pair in edges.windows(2) {
                let scope = Scope::KeyRange { column: column.into(), from: pair[0].clone(), to: pair[1].clone() };
                let part = all(snapshot.scan(&scope).await.unwrap()).await.num_rows();
                assert!(part > total / 8, "{table}.{column}: {part}");
                rows += part;
            }
            assert_eq!(rows, total);
        }
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape)).await.unwrap();
        assert!(snapshot.cuts("v", 4).await.unwrap().is_empty());
        db
    })
    .await;
}

#[tokio::test]
async fn borders_find_their_place_in_text_and_uuids() {
    with_database(|mut db| async move {
        db.sql(
            "create table t (id int primary key, bin varchar(9) collate utf8mb4_nopad_bin not null, ci varchar(9) not null, \
             u uuid not null, at datetime(6) not null)",
        )
        .await;
        db.sql("insert into t select seq, char(96 + seq), char(if(seq % 2, 64, 96) + seq), concat('0', seq, '000000-0000-1000-8000-00000000000', 9 - seq), \
                adddate('2026-01-01', seq) from seq_1_to_8").await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape)).await.unwrap();
        let day = 20_454 + 4;
        for (column, border, want) in [
            ("bin", Border::Bytes(b"d".to_vec()), vec![1, 2, 3]),
            ("bin", Border::Bytes(vec![0xff]), vec![1, 2, 3, 4, 5, 6, 7, 8]),
            ("ci", Border::Bytes(b"b".to_vec()), vec![1, 3, 5, 7]),
            ("u", Border::Uuid([4; 16]), vec![1, 2, 3, 4]),
            ("at", Border::Date(day), vec![1, 2, 3]),
            ("at", Border::Timestamp(i64::from(day) * 86_400_000_000 + 1), vec![1, 2, 3, 4]),
            ("id", Border::Int(3), vec![1, 2]),
        ] {
            let scope = Scope::KeyRange { column: column.into(), from: None, to: Some(border.clone()) };
            let mut got = ints(&all(snapshot.scan(&scope).await.unwrap()).await, 0);
            got.sort();
            assert_eq!(got, want, "{column} {border:?}");
        }
        db
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_stays_while_others_write() {
    with_database(|mut db| async move {
        numbered(&mut db, "t", 1000).await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape)).await.unwrap();
        let before = snapshot.position();
        assert!(before.log.is_some() && before.state.is_some(), "{before:?}");
        db.sql("delete from t where id > 10").await;
        assert_eq!(all(snapshot.scan(&Scope::Whole).await.unwrap()).await.num_rows(), 1000);
        let later = endpoint.open(&shape, request(&shape)).await.unwrap();
        assert!(!before.shows_the_same(&later.position()));
        assert_eq!(all(later.scan(&Scope::Whole).await.unwrap()).await.num_rows(), 10);
        db
    })
    .await;
}

#[tokio::test]
async fn workers_agree_while_a_writer_commits() {
    with_database(|mut db| async move {
        db.sql("create table t (id int primary key, v bigint not null)").await;
        db.sql("insert into t select seq, 0 from seq_1_to_400").await;
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (flag, url) = (stop.clone(), db.url.clone());
        let writer = tokio::spawn(async move {
            let mut connection = MySqlConnection::connect(&url).await.unwrap();
            let mut n = 0;
            while !flag.load(Ordering::Relaxed) {
                n += 1;
                // Every commit leaves all rows with the same value: a torn view shows two.
                connection.execute(AssertSqlSafe(format!("update t set v = {n}"))).await.unwrap();
            }
        });
        // The server hands places out through variables that all sessions share, so whoever asks mixes them up.
        let askers: Vec<_> = (0..3)
            .map(|_| {
                let (flag, url) = (stop.clone(), db.url.clone());
                tokio::spawn(async move {
                    let mut connection = MySqlConnection::connect(&url).await.unwrap();
                    while !flag.load(Ordering::Relaxed) {
                        connection.execute(sqlx::raw_sql("show global status like 'binlog%'")).await.unwrap();
                    }
                })
            })
            .collect();
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let mut most = 0;
        for _ in 0..60 {
            let wanted = ReadRequest { workers: 3, ..request(&shape) };
            let snapshot = endpoint.open(&shape, wanted).await.unwrap();
            most = most.max(snapshot.workers());
            let mut streams = Vec::new();
            for _ in 0..snapshot.workers() {
                streams.push(snapshot.scan(&Scope::Whole).await.unwrap());
            }
            let batches = futures::future::join_all(streams.into_iter().map(all)).await;
            let mut values: Vec<i64> = batches.iter().flat_map(|b| ints(b, 1)).collect();
            values.dedup();
            assert_eq!(values.len(), 1, "{values:?}");
        }
        stop.store(true, Ordering::Relaxed);
        writer.await.unwrap();
        futures::future::join_all(askers).await;
        let wanted = ReadRequest { workers: 3, ..request(&shape) };
        let quiet = endpoint.open(&shape, wanted).await.unwrap();
        assert!(quiet.workers() >= 1 && most >= 1);
        db
    })
    .await;
}

#[tokio::test]
async fn columns_without_privilege_are_reported() {
    with_database(|mut db| async move {
        let user = format!("{}_lim", db.name);
        db.sql("create table t (id int primary key, a int, secret int, only_insert int)").await;
        db.sql("create table closed (id int primary key)").await;
        db.sql(&format!("create user {user}@'%' identified by 'pw'")).await;
        db.sql(&format!("grant select (id, a), insert (only_insert) on t to {user}@'%'")).await;
        db.sql(&format!("grant insert on closed to {user}@'%'")).await;
        let url = db.url_of(&user, "pw");
        let outcome = std::panic::AssertUnwindSafe(async {
            let limited = endpoint(&url, "t");
            let shape = limited.describe().await.unwrap();
            let unreadable: Vec<&str> =
                shape.columns.iter().filter(|c| c.unreadable.is_some()).map(|c| c.name.as_str()).collect();
            assert_eq!(unreadable, ["only_insert", "(hidden column 3)"]);
            let columns = vec!["id".to_string(), "a".to_string()];
            let readable = ReadRequest { columns, workers: 1, ..ReadRequest::default() };
            assert!(limited.open(&shape, readable).await.is_ok());
            let columns = vec!["only_insert".to_string()];
            let snapshot =
                limited.open(&shape, ReadRequest { columns, ..ReadRequest::default() }).await.unwrap();
            let error = snapshot.scan(&Scope::Whole).await.unwrap().next().await.unwrap().unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused);
            assert!(error.message.contains("only_insert"), "{error}");
            let error = endpoint(&url, "closed").describe().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{error}");
            let error = endpoint(&url, "absent").describe().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        })
        .catch_unwind()
        .await;
        db.sql(&format!("drop user {user}@'%'")).await;
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
        db
    })
    .await;
}

/// The server's numbers of drift's sessions on this database.
async fn sessions(db: &mut Database) -> Vec<u64> {
    let rows = db
        .rows(&format!(
            "select cast(id as char) from information_schema.processlist where db = '{}' and id <> connection_id()",
            db.name
        ))
        .await;
    rows.iter().map(|r| r.get::<String, _>(0).parse().unwrap()).collect()
}

#[tokio::test]
async fn a_killed_connection_is_lost_and_never_an_end() {
    with_database(|mut db| async move {
        db.sql("create table t (id int primary key, v varchar(1000))").await;
        db.sql("insert into t select seq, repeat('x', 1000) from seq_1_to_60000").await;
        for verb in ["kill", "kill query"] {
            let endpoint = db.endpoint("t");
            let shape = endpoint.describe().await.unwrap();
            let snapshot = endpoint.open(&shape, request(&shape)).await.unwrap();
            let mut stream = snapshot.scan(&Scope::Whole).await.unwrap();
            assert!(stream.next().await.unwrap().is_ok());
            for id in sessions(&mut db).await {
                db.sql(&format!("{verb} {id}")).await;
            }
            let mut rows = 0;
            let error = loop {
                match stream.next().await {
                    Some(Ok(batch)) => rows += batch.num_rows(),
                    Some(Err(error)) => break error,
                    None => panic!("{verb}: the stream ended after {rows} rows as if it were complete"),
                }
            };
            assert_eq!(error.kind, ErrorKind::Lost, "{verb}: {error}");
            assert!(error.message.contains("connection lost while reading t"), "{error}");
            assert!(stream.next().await.is_none());
            // The broken session is not used again.
            assert_eq!(snapshot.scan(&Scope::Whole).await.err().unwrap().kind, ErrorKind::Lost);
        }
        db
    })
    .await;
}

#[tokio::test]
async fn an_abandoned_read_ends_at_the_server() {
    with_database(|mut db| async move {
        numbered(&mut db, "t", 100_000).await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        // Nothing is delivered for long: the server would not notice a closed socket.
        let wanted = ReadRequest { filter: Some("sleep(0.01) = 1".into()), ..request(&shape) };
        let snapshot = endpoint.open(&shape, wanted).await.unwrap();
        let stream = snapshot.scan(&Scope::Whole).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(sessions(&mut db).await.len(), 1);
        drop(stream);
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if sessions(&mut db).await.is_empty() {
                return db;
            }
        }
        panic!("the server is still reading for nobody");
    })
    .await;
}

#[tokio::test]
async fn tables_that_change_or_go_are_errors() {
    with_database(|mut db| async move {
        numbered(&mut db, "t", 100).await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        db.sql("alter table t add column extra int").await;
        let error = endpoint.open(&shape, request(&shape)).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Data, "{error}");
        assert!(error.message.contains("changed meanwhile"), "{error}");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape)).await.unwrap();
        // The snapshot holds the table: changes wait for it, and for no longer than they are told to.
        let blocked = db.root.execute("alter table t wait 1 drop column extra").await;
        assert!(blocked.is_err());
        assert_eq!(all(snapshot.scan(&Scope::Whole).await.unwrap()).await.num_rows(), 100);
        drop(snapshot);
        db.sql("drop table t").await;
        let error = endpoint.open(&shape, request(&shape)).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Data, "{error}");
        assert!(error.message.contains("it was there"), "{error}");
        db.sql("create table m (id int primary key) engine = MyISAM").await;
        let endpoint = db.endpoint("m");
        let shape = endpoint.describe().await.unwrap();
        let error = endpoint.open(&shape, request(&shape)).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.message.contains("MyISAM"), "{error}");
        db
    })
    .await;
}

#[tokio::test]
async fn a_scan_is_not_bound_by_the_statement_timeout_but_by_locks() {
    with_database(|mut db| async move {
        numbered(&mut db, "t", 10).await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        db.sql("lock tables t write").await;
        let error = endpoint.open(&shape, request(&shape)).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert!(error.message.contains("lock"), "{error}");
        db.sql("unlock tables").await;
        let wanted = ReadRequest {
            columns: vec!["id".into()],
            filter: Some("id = @@session.max_statement_time + 1 and @@session.tx_read_only = 1".into()),
            ..request(&shape)
        };
        let snapshot = endpoint.open(&shape, wanted).await.unwrap();
        assert_eq!(ints(&all(snapshot.scan(&Scope::Whole).await.unwrap()).await, 0), [1]);
        db
    })
    .await;
}

#[tokio::test]
async fn refused_logins_and_wrong_places_say_so_without_secrets() {
    with_database(|db| async move {
        let error = endpoint(&db.url_of("root", "geheimer"), "t").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("Access denied") && !error.message.contains("geheimer"), "{error}");
        let error = endpoint(&format!("{}_no", db.url), "t").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        let error = endpoint("mysql://root:geheimer@127.0.0.1:1/x", "t").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(!error.message.contains("geheimer"), "{error}");
        let error = endpoint(&format!("{}?ssl-mode=required", db.url), "t").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        db
    })
    .await;
}

#[tokio::test]
async fn queries_are_read_like_tables() {
    with_database(|mut db| async move {
        db.sql(
            "create table t (id int unsigned primary key, amount decimal(12,3), at datetime(3), c varchar(7), b tinyint(1) unsigned, \
             z varchar(5) collate utf8mb4_bin, raw varbinary(3), flags bit(3))",
        )
        .await;
        db.sql("insert into t values (1, 1.5, '2026-01-01', 'x', 200, 'zz', x'ff', b'101'), (2, null, null, null, null, null, null, null)").await;
        let endpoint = db.endpoint(
            "(select id as k, amount, at, c, b, z, raw, flags, amount * 2 as twice, concat(z, '!') as bang, id + 1 as n, null as nothing from t where id < 9 -- all\n)",
        );
        let (shape, batch) = read(&endpoint).await;
        let logical = |name: &str| shape.column(name).unwrap().logical.clone();
        assert_eq!(logical("k"), LogicalType::Int { bits: 32, signed: false });
        assert_eq!(logical("amount"), LogicalType::Decimal { precision: 12, scale: 3 });
        assert_eq!(logical("at"), LogicalType::Timestamp { digits: 3, zoned: false });
        assert_eq!(logical("c"), LogicalType::Text { max: Some(7), padded: false });
        assert_eq!(logical("b"), LogicalType::Int { bits: 8, signed: false });
        assert_eq!(logical("z"), LogicalType::Text { max: Some(5), padded: false });
        assert_eq!(logical("raw"), LogicalType::Bytes);
        assert_eq!(logical("flags"), LogicalType::Bits { len: Some(3) });
        assert_eq!(logical("twice"), LogicalType::DecimalText);
        assert_eq!(logical("bang"), LogicalType::TEXT);
        assert_eq!(shape.column("k").unwrap().nullable, None);
        assert!(shape.primary_key.is_empty() && shape.index_orders.is_empty());
        assert_eq!(ints(&batch, 0), [1, 2]);
        assert_eq!(batch.column(4).as_primitive::<Int64Type>().value(0), 200);
        assert_eq!(texts(&batch, "twice")[0].as_deref(), Some("3.000"));
        assert_eq!(texts(&batch, "flags")[0].as_deref(), Some("101"));
        let union = db.endpoint("(select amount, z, at from t union all select 1.23456, raw, '2026-01-01 00:00:00.123456' from t;)");
        let (_, batch) = read(&union).await;
        assert_eq!(batch.num_rows(), 4);
        let grouped = db.endpoint("(select c, max(amount) as m, count(*) as n from t group by c)");
        assert_eq!(read(&grouped).await.1.num_rows(), 2);
        for bad in ["(select nope from t)", "(select 1 as a, 2 as a)", "(select * from t where id = ?)", "(selec 1)", "(delete from t)", "(select 1 from absent)"] {
            let error = db.endpoint(bad).describe().await.unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Usage | ErrorKind::Data), "{bad}: {error}");
        }
        db
    })
    .await;
}

#[tokio::test]
async fn views_are_described_without_keys() {
    with_database(|mut db| async move {
        numbered(&mut db, "t", 20).await;
        db.sql("create view v as select id, v, json_object('a', id) as j from t where id <= 7").await;
        let endpoint = db.endpoint("v");
        let (shape, batch) = read(&endpoint).await;
        assert_eq!(batch.num_rows(), 7);
        assert!(shape.primary_key.is_empty() && shape.unique.is_empty() && shape.index_orders.is_empty());
        assert_eq!(shape.column("id").unwrap().logical, LogicalType::Int { bits: 32, signed: true });
        let wanted = ReadRequest { filter: Some("nope = 1".into()), ..request(&shape) };
        let snapshot = endpoint.open(&shape, wanted).await.unwrap();
        let error = snapshot.scan(&Scope::Whole).await.unwrap().next().await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("nope"), "{error}");
        db
    })
    .await;
}

#[tokio::test]
async fn the_option_file_names_user_and_password() {
    // A process of its own, since the home folder belongs to the whole process.
    const CHILD: &str = "DRIFT_TEST_OPTION_FILE_CHILD";
    if let Ok(url) = std::env::var(CHILD) {
        let object = Object::Table { schema: None, name: "t".into() };
        let found = MySql::new(&url::Url::parse(&url).unwrap(), &object).unwrap().describe().await;
        assert_eq!(found.unwrap().primary_key, ["id"]);
        return;
    }
    with_database(|mut db| async move {
        numbered(&mut db, "t", 3).await;
        let with_login = url::Url::parse(&db.url).unwrap();
        let home = tempfile::tempdir().unwrap();
        let text = format!(
            "[client]\nuser = {}\npassword = \"{}\" # for tests\n",
            with_login.username(),
            with_login.password().unwrap_or("")
        );
        std::fs::write(home.path().join(".my.cnf"), text).unwrap();
        let (_, place) = db.url.rsplit_once('@').unwrap();
        let status = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "engines::mysql::the_option_file_names_user_and_password"])
            .env("HOME", home.path())
            .env("USER", "nobody-of-that-name")
            .env(CHILD, format!("mysql://{place}"))
            .output()
            .await
            .unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
        db
    })
    .await;
}
