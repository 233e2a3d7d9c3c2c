//! An endpoint that remembers for a moment what its table looks like. Describing a table costs a server more than reading a
//! small one, and the checks of a pair that follow each other all begin with it. A table that has changed meanwhile is
//! noticed when it is opened, as ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{Endpoint, ReadRequest, Result, Scope, Sibling, Snapshot};
use crate::value::shape::TableShape;

/// How long a description is believed.
const MOMENT: Duration = Duration::from_secs(10);

struct Remembering {
    inner: Arc<dyn Endpoint>,
    shape: Mutex<Option<(Instant, TableShape)>>,
}

/// The endpoint with a memory; files, whose description pins them, have none.
pub fn remembering(inner: Arc<dyn Endpoint>) -> Arc<dyn Endpoint> {
    if inner.is_immutable() { inner } else { Arc::new(Remembering { inner, shape: Mutex::new(None) }) }
}

impl Remembering {
    fn remember(&self, shape: Option<TableShape>) {
        let mut known = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        *known = shape.map(|shape| (Instant::now(), shape));
    }
}

#[async_trait]
impl Endpoint for Remembering {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn describe(&self) -> Result<TableShape> {
        let known = self.shape.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, shape)) = known
            && at.elapsed() < MOMENT
        {
            return Ok(shape);
        }
        let shape = self.inner.describe().await?;
        self.remember(Some(shape.clone()));
        Ok(shape)
    }

    async fn open(&self, shape: &TableShape, request: ReadRequest) -> Result<Box<dyn Snapshot>> {
        let opened = self.inner.open(shape, request).await;
        if opened.is_err() {
            self.remember(None);
        }
        opened
    }

    fn is_immutable(&self) -> bool {
        self.inner.is_immutable()
    }

    fn table(&self) -> Option<String> {
        self.inner.table()
    }

    async fn siblings(&self) -> Result<Vec<Sibling>> {
        self.inner.siblings().await
    }

    fn explain(&self, shape: &TableShape, request: &ReadRequest, scope: &Scope) -> Vec<String> {
        self.inner.explain(shape, request, scope)
    }
}
