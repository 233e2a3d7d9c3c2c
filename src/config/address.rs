//! The one argument that names a table: a database URL and an object, or files.

use std::fmt;

use url::Url;

/// What to read inside a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A table or view: its name and, where one was given, its schema or database.
    Table {
        /// The part before the first dot.
        schema: Option<String>,
        /// The name, verbatim.
        name: String,
    },
    /// A query, without the parentheses around it.
    Query(String),
}

/// Where a table is. Passwords live in the URL only and are never displayed.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// `postgres://…#object`.
    Postgres(Url, Object),
    /// `mysql://…#object`, `mariadb://…#object`.
    MySql(Url, Object),
    /// `sqlite:path#object`.
    Sqlite(String, Object),
    /// Files: a path, glob or folder, or the URL of an object store.
    Files(String),
}

/// How CSV files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// Between fields.
    pub delimiter: u8,
    /// Whether the first record holds data; columns are then called `c1`, `c2`, ….
    pub no_header: bool,
    /// The unquoted text that means NULL.
    pub null: String,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions { delimiter: b',', no_header: false, null: String::new() }
    }
}

/// An address as parsed, with what the user has to be told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The address.
    pub address: Address,
    /// A password stood in the text itself, where others can see it.
    pub typed_password: bool,
}

impl Address {
    /// Reads an address. `lookup` gives the value of an environment variable for `${NAME}`. The error says what is
    /// wrong and never repeats the text, which may hold a password.
    pub fn parse(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Parsed, String> {
        let scheme = text.split_once(':').map(|(s, _)| s.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("postgres" | "postgresql") => {
                let (url, object, typed_password) = database(text, "postgres", lookup)?;
                Ok(Parsed { address: Address::Postgres(url, object), typed_password })
            }
            Some("mysql" | "mariadb") => {
                let (url, object, typed_password) = database(text, "mysql", lookup)?;
                Ok(Parsed { address: Address::MySql(url, object), typed_password })
            }
            Some("sqlite") => {
                let (location, object) = split_object(text)?;
                let path = expand(&location["sqlite:".len()..], false, lookup)?;
                let path = path.strip_prefix("//").unwrap_or(&path).to_string();
                if path.is_empty() {
                    return Err("a SQLite address needs a file: sqlite:shop.db#orders".into());
                }
                Ok(Parsed { address: Address::Sqlite(path, object), typed_password: false })
            }
            Some("file" | "s3" | "http" | "https") => {
                Ok(Parsed { address: Address::Files(expand(text, false, lookup)?), typed_password: false })
            }
            Some(other) if text[other.len()..].starts_with("://") => Err(format!(
                "drift cannot read {other}:// addresses; it reads postgres://, mysql://, mariadb://, sqlite:, s3:// and files"
            )),
            _ if text.is_empty() => Err("the address is empty".into()),
            _ if text.contains('#') => Err(
                "the part before # is no database URL; write postgres://host/db#table, mysql://host/db#table or sqlite:file#table"
                    .into(),
            ),
            _ => Ok(Parsed { address: Address::Files(expand(text, false, lookup)?), typed_password: false }),
        }
    }
}

impl Address {
    /// Reads the URL of a whole database, without an object behind it; the address names none until
    /// [`Address::with_table`] says which.
    pub fn parse_database(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Parsed, String> {
        if text.contains('#') {
            return Err("--tables takes whole databases; leave out # and what follows it".into());
        }
        if let Ok(Parsed { address: Address::Files(_), .. }) = Address::parse(text, lookup) {
            return Err("--tables takes two databases; files have no tables to choose from".into());
        }
        Address::parse(&format!("{text}#*"), lookup)
    }

    /// Another table of the same database.
    pub fn with_table(&self, object: Object) -> Address {
        match self {
            Address::Postgres(url, _) => Address::Postgres(url.clone(), object),
            Address::MySql(url, _) => Address::MySql(url.clone(), object),
            Address::Sqlite(path, _) => Address::Sqlite(path.clone(), object),
            Address::Files(location) => Address::Files(location.clone()),
        }
    }

    /// The database for people.
    pub fn database_name(&self) -> String {
        match self {
            Address::Postgres(url, _) | Address::MySql(url, _) => connection_name(url),
            Address::Sqlite(path, _) => format!("sqlite:{path}"),
            Address::Files(_) => self.to_string(),
        }
    }
}

fn database(
    text: &str,
    scheme: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<(Url, Object, bool), String> {
    let (location, object) = split_object(text)?;
    let rest = location.split_once(':').map_or("", |(_, rest)| rest);
    let typed_password = has_typed_password(location);
    let expanded = expand(rest, true, lookup)?;
    let url = Url::parse(&format!("{scheme}:{expanded}")).map_err(|e| {
        format!("the {scheme} URL cannot be read: {e}; write {scheme}://user@host:port/database#table")
    })?;
    if !url.has_authority() && !expanded.starts_with("//") {
        return Err(format!("the {scheme} URL needs two slashes: {scheme}://host/database#table"));
    }
    Ok((url, object, typed_password))
}

/// The password in `//user:password@host/…`.
fn password_part(rest: &str) -> Option<&str> {
    let authority = rest.strip_prefix("//")?;
    let (userinfo, _) = authority.rsplit_once('@')?;
    userinfo.split_once(':').map(|(_, password)| password)
}

fn split_object(text: &str) -> Result<(&str, Object), String> {
    let Some((location, object)) = text.split_once('#') else {
        return Err("the address names no table; append #table or #(select …)".into());
    };
    Ok((location, parse_object(object)?))
}

fn parse_object(text: &str) -> Result<Object, String> {
    let trimmed = text.trim();
    if let Some(query) = trimmed.strip_prefix('(') {
        let query = query.strip_suffix(')').ok_or("the query behind # lacks its closing parenthesis")?.trim();
        if query.is_empty() {
            return Err("the query behind # is empty".into());
        }
        return Ok(Object::Query(query.to_string()));
    }
    let (first, rest) = part(text)?;
    match rest {
        None if first.is_empty() => Err("the address names no table; append #table or #(select …)".into()),
        None => Ok(Object::Table { schema: None, name: first }),
        Some(rest) => {
            let (name, more) = part(rest)?;
            let name = match more {
                None => name,
                // Split at the first dot only: the rest belongs to the name.
                Some(_) => rest.to_string(),
            };
            if first.is_empty() || name.is_empty() {
                return Err("the table's name behind # has an empty part".into());
            }
            Ok(Object::Table { schema: Some(first), name })
        }
    }
}

/// One part of a dotted name, double quotes removed, and what follows its dot.
fn part(text: &str) -> Result<(String, Option<&str>), String> {
    if !text.starts_with('"') {
        return Ok(match text.split_once('.') {
            Some((first, rest)) => (first.to_string(), Some(rest)),
            None => (text.to_string(), None),
        });
    }
    let mut out = String::new();
    let mut chars = text[1..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            out.push(c);
        } else if chars.next_if(|(_, c)| *c == '"').is_some() {
            out.push('"');
        } else {
            let rest = &text[1 + at + 1..];
            return match rest.strip_prefix('.') {
                Some(rest) => Ok((out, Some(rest))),
                None if rest.is_empty() => Ok((out, None)),
                None => {
                    Err("behind a closing double quote the table's name must end or go on with a dot".into())
                }
            };
        }
    }
    Err("the table's name lacks its closing double quote".into())
}

/// Whether a password stands in a URL itself.
pub(super) fn has_typed_password(url: &str) -> bool {
    let rest = url.split_once(':').map_or("", |(_, rest)| rest);
    password_part(rest).is_some_and(|password| !password.is_empty() && !password.contains("${"))
}

/// Replaces every `${NAME}`; inside a URL the value is percent-encoded where it stands before the last `@`.
pub(super) fn expand(
    text: &str,
    url: bool,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let userinfo_end = if url { text.rfind('@').unwrap_or(0) } else { 0 };
    let mut out = String::new();
    let mut at = 0;
    while let Some(start) = text[at..].find("${").map(|i| at + i) {
        out.push_str(&text[at..start]);
        let end = text[start..].find('}').map(|i| start + i).ok_or("a ${ lacks its closing brace")?;
        let name = &text[start + 2..end];
        let value = lookup(name).ok_or_else(|| format!("the environment variable {name} is not set"))?;
        if start < userinfo_end {
            out.extend(url::form_urlencoded::byte_serialize(value.as_bytes()).map(|s| s.replace('+', "%20")));
        } else {
            out.push_str(&value);
        }
        at = end + 1;
    }
    out.push_str(&text[at..]);
    Ok(out)
}

/// The connection of a database URL for people: without password and options.
pub fn connection_name(url: &Url) -> String {
    let mut out = format!("{}://", url.scheme());
    if !url.username().is_empty() {
        out.push_str(url.username());
        out.push('@');
    }
    out.push_str(url.host_str().unwrap_or(""));
    if let Some(port) = url.port() {
        out.push_str(&format!(":{port}"));
    }
    if url.path() != "/" {
        out.push_str(url.path());
    }
    let shown = |name: &str| url.query_pairs().find(|(n, _)| n == name).map(|(n, v)| format!("{n}={v}"));
    let options: Vec<String> = ["host", "socket", "service"].iter().filter_map(|n| shown(n)).collect();
    if !options.is_empty() {
        out.push('?');
        out.push_str(&options.join("&"));
    }
    out
}

impl Object {
    /// The text that is read as this object again.
    pub fn written(&self) -> String {
        let quoted = |name: &str| {
            if name.contains(['.', '"']) || name.starts_with('(') {
                format!("\"{}\"", name.replace('"', "\"\""))
            } else {
                name.to_string()
            }
        };
        match self {
            Object::Table { schema: Some(schema), name } => format!("{}.{}", quoted(schema), quoted(name)),
            Object::Table { schema: None, name } => quoted(name),
            Object::Query(query) => format!("({query})"),
        }
    }
}

/// A database URL whose password was replaced by `${variable}`, where one stood in it.
pub fn without_typed_password(url: &str, variable: &str) -> Option<String> {
    let (scheme, rest) = url.split_once(':')?;
    let password = password_part(rest).filter(|_| has_typed_password(url))?;
    let user = rest.find(&format!(":{password}@"))?;
    let after = &rest[user + password.len() + 2..];
    Some(format!("{scheme}:{}:${{{variable}}}@{after}", &rest[..user]))
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Table { schema: Some(schema), name } => write!(f, "{schema}.{name}"),
            Object::Table { schema: None, name } => write!(f, "{name}"),
            Object::Query(query) => write!(f, "({query})"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Postgres(url, object) | Address::MySql(url, object) => {
                write!(f, "{}#{object}", connection_name(url))
            }
            Address::Sqlite(path, object) => write!(f, "sqlite:{path}#{object}"),
            Address::Files(location) => match Url::parse(location) {
                Ok(mut url) if url.password().is_some() || url.query().is_some() => {
                    let _ = url.set_password(None);
                    url.set_query(None);
                    write!(f, "{url}")
                }
                _ => write!(f, "{location}"),
            },
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Parsed, String> {
        Address::parse(text, &|name| (name == "PW").then(|| "p@ss/w:rd".to_string()))
    }

    #[test]
    fn passwords_are_expanded_and_never_shown() {
        let parsed = parse("postgres://ada:${PW}@db:5433/shop?sslmode=require#public.orders").unwrap();
        assert!(!parsed.typed_password);
        assert_eq!(parsed.address.to_string(), "postgres://ada@db:5433/shop#public.orders");
        let Address::Postgres(url, _) = &parsed.address else { panic!() };
        assert_eq!(url.password(), Some("p%40ss%2Fw%3Ard"));
        let typed = parse("mariadb://root:geheim@localhost/shop#orders").unwrap();
        assert!(typed.typed_password);
        assert_eq!(format!("{:?}", typed.address), "Address(mysql://root@localhost/shop#orders)");
        assert!(parse("postgres://ada:${NO}@db/shop#t").unwrap_err().contains("NO is not set"));
    }

    #[test]
    fn objects_are_taken_verbatim() {
        let object = |text: &str| match parse(&format!("sqlite:a.db#{text}")).unwrap().address {
            Address::Sqlite(_, object) => object,
            other => panic!("{other}"),
        };
        let table = |schema: Option<&str>, name: &str| Object::Table {
            schema: schema.map(str::to_string),
            name: name.to_string(),
        };
        assert_eq!(object("Orders"), table(None, "Orders"));
        assert_eq!(object("public.orders"), table(Some("public"), "orders"));
        assert_eq!(object("public.a.b"), table(Some("public"), "a.b"));
        assert_eq!(object(r#""a.b""#), table(None, "a.b"));
        assert_eq!(object(r#""x"".y".z"#), table(Some("x\".y"), "z"));
        assert_eq!(object("(select 1 as id)"), Object::Query("select 1 as id".into()));
        assert!(parse("sqlite:a.db#(select 1").is_err());
        assert!(parse("sqlite:a.db").is_err());
        assert!(parse("sqlite:a.db#").is_err());
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for (schema, name) in [(None, "a"), (Some("public"), "a b"), (Some("x\"y.z"), "(q)"), (None, "a.b")] {
            let object = Object::Table { schema: schema.map(str::to_string), name: name.into() };
            assert_eq!(parse_object(&object.written()), Ok(object));
        }
        let without = |url| without_typed_password(url, "PW");
        assert_eq!(without("mysql://ada:geheim@db/shop").as_deref(), Some("mysql://ada:${PW}@db/shop"));
        assert_eq!(without("mysql://ada:g@h:x@db/shop").as_deref(), Some("mysql://ada:${PW}@db/shop"));
        assert_eq!((without("mysql://ada@db/shop"), without("mysql://ada:${X}@db/shop")), (None, None));
    }

    #[test]
    fn other_schemes_are_refused_and_paths_are_files() {
        assert!(parse("oracle://h/x#t").unwrap_err().contains("oracle"));
        assert_eq!(parse("data/*.csv").unwrap().address, Address::Files("data/*.csv".into()));
        assert_eq!(parse("s3://b/x/").unwrap().address, Address::Files("s3://b/x/".into()));
        assert!(parse("shop#orders").is_err());
    }
}
