//! The PostgreSQL endpoint against a real server: `DRIFT_TEST_POSTGRES` is a superuser's URL, over TCP and with a
//! password.

mod connections;
mod scans;
mod shapes;
mod types;

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
