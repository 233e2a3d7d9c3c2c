//! `drift init`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::{Exit, Global, exit_of, parsed, print, print_json};
use crate::config::address::Address;
use crate::control::{self, Database};
use crate::endpoint::{Error, ErrorKind};
use crate::report::words::counted;

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The source's database, as postgres://host/db, mysql://host/db or sqlite:file
    source: String,
    /// The target's database
    target: String,
}

pub(super) async fn run(global: &Global, args: &InitArgs) -> Exit {
    match init(global, args).await {
        Ok(()) => Exit::Equal,
        Err(error) => {
            global.say(&error.message);
            exit_of(&error)
        }
    }
}

async fn init(global: &Global, args: &InitArgs) -> Result<(), Error> {
    let path = match global.config.as_slice() {
        [] => PathBuf::from(super::config::DEFAULT),
        [only] => only.clone(),
        _ => return Err(Error::usage("drift init writes one file; name it with one --config")),
    };
    let shown = path.display();
    if path.exists() {
        return Err(Error::usage(format!(
            "{shown} is there already; name another with --config FILE, or remove it"
        )));
    }
    let database = |word: &str, text: &str| {
        let address = parsed(global, text, Address::parse_database).map_err(|e| {
            Error::new(e.kind, format!("{word}: {}", e.message.replace("--tables", "drift init")))
        })?;
        Ok::<Database, Error>(Database { address, typed: text.to_string() })
    };
    let draft = control::init(&database("source", &args.source)?, &database("target", &args.target)?).await?;
    let written = std::fs::File::create_new(&path).and_then(|mut file| file.write_all(draft.text.as_bytes()));
    written.map_err(|e| Error::new(ErrorKind::Data, format!("cannot write {shown}: {e}")))?;
    if global.writes_json() {
        print_json(
            global,
            &serde_json::json!({
                "schema_version": 1,
                "file": shown.to_string(),
                "pairs": draft.pairs,
                "left_out": draft.left_out,
                "environment": draft.variables,
            }),
        );
        return Ok(());
    }
    let mut out = format!("{shown}: {} of tables\n", counted(draft.pairs as u64, "pair", "pairs"));
    for line in &draft.left_out {
        out.push_str(&format!("not watched: {line}\n"));
    }
    for variable in &draft.variables {
        out.push_str(&format!("no password was written: set {variable} in the environment\n"));
    }
    out.push_str("next: drift validate --online, drift audit, drift serve\n");
    print(&out);
    Ok(())
}
