//! Reads configuration files: text → tree → secrets → typed data → what only the whole can tell. Every problem is found
//! in one go, and names its file, its line, the key, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::address;
use super::settings::Config;
use super::tree::{Node, Place, Step};
use super::whole;

/// Problems listed at most; the rest often follows from them.
const MOST_PROBLEMS: usize = 50;
/// Where services find their secrets, besides systemd's own folder.
const SECRETS: &str = "/run/secrets";

/// Something wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, from 1; `None` where the file itself is the trouble.
    pub line: Option<u64>,
    /// The key, as `pairs.orders.checks.rows`; empty for the whole file.
    pub key: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A configuration, and what it was made of.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration, secrets in place.
    pub config: Config,
    /// The files, as given.
    pub files: Vec<PathBuf>,
    /// The tree as written, secrets not in place.
    written: Node,
}

/// How an environment variable or a file of secrets is read.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads and merges files. The problems are sorted by file and line.
pub fn load(files: &[PathBuf]) -> Result<Loaded, Vec<Problem>> {
    let mut texts = Vec::with_capacity(files.len());
    let mut problems = Vec::new();
    for file in files {
        let name = file.display().to_string();
        match std::fs::read_to_string(file) {
            Ok(text) => texts.push((name, text)),
            Err(error) => problems.push(Problem {
                file: name,
                line: None,
                key: String::new(),
                message: format!(
                    "cannot be read: {error}; name another with --config, or write one with drift init"
                ),
            }),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut loaded = read(&texts, &|name| std::env::var(name).ok())?;
    loaded.files = files.to_vec();
    Ok(loaded)
}

/// Reads texts with their names. `env` gives the value of an environment variable.
pub fn read(texts: &[(String, String)], env: Lookup<'_>) -> Result<Loaded, Vec<Problem>> {
    let name =
        |at: usize| texts.get(at).map_or_else(|| "configuration".to_string(), |(name, _)| name.clone());
    let mut tree: Option<Node> = None;
    let mut problems = Vec::new();
    for (index, (file, text)) in texts.iter().enumerate() {
        match Node::parse(text, index) {
            Ok(more) => match &mut tree {
                Some(tree) => tree.merge(more),
                None => tree = Some(more),
            },
            Err((place, message)) => problems.push(Problem {
                file: file.clone(),
                line: Some(place.line),
                key: String::new(),
                message: format!("this is no YAML: {message}"),
            }),
        }
    }
    let Some(written) = tree.filter(|_| problems.is_empty()) else { return Err(problems) };

    let mut found = Vec::new();
    let mut expanded = written.clone();
    let folder = texts.first().and_then(|(file, _)| Path::new(file).parent()).unwrap_or(Path::new("."));
    expanded.texts(&mut |text, _, path| {
        if let Err(message) = secrets(text, path, folder, env) {
            found.push((path.to_vec(), message));
        }
    });
    let config = typed(expanded.clone(), &mut found);
    if let (Some(config), true) = (&config, found.is_empty()) {
        whole::check(config, &mut |path, message| found.push((path, message)));
    }
    match config.filter(|_| found.is_empty()) {
        Some(config) => Ok(Loaded { config, files: Vec::new(), written }),
        None => {
            let mut placed: Vec<(Place, Problem)> = found
                .into_iter()
                .map(|(path, message)| {
                    let (at, key) = written.locate(&path);
                    (at, Problem { file: name(at.file), line: Some(at.line), key, message })
                })
                .collect();
            placed.sort_by_key(|(at, _)| *at);
            placed.dedup_by(|a, b| a.1 == b.1);
            placed.truncate(MOST_PROBLEMS);
            Err(placed.into_iter().map(|(_, problem)| problem).collect())
        }
    }
}

/// Puts secrets in place of `${ENV}`, `${ENV:-default}` and `${file:NAME}`; refuses a password in the text itself.
fn secrets(text: &mut String, path: &[Step], folder: &Path, env: Lookup<'_>) -> Result<(), String> {
    let last = path.iter().rev().find_map(|step| match step {
        Step::Key(key) => Some(key.as_str()),
        Step::Index(_) => None,
    });
    let is_url = last == Some("url");
    if is_url && address::has_typed_password(text) {
        return Err("a password stands in the text; write it as ${NAME} and set that environment variable, or as ${file:NAME}".into());
    }
    if matches!(last, Some("hmac" | "bearer")) && !text.trim().starts_with("${") {
        return Err("a secret stands in the text; write it as ${NAME} or ${file:NAME}".into());
    }
    if text.contains("${") {
        let why = std::cell::RefCell::new(None);
        let lookup = |name: &str| secret(name, folder, env).map_err(|e| *why.borrow_mut() = Some(e)).ok();
        match address::expand(text, is_url, &lookup) {
            Ok(expanded) => *text = expanded,
            Err(message) => return Err(why.into_inner().unwrap_or(message)),
        }
    }
    Ok(())
}

fn secret(name: &str, folder: &Path, env: Lookup<'_>) -> Result<String, String> {
    if let Some(file) = name.strip_prefix("file:") {
        let places = env("CREDENTIALS_DIRECTORY")
            .map(PathBuf::from)
            .into_iter()
            .chain([PathBuf::from(SECRETS), folder.to_path_buf()]);
        let mut last = String::new();
        for place in places {
            let path = place.join(file);
            match std::fs::read_to_string(&path) {
                Ok(text) => return Ok(text.trim_end_matches(['\n', '\r']).to_string()),
                Err(error) => last = format!("{}: {error}", path.display()),
            }
        }
        return Err(format!(
            "the secret {file:?} is neither in $CREDENTIALS_DIRECTORY nor in {SECRETS} nor beside the configuration ({last})"
        ));
    }
    let (name, default) = match name.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_string())),
        None => (name, None),
    };
    env(name).filter(|value| !value.is_empty() || default.is_none()).or(default).ok_or_else(|| {
        format!("the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
    })
}

