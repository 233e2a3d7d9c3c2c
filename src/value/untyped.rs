//! The wire form of values that carry their own type: one tag byte, then the payload.

/// A value without a declared column type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Untyped<'a> {
    /// Text as it stands in the file or cell.
    Text(&'a str),
    /// A number, spelled as it stands.
    Number(&'a str),
    /// A JSON `true` or `false`.
    Bool(bool),
    /// A JSON array or object, spelled as it stands.
    Nested(&'a str),
    /// Raw bytes (a SQLite blob).
    Bytes(&'a [u8]),
}

impl<'a> Untyped<'a> {
    /// Writes the wire form into `out`, which is cleared first.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        self.append(out);
    }

    /// Writes the wire form behind what `out` holds.
    pub fn append(&self, out: &mut Vec<u8>) {
        let (tag, payload): (u8, &[u8]) = match self {
            Untyped::Text(s) => (b't', s.as_bytes()),
            Untyped::Number(s) => (b'n', s.as_bytes()),
            Untyped::Bool(true) => (b'b', b"true"),
            Untyped::Bool(false) => (b'b', b"false"),
            Untyped::Nested(s) => (b'j', s.as_bytes()),
            Untyped::Bytes(b) => (b'x', b),
        };
        out.push(tag);
        out.extend_from_slice(payload);
    }

    /// Reads the wire form; `None` if it is not one.
    pub fn decode(wire: &'a [u8]) -> Option<Untyped<'a>> {
        let (tag, payload) = wire.split_first()?;
        let text = || std::str::from_utf8(payload).ok();
        Some(match tag {
            b't' => Untyped::Text(text()?),
            b'n' => Untyped::Number(text()?),
            b'b' => Untyped::Bool(payload == b"true"),
            b'j' => Untyped::Nested(text()?),
            b'x' => Untyped::Bytes(payload),
            _ => return None,
        })
    }

    /// The value as text; bytes are `None`.
    pub fn text(&self) -> Option<&'a str> {
        match self {
            Untyped::Text(s) | Untyped::Number(s) | Untyped::Nested(s) => Some(s),
            Untyped::Bool(true) => Some("true"),
            Untyped::Bool(false) => Some("false"),
            Untyped::Bytes(_) => None,
        }
    }
}
