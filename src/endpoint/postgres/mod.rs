//! PostgreSQL: a table, view or query behind a URL becomes Arrow batches through binary COPY.
//!
//! One transaction on a coordinating connection holds the view of the data; worker connections join its exported
//! snapshot. Every setting is local to a transaction, every transaction is read only, and rows are asked for in order
//! only where an index delivers it: the server never sorts a table for drift.

mod catalog;
mod copy;
mod cuts;
mod fields;
mod opening;
mod options;
mod session;
mod snapshot;
mod sql;
mod types;

use std::sync::Arc;

use async_trait::async_trait;
use url::Url;

use crate::config::address::{Address, Object};
use crate::endpoint::{Cost, Endpoint, Error, ErrorKind, ReadRequest, Result, Scope, Sibling, Snapshot};
use crate::value::shape::TableShape;
use options::Target;
use session::Session;
pub(super) use sql::identifier;

/// A table, view or query in a PostgreSQL database.
pub struct Postgres {
    side: Arc<Side>,
}

/// What every part of this endpoint needs to know: where to connect, what to read, and its name in errors.
struct Side {
    target: Target,
    object: Object,
    name: String,
}

impl Postgres {
    /// Reads the URL's options, the environment and the service file; connects to nothing yet.
    pub fn new(url: &Url, object: &Object) -> Result<Postgres> {
        let name = Address::Postgres(url.clone(), object.clone()).to_string();
        let target = options::read(url, &name)?;
        Ok(Postgres { side: Arc::new(Side { target, object: object.clone(), name }) })
    }
}

impl Side {
    async fn connect(&self, cost: &Cost) -> Result<Session> {
        Session::connect(&self.target, &self.name, cost).await
    }

    fn error(&self, kind: ErrorKind, text: impl std::fmt::Display) -> Error {
        Error::new(kind, format!("{}: {text}", self.name))
    }
}

#[async_trait]
impl Endpoint for Postgres {
    fn name(&self) -> &str {
        &self.side.name
    }

    async fn describe(&self) -> Result<TableShape> {
        let cost = Cost::default();
        let mut session = self.side.connect(&cost).await?;
        session.begin(&cost, None).await?;
        let (shape, _) = catalog::describe(&mut session, &cost, &self.side.name, &self.side.object).await?;
        session.close().await;
        Ok(shape)
    }

    async fn open(&self, shape: &TableShape, request: ReadRequest) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(snapshot::PgSnapshot::open(self.side.clone(), shape, request).await?))
    }

    fn table(&self) -> Option<String> {
        matches!(self.side.object, Object::Table { .. }).then(|| sql::source(&self.side.object))
    }

    async fn siblings(&self) -> Result<Vec<Sibling>> {
        let cost = Cost::default();
        let mut session = self.side.connect(&cost).await?;
        session.begin(&cost, None).await?;
        let rows = session.rows(&cost, catalog::SIBLINGS).await?;
        session.close().await;
        let siblings = rows.into_iter().filter_map(|row| match <[Option<String>; 2]>::try_from(row) {
            Ok([Some(schema), Some(name)]) => {
                let object = Object::Table { schema: Some(schema.clone()), name: name.clone() };
                Some(Sibling { schema, name, object })
            }
            _ => None,
        });
        Ok(siblings.collect())
    }

    fn explain(&self, shape: &TableShape, request: &ReadRequest, scope: &Scope) -> Vec<String> {
        let mut out = vec!["begin isolation level repeatable read read only".to_string()];
        out.push(snapshot::scan_settings(0, request));
        match sql::select(&self.side.object, shape, request, scope) {
            Ok(select) => out.push(sql::copy(&select)),
            Err(e) => out.push(format!("-- {e}")),
        }
        out
    }
}
