//! From an address to connection options: libpq's names in the URL, its environment, and its service file.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use url::Url;

use crate::endpoint::{APPLICATION_NAME, CONNECT_TIMEOUT, Error, ErrorKind, Result, home_file};

/// The options of libpq that drift understands in a URL or a service file.
const KNOWN: [&str; 14] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "options",
    "connect_timeout",
    "service",
];

/// How to connect.
pub(super) struct Target {
    pub(super) options: PgConnectOptions,
    pub(super) timeout: Duration,
}

/// Reads the URL; `name` stands in errors.
pub(super) fn read(url: &Url, name: &str) -> Result<Target> {
    read_with(url, name, &|key| std::env::var(key).ok())
}

fn read_with(url: &Url, name: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Target> {
    let usage = |text: String| Error::new(ErrorKind::Usage, format!("{name}: {text}"));
    let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    check(&pairs).map_err(|key| {
        usage(format!("the URL option {key} is not known; drift understands {}", KNOWN.join(", ")))
    })?;
    let service = take(&mut pairs, "service").or_else(|| env("PGSERVICE")).filter(|s| !s.is_empty());
    if let Some(service) = service {
        let settings = find_service(&service, env).map_err(usage)?;
        check(&settings).map_err(|key| {
            usage(format!(
                "the setting {key} of service {service} is not known; drift understands {}",
                KNOWN.join(", ")
            ))
        })?;
        let given = given(url, &pairs);
        pairs.extend(settings.into_iter().filter(|(key, _)| !given.contains(&host_key(key).to_string())));
    }
    let timeout = match take(&mut pairs, "connect_timeout") {
        None => CONNECT_TIMEOUT,
        Some(text) => match u64::from_str(&text) {
            Ok(0) => CONNECT_TIMEOUT,
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => return Err(usage("the URL option connect_timeout needs a number of seconds".into())),
        },
    };
    // libpq's word for the operating system's certificates, which sqlx takes anyway when no file is named.
    pairs.retain(|(key, value)| !(key == "sslrootcert" && value == "system"));
    for (key, file) in
        pairs.iter().filter(|(key, _)| matches!(key.as_str(), "sslrootcert" | "sslcert" | "sslkey"))
    {
        if let Err(e) = std::fs::File::open(file) {
            return Err(usage(format!("the file of {key} cannot be read: {e}")));
        }
    }
    let named = pairs.iter().any(|(key, _)| key == "application_name");

    let mut resolved = url.clone();
    resolved.set_query(None);
    resolved.set_fragment(None);
    if !pairs.is_empty() {
        resolved.query_pairs_mut().extend_pairs(&pairs);
    }
    // The error of the driver may repeat the URL's text, and with it a password.
    let mut options = PgConnectOptions::from_url(&resolved)
        .map_err(|_| usage("the URL's options cannot be read; check sslmode, port and hostaddr".into()))?
        // Poolers refuse startup parameters that they do not track; the session sets this one itself.
        .extra_float_digits(None)
        .disable_statement_logging();
    if !named {
        options = options.application_name(APPLICATION_NAME);
    }
    Ok(Target { options, timeout })
}

fn take(pairs: &mut Vec<(String, String)>, key: &str) -> Option<String> {
    let found = pairs.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    pairs.retain(|(k, _)| k != key);
    found
}

fn check(pairs: &[(String, String)]) -> std::result::Result<(), String> {
    match pairs.iter().find(|(key, _)| !KNOWN.contains(&key.as_str())) {
        Some((key, _)) => Err(key.clone()),
        None => Ok(()),
    }
}

/// `hostaddr` and `host` name the same thing: where one is given, the other must not come from the service file.
fn host_key(key: &str) -> &str {
    if key == "hostaddr" { "host" } else { key }
}

/// What the URL itself says, which goes before the service file.
fn given(url: &Url, pairs: &[(String, String)]) -> Vec<String> {
    let mut given: Vec<String> = pairs.iter().map(|(key, _)| host_key(key).to_string()).collect();
    let mut add = |there: bool, key: &str| {
        if there {
            given.push(key.to_string());
        }
    };
    add(url.host_str().is_some_and(|h| !h.is_empty()), "host");
    add(url.port().is_some(), "port");
    add(!url.username().is_empty(), "user");
    add(url.password().is_some(), "password");
    add(!url.path().trim_matches('/').is_empty(), "dbname");
    given
}

/// The settings of a service: the first of libpq's two files that has it.
fn find_service(
    service: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> std::result::Result<Vec<(String, String)>, String> {
    let own = env("PGSERVICEFILE").map(PathBuf::from).or_else(|| home_file(".pg_service.conf"));
    let system = env("PGSYSCONFDIR").map(|dir| PathBuf::from(dir).join("pg_service.conf"));
    let places: Vec<PathBuf> = own.into_iter().chain(system).collect();
    for place in &places {
        let text = match std::fs::read_to_string(place) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(format!("the service file {} cannot be read: {e}", place.display())),
        };
        match parse_service(&text, service) {
            Ok(Some(settings)) => return Ok(settings),
            Ok(None) => {}
            Err(line) => {
                return Err(format!("line {line} of the service file {} is no setting", place.display()));
            }
        }
    }
    let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    Err(format!("there is no service {service} in {}", places.join(" or ")))
}

/// The settings below `[service]`; the error is the number of a line that is none.
fn parse_service(text: &str, service: &str) -> std::result::Result<Option<Vec<(String, String)>>, usize> {
    let mut found = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            if found.is_some() {
                break;
            }
            if section == service {
                found = Some(Vec::new());
            }
        } else if let Some(settings) = &mut found {
            let (key, value) = line.split_once('=').ok_or(at + 1)?;
            settings.push((key.trim().to_string(), value.trim().to_string()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, env: &[(&str, &str)]) -> Result<Target> {
        let url = Url::parse(text).unwrap();
        read_with(&url, "postgres://db/shop#t", &|key| {
            env.iter().find(|(k, _)| *k == key).map(|(_, v)| v.to_string())
        })
    }

    #[test]
    fn unknown_options_are_named_and_secrets_are_not() {
        let error = with("postgres://ada:geheim@db/shop?sslmod=require", &[]).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("sslmod "), "{error}");
        assert!(!error.message.contains("geheim"));
        let error = with("postgres://db/shop?sslrootcert=/no/such/file", &[]).err().unwrap();
        assert!(error.message.contains("sslrootcert cannot be read"), "{error}");
        assert!(with("postgres://db/shop?sslmode=verify-full&sslrootcert=system", &[]).is_ok());
        let error = with("postgres://ada:geheim@db/shop?sslmode=perhaps", &[]).err().unwrap();
        assert!(!error.message.contains("geheim"));
    }

    #[test]
    fn sockets_ports_and_names_arrive() {
        let target = with("postgres:///shop?host=/run/pg&port=5433&user=ada&connect_timeout=3", &[]).unwrap();
        assert_eq!(target.options.get_socket(), Some(&PathBuf::from("/run/pg")));
        assert_eq!(target.options.get_port(), 5433);
        assert_eq!(target.options.get_username(), "ada");
        assert_eq!(target.options.get_database(), Some("shop"));
        assert_eq!(target.options.get_application_name(), Some("drift"));
        assert_eq!(target.timeout, Duration::from_secs(3));
    }

    #[test]
    fn a_service_fills_what_the_url_leaves_open() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pg_service.conf");
        std::fs::write(
            &file,
            "# ours\n[other]\nhost=no\n\n[shop]\nhost=db1\nport = 5444\ndbname=sales\nuser=reader\n",
        )
        .unwrap();
        let env = [("PGSERVICEFILE", file.to_str().unwrap())];
        let target = with("postgres:///?service=shop", &env).unwrap();
        assert_eq!(
            (target.options.get_host(), target.options.get_port(), target.options.get_username()),
            ("db1", 5444, "reader")
        );
        assert_eq!(target.options.get_database(), Some("sales"));
        let target = with("postgres://ada@db2/shop?service=shop", &env).unwrap();
        assert_eq!((target.options.get_host(), target.options.get_username()), ("db2", "ada"));
        assert_eq!((target.options.get_port(), target.options.get_database()), (5444, Some("shop")));
        let error = with("postgres:///?service=none", &env).err().unwrap();
        assert!(error.message.contains("no service none"), "{error}");
        let by_env = with("postgres:///", &[env[0], ("PGSERVICE", "shop")]).unwrap();
        assert_eq!(by_env.options.get_host(), "db1");
    }
}
