//! SQLite files.
//!
//! A snapshot is one read-only connection with one read transaction. Its rows are read on a blocking thread. In WAL mode
//! writers are not held up; with a rollback journal a writer must wait with its commit until the snapshot ends, which is
//! how SQLite gives a reader a consistent view. A database in WAL mode that nobody has open is read without locks, since
//! taking them would create files beside it; should a writer change it meanwhile, the read fails.

mod describe;
mod session;
mod snapshot;
mod types;

use async_trait::async_trait;

pub(super) use self::session::quoted as identifier;
use self::session::{Session, quoted};
use self::snapshot::SqliteSnapshot;
use super::{Border, Endpoint, Error, ErrorKind, ReadRequest, Result, Scope, Sibling, Snapshot, blocking};
use crate::config::address::Object;
use crate::value::shape::TableShape;

/// A table, view or query of a SQLite file.
pub struct Sqlite {
    path: String,
    object: Object,
    name: String,
}

impl Sqlite {
    /// The object inside the file at `path`. Opens nothing yet.
    pub fn new(path: &str, object: &Object) -> Sqlite {
        Sqlite { path: path.to_string(), object: object.clone(), name: format!("sqlite:{path}#{object}") }
    }
}

#[async_trait]
impl Endpoint for Sqlite {
    fn name(&self) -> &str {
        &self.name
    }

    async fn describe(&self) -> Result<TableShape> {
        let (path, object) = (self.path.clone(), self.object.clone());
        blocking::run(self.name.clone(), move || {
            let session = Session::open(&path)?;
            let shape = describe::describe(&session, &path, &object)?;
            session.verify()?;
            Ok(shape)
        })
        .await
    }

    async fn open(&self, shape: &TableShape, request: ReadRequest) -> Result<Box<dyn Snapshot>> {
        let (path, object, name) = (self.path.clone(), self.object.clone(), self.name.clone());
        let expected = shape.clone();
        let session = blocking::run(self.name.clone(), move || {
            let session = Session::open(&path)?;
            session.begin()?;
            let now = describe::describe(&session, &path, &object).map_err(Error::described_again)?;
            let same = now.columns.len() == expected.columns.len()
                && now
                    .columns
                    .iter()
                    .zip(&expected.columns)
                    .all(|(a, b)| a.name == b.name && a.engine_type == b.engine_type);
            if !same {
                return Err(Error::new(
                    ErrorKind::Data,
                    format!("{name}: the table's columns changed meanwhile; run again"),
                ));
            }
            Ok(session)
        })
        .await?;
        let schema = super::wire_schema(shape, &request.columns)?;
        Ok(Box::new(SqliteSnapshot::new(self, session, shape, schema, request)))
    }

    fn table(&self) -> Option<String> {
        matches!(self.object, Object::Table { .. }).then(|| source(&self.object))
    }

    async fn siblings(&self) -> Result<Vec<Sibling>> {
        let path = self.path.clone();
        blocking::run(self.name.clone(), move || {
            let session = Session::open(&path)?;
            let names = "select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\' order by 1";
            let listed = || -> rusqlite::Result<Vec<String>> {
                session.connection.prepare(names)?.query_map([], |row| row.get(0))?.collect()
            };
            let names = listed().map_err(|e| session.error(e))?;
            session.verify()?;
            let sibling = |name: String| {
                let object = Object::Table { schema: None, name: name.clone() };
                Sibling { schema: "main".into(), name, object }
            };
            Ok(names.into_iter().map(sibling).collect())
        })
        .await
    }

    fn explain(&self, _: &TableShape, request: &ReadRequest, scope: &Scope) -> Vec<String> {
        vec![sql(&self.object, request, scope).unwrap_or_else(|e| e.message)]
    }
}

/// The statement that reads a part of the object.
fn sql(object: &Object, request: &ReadRequest, scope: &Scope) -> Result<String> {
    let columns: Vec<String> = request.columns.iter().map(|c| qualified(object, c)).collect();
    let columns = if columns.is_empty() { "null".to_string() } else { columns.join(", ") };
    let mut sql = format!("select {columns} from {}", source(object));
    // A line break ends a comment that a filter or query may end with.
    let filter = request.filter.as_ref().map(|filter| format!("({filter}\n)"));
    let conditions: Vec<String> = filter.into_iter().chain(range(object, scope)?).collect();
    if !conditions.is_empty() {
        sql.push_str(" where ");
        sql.push_str(&conditions.join(" and "));
    }
    if !request.order.is_empty() {
        // The column's own collation may be another than that of the index which promises the order.
        let order: Vec<String> =
            request.order.iter().map(|c| format!("{} collate binary", qualified(object, c))).collect();
        sql.push_str(" order by ");
        sql.push_str(&order.join(", "));
    }
    Ok(sql)
}

