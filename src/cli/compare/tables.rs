//! `--tables`: all tables of two databases that match by name.

use std::sync::Arc;
use std::time::Instant;

use glob::Pattern;

use super::{CompareArgs, compared, exit_for};
use crate::cli::{Exit, Global, Output, exit_of, parsed, print, print_human, print_json, print_report};
use crate::compare::{CompareOutcome, CompareRequest, Endpoints};
use crate::config::address::{Address, CsvOptions};
use crate::endpoint::{self, Error, Sibling, partner};
use crate::report::file::Pending;
use crate::report::tables::Tables;
use crate::report::{html, json, junit};

/// So many names stand in the error for a pattern that fits none.
const NAMED: usize = 10;

pub(super) async fn run(global: &Global, args: &CompareArgs) -> Exit {
    match tables(global, args).await {
        Ok((tables, written)) => {
            report(global, &tables);
            if written { exit_for(tables.verdict()) } else { Exit::Incomplete }
        }
        Err(error) => {
            global.say(&error.message);
            exit_of(&error)
        }
    }
}

/// Compares them one after the other; and whether every file could be written.
async fn tables(global: &Global, args: &CompareArgs) -> Result<(Tables, bool), Error> {
    let request = args.request()?;
    let deadline = request.deadline.map(|limit| Instant::now() + limit);
    let page = match &args.html {
        Some(path) => Some(Pending::create(path).map_err(|why| Error::usage(format!("--html: {why}")))?),
        None => None,
    };
    let patterns: Vec<Pattern> = args.tables.iter().map(|text| pattern(text)).collect::<Result<_, _>>()?;
    let (source, ours) = side(global, "source", &args.source).await?;
    let (target, theirs) = side(global, "target", &args.target).await?;
    let wanted: Vec<&Sibling> = ours.iter().filter(|table| fits(&patterns, table)).collect();
    if wanted.is_empty() {
        return Err(Error::usage(nothing_fits(&source, &args.tables, &ours)));
    }
    let of = |database: &Address, table: &Sibling| {
        endpoint::of(&database.with_table(table.object.clone()), &CsvOptions::default()).map(Arc::from)
    };
    let mut tables = Tables { compared: Vec::new(), only_in_target: Vec::new() };
    let mut met: Vec<&Sibling> = Vec::new();
    for table in &wanted {
        let name = table.object.to_string();
        global.step(&format!("{name}: table {} of {}", tables.compared.len() + 1, wanted.len()));
        let outcome = match partner(table, &theirs) {
            Ok(other) => {
                met.push(other);
                let endpoints = [of(&source, table)?, of(&target, other)?];
                one(global, &endpoints, &request, deadline).await
            }
            Err(why) => {
                let names = [source.with_table(table.object.clone()).to_string(), target.database_name()];
                CompareOutcome::nothing_read(names, why, &request)
            }
        };
        tables.compared.push((name, outcome));
    }
    let alone = theirs.iter().filter(|table| fits(&patterns, table) && !met.contains(table));
    tables.only_in_target = alone.map(|table| table.object.to_string()).collect();
    let written = page.map(|page| page.finish(|out| html::write(&tables.outcomes(), out))).transpose();
    if let Err(why) = &written {
        global.say(&format!("--html: {why}"));
    }
    Ok((tables, written.is_ok()))
}

/// A database and its tables.
async fn side(global: &Global, word: &str, text: &str) -> Result<(Address, Vec<Sibling>), Error> {
    let address = parsed(global, text, Address::parse_database)
        .map_err(|e| Error::new(e.kind, format!("{word}: {}", e.message)))?;
    let siblings = endpoint::of(&address, &CsvOptions::default())?.siblings().await?;
    Ok((address, siblings))
}

/// What cannot be compared is one table's trouble, and no reason to leave out the others.
async fn one(
    global: &Global,
    endpoints: &Endpoints,
    request: &CompareRequest,
    deadline: Option<Instant>,
) -> CompareOutcome {
    compared(global, endpoints, request, deadline).await.unwrap_or_else(|error| {
        let names = endpoints.each_ref().map(|endpoint| endpoint.name().to_string());
        CompareOutcome::nothing_read(names, error.message, request)
    })
}

fn pattern(text: &str) -> Result<Pattern, Error> {
    Pattern::new(text.trim()).map_err(|e| Error::usage(format!("--tables {text}: {e}")))
}

/// Whether a pattern fits `schema.table`, or the table alone.
fn fits(patterns: &[Pattern], table: &Sibling) -> bool {
    let qualified = format!("{}.{}", table.schema, table.name);
    patterns.iter().any(|pattern| pattern.matches(&qualified) || pattern.matches(&table.name))
}

fn nothing_fits(source: &Address, patterns: &[String], ours: &[Sibling]) -> String {
    let mut names: Vec<String> =
        ours.iter().take(NAMED).map(|t| format!("{}.{}", t.schema, t.name)).collect();
    if ours.len() > NAMED {
        names.push("…".into());
    }
    let has = if names.is_empty() { "no tables that this user may see".into() } else { names.join(", ") };
    format!("--tables {}: nothing in {} fits; it has {has}", patterns.join(","), source.database_name())
}

fn report(global: &Global, tables: &Tables) {
    match global.output {
        Output::Json => print_json(global, &tables.json()),
        Output::Jsonl => tables.compared.iter().for_each(|(_, one)| print_json(global, &json::compare(one))),
        Output::Markdown => print_report(global, &tables.markdown()),
        Output::Junit => print(&junit::compare(&tables.outcomes())),
        Output::Human => print_human(global, &tables.human(global.style())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::address::Object;

    fn table(schema: &str, name: &str) -> Sibling {
        let object = Object::Table { schema: Some(schema.into()), name: name.into() };
        Sibling { schema: schema.into(), name: name.into(), object }
    }

    #[test]
    fn patterns_fit_names_with_and_without_their_schema() {
        let fit =
            |text: &str, schema: &str, name: &str| fits(&[pattern(text).unwrap()], &table(schema, name));
        assert!(fit("public.*", "public", "orders") && !fit("public.*", "audit", "orders"));
        assert!(fit("orders", "audit", "orders") && fit("order*", "audit", "order_items"));
        assert!(fit("*", "any", "thing") && !fit("items", "public", "order_items"));
        assert!(pattern("[").is_err());
    }
}
