//! Puts the rows of a case where its engine keeps them.

use std::any::Any;
use std::fs::OpenOptions;
use std::path::Path;

use url::Url;

use super::format::{Engine, Files, ParquetFile, Side};
use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::parquet;

/// Rows in place, until this is dropped.
pub struct Prepared {
    location: Location,
    object: String,
    keep: Box<dyn Any>,
}

enum Location {
    Server(Url),
    Local(String),
}

/// The orders in which several files can lie in their folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOrder {
    /// By their names in the case.
    ByName,
    /// The other way round.
    Reversed,
}

impl Prepared {
    /// The address, as drift takes it.
    pub fn address(&self) -> String {
        self.address_at(|url| url)
    }

    /// The address with another way to its server.
    pub fn address_at(&self, way: impl FnOnce(Url) -> Url) -> String {
        match &self.location {
            Location::Server(url) => format!("{}#{}", way(url.clone()), self.object),
            Location::Local(location) => format!("{location}{}", self.object),
        }
    }

    /// The server's URL, where the rows lie on one.
    pub fn server(&self) -> Option<&Url> {
        match &self.location {
            Location::Server(url) => Some(url),
            Location::Local(_) => None,
        }
    }

    /// The PostgreSQL database, if it is one.
    pub fn postgres(&self) -> Option<&Postgres> {
        self.keep.downcast_ref()
    }
}

/// Puts the rows in place.
pub fn prepare(side: &Side, engine: Engine, table: &str, role: &str, order: FileOrder) -> Prepared {
    let sql =
        |text: &Option<String>| text.as_ref().expect("a set-up for this engine").replace("{role}", role);
    match engine {
        Engine::Postgres => {
            let database = Postgres::fresh();
            database.execute(&sql(&side.postgres));
            let location = Location::Server(database.url());
            Prepared { location, object: format!("public.{table}"), keep: Box::new(database) }
        }
        Engine::Mysql => {
            let database = MySql::fresh();
            database.execute(&sql(&side.mysql));
            let location = Location::Server(database.url());
            Prepared { location, object: table.to_string(), keep: Box::new(database) }
        }
        Engine::Sqlite => {
            let database = Sqlite::fresh();
            database.execute(&sql(&side.sqlite));
            let location = Location::Local(format!("sqlite:{}#", database.path().display()));
            Prepared { location, object: table.to_string(), keep: Box::new(database) }
        }
        Engine::Csv => files(side.csv.as_ref(), "csv", table, order, write_text),
        Engine::Ndjson => files(side.ndjson.as_ref(), "ndjson", table, order, write_text),
        Engine::Parquet => files(side.parquet.as_ref(), "parquet", table, order, write_parquet),
    }
}

fn files<T>(
    files: Option<&Files<T>>,
    ending: &str,
    table: &str,
    order: FileOrder,
    write: fn(&Path, &T),
) -> Prepared {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let object = match files.expect("files of this engine") {
        Files::One(content) => {
            let name = format!("{table}.{ending}");
            write(&folder.path().join(&name), content);
            name
        }
        Files::Several { files } => {
            for (place, (name, content)) in files.iter().enumerate() {
                let place = if order == FileOrder::Reversed { files.len() - place } else { place };
                write(&folder.path().join(format!("{place}-{name}.{ending}")), content);
            }
            format!("*.{ending}")
        }
    };
    let location = Location::Local(format!("{}/", folder.path().display()));
    Prepared { location, object, keep: Box::new(folder) }
}

fn write_text(path: &Path, text: &String) {
    std::fs::write(path, text).expect("a text file");
}

fn write_parquet(path: &Path, content: &ParquetFile) {
    parquet::write(path, &content.columns, &content.rows);
    let file = OpenOptions::new().write(true).open(path).expect("the Parquet file");
    let length = file.metadata().expect("its length").len();
    file.set_len(length - content.truncate_last_bytes).expect("the cut");
}
