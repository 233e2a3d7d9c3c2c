//! The report as one page: no scripts, nothing from elsewhere, light and dark.
//!
//! It shows examples, at most 200 rows and about 2 MB, grouped by what they have in common; all differences are the
//! business of `--diff`.

use std::fmt::Write;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::words::{
    self, Parted, Quoting, counted, escaped, finding, grouped, headline, key_text, parted, place, quoted,
    rows, shortened, visible,
};
use crate::compare::{CompareOutcome, Difference, DifferenceKind, Pattern, Side, Tally, Values};
use crate::value::temporal;

/// Rows that a page shows.
const ROWS: usize = 200;
/// Where a page stops showing rows, in bytes: below 2 MB with everything else.
const BYTES: usize = 1_500_000;
/// Ranges, columns or notes of one list.
const LISTED: usize = 100;
/// Characters of one value.
const VALUE: usize = 200;
const STYLE: &str = include_str!("page.css");

/// Writes the page of one or several comparisons.
pub fn write(outcomes: &[&CompareOutcome], out: &mut dyn io::Write) -> Result<(), String> {
    out.write_all(page(outcomes).as_bytes()).map_err(|e| e.to_string())
}

/// The page of one or several comparisons.
fn page(outcomes: &[&CompareOutcome]) -> String {
    let mut out = String::new();
    let title = match outcomes {
        [one] => escaped(&headline(one)),
        several => {
            let differing = several.iter().filter(|o| o.confirmed_drift()).count();
            format!("{differing} of {} tables differ", several.len())
        }
    };
    let share = Share { rows: ROWS / outcomes.len().max(1), bytes: BYTES / outcomes.len().max(1) };
    for outcome in outcomes {
        section(&mut out, outcome, share);
    }
    document(&title, &out, "Examples only: <code>--diff</code> writes all differences.")
}

/// A whole page around its content. `title` and `note` are HTML.
pub(super) fn document(title: &str, content: &str, note: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>drift: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         {content}<footer>drift {}, {}. {note}</footer>\n</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        temporal::format_timestamp_micros(now * 1_000_000, true)
    )
}

/// What one comparison may take of the page.
#[derive(Clone, Copy)]
struct Share {
    rows: usize,
    bytes: usize,
}

fn section(out: &mut String, outcome: &CompareOutcome, share: Share) {
    let end = out.len() + share.bytes;
    let verdict = outcome.verdict().word();
    let _ = write!(out, "<section>\n<h1 class=\"{verdict}\">{}</h1>\n", escaped(&headline(outcome)));
    sides(out, outcome);
    not_compared(out, outcome);
    if let Some(tally) = &outcome.tally {
        strip(out, tally);
        let patterns = tally.patterns();
        common(out, &patterns);
        columns(out, outcome, tally);
        differences(out, outcome, tally, &patterns, share.rows, end);
        duplicates(out, tally);
    }
    schema(out, outcome);
    let _ = writeln!(out, "</section>");
}

fn sides(out: &mut String, outcome: &CompareOutcome) {
    out.push_str("<div class=\"wide\"><table>\n");
    for (word, side) in ["source", "target"].iter().zip(&outcome.sides) {
        let count = side.rows.map_or("not read".into(), rows);
        let at = words::position(side).map_or(String::new(), |log| format!("at {log}"));
        let _ = writeln!(
            out,
            "<tr><th>{word}</th><td><code>{}</code></td><td class=\"n\">{count}</td><td class=\"faint\"><code>{}</code></td></tr>",
            escaped(&side.name),
            escaped(&at)
        );
    }
    out.push_str("</table></div>\n");
    let key: Vec<String> =
        outcome.recipe.iter().flat_map(|r| &r.key).map(|rule| visible(&rule.name)).collect();
    let key = if key.is_empty() {
        "no key (rows are a multiset)".into()
    } else {
        format!("key {}", key.join(", "))
    };
    let confirmation = words::confirmation(outcome).map_or(String::new(), |line| format!("; {line}"));
    let seconds = outcome.elapsed.as_secs_f64();
    let _ = writeln!(
        out,
        "<p class=\"faint\">{}; {seconds:.1} s; {}{}</p>",
        escaped(&key),
        escaped(&outcome.reason),
        escaped(&confirmation)
    );
}

fn not_compared(out: &mut String, outcome: &CompareOutcome) {
    if outcome.not_compared.is_empty() {
        return;
    }
    out.push_str("<h2>Not compared</h2>\n<div class=\"wide\"><table>\n");
    for n in outcome.not_compared.iter().take(LISTED) {
        let what = n.column.as_deref().map_or("rows".to_string(), visible);
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td><code>{}</code></td><td>{}</td></tr>",
            n.severity.word(),
            escaped(&what),
            escaped(&n.reason)
        );
    }
    out.push_str("</table></div>\n");
}

