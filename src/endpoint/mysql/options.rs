//! Where to connect and as whom: the URL, then `~/.my.cnf`, then the environment, as MySQL's own clients rank them.

use std::path::PathBuf;

use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use url::Url;

use crate::endpoint::{Error, Result};

/// Prepared statements that a session keeps. A statement is closed without an answer, and the driver leaves Nagle's
/// algorithm on: what follows a close waits 40 ms for the server's delayed acknowledgement. The hundreds of small reads of
/// a sample or a confirmation must not; the server allows 16,382 by default (`max_prepared_stmt_count`).
const STATEMENTS: usize = 2048;

const KNOWN: &str = "ssl-mode, ssl-ca, ssl-cert, ssl-key and socket";

/// What one source says; later sources fill the gaps of earlier ones.
#[derive(Debug, Default, Clone, PartialEq)]
struct Settings {
    user: Option<String>,
    password: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    socket: Option<PathBuf>,
    database: Option<String>,
    ssl_mode: Option<String>,
    ssl_ca: Option<PathBuf>,
    ssl_cert: Option<PathBuf>,
    ssl_key: Option<PathBuf>,
}

/// The options of a connection. `env` looks up an environment variable, `option_file` is the text of `~/.my.cnf`.
pub(super) fn resolve(
    url: &Url,
    env: &dyn Fn(&str) -> Option<String>,
    option_file: &str,
) -> Result<MySqlConnectOptions> {
    let from_url = of_url(url)?;
    let from_file = of_option_file(option_file)?;
    let from_env = of_environment(env)?;

    let pick = |get: fn(&Settings) -> Option<String>| {
        get(&from_url).or_else(|| get(&from_file)).or_else(|| get(&from_env))
    };
    let host = pick(|s| s.host.clone()).unwrap_or_else(|| "localhost".into());
    let user = pick(|s| s.user.clone())
        .or_else(|| env("USER"))
        .or_else(|| env("LOGNAME"))
        .unwrap_or_else(|| "root".into());

    let mut options = MySqlConnectOptions::new()
        .host(&host)
        .username(&user)
        .charset("utf8mb4")
        .timezone(String::from("+00:00"))
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .statement_cache_capacity(STATEMENTS)
        .disable_statement_logging();
    if let Some(password) = pick(|s| s.password.clone()) {
        options = options.password(&password);
    }
    if let Some(database) = pick(|s| s.database.clone()) {
        options = options.database(&database);
    }
    let port = from_url.port.or(from_file.port).or(from_env.port);
    options = options.port(port.unwrap_or(3306));
    // A socket that only the option file or the environment names belongs to this machine's server: it must not
    // replace a host or a port that the URL asks for.
    let local = from_url.port.is_none() && host == "localhost";
    let elsewhere = || from_file.socket.clone().or(from_env.socket.clone()).filter(|_| local);
    if let Some(socket) = from_url.socket.clone().or_else(elsewhere) {
        options = options.socket(socket);
    }
    encrypt(options, &from_url, &from_file)
}

fn encrypt(mut options: MySqlConnectOptions, url: &Settings, file: &Settings) -> Result<MySqlConnectOptions> {
    let ca = url.ssl_ca.clone().or(file.ssl_ca.clone());
    let cert = url.ssl_cert.clone().or(file.ssl_cert.clone());
    let key = url.ssl_key.clone().or(file.ssl_key.clone());
    let mode = match url.ssl_mode.as_ref().or(file.ssl_mode.as_ref()) {
        Some(mode) => mode.replace('-', "_").parse::<MySqlSslMode>().map_err(|_| {
            Error::usage("ssl-mode must be disabled, preferred, required, verify_ca or verify_identity")
        })?,
        // Whoever names an authority wants it to be asked.
        None if ca.is_some() => MySqlSslMode::VerifyCa,
        None => MySqlSslMode::Preferred,
    };
    options = options.ssl_mode(mode);
    let files = [("ssl-ca", &ca), ("ssl-cert", &cert), ("ssl-key", &key)];
    for (option, file) in files.iter().filter_map(|(o, f)| f.as_ref().map(|f| (o, f))) {
        if !file.is_file() {
            return Err(Error::usage(format!("{option} names {}, which is no file", file.display())));
        }
    }
    if let Some(ca) = ca {
        options = options.ssl_ca(ca);
    }
    if let Some(cert) = cert {
        options = options.ssl_client_cert(cert);
    }
    if let Some(key) = key {
        options = options.ssl_client_key(key);
    }
    Ok(options)
}

