//! The table's shape from SQLite's catalogue.

use rusqlite::{Connection, OptionalExtension};

use super::session::{Session, quoted};
use super::types;
use crate::config::address::Object;
use crate::endpoint::{Error, ErrorKind, Result};
use crate::value::shape::{ColumnShape, Engine, LogicalType, NativeOrder, TableShape};

/// What SQLite says about a table as a whole.
struct Kind {
    view: bool,
    without_rowid: bool,
    strict: bool,
}

/// A column as `pragma table_xinfo` reports it.
struct Declared {
    name: String,
    engine_type: String,
    not_null: bool,
    default: Option<String>,
    /// Place in the primary key from 1; 0 when outside.
    key: i64,
}

/// An index with the columns that can give an order.
struct Index {
    unique: bool,
    primary: bool,
    partial: bool,
    /// Name (none for an expression), whether descending, and the collation of each key column.
    columns: Vec<(Option<String>, bool, String)>,
}

/// Describes the object as the connection sees it now.
pub(super) fn describe(session: &Session, path: &str, object: &Object) -> Result<TableShape> {
    let failed = |e| session.error(e);
    let connection = &session.connection;
    match object {
        Object::Query(query) => {
            // Within a statement, as it will be read; by itself, since SQLite would rename equal columns.
            connection.prepare(&format!("select * from ({query}\n)")).map_err(failed)?;
            let statement = connection.prepare(query).map_err(failed)?;
            let names: Vec<String> = statement.column_names().into_iter().map(str::to_string).collect();
            if let Some(twice) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!("sqlite:{path}: the query has two columns called {:?}; rename one", twice.1),
                ));
            }
            Ok(shape(names.into_iter().map(|n| column(n, "", None, None, NativeOrder::Other)).collect()))
        }
        Object::Table { schema, name } => {
            if schema.as_deref().is_some_and(|s| s != "main") {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!(
                        "sqlite:{path}: {object} names an attached database, and only main is there; put the name in \
                         double quotes if the dot belongs to it"
                    ),
                ));
            }
            match kind(connection, name).map_err(failed)? {
                Some(kind) => table(connection, name, &kind).map_err(failed),
                None => Err(missing(path, name, &all_names(connection).map_err(failed)?)),
            }
        }
    }
}

fn kind(connection: &Connection, name: &str) -> rusqlite::Result<Option<Kind>> {
    connection
        .query_row(
            "select type, wr, strict from pragma_table_list where schema = 'main' and name = ?1",
            [name],
            |row| {
                let kind: String = row.get(0)?;
                Ok(Kind { view: kind == "view", without_rowid: row.get(1)?, strict: row.get(2)? })
            },
        )
        .optional()
}

fn all_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare(
            "select name from sqlite_schema where type in ('table', 'view') and name not like 'sqlite_%' order by name",
        )?
        .query_map([], |row| row.get(0))?
        .collect()
}

fn missing(path: &str, name: &str, all: &[String]) -> Error {
    let near: Vec<&str> =
        all.iter().filter(|other| is_near(name, other)).map(String::as_str).take(5).collect();
    let hint = match (near.as_slice(), all.len()) {
        ([], 0) => "; the database holds no table".to_string(),
        ([], 1..=10) => format!("; there are: {}", all.join(", ")),
        ([], n) => format!("; none of its {n} tables has a similar name"),
        (near, _) => format!("; did you mean {}?", near.join(", ")),
    };
    Error::new(ErrorKind::Usage, format!("sqlite:{path}: there is no table or view {name:?}{hint}"))
}

