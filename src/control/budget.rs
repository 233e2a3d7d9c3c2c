//! What drift may ask of each server at once, shared by all pairs that lie on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::address::Address;
use crate::config::settings::{Config, Pair};
use crate::control::address_of;

/// The budgets of all servers.
#[derive(Debug, Clone)]
pub(super) struct Budgets {
    servers: BTreeMap<String, Arc<Semaphore>>,
}

/// What identifies the server of an address: pairs in different databases of one server share its budget.
fn server(address: &Address) -> String {
    match address {
        Address::Postgres(url, _) | Address::MySql(url, _) => {
            let socket = url.query_pairs().find(|(name, _)| matches!(name.as_ref(), "host" | "socket"));
            let place =
                socket.map_or_else(|| url.host_str().unwrap_or("").to_string(), |(_, v)| v.into_owned());
            format!("{}://{place}:{}", url.scheme(), url.port().unwrap_or(0))
        }
        Address::Sqlite(path, _) => format!("sqlite:{path}"),
        Address::Files(_) => "files".into(),
    }
}

impl Budgets {
    /// The budgets of a configuration; where several connections lead to one server, the least holds.
    pub(super) fn of(config: &Config) -> Budgets {
        let mut least: BTreeMap<String, u32> = BTreeMap::new();
        for pair in &config.pairs {
            for table in [&pair.source, &pair.target] {
                let (Ok(address), Some(connection)) =
                    (address_of(config, table), config.connections.get(&table.connection))
                else {
                    continue;
                };
                let own = connection.budget.checks;
                least.entry(server(&address)).and_modify(|known| *known = own.min(*known)).or_insert(own);
            }
        }
        let semaphore = |(name, permits): (String, u32)| (name, Arc::new(Semaphore::new(permits as usize)));
        Budgets { servers: least.into_iter().map(semaphore).collect() }
    }

    /// Waits until both servers of a pair have room. The servers are always asked in the same order, so that no two pairs
    /// wait for each other.
    pub(super) async fn take(&self, config: &Config, pair: &Pair) -> Vec<OwnedSemaphorePermit> {
        let mut names: Vec<String> = [&pair.source, &pair.target]
            .iter()
            .filter_map(|table| address_of(config, table).ok())
            .map(|a| server(&a))
            .collect();
        names.sort();
        names.dedup();
        let mut permits = Vec::with_capacity(names.len());
        for semaphore in names.iter().filter_map(|name| self.servers.get(name)) {
            if let Ok(permit) = Arc::clone(semaphore).acquire_owned().await {
                permits.push(permit);
            }
        }
        permits
    }
}

/// How many key ranges a check of this pair may read at once.
pub(super) fn threads(config: &Config, pair: &Pair) -> usize {
    let of = |name: &String| config.connections.get(name).map_or(1, |c| c.budget.connections);
    of(&pair.source.connection).min(of(&pair.target.connection)).max(1) as usize
}
