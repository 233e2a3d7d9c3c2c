//! Many files as one table: their columns by name, their types widened where nothing is lost.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use super::format::{self, Format, Packing};
use super::input::Input;
use super::ipc::IpcFile;
use super::location::{Pinned, Store};
use super::parquet::ParquetFile;
use super::typed::common;
use super::typed::{self, TypedColumn};
use super::{FOLDER_NAME, text};
use crate::config::address::CsvOptions;
use crate::endpoint::{Cost, Error, ErrorKind, Result, blocking};
use crate::value::shape::{ColumnShape, Engine, LogicalType, NativeOrder, TableShape};

/// Files whose headers are read at the same time.
const AT_ONCE: usize = 8;

/// The files of a table and what they hold together.
pub(super) struct Table {
    pub(super) files: Vec<ListedFile>,
    pub(super) shape: TableShape,
}

/// One file of a table.
#[derive(Clone)]
pub(super) struct ListedFile {
    pub(super) pinned: Pinned,
    pub(super) format: Format,
    pub(super) packing: Packing,
}

/// What the head of one file says.
struct Head {
    columns: Vec<TypedColumn>,
    rows: Option<u64>,
}

/// A typed file, opened.
pub(super) enum TypedFile {
    Parquet(ParquetFile),
    Ipc(IpcFile),
}

impl TypedFile {
    /// Opens a Parquet or Arrow file.
    pub(super) fn open(input: Input, format: Format) -> Result<TypedFile> {
        let shown = input.shown().to_string();
        let file = match format {
            Format::Ipc => TypedFile::Ipc(IpcFile::open(input)?),
            _ => TypedFile::Parquet(ParquetFile::open(input)?),
        };
        let columns = file.columns();
        match columns.iter().enumerate().find(|(i, c)| columns[..*i].iter().any(|other| other.name == c.name))
        {
            Some((_, twice)) => {
                Err(Error::new(ErrorKind::Data, format!("{shown}: two columns are called {:?}", twice.name)))
            }
            None => Ok(file),
        }
    }

    /// Its columns.
    pub(super) fn columns(&self) -> &[TypedColumn] {
        match self {
            TypedFile::Parquet(file) => &file.columns,
            TypedFile::Ipc(file) => &file.columns,
        }
    }

    /// The rows that its footer promises.
    pub(super) fn rows(&self) -> Option<u64> {
        match self {
            TypedFile::Parquet(file) => Some(file.rows()),
            TypedFile::Ipc(_) => None,
        }
    }
}

impl Table {
    /// Reads the heads of all files.
    pub(super) async fn inspect(store: &Store, pinned: Vec<Pinned>, csv: &CsvOptions) -> Result<Table> {
        let files = formats(store, pinned).await?;
        let heads: Vec<Head> = futures::stream::iter(files.clone())
            .map(|file| {
                let (store, csv) = (store.clone(), csv.clone());
                let shown = store.shown(&file.pinned.path);
                blocking::run(shown, move || head(&store, &file, &csv))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let typed = matches!(files[0].format, Format::Parquet | Format::Ipc);
        let nameless = csv.no_header && matches!(files[0].format, Format::Csv | Format::Tsv);
        if nameless && heads.iter().any(|h| h.columns.len() != heads[0].columns.len()) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{}: files without a header have different numbers of columns",
                    store.shown(&files[0].pinned.path)
                ),
            ));
        }
        let mut columns = merged(store, &files, &heads, files[0].format)?;
        add_folder_columns(store, &files, &heads, &mut columns)?;
        if columns.is_empty() {
            return Err(Error::new(
                ErrorKind::Data,
                format!("{}: no column is there, since no row is", store.shown(&files[0].pinned.path)),
            ));
        }
        let shape = TableShape {
            engine: if typed { Engine::TypedFile } else { Engine::UntypedFile },
            columns,
            primary_key: Vec::new(),
            unique: Vec::new(),
            index_orders: Vec::new(),
            comment: None,
            may_be_ordered: true,
            row_estimate: heads.iter().map(|h| h.rows).sum(),
            hidden_rows: None,
        };
        Ok(Table { files, shape })
    }
}

