use std::path::PathBuf;
use std::time::Duration;

use drift::config::address::Object;
use drift::endpoint::sqlite::Sqlite;
use drift::endpoint::{Border, Endpoint, ErrorKind, ReadRequest, Scope, Snapshot};
use drift::value::shape::{LogicalType, NativeOrder, TableShape};
use futures::{StreamExt, TryStreamExt};
use rusqlite::Connection;

use super::reading::{all, table};

struct Database {
    folder: tempfile::TempDir,
    writer: Connection,
}

impl Database {
    fn new(sql: &str) -> Database {
        let folder = tempfile::tempdir().unwrap();
        let writer = Connection::open(folder.path().join("shop.db")).unwrap();
        writer.busy_timeout(Duration::ZERO).unwrap();
        writer.execute_batch(sql).unwrap();
        Database { folder, writer }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    fn table(&self, name: &str) -> Sqlite {
        Sqlite::new(self.path().to_str().unwrap(), &Object::Table { schema: None, name: name.into() })
    }

    fn query(&self, query: &str) -> Sqlite {
        Sqlite::new(self.path().to_str().unwrap(), &Object::Query(query.into()))
    }
}

async fn open(endpoint: &Sqlite, request: ReadRequest) -> (TableShape, Box<dyn Snapshot>) {
    let shape = endpoint.describe().await.unwrap();
    let snapshot = endpoint.open(&shape, request).await.unwrap();
    (shape, snapshot)
}

fn ids() -> ReadRequest {
    ReadRequest { columns: vec!["id".into()], order: vec!["id".into()], ..ReadRequest::default() }
}

#[tokio::test]
async fn mixed_values_keep_their_own_types() {
    let db = Database::new(
        "create table t (id integer primary key, v numeric, w);
         insert into t values (1, 7, 'x'), (2, 1.5, x'01ff'), (3, 'abc', null), (4, 9e999, ''),
           (5, -9223372036854775808, '7'), (6, 0.1, cast(x'ff' as text));",
    );
    let (columns, rows) = table(&db.table("t")).await.unwrap();
    assert_eq!(columns, ["id", "v", "w"]);
    let want = [
        ["Number(\"1\")", "Number(\"7\")", "Text(\"x\")"],
        ["Number(\"2\")", "Number(\"1.5\")", "Bytes([1, 255])"],
        ["Number(\"3\")", "Text(\"abc\")", "NULL"],
        ["Number(\"4\")", "Number(\"Infinity\")", "Text(\"\")"],
        ["Number(\"5\")", "Number(\"-9223372036854775808\")", "Text(\"7\")"],
        ["Number(\"6\")", "Number(\"0.1\")", "Bytes([255])"],
    ];
    assert_eq!(rows, want);
}

#[tokio::test]
async fn shapes_tell_keys_orders_and_hints() {
    let db = Database::new(
        "create table t (id integer primary key, name varchar(20) not null, price decimal(12,2) default 0,
           total as (price * 2) stored, note text collate nocase, unique (name, price));
         create index note_i on t (note); create index falling on t (price desc);
         create index some on t (price) where price > 3; create index plain on t (price, note);
         create table pairs (a text, b int, primary key (a, b)) without rowid;
         create table loose (k text primary key, id integer unique);
         create table down (id integer primary key desc);
         create table tight (id int, code text, data blob, anything any, primary key (code)) strict;
         create view v as select id, name from t;
         insert into t (id, name) values (3, 'a'), (12, 'b');",
    );
    let t = db.table("t").describe().await.unwrap();
    assert_eq!(t.primary_key, ["id"]);
    let id = t.column("id").unwrap();
    assert_eq!((id.nullable, id.order), (Some(false), NativeOrder::Value));
    let price = t.column("price").unwrap();
    assert_eq!((price.engine_type.as_str(), price.default.as_deref()), ("decimal(12,2)", Some("0")));
    let hint = LogicalType::Decimal { precision: 12, scale: 2 };
    assert_eq!(price.logical, LogicalType::Untyped(Some(Box::new(hint))));
    assert_eq!((price.nullable, price.order), (Some(true), NativeOrder::Other));
    assert!(t.column("total").is_some());
    assert_eq!(t.column("name").unwrap().nullable, Some(false));
    assert!(t.unique.contains(&vec!["id".into()]) && t.unique.contains(&vec!["name".into(), "price".into()]));
    assert!(t.index_orders.contains(&vec!["id".into()]));
    // `plain` orders by price alone, as its second column has another collation; `falling` and `some` do not count.
    let by_price: Vec<_> = t.index_orders.iter().filter(|o| o[0] == "price").collect();
    assert_eq!(by_price, [&["price"]]);
    assert!(!t.index_orders.iter().any(|o| o[0] == "note"));
    assert_eq!(t.row_estimate, Some(10));