/// Where in the table, in key order, the differences lie.
fn strip(out: &mut String, tally: &Tally) {
    let all = tally.equal + tally.different() + tally.in_flight;
    let (Some(first), Some(last)) = (tally.ranges.first(), tally.ranges.last()) else { return };
    let near = if tally.ranges.are_merged() { " (near ones joined)" } else { "" };
    let _ = write!(
        out,
        "<h2>Where: {}{near}</h2>\n<svg viewBox=\"0 0 1000 34\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"places of the differences in key order\">\n\
         <rect class=\"all\" x=\"0\" y=\"4\" width=\"1000\" height=\"26\"/>\n",
        counted(tally.ranges.len() as u64, "range holds every difference", "ranges hold every difference")
    );
    let scale = 1000.0 / all.max(1) as f64;
    let mut drawn = f64::MIN;
    for (start, width) in tally.ranges.places() {
        let width = (width as f64 * scale).clamp(2.0, 1000.0);
        let x = (start as f64 * scale).min(1000.0 - width);
        // What would be covered anyway is left out.
        if x + width - drawn >= 0.5 {
            let _ = writeln!(
                out,
                "<rect class=\"hit\" x=\"{x:.1}\" y=\"4\" width=\"{width:.1}\" height=\"26\"/>"
            );
            drawn = x + width;
        }
    }
    let _ = write!(
        out,
        "</svg>\n<div class=\"ends\"><span>first difference <code>{}</code></span><span>last <code>{}</code></span></div>\n",
        escaped(&shortened(&key_text(&first.from), VALUE)),
        escaped(&shortened(&key_text(&last.to), VALUE))
    );
    if tally.ranges.len() > 1 {
        out.push_str("<details><summary>ranges</summary><div class=\"wide\"><table>\n<tr><th>from</th><th>to</th><th class=\"n\">differing</th></tr>\n");
        for range in tally.ranges.iter().take(LISTED) {
            let _ = writeln!(
                out,
                "<tr><td><code>{}</code></td><td><code>{}</code></td><td class=\"n\">{}</td></tr>",
                escaped(&shortened(&key_text(&range.from), VALUE)),
                escaped(&shortened(&key_text(&range.to), VALUE)),
                grouped(range.rows)
            );
        }
        out.push_str("</table></div>\n");
        more(out, tally.ranges.len(), LISTED);
        out.push_str("</details>\n");
    }
}

fn more(out: &mut String, all: usize, shown: usize) {
    if all > shown {
        let _ = writeln!(out, "<p class=\"faint\">and {} more</p>", grouped((all - shown) as u64));
    }
}

/// What the differences have in common.
fn common(out: &mut String, patterns: &[Pattern]) {
    if patterns.is_empty() {
        return;
    }
    let all = if patterns.iter().any(|p| !p.places.is_empty()) { "all of them" } else { "" };
    let _ = writeln!(
        out,
        "<h2>What they have in common</h2>\n<div class=\"wide\"><table>\n<tr><th>column</th><th>pattern</th><th></th><th class=\"n\">rows</th><th>{all}</th></tr>"
    );
    for p in patterns.iter().take(LISTED) {
        let places: Vec<String> = p.places.iter().map(|p| escaped(&shortened(&place(p), VALUE))).collect();
        let _ = writeln!(
            out,
            "<tr><td><code>{}</code></td><td><b>{}</b></td><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            escaped(&p.column.as_deref().map_or("(rows)".into(), visible)),
            p.pattern.replace('_', " "),
            escaped(&p.detail),
            grouped(p.rows),
            places.join("<br>")
        );
    }
    out.push_str("</table></div>\n");
    more(out, patterns.len(), LISTED);
}

