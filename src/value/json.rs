//! JSON by value: member order, blanks and the spelling of numbers are no data; everything else is.

use serde_json::Value;

use super::decimal::Number;

/// The canonical spelling of a JSON document: members sorted by name (the last of a repeated name counts), no blanks,
/// numbers by value. `None` when the text is no JSON.
pub fn canonical(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let mut out = String::with_capacity(text.len());
    write(&value, &mut out);
    Some(out)
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Number(n) => {
            let text = n.as_str();
            match Number::parse(text) {
                Some(number) => out.push_str(&number.canonical()),
                None => out.push_str(text),
            }
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut names: Vec<_> = members.iter().collect();
            names.sort_unstable_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (i, (name, member)) in names.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                string(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
        Value::String(s) => string(s, out),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Null => out.push_str("null"),
    }
}

/// Appends a JSON string literal.
pub fn string(s: &str, out: &mut String) {
    out.push_str(&Value::from(s).to_string());
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn equal_documents_have_one_spelling() {
        let same = [
            r#"{"b":2,"a":{"y":1,"x":2}}"#,
            r#"{ "a": {"x": 2, "y": 1.0}, "b": 2e0 }"#,
            r#"{"b":1,"b":2,"a":{"x":2,"y":1}}"#,
        ];
        for text in same {
            assert_eq!(canonical(text).as_deref(), Some(r#"{"a":{"x":2,"y":1},"b":2}"#));
        }
    }

    #[test]
    fn other_documents_differ() {
        let all = [
            "[1,2]",
            "[2,1]",
            r#"{"n":1}"#,
            r#"{"n":"1"}"#,
            r#"{"x":null}"#,
            "{}",
            "null",
            r#""null""#,
            "0.1",
            "0.10000000000000000001",
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(canonical(a), canonical(b), "{a} {b}");
            }
        }
        assert_eq!(canonical("{"), None);
    }
}
