//! A YAML document as a tree whose nodes know their file and line, so that every error can name both.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place {
    /// Which of the files.
    pub(super) file: usize,
    /// The line, from 1.
    pub(super) line: u64,
}

/// A value of the document.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// Null, a boolean, a number or text.
    Leaf(Value),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order written.
    Map(Vec<(Key, Node)>),
}

/// A key of a map, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) at: Place,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) content: Content,
    pub(super) at: Place,
}

/// One step into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

impl Node {
    /// Reads one file's text. The error tells the line and what is wrong there.
    pub(super) fn parse(text: &str, file: usize) -> Result<Node, (Place, String)> {
        if text.trim().is_empty() {
            return Ok(Node { content: Content::Map(Vec::new()), at: Place { file, line: 1 } });
        }
        // Old YAML's `on`, `off`, `yes` and `no` are words like any other.
        let options = serde_saphyr::options! { strict_booleans: true };
        let read: Result<Spanned<Raw>, _> = serde_saphyr::from_str_with_options(text, options);
        match read {
            Ok(read) => Ok(node(read, file)),
            Err(error) => {
                let line = error.location().map_or(1, |location| location.line());
                let message = error.without_snippet().to_string();
                // The library repeats the place; the reader has it in front of the message already.
                let message = message.split(" at line ").next().unwrap_or(&message).trim().to_string();
                Err((Place { file, line }, message.trim_start_matches("error: ").to_string()))
            }
        }
    }

    /// Lays a later file over this one: maps merge key by key, the entries of `pairs` by their name, and what else is
    /// given twice counts as the later file says.
    pub(super) fn merge(&mut self, later: Node) {
        match (&mut self.content, later.content) {
            (Content::Map(own), Content::Map(more)) => {
                for (key, value) in more {
                    match own.iter_mut().find(|(known, _)| known.name == key.name) {
                        Some((_, known)) if key.name == "pairs" => known.merge_by_name(value),
                        Some((_, known)) => known.merge(value),
                        None => own.push((key, value)),
                    }
                }
            }
            (own, content) => {
                *own = content;
                self.at = later.at;
            }
        }
    }

    fn merge_by_name(&mut self, later: Node) {
        let (Content::List(own), Content::List(more)) = (&mut self.content, later.content.clone()) else {
            *self = later;
            return;
        };
        for entry in more {
            let known = entry.name().and_then(|name| own.iter_mut().find(|node| node.name() == Some(name)));
            match known {
                Some(known) if known.at.file != entry.at.file => known.merge(entry),
                _ => own.push(entry),
            }
        }
    }

    /// The text under `name`, by which an entry of a list is known.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.child("name")?.content {
            Content::Leaf(Value::String(name)) => Some(name),
            _ => None,
        }
    }

    /// The value under a key.
    pub(super) fn child(&self, name: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// Where a path leads: the place of its last key that exists, and the path as a reader knows it, in which entries of
    /// lists go by their names.
    pub(super) fn locate(&self, path: &[Step]) -> (Place, String) {
        let mut node = self;
        let mut at = self.at;
        let mut shown: Vec<String> = Vec::new();
        for step in path {
            match (step, &node.content) {
                (Step::Key(name), Content::Map(entries)) => {
                    shown.push(name.clone());
                    match entries.iter().find(|(key, _)| key.name == *name) {
                        Some((key, child)) => (at, node) = (key.at, child),
                        None => break,
                    }
                }
                (Step::Index(index), Content::List(items)) => match items.get(*index) {
                    Some(child) => {
                        shown.push(child.name().map_or_else(|| (index + 1).to_string(), str::to_string));
                        (at, node) = (child.at, child);
                    }
                    None => break,
                },
                (Step::Key(name), _) => shown.push(name.clone()),
                (Step::Index(index), _) => shown.push((index + 1).to_string()),
            }
        }
        (at, shown.join("."))
    }

    /// Takes out the node at a path; false if there is none to take out.
    pub(super) fn remove(&mut self, path: &[Step]) -> bool {
        let Some((step, rest)) = path.split_first() else { return false };
        match (step, &mut self.content) {
            (Step::Key(name), Content::Map(entries)) => {
                let Some(at) = entries.iter().position(|(key, _)| key.name == *name) else { return false };
                if rest.is_empty() {
                    entries.remove(at);
                    return true;
                }
                entries[at].1.remove(rest)
            }
            (Step::Index(index), Content::List(items)) if *index < items.len() => {
                if rest.is_empty() {
                    items.remove(*index);
                    return true;
                }
                items[*index].remove(rest)
            }
            _ => false,
        }
    }

    /// The same tree as plain JSON.
    pub(super) fn json(&self) -> Value {
        match &self.content {
            Content::Leaf(value) => value.clone(),
            Content::List(items) => items.iter().map(Node::json).collect(),
            Content::Map(entries) => {
                let pairs = entries.iter().map(|(key, node)| (key.name.clone(), node.json()));
                Value::Object(pairs.collect::<Map<String, Value>>())
            }
        }
    }

    /// Visits every text of the tree with its path.
    pub(super) fn texts(&mut self, visit: &mut impl FnMut(&mut String, Place, &[Step])) {
        fn walk(node: &mut Node, path: &mut Vec<Step>, visit: &mut impl FnMut(&mut String, Place, &[Step])) {
            match &mut node.content {
                Content::Leaf(Value::String(text)) => visit(text, node.at, path),
                Content::Leaf(_) => {}
                Content::List(items) => {
                    for (index, item) in items.iter_mut().enumerate() {
                        path.push(Step::Index(index));
                        walk(item, path, visit);
                        path.pop();
                    }
                }
                Content::Map(entries) => {
                    for (key, child) in entries {
                        path.push(Step::Key(key.name.clone()));
                        walk(child, path, visit);
                        path.pop();
                    }
                }
            }
        }
        walk(self, &mut Vec::new(), visit);
    }
}