fn columns(out: &mut String, outcome: &CompareOutcome, tally: &Tally) {
    let Some(recipe) = &outcome.recipe else { return };
    let types = outcome.engine_types.iter().skip(recipe.key.len());
    let mut all: Vec<_> = recipe.values.iter().zip(types).zip(&tally.by_column).collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let (differing, same): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, n)| **n > 0);
    let most = differing.first().map_or(1, |(_, n)| **n);
    if !differing.is_empty() {
        out.push_str("<h2>Changed columns</h2>\n<div class=\"wide\"><table>\n<tr><th>column</th><th>types</th><th>compared as</th><th class=\"n\">rows</th><th></th></tr>\n");
        for ((rule, (source, target)), n) in differing.iter().take(LISTED) {
            let note = rule.note.as_deref().map_or(String::new(), |note| format!("; {note}"));
            let _ = writeln!(
                out,
                "<tr><td><code>{}</code></td><td>{} → {}</td><td>{}{}</td><td class=\"n\">{}</td><td class=\"track\"><span class=\"bar\" style=\"width:{:.0}%\"></span></td></tr>",
                escaped(&visible(&rule.name)),
                escaped(source),
                escaped(target),
                escaped(&rule.compared_as()),
                escaped(&note),
                grouped(**n),
                (**n as f64 / most as f64 * 100.0).max(1.0)
            );
        }
        out.push_str("</table></div>\n");
        more(out, differing.len(), LISTED);
    }
    if !same.is_empty() {
        let names: Vec<String> = same
            .iter()
            .take(LISTED)
            .map(|((rule, _), _)| format!("<code>{}</code>", escaped(&visible(&rule.name))))
            .collect();
        let _ = writeln!(
            out,
            "<details><summary>{} without a difference</summary><p>{}</p></details>",
            counted(same.len() as u64, "column", "columns"),
            names.join(" ")
        );
    }
}

/// Examples, by what explains them.
struct Group<'a> {
    title: String,
    all: u64,
    rows: Vec<&'a Difference>,
}

fn grouped_rows<'a>(tally: &'a Tally, patterns: &[Pattern]) -> Vec<Group<'a>> {
    let title = |p: &Pattern| {
        let column = p.column.as_deref().map_or(String::new(), visible);
        format!("{column}: {}, {}", p.pattern.replace('_', " "), p.detail)
    };
    let kind = |title: &str, all| Group { title: title.into(), all, rows: Vec::new() };
    let of_columns: Vec<&Pattern> = patterns.iter().filter(|p| p.column.is_some()).collect();
    let mut by_pattern: Vec<Group<'_>> = of_columns.iter().map(|p| kind(&title(p), p.rows)).collect();
    let mut rest = [
        kind("changed otherwise", 0),
        kind("only in the source", tally.only_in_source),
        kind("only in the target", tally.only_in_target),
    ];
    for d in tally.differences.iter().chain(&tally.examples) {
        let at = of_columns.iter().position(|p| d.columns.iter().any(|column| p.explains(d, column)));
        let group = match (d.kind, at) {
            (DifferenceKind::Changed, Some(at)) => &mut by_pattern[at],
            (DifferenceKind::Changed, None) => &mut rest[0],
            (DifferenceKind::OnlyInSource, _) => &mut rest[1],
            (DifferenceKind::OnlyInTarget, _) => &mut rest[2],
        };
        if group.rows.len() < ROWS && !group.rows.iter().any(|known| known.key == d.key && !d.key.is_empty())
        {
            group.rows.push(d);
        }
    }
    by_pattern.extend(rest);
    by_pattern.retain(|group| !group.rows.is_empty());
    by_pattern
}

fn differences(
    out: &mut String,
    outcome: &CompareOutcome,
    tally: &Tally,
    patterns: &[Pattern],
    room: usize,
    end: usize,
) {
    let groups = grouped_rows(tally, patterns);
    if groups.is_empty() {
        return;
    }
    let quoting = Quoting::of(outcome);
    let _ = writeln!(out, "<h2>Differences</h2>");
    // Small groups leave their room to the others.
    let mut left = room;
    let mut by_size: Vec<usize> = (0..groups.len()).collect();
    by_size.sort_by_key(|at| groups[*at].rows.len());
    let mut quota = vec![0; groups.len()];
    for (done, at) in by_size.iter().enumerate() {
        quota[*at] = groups[*at].rows.len().min(left / (groups.len() - done));
        left -= quota[*at];
    }
    for (group, quota) in groups.iter().zip(quota) {
        let shown = if group.all > quota as u64 {
            format!("{} of {}", quota, rows(group.all))
        } else {
            rows(quota as u64)
        };
        let _ = writeln!(
            out,
            "<h3>{} <span class=\"faint\">{shown}</span></h3>\n<div class=\"wide\"><table>",
            escaped(&group.title)
        );
        if group.rows.first().is_some_and(|d| d.kind == DifferenceKind::Changed) {
            out.push_str("<tr><th>key</th><th>column</th><th>source</th><th>target</th></tr>\n");
        }
        for d in group.rows.iter().take(quota) {
            if out.len() > end {
                out.push_str(
                    "</table></div>\n<p class=\"faint\">The page is full; the other rows are left out.</p>\n",
                );
                return;
            }
            difference(out, d, &quoting);
        }
        out.push_str("</table></div>\n");
    }
}

