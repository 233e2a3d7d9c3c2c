//! Patterns as a property: random faults of every pattern in random columns of any two engines come back with their
//! names, constants and numbers of rows, and nothing else is named.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::patterns::{Named, patterns};
use crate::support::database::{MySql, Postgres, Sqlite};
use crate::support::drift::Drift;
use crate::support::twin::{Datum, Kind, Twin, kind};

/// Rows whose columns are damaged, and among which some are lost.
const ROWS: i64 = 600;
const SURPLUS: i64 = 1000;
/// Rows of each fault, about: enough that chance names nothing.
const SHARE: u64 = 8;

fn kinds() -> Vec<Kind> {
    let moment = ["timestamp(6)", "datetime(6)", "datetime", "int64 (TIMESTAMP(MICROS,false))"];
    let money =
        ["numeric(20,4)", "decimal(20,4)", "decimal(20,4)", "fixed_len_byte_array(16) (DECIMAL(20,4))"];
    let big = ["bigint", "bigint", "integer", "int64"];
    let text = ["text", "varchar(90)", "text", "binary (STRING)"];
    let real = ["double precision", "double", "real", "double"];
    [
        ("made", moment),
        ("seen", moment),
        ("amount", money),
        ("fee", money),
        ("total", big),
        ("note", text),
        ("city", text),
        ("first", text),
        ("last", text),
        ("rate", real),
    ]
    .map(|(name, types)| kind(name, types, Just(Datum::Null)))
    .into()
}

/// A number that depends on the seed and three places alone.
fn lot(seed: u64, what: u64, column: u64, row: i64) -> u64 {
    let bytes = [what.to_le_bytes(), column.to_le_bytes(), row.to_le_bytes()].concat();
    xxh3_64_with_seed(&bytes, seed)
}

/// The values of a row before anything happens. No digit is 0, so that whatever is cut off was something; every third text
/// is empty.
fn value(seed: u64, column: usize, row: i64) -> Datum {
    let lots = |what| lot(seed, what, column as u64, row);
    let digits =
        |what, n: u32| (0..n).fold(0, |sum, at| sum * 10 + 1 + i128::from(lots(what + u64::from(at)) % 9));
    match column {
        0 | 1 => {
            let (day, second) = (1 + lots(1) % 28, lots(2) % 86_400);
            let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
            let month = 1 + lots(3) % 12;
            Datum::Moment(format!("2024-{month:02}-{day:02} {h:02}:{m:02}:{s:02}.{}", digits(10, 6)))
        }
        2 | 3 => Datum::Decimal(digits(10, 9), 4),
        4 => Datum::Int(digits(10, 5) * 86_400_000),
        9 => Datum::Real(number(digits(10, 9), 4)),
        _ if lots(1).is_multiple_of(3) => Datum::Text(String::new()),
        _ => {
            let tail = format!("{:x}", lots(2));
            Datum::Text(format!(
                "Zoë-Müller-{}-{:016x}",
                &tail[..tail.len().min(3 + (lots(3) % 9) as usize)],
                lots(4)
            ))
        }
    }
}

fn number(unscaled: i128, scale: u32) -> f64 {
    Datum::Decimal(unscaled, scale).text().parse().expect("a number")
}

/// What is done to a value; `None` where nothing would change.
type Change = Box<dyn Fn(&Datum) -> Option<Datum>>;

/// A fault: its pattern and detail, and what it does.
struct Fault {
    pattern: &'static str,
    detail: String,
    change: Change,
}

fn fault(
    pattern: &'static str,
    detail: impl Into<String>,
    change: impl Fn(&Datum) -> Option<Datum> + 'static,
) -> Fault {
    Fault { pattern, detail: detail.into(), change: Box::new(change) }
}

fn decimals(n: u32) -> String {
    if n == 1 { "1 decimal".into() } else { format!("{n} decimals") }
}

/// A change of a number by its unscaled value of 4 decimals, whether it is a decimal or a float.
fn on_number(change: impl Fn(i128) -> i128 + 'static) -> impl Fn(&Datum) -> Option<Datum> {
    move |value| match value {
        Datum::Decimal(n, 4) => Some(Datum::Decimal(change(*n), 4)),
        Datum::Real(x) => {
            let text = format!("{x:.4}").replace('.', "");
            Some(Datum::Real(number(change(text.parse().expect("digits")), 4)))
        }
        _ => None,
    }
}