fn of_url(url: &Url) -> Result<Settings> {
    let decoded = |text: &str, part: &str| {
        percent_decode(text)
            .ok_or_else(|| Error::usage(format!("the {part} in the mysql URL is not valid UTF-8")))
    };
    let present = |text: &str| (!text.is_empty()).then(|| text.to_string());
    let mut out = Settings {
        host: url.host_str().and_then(present).map(|h| h.trim_matches(['[', ']']).to_string()),
        port: url.port(),
        ..Settings::default()
    };
    if !url.username().is_empty() {
        out.user = Some(decoded(url.username(), "user name")?);
    }
    if let Some(password) = url.password() {
        out.password = Some(decoded(password, "password")?);
    }
    let path = url.path().trim_start_matches('/');
    if !path.is_empty() {
        out.database = Some(decoded(path, "database name")?);
    }
    for (name, value) in url.query_pairs() {
        let value = value.into_owned();
        match name.as_ref() {
            "ssl-mode" | "sslmode" => out.ssl_mode = Some(value),
            "ssl-ca" | "sslca" => out.ssl_ca = Some(value.into()),
            "ssl-cert" | "sslcert" => out.ssl_cert = Some(value.into()),
            "ssl-key" | "sslkey" => out.ssl_key = Some(value.into()),
            "socket" => out.socket = Some(value.into()),
            _ => {
                return Err(Error::usage(format!(
                    "drift does not know the option {name:?} in the mysql URL; it knows {KNOWN}"
                )));
            }
        }
    }
    Ok(out)
}

/// Percent-decodes one part of a URL. (`form_urlencoded` would also turn `+` into a blank.)
fn percent_decode(text: &str) -> Option<String> {
    let escaped = text.replace('+', "%2B");
    let pair = format!("x={escaped}").replace('&', "%26");
    let (_, value) = url::form_urlencoded::parse(pair.as_bytes()).next()?;
    (!value.contains('\u{fffd}') || text.contains("%EF%BF%BD")).then(|| value.into_owned())
}

fn of_environment(env: &dyn Fn(&str) -> Option<String>) -> Result<Settings> {
    let set = |name: &str| env(name).filter(|v| !v.is_empty());
    Ok(Settings {
        password: env("MYSQL_PWD"),
        host: set("MYSQL_HOST"),
        port: set("MYSQL_TCP_PORT").map(|v| port(&v, "MYSQL_TCP_PORT")).transpose()?,
        socket: set("MYSQL_UNIX_PORT").map(PathBuf::from),
        ..Settings::default()
    })
}

fn port(text: &str, place: &str) -> Result<u16> {
    text.parse().map_err(|_| Error::usage(format!("{place} holds no port number")))
}

/// Reads the groups of an option file that concern clients of MariaDB and MySQL.
fn of_option_file(text: &str) -> Result<Settings> {
    let mut out = Settings::default();
    let mut ours = false;
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';', '!']) {
            continue;
        }
        if let Some(group) = line.strip_prefix('[') {
            let group = group.split(']').next().unwrap_or("").trim().to_ascii_lowercase();
            ours = matches!(group.as_str(), "client" | "client-server" | "client-mariadb");
            continue;
        }
        if !ours {
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(option_value(value.trim()))),
            None => (line.split('#').next().unwrap_or("").trim(), None),
        };
        let on =
            !matches!(value.as_deref().map(str::to_ascii_lowercase).as_deref(), Some("0" | "off" | "false"));
        match name.replace('_', "-").to_ascii_lowercase().as_str() {
            "user" => out.user = value,
            "password" => out.password = value,
            "host" => out.host = value,
            "port" => out.port = value.map(|v| port(&v, "port in ~/.my.cnf")).transpose()?,
            "socket" => out.socket = value.map(PathBuf::from),
            "database" => out.database = value,
            "ssl-mode" => out.ssl_mode = value,
            "ssl-ca" => out.ssl_ca = value.map(PathBuf::from),
            "ssl-cert" => out.ssl_cert = value.map(PathBuf::from),
            "ssl-key" => out.ssl_key = value.map(PathBuf::from),
            "ssl" if on => {
                out.ssl_mode.get_or_insert_with(|| "required".into());
            }
            "ssl" | "skip-ssl" | "disable-ssl" => out.ssl_mode = Some("disabled".into()),
            "ssl-verify-server-cert" if on => out.ssl_mode = Some("verify_identity".into()),
            _ => {}
        }
    }
    Ok(out)
}

