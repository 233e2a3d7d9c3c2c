//! What tables look like: names, keys, privileges, changes.

use super::*;

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
async fn foreign_tables_are_read_by_one_connection() {
    database(|db| async move {
        db.run("create extension file_fdw; create server files foreign data wrapper file_fdw;
                create foreign table f (id int not null) server files options (program 'echo 7');
                create table part (id int) partition by list (id); create table near partition of part for values in (1);
                create index on part (id); insert into part values (1);
                create foreign table far partition of part for values in (7) server files options (program 'echo 7')")
            .await;
        for (object, rows) in [("f", 1), ("part", 2), ("(select * from f)", 1)] {
            let endpoint = db.endpoint(object);
            let shape = endpoint.describe().await.unwrap();
            assert_eq!((shape.columns[0].nullable == Some(false), shape.index_orders.len()), (false, 0), "{object}");
            let snapshot = endpoint.open(&shape, request(&shape, &[], 4)).await.unwrap();
            assert_eq!((snapshot.workers(), snapshot.position().state), (1, None), "{object}");
            for _ in 0..2 {
                assert_eq!(count(&batches(snapshot.as_ref(), &Scope::Whole).await.unwrap()), rows, "{object}");
            }
        }
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
async fn a_table_emptied_between_the_view_and_the_lock_is_refused() {
    database(|db| async move {
        db.run("create table t (id int); insert into t values (1)").await;
        let endpoint = db.endpoint("t");
        let shape = endpoint.describe().await.unwrap();
        // The view is taken while the truncation is still open, the lock is granted once it has committed: the old
        // view of such a table shows no rows at all.
        let mut holder = db.connect().await;
        holder.execute("begin; truncate t").await.unwrap();
        let opening = tokio::spawn(async move { endpoint.open(&shape, request(&shape, &[], 1)).await.err() });
        tokio::time::sleep(Duration::from_secs(2)).await;
        holder.execute("commit").await.unwrap();
        let error = opening.await.unwrap().expect("refused");
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(error.message.contains("truncated or rewritten meanwhile"), "{error}");
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
