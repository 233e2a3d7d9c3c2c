//! The PostgreSQL endpoint against a real server: `DRIFT_TEST_POSTGRES` is a superuser's URL, over TCP and with a
//! password.

use std::collections::HashSet;
use std::future::Future;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use drift::config::address::Address;
use drift::endpoint::postgres::Postgres;
use drift::endpoint::{
    BATCH_BYTES, BATCH_ROWS, Border, Endpoint, Error, ErrorKind, ReadRequest, Scope, Snapshot,
};
use drift::value::shape::{LogicalType, NativeOrder, TableShape};
use drift::value::{decimal, temporal, text};
use futures::{StreamExt, TryStreamExt};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use url::Url;

fn server() -> Url {
    let text =
        std::env::var("DRIFT_TEST_POSTGRES").expect("DRIFT_TEST_POSTGRES is not set: run tests/run.sh");
    Url::parse(&text).expect("DRIFT_TEST_POSTGRES is a URL")
}

/// A database of one test's own.
#[derive(Clone)]
struct Database {
    url: Url,
    name: String,
}

impl Database {
    fn path(&self, object: &str) -> String {
        format!("{}#{object}", self.url)
    }

    async fn run(&self, sql: &str) {
        let mut connection = self.connect().await;
        connection.execute(AssertSqlSafe(sql)).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        connection.close().await.unwrap();
    }

    async fn connect(&self) -> PgConnection {
        let options = PgConnectOptions::from_url(&self.url).unwrap();
        // A pooler knows no such startup parameter.
        options.extra_float_digits(None).connect().await.unwrap()
    }

    /// The same database for another user, who can log in with the password `secret`.
    async fn user(&self) -> (Database, String) {
        let user = format!("{}_user", self.name);
        self.run(&format!("create user {user} password 'secret'")).await;
        let mut url = self.url.clone();
        url.set_username(&user).unwrap();
        url.set_password(Some("secret")).unwrap();
        (Database { url, name: self.name.clone() }, user)
    }

    fn endpoint(&self, object: &str) -> Postgres {
        endpoint(&self.path(object)).unwrap()
    }
}

/// Runs a test in a fresh database and drops it afterwards, also when the test fails.
async fn database<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(Database) -> F) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("drift_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut url = server();
    let admin = Database { url: url.clone(), name: name.clone() };
    admin.run(&format!("create database {name} template template0 encoding 'UTF8' locale 'C.UTF-8'")).await;
    url.set_path(&name);
    let outcome = tokio::spawn(test(Database { url, name: name.clone() })).await;
    admin.run(&format!("drop database {name} with (force)")).await;
    admin.run(&format!("drop role if exists {name}_user")).await;
    if let Err(failed) = outcome {
        std::panic::resume_unwind(failed.into_panic());
    }
}

fn endpoint(address: &str) -> Result<Postgres, Error> {
    match Address::parse(address, &|_| None).unwrap().address {
        Address::Postgres(url, object) => Postgres::new(&url, &object),
        other => panic!("{other}"),
    }
}

fn request(shape: &TableShape, order: &[&str], workers: usize) -> ReadRequest {
    ReadRequest {
        columns: shape.columns.iter().map(|c| c.name.clone()).collect(),
        order: order.iter().map(|s| s.to_string()).collect(),
        workers,
        filter: None,
    }
}

async fn batches(snapshot: &dyn Snapshot, scope: &Scope) -> Result<Vec<RecordBatch>, Error> {
    snapshot.scan(scope).await?.try_collect().await
}

/// Describes, opens and reads everything.
async fn read(endpoint: &Postgres, order: &[&str]) -> (TableShape, Vec<RecordBatch>) {
    let shape = endpoint.describe().await.unwrap();
    let snapshot = endpoint.open(&shape, request(&shape, order, 1)).await.unwrap();
    let batches = batches(snapshot.as_ref(), &Scope::Whole).await.unwrap();
    (shape, batches)
}

