//! Twins: whatever rows two engines hold, the same values have the same digests, and a single changed value is found as
//! exactly that. Random rows of every type that the pair can hold, on the real servers.

use std::sync::Arc;

use drift::compare::{CompareOutcome, CompareRequest, Control, Endpoints, KeyChoice, Verdict, compare};
use drift::config::address::{Address, CsvOptions};
use drift::endpoint;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use crate::support::block_on;
use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::twin::{Datum, Kind, Twin, kind};

/// All columns. An empty type means that the engine has none for these values.
fn kinds() -> Vec<Kind> {
    use Datum as D;
    let int = |n: i128| D::Int(n);
    let text = || {
        prop_oneof![
            "\\PC{0,24}",
            "[ \t\r\n'\"\\\\,;|#%_$`]{0,8}",
            "[a-z]{0,4} {0,3}",
            select(vec!["", "NULL", "\\N", "<null>", "0", "nan", "ä", "a\u{308}", "🦀", "🐙", "İ"])
                .prop_map(str::to_string),
        ]
    };
    let day = |first: u32, last: u32| {
        (first..=last, 1u32..=12, 1u32..=28).prop_map(|(y, m, d)| format!("{y:04}-{m:02}-{d:02}"))
    };
    let second =
        || (0u32..86_400, prop_oneof![Just(0), 0u32..1_000_000]).prop_map(|(s, us)| D::Clock(s, us).text());
    let moment =
        |first, last| (day(first, last), second()).prop_map(|(day, second)| format!("{day} {second}"));
    let document = {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|b| json!(b)),
            any::<i64>().prop_map(|n| json!(n)),
            text().prop_map(|s| json!(s)),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
                prop::collection::btree_map("[a-zä\"\\\\ ]{0,5}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    };
    let finite = || any::<f64>().prop_filter("finite", |x| x.is_finite());
    vec![
        kind(
            "tiny",
            ["smallint", "tinyint", "integer", "int32 (INTEGER(8,true))"],
            any::<i8>().prop_map(move |n| int(n.into())),
        ),
        kind("whole", ["int", "int", "integer", "int32"], any::<i32>().prop_map(move |n| int(n.into()))),
        kind("big", ["bigint", "bigint", "integer", "int64"], any::<i64>().prop_map(move |n| int(n.into()))),
        kind(
            "huge",
            ["numeric(20,0)", "bigint unsigned", "text", ""],
            any::<u64>().prop_map(move |n| int(n.into())),
        ),
        kind("year", ["int", "year", "integer", "int32"], (1901i128..=2155).prop_map(int)),
        kind(
            "money",
            ["numeric(30,10)", "decimal(30,10)", "text", "fixed_len_byte_array(16) (DECIMAL(30,10))"],
            (-10i128.pow(30) + 1..10i128.pow(30)).prop_map(|n| D::Decimal(n, 10)),
        ),
        kind(
            "exact",
            ["numeric", "decimal(65,20)", "text", "binary (STRING)"],
            any::<i128>().prop_map(|n| D::Plain(D::Decimal(n, 20).text())),
        ),
        kind(
            "single",
            ["real", "float", "real", "float"],
            any::<f32>()
                .prop_filter("finite", |x| x.is_finite() && !x.is_subnormal())
                .prop_map(|x| D::Real(x.into())),
        ),
        kind("long_float", ["double precision", "double", "real", "double"], finite().prop_map(D::Real)),
        kind("wild", ["double precision", "", "", "double"], any::<f64>().prop_map(D::Real)),
        kind("flag", ["boolean", "tinyint(1)", "boolean", "boolean"], any::<bool>().prop_map(D::Bool)),
        kind("note", ["text", "longtext", "text", "binary (STRING)"], text().prop_map(D::Text)),
        kind(
            "code",
            ["varchar(40)", "varchar(40)", "varchar(40)", "binary (STRING)"],
            text().prop_map(D::Text),
        ),
        kind(
            "padded",
            ["char(12)", "char(12)", "text", "binary (STRING)"],
            "[a-zäß🦀 ]{0,11}".prop_map(|s| D::Text(s.trim_end().to_string())),
        ),
        kind(
            "raw",
            ["bytea", "longblob", "blob", "binary"],
            prop::collection::vec(any::<u8>(), 0..12).prop_map(D::Bytes),
        ),
        kind("day", ["date", "date", "date", "int32 (DATE)"], day(1, 9999).prop_map(D::Moment)),
        kind(
            "clock",
            ["time(6)", "time(6)", "time", "int64 (TIME(MICROS,false))"],
            (0u32..86_400, 0u32..1_000_000).prop_map(|(s, us)| D::Clock(s, us)),
        ),
        kind(
            "moment",
            ["timestamp(6)", "datetime(6)", "datetime", "int64 (TIMESTAMP(MICROS,false))"],
            moment(1, 9999).prop_map(D::Moment),
        ),
        kind(
            "instant",
            ["timestamptz(6)", "timestamp(6) null", "timestamptz", "int64 (TIMESTAMP(MICROS,true))"],
            moment(1971, 2037).prop_map(D::Instant),
        ),
        kind(
            "token",
            ["uuid", "uuid", "uuid", "fixed_len_byte_array(16) (UUID)"],
            any::<[u8; 16]>().prop_map(|mut bytes| {
                // MariaDB takes no others than those of RFC 4122.
                bytes[6] = bytes[6] & 0x0f | 0x40;
                bytes[8] = bytes[8] & 0x3f | 0x80;
                D::Uuid(bytes)
            }),
        ),
        kind("document", ["jsonb", "json", "json", "binary (JSON)"], document.clone().prop_map(D::Json)),
        kind("spelled", ["json", "longtext", "text", "binary (JSON)"], document.prop_map(D::Json)),
        kind(
            "label",
            ["mood", "enum('calm','mild','wild ''n'' free')", "text", "binary (ENUM)"],
            select(vec!["calm", "mild", "wild 'n' free"]).prop_map(|s| D::Plain(s.into())),
        ),
        kind(
            "tags",
            ["text", "set('a','b','c','d')", "text", "binary (STRING)"],
            subsequence(vec!["a", "b", "c", "d"], 0..=4).prop_map(|tags| D::Plain(tags.join(","))),
        ),
        kind("bits", ["bit(12)", "bit(12)", "text", "binary (STRING)"], "[01]{12}".prop_map(D::Bits)),
        kind(
            "address",
            ["inet", "inet6", "text", "binary (STRING)"],
            any::<[u16; 8]>().prop_map(|parts| D::Plain(std::net::Ipv6Addr::from(parts).to_string())),
        ),
        kind(
            "span",
            ["interval", "varchar(60)", "text", "binary (STRING)"],
            (-99i32..99, -99i32..99, 0u32..90_000, 0u32..1_000_000)
                .prop_map(|(m, d, s, us)| D::Plain(format!("P{m}M{d}DT{s}.{us:06}S"))),
        ),
        kind(
            "list",
            ["int[]", "json", "json", "binary (JSON)"],
            prop::collection::vec(prop::option::of(any::<i32>()), 0..5).prop_map(D::List),
        ),
    ]
}

fn outcome(source: &Twin, target: &Twin) -> CompareOutcome {
    let endpoints: Endpoints = [source, target].map(|twin| {
        let parsed = Address::parse(&twin.address(), &|_| None).expect("an address");
        Arc::from(endpoint::of(&parsed.address, &CsvOptions::default()).expect("an endpoint"))
    });
    let request = CompareRequest { key: KeyChoice::Columns(vec!["id".into()]), ..CompareRequest::default() };
    block_on(compare(&endpoints, &request, Arc::new(Control::default()))).expect("a comparison")
}

fn twins(source: &Twin, target: &Twin) {
    let held = |kind: &Kind| !source.declared(kind).is_empty() && !target.declared(kind).is_empty();
    let kinds: Vec<Kind> = kinds().into_iter().filter(held).collect();
    source.create(&kinds);
    target.create(&kinds);
    let value = |kind: &Kind| prop_oneof![1 => Just(Datum::Null), 6 => kind.values.clone()].boxed();
    let row: Vec<BoxedStrategy<Datum>> = kinds.iter().map(value).collect();
    let input = (prop::collection::vec(row.clone(), 1..30), any::<Index>(), any::<Index>(), row);
    let cases = if std::env::var_os("DRIFT_TEST_LONG").is_some() { 500 } else { 24 };
    let config = Config { cases, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
    let checked = TestRunner::new(config).run(&input, |(rows, at, column, other)| {
        let rows: Vec<(i64, Vec<Datum>)> = (0..).zip(rows).collect();
        source.fill(&kinds, &rows);
        target.fill(&kinds, &rows);
        let same = outcome(source, target);
        let tally = same.tally.as_ref().expect("compared rows");
        prop_assert_eq!(same.not_compared.as_slice(), &[]);
        prop_assert_eq!(&tally.differences, &[]);
        prop_assert_eq!(same.verdict(), Verdict::Equal);
        prop_assert_eq!(tally.digests[0], tally.digests[1]);
        prop_assert_eq!(tally.equal, rows.len() as u64);

        let (at, column) = (at.index(rows.len()), column.index(kinds.len()));
        prop_assume!(rows[at].1[column] != other[column]);
        let mut changed = rows;
        changed[at].1[column] = other[column].clone();
        target.fill(&kinds, &changed);
        for (source, target) in [(source, target), (target, source)] {
            let one = outcome(source, target);
            let tally = one.tally.as_ref().expect("compared rows");
            prop_assert_eq!(one.verdict(), Verdict::Drift);
            prop_assert_ne!(tally.digests[0], tally.digests[1]);
            prop_assert_eq!((tally.changed, tally.different()), (1, 1));
            let found = &tally.differences[0];
            prop_assert_eq!(&found.columns, &[kinds[column].name]);
            prop_assert_eq!(found.key["id"].as_str().map(str::to_string), Some(at.to_string()));
        }
        Ok(())
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn postgres_and_mariadb() {
    twins(&Twin::Postgres(Postgres::fresh()), &Twin::MySql(MySql::fresh()));
}

#[test]
fn postgres_and_sqlite() {
    twins(&Twin::Postgres(Postgres::fresh()), &Twin::Sqlite(Sqlite::fresh()));
}

#[test]
fn postgres_and_parquet() {
    twins(&Twin::Postgres(Postgres::fresh()), &Twin::parquet());
}

#[test]
fn mariadb_and_csv() {
    twins(&Twin::MySql(MySql::fresh()), &Twin::csv());
}

#[test]
fn mariadb_and_parquet() {
    twins(&Twin::MySql(MySql::fresh()), &Twin::parquet());
}

#[test]
fn sqlite_and_csv() {
    twins(&Twin::Sqlite(Sqlite::fresh()), &Twin::csv());
}
