use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Int32Array, Int64Array, ListArray, NullArray, StringArray, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};
use arrow::datatypes::{Int32Type, TimestampMicrosecondType};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::record_batch::RecordBatch;
use drift::config::address::CsvOptions;
use drift::endpoint::lake::Lake;
use drift::endpoint::{Endpoint, Error, ErrorKind, ReadRequest, Scope};
use drift::value::shape::{Engine, LogicalType, NativeOrder};
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::ArrowWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray, FixedLenByteArrayType, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::reading::{all, columns_of, table};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_string()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Folder {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    fn lake(&self, name: &str) -> Lake {
        Lake::new(&self.path(name), &CsvOptions::default())
    }
}

type Rows = Vec<Vec<String>>;

/// Reads one CSV file with the default options.
async fn csv(bytes: impl AsRef<[u8]>) -> Result<(Vec<String>, Rows), Error> {
    let folder = Folder::new();
    table(&folder.write("t.csv", bytes).lake("t.csv")).await
}

async fn csv_error(bytes: impl AsRef<[u8]>) -> String {
    let error = csv(bytes).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data, "{error}");
    assert!(error.message.contains("t.csv"), "{error}");
    error.message
}

fn t(text: &str) -> String {
    format!("Text({text:?})")
}

fn null() -> String {
    "NULL".into()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn ints(name: &str, values: Vec<i32>) -> RecordBatch {
    batch(vec![(name, Arc::new(Int32Array::from(values)))])
}

#[tokio::test]
async fn csv_nulls_quotes_and_line_breaks() {
    let (columns, rows) =
        csv("id,name\r\n1,\r\n2,\"\"\r\n\r\n3,\"a\r\nb \"\"c\"\", d\"\r\n4,é").await.unwrap();
    assert_eq!(columns, ["id", "name"]);
    assert_eq!(rows, [[t("1"), null()], [t("2"), t("")], [t("3"), t("a\r\nb \"c\", d")], [t("4"), t("é")]]);
    let (columns, rows) = csv("\u{feff}\"id\"\n\n1\n\"\"\n").await.unwrap();
    assert_eq!(columns, ["id"]);
    assert_eq!(rows, [[null()], [t("1")], [t("")]]);
}

#[tokio::test]
async fn csv_options_are_followed() {
    let folder = Folder::new();
    folder.write("t.csv", "1;NULL;\n2;\"NULL\";x\n").write("t.tsv", "a\tb\n1,5\t2\n");
    let options = CsvOptions { delimiter: b';', no_header: true, null: "NULL".into() };
    let (columns, rows) = table(&Lake::new(&folder.path("t.csv"), &options)).await.unwrap();
    assert_eq!(columns, ["c1", "c2", "c3"]);
    assert_eq!(rows, [[t("1"), null(), t("")], [t("2"), t("NULL"), t("x")]]);
    let (_, rows) = table(&folder.lake("t.tsv")).await.unwrap();
    assert_eq!(rows, [[t("1,5"), t("2")]]);
    let options = CsvOptions { delimiter: 0xe9, ..CsvOptions::default() };
    let error = Lake::new(&folder.path("t.csv"), &options).describe().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
}

#[tokio::test]
async fn malformed_csv_is_an_error_without_cell_text() {
    for (text, want) in [
        ("a,b\n1,2\n3,secret,5\n", "line 3: expected 2 fields, found 3"),
        ("a,b\n1,2\nsecret\n", "line 3: expected 2 fields, found 1"),
        ("a,b\n\"x\ny\",2\nsecret\n", "line 4: expected 2"),
        ("a,b\n1,\"secret\n2,3\n", "quote that opens in line 2"),
        ("a,b\n1,\"secret\"x\n", "line 2: text follows"),
        ("a,a\n1,2\n", "two columns are called \"a\""),
        ("", "the file is empty"),
        ("\n1\n", "line 1 is empty"),
    ] {
        let message = csv_error(text).await;
        assert!(message.contains(want) && !message.contains("secret"), "{message}");
    }
    assert!(csv_error(b"a\n1\n\xff\n").await.contains("line 3 is not valid UTF-8"));
    assert!(csv_error(b"\xff\xfea\0\n\0").await.contains("UTF-16"));
}

#[tokio::test]
async fn many_rows_come_in_bounded_batches_and_the_right_order() {
    let mut text = String::from("id,pad\n");
    (0..30_000).for_each(|i| text.push_str(&format!("{i},{}\n", "x".repeat(i % 400))));
    let (_, rows) = csv(&text).await.unwrap();
    assert_eq!(rows.len(), 30_000);
    assert!(rows.iter().enumerate().all(|(i, row)| row[0] == t(&i.to_string())));
}

#[tokio::test]
async fn packed_files_are_unpacked_and_cut_ones_refused() {
    let gzip = |text: &str| {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let folder = Folder::new();
    // Two members, as `cat a.gz b.gz` makes them.
    folder.write("a.csv.gz", [gzip("id\n1\n"), gzip("2\n")].concat());
    folder.write("b.csv.zst", zstd::encode_all(&b"id\n3\n"[..], 3).unwrap());
    folder.write("c.ndjson.gz", gzip("{\"id\":4}\n"));
    assert_eq!(table(&folder.lake("a.csv.gz")).await.unwrap().1, [[t("1")], [t("2")]]);
    assert_eq!(table(&folder.lake("b.csv.zst")).await.unwrap().1, [[t("3")]]);
    assert_eq!(table(&folder.lake("c.ndjson.gz")).await.unwrap().1, [["Number(\"4\")"]]);
    let many: String = (0..20_000).map(|i| format!("{i}\n")).collect();
    for (name, whole) in [
        ("d.csv.gz", gzip(&format!("id\n{many}"))),
        ("d.csv.zst", zstd::encode_all(format!("id\n{many}").as_bytes(), 3).unwrap()),
    ] {
        folder.write(name, &whole[..whole.len() - 9]);
        let error = table(&folder.lake(name)).await.unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains("cut short"), "{error}");
    }
    folder.write("e", gzip("id\n1\n"));
    assert!(table(&folder.lake("e")).await.unwrap_err().message.contains("compressed"));
}

#[tokio::test]
async fn ndjson_keeps_spellings_and_joins_names() {
    let folder = Folder::new();
    folder.write(
        "t.ndjson",
        "\u{feff}{\"id\": 1, \"n\": 0.10, \"s\": \"x\"}\n\n{\"id\": 12345678901234567890, \"b\": true, \"s\": null}\r\n\
         {\"id\": 1, \"id\": 2, \"o\": {\"k\": [1.50]}}",
    );
    let lake = folder.lake("t.ndjson");
    let (columns, rows) = table(&lake).await.unwrap();
    assert_eq!(columns, ["id", "n", "s", "b", "o"]);
    let n = |text: &str| format!("Number({text:?})");
    assert_eq!(rows[0], [n("1"), n("0.10"), t("x"), null(), null()]);
    assert_eq!(rows[1], [n("12345678901234567890"), null(), null(), "Bool(true)".into(), null()]);
    assert_eq!(rows[2], [n("2"), null(), null(), null(), format!("Nested({:?})", r#"{"k":[1.50]}"#)]);
    let shape = lake.describe().await.unwrap();
    assert_eq!((shape.engine, shape.row_estimate), (Engine::UntypedFile, None));
    assert!(shape.may_be_ordered && shape.columns.iter().all(|c| c.nullable.is_none()));
}

#[tokio::test]
async fn malformed_ndjson_is_an_error_with_its_line() {
    for (text, want) in [
        ("{\"a\":1}\n{\"a\":secret}\n", "line 2"),
        ("{\"a\":1}\n[1]\n", "line 2"),
        ("{\"a\":1} {\"a\":2}\n", "line 1"),
        ("{\n\"a\":1}\n", "line 1"),
        ("[{\"a\":1}]\n", "JSON array"),
        ("\n", "no column"),
    ] {
        let folder = Folder::new();
        let error = table(&folder.write("t.json", text).lake("t.json")).await.unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains(want), "{error}");
        assert!(!error.message.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn folders_globs_and_hive_names() {
    let folder = Folder::new();
    folder.write("t/day=2026-01-01/b.csv", "id\n2\n");
    folder.write("t/day=2026-01-01/a.csv", "id\n1\n");
    folder.write("t/day=__HIVE_DEFAULT_PARTITION__/a.csv", "id,note\n3,x\n");
    folder.write("t/day=a%2Fb/a.csv", "id\n4\n");
    folder.write("t/_SUCCESS", "").write("t/.hidden.csv", "no\n1\n").write("t/_tmp/x.csv", "no\n1\n");
    let (columns, rows) = table(&folder.lake("t")).await.unwrap();
    assert_eq!(columns, ["id", "note", "day"]);
    assert_eq!(
        rows,
        [
            [t("1"), null(), t("2026-01-01")],
            [t("2"), null(), t("2026-01-01")],
            [t("3"), t("x"), null()],
            [t("4"), null(), t("a/b")]
        ]
    );
    assert_eq!(table(&folder.lake("t/")).await.unwrap().1.len(), 4);
    assert_eq!(table(&folder.lake("t/day=2026*/*.csv")).await.unwrap().1.len(), 2);
    assert_eq!(table(&folder.lake("t/day=2026*")).await.unwrap().1.len(), 2);
    assert_eq!(table(&folder.lake("t/**/a.csv")).await.unwrap().1.len(), 3);
    // A file whose name looks like a pattern is still that file.
    folder.write("x[1].csv", "id\n7\n");
    assert_eq!(table(&folder.lake("x[1].csv")).await.unwrap().1, [[t("7")]]);
    // A name that object stores treat in their own way.
    folder.write("y#1.csv", "id\n8\n");
    assert_eq!(table(&folder.lake("y#1.csv")).await.unwrap().1, [[t("8")]]);
}

#[tokio::test]
async fn what_is_missing_or_mixed_is_a_usage_error() {
    let folder = Folder::new();
    folder
        .write("m/a.csv", "id\n1\n")
        .write("m/b.ndjson", "{}\n")
        .write("u/a.csv", "id\n")
        .write("u/README", "x");
    folder.write("d/_delta_log/00.json", "{}").write("d/a.csv", "id\n");
    std::fs::create_dir(folder.path("empty")).unwrap();
    for (name, want) in [
        ("absent.csv", "no such file"),
        ("absent*.csv", "no file is there"),
        ("empty", "no file is there"),
        ("m", "choose one format"),
        ("u", "README: its name does not tell"),
        ("d", "Delta"),
    ] {
        let error = folder.lake(name).describe().await.unwrap_err();
        assert!(error.kind == ErrorKind::Usage && error.message.contains(want), "{name}: {error}");
    }
    let lake = folder.lake("m/a.csv");
    let shape = lake.describe().await.unwrap();
    let filtered = ReadRequest { filter: Some("id > 1".into()), ..ReadRequest::default() };
    assert_eq!(lake.open(&shape, filtered).await.err().unwrap().kind, ErrorKind::Usage);
}

#[tokio::test]
async fn first_bytes_decide_where_the_name_does_not() {
    let folder = Folder::new();
    folder.write("p", parquet(&ints("id", vec![1]))).write("j", " {\"id\":2}\n").write("c.data", "id\n3\n");
    assert_eq!(table(&folder.lake("p")).await.unwrap().1, [["1"]]);
    assert_eq!(table(&folder.lake("j")).await.unwrap().1, [["Number(\"2\")"]]);
    assert_eq!(table(&folder.lake("c.data")).await.unwrap().1, [[t("3")]]);
}

#[tokio::test]
async fn parquet_types_arrive_in_wire_form() {
    let uuid = FixedSizeBinaryArray::try_from_iter([[7u8; 16]].iter()).unwrap();
    let data = batch(vec![
        ("i", Arc::new(Int32Array::from(vec![-1]))),
        ("b", Arc::new(BooleanArray::from(vec![true]))),
        ("f", Arc::new(Float32Array::from(vec![0.5]))),
        ("n", Arc::new(Decimal128Array::from(vec![12345]).with_precision_and_scale(12, 2).unwrap())),
        ("s", Arc::new(StringArray::from(vec!["x"]))),
        ("d", Arc::new(Date32Array::from(vec![1]))),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![1500]))),
        ("z", Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("+02:00"))),
        ("x", Arc::new(uuid)),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None])]))),
    ]);
    let folder = Folder::new();
    let lake = folder.write("t.parquet", parquet(&data)).lake("t.parquet");
    let shape = lake.describe().await.unwrap();
    let types: Vec<&str> = shape.columns.iter().map(|c| c.engine_type.as_str()).collect();
    let want =
        ["int32", "bool", "float32", "decimal(12,2)", "string", "date", "timestamp(ms)", "timestamptz(us)"];
    assert_eq!(types[..8], want);
    assert_eq!(types[8..], ["binary(16)", "list(int32)"]);
    assert_eq!((shape.engine, shape.row_estimate), (Engine::TypedFile, Some(1)));
    assert_eq!(shape.column("s").unwrap().order, NativeOrder::Bytes);
    assert_eq!(shape.column("n").unwrap().order, NativeOrder::Value);
    let int = LogicalType::Int { bits: 32, signed: true };
    assert_eq!(shape.column("l").unwrap().logical, LogicalType::Array(Box::new(int)));
    let (_, rows) = table(&lake).await.unwrap();
    assert_eq!(rows[0][..6], ["-1", "true", "0.5", "123.45", "x", "1970-01-02"]);
    assert_eq!(rows[0][6..8], ["1970-01-01T00:00:01.500", "1970-01-01T00:00:00.000001"]);
    assert_eq!(rows[0][9], "[1,null]");
    // Any columns in any order.
    let some = columns_of(&lake, &["s".into(), "i".into()]).await.unwrap();
    assert_eq!(some, [["x", "-1"]]);
}

