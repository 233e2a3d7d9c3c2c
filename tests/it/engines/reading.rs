//! Reads an endpoint into texts that tests can compare.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use drift::endpoint::{BATCH_ROWS, Endpoint, Error, ReadRequest, Scope, Snapshot, wire_schema};
use drift::value::untyped::Untyped;
use futures::TryStreamExt;

/// One value as text: `NULL`, `Number("7")` for untyped values, else Arrow's own text.
fn text(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".into();
    }
    match array.data_type() {
        DataType::Binary => {
            let wire = array.as_binary::<i32>().value(row);
            Untyped::decode(wire).map_or_else(|| format!("{wire:?}"), |value| format!("{value:?}"))
        }
        _ => array_value_to_string(array, row).unwrap(),
    }
}

fn rows_of(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let row = |batch: &RecordBatch, row| batch.columns().iter().map(|c| text(c.as_ref(), row)).collect();
    batches.iter().flat_map(|b| (0..b.num_rows()).map(move |r| row(b, r))).collect()
}

/// Everything a snapshot shows.
pub(crate) async fn all(snapshot: &dyn Snapshot) -> Result<Vec<Vec<String>>, Error> {
    let batches: Vec<RecordBatch> = snapshot.scan(&Scope::Whole).await?.try_collect().await?;
    assert!(batches.iter().all(|b| b.num_rows() <= BATCH_ROWS));
    Ok(rows_of(&batches))
}

/// Describes, opens and reads all columns, checking that the batches have the wire form.
pub(crate) async fn table(endpoint: &dyn Endpoint) -> Result<(Vec<String>, Vec<Vec<String>>), Error> {
    let shape = endpoint.describe().await?;
    let columns: Vec<String> = shape.columns.iter().map(|c| c.name.clone()).collect();
    let rows = columns_of(endpoint, &columns).await?;
    Ok((columns, rows))
}

/// Describes, opens and reads some columns.
pub(crate) async fn columns_of(
    endpoint: &dyn Endpoint,
    columns: &[String],
) -> Result<Vec<Vec<String>>, Error> {
    let shape = endpoint.describe().await?;
    let request = ReadRequest { columns: columns.to_vec(), ..ReadRequest::default() };
    let snapshot = endpoint.open(&shape, request).await?;
    let batches: Vec<RecordBatch> = snapshot.scan(&Scope::Whole).await?.try_collect().await?;
    let schema = wire_schema(&shape, columns)?;
    assert!(batches.iter().all(|b| b.schema() == schema));
    Ok(rows_of(&batches))
}
