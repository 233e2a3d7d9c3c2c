//! A file that appears whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file on its way, beside the place where it will stand.
#[derive(Debug)]
pub struct Pending {
    path: PathBuf,
    part: PathBuf,
    out: Option<BufWriter<File>>,
}

impl Pending {
    /// Makes the file under a name of its own, so that a place where nothing can be written is known at once.
    pub fn create(path: &Path) -> Result<Pending, String> {
        let name = path.file_name().ok_or_else(|| format!("{} is no name of a file", path.display()))?;
        if path.is_dir() {
            return Err(format!("{} is a folder", path.display()));
        }
        let part = path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        let file = File::create(&part).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        Ok(Pending { path: path.to_path_buf(), part, out: Some(BufWriter::new(file)) })
    }

    /// Where it will stand.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills it and puts it into its place.
    pub fn finish(
        mut self,
        fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), String>,
    ) -> Result<(), String> {
        let named = |e: &dyn std::fmt::Display| format!("cannot write {}: {e}", self.path.display());
        let Some(mut out) = self.out.take() else { return Ok(()) };
        fill(&mut out).map_err(|e| named(&e))?;
        let done = |mut out: BufWriter<File>| -> io::Result<()> {
            out.flush()?;
            out.get_ref().sync_all()?;
            fs::rename(&self.part, &self.path)
        };
        done(out).map_err(|e| named(&e))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Gone already where it has been put into its place.
        let _ = fs::remove_file(&self.part);
    }
}