/// The one format of all files.
async fn formats(store: &Store, pinned: Vec<Pinned>) -> Result<Vec<ListedFile>> {
    let alone = pinned.len() == 1;
    let mut files: Vec<ListedFile> = Vec::with_capacity(pinned.len());
    for pinned in pinned {
        let shown = store.shown(&pinned.path);
        let (format, packing) = match format::of_name(&pinned.path) {
            Some(known) => known,
            None if alone => {
                let (store, pinned) = (store.clone(), pinned.clone());
                blocking::run(shown.clone(), move || {
                    format::of_content(&Input::open(&store, &pinned, Arc::default(), 1)?)
                })
                .await?
            }
            None => {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!(
                        "{shown}: its name does not tell the format; choose files by a pattern such as *.parquet"
                    ),
                ));
            }
        };
        if let Some(first) = files.first().filter(|first| first.format != format) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{} is {} and {shown} is {}; choose one format by a pattern such as *.parquet",
                    store.shown(&first.pinned.path),
                    first.format.word(),
                    format.word()
                ),
            ));
        }
        files.push(ListedFile { pinned, format, packing });
    }
    Ok(files)
}

fn head(store: &Store, file: &ListedFile, csv: &CsvOptions) -> Result<Head> {
    let cost: Arc<Cost> = Arc::default();
    let input = Input::open(store, &file.pinned, cost, 1)?;
    if matches!(file.format, Format::Parquet | Format::Ipc) {
        let typed = TypedFile::open(input, file.format)?;
        return Ok(Head { columns: typed.columns().to_vec(), rows: typed.rows() });
    }
    let names = text::columns(&input, file.format, file.packing, csv)?;
    input.verify()?;
    let untyped = |name| TypedColumn {
        name,
        logical: Ok(LogicalType::Untyped(None)),
        engine_type: if file.format == Format::Ndjson { "json".into() } else { "text".into() },
        required: false,
    };
    Ok(Head { columns: names.into_iter().map(untyped).collect(), rows: None })
}

/// The union of all columns, in the order of their first appearance.
fn merged(store: &Store, files: &[ListedFile], heads: &[Head], format: Format) -> Result<Vec<ColumnShape>> {
    let mut columns: Vec<(ColumnShape, usize)> = Vec::new();
    for (at, head) in heads.iter().enumerate() {
        for new in &head.columns {
            let Some((column, first)) = columns.iter_mut().find(|(c, _)| c.name == new.name) else {
                columns.push((column_shape(new, format, at == 0), at));
                continue;
            };
            if !new.required {
                column.nullable = None;
            }
            let Ok(logical) = &new.logical else {
                (column.logical, column.unreadable) = (LogicalType::Other, new.logical.clone().err());
                continue;
            };
            if column.unreadable.is_some() {
                continue;
            }
            let Some(wider) = common(&column.logical, logical) else {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!(
                        "column {:?} is {} in {} and {} in {}; no type holds both without loss: compare the files one \
                         by one or write them alike",
                        new.name,
                        column.engine_type,
                        store.shown(&files[*first].pinned.path),
                        new.engine_type,
                        store.shown(&files[at].pinned.path)
                    ),
                ));
            };
            if wider != column.logical {
                column.engine_type =
                    if wider == *logical { new.engine_type.clone() } else { wider.to_string() };
            }
            column.order = typed::order(&wider);
            column.logical = wider;
        }
        for (column, _) in &mut columns {
            if !head.columns.iter().any(|c| c.name == column.name) {
                column.nullable = None;
            }
        }
    }
    Ok(columns.into_iter().map(|(column, _)| column).collect())
}

fn column_shape(column: &TypedColumn, format: Format, in_all_so_far: bool) -> ColumnShape {
    let logical = column.logical.clone().unwrap_or(LogicalType::Other);
    ColumnShape {
        name: column.name.clone(),
        engine_type: column.engine_type.clone(),
        order: typed::order(&logical),
        logical,
        // Arrow files carry the flag too, but writers set it without care.
        nullable: (column.required && in_all_so_far && format == Format::Parquet).then_some(false),
        default: None,
        unreadable: column.logical.clone().err(),
    }
}

/// Adds the columns that stand in folder names. Where the files hold the column themselves, theirs count.
fn add_folder_columns(
    store: &Store,
    files: &[ListedFile],
    heads: &[Head],
    columns: &mut Vec<ColumnShape>,
) -> Result<()> {
    let in_files = columns.len();
    for (name, _) in files.iter().flat_map(|f| &f.pinned.hive) {
        let Some(at) = columns.iter().position(|c| &c.name == name) else {
            columns.push(ColumnShape {
                name: name.clone(),
                engine_type: FOLDER_NAME.into(),
                logical: LogicalType::Untyped(None),
                nullable: None,
                default: None,
                unreadable: None,
                order: NativeOrder::Other,
            });
            continue;
        };
        let without = heads.iter().position(|h| !h.columns.iter().any(|c| &c.name == name));
        if let Some(without) = without.filter(|_| at < in_files) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "column {name:?} stands in folder names and in some files, but not in {}; choose files that are alike",
                    store.shown(&files[without].pinned.path)
                ),
            ));
        }
    }
    Ok(())
}