/// Makes typed data of a tree. What cannot be read is noted and left out, so that the next reading finds what else is
/// wrong.
fn typed(mut tree: Node, found: &mut Vec<(Vec<Step>, String)>) -> Option<Config> {
    for _ in 0..MOST_PROBLEMS {
        let json = tree.json();
        let error = match serde_path_to_error::deserialize::<_, Config>(&json) {
            Ok(config) => return Some(config),
            Err(error) => error,
        };
        let mut path = steps(error.path());
        let said = error.into_inner().to_string();
        let (message, culprit) = reworded(&said);
        if let Some(key) = culprit
            && path.last() != Some(&Step::Key(key.clone()))
        {
            path.push(Step::Key(key));
        }
        found.push((path.clone(), message));
        while !tree.remove(&path) {
            path.pop()?;
        }
    }
    None
}

fn steps(path: &serde_path_to_error::Path) -> Vec<Step> {
    use serde_path_to_error::Segment;
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}

/// The library's words for what is wrong in ours, and the key that is unknown, if that is it. Values are never repeated,
/// they may be secrets.
fn reworded(said: &str) -> (String, Option<String>) {
    let said = said.split(" at line ").next().unwrap_or(said);
    let quoted: Vec<&str> = said.split('`').skip(1).step_by(2).collect();
    if said.starts_with("unknown field") {
        let (unknown, known) = quoted.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
        return (format!("there is no such key; {}", suggestion(unknown, known)), Some(unknown.to_string()));
    }
    if said.starts_with("unknown variant") {
        let (unknown, known) = quoted.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
        return (
            format!("{unknown:?} is none of the words known here; {}", suggestion(unknown, known)),
            None,
        );
    }
    if said.starts_with("missing field") {
        return (format!("`{}` is missing here", quoted.first().unwrap_or(&"")), None);
    }
    if let Some((_, expected)) = said.split_once(", expected ") {
        let expected = match expected {
            "a string" => "a text",
            "a sequence" => "a list, such as [a, b]",
            "a boolean" => "true or false",
            "u32" | "u64" | "usize" => "a whole number",
            "a map" => "keys and values",
            other if other.starts_with("struct ") => "keys and values",
            other => other,
        };
        return (format!("{expected} is expected here"), None);
    }
    (said.to_string(), None)
}

/// The nearest of the known words, or all of them.
pub(super) fn suggestion(unknown: &str, known: &[impl AsRef<str>]) -> String {
    let near = known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(unknown, word.as_ref()), word.as_ref()))
        .min()
        .filter(|(distance, word)| *distance <= 1 + word.len() / 3);
    let all: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    match near {
        Some((_, word)) => format!("did you mean `{word}`?"),
        None if all.is_empty() => "nothing is known here".into(),
        None => format!("it has to be one of {}", all.join(", ")),
    }
}

impl Loaded {
    /// The configuration with all its defaults, as YAML; where a secret is put in, its name stands instead.
    pub fn effective(&self) -> String {
        let mut shown = serde_json::to_value(&self.config).unwrap_or(Value::Null);
        let mut written = self.written.clone();
        written.texts(&mut |text, _, path| {
            if text.contains("${")
                && let Some(place) = at(&mut shown, path)
            {
                *place = Value::String(text.clone());
            }
        });
        serde_saphyr::to_string(&Shown(&shown)).unwrap_or_else(|e| format!("# cannot be shown: {e}\n"))
    }

    /// What identifies the configuration: a change of any setting changes it, the order of keys and comments do not.
    pub fn fingerprint(&self) -> String {
        let text = serde_json::to_string(&self.config).unwrap_or_default();
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }
}

/// A value whose numbers are written as numbers; serde_json's own way would show how it keeps them.
struct Shown<'a>(&'a Value);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => serializer.serialize_i64(whole),
                (None, Some(float)) => serializer.serialize_f64(float),
                (None, None) => serializer.collect_str(number),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(Shown)),
            Value::Object(map) => serializer.collect_map(map.iter().map(|(key, value)| (key, Shown(value)))),
            plain => plain.serialize(serializer),
        }
    }
}

fn at<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(*index),
    })
}

/// The JSON Schema of the configuration, for editors.
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(Config);
    schema.insert("title".into(), "Configuration of drift".into());
    schema.to_value()
}
