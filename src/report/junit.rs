//! The answer as JUnit's XML, for build servers: one suite per comparison, one test for its rows, its keys, and each
//! column. Values stand in it no more than in any log.

use std::fmt::Write;

use super::words::{self, headline, rows};
use crate::compare::{CompareOutcome, Verdict};
use crate::schema::Severity;

/// One test.
struct Test {
    name: String,
    /// `failure` or `error`, and what it says.
    wrong: Option<(&'static str, String)>,
}

/// The document of some comparisons.
pub fn compare(outcomes: &[&CompareOutcome]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"drift\">\n");
    for outcome in outcomes {
        suite(&mut out, outcome);
    }
    out.push_str("</testsuites>\n");
    out
}

fn suite(out: &mut String, outcome: &CompareOutcome) {
    let tests = tests(outcome);
    let count = |kind: &str| tests.iter().filter(|t| t.wrong.as_ref().is_some_and(|w| w.0 == kind)).count();
    let name = escaped(&format!("{} → {}", outcome.sides[0].name, outcome.sides[1].name));
    let _ = writeln!(
        out,
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{:.3}\">",
        tests.len(),
        count("failure"),
        count("error"),
        outcome.elapsed.as_secs_f64()
    );
    for test in tests {
        let case = format!("    <testcase classname=\"{name}\" name=\"{}\"", escaped(&test.name));
        let _ = match test.wrong {
            None => writeln!(out, "{case}/>"),
            Some((kind, message)) => {
                let message = escaped(&message);
                writeln!(
                    out,
                    "{case}>\n      <{kind} message=\"{message}\">{message}</{kind}>\n    </testcase>"
                )
            }
        };
    }
    out.push_str("  </testsuite>\n");
}

fn tests(outcome: &CompareOutcome) -> Vec<Test> {
    let failure = |n: u64, what: &str| (n > 0).then(|| ("failure", format!("{} {what}", rows(n))));
    let mut out = Vec::new();
    let mut test = |name: &str, wrong| out.push(Test { name: name.into(), wrong });
    // The whole answer comes first: it is an error where the question stays open.
    let line = headline(outcome);
    test(
        "verdict",
        match outcome.verdict() {
            Verdict::Equal => None,
            Verdict::Drift => Some(("failure", line)),
            Verdict::Inconclusive | Verdict::Incomplete => Some(("error", line)),
        },
    );
    for n in outcome.not_compared.iter().filter(|n| n.severity == Severity::Fail) {
        let name = n.column.as_ref().map_or("compared: rows".into(), |c| format!("compared: column {c}"));
        test(&name, Some(("error", n.reason.clone())));
    }
    if let (Some(tally), Some(recipe)) = (&outcome.tally, &outcome.recipe) {
        test("rows only in the source", failure(tally.only_in_source, "only in the source"));
        test("rows only in the target", failure(tally.only_in_target, "only in the target"));
        let duplicates = tally.duplicate_count.iter().sum();
        test("duplicate keys", failure(duplicates, "stand for keys that occur several times"));
        for (rule, n) in recipe.values.iter().zip(&tally.by_column) {
            test(&format!("column {}", rule.name), failure(*n, "changed"));
        }
    }
    out
}

/// Text that XML can hold.
fn escaped(text: &str) -> String {
    let held = |c: char| match c {
        '\n' | '\t' | '\r' => ' ',
        c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => '\u{fffd}',
        c => c,
    };
    words::escaped(&text.chars().map(held).collect::<String>())
}
