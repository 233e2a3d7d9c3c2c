//! An external merge sort of canonical rows by their keys, for sides that do not deliver them in order.
//!
//! Runs are sorted in memory and spilled to unnamed temporary files (which vanish with the process) whenever the budget
//! is reached; at the end all runs are merged, in several passes if there are many.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom, Write};

use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};

use super::rows::{Layout, Rows};

/// How many runs are merged at once, so that nearly every sort reads its rows back only once.
const FAN_IN: usize = 64;
/// How many runs may wait on disk; each is an open file.
const MAX_RUNS: usize = 200;
/// How many chunks of several runs are handed out at once.
const CHUNKS_OUT: usize = 4;

/// Collects rows in any order and gives them back sorted by key (equal keys by hash).
pub(crate) struct Sorter {
    layout: Layout,
    budget: usize,
    /// The size of a chunk of a run, which is what each run holds in memory while it is merged.
    chunk: usize,
    batches: Vec<Rows>,
    held: usize,
    runs: Vec<Run>,
    fan_in: usize,
}

impl Sorter {
    /// A sorter that holds about `budget` bytes.
    pub(crate) fn new(layout: Layout, budget: usize) -> Sorter {
        // A chunk is there twice: as it lies on disk, and unpacked. Together they may take half of the budget.
        let chunk = (budget / (4 * FAN_IN)).clamp(32 << 10, 256 << 10);
        let fan_in = (budget / (4 * chunk)).clamp(4, FAN_IN);
        Sorter { layout, budget, chunk, batches: Vec::new(), held: 0, runs: Vec::new(), fan_in }
    }

    /// Adds rows; spills when the budget is reached. The error is for people.
    pub(crate) fn push(&mut self, rows: Rows) -> Result<(), String> {
        // The index of the sort takes 16 bytes a row.
        self.held += rows.memory() + 16 * rows.len();
        self.batches.push(rows);
        if self.held >= self.budget {
            let memory = self.take_memory();
            self.spill(memory)?;
        }
        Ok(())
    }

    fn take_memory(&mut self) -> MemoryRun {
        self.held = 0;
        MemoryRun::sorted(std::mem::take(&mut self.batches), self.chunk)
    }

    fn spill(&mut self, mut memory: MemoryRun) -> Result<(), String> {
        let mut writer = RunWriter::new(&self.layout)?;
        while let Some(chunk) = memory.next_chunk().map_err(|e| e.to_string())? {
            writer.write(&chunk)?;
        }
        self.runs.push(writer.finish()?);
        if self.runs.len() > MAX_RUNS { self.merge_down_to(MAX_RUNS / 2) } else { Ok(()) }
    }

    /// Merges the smallest runs until no more than so many are left.
    fn merge_down_to(&mut self, left: usize) -> Result<(), String> {
        while self.runs.len() > left {
            let surplus = self.runs.len() - left + 1;
            self.runs.sort_by_key(|run| std::cmp::Reverse(run.rows));
            let smallest = self.runs.split_off(self.runs.len() - surplus.clamp(2, self.fan_in));
            let run = self.merge_to_disk(smallest)?;
            self.runs.push(run);
        }
        Ok(())
    }

    fn merge_to_disk(&self, runs: Vec<Run>) -> Result<Run, String> {
        let mut merge = Merge::new(runs.into_iter().map(Source::Disk).collect(), &self.layout)?;
        let mut writer = RunWriter::new(&self.layout)?;
        while let Some(rows) = merge.next()? {
            writer.write(&rows)?;
        }
        writer.finish()
    }

    /// Ends the input. The sorted rows come from the returned merge.
    pub(crate) fn finish(mut self) -> Result<Merge, String> {
        let memory = self.take_memory();
        self.merge_down_to(self.fan_in)?;
        let mut sources: Vec<Source> = std::mem::take(&mut self.runs).into_iter().map(Source::Disk).collect();
        sources.push(Source::Memory(memory));
        Merge::new(sources, &self.layout)
    }
}

