//! The one value of a query, such as the version of a schema or the newest time of change.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::NaiveDateTime;
use futures::TryStreamExt;

use crate::endpoint::{Endpoint, Error, ErrorKind, ReadRequest, Result, Scope};
use crate::value::untyped::Untyped;

async fn first_batch(endpoint: &dyn Endpoint) -> Result<Option<RecordBatch>> {
    let shape = endpoint.describe().await?;
    let columns = shape.columns.iter().take(1).map(|column| column.name.clone()).collect();
    let snapshot =
        endpoint.open(&shape, ReadRequest { columns, workers: 1, ..ReadRequest::default() }).await?;
    let mut stream = snapshot.scan(&Scope::Whole).await?;
    while let Some(batch) = stream.try_next().await? {
        if batch.num_rows() > 0 {
            return Ok(Some(batch));
        }
    }
    Ok(None)
}

/// The value as text; `None` for NULL, or where there is no row.
pub(super) async fn text(endpoint: &dyn Endpoint) -> Result<Option<String>> {
    let Some(batch) = first_batch(endpoint).await? else { return Ok(None) };
    let column = batch.column(0);
    if column.is_null(0) {
        return Ok(None);
    }
    if *column.data_type() == DataType::Binary {
        return Ok(
            Untyped::decode(column.as_binary::<i32>().value(0)).and_then(|v| v.text().map(str::to_string))
        );
    }
    let wrong = |e: arrow::error::ArrowError| {
        Error::new(ErrorKind::Data, format!("{}: the value cannot be shown: {e}", endpoint.name()))
    };
    let options = FormatOptions::default();
    Ok(Some(ArrayFormatter::try_new(column, &options).map_err(wrong)?.value(0).to_string()))
}

/// The value as an instant, in microseconds since 1970; `None` for NULL, where there is no row, and for what is no time.
pub(super) async fn instant(endpoint: &dyn Endpoint) -> Result<Option<i64>> {
    let Some(batch) = first_batch(endpoint).await? else { return Ok(None) };
    let column = batch.column(0);
    if column.is_null(0) {
        return Ok(None);
    }
    Ok(match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Some(column.as_primitive::<TimestampMicrosecondType>().value(0))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Some(column.as_primitive::<TimestampNanosecondType>().value(0) / 1000)
        }
        // SQLite keeps instants as text.
        DataType::Binary => {
            Untyped::decode(column.as_binary::<i32>().value(0)).and_then(|v| written(v.text()?))
        }
        _ => None,
    })
}

fn written(text: &str) -> Option<i64> {
    ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.fZ"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
        .map(|at| at.and_utc().timestamp_micros())
}