/// Whether one name may be meant by the other: other capitals, a part of it, or two letters off.
fn is_near(a: &str, b: &str) -> bool {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    a == b || (a.len() > 3 && b.contains(&a)) || (b.len() > 3 && a.contains(&b)) || distance(&a, &b) <= 2
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn column(
    name: String,
    engine_type: &str,
    nullable: Option<bool>,
    default: Option<String>,
    order: NativeOrder,
) -> ColumnShape {
    ColumnShape {
        name,
        engine_type: if engine_type.is_empty() { "any".into() } else { engine_type.to_string() },
        logical: LogicalType::Untyped(types::hint(engine_type).map(Box::new)),
        nullable,
        default,
        unreadable: None,
        order,
    }
}

fn shape(columns: Vec<ColumnShape>) -> TableShape {
    TableShape {
        engine: Engine::Sqlite,
        columns,
        primary_key: Vec::new(),
        unique: Vec::new(),
        index_orders: Vec::new(),
        comment: None,
        may_be_ordered: false,
        row_estimate: None,
        hidden_rows: None,
    }
}

fn table(connection: &Connection, name: &str, kind: &Kind) -> rusqlite::Result<TableShape> {
    let declared = declared_columns(connection, name)?;
    let indexes = if kind.view { Vec::new() } else { indexes(connection, name)? };
    let mut key: Vec<&Declared> = declared.iter().filter(|c| c.key > 0).collect();
    key.sort_by_key(|c| c.key);
    // Only `integer primary key` is the row id itself; `integer primary key desc` has an index instead, by an old quirk.
    let rowid = match key.as_slice() {
        [only]
            if !kind.without_rowid
                && only.engine_type.eq_ignore_ascii_case("integer")
                && !indexes.iter().any(|i| i.primary) =>
        {
            Some(only.name.clone())
        }
        _ => None,
    };
    // drift orders by bytes whatever the column's collation, but in a UTF-16 database those are other bytes.
    let utf8: bool =
        connection.query_row("pragma encoding", [], |row| Ok(row.get::<_, String>(0)? == "UTF-8"))?;
    let columns = declared.iter().map(|c| {
        let is_rowid = rowid.as_deref() == Some(c.name.as_str());
        let filled = c.not_null || is_rowid || (c.key > 0 && (kind.without_rowid || kind.strict));
        let order = match c.engine_type.to_ascii_uppercase().as_str() {
            _ if is_rowid => NativeOrder::Value,
            "INT" | "INTEGER" if kind.strict => NativeOrder::Value,
            "TEXT" if kind.strict && utf8 => NativeOrder::Bytes,
            "BLOB" if kind.strict => NativeOrder::Bytes,
            _ => NativeOrder::Other,
        };
        let nullable = if kind.view { None } else { Some(!filled) };
        column(c.name.clone(), &c.engine_type, nullable, c.default.clone(), order)
    });
    let mut out = shape(columns.collect());
    out.primary_key = key.iter().map(|c| c.name.clone()).collect();
    if let Some(rowid) = &rowid {
        out.unique.push(vec![rowid.clone()]);
        out.index_orders.push(vec![rowid.clone()]);
    }
    for index in indexes.iter().filter(|i| !i.partial) {
        let names: Option<Vec<String>> = index.columns.iter().map(|(name, ..)| name.clone()).collect();
        if let Some(names) = names.filter(|names| index.unique && !out.unique.contains(names)) {
            out.unique.push(names);
        }
        let ordered: Vec<String> = index
            .columns
            .iter()
            .map_while(|(name, descending, collation)| {
                name.clone().filter(|_| !descending && collation.eq_ignore_ascii_case("binary"))
            })
            .collect();
        if !ordered.is_empty() {
            out.index_orders.push(ordered);
        }
    }
    if !kind.view {
        out.row_estimate = row_estimate(connection, name, rowid.as_deref());
    }
    Ok(out)
}

fn declared_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Declared>> {
    connection
        .prepare(
            // 1 marks the hidden columns of virtual tables; 2 and 3 are generated columns, which hold data.
            "select name, type, \"notnull\", iif(hidden > 1, 'generated always as (…)', dflt_value), pk from pragma_table_xinfo(?1, 'main') where hidden <> 1",
        )?
        .query_map([table], |row| {
            Ok(Declared {
                name: row.get(0)?,
                engine_type: row.get(1)?,
                not_null: row.get(2)?,
                default: row.get(3)?,
                key: row.get(4)?,
            })
        })?
        .collect()
}

fn indexes(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Index>> {
    let heads: Vec<(String, bool, String, bool)> = connection
        .prepare("select name, \"unique\", origin, partial from pragma_index_list(?1, 'main') order by seq")?
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut columns = connection.prepare(
        "select name, \"desc\", coll from pragma_index_xinfo(?1, 'main') where key = 1 order by seqno",
    )?;
    heads
        .into_iter()
        .map(|(name, unique, origin, partial)| {
            let columns = columns
                .query_map([&name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Index { unique, primary: origin == "pk", partial, columns })
        })
        .collect()
}

/// A guess that costs no scan: the analyser's count, else the span of the row ids.
fn row_estimate(connection: &Connection, table: &str, rowid: Option<&str>) -> Option<u64> {
    let analysed: Option<String> = connection
        .query_row("select stat from sqlite_stat1 where tbl = ?1 limit 1", [table], |row| row.get(0))
        .ok();
    let count = analysed.and_then(|stat| stat.split_whitespace().next()?.parse().ok());
    count.or_else(|| {
        let id = quoted(rowid?);
        // Two statements: SQLite seeks for a lone minimum or maximum, and scans for both together.
        let end = |function: &str| {
            let sql = format!("select {function}({id}) from main.{}", quoted(table));
            connection.query_row(&sql, [], |row| row.get::<_, Option<i64>>(0)).ok().flatten()
        };
        match (end("min"), end("max")) {
            (Some(least), Some(greatest)) => u64::try_from(i128::from(greatest) - i128::from(least) + 1).ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        assert!(is_near("Orders", "orders"));
        assert!(is_near("order", "orders"));
        assert!(is_near("ordres", "orders"));
        assert!(!is_near("orders", "customers"));
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
