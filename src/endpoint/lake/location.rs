//! Which files an address means: a file, a folder or a glob, locally or in an object store; listed and pinned.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientConfigKey, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};

use super::hive;
use crate::endpoint::stamp::stamp;
use crate::endpoint::{CONNECT_TIMEOUT, Error, ErrorKind, Result, STATEMENT_TIMEOUT, blocking};

/// Folders below one location may lie this deep; links in a circle end here.
const DEEPEST: usize = 64;

/// Wildcards stop at slashes, except `**`.
const GLOB: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Where the files are.
#[derive(Clone)]
pub(super) enum Store {
    /// The local file system.
    Local,
    /// An object store; `base` is what its keys are shown with, such as `s3://bucket/`.
    Remote { store: Arc<dyn ObjectStore>, base: String },
}

/// A file as it was when the listing was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pinned {
    /// Local path or object key.
    pub(super) path: String,
    /// Bytes.
    pub(super) size: u64,
    /// What changes when the content does.
    pub(super) tag: Option<String>,
    /// Columns from folder names.
    pub(super) hive: Vec<(String, Option<String>)>,
}

impl Store {
    /// The store of a location, and the location inside it.
    pub(super) fn of(location: &str) -> Result<(Store, String)> {
        let Some(rest) = location.strip_prefix("s3://") else {
            return match location.split_once("://") {
                Some((scheme, _)) => Err(Error::new(
                    ErrorKind::Usage,
                    format!(
                        "drift cannot read files over {scheme}://; give a local path or an s3:// address"
                    ),
                )),
                None => Ok((Store::Local, location.to_string())),
            };
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(Error::new(
                ErrorKind::Usage,
                "the s3:// address names no bucket; write s3://bucket/path",
            ));
        }
        // The HTTP client needs a process-wide TLS provider; that one is there already is no failure.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let seconds = |d: Duration| format!("{} s", d.as_secs());
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), seconds(CONNECT_TIMEOUT))
            .with_retry(RetryConfig {
                max_retries: 5,
                retry_timeout: STATEMENT_TIMEOUT,
                ..RetryConfig::default()
            })
            .build()
            .map_err(|e| {
                Error::new(ErrorKind::Usage, format!("s3://{bucket}: the settings cannot be used: {e}"))
            })?;
        Ok((Store::Remote { store: Arc::new(store), base: format!("s3://{bucket}/") }, key.to_string()))
    }

    /// The name of a file for people.
    pub(super) fn shown(&self, path: &str) -> String {
        match self {
            Store::Local => path.to_string(),
            Store::Remote { base, .. } => format!("{base}{path}"),
        }
    }

    /// All files of a location, sorted by path. An empty list is an error.
    pub(super) async fn list(&self, location: &str) -> Result<Vec<Pinned>> {
        let mut files = match self {
            Store::Local => {
                let location = location.to_string();
                blocking::run(location.clone(), move || list_local(&location)).await?
            }
            Store::Remote { store, .. } => self.list_remote(store.as_ref(), location).await?,
        };
        if files.is_empty() {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{}: no file is there (names that start with _ or . are left out)",
                    self.shown(location)
                ),
            ));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup();
        Ok(files)
    }

    async fn list_remote(&self, store: &dyn ObjectStore, location: &str) -> Result<Vec<Pinned>> {
        let shown = self.shown(location);
        let key = |text: &str| {
            object_store::path::Path::parse(text.trim_end_matches('/'))
                .map_err(|_| Error::new(ErrorKind::Usage, format!("{shown}: this is no object key")))
        };
        let pattern = compiled(location)?;
        if pattern.is_none() && !location.is_empty() && !location.ends_with('/') {
            match store.head(&key(location)?).await {
                Ok(meta) => return Ok(vec![pin_object(&meta, Vec::new())]),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(store_error(&shown, e, ErrorKind::Unavailable)),
            }
        }
        let root = if pattern.is_some() { fixed_part(location) } else { location };
        let root = key(root)?;
        let listed: Vec<ObjectMeta> = store
            .list(Some(&root).filter(|r| !r.as_ref().is_empty()))
            .try_collect()
            .await
            .map_err(|e| store_error(&shown, e, ErrorKind::Unavailable))?;
        let mut files = Vec::new();
        for meta in listed {
            let path = meta.location.as_ref();
            let below = path.strip_prefix(root.as_ref()).unwrap_or(path).trim_start_matches('/');
            refuse_table_format(&shown, below)?;
            let matches = pattern.as_ref().is_none_or(|p| matches_with_folder(p, path));
            if matches && !below.is_empty() && !below.split('/').any(is_hidden) {
                files.push(pin_object(&meta, hive::parts(below)));
            }
        }
        Ok(files)
    }
}