fn on_text(change: impl Fn(&str) -> String + 'static) -> impl Fn(&Datum) -> Option<Datum> {
    move |value| match value {
        Datum::Text(text) if !text.is_empty() => Some(Datum::Text(change(text))),
        _ => None,
    }
}

/// Microseconds since 1970, of a moment in 2024, and back.
fn on_moment(change: impl Fn(i64) -> i64 + 'static) -> impl Fn(&Datum) -> Option<Datum> {
    const MONTHS: [i64; 13] = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366];
    move |value| {
        let Datum::Moment(text) = value else { return None };
        let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().expect("digits");
        let days = MONTHS[part(5..7) as usize - 1] + part(8..10) - 1;
        let seconds = (days * 24 + part(11..13)) * 3600 + part(14..16) * 60 + part(17..19);
        let after = change(seconds * 1_000_000 + part(20..26));
        let (seconds, micros) = (after.div_euclid(1_000_000), after.rem_euclid(1_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Days before the year and after it stay within one month.
        let (year, days) = if days < 0 {
            (2023, days + 365)
        } else if days >= 366 {
            (2025, days - 366)
        } else {
            (2024, days)
        };
        let leap = i64::from(year == 2024);
        let starts = MONTHS.map(|start| if start > 31 { start - 1 + leap } else { start });
        let month = starts.iter().rposition(|start| *start <= days).expect("a month");
        let day = days - starts[month] + 1;
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        Some(Datum::Moment(format!("{year}-{:02}-{day:02} {h:02}:{m:02}:{s:02}.{micros:06}", month + 1)))
    }
}

/// A fault for a column, by a random choice; what is arbitrary or confusable with another stands in its own `slot`.
fn choose(column: usize, slot: usize, pick: u64) -> Option<Fault> {
    let (pick, parameter) = (pick % 16, pick / 16);
    let of = |n: u64| parameter % n;
    Some(match (column, slot) {
        (0 | 1, 0) => {
            let (unit, name) =
                [(1000, "milliseconds"), (1_000_000, "seconds"), (60_000_000, "minutes")][of(3) as usize];
            if pick.is_multiple_of(2) {
                fault("cut", format!("whole {name}"), on_moment(move |t| t - t.rem_euclid(unit)))
            } else {
                let half = unit / 2;
                fault(
                    "rounded",
                    format!("whole {name}"),
                    on_moment(move |t| (t + half) - (t + half).rem_euclid(unit)),
                )
            }
        }
        (0 | 1, 1) => {
            const HOUR: i64 = 3_600_000_000;
            let (by, detail) = [
                (2 * HOUR, "+2 h"),
                (-HOUR, "-1 h"),
                (-HOUR / 2, "-30 min"),
                (25 * HOUR, "+1 d 1 h"),
                (19_800_000_000, "+5 h 30 min"),
                (-27_000_000, "-27 s"),
                (1, "+0.000001 s"),
            ][of(7) as usize];
            fault("shifted", detail, on_moment(move |t| t + by))
        }
        (2 | 3 | 9, 0) => {
            let kept = of(4) as u32;
            let unit = 10i128.pow(4 - kept);
            if pick.is_multiple_of(2) {
                fault("cut", decimals(kept), on_number(move |n| n / unit * unit))
            } else {
                fault("rounded", decimals(kept), on_number(move |n| (n + unit / 2) / unit * unit))
            }
        }
        (2 | 3, 1) => {
            let (by, detail) = [(70_000, "+7"), (-5_000, "-0.5"), (1, "+0.0001")][of(3) as usize];
            fault("shifted", detail, on_number(move |n| n + by))
        }
        (2 | 3 | 9, 2) => {
            let by = [10, 100, 1000, 60][of(4) as usize];
            fault("scaled", format!("×{by}"), on_number(move |n| n * by))
        }
        (4, 0) => {
            let by = [10, 100, 1000, 1024, 60, 3600, 24][of(7) as usize];
            fault("scaled", format!("×{by}"), move |v| match v {
                Datum::Int(n) => Some(Datum::Int(n * by)),
                _ => None,
            })
        }
        (4, 1) => {
            let by = [10, 100, 1000, 60, 3600, 24][of(6) as usize];
            fault("scaled", format!("÷{by}"), move |v| match v {
                Datum::Int(n) => Some(Datum::Int(n / by)),
                _ => None,
            })
        }
        (4, 2) => {
            let by = 1 + i128::from(of(500));
            fault("shifted", format!("+{by}"), move |v| match v {
                Datum::Int(n) => Some(Datum::Int(n + by)),
                _ => None,
            })
        }
        (5..=8, 0) => match pick % 3 {
            0 => fault("trimmed", "trailing blanks lacking in the source", on_text(|t| format!("{t}  "))),
            1 => fault("trimmed", "leading blanks lacking in the source", on_text(|t| format!(" {t}"))),
            _ => fault("trimmed", "blanks on both ends lacking in the source", on_text(|t| format!(" {t} "))),
        },
        (5..=8, 1) => match pick % 2 {
            0 => fault("case", "upper case in the target", on_text(str::to_uppercase)),
            _ => {
                let kept = 12 + of(10) as usize;
                let cut = move |t: &str| t.chars().take(kept).collect();
                fault("cut", format!("{kept} characters"), on_text(cut))
            }
        },
        (5..=8, 2) => match pick % 2 {
            0 => fault(
                "encoding",
                "UTF-8 read as Windows-1252",
                on_text(|t| t.bytes().map(char::from).collect()),
            ),
            _ => {
                let masked = |t: &str| t.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
                fault("encoding", "characters replaced by ?", on_text(masked))
            }
        },
        (5..=8, 3) => fault("empty_null", "empty in the source, NULL in the target", |v| match v {
            Datum::Text(text) if text.is_empty() => Some(Datum::Null),
            _ => None,
        }),
        _ => return None,
    })
}

/// Both sides, and what must be named.
struct Planted {
    source: Vec<(i64, Vec<Datum>)>,
    target: Vec<(i64, Vec<Datum>)>,
    named: Vec<Named>,
}

/// `columns` are those that are damaged, one bit each; `swap` whether first and last names change places.
fn plant(seed: u64, columns: u16, swap: bool, runs: i64, surplus: i64) -> Planted {
    let kinds = kinds();
    let row = |id: i64| (0..kinds.len()).map(|column| value(seed, column, id)).collect::<Vec<_>>();
    let mut source: Vec<(i64, Vec<Datum>)> = (0..ROWS).map(|id| (id, row(id))).collect();
    let mut target = source.clone();
    let mut named = Vec::new();
    let lost: Vec<std::ops::Range<i64>> = (0..runs)
        .map(|run| {
            let start = 100 + run * 200;
            start..start + 3 + (lot(seed, 97, 0, run) % 15) as i64
        })
        .collect();
    let is_lost = |id: i64| lost.iter().any(|run| run.contains(&id));
    for column in (0..kinds.len()).filter(|column| columns >> column & 1 == 1) {
        for slot in 0..4 {
            let pick = lot(seed, 100 + slot as u64, column as u64, 0);
            if (pick >> 60).is_multiple_of(2) {
                continue;
            }
            let Some(fault) = choose(column, slot, pick & 0xffff) else { continue };
            let mut rows = 0;
            for at in 0..ROWS as usize {
                // Each row belongs to one slot of a column at most, and the last to a swap.
                let belongs = lot(seed, 99, column as u64, at as i64) % (SHARE * 5) / 2 == slot as u64 * 2;
                if !belongs || is_lost(at as i64) {
                    continue;
                }
                // What is cut and what is rounded differ in every second row for sure.
                if let Some(value) = telling(&source[at].1[column], rows) {
                    source[at].1[column] = value.clone();
                    target[at].1[column] = value;
                }
                if let Some(after) = (fault.change)(&target[at].1[column]) {
                    target[at].1[column] = after;
                    rows += 1;
                }
            }
            if rows > 0 {
                named.push((kinds[column].name.to_string(), fault.pattern.to_string(), fault.detail, rows));
            }
        }
    }
    if swap {
        let mut rows = 0;
        for at in 0..ROWS as usize {
            let (first, last) = (target[at].1[7].clone(), target[at].1[8].clone());
            let untouched = source[at].1[7] == first && source[at].1[8] == last;
            if lot(seed, 98, 0, at as i64).is_multiple_of(SHARE * 3)
                && untouched
                && !is_lost(at as i64)
                && first != last
                && !first.text().is_empty()
                && !last.text().is_empty()
            {
                target[at].1.swap(7, 8);
                rows += 1;
            }
        }
        if rows > 0 {
            named.push(("first".into(), "swapped".into(), "with last".into(), rows));
        }
    }
    target.retain(|(id, _)| !is_lost(*id));
    let kept = target.len();
    if runs > 0 {
        let detail = match runs {
            1 => "one run of rows that only the source has".to_string(),
            several => format!("{several} runs of rows that only the source has"),
        };
        named.push((String::new(), "missing_range".into(), detail, (ROWS as usize - kept) as u64));
    }
    target.extend((SURPLUS..SURPLUS + surplus).map(|id| (id, row(id))));
    if surplus > 0 {
        named.push((
            String::new(),
            "surplus_rows".into(),
            "rows that only the target has".into(),
            surplus as u64,
        ));
    }
    named.sort();
    Planted { source, target, named }
}

/// A number or moment that ends in sevens, or in twos.
fn telling(value: &Datum, nth: u64) -> Option<Datum> {
    let digit = if nth.is_multiple_of(2) { 7 } else { 2 };
    match value {
        Datum::Decimal(n, 4) => Some(Datum::Decimal(n / 10_000 * 10_000 + digit * 1111, 4)),
        Datum::Real(x) => Some(Datum::Real(number(x.trunc() as i128 * 10_000 + digit * 1111, 4))),
        Datum::Moment(text) => {
            let second = if nth.is_multiple_of(2) { 47 } else { 12 };
            Some(Datum::Moment(format!("{}{second}.{}", &text[..17], digit * 111_111)))
        }
        _ => None,
    }
}

fn planted(source: &Twin, target: &Twin) {
    let kinds = kinds();
    source.create(&kinds);
    target.create(&kinds);
    let cases = if std::env::var_os("DRIFT_TEST_LONG").is_some() { 60 } else { 5 };
    let config = Config { cases, max_shrink_iters: 40, failure_persistence: None, ..Config::default() };
    let input = (any::<u64>(), 0u16..1 << kinds.len(), any::<bool>(), 0i64..3, 0i64..9);
    let checked = TestRunner::new(config).run(&input, |(seed, columns, swap, runs, surplus)| {
        let planted = plant(seed, columns, swap, runs, surplus);
        source.fill(&kinds, &planted.source);
        target.fill(&kinds, &planted.target);
        let call =
            Drift::compare(&source.address(), &target.address()).args(["-k", "id", "--consistency", "none"]);
        let (outcome, report) = call.run_json();
        let found = patterns(&report);
        prop_assert_eq!(&found, &planted.named);
        prop_assert_eq!(outcome.code, i32::from(!planted.named.is_empty()));
        Ok(())
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
}

fn postgres() -> Twin {
    Twin::Postgres(Postgres::fresh())
}

fn mysql() -> Twin {
    Twin::MySql(MySql::fresh())
}

fn sqlite() -> Twin {
    Twin::Sqlite(Sqlite::fresh())
}

macro_rules! pairs {
    ($($name:ident: $source:expr, $target:expr;)*) => {
        $(#[test]
        fn $name() {
            planted(&$source, &$target);
        })*
    };
}
pairs! {
    in_postgres: postgres(), postgres();
    from_postgres_to_mariadb: postgres(), mysql();
    from_mariadb_to_postgres: mysql(), postgres();
    in_mariadb: mysql(), mysql();
    from_postgres_to_sqlite: postgres(), sqlite();
    from_sqlite_to_mariadb: sqlite(), mysql();
    from_mariadb_to_parquet: mysql(), Twin::parquet();
    from_parquet_to_postgres: Twin::parquet(), postgres();
    from_postgres_to_csv: postgres(), Twin::csv();
    from_parquet_to_csv: Twin::parquet(), Twin::csv();
}