    let pairs = db.table("pairs").describe().await.unwrap();
    assert!(pairs.delivers_order(&["a".into(), "b".into()]));
    assert_eq!(pairs.primary_key, ["a", "b"]);

    let loose = db.table("loose").describe().await.unwrap();
    assert_eq!(loose.column("k").unwrap().nullable, Some(true));
    assert_eq!(loose.column("id").unwrap().order, NativeOrder::Other);
    let down = db.table("down").describe().await.unwrap();
    assert_eq!(down.column("id").unwrap().order, NativeOrder::Other);
    assert_eq!(down.column("id").unwrap().nullable, Some(true));

    let tight = db.table("tight").describe().await.unwrap();
    let order = |name: &str| tight.column(name).unwrap().order;
    assert_eq!((order("id"), order("code")), (NativeOrder::Value, NativeOrder::Bytes));
    assert_eq!((order("data"), order("anything")), (NativeOrder::Bytes, NativeOrder::Other));
    assert_eq!(tight.column("code").unwrap().nullable, Some(false));

    let view = db.table("v").describe().await.unwrap();
    assert_eq!(
        view.columns.iter().map(|c| c.engine_type.as_str()).collect::<Vec<_>>(),
        ["INTEGER", "varchar(20)"]
    );
    assert!(view.index_orders.is_empty() && view.columns[0].nullable.is_none());
}

#[tokio::test]
async fn what_is_not_there_is_said_and_never_created() {
    let db = Database::new("create table orders (id integer primary key); create table items (id int);");
    let error = db.table("Orders").describe().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("did you mean orders?"), "{error}");
    let other = Object::Table { schema: Some("shop".into()), name: "orders".into() };
    let error = Sqlite::new(db.path().to_str().unwrap(), &other).describe().await.unwrap_err();
    assert!(error.kind == ErrorKind::Usage && error.message.contains("main"), "{error}");
    let main = Object::Table { schema: Some("main".into()), name: "orders".into() };
    Sqlite::new(db.path().to_str().unwrap(), &main).describe().await.unwrap();

    let absent = db.folder.path().join("absent.db");
    for path in [absent.to_str().unwrap(), ":memory:", "file:absent.db?mode=rwc"] {
        let error = Sqlite::new(path, &main).describe().await.unwrap_err();
        assert!(error.kind == ErrorKind::Usage && error.message.contains(path), "{error}");
    }
    assert!(!absent.exists());
    let error = Sqlite::new(db.folder.path().to_str().unwrap(), &main).describe().await.unwrap_err();
    assert!(error.kind == ErrorKind::Usage && error.message.contains("folder"), "{error}");
    let error = db.query("select nothing from orders").describe().await.unwrap_err();
    assert!(error.kind == ErrorKind::Usage && error.message.contains("nothing"), "{error}");
}

#[tokio::test]
async fn damaged_files_are_errors() {
    let db = Database::new(
        "pragma page_size = 512; create table t (id integer primary key, v text);
         with recursive n (i) as (select 1 union all select i + 1 from n where i < 5000)
           insert into t select i, printf('%050d', i) from n;",
    );
    let path = db.folder.path().join("noise.db");
    std::fs::write(&path, "this is no database at all, just text".repeat(40)).unwrap();
    let object = Object::Table { schema: None, name: "t".into() };
    let error = Sqlite::new(path.to_str().unwrap(), &object).describe().await.unwrap_err();
    assert!(error.kind == ErrorKind::Data && error.message.contains("not a SQLite database"), "{error}");

    let mut bytes = std::fs::read(db.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40 * 512].fill(0xa5);
    let path = db.folder.path().join("damaged.db");
    std::fs::write(&path, bytes).unwrap();
    let damaged = Sqlite::new(path.to_str().unwrap(), &object);
    let (_, snapshot) = open(&damaged, ids()).await;
    let error = all(snapshot.as_ref()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data, "{error}");
}