/// What an object store's error means; `lost` is the kind of everything that may pass.
pub(super) fn store_error(shown: &str, error: object_store::Error, lost: ErrorKind) -> Error {
    use object_store::Error as E;
    let (kind, what) = match error {
        E::NotFound { .. } => (ErrorKind::Usage, "there is no such bucket or object".to_string()),
        E::PermissionDenied { .. } => (ErrorKind::Refused, "reading is not permitted".to_string()),
        E::Unauthenticated { .. } => {
            (ErrorKind::Refused, "the credentials are missing or wrong; set the AWS_… variables".to_string())
        }
        other => (lost, format!("the object store failed: {}", first_line(&other.to_string()))),
    };
    Error::new(kind, format!("{shown}: {what}"))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

fn pin_object(meta: &ObjectMeta, hive: Vec<(String, Option<String>)>) -> Pinned {
    Pinned { path: meta.location.to_string(), size: meta.size, tag: Some(object_tag(meta)), hive }
}

/// The entity tag, or the time of the last change where the store gives none.
pub(super) fn object_tag(meta: &ObjectMeta) -> String {
    meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339())
}

fn list_local(location: &str) -> Result<Vec<Pinned>> {
    let mut files = Vec::new();
    let root = Path::new(location);
    match std::fs::metadata(root) {
        Ok(_) => collect(root, root, location, 0, &mut files)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            if compiled(location)?.is_none() {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!("{location}: there is no such file or folder"),
                ));
            }
            let root = PathBuf::from(fixed_part(location));
            let found = glob::glob_with(location, GLOB).map_err(|e| bad_pattern(location, &e))?;
            for entry in found {
                let path = entry.map_err(|e| unreadable(&e.path().to_string_lossy(), e.error()))?;
                let below = path.strip_prefix(&root).unwrap_or(&path);
                if !below.iter().any(|part| is_hidden(&part.to_string_lossy())) {
                    collect(&path, &root, location, 0, &mut files)?;
                }
            }
        }
        Err(e) => return Err(unreadable(location, &e)),
    }
    Ok(files)
}

/// Pins a file, or all files below a folder.
fn collect(path: &Path, root: &Path, location: &str, depth: usize, out: &mut Vec<Pinned>) -> Result<()> {
    let Some(text) = path.to_str() else {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("{}: the name is not UTF-8; rename the file", path.display()),
        ));
    };
    let meta = std::fs::metadata(path).map_err(|e| unreadable(text, &e))?;
    if meta.is_file() {
        let below = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
        out.push(Pinned {
            path: text.to_string(),
            size: meta.len(),
            tag: stamp(&meta),
            hive: hive::parts(&below),
        });
        return Ok(());
    }
    if !meta.is_dir() {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("{text}: this is no regular file; drift reads files more than once"),
        ));
    }
    if depth == DEEPEST {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("{location}: folders lie too deep (links in a circle?)"),
        ));
    }
    for entry in std::fs::read_dir(path).map_err(|e| unreadable(text, &e))? {
        let entry = entry.map_err(|e| unreadable(text, &e))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        refuse_table_format(location, if name == "_delta_log" { "_delta_log/" } else { &name })?;
        if !is_hidden(&name) {
            collect(&entry.path(), root, location, depth + 1, out)?;
        }
    }
    Ok(())
}

/// Tables with a log of their own hold files that no longer count; reading them all would give wrong rows.
fn refuse_table_format(location: &str, below: &str) -> Result<()> {
    let format = if below.split('/').rev().skip(1).any(|folder| folder == "_delta_log") {
        "Delta"
    } else if below.ends_with(".metadata.json") {
        "Iceberg"
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::Usage,
        format!(
            "{location}: this is a {format} table, whose log says which files count; drift does not read it: export \
             the current rows and compare those files"
        ),
    ))
}

