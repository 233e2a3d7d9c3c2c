//! Makes what reads a pair of what the configuration says.

use std::sync::Arc;

use crate::audit::{Watched, age_column};
use crate::config::address::{Address, CsvOptions, Object};
use crate::config::settings::{Condition, Config, Pair, Table};
use crate::config::table_address;
use crate::endpoint::repair::identifier;
use crate::endpoint::{self, Endpoint, Error};
use crate::value::shape::Engine;

/// The address of one side of a pair.
pub fn address_of(config: &Config, table: &Table) -> Result<Address, Error> {
    let connection = config.connections.get(&table.connection).ok_or_else(|| {
        Error::usage(format!("there is no connection {:?} in the configuration", table.connection))
    })?;
    table_address(&connection.url, &table.table)
        .map_err(|why| Error::usage(format!("{}: {why}", table.connection)))
}

fn csv_of(config: &Config, table: &Table) -> CsvOptions {
    let written = config.connections.get(&table.connection).and_then(|connection| connection.csv.as_ref());
    written.map_or_else(CsvOptions::default, |csv| CsvOptions {
        delimiter: u8::try_from(csv.delimiter).unwrap_or(b','),
        no_header: !csv.header,
        null: csv.null.clone(),
    })
}

/// A pair with the means to read it. Connects to nothing yet.
pub fn watched(config: &Config, pair: &Pair) -> Result<Watched, Error> {
    let sides = [&pair.source, &pair.target];
    let addresses = [address_of(config, sides[0])?, address_of(config, sides[1])?];
    let make = |address: &Address, table: &Table| -> Result<Arc<dyn Endpoint>, Error> {
        endpoint::of(address, &csv_of(config, table)).map(Arc::from)
    };
    let remembered = |address: &Address, table: &Table| make(address, table).map(endpoint::remembering);
    let endpoints = [remembered(&addresses[0], sides[0])?, remembered(&addresses[1], sides[1])?];
    let wants_lag = pair.cutoff.as_ref().is_some_and(|cutoff| cutoff.max_lag.is_some());
    let newest = match age_column(pair).filter(|_| wants_lag) {
        Some(column) => {
            let there = pair.columns.in_target(column);
            let (here_where, there_where) = match &pair.condition {
                None => (None, None),
                Some(Condition::Both(sql)) => (Some(sql.as_str()), Some(sql.as_str())),
                Some(Condition::Each(sides)) => (sides.source.as_deref(), sides.target.as_deref()),
            };
            let source = newest_query(&addresses[0], endpoints[0].as_ref(), column, here_where);
            let target = newest_query(&addresses[1], endpoints[1].as_ref(), there, there_where);
            match (source, target) {
                (Some(source), Some(target)) => Some([make(&source, sides[0])?, make(&target, sides[1])?]),
                // Files have no newest row that could be asked for.
                _ => None,
            }
        }
        None => None,
    };
    let version = match pair.checks.schema.on().and_then(|checks| checks.version_tag.as_deref()) {
        None | Some("comment") => None,
        Some(query) => {
            let query = query.trim().trim_start_matches('(').trim_end_matches(')');
            Some(make(&addresses[0].with_table(Object::Query(query.into())), sides[0])?)
        }
    };
    Ok(Watched { pair: pair.clone(), endpoints, newest, version })
}

/// The query for the newest time of change.
fn newest_query(
    address: &Address,
    endpoint: &dyn Endpoint,
    column: &str,
    condition: Option<&str>,
) -> Option<Address> {
    let (engine, object) = match address {
        Address::Postgres(_, object) => (Engine::Postgres, object),
        Address::MySql(_, object) => (Engine::MySql, object),
        Address::Sqlite(_, object) => (Engine::Sqlite, object),
        Address::Files(_) => return None,
    };
    let from = match object {
        Object::Table { .. } => endpoint.table()?,
        Object::Query(query) => format!("({query}) as q"),
    };
    let filter = condition.map_or(String::new(), |sql| format!(" where {sql}"));
    let query = format!("select max({}) as newest from {from}{filter}", identifier(engine, column));
    Some(address.with_table(Object::Query(query)))
}