fn difference(out: &mut String, d: &Difference, quoting: &Quoting) {
    let key = escaped(&shortened(&key_text(&d.key), VALUE));
    let (kind, values) = match d.kind {
        DifferenceKind::Changed => return changed(out, d, &key, quoting),
        DifferenceKind::OnlyInSource => ("source", &d.source),
        DifferenceKind::OnlyInTarget => ("target", &d.target),
    };
    let values = values.as_ref().map_or(String::new(), |v| cells(v, quoting));
    let _ = writeln!(
        out,
        "<tr><td class=\"key\"><code>{key}</code></td><td>{kind} only</td><td>{values}</td></tr>"
    );
}

fn changed(out: &mut String, d: &Difference, key: &str, quoting: &Quoting) {
    let shown = d.columns.len().min(LISTED);
    let height = shown + usize::from(d.same.as_ref().is_some_and(|same| !same.is_empty()));
    for (at, column) in d.columns.iter().take(shown).enumerate() {
        let key = if at == 0 {
            format!("<td class=\"key\" rowspan=\"{height}\"><code>{key}</code></td>")
        } else {
            String::new()
        };
        let of = |values: &Option<Values>| values.as_ref().and_then(|v| v.get(column)).cloned();
        let values = match (of(&d.source), of(&d.target)) {
            (Some(a), Some(b)) => {
                let (a, b) = parted(&a, &b, quoting.of_column(column));
                format!(
                    "<td class=\"v source\">{}</td><td class=\"v target\">{}</td>",
                    marked(&a),
                    marked(&b)
                )
            }
            _ => "<td colspan=\"2\"></td>".into(),
        };
        let _ = writeln!(out, "<tr>{key}<td><code>{}</code></td>{values}</tr>", escaped(&visible(column)));
    }
    if let Some(same) = d.same.as_ref().filter(|same| !same.is_empty()) {
        let _ = writeln!(
            out,
            "<tr><td colspan=\"3\"><details><summary>{}</summary>{}</details></td></tr>",
            counted(same.len() as u64, "equal column", "equal columns"),
            cells(same, quoting)
        );
    }
}

fn cells(values: &Values, quoting: &Quoting) -> String {
    let cell = |(name, value): (&String, &Value)| {
        let text = shortened(&quoted(value, quoting.of_column(name)), VALUE);
        format!(
            "<span class=\"v\"><span class=\"faint\">{}=</span>{}</span>",
            escaped(&visible(name)),
            escaped(&text)
        )
    };
    let mut cells: Vec<String> = values.iter().take(LISTED).map(cell).collect();
    if values.len() > LISTED {
        cells.push(format!("and {} more", values.len() - LISTED));
    }
    format!("<div class=\"cells\">{}</div>", cells.join(" "))
}

fn marked(value: &Parted) -> String {
    let changed = match escaped(&value.changed) {
        nothing if nothing.is_empty() => nothing,
        text => format!("<mark>{text}</mark>"),
    };
    format!("{}{changed}{}", escaped(&value.before), escaped(&value.behind))
}

fn duplicates(out: &mut String, tally: &Tally) {
    for (at, side) in [Side::Source, Side::Target].iter().enumerate() {
        if tally.duplicate_count[at] == 0 {
            continue;
        }
        let _ = writeln!(out, "<h2>Duplicate keys in the {}</h2>\n<div class=\"wide\"><table>", side.word());
        for d in tally.duplicates[at].iter().take(LISTED) {
            let key = escaped(&shortened(&key_text(&d.key), VALUE));
            let _ =
                writeln!(out, "<tr><td><code>{key}</code></td><td class=\"n\">{}</td></tr>", rows(d.rows));
        }
        out.push_str("</table></div>\n");
        more(out, tally.duplicate_count[at] as usize, tally.duplicates[at].len().min(LISTED));
    }
}

fn schema(out: &mut String, outcome: &CompareOutcome) {
    if outcome.findings.is_empty() {
        return;
    }
    out.push_str("<h2>Schema</h2>\n<div class=\"wide\"><table>\n");
    for f in outcome.findings.iter().take(LISTED) {
        let _ = writeln!(out, "<tr><td>{}</td><td>{}</td></tr>", f.severity.word(), escaped(&finding(f)));
    }
    out.push_str("</table></div>\n");
    more(out, outcome.findings.len(), LISTED);
}
