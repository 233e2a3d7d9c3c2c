//! The bytes of one pinned file, read in pieces from a blocking thread. Whatever differs from the pin is an error.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use object_store::{GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt};
use parquet::file::reader::{ChunkReader, Length};
use tokio::runtime::Handle;

use super::location::{Pinned, Store, object_tag, store_error};
use crate::endpoint::stamp::stamp;
use crate::endpoint::{Cost, Error, ErrorKind, Result};

/// What is read at once: locally little, as the system reads ahead itself; remotely much, as each request takes its time.
const LOCAL_WINDOW: u64 = 256 << 10;
const REMOTE_WINDOW: u64 = 4 << 20;
/// The greatest number of windows kept, so that a wide Parquet file cannot fill the memory.
const MOST_WINDOWS: usize = 16;

/// An open file. Clones share it.
#[derive(Clone)]
pub(super) struct Input(Arc<Shared>);

struct Shared {
    pinned: Pinned,
    shown: String,
    origin: Origin,
    cost: Arc<Cost>,
    windows: Mutex<Windows>,
    /// The first error of a read, since decoders wrap errors beyond recognition.
    fault: Mutex<Option<Error>>,
}

enum Origin {
    Local(Mutex<File>),
    Remote { store: Arc<dyn ObjectStore>, path: object_store::path::Path, handle: Handle },
}

/// The pieces read last. A Parquet reader jumps between its columns, each of which is read in sequence.
struct Windows {
    keep: usize,
    recent: VecDeque<(u64, Bytes)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Input {
    /// Opens a file on a blocking thread and checks that it is still the pinned one. `keep` pieces stay in memory.
    pub(super) fn open(store: &Store, pinned: &Pinned, cost: Arc<Cost>, keep: usize) -> Result<Input> {
        let shown = store.shown(&pinned.path);
        let origin = match store {
            Store::Local => {
                let file = File::open(&pinned.path).map_err(|e| local_error(&shown, &e))?;
                let meta = file.metadata().map_err(|e| local_error(&shown, &e))?;
                if meta.len() != pinned.size || stamp(&meta) != pinned.tag {
                    return Err(changed(&shown));
                }
                Origin::Local(Mutex::new(file))
            }
            Store::Remote { store, .. } => Origin::Remote {
                store: store.clone(),
                path: object_store::path::Path::parse(&pinned.path)
                    .map_err(|_| Error::new(ErrorKind::Data, format!("{shown}: this is no object key")))?,
                handle: Handle::try_current()
                    .map_err(|_| Error::new(ErrorKind::Lost, "drift is shutting down"))?,
            },
        };
        let windows = Windows { keep: keep.clamp(1, MOST_WINDOWS), recent: VecDeque::new() };
        Ok(Input(Arc::new(Shared {
            pinned: pinned.clone(),
            shown,
            origin,
            cost,
            windows: Mutex::new(windows),
            fault: Mutex::new(None),
        })))
    }

    /// The file for people.
    pub(super) fn shown(&self) -> &str {
        &self.0.shown
    }

    /// Bytes in all.
    pub(super) fn size(&self) -> u64 {
        self.0.pinned.size
    }

    /// A reader from `offset` on.
    pub(super) fn reader(&self, offset: u64) -> Reader {
        Reader { input: self.clone(), at: offset, piece: Bytes::new() }
    }

    /// A [`ErrorKind::Data`] error of this file, unless reading it has failed: then that error.
    pub(super) fn error(&self, what: impl std::fmt::Display) -> Error {
        let fault = lock(&self.0.fault).clone();
        fault.unwrap_or_else(|| Error::new(ErrorKind::Data, format!("{}: {what}", self.0.shown)))
    }

    /// Checks, after the file was read, that it is still the pinned one.
    pub(super) fn verify(&self) -> Result<()> {
        let pinned = &self.0.pinned;
        let (size, tag) = match &self.0.origin {
            Origin::Local(_) => {
                let meta = std::fs::metadata(&pinned.path).map_err(|e| local_error(&self.0.shown, &e))?;
                (meta.len(), stamp(&meta))
            }
            Origin::Remote { store, path, handle } => {
                let meta = handle.block_on(store.head(path)).map_err(|e| self.remote_error(e))?;
                (meta.size, Some(object_tag(&meta)))
            }
        };
        if size == pinned.size && tag == pinned.tag { Ok(()) } else { Err(changed(&self.0.shown)) }
    }

    /// Exactly the bytes from `offset` on.
    fn exact(&self, offset: u64, length: u64) -> Result<Bytes> {
        if offset.checked_add(length).is_none_or(|end| end > self.size()) {
            return Err(self.error("the file is damaged: it refers to bytes behind its end"));
        }
        if length >= self.window_size() {
            return self.fetch(offset, length);
        }
        let piece = self.window(offset, length)?;
        Ok(piece.slice(..length as usize))
    }

    /// At least `least` bytes from `offset` on, unless the file ends before; out of the recent pieces where possible.
    fn window(&self, offset: u64, least: u64) -> Result<Bytes> {
        let mut windows = lock(&self.0.windows);
        let hit = windows.recent.iter().position(|(start, bytes)| {
            *start <= offset
                && offset + least <= start + bytes.len() as u64
                && offset < start + bytes.len() as u64
        });
        if let Some(found) = hit.and_then(|at| windows.recent.remove(at)) {
            let piece = found.1.slice((offset - found.0) as usize..);
            windows.recent.push_back(found);
            return Ok(piece);
        }
        let length = self.window_size().max(least).min(self.size().saturating_sub(offset));
        if length == 0 {
            return Ok(Bytes::new());
        }
        let piece = self.fetch(offset, length)?;
        if windows.recent.len() == windows.keep {
            windows.recent.pop_front();
        }
        windows.recent.push_back((offset, piece.clone()));
        Ok(piece)
    }

    fn window_size(&self) -> u64 {
        match self.0.origin {
            Origin::Local(_) => LOCAL_WINDOW,
            Origin::Remote { .. } => REMOTE_WINDOW,
        }
    }

    fn fetch(&self, offset: u64, length: u64) -> Result<Bytes> {
        let fetched = match &self.0.origin {
            Origin::Local(file) => self.fetch_local(&mut lock(file), offset, length),
            Origin::Remote { store, path, handle } => {
                handle.block_on(self.fetch_remote(store.as_ref(), path, offset..offset + length))
            }
        };
        match fetched {
            Ok(bytes) => {
                self.0.cost.received(bytes.len());
                Ok(bytes)
            }
            Err(error) => Err(lock(&self.0.fault).get_or_insert(error).clone()),
        }
    }

    fn fetch_local(&self, file: &mut File, offset: u64, length: u64) -> Result<Bytes> {
        let mut bytes = Vec::with_capacity(length as usize);
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.take(length).read_to_end(&mut bytes))
            .map_err(|e| local_error(&self.0.shown, &e))?;
        if bytes.len() as u64 != length { Err(changed(&self.0.shown)) } else { Ok(bytes.into()) }
    }

