//! What tells whether a local file is still the one that was looked at.

use std::fs::Metadata;
use std::time::UNIX_EPOCH;

/// A text that changes when the file is written to or replaced by another; `None` where the system keeps no times.
pub(crate) fn stamp(meta: &Metadata) -> Option<String> {
    let changed = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    #[cfg(unix)]
    let file = std::os::unix::fs::MetadataExt::ino(meta);
    #[cfg(not(unix))]
    let file = 0;
    Some(format!("{file:x}-{changed:x}-{:x}", meta.len()))
}
