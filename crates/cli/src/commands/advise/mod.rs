//! `advise`: which indexes there should be, and which placement an index should have.

mod indexes;
mod placement;

use std::fs;
use std::path::Path;

use halocline_engine::DatabaseOptions;
use halocline_terminal::CliError;

use crate::args::AdviseArgs;
use crate::opening;

pub(crate) fn advise(args: &AdviseArgs) -> Result<(), CliError> {
    let options = DatabaseOptions::default().with_read_only(true);
    let database = opening::open(&args.pool, &options)?;
    match (&args.index, args.dram, &args.queries, args.space) {
        (Some(index), Some(dram), ..) => placement::advise(&database, args, index, dram),
        (_, _, Some(queries), Some(space)) => indexes::advise(&database, args, queries, space),
        // The arguments are checked when they are parsed.
        _ => Err(CliError::with_hint(
            "there is nothing to advise on",
            "name an index and --dram, or --queries and --space",
        )),
    }
}

fn read(file: &Path) -> Result<String, CliError> {
    fs::read_to_string(file)
        .map_err(|error| CliError::failed(format!("{} cannot be read: {error}", file.display())))
}

fn no_query(file: &Path) -> CliError {
    CliError::with_hint(
        format!("there is no query in {}", file.display()),
        "write SELECT statements into it, separated by semicolons",
    )
}

/// Formats seconds with a suitable unit.
fn time(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.2} us", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        for (seconds, text) in [
            (0.0, "0"),
            (3e-7, "300 ns"),
            (1.5e-6, "1.50 us"),
            (0.25, "250.00 ms"),
            (2.0, "2.00 s"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
