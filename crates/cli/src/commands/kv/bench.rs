//! `kv bench`: `halocline-bench kv`, which has the same options.

use std::env;
use std::ffi::OsString;

use halocline_terminal::CliError;

use crate::args::ExternalArgs;
use crate::external;

/// Runs the program with the command line of this one. Returns only if it cannot be run.
pub(super) fn run(bench: &ExternalArgs) -> CliError {
    let words = env::args_os().skip(1).collect();
    external::run("bench", without_bench(words, bench.arguments.len()))
}

/// Removes the word `bench` from a command line of which `behind` words follow it and options of `kv`.
fn without_bench(mut words: Vec<OsString>, behind: usize) -> Vec<OsString> {
    let until = words.len().saturating_sub(behind);
    if let Some(at) = words[..until].iter().rposition(|word| word == "bench") {
        words.remove(at);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_on_both_sides_are_kept() {
        let check = |line: &str, behind: usize, expected: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            let expected: Vec<_> = expected.split(' ').map(OsString::from).collect();
            assert_eq!(without_bench(words, behind), expected);
        };
        check("kv p bench", 0, "kv p");
        check("kv bench bench --seed 7", 2, "kv bench --seed 7");
        check(
            "kv p --strict bench --medium emulated:cxl --workloads bench",
            2,
            "kv p --strict --medium emulated:cxl --workloads bench",
        );
    }
}
