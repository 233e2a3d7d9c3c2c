//! Types and values.

use super::*;

/// A column's type, its logical type, and values: as SQL and as they must arrive.
type Case = (&'static str, LogicalType, Vec<(&'static str, &'static str)>);

#[tokio::test]
async fn every_type_arrives_in_its_wire_form() {
    database(|db| async move {
        db.run(
            "create extension citext; create extension hstore; create type mood as enum ('sad', 'glad'); create domain price as numeric(10,2) not null;
                create domain label as price[]; create type pair as (a int, b text)",
        )
        .await;
        let int = |bits| LogicalType::Int { bits, signed: true };
        let array = |of: LogicalType| LogicalType::Array(Box::new(of));
        let cases: Vec<Case> = vec![
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
            ("citext", LogicalType::TEXT, vec![("'MiXed'", "MiXed")]),
            ("hstore", LogicalType::Other, vec![("'a=>1'", "\"a\"=>\"1\"")]),
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
            let value = |c: &Case| match c.2.get(row) {
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