#[tokio::test]
async fn a_snapshot_stands_still_in_wal_mode() {
    let db = Database::new(
        "pragma journal_mode = wal; create table t (id integer primary key); insert into t values (1), (2);",
    );
    let endpoint = db.table("t");
    let (_, snapshot) = open(&endpoint, ids()).await;
    db.writer.execute_batch("delete from t where id = 1; insert into t values (3)").unwrap();
    assert_eq!(all(snapshot.as_ref()).await.unwrap(), [["Number(\"1\")"], ["Number(\"2\")"]]);
    assert_eq!(all(snapshot.as_ref()).await.unwrap().len(), 2);
    drop(snapshot);
    let (_, snapshot) = open(&endpoint, ids()).await;
    assert_eq!(all(snapshot.as_ref()).await.unwrap(), [["Number(\"2\")"], ["Number(\"3\")"]]);
    assert_eq!(snapshot.position().state, None);
}

#[tokio::test]
async fn a_database_that_nobody_has_open_stays_alone() {
    let db = Database::new(
        "pragma journal_mode = wal; create table t (id integer primary key);
         with recursive n (i) as (select 1 union all select i + 1 from n where i < 50000) insert into t select i from n;",
    );
    let (path, endpoint) = (db.path(), db.table("t"));
    let Database { folder, writer } = db;
    drop(writer);
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files(), 1);
    let (_, snapshot) = open(&endpoint, ids()).await;
    assert_eq!(all(snapshot.as_ref()).await.unwrap().len(), 50_000);
    assert_eq!(files(), 1);

    // A writer that comes meanwhile is noticed as soon as it changes the file itself.
    let mut stream = snapshot.scan(&Scope::Whole).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    std::thread::sleep(Duration::from_millis(20));
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("update t set id = -id where id > 40000; pragma wal_checkpoint(truncate)").unwrap();
    let error = stream.try_collect::<Vec<_>>().await.unwrap_err();
    assert!(error.kind == ErrorKind::Data && error.message.contains("writer"), "{error}");

    // Changes that nobody has taken over yet are not passed over.
    writer.execute_batch("insert into t values (0)").unwrap();
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(folder.path().join("shop.db-wal"), folder.path().join("copy.db-wal")).unwrap();
    let object = Object::Table { schema: None, name: "t".into() };
    let error = Sqlite::new(copy.to_str().unwrap(), &object).describe().await.unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("-wal"), "{error}");
}

