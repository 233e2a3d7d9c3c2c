//! `drift schema`.

use clap::Args;

use super::{CsvArgs, Exit, Global, endpoint, exit_of, print_human, print_json};
use crate::compare::{CompareOutcome, CompareRequest, Endpoints, compare_schemas};
use crate::endpoint::ErrorKind;
use crate::report::{human, json};

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// Where rows come from: postgres://…#table, mysql://…#table, sqlite:file#table, or files
    source: String,
    /// Where they should have arrived, in the same forms
    target: String,
    /// Leave these columns out
    #[arg(long, value_name = "COL[,COL]", env = "DRIFT_EXCLUDE", value_delimiter = ',')]
    exclude: Vec<String>,
    /// A column that has another name in the target
    #[arg(long, value_name = "SRC=TGT", env = "DRIFT_MAP", value_delimiter = ',', value_parser = super::compare::pair)]
    map: Vec<(String, String)>,
    #[command(flatten)]
    csv: CsvArgs,
}

pub(super) async fn run(global: &Global, args: &SchemaArgs) -> Exit {
    let request =
        CompareRequest { exclude: args.exclude.clone(), map: args.map.clone(), ..CompareRequest::default() };
    let csv = args.csv.options();
    let made =
        endpoint(global, &args.source, &csv).and_then(|s| Ok([s, endpoint(global, &args.target, &csv)?]));
    let endpoints: Endpoints = match made {
        Ok(endpoints) => endpoints,
        Err(error) => {
            global.say(&error.message);
            return exit_of(&error);
        }
    };
    match compare_schemas(&endpoints, &request).await {
        Ok(outcome) => {
            print_schema(global, &outcome);
            if json::schema_breaks(&outcome) { Exit::Drift } else { Exit::Equal }
        }
        Err(error) => {
            global.say(&error.message);
            if error.kind != ErrorKind::Usage {
                let names = [endpoints[0].name().to_string(), endpoints[1].name().to_string()];
                print_schema(global, &CompareOutcome::nothing_read(names, error.message.clone(), &request));
            }
            exit_of(&error)
        }
    }
}

fn print_schema(global: &Global, outcome: &CompareOutcome) {
    if global.writes_json() {
        print_json(global, &json::schema(outcome));
    } else {
        print_human(global, &human::schema(outcome, global.style()));
    }
}
