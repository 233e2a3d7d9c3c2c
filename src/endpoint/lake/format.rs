//! What a file holds, by its name or its first bytes.

use std::io::Read;

use super::input::Input;
use crate::endpoint::Result;

/// The format of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Parquet,
    Ipc,
    Csv,
    /// CSV with tabs unless another delimiter was given.
    Tsv,
    Ndjson,
}

impl Format {
    /// The word for people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Format::Parquet => "Parquet",
            Format::Ipc => "Arrow",
            Format::Csv => "CSV",
            Format::Tsv => "TSV",
            Format::Ndjson => "NDJSON",
        }
    }
}

/// How the bytes are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// Format and packing of a file name; `None` when the name does not tell.
pub(super) fn of_name(path: &str) -> Option<(Format, Packing)> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let (name, packing) = if let Some(name) = name.strip_suffix(".gz") {
        (name, Packing::Gzip)
    } else if let Some(name) = name.strip_suffix(".zst") {
        (name, Packing::Zstd)
    } else {
        (name.as_str(), Packing::Plain)
    };
    let format = match name.rsplit_once('.')?.1 {
        "parquet" | "pq" | "parq" => Format::Parquet,
        "arrow" | "ipc" | "feather" | "arrows" => Format::Ipc,
        "csv" | "txt" => Format::Csv,
        "tsv" | "tab" => Format::Tsv,
        "ndjson" | "jsonl" | "json" => Format::Ndjson,
        _ => return None,
    };
    match (format, packing) {
        // These compress inside; a packed one could not be read in pieces.
        (Format::Parquet | Format::Ipc, Packing::Gzip | Packing::Zstd) => None,
        known => Some(known),
    }
}

/// Format and packing by the first bytes.
pub(super) fn of_content(input: &Input) -> Result<(Format, Packing)> {
    let mut head = Vec::new();
    input
        .reader(0)
        .take(4096)
        .read_to_end(&mut head)
        .map_err(|e| input.error(format_args!("reading failed: {e}")))?;
    let first_visible = head.iter().find(|b| !b.is_ascii_whitespace());
    Ok(match head.as_slice() {
        [b'P', b'A', b'R', b'1', ..] => (Format::Parquet, Packing::Plain),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => {
            (Format::Ipc, Packing::Plain)
        }
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return Err(input
                .error("the file is compressed; give it a name that says what is inside, such as .csv.gz"));
        }
        _ if first_visible == Some(&b'{') => (Format::Ndjson, Packing::Plain),
        _ => (Format::Csv, Packing::Plain),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_format_and_packing() {
        for (name, want) in [
            ("a/b.c/x.PARQUET", Some((Format::Parquet, Packing::Plain))),
            ("x.csv.gz", Some((Format::Csv, Packing::Gzip))),
            ("x.ndjson.zst", Some((Format::Ndjson, Packing::Zstd))),
            ("x.2026.feather", Some((Format::Ipc, Packing::Plain))),
            ("x.parquet.gz", None),
            ("part-00000", None),
            ("x.xlsx", None),
        ] {
            assert_eq!(of_name(name), want, "{name}");
        }
    }
}