fn unreadable(path: &str, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::PermissionDenied => ErrorKind::Refused,
        std::io::ErrorKind::NotFound => ErrorKind::Usage,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{path}: it cannot be read: {error}"))
}

fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}

fn compiled(location: &str) -> Result<Option<Pattern>> {
    if !location.contains(['*', '?', '[']) {
        return Ok(None);
    }
    Pattern::new(location).map(Some).map_err(|e| bad_pattern(location, &e))
}

fn bad_pattern(location: &str, error: &glob::PatternError) -> Error {
    Error::new(ErrorKind::Usage, format!("{location}: the pattern cannot be read: {}", error.msg))
}

/// The folders in front of the first wildcard.
fn fixed_part(location: &str) -> &str {
    let wild = location.find(['*', '?', '[']).unwrap_or(location.len());
    location[..wild].rfind('/').map_or("", |slash| &location[..slash + 1])
}

/// Whether a key, or a folder that holds it, matches.
fn matches_with_folder(pattern: &Pattern, key: &str) -> bool {
    let folders = key.match_indices('/').map(|(at, _)| &key[..at]);
    folders.chain([key]).any(|part| pattern.matches_with(part, GLOB))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    fn names(files: &[Pinned]) -> Vec<&str> {
        files.iter().map(|f| f.path.as_str()).collect()
    }

    #[tokio::test]
    async fn objects_are_found_by_key_folder_and_glob() {
        let memory = InMemory::new();
        for key in ["t/a=1/x.csv", "t/a=2/y.csv", "t/_tmp/z.csv", "t/.w.csv", "tt/x.csv", "one.csv"] {
            memory.put(&key.into(), "id\n1\n".into()).await.unwrap();
        }
        let store = Store::Remote { store: Arc::new(memory), base: "s3://b/".into() };
        let all = store.list("t").await.unwrap();
        assert_eq!(names(&all), ["t/a=1/x.csv", "t/a=2/y.csv"]);
        assert_eq!(all[1].hive, [("a".to_string(), Some("2".to_string()))]);
        assert_eq!(names(&store.list("t/").await.unwrap()), ["t/a=1/x.csv", "t/a=2/y.csv"]);
        assert_eq!(names(&store.list("one.csv").await.unwrap()), ["one.csv"]);
        assert_eq!(names(&store.list("t/*/y.csv").await.unwrap()), ["t/a=2/y.csv"]);
        assert_eq!(names(&store.list("t*/a=*").await.unwrap()), ["t/a=1/x.csv", "t/a=2/y.csv"]);
        let none = store.list("t/*.csv").await.unwrap_err();
        assert_eq!(none.kind, ErrorKind::Usage);
        assert!(none.message.starts_with("s3://b/t/*.csv"), "{none}");
    }

    #[tokio::test]
    async fn tables_with_a_log_are_refused() {
        let memory = InMemory::new();
        for key in ["d/_delta_log/0.json", "d/x.parquet", "i/metadata/v1.metadata.json", "i/data/x.parquet"] {
            memory.put(&key.into(), "x".into()).await.unwrap();
        }
        let store = Store::Remote { store: Arc::new(memory), base: "s3://b/".into() };
        assert!(store.list("d/").await.unwrap_err().message.contains("Delta"));
        assert!(store.list("i").await.unwrap_err().message.contains("Iceberg"));
    }

    #[test]
    fn schemes_choose_the_store() {
        assert!(matches!(Store::of("data/x.csv"), Ok((Store::Local, path)) if path == "data/x.csv"));
        let (store, key) = Store::of("s3://bucket/a b/x=1/").unwrap();
        assert_eq!(key, "a b/x=1/");
        assert_eq!(store.shown("a b/x=1/f.csv"), "s3://bucket/a b/x=1/f.csv");
        assert_eq!(Store::of("s3:///x").err().unwrap().kind, ErrorKind::Usage);
        assert_eq!(Store::of("https://h/x.csv").err().unwrap().kind, ErrorKind::Usage);
    }

    #[test]
    fn wildcards_end_the_fixed_part() {
        assert_eq!(fixed_part("a/b/*.csv"), "a/b/");
        assert_eq!(fixed_part("a/b?/c.csv"), "a/");
        assert_eq!(fixed_part("*.csv"), "");
        assert_eq!(fixed_part("/x[0-9]"), "/");
    }
}
