//! CSV, strictly: what is not well-formed is an error with its line, never a guess.

use std::io::Read;

/// No record may be longer, in bytes.
const LONGEST: usize = 64 << 20;
/// What is read at once.
const CHUNK: usize = 128 << 10;

/// What is wrong with a file. Lines count from 1.
#[derive(Debug)]
pub(super) enum Fault {
    Read(std::io::Error),
    Utf16,
    NotUtf8 { line: u64 },
    OpenQuote { line: u64 },
    AfterQuote { line: u64 },
    TooLong { line: u64 },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Read(e) => write!(f, "the file is damaged or cut short: {e}"),
            Fault::Utf16 => write!(f, "the file is UTF-16; convert it to UTF-8"),
            Fault::NotUtf8 { line } => write!(f, "the record of line {line} is not valid UTF-8"),
            Fault::OpenQuote { line } => write!(f, "the quote that opens in line {line} is never closed"),
            Fault::AfterQuote { line } => {
                write!(f, "line {line}: text follows a closing quote; quotes inside a field must be doubled")
            }
            Fault::TooLong { line } => {
                write!(
                    f,
                    "the record of line {line} is longer than {} MiB (a quote that never closes?)",
                    LONGEST >> 20
                )
            }
        }
    }
}

/// Where a field lies in its record.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
    quoted: bool,
    /// It holds doubled quotes.
    doubled: bool,
}

/// Reads records out of a stream of bytes, holding one record at a time.
pub(super) struct CsvReader<R> {
    input: R,
    delimiter: u8,
    buffer: Vec<u8>,
    /// The current record starts here; `filled` bytes are valid.
    start: usize,
    filled: usize,
    ended: bool,
    /// Length of the current record with its line end.
    length: usize,
    /// Line in which the next record starts.
    line: u64,
    spans: Vec<Span>,
}

/// One record.
pub(super) struct Record<'a> {
    text: &'a str,
    spans: &'a [Span],
    /// The line in which it starts.
    pub(super) line: u64,
}

/// One field.
#[derive(Debug, PartialEq)]
pub(super) struct Field<'a> {
    /// Its text; doubled quotes are still doubled if `doubled`.
    raw: &'a str,
    /// It stood in quotes.
    pub(super) quoted: bool,
    doubled: bool,
}

impl<'a> Field<'a> {
    /// Its text; `scratch` holds it where quotes have to be undone.
    pub(super) fn text<'b>(&self, scratch: &'b mut String) -> &'b str
    where
        'a: 'b,
    {
        if !self.doubled {
            return self.raw;
        }
        scratch.clear();
        scratch.push_str(&self.raw.replace("\"\"", "\""));
        scratch
    }
}

impl<'a> Record<'a> {
    /// The number of fields.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// A field by its place.
    pub(super) fn field(&self, place: usize) -> Field<'a> {
        let span = self.spans[place];
        Field { raw: &self.text[span.from..span.to], quoted: span.quoted, doubled: span.doubled }
    }

    /// Whether the line holds nothing at all.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.spans, [only] if only.from == only.to && !only.quoted)
    }
}

impl<R: Read> CsvReader<R> {
    /// Starts reading; a byte order mark is skipped. The delimiter must be ASCII.
    pub(super) fn new(input: R, delimiter: u8) -> Result<CsvReader<R>, Fault> {
        let mut reader = CsvReader {
            input,
            delimiter,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            ended: false,
            length: 0,
            line: 1,
            spans: Vec::new(),
        };
        while reader.filled < 3 && !reader.ended {
            reader.fill()?;
        }
        match &reader.buffer[..reader.filled] {
            [0xef, 0xbb, 0xbf, ..] => reader.start = 3,
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(Fault::Utf16),
            _ => {}
        }
        Ok(reader)
    }