/// One sorted run in memory: the batches as they came and the order of their rows.
struct MemoryRun {
    batches: Vec<Rows>,
    /// The first eight bytes of the key, batch, row.
    order: Vec<(u64, u32, u32)>,
    at: usize,
    chunk_rows: usize,
}

impl MemoryRun {
    fn sorted(batches: Vec<Rows>, chunk: usize) -> MemoryRun {
        let rows: usize = batches.iter().map(Rows::len).sum();
        let bytes: usize = batches.iter().map(Rows::memory).sum();
        let mut order = Vec::with_capacity(rows);
        for (b, batch) in batches.iter().enumerate() {
            order.extend((0..batch.len()).map(|r| (prefix(batch.key(r)), b as u32, r as u32)));
        }
        order.sort_unstable_by(|x, y| {
            x.0.cmp(&y.0).then_with(|| {
                let (a, b) = (&batches[x.1 as usize], &batches[y.1 as usize]);
                compare(a, x.2 as usize, b, y.2 as usize)
            })
        });
        MemoryRun { batches, order, at: 0, chunk_rows: chunk_rows(chunk, bytes, rows) }
    }

    fn next_chunk(&mut self) -> Result<Option<Rows>, ArrowError> {
        let end = (self.at + self.chunk_rows).min(self.order.len());
        if self.at == end {
            return Ok(None);
        }
        let picks: Vec<(usize, usize)> =
            self.order[self.at..end].iter().map(|(_, b, r)| (*b as usize, *r as usize)).collect();
        self.at = end;
        let batches: Vec<&Rows> = self.batches.iter().collect();
        Rows::pick(&batches, &picks).map(Some)
    }
}

fn chunk_rows(chunk: usize, bytes: usize, rows: usize) -> usize {
    (chunk / (bytes / rows.max(1)).max(1)).clamp(16, 4096)
}

/// The first bytes of a key as a number: orders keys that differ there.
fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let n = key.len().min(8);
    first[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(first)
}

fn compare(a: &Rows, i: usize, b: &Rows, j: usize) -> Ordering {
    a.key(i).cmp(b.key(j)).then_with(|| a.hash(i).cmp(&b.hash(j)))
}

/// A sorted run on disk.
struct Run {
    file: File,
    rows: usize,
}

struct RunWriter {
    layout: Layout,
    rows: usize,
    writer: StreamWriter<BufWriter<File>>,
}

/// What to do when a run cannot be written or read.
fn spill_error(error: impl std::fmt::Display) -> String {
    format!(
        "cannot spill to the temporary folder {}: {error}; free space there, set TMPDIR to a larger one, or raise --memory",
        std::env::temp_dir().display()
    )
}

impl RunWriter {
    fn new(layout: &Layout) -> Result<RunWriter, String> {
        let file = tempfile::tempfile().map_err(spill_error)?;
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::LZ4_FRAME))
            .map_err(spill_error)?;
        let writer = StreamWriter::try_new_with_options(BufWriter::new(file), &layout.schema, options)
            .map_err(spill_error)?;
        Ok(RunWriter { layout: layout.clone(), rows: 0, writer })
    }

    fn write(&mut self, rows: &Rows) -> Result<(), String> {
        let batch = self.layout.batch_of(rows).map_err(spill_error)?;
        self.rows += rows.len();
        self.writer.write(&batch).map_err(spill_error)
    }

    fn finish(mut self) -> Result<Run, String> {
        self.writer.finish().map_err(spill_error)?;
        let mut buffered = self.writer.into_inner().map_err(spill_error)?;
        buffered.flush().map_err(spill_error)?;
        let mut file = buffered.into_inner().map_err(spill_error)?;
        file.seek(SeekFrom::Start(0)).map_err(spill_error)?;
        Ok(Run { file, rows: self.rows })
    }
}

enum Source {
    Disk(Run),
    Memory(MemoryRun),
}

enum Chunks {
    Disk(StreamReader<BufReader<File>>),
    Memory(MemoryRun),
}

/// One run while it is merged.
struct Lane {
    chunks: Chunks,
    rows: Rows,
    at: usize,
}

