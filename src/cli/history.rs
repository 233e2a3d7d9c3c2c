//! `drift history`.

use clap::Args;
use serde_json::{Value, json};

use super::{Exit, Global, print_human, print_json};
use crate::audit::{Status, store};
use crate::state::rfc3339;

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// The pair
    pair: String,
    /// What was measured, such as changed or column_missing (default: the runs)
    metric: Option<String>,
    /// How many runs are shown
    #[arg(long, value_name = "N", default_value_t = 50, env = "DRIFT_LAST", value_parser = clap::value_parser!(i64).range(1..=100_000))]
    last: i64,
}

pub(super) async fn run(global: &Global, args: &HistoryArgs) -> Exit {
    let (loaded, store) = match super::config::opened(global).await {
        Ok(opened) => opened,
        Err(exit) => return exit,
    };
    if loaded.config.pair(&args.pair).is_none() {
        global.say(&format!("there is no pair {:?} in the configuration; see drift config", args.pair));
        return Exit::Usage;
    }
    let mut out = String::new();
    let mut listed: Vec<Value> = Vec::new();
    let read = async {
        // Not every run has measured this.
        let read = if args.metric.is_some() { args.last.saturating_mul(4) } else { args.last };
        for run in store::runs(&store, &args.pair, read).await? {
            if listed.len() as i64 >= args.last {
                break;
            }
            let results = match &args.metric {
                Some(metric) => store::results(&store, &run.id)
                    .await?
                    .into_iter()
                    .filter(|r| r.metric == *metric)
                    .collect(),
                None => Vec::new(),
            };
            let status = run.status.map_or("unfinished", Status::word);
            let begin = rfc3339(run.started);
            let document = |extra: Value| {
                let mut run = json!({ "run": run.id, "level": run.level, "started": begin, "status": status, "rows_compared": run.rows });
                if let (Some(run), Value::Object(extra)) = (run.as_object_mut(), extra) {
                    run.extend(extra);
                }
                run
            };
            if args.metric.is_none() {
                let took = run
                    .ended
                    .map_or(String::new(), |ended| format!("{:.1} s", (ended - run.started) as f64 / 1e6));
                out.push_str(&format!(
                    "{begin}  {:<7} {status:<13} {:>12} rows  {took}\n",
                    run.level, run.rows
                ));
                listed.push(document(json!({})));
            }
            for result in results {
                let measured = result.measured.map_or("-".into(), |m| m.to_string());
                out.push_str(&format!(
                    "{begin}  {:<7} {:<13} {measured:>12}  {}\n",
                    run.level, result.status, result.summary
                ));
                listed.push(document(json!({
                    "metric": result.metric, "status": result.status, "reason": result.reason,
                    "measured": result.measured, "threshold": result.threshold, "summary": result.summary,
                })));
            }
        }
        Ok::<(), crate::state::Error>(())
    };
    if let Err(error) = read.await {
        global.say(&error.message);
        return Exit::Incomplete;
    }
    if global.writes_json() {
        print_json(global, &json!({ "schema_version": 1, "pair": args.pair, "runs": listed }));
    } else if out.is_empty() {
        print_human(global, "nothing is remembered of this yet; drift audit makes the first run\n");
    } else {
        print_human(global, &out);
    }
    Exit::Equal
}
