//! What a query's result looks like, from the server's metadata and from the columns that it shows unchanged.

use sqlx::mysql::{MySqlColumn, MySqlTypeInfo};
use sqlx::{Column, ColumnOrigin, Executor, MySql, SqlSafeStr, Statement, Type, TypeInfo};

use super::catalog::{self, Described};
use super::session::Session;
use super::{sql, types};
use crate::config::address::Object;
use crate::endpoint::{Error, ErrorKind, Result};
use crate::value::shape::{ColumnShape, Engine, NativeOrder, TableShape};

/// Describes a query.
pub(super) async fn describe(session: &mut Session, query: &str) -> Result<Described> {
    const DOING: &str = "preparing the query";
    // Read as drift will read it, so that a query that cannot stand in parentheses fails here.
    let wrapped = format!("select * from {} limit 0", sql::source(&Object::Query(query.to_string())));
    session.cost().statement();
    let outer = session.connection.prepare(sql::trusted(wrapped).into_sql_str()).await;
    let outer = outer.map_err(|e| session.failed(DOING, &e))?;
    if outer.parameters().is_some_and(|p| p.right_or(0) > 0) {
        let message = format!(
            "{}: the query contains a ? outside of quotes, which MySQL takes for a parameter",
            session.name()
        );
        return Err(Error::new(ErrorKind::Usage, message));
    }
    // Alone, the query tells which table columns it shows.
    session.cost().statement();
    let inner = session.connection.prepare(sql::trusted(sql::bare(query).to_string()).into_sql_str()).await;
    let inner = inner.map_err(|e| session.failed(DOING, &e))?;

    let mut columns = Vec::new();
    let mut tables = Vec::new();
    for (at, column) in outer.columns().iter().enumerate() {
        let declared = match inner.columns().get(at) {
            Some(inner) => origin(session, inner, &mut tables).await?,
            None => None,
        };
        columns.push(shape_of(column, declared));
    }
    let shape = TableShape {
        engine: Engine::MySql,
        columns,
        primary_key: Vec::new(),
        unique: Vec::new(),
        index_orders: Vec::new(),
        comment: None,
        may_be_ordered: false,
        row_estimate: None,
        hidden_rows: None,
    };
    Ok(Described { shape, indexes: Vec::new(), without_snapshots: None })
}

/// Whether the server calls the wire type unsigned.
pub(super) fn is_unsigned(info: &MySqlTypeInfo) -> bool {
    <u64 as Type<MySql>>::compatible(info)
}

fn shape_of(column: &MySqlColumn, declared: Option<ColumnShape>) -> ColumnShape {
    let info = column.type_info();
    let unsigned = is_unsigned(info);
    let name = column.name().to_string();
    match declared.filter(|d| types::arrives_as(&d.logical, info.name(), unsigned)) {
        Some(declared) => ColumnShape { name, nullable: None, default: None, unreadable: None, ..declared },
        None => ColumnShape {
            name,
            engine_type: info.name().to_ascii_lowercase(),
            logical: types::of_wire(info.name(), unsigned, <str as Type<MySql>>::compatible(info)),
            nullable: None,
            default: None,
            unreadable: None,
            order: NativeOrder::Other,
        },
    }
}

/// The column that a result's column shows unchanged, as its table declares it. The metadata of the result has neither
/// a decimal's scale nor a text's length. `tables` keeps what was looked up.
async fn origin(
    session: &mut Session,
    column: &MySqlColumn,
    tables: &mut Vec<(String, Option<TableShape>)>,
) -> Result<Option<ColumnShape>> {
    let ColumnOrigin::Table(origin) = column.origin() else { return Ok(None) };
    let full = origin.table.to_string();
    let Some((schema, table)) = full.split_once('.') else { return Ok(None) };
    if !tables.iter().any(|(name, _)| *name == full) {
        let found = match catalog::table(session, Some(schema), table).await {
            Ok(described) => Some(described.shape),
            // An alias or a temporary result: no table of that name.
            Err(e) if matches!(e.kind, ErrorKind::Usage | ErrorKind::Refused) => None,
            Err(e) => return Err(e),
        };
        tables.push((full.clone(), found));
    }
    let shape = tables.iter().find(|(name, _)| *name == full).and_then(|(_, shape)| shape.as_ref());
    Ok(shape.and_then(|s| s.column(&origin.name)).cloned())
}