/// An option's value: quotes around it go, a comment behind it goes, `\n`, `\t`, `\s`, `\\` and quotes are unescaped.
fn option_value(text: &str) -> String {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let mut out = String::new();
    let mut chars = text.chars().skip(usize::from(quote.is_some())).peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('b') => out.push('\u{8}'),
                Some('s') => out.push(' '),
                Some(c @ ('\\' | '"' | '\'')) => out.push(c),
                Some(c) => out.extend(['\\', c]),
                None => out.push('\\'),
            },
            c if Some(c) == quote => return out,
            '#' if quote.is_none() && (out.is_empty() || out.ends_with([' ', '\t'])) => break,
            c => out.push(c),
        }
    }
    // Without quotes, blanks before a comment or the line's end are no part of the value.
    if quote.is_none() { out.trim_end().to_string() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::ErrorKind;

    fn with(url: &str, env: &[(&str, &str)], file: &str) -> Result<MySqlConnectOptions> {
        let env: Vec<(String, String)> = env.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let lookup = move |name: &str| env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        resolve(&Url::parse(url).unwrap(), &lookup, file)
    }

    #[test]
    fn the_url_wins_over_the_file_and_the_file_over_the_environment() {
        let file = "[client]\nuser = bo\npassword=\"a#b\\\"c\" # mine\nhost=db2\nport=3307\n";
        let env = [("MYSQL_PWD", "env"), ("MYSQL_TCP_PORT", "1"), ("USER", "cy")];
        let got = with("mysql://ada@db1/shop", &env, file).unwrap();
        assert_eq!((got.get_host(), got.get_port(), got.get_username()), ("db1", 3307, "ada"));
        assert_eq!(got.get_database(), Some("shop"));
        assert_eq!(of_option_file(file).unwrap().password.as_deref(), Some("a#b\"c"));
        let got = with("mysql:///shop", &env, "").unwrap();
        assert_eq!((got.get_host(), got.get_port(), got.get_username()), ("localhost", 1, "cy"));
    }

    #[test]
    fn only_client_groups_count_and_comments_do_not() {
        let file = "# user=x\n[mysqld]\nuser=mysql\n[client-mariadb]\n; no\nuser = 'da ta' \nskip-ssl\n[mysqldump]\nuser=d\n";
        let got = of_option_file(file).unwrap();
        assert_eq!(got.user.as_deref(), Some("da ta"));
        assert_eq!(got.ssl_mode.as_deref(), Some("disabled"));
        assert_eq!(option_value("p#w x # rest"), "p#w x");
        assert_eq!(option_value("a\\sb\\\\"), "a b\\");
    }

    #[test]
    fn sockets_of_this_machine_do_not_replace_a_named_host() {
        let file = "[client]\nsocket=/run/m.sock\n";
        assert!(with("mysql://localhost/s", &[], file).unwrap().get_socket().is_some());
        assert!(with("mysql://localhost:3306/s", &[], file).unwrap().get_socket().is_none());
        assert!(with("mysql://db/s", &[], file).unwrap().get_socket().is_none());
        assert!(with("mysql://db/s?socket=/a", &[], file).unwrap().get_socket().is_some());
    }

    #[test]
    fn passwords_are_decoded_and_unknown_options_are_named() {
        assert_eq!(
            of_url(&Url::parse("mysql://a:p%40s%2B+s%26@h/").unwrap()).unwrap().password.as_deref(),
            Some("p@s++s&")
        );
        let error = with("mysql://a:geheim@h/d?sslmod=required", &[], "").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("sslmod") && !error.message.contains("geheim"), "{error}");
        assert!(with("mysql://h/d?ssl-mode=maybe", &[], "").is_err());
        assert!(
            with("mysql://h/d?ssl-ca=/nowhere.pem", &[], "").unwrap_err().message.contains("/nowhere.pem")
        );
        assert!(
            with("mysql://h/d", &[("MYSQL_TCP_PORT", "x")], "")
                .unwrap_err()
                .message
                .contains("MYSQL_TCP_PORT")
        );
    }
}
