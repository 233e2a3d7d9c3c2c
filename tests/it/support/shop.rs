//! A small shop: two SQLite databases, a configuration, and a state, for tests of what drift watches.

use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use super::block_on;
use super::database::Postgres;
use super::drift::{Drift, Outcome};

/// A folder with two SQLite databases that hold the same 100 orders, and a configuration of the pair.
pub struct Shop {
    folder: TempDir,
    state: String,
}

/// How its tables are made.
pub const TABLE: &str =
    "create table orders (id integer primary key, amount decimal(12,2) not null, note text)";

impl Shop {
    /// A shop whose drift keeps its state there.
    pub fn with_state(state: Option<String>) -> Shop {
        let folder = tempfile::tempdir().expect("a folder");
        let shop = Shop { state: state.unwrap_or_else(|| "sqlite:state.db".into()), folder };
        for name in ["source.db", "target.db"] {
            shop.sql(name, TABLE);
            shop.sql(
                name,
                "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100) insert into orders select i, i * 1.5, 'n' || i from n",
            );
        }
        shop.write("");
        shop
    }

    /// A shop whose drift keeps its state in a file.
    pub fn new() -> Shop {
        Shop::with_state(None)
    }

    /// Writes the configuration; `more` is added to the pair, or follows it.
    pub fn write(&self, more: &str) {
        let text = format!(
            "version: 1\nconnections:\n  a: {{ url: \"sqlite:source.db\" }}\n  b: {{ url: \"sqlite:target.db\" }}\npairs:\n  - name: orders\n    labels: {{ team: payments }}\n    source: {{ connection: a, table: orders }}\n    target: {{ connection: b, table: orders }}\n    confirm: {{ rounds: 2, wait: 20ms }}\n{more}"
        );
        std::fs::write(self.path().join("drift.yaml"), text).expect("a configuration");
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs statements in one of its databases.
    pub fn sql(&self, name: &str, sql: &str) {
        let db = Connection::open(self.path().join(name)).expect("a database");
        db.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// A call of drift in its folder.
    pub fn drift(&self, args: &[&str]) -> Drift {
        Drift::new().current_dir(self.path()).args(["--state", &self.state]).args(args)
    }

    /// Runs `drift audit`.
    pub fn audit(&self) -> (Outcome, Value) {
        self.drift(&["audit"]).run_json()
    }

    /// Kind, state and attribution of all incidents, the latest first.
    pub fn incidents(&self) -> Vec<(String, String, String)> {
        let (_, document) = self.drift(&["incident", "list", "--all"]).run_json();
        let word = |incident: &Value, name: &str| incident[name].as_str().unwrap_or_default().to_string();
        let listed = document["incidents"].as_array().cloned().unwrap_or_default();
        listed.iter().map(|i| (word(i, "kind"), word(i, "state"), word(i, "attribution"))).collect()
    }
}

/// An incident as [`Shop::incidents`] lists it.
pub fn incident(kind: &str, state: &str, attribution: &str) -> (String, String, String) {
    (kind.into(), state.into(), attribution.into())
}

/// Runs a test on a state in SQLite and on one in PostgreSQL.
pub fn on_both(test: impl Fn(Shop)) {
    test(Shop::new());
    let database = Postgres::fresh();
    test(Shop::with_state(Some(database.url().to_string())));
}

impl Shop {
    /// Verifies the audit log; how many entries it has.
    pub fn chain(&self) -> drift::state::Result<u64> {
        let url = self.state_url();
        block_on(async {
            let store = drift::state::Store::open(&url).await?;
            drift::state::audit_log::verify(&store).await
        })
    }

    /// Fails unless the audit log is whole.
    pub fn verify_chain(&self) {
        let entries = self.chain().unwrap_or_else(|e| panic!("{e}"));
        assert!(entries > 0);
    }

    /// Lets the leases of killed processes pass at once, on checks and on messages.
    pub fn forget_leases(&self) {
        self.state_execute("delete from drift_lease");
        self.state_execute("update drift_outbox set due = 0 where sent is null");
    }

    /// Changes the state behind drift's back.
    pub fn state_execute(&self, sql: &'static str) {
        block_on(async {
            let store = drift::state::Store::open(&self.state_url()).await.expect("a store");
            let mut tx = store.begin().await.expect("a transaction");
            tx.execute(sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
            tx.commit().await.expect("a commit");
        });
    }

    /// Where its drift keeps its state.
    pub fn state_url(&self) -> String {
        match self.state.strip_prefix("sqlite:") {
            Some(file) => format!("sqlite:{}", self.path().join(file).display()),
            None => self.state.clone(),
        }
    }

    /// The whole numbers that a query of the state gives.
    pub fn state_numbers(&self, sql: &'static str) -> Vec<i64> {
        block_on(async {
            let store = drift::state::Store::open(&self.state_url()).await.expect("a store");
            let rows = store.rows(sql, &[]).await.expect("rows");
            rows.iter().map(|row| sqlx::Row::get(row, 0)).collect()
        })
    }
}
