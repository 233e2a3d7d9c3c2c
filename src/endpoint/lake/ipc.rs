//! Arrow IPC files and streams (Feather version 2).

use std::io::{BufReader, Read, Seek, SeekFrom};

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::record_batch::RecordBatch;

use super::input::{Input, Reader};
use super::typed::{self, Annotation, TypedColumn};
use crate::endpoint::Result;

const MAGIC: &[u8] = b"ARROW1";
/// What a finished stream ends with.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// An open Arrow file.
pub(super) struct IpcFile {
    input: Input,
    stream: bool,
    /// Its columns.
    pub(super) columns: Vec<TypedColumn>,
}

impl IpcFile {
    /// Reads the schema.
    pub(super) fn open(input: Input) -> Result<IpcFile> {
        let head = bytes(&input, SeekFrom::Start(0), MAGIC.len())?;
        let stream = head != MAGIC;
        if stream {
            if head.starts_with(b"FEA1") {
                return Err(input.error("this is Feather version 1; write it as version 2 or as Parquet"));
            }
            // A stream may end anywhere between two batches and still decode: its end mark shows that it is whole.
            let tail = bytes(&input, SeekFrom::End(-8), END_OF_STREAM.len())?;
            if tail != END_OF_STREAM {
                return Err(input.error("this is no Arrow file, or an Arrow stream that is cut short"));
            }
        }
        let schema = Decoder::new(&input, stream, None)?.schema();
        let columns = schema.fields().iter().map(|f| typed::column(f, Annotation::of_field(f))).collect();
        Ok(IpcFile { input, stream, columns })
    }

    /// Reads the columns at the given places, which ascend.
    pub(super) fn batches(
        self,
        places: &[usize],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let input = self.input;
        let decoder = Decoder::new(&input, self.stream, Some(places.to_vec()))?;
        Ok(decoder.map(move |batch| batch.map_err(|e| damaged(&input, &e))))
    }
}

fn damaged(input: &Input, error: &ArrowError) -> crate::endpoint::Error {
    input.error(format_args!("the Arrow file is damaged or cut short: {error}"))
}

fn bytes(input: &Input, from: SeekFrom, length: usize) -> Result<Vec<u8>> {
    let mut reader = input.reader(0);
    let mut out = Vec::new();
    if input.size() >= length as u64 {
        reader
            .seek(from)
            .and_then(|_| reader.take(length as u64).read_to_end(&mut out))
            .map_err(|e| input.error(format_args!("reading failed: {e}")))?;
    }
    Ok(out)
}

enum Decoder {
    File(FileReader<BufReader<Reader>>),
    Stream(StreamReader<BufReader<Reader>>),
}

impl Decoder {
    fn new(input: &Input, stream: bool, projection: Option<Vec<usize>>) -> Result<Decoder> {
        let reader = BufReader::new(input.reader(0));
        let decoder = if stream {
            StreamReader::try_new(reader, projection).map(Decoder::Stream)
        } else {
            FileReader::try_new(reader, projection).map(Decoder::File)
        };
        decoder.map_err(|e| damaged(input, &e))
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Decoder::File(reader) => reader.schema(),
            Decoder::Stream(reader) => reader.schema(),
        }
    }
}

impl Iterator for Decoder {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Decoder::File(reader) => reader.next(),
            Decoder::Stream(reader) => reader.next(),
        }
    }
}
