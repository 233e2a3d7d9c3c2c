//! Peak memory in the worst case: no side delivers an order, keys are long texts, and no row is equal.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::support::database::{MySql, Postgres};
use crate::support::drift::Drift;

const MIB: u64 = 1 << 20;
/// What a run may take beside `--memory`: the program itself and what the connections hold.
const OVERHEAD: u64 = 64 * MIB;

/// Asks for all differences of two tables in which each of the `rows` keys differs.
fn peak_stays_within(source: &str, target: &str, rows: u64, memory: u64, threads: u32) {
    let mut call = Drift::compare(source, target).deadline(Duration::from_secs(1200));
    call = call.args(["-k", "id", "--memory", &format!("{}MiB", memory / MIB)]);
    call = call.args(["--consistency", "confirm", "--confirm-wait", "1ms"]);
    let (outcome, report) = call.args(["--threads", &threads.to_string()]).run_json();
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    for side in ["source", "target"] {
        assert_eq!(report[side]["rows"], rows, "{side}");
    }
    for count in ["compared", "changed"] {
        assert_eq!(report["rows"][count], rows, "{count}");
    }
    let peak = outcome.peak_memory;
    println!("{rows} rows within --memory {} MiB: a peak of {} MiB", memory / MIB, peak / MIB);
    assert!(peak <= memory + OVERHEAD, "a peak of {} MiB for {} MiB", peak / MIB, memory / MIB);
}

/// A file of `rows` rows by keys of 36 characters in no order.
fn write_csv(path: &Path, numbers: impl Iterator<Item = u64>, value: impl Fn(u64) -> u64) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    writeln!(file, "id,amount,note").expect("a line");
    for n in numbers {
        writeln!(file, "{:016x}-{n:019},{},row number {n}", scattered(n), value(n)).expect("a line");
    }
    file.flush().expect("the end of the file");
}

/// Spreads numbers over all 64 bits without two becoming one (the finalizer of SplitMix64).
fn scattered(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn compare_files(rows: u64, memory: u64, threads: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, target] = ["source.csv", "target.csv"].map(|name| folder.path().join(name));
    write_csv(&source, 1..=rows, |n| n);
    write_csv(&target, (1..=rows).rev(), |n| n + 1);
    let [source, target] = [source, target].map(|path| path.display().to_string());
    peak_stays_within(&source, &target, rows, memory, threads);
}

/// Servers may be read again: the suspects take memory as well.
fn compare_servers(rows: u64, memory: u64) {
    let (source, target) = (Postgres::fresh(), MySql::fresh());
    source.execute(&format!(
        "create table t (id text not null, amount bigint, note text);
         insert into t select md5(n::text) || '-key', n, 'row number ' || n from generate_series(1, {rows}) n"
    ));
    target.execute(&format!(
        "create table t (id varchar(40) not null, amount bigint, note text) collate utf8mb4_general_ci;
         insert into t select concat(md5(seq), '-key'), seq + 1, concat('row number ', seq) from seq_{rows}_to_1"
    ));
    let (source, target) = (format!("{}#public.t", source.url()), format!("{}#t", target.url()));
    peak_stays_within(&source, &target, rows, memory, 2);
}

#[test]
fn files_in_no_order_with_every_row_different() {
    compare_files(1_000_000, 64 * MIB, 1);
    compare_files(300_000, 16 * MIB, 4);
}

#[test]
fn servers_in_no_order_with_every_row_different() {
    compare_servers(500_000, 32 * MIB);
}

#[test]
fn five_million_rows_in_no_order_with_every_row_different() {
    if std::env::var_os("DRIFT_TEST_LONG").is_none() {
        println!("left to tests/run.sh --long");
        return;
    }
    compare_files(5_000_000, 256 * MIB, 2);
    compare_files(5_000_000, 64 * MIB, 2);
    compare_servers(5_000_000, 128 * MIB);
}