#[tokio::test]
async fn a_snapshot_stands_still_with_a_rollback_journal() {
    let db = Database::new(
        "pragma journal_mode = delete; create table t (id integer primary key); insert into t values (1);",
    );
    let endpoint = db.table("t");
    db.writer.execute_batch("begin immediate; insert into t values (2)").unwrap();
    let (_, snapshot) = open(&endpoint, ids()).await;
    // The commit has to wait for the reader, who sees the old state.
    assert!(db.writer.execute_batch("commit").is_err());
    assert_eq!(all(snapshot.as_ref()).await.unwrap(), [["Number(\"1\")"]]);
    drop(snapshot);
    db.writer.execute_batch("commit").unwrap();
    let (_, snapshot) = open(&endpoint, ids()).await;
    assert_eq!(all(snapshot.as_ref()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_locked_database_is_unavailable_after_a_while() {
    let db = Database::new("create table t (id integer primary key);");
    db.writer.execute_batch("begin exclusive").unwrap();
    let error = db.table("t").describe().await.unwrap_err();
    assert!(error.kind == ErrorKind::Unavailable && error.message.contains("locked"), "{error}");
}

#[tokio::test]
async fn queries_filters_and_ranges_choose_rows() {
    let db = Database::new(
        "create table t (id integer primary key, v); insert into t values (1, 'a'), (2, 'b'), (3, 'c');",
    );
    let query = db.query("select id, v as x from t where id > 1 -- not the first");
    let (columns, rows) = table(&query).await.unwrap();
    assert_eq!((columns, rows.len()), (vec!["id".to_string(), "x".to_string()], 2));
    let twice = db.query("select id, id from t").describe().await.unwrap_err();
    assert!(twice.kind == ErrorKind::Usage && twice.message.contains("two columns"), "{twice}");

    let request = ReadRequest { filter: Some("t.id < 3".into()), ..ids() };
    let endpoint = db.table("t");
    let (shape, snapshot) = open(&endpoint, request).await;
    assert_eq!(all(snapshot.as_ref()).await.unwrap().len(), 2);
    assert_eq!(snapshot.cuts("id", 3).await.unwrap(), [Border::Int(2), Border::Int(3)]);
    assert_eq!(snapshot.cuts("v", 3).await.unwrap(), []);
    let range = Scope::KeyRange { column: "id".into(), from: Some(Border::Int(2)), to: None };
    let batches: Vec<_> = snapshot.scan(&range).await.unwrap().try_collect().await.unwrap();
    assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 1);
    assert_eq!(snapshot.cost().statements.load(std::sync::atomic::Ordering::Relaxed), 4);
    let sql = endpoint.explain(&shape, &ids(), &Scope::Whole);
    assert_eq!(sql, ["select \"t\".\"id\" from main.\"t\" order by \"t\".\"id\" collate binary"]);

    let request = ReadRequest { filter: Some("nonsense(".into()), ..ids() };
    let (_, snapshot) = open(&endpoint, request).await;
    assert_eq!(all(snapshot.as_ref()).await.unwrap_err().kind, ErrorKind::Usage);
}

#[tokio::test]
async fn an_ordered_read_does_not_sort() {
    let db = Database::new(
        "create table t (k text not null collate nocase, v); create unique index i on t (k collate binary);",
    );
    let endpoint = db.table("t");
    let shape = endpoint.describe().await.unwrap();
    assert!(shape.delivers_order(&["k".into()]));
    let request =
        ReadRequest { columns: vec!["k".into()], order: vec!["k".into()], ..ReadRequest::default() };
    let sql = endpoint.explain(&shape, &request, &Scope::Whole).remove(0);
    let plan: String =
        db.writer.query_row(&format!("explain query plan {sql}"), [], |row| row.get(3)).unwrap();
    assert!(plan.contains("USING COVERING INDEX i"), "{plan}");
}

#[tokio::test]
async fn scans_wait_for_each_other_and_end_when_dropped() {
    let db = Database::new(
        "create table t (id integer primary key, v text);
         with recursive n (i) as (select 1 union all select i + 1 from n where i < 50000)
           insert into t select i, 'x' from n;",
    );
    let endpoint = db.table("t");
    let (_, snapshot) = open(&endpoint, ids()).await;
    let mut first = snapshot.scan(&Scope::Whole).await.unwrap();
    assert!(first.next().await.unwrap().is_ok());
    drop(first);
    assert_eq!(all(snapshot.as_ref()).await.unwrap().len(), 50_000);

    // A query without any row yet is interrupted too.
    let endless = db.query(
        "with recursive n (i) as (select 1 union all select i + 1 from n) select i as id from n where i < 0",
    );
    let request = ReadRequest { columns: vec!["id".into()], ..ReadRequest::default() };
    let (_, snapshot) = open(&endless, request).await;
    let stream = snapshot.scan(&Scope::Whole).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(stream);
    let next = tokio::time::timeout(Duration::from_secs(10), snapshot.scan(&Scope::Whole)).await;
    drop(next.unwrap().unwrap());
}

#[tokio::test]
async fn a_changed_table_is_noticed() {
    let db = Database::new("create table t (id integer primary key, v text);");
    let endpoint = db.table("t");
    let shape = endpoint.describe().await.unwrap();
    db.writer.execute_batch("alter table t add column w").unwrap();
    let error = endpoint.open(&shape, ids()).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Data);
}
