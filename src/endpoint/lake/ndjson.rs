//! NDJSON: one object a line, of which only the wanted members are kept.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::input::Input;
use crate::endpoint::Result;

/// No line may be longer, in bytes.
const LONGEST: u64 = 64 << 20;

/// The names of all members of all objects, in the order of their first appearance.
pub(super) fn names(input: &Input, bytes: Box<dyn Read>) -> Result<Vec<String>> {
    let mut lines = Lines::new(input, bytes);
    let mut known = HashMap::new();
    while lines.advance()? {
        let members = Members { places: Places::Growing(&mut known), values: None };
        parse(lines.text()?, members).map_err(|e| lines.malformed(&e))?;
    }
    let mut names: Vec<(String, usize)> = known.into_iter().collect();
    names.sort_unstable_by_key(|(_, place)| *place);
    Ok(names.into_iter().map(|(name, _)| name).collect())
}

/// The objects of a file, as the values of the wanted members.
pub(super) struct Objects<'a> {
    lines: Lines<'a>,
    places: HashMap<String, usize>,
    values: Vec<Option<Value>>,
}

impl<'a> Objects<'a> {
    /// Starts reading; `wanted` holds each name once.
    pub(super) fn new(input: &'a Input, bytes: Box<dyn Read>, wanted: &[&str]) -> Objects<'a> {
        let places = wanted.iter().enumerate().map(|(i, name)| (name.to_string(), i)).collect();
        Objects { lines: Lines::new(input, bytes), places, values: vec![None; wanted.len()] }
    }

    /// The next object's values in the order of the wanted names; an absent member is `None`.
    pub(super) fn next(&mut self) -> Result<Option<&[Option<Value>]>> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        self.values.fill(None);
        let members = Members { places: Places::Fixed(&self.places), values: Some(&mut self.values) };
        parse(self.lines.text()?, members).map_err(|e| self.lines.malformed(&e))?;
        Ok(Some(&self.values))
    }
}

fn parse(text: &str, members: Members<'_>) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    members.deserialize(&mut deserializer)?;
    deserializer.end()
}

/// Reads one object without building it. Of a repeated member the last counts.
struct Members<'a> {
    places: Places<'a>,
    /// Where values go; none are kept while only names are sought.
    values: Option<&'a mut [Option<Value>]>,
}

enum Places<'a> {
    Fixed(&'a HashMap<String, usize>),
    Growing(&'a mut HashMap<String, usize>),
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(place) = map.next_key_seed(Name(&mut self.places))? {
            let slot =
                self.values.as_deref_mut().zip(place).and_then(|(values, place)| values.get_mut(place));
            match slot {
                Some(slot) => *slot = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A member's name, as the place of its value.
struct Name<'a, 'b>(&'a mut Places<'b>);

impl<'de> DeserializeSeed<'de> for Name<'_, '_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_, '_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> std::result::Result<Self::Value, E> {
        match self.0 {
            Places::Fixed(places) => Ok(places.get(name).copied()),
            Places::Growing(places) => {
                if !places.contains_key(name) {
                    places.insert(name.to_string(), places.len());
                }
                Ok(None)
            }
        }
    }
}

/// The lines of a file that hold something.
struct Lines<'a> {
    input: &'a Input,
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    fn new(input: &'a Input, bytes: Box<dyn Read>) -> Lines<'a> {
        Lines { input, reader: BufReader::with_capacity(128 << 10, bytes), line: Vec::new(), number: 0 }
    }

    /// Goes to the next line that is not blank; false at the end.
    fn advance(&mut self) -> Result<bool> {
        loop {
            self.line.clear();
            let read = (&mut self.reader).take(LONGEST).read_until(b'\n', &mut self.line);
            let read =
                read.map_err(|e| self.input.error(format_args!("the file is damaged or cut short: {e}")))?;
            if read == 0 {
                return Ok(false);
            }
            self.number += 1;
            if read as u64 == LONGEST && !self.line.ends_with(b"\n") {
                return Err(self.input.error(format_args!("line {} is longer than 64 MiB", self.number)));
            }
            if self.number == 1 {
                if self.line.starts_with(&[0xff, 0xfe]) || self.line.starts_with(&[0xfe, 0xff]) {
                    return Err(self.input.error("the file is UTF-16; convert it to UTF-8"));
                }
                if self.line.starts_with(b"\xef\xbb\xbf") {
                    self.line.drain(..3);
                }
                if self.line.trim_ascii_start().starts_with(b"[") {
                    return Err(self.input.error(
                        "the file holds a JSON array; drift reads one object a line (jq -c '.[]' writes that)",
                    ));
                }
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.line)
            .map_err(|_| self.input.error(format_args!("line {} is not valid UTF-8", self.number)))
    }

    /// The parser's own words may repeat what stands in the line.
    fn malformed(&self, error: &serde_json::Error) -> crate::endpoint::Error {
        let (line, column) = (self.number, error.column());
        self.input.error(format_args!("line {line}, column {column}: this is no JSON object on one line"))
    }
}
