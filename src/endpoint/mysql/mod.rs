//! MySQL and MariaDB.
//!
//! A session is set up so that no server default changes what is read ([`session`]); tables are described from the
//! catalogue ([`catalog`]), queries from their metadata ([`query`]); one consistent snapshot is read through prepared
//! statements ([`snapshot`]), whose binary values become Arrow arrays ([`decode`]). Nothing is ever written.

mod catalog;
mod cuts;
mod decode;
mod failure;
mod options;
mod query;
mod scan;
mod session;
mod snapshot;
mod sql;
mod types;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use url::Url;

use self::catalog::{Described, OrderedIndex};
use self::session::{Connector, Session};
pub(super) use self::sql::name as identifier;
use super::{Cost, Endpoint, Error, ErrorKind, ReadRequest, Result, Scope, Sibling, Snapshot, home_file};
use crate::config::address::{Object, connection_name};
use crate::value::shape::TableShape;

/// A table, view or query of a MySQL or MariaDB server.
pub struct MySql {
    connector: Connector,
    name: String,
    object: Object,
    /// The indexes of the last description, for `explain`.
    indexes: Mutex<Vec<OrderedIndex>>,
}

impl MySql {
    /// The endpoint of `object` at `url`; reads `~/.my.cnf` and the environment, connects to nothing yet.
    pub fn new(url: &Url, object: &Object) -> Result<MySql> {
        let option_file = match home_file(".my.cnf").map(std::fs::read_to_string) {
            None => String::new(),
            Some(Ok(text)) => text,
            Some(Err(e)) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Some(Err(e)) => {
                return Err(Error::new(ErrorKind::Usage, format!("~/.my.cnf cannot be read: {e}")));
            }
        };
        let env = |name: &str| std::env::var(name).ok();
        let options = options::resolve(url, &env, &option_file)?;
        let connection = connection_name(url);
        Ok(MySql {
            name: format!("{connection}#{object}"),
            connector: Connector { name: connection.into(), options, cost: Arc::new(Cost::default()) },
            object: object.clone(),
            indexes: Mutex::default(),
        })
    }

    async fn look(&self, session: &mut Session) -> Result<Described> {
        let described = match &self.object {
            Object::Table { schema, name } => catalog::table(session, schema.as_deref(), name).await?,
            Object::Query(text) => query::describe(session, text).await?,
        };
        *self.indexes.lock().unwrap_or_else(PoisonError::into_inner) = described.indexes.clone();
        Ok(described)
    }

    /// The index that delivers rows ordered by `order`.
    fn index_for(&self, order: &[String]) -> Option<String> {
        let indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = indexes.iter().filter(|i| i.columns.starts_with(order));
        // The primary key holds the rows themselves; any other index takes one look-up per row.
        fits.min_by_key(|i| i.name != "PRIMARY").map(|i| i.name.clone())
    }
}

#[async_trait]
impl Endpoint for MySql {
    fn name(&self) -> &str {
        &self.name
    }

    async fn describe(&self) -> Result<TableShape> {
        let mut session = self.connector.connect().await?;
        Ok(self.look(&mut session).await?.shape)
    }

    async fn open(&self, shape: &TableShape, request: ReadRequest) -> Result<Box<dyn Snapshot>> {
        let cost = Arc::new(Cost::default());
        let connector = Connector { cost, ..self.connector.clone() };
        let mut opened = snapshot::Opened::new(&connector, request.workers).await?;
        // After the snapshot: a table that changes from here on fails the read with an error of the server.
        let described = self.look(opened.first()).await.map_err(Error::described_again)?;
        if described.shape.columns != shape.columns {
            return Err(Error::new(
                ErrorKind::Data,
                format!("{}: the columns changed meanwhile; run the comparison again", self.name),
            ));
        }
        if let Some(engine) = described.without_snapshots {
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "{}: its storage engine {engine} has no consistent snapshot; convert the table to InnoDB, \
                     or compare a copy of it",
                    self.name
                ),
            ));
        }
        let index = self.index_for(&request.order);
        let object = self.object.clone();
        Ok(Box::new(opened.finish(object, described.shape, request, index)?))
    }

    fn table(&self) -> Option<String> {
        matches!(self.object, Object::Table { .. }).then(|| sql::source(&self.object))
    }

    async fn siblings(&self) -> Result<Vec<Sibling>> {
        let mut session = self.connector.connect().await?;
        catalog::siblings(&mut session).await
    }

    fn explain(&self, shape: &TableShape, request: &ReadRequest, scope: &Scope) -> Vec<String> {
        let index = self.index_for(&request.order);
        vec![snapshot::START.to_string(), sql::scan(&self.object, shape, request, scope, index.as_deref())]
    }
}