    async fn fetch_remote(
        &self,
        store: &dyn ObjectStore,
        path: &object_store::path::Path,
        range: std::ops::Range<u64>,
    ) -> Result<Bytes> {
        let length = range.end - range.start;
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let answer: GetResult = store.get_opts(path, options).await.map_err(|e| self.remote_error(e))?;
        if answer.meta.size != self.size() || Some(object_tag(&answer.meta)) != self.0.pinned.tag {
            return Err(changed(&self.0.shown));
        }
        let bytes = answer.bytes().await.map_err(|e| self.remote_error(e))?;
        if bytes.len() as u64 != length { Err(changed(&self.0.shown)) } else { Ok(bytes) }
    }

    fn remote_error(&self, error: object_store::Error) -> Error {
        match error {
            object_store::Error::NotFound { .. } => vanished(&self.0.shown),
            other => store_error(&self.0.shown, other, ErrorKind::Lost),
        }
    }
}

fn changed(shown: &str) -> Error {
    Error::new(ErrorKind::Data, format!("{shown}: the file changed while drift was at work; run again"))
}

fn vanished(shown: &str) -> Error {
    Error::new(ErrorKind::Data, format!("{shown}: the file vanished while drift was at work; run again"))
}

fn local_error(shown: &str, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => vanished(shown),
        std::io::ErrorKind::PermissionDenied => {
            Error::new(ErrorKind::Refused, format!("{shown}: reading is not permitted"))
        }
        _ => Error::new(ErrorKind::Lost, format!("{shown}: reading failed: {error}")),
    }
}

/// Reads a file in sequence.
pub(super) struct Reader {
    input: Input,
    at: u64,
    piece: Bytes,
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.piece.is_empty() {
            self.piece = self.input.window(self.at, 1).map_err(std::io::Error::other)?;
        }
        let n = out.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut out[..n]);
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.input.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| std::io::Error::other("a place in front of the file"))?;
        self.piece = Bytes::new();
        Ok(self.at)
    }
}

impl Length for Input {
    fn len(&self) -> u64 {
        self.size()
    }
}

impl ChunkReader for Input {
    type T = Reader;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Reader> {
        Ok(self.reader(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.exact(start, length as u64).map_err(|e| parquet::errors::ParquetError::External(Box::new(e)))
    }
}
