//! What the tests need around them: databases that vanish after the test, the built binary with a deadline, files, and
//! a proxy that cuts connections. Nothing in here knows what a test is about.

pub mod client;
pub mod database;
pub mod drift;
pub mod parquet;
pub mod proxy;
pub mod services;
pub mod shop;
pub mod twin;

use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

/// Runs a future on the runtime that all tests share.
pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// The runtime that all tests share.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime for the tests"))
}

/// Waits until something holds, and fails if it does not within 30 seconds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "this never came: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
