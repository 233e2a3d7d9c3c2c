//! The rules of the house: arrows point downwards, files stay readable, and what the documents promise about flags and
//! exit codes is what the binary has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::drift::Drift;

/// The rooms, highest first. A room may use those below it.
const ROOMS: [&str; 15] = [
    "cli",
    "server",
    "control",
    "report",
    "audit",
    "preflight",
    "incident",
    "compare",
    "schema",
    "endpoint",
    "notify",
    "state",
    "config",
    "value",
    "telemetry",
];
/// No file may have more lines; one that needs them holds two ideas.
const MOST_LINES: usize = 700;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every Rust file below `src`, by its path from there.
fn sources() -> Vec<(PathBuf, String)> {
    let src = root().join("src");
    let mut folders = vec![src.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push((path.strip_prefix(&src).expect("a path below src").to_path_buf(), read(&path)));
            }
        }
    }
    assert!(found.len() > 20, "the sources were not found");
    found.sort();
    found
}

/// The names that follow each `mark` in the text; empty where none does.
fn names_after<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(mark).skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn arrows_point_downwards() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let room = path.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            for used in names_after(line, "crate::") {
                let allowed = match (room, used) {
                    ("main.rs" | "lib.rs", _) => false,
                    ("config", used) => matches!(used, "config" | "value"),
                    (room, used) => {
                        let level = |name| ROOMS.iter().position(|r| *r == name);
                        matches!((level(room), level(used)), (Some(own), Some(other)) if own <= other)
                    }
                };
                if !allowed {
                    wrong.push(format!("{}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that point upwards or nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn the_map_shows_every_room() {
    let map = read("src/lib.rs");
    let shown: Vec<&str> = names_after(&map, "//! - [`").collect();
    assert_eq!(shown, ROOMS, "the rooms in the map of src/lib.rs");
    let declared: BTreeSet<&str> = names_after(&map, "pub mod ").collect();
    assert_eq!(declared, BTreeSet::from(ROOMS), "the rooms declared in src/lib.rs");
    assert!(
        !read("src/main.rs").contains("mod "),
        "src/main.rs uses the library and holds nothing of its own"
    );
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = sources()
        .iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(path, lines)| format!("{} has {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "more than {MOST_LINES} lines: {}", long.join(", "));
}

#[test]
fn one_version_of_arrow() {
    let lock = read("Cargo.lock");
    assert_eq!(lock.lines().filter(|line| *line == "name = \"arrow-array\"").count(), 1);
}

fn compare_help() -> String {
    Drift::new().args(["compare", "--help"]).run().expect_code(0).stdout
}

/// The long flags in the text.
fn flags(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in text.split("--").skip(1) {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('-');
        if !name.is_empty() && name != "help" {
            found.insert(format!("--{name}"));
        }
    }
    found
}

/// A section of a document, from its heading to the next one of the same or a higher level.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let start =
        text.find(heading).unwrap_or_else(|| panic!("there is no heading {heading:?}")) + heading.len();
    let level = heading.chars().take_while(|c| *c == '#').count();
    let rest = &text[start..];
    let end = (1..=level).filter_map(|n| rest.find(&format!("\n{} ", "#".repeat(n)))).min();
    &rest[..end.unwrap_or(rest.len())]
}

#[test]
fn the_documented_flags_are_those_of_the_binary() {
    let help = compare_help();
    let options: Vec<&str> = help.lines().filter(|line| line.trim_start().starts_with('-')).collect();
    let offered = flags(&options.join("\n"));
    assert!(offered.len() > 20, "{help}");
    let document = read("docs/interface.md");
    let common = flags(section(&document, "### All commands"));
    let own = flags(section(&document, "### `drift compare`"));
    let documented: BTreeSet<String> = common.union(&own).cloned().collect();
    assert_eq!(documented, offered, "left: docs/interface.md, right: drift compare --help");
}

#[test]
fn the_documented_exit_codes_are_those_of_the_binary() {
    /// The numbers in the first cells of a table of codes.
    fn table(text: &str) -> BTreeSet<u32> {
        let cells = text.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
        cells.flat_map(|cell| cell.split(',')).filter_map(|code| code.trim().parse().ok()).collect()
    }
    let help = compare_help();
    let line = help.split("Exit codes:").nth(1).expect("the help names the exit codes");
    let offered: BTreeSet<u32> = line.split([' ', ',', '\n']).filter_map(|word| word.parse().ok()).collect();
    assert_eq!(offered, BTreeSet::from([0, 1, 2, 3, 4, 5, 130, 143]));
    assert_eq!(table(section(&read("README.md"), "## Exit codes")), offered, "README.md");
    assert_eq!(table(section(&read("docs/interface.md"), "### Exit codes")), offered, "docs/interface.md");
}

#[test]
fn the_demo_finds_what_it_planted_each_time_in_a_folder_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for shops in ["drift-demo", "drift-demo-2"] {
        let outcome = Drift::new().arg("demo").current_dir(folder.path()).run().expect_code(0);
        assert!(
            outcome.stdout.contains("All 5 planted faults were named, and nothing else was."),
            "{outcome}"
        );
        for file in ["replica.db", "report.html", "drift.yaml", "watch.html"] {
            assert!(folder.path().join(shops).join(file).is_file(), "{shops}/{file} is missing: {outcome}");
        }
    }
}