    /// The next record.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, Fault> {
        self.start += self.length;
        self.length = 0;
        self.spans.clear();
        let line = self.line;
        if self.byte(0, line)?.is_none() {
            return Ok(None);
        }
        let mut at = 0;
        loop {
            let span = match self.byte(at, line)? {
                Some(b'"') => self.quoted(at + 1, line)?,
                _ => self.plain(at, line)?,
            };
            self.spans.push(span);
            at = span.to + usize::from(span.quoted);
            match self.byte(at, line)? {
                Some(b) if b == self.delimiter => at += 1,
                Some(b'\n') => {
                    at += 1;
                    self.line += 1;
                    break;
                }
                Some(b'\r') if self.byte(at + 1, line)?.is_none_or(|b| b == b'\n') => {
                    at = (at + 2).min(self.filled - self.start);
                    self.line += 1;
                    break;
                }
                None => break,
                Some(_) => return Err(Fault::AfterQuote { line: self.line }),
            }
        }
        self.length = at;
        let bytes = &self.buffer[self.start..self.start + at];
        let text = std::str::from_utf8(bytes).map_err(|_| Fault::NotUtf8 { line })?;
        Ok(Some(Record { text, spans: &self.spans, line }))
    }

    /// A field without quotes: up to the delimiter or the line's end. Quotes inside are text.
    fn plain(&mut self, from: usize, line: u64) -> Result<Span, Fault> {
        let delimiter = self.delimiter;
        let mut at = from;
        loop {
            let rest = &self.buffer[self.start + at..self.filled];
            match rest.iter().position(|b| *b == delimiter || *b == b'\n') {
                Some(n) => {
                    at += n;
                    break;
                }
                None => {
                    at += rest.len();
                    if self.byte(at, line)?.is_none() {
                        break;
                    }
                }
            }
        }
        let ends_line = self.byte(at, line)?.is_none_or(|b| b == b'\n');
        let carriage = at > from && self.buffer[self.start + at - 1] == b'\r';
        let to = if ends_line && carriage { at - 1 } else { at };
        Ok(Span { from, to, quoted: false, doubled: false })
    }

    /// A field in quotes; `from` lies behind the opening one.
    fn quoted(&mut self, from: usize, line: u64) -> Result<Span, Fault> {
        let opened = self.line;
        let mut doubled = false;
        let mut at = from;
        loop {
            let rest = &self.buffer[self.start + at..self.filled];
            match rest.iter().position(|b| *b == b'"' || *b == b'\n') {
                Some(n) if rest[n] == b'\n' => {
                    self.line += 1;
                    at += n + 1;
                }
                Some(n) => {
                    at += n;
                    if self.byte(at + 1, line)? != Some(b'"') {
                        return Ok(Span { from, to: at, quoted: true, doubled });
                    }
                    doubled = true;
                    at += 2;
                }
                None => {
                    at += rest.len();
                    if self.byte(at, line)?.is_none() {
                        return Err(Fault::OpenQuote { line: opened });
                    }
                }
            }
        }
    }

    /// The byte at a place of the current record, reading on as needed; `None` at the end.
    fn byte(&mut self, at: usize, line: u64) -> Result<Option<u8>, Fault> {
        while self.start + at >= self.filled {
            if self.ended {
                return Ok(None);
            }
            if self.filled - self.start > LONGEST {
                return Err(Fault::TooLong { line });
            }
            self.fill()?;
        }
        Ok(Some(self.buffer[self.start + at]))
    }

    /// Reads more, moving the current record to the front first.
    fn fill(&mut self) -> Result<(), Fault> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        if self.buffer.len() < self.filled + CHUNK {
            // Doubling keeps a long record from being moved over and over.
            self.buffer.resize((self.filled + CHUNK).max(self.filled * 2), 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Fault::Read(e)),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out one byte at a time, so that every refill is met.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            out[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn collect(reader: &mut CsvReader<impl Read>) -> Result<Vec<(u64, Vec<String>)>, Fault> {
        let mut out = Vec::new();
        let mut scratch = String::new();
        while let Some(record) = reader.next()? {
            let fields = (0..record.len()).map(|i| {
                let field = record.field(i);
                let text = field.text(&mut scratch).to_string();
                if field.quoted { format!("<{text}>") } else { text }
            });
            out.push((record.line, fields.collect()));
        }
        Ok(out)
    }

    fn records(text: &[u8]) -> Result<Vec<(u64, Vec<String>)>, Fault> {
        let whole = CsvReader::new(text, b',').and_then(|mut r| collect(&mut r));
        let slow = CsvReader::new(Slow(text), b',').and_then(|mut r| collect(&mut r));
        assert_eq!(format!("{whole:?}"), format!("{slow:?}"));
        whole
    }

    fn fields(text: &str) -> Vec<Vec<String>> {
        records(text.as_bytes()).unwrap().into_iter().map(|(_, fields)| fields).collect()
    }

    #[test]
    fn fields_quotes_and_line_ends() {
        assert_eq!(fields("a,b\n1,2\n"), [["a", "b"], ["1", "2"]]);
        assert_eq!(fields("a,b\r\n1,2\r\n"), [["a", "b"], ["1", "2"]]);
        assert_eq!(fields("a,b\n1,2"), [["a", "b"], ["1", "2"]]);
        assert_eq!(fields("a,b\r\n1,\"2\"\r"), [["a", "b"], ["1", "<2>"]]);
        assert_eq!(fields("\"x,\"\"y\"\"\",\n"), [["<x,\"y\">", ""]]);
        assert_eq!(fields("\"\",\"\"\"\"\n"), [["<>", "<\">"]]);
        assert_eq!(fields("a\"b,c\"\n"), [["a\"b", "c\""]]);
        assert_eq!(fields("a\rb,c\n"), [["a\rb", "c"]]);
        assert_eq!(fields("a,\n,\n"), [["a", ""], ["", ""]]);
        assert_eq!(fields("\u{feff}\"é\",b\n"), [["<é>", "b"]]);
        assert!(fields("").is_empty());
        assert_eq!(fields("\n"), [[""]]);
    }

    #[test]
    fn lines_are_counted_through_quoted_breaks() {
        let found = records(b"a,b\n\"1\r\n\n2\",x\n3,4\n").unwrap();
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 5]);
        assert_eq!(found[1].1[0], "<1\r\n\n2>");
    }

    #[test]
    fn malformed_files_are_errors_with_their_line() {
        let fault = |text: &[u8]| records(text).unwrap_err().to_string();
        assert!(fault(b"a\n\"x\ny\n").contains("opens in line 2"));
        assert!(fault(b"a\n\"x\ny\"z\n").contains("line 3: text follows"));
        assert!(fault(b"a\n\"x\"\rz\n").contains("line 2: text follows"));
        assert!(fault(b"a\nb\n\xff\n").contains("line 3 is not valid UTF-8"));
        assert!(fault(b"\xff\xfea\0").contains("UTF-16"));
        assert!(fault(b"\xfe\xff\0a").contains("UTF-16"));
    }

    #[test]
    fn long_records_are_read_and_too_long_ones_refused() {
        let text = format!("a,b\n\"{}\",1\n", "x\n".repeat(600_000));
        let found = CsvReader::new(text.as_bytes(), b',').and_then(|mut r| collect(&mut r)).unwrap();
        assert_eq!(found[1].1[0].len(), 1_200_002);
        let endless = std::io::repeat(b'x').take(LONGEST as u64 * 2);
        let fault = CsvReader::new(endless, b',').and_then(|mut r| r.next().map(|_| ())).unwrap_err();
        assert!(matches!(fault, Fault::TooLong { line: 1 }));
    }

    fn written(records: &[Vec<String>], line_end: &str) -> String {
        let field = |text: &String| match text.contains([',', '"', '\n', '\r']) || text.is_empty() {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.clone(),
        };
        let line = |record: &Vec<String>| record.iter().map(field).collect::<Vec<_>>().join(",") + line_end;
        records.iter().map(line).collect()
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(
            records in proptest::collection::vec(proptest::collection::vec("[a,\"\n\ré]{0,4}", 1..4), 0..5),
            crlf: bool,
        ) {
            let text = written(&records, if crlf { "\r\n" } else { "\n" });
            let read: Vec<Vec<String>> = fields(&text)
                .into_iter()
                .map(|r| r.into_iter().map(|f| f.strip_prefix('<').map_or(f.clone(), |f| f[..f.len() - 1].to_string())).collect())
                .collect();
            proptest::prop_assert_eq!(read, records);
        }
    }
}