/// A cell as text, the reserved values in words.
fn cell(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".into();
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Decimal128(_, scale) => {
            decimal::format(array.as_primitive::<Decimal128Type>().value(row), *scale, true)
        }
        DataType::Date32 => temporal::format_date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Time64(_) => {
            temporal::format_time(array.as_primitive::<Time64MicrosecondType>().value(row) * 1000)
        }
        DataType::Timestamp(_, _) => temporal::format_timestamp_micros(
            array.as_primitive::<TimestampMicrosecondType>().value(row),
            false,
        ),
        DataType::Binary => text::hex(array.as_binary::<i32>().value(row)),
        DataType::FixedSizeBinary(_) => text::format_uuid(array.as_fixed_size_binary().value(row)),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_string(),
        other => panic!("{other} is no wire form of PostgreSQL"),
    }
}

fn column(batches: &[RecordBatch], name: &str) -> Vec<String> {
    let cells = |b: &RecordBatch| -> Vec<String> {
        let array = b.column_by_name(name).unwrap().clone();
        (0..b.num_rows()).map(|row| cell(array.as_ref(), row)).collect()
    };
    batches.iter().flat_map(cells).collect()
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn every_type_arrives_in_its_wire_form() {
    database(|db| async move {
        db.run(
            "create type mood as enum ('sad', 'glad'); create domain price as numeric(10,2) not null;
                create domain label as price[]; create type pair as (a int, b text)",
        )
        .await;
        // column type, logical type, then values as SQL and as they must arrive.
        let int = |bits| LogicalType::Int { bits, signed: true };
        let array = |of: LogicalType| LogicalType::Array(Box::new(of));
        let cases: Vec<(&str, LogicalType, Vec<(&str, &str)>)> = vec![
            ("int2", int(16), vec![("'-32768'", "-32768"), ("null", "NULL")]),
            ("int4", int(32), vec![("2147483647", "2147483647")]),
            ("int8", int(64), vec![("'-9223372036854775808'", "-9223372036854775808")]),
            ("oid", LogicalType::Int { bits: 32, signed: false }, vec![("4294967295", "4294967295")]),
            (
                "numeric(12,2)",
                LogicalType::Decimal { precision: 12, scale: 2 },
                vec![("-9999999999.99", "-9999999999.99"), ("'NaN'", "NaN"), ("0", "0.00"), ("0.05", "0.05")],
            ),
            (
                "numeric(38,0)",
                LogicalType::Decimal { precision: 38, scale: 0 },
                vec![("99999999999999999999999999999999999999", "99999999999999999999999999999999999999")],
            ),
            (
                "numeric",
                LogicalType::DecimalText,
                vec![
                    ("1.50", "1.5"),
                    ("'Infinity'", "Infinity"),
                    ("'-Infinity'", "-Infinity"),
                    ("'NaN'", "NaN"),
                    ("-0.00000001", "-0.00000001"),
                    ("1e40", "1e40"),
                    ("123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789"),
                ],
            ),
            ("numeric(39,1)", LogicalType::DecimalText, vec![("12.5", "12.5")]),
            ("numeric(3,-2)", LogicalType::DecimalText, vec![("12345", "12300")]),
            ("float4", LogicalType::Float32, vec![("0.1", "0.1"), ("'NaN'", "NaN"), ("'-Infinity'", "-inf")]),
            (
                "float8",
                LogicalType::Float64,
                vec![
                    ("0.1", "0.1"),
                    ("'-0.00000123456789012345'", "-0.00000123456789012345"),
                    ("'Infinity'", "inf"),
                ],
            ),
            ("money", LogicalType::Decimal { precision: 19, scale: 2 }, vec![("'-1234.5'", "-1234.50")]),
            ("bool", LogicalType::Bool, vec![("true", "true"), ("false", "false")]),
            ("char(5)", LogicalType::Text { max: Some(5), padded: true }, vec![("'ab'", "ab   ")]),
            (
                "varchar(20)",
                LogicalType::Text { max: Some(20), padded: false },
                vec![("'zwölf'", "zwölf"), ("''", "")],
            ),
            ("text", LogicalType::TEXT, vec![(r"E'a\tb\n\\N'", "a\tb\n\\N"), ("' x '", " x ")]),
            ("name", LogicalType::TEXT, vec![("'n'", "n")]),
            ("\"char\"", LogicalType::TEXT, vec![("'x'", "x")]),
            ("macaddr", LogicalType::TEXT, vec![("'08-00-2b-01-02-03'", "08:00:2b:01:02:03")]),
            ("bytea", LogicalType::Bytes, vec![(r"'\x00ff'", "00ff"), ("''", "")]),
            (
                "date",
                LogicalType::Date,
                vec![
                    ("'2026-02-28'", "2026-02-28"),
                    ("'infinity'", "infinity"),
                    ("'-infinity'", "-infinity"),
                    ("'0044-03-15 BC'", "-0043-03-15"),
                    ("'4714-11-24 BC'", "-4713-11-24"),
                    ("'5874897-12-31'", "+5874897-12-31"),
                ],
            ),
            (
                "time",
                LogicalType::Time { digits: 6 },
                vec![("'23:59:59.999999'", "23:59:59.999999"), ("'24:00:00'", "24:00:00")],
            ),
            ("time(0)", LogicalType::Time { digits: 0 }, vec![("'01:02:03'", "01:02:03")]),
            ("timetz", LogicalType::Other, vec![("'01:02:03+02'", "01:02:03+02")]),
            (
                "timestamp",
                LogicalType::Timestamp { digits: 6, zoned: false },
                vec![
                    ("'2026-11-30 12:00:00.000001'", "2026-11-30T12:00:00.000001"),
                    ("'infinity'", "infinity"),
                    ("'-infinity'", "-infinity"),
                    ("'0001-12-31 23:00 BC'", "0000-12-31T23:00:00"),
                ],
            ),
            (
                "timestamptz(3)",
                LogicalType::Timestamp { digits: 3, zoned: true },
                vec![("'2026-11-30 12:00:00.123+02'", "2026-11-30T10:00:00.123")],
            ),
            (
                "interval",
                LogicalType::Interval,
                vec![("'1 year 2 mons -3 days 04:05:06.5'", "P1Y2M-3DT4H5M6.5S"), ("'0'", "PT0S")],
            ),
            (
                "uuid",
                LogicalType::Uuid,
                vec![("'EC0CD358-9C6E-5BAB-B47B-2A9D042E0F4D'", "ec0cd358-9c6e-5bab-b47b-2a9d042e0f4d")],
            ),
            (
                "json",
                LogicalType::Json,
                vec![(r#"'{"a":1, "a":2}'"#, r#"{"a":1, "a":2}"#), ("'null'", "null")],
            ),
            ("jsonb", LogicalType::Json, vec![(r#"'{"b":1.0,"a":"ä"}'"#, r#"{"a": "ä", "b": 1.0}"#)]),
            (
                "int4[]",
                array(int(32)),
                vec![("'{1,null,3}'", "[1,null,3]"), ("'{}'", "[]"), ("'{{1,2},{3,4}}'", "[[1,2],[3,4]]")],
            ),
            (
                "numeric(12,2)[]",
                array(LogicalType::Decimal { precision: 12, scale: 2 }),
                vec![("'{1.10,NaN}'", r#"[1.10,"NaN"]"#)],
            ),
            ("text[]", array(LogicalType::TEXT), vec![(r#"array['a"b', null]"#, r#"["a\"b",null]"#)]),
            (
                "date[]",
                array(LogicalType::Date),
                vec![("'{2026-01-02,infinity}'", r#"["2026-01-02","infinity"]"#)],
            ),
            (
                "timestamptz[]",
                array(LogicalType::Timestamp { digits: 6, zoned: true }),
                vec![("'{2026-01-02 03:04:05+02}'", r#"["2026-01-02T01:04:05+00:00"]"#)],
            ),
            ("mood", LogicalType::Enum, vec![("'glad'", "glad")]),
            ("mood[]", array(LogicalType::Enum), vec![("'{glad}'", r#"["glad"]"#)]),
            ("bit(3)", LogicalType::Bits { len: Some(3) }, vec![("'101'", "101")]),
            ("varbit", LogicalType::Bits { len: None }, vec![("'110100010'", "110100010"), ("''", "")]),
            (
                "inet",
                LogicalType::Inet,
                vec![
                    ("'10.0.0.1'", "10.0.0.1"),
                    ("'10.0.0.1/8'", "10.0.0.1/8"),
                    ("'2001:DB8::1'", "2001:db8::1"),
                ],
            ),
            ("cidr", LogicalType::Inet, vec![("'10.0.0.0/8'", "10.0.0.0/8")]),
            ("price", LogicalType::Decimal { precision: 10, scale: 2 }, vec![("1.5", "1.50")]),
            ("label", array(LogicalType::Decimal { precision: 10, scale: 2 }), vec![("'{1.5}'", "[1.50]")]),
            ("xml", LogicalType::Other, vec![("'<a/>'", "<a/>")]),
            ("int4range", LogicalType::Other, vec![("'[1,5)'", "[1,5)")]),
            (
                "tstzrange",
                LogicalType::Other,
                vec![("'[2026-01-01 00:00+01,)'", "[\"2025-12-31 23:00:00+00\",)")],
            ),
            ("tsvector", LogicalType::Other, vec![("'b a'", "'a' 'b'")]),
            ("point", LogicalType::Other, vec![("'(1,0.1)'", "(1,0.1)")]),
            ("point[]", LogicalType::Other, vec![("array['(1,2)'::point]", "{\"(1,2)\"}")]),
            ("pair", LogicalType::Other, vec![("'(1,x)'", "(1,x)")]),
            ("pg_lsn", LogicalType::Other, vec![("'0/16B6C50'", "0/16B6C50")]),
        ];
        let columns: Vec<String> = cases.iter().enumerate().map(|(i, (t, ..))| format!("c{i} {t}")).collect();
        db.run(&format!(
            "create table kinds (id int primary key, {})",
            columns.join(", ").replace("price,", "price default 0,")
        ))
        .await;
        let deepest = cases.iter().map(|c| c.2.len()).max().unwrap();
        for row in 0..deepest {
            let value = |c: &(&str, LogicalType, Vec<(&str, &str)>)| match c.2.get(row) {
                Some((sql, _)) => format!("{sql}::{}", c.0),
                None if c.0 == "price" => "0".into(),
                None => "null".into(),
            };
            let values: Vec<String> = cases.iter().map(value).collect();
            db.run(&format!("insert into kinds values ({row}, {})", values.join(", "))).await;
        }
        let (shape, batches) = read(&db.endpoint("public.kinds"), &["id"]).await;
        for (i, (kind, logical, values)) in cases.iter().enumerate() {
            let name = format!("c{i}");
            assert_eq!(&shape.column(&name).unwrap().logical, logical, "{kind}");
            let got = column(&batches, &name);
            for (row, (sql, want)) in values.iter().enumerate() {
                let got = match logical {
                    LogicalType::DecimalText => decimal::Number::parse(&got[row]).unwrap(),
                    _ => {
                        assert_eq!(&got[row], want, "{kind} {sql}");
                        continue;
                    }
                };
                assert_eq!(got, decimal::Number::parse(want).unwrap(), "{kind} {sql}");
            }
        }
        let price = cases.iter().position(|c| c.0 == "price").unwrap();
        assert_eq!(shape.column(&format!("c{price}")).unwrap().nullable, Some(false), "a domain's not null");
        // The same through a query: the types stay, precision too where a column comes straight from a table.
        let (query, again) = read(&db.endpoint("(select * from kinds)"), &[]).await;
        for c in &shape.columns {
            assert_eq!(query.column(&c.name).unwrap().logical, c.logical, "{}", c.engine_type);
            assert_eq!(query.column(&c.name).unwrap().engine_type, c.engine_type);
        }
        assert_eq!(count(&again), count(&batches));
    })
    .await;
}

#[tokio::test]
async fn a_timestamp_that_drift_cannot_hold_is_an_error_and_not_infinity() {
    database(|db| async move {
        db.run("create table t (at timestamp); insert into t values ('294276-12-31')").await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let snapshot = endpoint.open(&shape, request(&shape, &[], 1)).await.unwrap();
        let error = batches(snapshot.as_ref(), &Scope::Whole).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(error.message.contains("column at") && !error.message.contains("294276"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_table_is_described_with_keys_orders_and_defaults() {
    database(|db| async move {
        db.run(r#"create table "Or.ders" (
                    id bigint generated always as identity, "Code" text collate "C" not null, name text not null,
                    shop int not null default 3, twice int generated always as (shop * 2) stored, note varchar(10),
                    primary key (id), unique (shop, "Code"));
                  create unique index on "Or.ders" (name);
                  create unique index on "Or.ders" (note) where note is not null;
                  create unique index on "Or.ders" (lower(name));
                  create index on "Or.ders" (shop desc);
                  create index on "Or.ders" (shop, note desc);
                  create index on "Or.ders" using hash (shop);
                  create index on "Or.ders" (note collate "C");
                  create index on "Or.ders" (name text_pattern_ops);
                  insert into "Or.ders" ("Code", name) select 'c' || i, 'n' || i from generate_series(1, 500) i;
                  analyze "Or.ders""#).await;
        let shape = db.endpoint(r#""Or.ders""#).describe().await.unwrap();
        let names = |list: &[Vec<String>]| list.iter().map(|c| c.join(",")).collect::<Vec<_>>();
        assert_eq!(shape.primary_key, ["id"]);
        assert_eq!(names(&shape.unique), ["id", "shop,Code", "name"]);
        assert_eq!(names(&shape.index_orders), ["id", "shop,Code", "name", "shop"]);
        assert_eq!(shape.row_estimate, Some(500));
        assert_eq!(shape.hidden_rows, None);
        let c = |name: &str| shape.column(name).unwrap();
        assert_eq!(c("id").default.as_deref(), Some("generated always as identity"));
        assert_eq!(c("shop").default.as_deref(), Some("3"));
        assert_eq!(c("twice").default.as_deref(), Some("generated always as ((shop * 2)) stored"));
        assert_eq!((c("shop").nullable, c("note").nullable), (Some(false), Some(true)));
        assert_eq!((c("Code").order, c("name").order, c("id").order),
                   (NativeOrder::Bytes, NativeOrder::Other, NativeOrder::Value));
        assert_eq!(c("note").engine_type, "character varying(10)");
        assert!(shape.delivers_order(&["id".to_string()]));
    })
    .await;
}

#[tokio::test]
async fn what_is_missing_is_named_with_what_was_meant() {
    database(|db| async move {
        db.run("create schema sales; create table sales.orders (id int); create sequence s").await;
        for object in ["public.orders", "ORDERS", "order"] {
            let error = db.endpoint(object).describe().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.message.contains("did you mean sales.orders?"), "{error}");
            assert!(
                error.message.starts_with("postgres://")
                    && !error.message.contains(db.url.password().unwrap())
            );
        }
        let error = db.endpoint("s").describe().await.unwrap_err();
        assert!(error.message.contains("neither a table nor a view"), "{error}");
        let error = db.endpoint("(select nonsense)").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("nonsense"), "{error}");
        let error = db.endpoint("(select 1 as a, 2 as a)").describe().await.unwrap_err();
        assert!(error.message.contains("two columns called a"), "{error}");
    })
    .await;
}

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
    assert_eq!(error.kind, ErrorKind::Unavailable);
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
        db.run(r#"create table t (id int primary key, u uuid unique, c text collate "C" unique, at timestamp unique, plain int);
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

#[tokio::test]
async fn privileges_are_named_before_anything_is_compared() {
    database(|db| async move {
        let (other, user) = db.user().await;
        db.run(&format!(
            "create table t (id int primary key, secret text, open text); insert into t values (1, 's', 'o');
                create schema hidden; create table hidden.t (id int); create table closed (id int);
                grant select (id, open) on t to {user}"
        ))
        .await;
        let endpoint = other.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        let why = shape.column("secret").unwrap().unreadable.clone().unwrap();
        assert_eq!(
            why,
            format!("no SELECT privilege on column secret for user {user}; grant it or exclude the column")
        );
        assert_eq!(shape.column("open").unwrap().unreadable, None);
        let error = endpoint.open(&shape, request(&shape, &[], 1)).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        let some = ReadRequest { columns: vec!["id".into(), "open".into()], ..request(&shape, &["id"], 2) };
        let snapshot = endpoint.open(&shape, some).await.unwrap();
        assert_eq!(count(&batches(snapshot.as_ref(), &Scope::Whole).await.unwrap()), 1);
        for object in ["hidden.t", "closed"] {
            let error = other.endpoint(object).describe().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused);
            assert!(error.message.contains("grant ") && error.message.contains(&user), "{error}");
        }
        let error = other.endpoint("(select * from closed)").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    })
    .await;
}

#[tokio::test]
async fn row_security_is_seen_through_views_and_queries() {
    database(|db| async move {
        let (other, user) = db.user().await;
        db.run(&format!("create table t (id int primary key); insert into t select generate_series(1, 10);
                alter table t enable row level security; create policy half on t using (id <= 5);
                create table plain (id int primary key);
                create view by_owner as select * from t; create view by_user with (security_invoker) as select * from t;
                grant select on all tables in schema public to {user}")).await;
        for (object, hidden) in [("t", true), ("plain", false), ("by_owner", false), ("by_user", true), ("(select id from t)", true), ("(select id from plain)", false)] {
            let (shape, _) = read(&other.endpoint(object), &[]).await;
            assert_eq!(shape.hidden_rows.is_some(), hidden, "{object}");
            if hidden {
                assert_eq!(shape.hidden_rows.unwrap(), format!("row security is active for user {user}: rows may be hidden"));
            }
        }
        assert_eq!(db.endpoint("t").describe().await.unwrap().hidden_rows, None, "a superuser sees all rows");
    })
    .await;
}

#[tokio::test]
async fn views_queries_partitions_and_inheritance_are_read_whole() {
    database(|db| async move {
        db.run(r#"create table "Odd ""Name" (id int primary key, "Mixed Case" numeric(12,2)); insert into "Odd ""Name" values (1, 2.5);
                create view v as select id, "Mixed Case" as amount from "Odd ""Name";
                create materialized view m as select * from v;
                create table part (id int not null, region text not null, primary key (id, region)) partition by list (region);
                create table part_a partition of part for values in ('a'); create table part_b partition of part for values in ('b');
                insert into part values (1, 'a'), (2, 'b'), (3, 'b');
                create table parent (id int primary key); create table child () inherits (parent);
                insert into parent values (1); insert into child values (1), (2)"#).await;
        let (shape, rows) = read(&db.endpoint(r#"public."Odd ""Name""#), &["id"]).await;
        assert_eq!((shape.columns[1].name.as_str(), column(&rows, "Mixed Case")), ("Mixed Case", vec!["2.50".to_string()]));
        for object in ["v", "m"] {
            let (shape, rows) = read(&db.endpoint(object), &[]).await;
            assert_eq!((count(&rows), shape.columns[1].engine_type.as_str()), (1, "numeric(12,2)"), "{object}");
        }
        assert_eq!(db.endpoint("v").describe().await.unwrap().columns[0].nullable, None);
        let (shape, rows) = read(&db.endpoint("part"), &["id", "region"]).await;
        assert_eq!((count(&rows), shape.primary_key.join(",")), (3, "id,region".to_string()));
        let (shape, rows) = read(&db.endpoint("parent"), &[]).await;
        assert_eq!((count(&rows), shape.primary_key, shape.unique.len(), shape.index_orders.len()), (3, vec!["id".to_string()], 0, 0));
        let (shape, rows) = read(&db.endpoint("(select id, \"Mixed Case\" as a, now() as at, 1.5::numeric(4,1) as n from \"Odd \"\"Name\"; )"), &[]).await;
        let kinds: Vec<String> = shape.columns.iter().map(|c| c.logical.to_string()).collect();
        assert_eq!((kinds.join(" "), count(&rows)), ("int32 decimal(12,2) timestamptz(6) decimal".to_string(), 1));
        assert!(shape.primary_key.is_empty() && shape.columns.iter().all(|c| c.nullable.is_none()));
        // A table without any column still has rows.
        db.run("create table bare (); insert into bare default values").await;
        let (_, rows) = read(&db.endpoint("bare"), &[]).await;
        assert_eq!(count(&rows), 1);
    })
    .await;
}

#[tokio::test]
async fn a_table_that_changes_before_the_view_is_refused() {
    database(|db| async move {
        db.run("create table t (id int primary key, a int); create table u (id int)").await;
        let (t, u) = (db.endpoint("t"), db.endpoint("u"));
        let (then_t, then_u) = (t.describe().await.unwrap(), u.describe().await.unwrap());
        db.run("alter table t alter a type bigint; drop table u").await;
        for (endpoint, shape) in [(&t, &then_t), (&u, &then_u)] {
            let error = endpoint.open(shape, request(shape, &[], 1)).await.err().unwrap();
            assert_eq!(error.kind, ErrorKind::Data, "{error}");
        }
        // Once open, the view holds a lock: a change waits, and the rows stay readable.
        let shape = t.describe().await.unwrap();
        db.run("insert into t values (1, 1)").await;
        let snapshot = t.open(&shape, request(&shape, &[], 1)).await.unwrap();
        let mut connection = db.connect().await;
        let blocked = connection.execute("set lock_timeout = '200ms'; truncate t").await.unwrap_err();
        assert!(blocked.to_string().contains("lock timeout"), "{blocked}");
        assert_eq!(count(&batches(snapshot.as_ref(), &Scope::Whole).await.unwrap()), 1);
    })
    .await;
}

#[tokio::test]
async fn a_locked_table_is_given_up_after_the_lock_timeout() {
    database(|db| async move {
        db.run("create table t (id int)").await;
        let mut holder = db.connect().await;
        holder.execute("begin; lock table t in access exclusive mode").await.unwrap();
        let error = db.endpoint("t").describe().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("locked by somebody else"), "{error}");
    })
    .await;
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
        if sqlx_user_is_root() {
            // pgbouncer refuses to run as root.
            command.args(["-u", "nobody"]);
            for path in [folder.path(), &config, &users] {
                let mode = if path.is_dir() { 0o755 } else { 0o644 };
                std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            }
        }
        let child = command.arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Bouncer { child, port, _folder: folder };
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

fn sqlx_user_is_root() -> bool {
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

#[tokio::test]
async fn text_that_is_no_utf8_is_an_error() {
    let name = format!("drift_{}_ascii", std::process::id());
    let admin = Database { url: server(), name: name.clone() };
    admin.run(&format!("create database {name} template template0 encoding 'SQL_ASCII' locale 'C'")).await;
    let mut url = server();
    url.set_path(&name);
    let db = Database { url, name: name.clone() };
    db.run(
        r"create table t (id int, word text); insert into t values (1, convert_from('\xff', 'SQL_ASCII'))",
    )
    .await;
    let endpoint = db.endpoint("t");
    let shape = endpoint.describe().await.unwrap();
    let snapshot = endpoint.open(&shape, request(&shape, &[], 1)).await.unwrap();
    let outcome = batches(snapshot.as_ref(), &Scope::Whole).await;
    drop(snapshot);
    admin.run(&format!("drop database {name} with (force)")).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data);
    assert!(error.message.contains("not valid in UTF-8"), "{error}");
}