/// A merge of sorted runs.
pub(crate) struct Merge {
    layout: Layout,
    lanes: Vec<Lane>,
    /// A heap of lane numbers: the lane with the least key first.
    heap: Vec<usize>,
}

impl Merge {
    fn new(sources: Vec<Source>, layout: &Layout) -> Result<Merge, String> {
        let mut merge = Merge { layout: layout.clone(), lanes: Vec::new(), heap: Vec::new() };
        for source in sources {
            let mut chunks = match source {
                Source::Disk(run) => {
                    Chunks::Disk(StreamReader::try_new(BufReader::new(run.file), None).map_err(spill_error)?)
                }
                Source::Memory(run) => Chunks::Memory(run),
            };
            if let Some(rows) = next_chunk(&mut chunks, layout)? {
                merge.heap.push(merge.lanes.len());
                merge.lanes.push(Lane { chunks, rows, at: 0 });
            }
        }
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(at);
        }
        Ok(merge)
    }

    /// The next rows in order; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Rows>, String> {
        let mut picks: Vec<(usize, usize)> = Vec::new();
        while let Some(&top) = self.heap.first() {
            let lane = &mut self.lanes[top];
            picks.push((top, lane.at));
            lane.at += 1;
            if lane.at < lane.rows.len() {
                let enough = picks.len() >= CHUNKS_OUT * lane.rows.len();
                self.sift_down(0);
                if enough {
                    return self.pick(&picks).map(Some);
                }
                continue;
            }
            // The lane's chunk is used up: hand out what was picked before it is replaced.
            let out = self.pick(&picks)?;
            let lane = &mut self.lanes[top];
            match next_chunk(&mut lane.chunks, &self.layout)? {
                Some(rows) => {
                    lane.rows = rows;
                    lane.at = 0;
                }
                None => {
                    lane.rows = lane.rows.slice(0, 0);
                    self.heap.swap_remove(0);
                }
            }
            self.sift_down(0);
            return Ok(Some(out));
        }
        Ok(None)
    }

    fn pick(&self, picks: &[(usize, usize)]) -> Result<Rows, String> {
        // A single lane needs no copying.
        let first = picks[0];
        if picks.iter().all(|p| p.0 == first.0) {
            return Ok(self.lanes[first.0].rows.slice(first.1, picks.len()));
        }
        let batches: Vec<&Rows> = self.lanes.iter().map(|lane| &lane.rows).collect();
        Rows::pick(&batches, picks).map_err(|e| e.to_string())
    }

    fn sift_down(&mut self, mut at: usize) {
        let less = |a: usize, b: usize| {
            let (x, y) = (&self.lanes[a], &self.lanes[b]);
            compare(&x.rows, x.at, &y.rows, y.at) == Ordering::Less
        };
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && less(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
}

fn next_chunk(chunks: &mut Chunks, layout: &Layout) -> Result<Option<Rows>, String> {
    match chunks {
        Chunks::Memory(run) => run.next_chunk().map_err(|e| e.to_string()),
        Chunks::Disk(reader) => match reader.next() {
            None => Ok(None),
            Some(batch) => Ok(Some(layout.rows_of(&batch.map_err(spill_error)?))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{int_recipe, int_rows};
    use super::*;

    #[test]
    fn any_budget_gives_the_same_order() {
        let recipe = int_recipe();
        let values: Vec<i64> = (0..20_000).map(|i: i64| (i * 7_919) % 20_011 - 5_000).collect();
        let mut want = values.clone();
        want.sort_unstable();
        for budget in [1, 64 << 10, 1 << 30] {
            let mut sorter = Sorter::new(Layout::of(&recipe, true), budget);
            for chunk in values.chunks(777) {
                sorter.push(int_rows(&recipe, chunk, chunk)).unwrap();
            }
            let mut merge = sorter.finish().unwrap();
            let mut keys: Vec<Vec<u8>> = Vec::new();
            while let Some(rows) = merge.next().unwrap() {
                keys.extend((0..rows.len()).map(|r| rows.key(r).to_vec()));
            }
            assert_eq!(keys.len(), want.len(), "budget {budget}");
            assert!(keys.is_sorted(), "budget {budget}");
        }
    }
}