/// What the parser delivers, before it knows which file it reads.
enum Raw {
    Leaf(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn node(raw: Spanned<Raw>, file: usize) -> Node {
    let at = Place { file, line: raw.referenced.line() };
    let content = match raw.value {
        Raw::Leaf(value) => Content::Leaf(value),
        Raw::List(items) => Content::List(items.into_iter().map(|item| node(item, file)).collect()),
        Raw::Map(entries) => Content::Map(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let at = Place { file, line: key.referenced.line() };
                    (Key { name: key.value, at }, node(value, file))
                })
                .collect(),
        ),
    };
    Node { content, at }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E>(self, v: bool) -> Result<Raw, E> {
                Ok(Raw::Leaf(v.into()))
            }

            fn visit_i64<E>(self, v: i64) -> Result<Raw, E> {
                Ok(Raw::Leaf(v.into()))
            }

            fn visit_u64<E>(self, v: u64) -> Result<Raw, E> {
                Ok(Raw::Leaf(v.into()))
            }

            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Raw, E> {
                Number::from_f64(v)
                    .map(|n| Raw::Leaf(n.into()))
                    .ok_or_else(|| E::custom("a number has to be finite"))
            }

            fn visit_str<E>(self, v: &str) -> Result<Raw, E> {
                Ok(Raw::Leaf(v.into()))
            }

            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Leaf(Value::Null))
            }

            fn visit_none<E>(self) -> Result<Raw, E> {
                Ok(Raw::Leaf(Value::Null))
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
                Raw::deserialize(deserializer)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Raw::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Raw::Map(entries))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, file: usize) -> Node {
        Node::parse(text, file).unwrap()
    }

    #[test]
    fn nodes_know_their_lines() {
        let tree = parse("version: 1\npairs:\n  - name: orders\n    key: [id]\n    labels: {on: yes}\n", 0);
        let at = |path: &[Step]| {
            let (place, shown) = tree.locate(path);
            (place.line, shown)
        };
        let pair = [Step::Key("pairs".into()), Step::Index(0)];
        assert_eq!(at(&pair), (3, "pairs.orders".into()));
        assert_eq!(at(&[&pair[..], &[Step::Key("key".into())]].concat()), (4, "pairs.orders.key".into()));
        // Old YAML's words for booleans are text.
        assert_eq!(tree.json()["pairs"][0]["labels"]["on"], "yes");
        assert_eq!(tree.json()["version"], 1);
    }

    #[test]
    fn broken_text_tells_the_line() {
        let (place, message) = Node::parse("version: 1\npairs:\n  - name: a\n   key: [id]\n", 3).unwrap_err();
        assert_eq!((place.file, place.line), (3, 4), "{message}");
        let (place, message) = Node::parse("a: 1\nb: 2\na: 3\n", 0).unwrap_err();
        assert_eq!(place.line, 3, "{message}");
        assert!(!message.contains("line"), "{message}");
    }

    #[test]
    fn files_merge_by_name() {
        let mut tree = parse("actions: observe\npairs:\n- {name: a, key: [id]}\n- {name: b}\n", 0);
        tree.merge(parse("actions: plan\npairs:\n- {name: b, key: [x]}\n- {name: c}\n", 1));
        let json = tree.json();
        assert_eq!(json["actions"], "plan");
        let names: Vec<&str> =
            json["pairs"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(json["pairs"][1]["key"][0], "x");
    }
}
