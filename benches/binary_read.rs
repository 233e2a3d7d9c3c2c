//! The least that reading a MySQL or MariaDB table costs: one prepared statement, its rows taken off the wire in the
//! binary protocol as they come, and dropped. `benches/tables.py` measures drift against it.
//!
//! `binary_read URL SQL` prints the number of rows.

use futures::TryStreamExt;
use sqlx::{Connection, Executor};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(statement)) = (arguments.next(), arguments.next()) else {
        return Err("usage: binary_read URL SQL".into());
    };
    let mut connection = sqlx::MySqlConnection::connect(&url).await?;
    let query = sqlx::query(sqlx::AssertSqlSafe(statement)).persistent(false);
    let mut rows = connection.fetch(query);
    let mut count = 0_u64;
    while rows.try_next().await?.is_some() {
        count += 1;
    }
    println!("{count}");
    Ok(())
}
