//! Places where a test kills the process, to see that the next start goes on. They exist in debug builds only.

/// Ends the process at once, without any tidying up, if the environment variable `DRIFT_FAILPOINT` names this place.
pub fn failpoint(name: &str) {
    #[cfg(debug_assertions)]
    if std::env::var("DRIFT_FAILPOINT").is_ok_and(|wanted| wanted == name) {
        std::process::abort();
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
}