fn source(object: &Object) -> String {
    match object {
        Object::Table { name, .. } => format!("main.{}", quoted(name)),
        Object::Query(query) => format!("({query}\n) as q"),
    }
}

/// A column with its table: SQLite reads a lone quoted name that it does not know as a text.
fn qualified(object: &Object, column: &str) -> String {
    match object {
        Object::Table { name, .. } => format!("{}.{}", quoted(name), quoted(column)),
        Object::Query(_) => format!("q.{}", quoted(column)),
    }
}

/// The condition of a range. An open start holds NULLs, which SQLite orders first.
fn range(object: &Object, scope: &Scope) -> Result<Option<String>> {
    let (column, from, to) = match scope {
        Scope::Whole => return Ok(None),
        Scope::KeyRange { column, from, to } => (column, from, to),
        Scope::Keys { columns, keys } => return keyed(object, columns, keys).map(Some),
    };
    let column = qualified(object, column);
    let bound = |border: &Border| match border {
        Border::Int(n) => Ok((*n).clamp(i64::MIN.into(), i128::from(i64::MAX) + 1)),
        _ => Err(Error::new(ErrorKind::Usage, "SQLite tables are cut into ranges by whole numbers only")),
    };
    Ok(match (from, to) {
        (None, None) => None,
        (Some(from), None) => Some(format!("{column} >= {}", literal(bound(from)?))),
        (None, Some(to)) => Some(format!("({column} < {} or {column} is null)", literal(bound(to)?))),
        (Some(from), Some(to)) => {
            Some(format!("{column} >= {} and {column} < {}", literal(bound(from)?), literal(bound(to)?)))
        }
    })
}

fn keyed(object: &Object, columns: &[String], keys: &[Vec<Border>]) -> Result<String> {
    super::any_of(columns, keys, |column, key| {
        let value = match key {
            Border::Int(n) => literal(*n),
            Border::Bytes(text) => match std::str::from_utf8(text) {
                Ok(text) if !text.contains('\0') => format!("'{}'", text.replace('\'', "''")),
                _ => return Err(Error::new(ErrorKind::Usage, "SQLite cannot look for such a text")),
            },
            _ => return Err(Error::new(ErrorKind::Usage, "SQLite rows are found by numbers and texts only")),
        };
        Ok(format!("{} = {value}", qualified(object, column)))
    })
}

/// 2^63 is no integer literal, and SQLite would read it as an inexact number.
fn literal(n: i128) -> String {
    match i64::try_from(n) {
        Ok(i64::MIN) => "(-9223372036854775807 - 1)".to_string(),
        Ok(n) => n.to_string(),
        Err(_) => "9e99".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_quote_names_and_survive_comments() {
        let table = Object::Table { schema: None, name: "a\"".into() };
        let request = ReadRequest {
            columns: vec!["id".into(), "x y".into()],
            filter: Some("id > 3 -- new ones".into()),
            order: vec!["id".into()],
            workers: 1,
        };
        let scope = Scope::KeyRange {
            column: "id".into(),
            from: Some(Border::Int(i128::from(i64::MIN))),
            to: Some(Border::Int(i128::MAX)),
        };
        assert_eq!(
            sql(&table, &request, &scope).unwrap(),
            r#"select "a"""."id", "a"""."x y" from main."a""" where (id > 3 -- new ones
) and "a"""."id" >= (-9223372036854775807 - 1) and "a"""."id" < 9e99 order by "a"""."id" collate binary"#
        );
        let query = Object::Query("select 1 as id".into());
        let request = ReadRequest { columns: vec!["id".into()], ..Default::default() };
        assert_eq!(
            sql(&query, &request, &Scope::Whole).unwrap(),
            "select q.\"id\" from (select 1 as id\n) as q"
        );
    }
}
