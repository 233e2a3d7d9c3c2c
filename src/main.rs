//! The binary `drift`: arguments, run, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    drift::cli::run()
}
