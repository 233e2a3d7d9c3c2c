//! Files: Parquet, Arrow IPC, CSV and NDJSON, one, a folder or a glob of them, local or in an object store.
//!
//! Opening pins the list of files. What changes or vanishes afterwards is an error, what is added is not read. Rows come
//! in the order of the list and of each file, decoded on a blocking thread, a batch at a time.

mod convert;
mod csv;
mod format;
mod hive;
mod input;
mod ipc;
mod location;
mod ndjson;
mod nested;
mod parquet;
mod snapshot;
mod table;
mod text;
mod typed;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use self::location::{Pinned, Store};
use self::snapshot::LakeSnapshot;
use self::table::Table;
use super::{Endpoint, Error, ErrorKind, ReadRequest, Result, Scope, Snapshot, wire_schema};
use crate::config::address::CsvOptions;
use crate::value::shape::TableShape;

/// The engine type of columns that stand in folder names.
const FOLDER_NAME: &str = "folder name";
/// Files that `explain` lists by name.
const LISTED: usize = 20;

/// The files of one location.
pub struct Lake {
    name: String,
    /// The store and the location inside it, or why there is none.
    place: Result<(Store, String)>,
    csv: CsvOptions,
    /// What was seen last, so that unchanged files are not inspected twice.
    seen: Mutex<Option<Arc<Table>>>,
}

impl Lake {
    /// The files at `location`: a path, a glob, a folder, or an `s3://` address. Reads nothing yet.
    pub fn new(location: &str, csv: &CsvOptions) -> Lake {
        Lake::at(location, Store::of(location), csv)
    }

    fn at(name: &str, place: Result<(Store, String)>, csv: &CsvOptions) -> Lake {
        Lake { name: name.to_string(), place, csv: csv.clone(), seen: Mutex::new(None) }
    }

    fn place(&self) -> Result<&(Store, String)> {
        if !self.csv.delimiter.is_ascii() || matches!(self.csv.delimiter, b'"' | b'\n' | b'\r') {
            return Err(Error::new(
                ErrorKind::Usage,
                "the CSV delimiter must be one ASCII character other than a quote or a line end",
            ));
        }
        self.place.as_ref().map_err(Clone::clone)
    }

    /// The table as it is now. Files that are as they were keep what was learnt about them.
    async fn look(&self) -> Result<Arc<Table>> {
        let (store, location) = self.place()?;
        let pinned = store.list(location).await?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(seen) = seen.filter(|seen| seen.files.iter().map(|f| &f.pinned).eq(pinned.iter())) {
            return Ok(seen);
        }
        let table = Arc::new(Table::inspect(store, pinned, &self.csv).await?);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(table.clone());
        Ok(table)
    }
}

#[async_trait]
impl Endpoint for Lake {
    fn name(&self) -> &str {
        &self.name
    }

    /// Files are read as they were listed; one that changes is an error.
    fn is_immutable(&self) -> bool {
        true
    }

    async fn describe(&self) -> Result<TableShape> {
        Ok(self.look().await?.shape.clone())
    }

    async fn open(&self, shape: &TableShape, request: ReadRequest) -> Result<Box<dyn Snapshot>> {
        if request.filter.is_some() {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{}: files cannot be filtered with SQL; filter the other side, or choose files by a pattern",
                    self.name
                ),
            ));
        }
        let table = self.look().await.map_err(Error::described_again)?;
        if table.shape.columns != shape.columns {
            return Err(Error::new(
                ErrorKind::Data,
                format!("{}: the files' columns changed meanwhile; run again", self.name),
            ));
        }
        let schema = wire_schema(&table.shape, &request.columns)?;
        let store = self.place()?.0.clone();
        Ok(Box::new(LakeSnapshot::new(&self.name, store, self.csv.clone(), table, request.columns, schema)))
    }

    fn explain(&self, _: &TableShape, _: &ReadRequest, _: &Scope) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Ok((store, _)), Some(table)) = (&self.place, seen) else { return vec![self.name.clone()] };
        let line = |pinned: &Pinned| format!("read {} ({} bytes)", store.shown(&pinned.path), pinned.size);
        let mut lines: Vec<String> = table.files.iter().take(LISTED).map(|f| line(&f.pinned)).collect();
        if table.files.len() > LISTED {
            lines.push(format!("… {} files in all", table.files.len()));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use arrow::record_batch::RecordBatch;
    use futures::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt};

    fn bucket(store: &Arc<InMemory>, location: &str) -> Lake {
        let store: Arc<dyn ObjectStore> = store.clone();
        let store = Store::Remote { store, base: "s3://b/".into() };
        Lake::at(&format!("s3://b/{location}"), Ok((store, location.into())), &CsvOptions::default())
    }

    async fn rows(snapshot: &dyn Snapshot) -> Result<Vec<RecordBatch>> {
        snapshot.scan(&Scope::Whole).await?.try_collect().await
    }

    fn ids() -> ReadRequest {
        ReadRequest { columns: vec!["id".into()], ..ReadRequest::default() }
    }

    #[tokio::test]
    async fn objects_are_read_in_pieces() {
        let store = Arc::new(InMemory::new());
        let data = RecordBatch::try_from_iter([(
            "id",
            Arc::new(Int64Array::from_iter_values((0..2_000_000).map(|i| i * 7_919 % 1_000_003))) as _,
        )])
        .unwrap();
        let mut bytes = Vec::new();
        let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut bytes, data.schema(), None).unwrap();
        writer.write(&data).unwrap();
        writer.close().unwrap();
        assert!(bytes.len() > 5 << 20);
        store.put(&"t/x=1/a.parquet".into(), bytes.into()).await.unwrap();
        let lake = bucket(&store, "t/");
        let shape = lake.describe().await.unwrap();
        assert_eq!(shape.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["id", "x"]);
        let snapshot = lake.open(&shape, ids()).await.unwrap();
        let batches = rows(snapshot.as_ref()).await.unwrap();
        let sum: i64 =
            batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).sum();
        assert_eq!(sum, data.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>());
    }

    #[tokio::test]
    async fn objects_that_change_or_vanish_are_noticed() {
        let store = Arc::new(InMemory::new());
        let text = |first: &str| format!("id\n{first}\n{}", "1\n".repeat(5_000_000));
        store.put(&"t.csv".into(), text("1").into()).await.unwrap();
        let lake = bucket(&store, "t.csv");
        let shape = lake.describe().await.unwrap();
        let snapshot = lake.open(&shape, ids()).await.unwrap();
        let mut stream = snapshot.scan(&Scope::Whole).await.unwrap();
        assert!(stream.try_next().await.unwrap().is_some());
        store.put(&"t.csv".into(), text("2").into()).await.unwrap();
        let error = stream.try_collect::<Vec<_>>().await.unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains("s3://b/t.csv"), "{error}");
        store.delete(&"t.csv".into()).await.unwrap();
        let error = rows(snapshot.as_ref()).await.unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains("vanished"), "{error}");
        assert_eq!(lake.describe().await.unwrap_err().kind, ErrorKind::Usage);
    }
}
