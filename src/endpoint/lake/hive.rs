//! Columns from folder names of the form `name=value`, as Hive and Spark write them.

/// The value of NULL.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The columns in the folders of a path below its location.
pub(super) fn parts(below: &str) -> Vec<(String, Option<String>)> {
    let folders = below.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders
        .split('/')
        .filter_map(|folder| {
            let (name, value) = folder.split_once('=').filter(|(name, _)| !name.is_empty())?;
            Some((decoded(name), (value != NULL).then(|| decoded(value))))
        })
        .collect()
}

/// Undoes percent-encoding; text that is none stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()).filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_give_columns() {
        let some = |name: &str, value: &str| (name.to_string(), Some(value.to_string()));
        assert_eq!(parts("x=1/y=a%20b%2Fc/part=0.csv"), [some("x", "1"), some("y", "a b/c")]);
        assert_eq!(parts("plain/day=__HIVE_DEFAULT_PARTITION__/f.parquet"), [("day".to_string(), None)]);
        assert_eq!(parts("=1/é=100%/q=%zz%C3%A9/f"), [some("é", "100%"), some("q", "%zzé")]);
        assert_eq!(parts("x=1.csv"), []);
    }
}
