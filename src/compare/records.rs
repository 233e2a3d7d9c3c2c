//! Every difference of a reading, on disk: for the files that list them all and for the statements that would mend them.
//!
//! A tally keeps only the first differences. What was asked for in full is written line by line to unnamed temporary
//! files, which vanish with the process, in key order; parts that were read side by side are put behind each other.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::sync::Arc;

use super::difference::Difference;
use crate::endpoint::repair::{Repair, Row};

/// Lines on disk.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    /// Those of the parts before, then this one's.
    files: Vec<BufWriter<File>>,
    /// Whether the last file is this part's own.
    is_open: bool,
}

impl Spool {
    fn line(&mut self, text: &str) -> io::Result<()> {
        if !self.is_open {
            self.files.push(BufWriter::new(tempfile::tempfile()?));
            self.is_open = true;
        }
        match self.files.last_mut() {
            Some(file) => writeln!(file, "{text}"),
            None => Ok(()),
        }
    }

    fn append(&mut self, other: Spool) {
        self.files.extend(other.files);
        self.is_open = false;
    }

    /// Hands over every line.
    fn read(&mut self, mut line: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        for file in &mut self.files {
            file.flush()?;
            let file = file.get_mut();
            file.rewind()?;
            for text in BufReader::new(file).lines() {
                line(&text?)?;
            }
        }
        Ok(())
    }
}

/// What is written down of each difference.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// The differences themselves.
    pub(crate) listing: bool,
    /// The statements.
    pub(crate) repair: Option<Arc<Repair>>,
}

/// The differences of one reading, as far as they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Records {
    wanted: Wanted,
    listing: Spool,
    /// Deletes, updates, inserts: what is removed first frees the unique values that others take.
    statements: [Spool; 3],
    /// Why the listing is not complete.
    failed: Option<String>,
    /// Why the statements are not.
    refused: Option<String>,
}

/// A row that differs: what each side has.
pub(crate) enum Differing<'a> {
    /// Both, in these columns behind the key.
    Changed(Row<'a>, Row<'a>, &'a [usize]),
    /// The source only.
    OnlyInSource(Row<'a>),
    /// The target only.
    OnlyInTarget(Row<'a>),
}

impl Records {
    pub(crate) fn new(wanted: Wanted) -> Records {
        Records { wanted, ..Records::default() }
    }

    /// Whether differences are listed.
    pub(crate) fn lists(&self) -> bool {
        self.wanted.listing
    }

    /// Writes a difference down.
    pub(crate) fn list(&mut self, difference: &Difference) {
        if self.failed.is_none() {
            let written = serde_json::to_string(difference).map_err(io::Error::from);
            self.failed = written.and_then(|text| self.listing.line(&text)).err().map(|e| cannot_keep(&e));
        }
    }

    /// Writes the statement for a differing row down.
    pub(crate) fn mend(&mut self, row: &Differing<'_>) {
        let Some(repair) = self.wanted.repair.as_ref().filter(|_| self.refused.is_none()) else { return };
        let (at, statement) = match row {
            Differing::OnlyInTarget(target) => (0, repair.delete(*target)),
            Differing::Changed(source, target, columns) => (1, repair.update(*source, *target, columns)),
            Differing::OnlyInSource(source) => (2, repair.insert(*source)),
        };
        let written = statement.and_then(|text| self.statements[at].line(&text).map_err(|e| cannot_keep(&e)));
        self.refused = written.err();
    }

    pub(crate) fn append(&mut self, other: Records) {
        self.listing.append(other.listing);
        for (mine, more) in self.statements.iter_mut().zip(other.statements) {
            mine.append(more);
        }
        self.failed = self.failed.take().or(other.failed);
        self.refused = self.refused.take().or(other.refused);
    }

    /// Hands over all differences in key order.
    pub(crate) fn differences(
        &mut self,
        mut each: impl FnMut(Difference) -> io::Result<()>,
    ) -> Result<(), String> {
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        let read = self.listing.read(|line| each(serde_json::from_str(line)?));
        read.map_err(|e| e.to_string())
    }

    /// Writes the script that would make the target equal. The error says why there is none.
    pub(crate) fn script(&mut self, header: &str, out: &mut dyn Write) -> Result<(), String> {
        let repair = self.wanted.repair.clone().ok_or("no statements were asked for")?;
        if let Some(why) = &self.refused {
            return Err(why.clone());
        }
        let mut write = || {
            out.write_all(header.as_bytes())?;
            out.write_all(repair.opening().as_bytes())?;
            for spool in &mut self.statements {
                spool.read(|line| writeln!(out, "{line}"))?;
            }
            out.write_all(repair.closing().as_bytes())
        };
        write().map_err(|e| e.to_string())
    }
}

fn cannot_keep(error: &io::Error) -> String {
    format!(
        "cannot write to the temporary folder {}: {error}; free space there or set TMPDIR to a larger one",
        std::env::temp_dir().display()
    )
}