/// Writes one column through Parquet's own interface, as engines do that do not use Arrow.
fn raw_parquet(
    schema: &str,
    write: impl FnOnce(&mut parquet::file::writer::SerializedColumnWriter<'_>),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    write(&mut column);
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn int96_reaches_from_the_year_1500_to_9999() {
    // Julian day 2,440,588 is 1970-01-01.
    let instant = |day: u32, nanos: u64| {
        let mut value = Int96::new();
        value.set_data(nanos as u32, (nanos >> 32) as u32, day);
        value
    };
    let values = [instant(2_268_924, 1_000), instant(2_440_588, 0), instant(5_373_484, 86_399_999_999_000)];
    let bytes = raw_parquet("message m { required int96 at; }", |column| {
        column.typed::<Int96Type>().write_batch(&values, None, None).unwrap();
    });
    let folder = Folder::new();
    let lake = folder.write("t.parquet", bytes).lake("t.parquet");
    let shape = lake.describe().await.unwrap();
    assert_eq!(shape.columns[0].logical, LogicalType::Timestamp { digits: 6, zoned: false });
    assert_eq!(shape.columns[0].nullable, Some(false));
    let request = ReadRequest { columns: vec!["at".into()], ..ReadRequest::default() };
    let snapshot = lake.open(&shape, request).await.unwrap();
    let batches: Vec<RecordBatch> = snapshot.scan(&Scope::Whole).await.unwrap().try_collect().await.unwrap();
    let micros: Vec<i64> = batches[0].column(0).as_primitive::<TimestampMicrosecondType>().values().to_vec();
    let day = 86_400_000_000i64;
    assert_eq!(micros, [(2_268_924 - 2_440_588) * day + 1, 0, (5_373_485 - 2_440_588) * day - 1]);
    assert_eq!(
        drift::value::temporal::format_timestamp_micros(micros[0], false),
        "1500-01-01T00:00:00.000001"
    );
    assert_eq!(
        drift::value::temporal::format_timestamp_micros(micros[2], false),
        "9999-12-31T23:59:59.999999"
    );
}

#[tokio::test]
async fn annotated_bytes_are_uuids_spans_json_and_labels() {
    let folder = Folder::new();
    let fixed = |bytes: Vec<u8>| FixedLenByteArray::from(ByteArray::from(bytes));
    let span = [&14u32.to_le_bytes()[..], &3u32.to_le_bytes(), &4500u32.to_le_bytes()].concat();
    folder.write(
        "span.parquet",
        raw_parquet("message m { optional fixed_len_byte_array(12) v (INTERVAL); }", |column| {
            let writer = column.typed::<FixedLenByteArrayType>();
            writer.write_batch(&[fixed(span)], Some(&[1, 0]), None).unwrap();
        }),
    );
    folder.write(
        "uuid.parquet",
        raw_parquet("message m { required fixed_len_byte_array(16) v (UUID); }", |column| {
            column.typed::<FixedLenByteArrayType>().write_batch(&[fixed(vec![7; 16])], None, None).unwrap();
        }),
    );
    let text = |annotation: &str| {
        raw_parquet(&format!("message m {{ required binary v ({annotation}); }}"), |column| {
            let writer = column.typed::<parquet::data_type::ByteArrayType>();
            writer.write_batch(&[ByteArray::from("[1]")], None, None).unwrap();
        })
    };
    folder.write("json.parquet", text("JSON")).write("enum.parquet", text("ENUM"));
    for (name, logical, want) in [
        ("span.parquet", LogicalType::Interval, vec!["P1Y2M3DT4.5S", "NULL"]),
        ("uuid.parquet", LogicalType::Uuid, vec!["07070707070707070707070707070707"]),
        ("json.parquet", LogicalType::Json, vec!["[1]"]),
        ("enum.parquet", LogicalType::TEXT, vec!["[1]"]),
    ] {
        let lake = folder.lake(name);
        assert_eq!(lake.describe().await.unwrap().columns[0].logical, logical, "{name}");
        let rows: Vec<String> = table(&lake).await.unwrap().1.into_iter().flatten().collect();
        assert_eq!(rows, want, "{name}");
    }
}

#[tokio::test]
async fn columns_are_joined_by_name_and_widened_in_any_order() {
    let old = batch(vec![
        ("id", Arc::new(Int32Array::from(vec![1]))),
        ("n", Arc::new(Decimal128Array::from(vec![150]).with_precision_and_scale(5, 2).unwrap())),
        ("at", Arc::new(TimestampMillisecondArray::from(vec![1]))),
        ("later", Arc::new(NullArray::new(1))),
    ]);
    let new = batch(vec![
        ("extra", Arc::new(StringArray::from(vec!["x"]))),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![2]))),
        ("n", Arc::new(Decimal128Array::from(vec![15000]).with_precision_and_scale(9, 4).unwrap())),
        ("id", Arc::new(Int64Array::from(vec![1 << 40]))),
        ("later", Arc::new(StringArray::from(vec!["y"]))),
    ]);
    for (first, second) in [(&old, &new), (&new, &old)] {
        let folder = Folder::new();
        folder.write("t/a.parquet", parquet(first)).write("t/b.parquet", parquet(second));
        let lake = folder.lake("t");
        let shape = lake.describe().await.unwrap();
        assert_eq!(shape.column("id").unwrap().engine_type, "int64");
        assert_eq!(shape.column("n").unwrap().logical, LogicalType::Decimal { precision: 9, scale: 4 });
        assert_eq!(shape.column("later").unwrap().engine_type, "string");
        assert_eq!(shape.row_estimate, Some(2));
        let columns = ["id", "n", "at", "extra", "later"].map(String::from);
        let mut rows = columns_of(&lake, &columns).await.unwrap();
        rows.sort();
        let want = [
            ["1", "1.5000", "1970-01-01T00:00:00.001", "NULL", "NULL"],
            ["1099511627776", "1.5000", "1970-01-01T00:00:00.000002", "x", "y"],
        ];
        assert_eq!(rows, want);
    }
    let folder = Folder::new();
    folder.write("t/a.parquet", parquet(&ints("id", vec![1])));
    folder.write("t/b.parquet", parquet(&batch(vec![("id", Arc::new(StringArray::from(vec!["1"])))])));
    let error = folder.lake("t").describe().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    for part in ["\"id\"", "int32", "a.parquet", "string", "b.parquet"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[tokio::test]
async fn required_columns_are_not_nullable_only_where_all_files_say_so() {
    let required = raw_parquet("message m { required int32 id; }", |column| {
        column.typed::<parquet::data_type::Int32Type>().write_batch(&[1], None, None).unwrap();
    });
    for (other, want) in [
        (required.clone(), Some(false)),
        (parquet(&ints("id", vec![2])), None),
        (parquet(&ints("other", vec![2])), None),
    ] {
        for names in [["t/a.parquet", "t/b.parquet"], ["t/b.parquet", "t/a.parquet"]] {
            let folder = Folder::new();
            folder.write(names[0], &required).write(names[1], &other);
            assert_eq!(folder.lake("t").describe().await.unwrap().column("id").unwrap().nullable, want);
        }
    }
}

#[tokio::test]
async fn typed_files_take_columns_from_folder_names() {
    let folder = Folder::new();
    folder.write("t/p=1/a.parquet", parquet(&ints("id", vec![1, 2])));
    folder.write("t/p=__HIVE_DEFAULT_PARTITION__/a.parquet", parquet(&ints("id", vec![3])));
    let lake = folder.lake("t");
    let (columns, rows) = table(&lake).await.unwrap();
    assert_eq!(columns, ["id", "p"]);
    assert_eq!(rows, [["1", "Text(\"1\")"], ["2", "Text(\"1\")"], ["3", "NULL"]]);
    assert_eq!(columns_of(&lake, &["p".into()]).await.unwrap().len(), 3);
    assert_eq!(columns_of(&lake, &[]).await.unwrap().len(), 3);
    // Columns that the files hold themselves count; files that differ in that are refused.
    folder.write("u/id=9/a.parquet", parquet(&ints("id", vec![1])));
    assert_eq!(table(&folder.lake("u")).await.unwrap().1, [["1"]]);
    folder.write("u/id=9/b.parquet", parquet(&ints("x", vec![1])));
    assert_eq!(folder.lake("u").describe().await.unwrap_err().kind, ErrorKind::Usage);
}

#[tokio::test]
async fn arrow_files_and_streams() {
    let data = batch(vec![
        ("id", Arc::new(Int32Array::from_iter_values(0..20_000))),
        ("s", Arc::new(StringArray::from_iter_values((0..20_000).map(|i| i.to_string())))),
    ]);
    let mut file = FileWriter::try_new(Vec::new(), &data.schema()).unwrap();
    file.write(&data).unwrap();
    let file = file.into_inner().unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &data.schema()).unwrap();
    stream.write(&data).unwrap();
    stream.write(&data).unwrap();
    let unfinished = stream.get_ref().clone();
    let stream = stream.into_inner().unwrap();
    let folder = Folder::new();
    folder.write("f.arrow", &file).write("s.ipc", &stream).write("unfinished.ipc", &unfinished);
    folder.write("cut.arrow", &file[..file.len() / 2]).write("none.arrow", "nothing");
    assert_eq!(table(&folder.lake("f.arrow")).await.unwrap().1.len(), 20_000);
    let columns = columns_of(&folder.lake("s.ipc"), &["s".into()]).await.unwrap();
    assert_eq!((columns.len(), columns[20_001][0].as_str()), (40_000, "1"));
    for name in ["unfinished.ipc", "cut.arrow", "none.arrow"] {
        let error = table(&folder.lake(name)).await.unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains(name), "{error}");
    }
}

#[tokio::test]
async fn damaged_parquet_is_an_error_and_no_panic() {
    let data =
        batch(vec![("s", Arc::new(StringArray::from_iter_values((0..5000).map(|i| format!("value {i}")))))]);
    let whole = parquet(&data);
    let folder = Folder::new();
    for (name, bytes) in [
        ("empty.parquet", Vec::new()),
        ("short.parquet", whole[..3].to_vec()),
        ("cut.parquet", whole[..whole.len() / 2].to_vec()),
        ("footer.parquet", [&whole[..whole.len() - 8], &u32::MAX.to_le_bytes()[..], b"PAR1"].concat()),
    ] {
        let error = folder.write(name, bytes).lake(name).describe().await.unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains(name), "{error}");
    }
    // Every part of a file broken in turn: an error, or rows; never a panic and never fewer rows than promised.
    let mut failed = 0;
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        match table(&folder.write("t.parquet", bytes).lake("t.parquet")).await {
            Ok((_, rows)) => assert_eq!(rows.len(), 5000),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Data, "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 5);
}

#[tokio::test]
async fn files_that_change_or_vanish_are_noticed() {
    let folder = Folder::new();
    let mut text = String::from("id\n");
    (0..200_000).for_each(|i| text.push_str(&format!("{i}\n")));
    folder.write("t/a.csv", &text).write("t/b.csv", "id\n1\n");
    let lake = folder.lake("t");
    let shape = lake.describe().await.unwrap();
    let request = || ReadRequest { columns: vec!["id".into()], ..ReadRequest::default() };
    let snapshot = lake.open(&shape, request()).await.unwrap();
    assert!(snapshot.position().state.is_some());

    // Added meanwhile: not read. The same files are the same state.
    let before = lake.open(&shape, request()).await.unwrap().position();
    assert!(before.shows_the_same(&snapshot.position()));
    folder.write("t/c.csv", "id\n2\n");
    assert_eq!(all(snapshot.as_ref()).await.unwrap().len(), 200_001);
    assert!(!lake.open(&shape, request()).await.unwrap().position().shows_the_same(&before));

    // Changed while being read, with the same size.
    let mut stream = snapshot.scan(&Scope::Whole).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    std::thread::sleep(std::time::Duration::from_millis(20));
    folder.write("t/a.csv", text.replace("199999", "199990"));
    let error = stream.try_collect::<Vec<_>>().await.unwrap_err();
    assert!(
        error.kind == ErrorKind::Data && error.message.contains("a.csv") && error.message.contains("changed")
    );

    // Changed before, then vanished.
    let error = all(snapshot.as_ref()).await.unwrap_err();
    assert!(error.kind == ErrorKind::Data && error.message.contains("a.csv"), "{error}");
    std::fs::remove_file(folder.path("t/a.csv")).unwrap();
    let error = all(snapshot.as_ref()).await.unwrap_err();
    assert!(error.kind == ErrorKind::Data && error.message.contains("vanished"), "{error}");
    folder.write("t/a.csv", "other\n1\n");
    assert_eq!(lake.open(&shape, request()).await.err().unwrap().kind, ErrorKind::Data);
}

#[tokio::test]
async fn cost_and_explain_name_the_files() {
    let folder = Folder::new();
    for i in 0..25 {
        folder.write(&format!("t/{i:02}.csv"), "id\n1\n");
    }
    let lake = folder.lake("t");
    let shape = lake.describe().await.unwrap();
    let request = ReadRequest { columns: vec!["id".into()], ..ReadRequest::default() };
    let lines = lake.explain(&shape, &request, &Scope::Whole);
    assert_eq!(lines.len(), 21);
    assert!(lines[0].ends_with("00.csv (5 bytes)") && lines[20].contains("25 files"), "{lines:?}");
    let snapshot = lake.open(&shape, request).await.unwrap();
    assert_eq!(snapshot.workers(), 1);
    assert_eq!(all(snapshot.as_ref()).await.unwrap().len(), 25);
    assert_eq!(snapshot.cost().bytes.load(Ordering::Relaxed), 125);
    let range = Scope::KeyRange { column: "id".into(), from: None, to: None };
    assert_eq!(snapshot.scan(&range).await.err().unwrap().kind, ErrorKind::Usage);
}
