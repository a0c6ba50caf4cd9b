//! Step 4: a restart. The pool is opened in a process that knows nothing of it.

use std::io::{Stdout, Write};
use std::path::Path;

use halocline_measure::reopen;
use halocline_terminal::size::display;
use halocline_terminal::{CliError, program};

use super::selections::{MeasuredSelection, query};
use super::selectivity;

/// Opens the pool in a new process, asks it one of the measured selections, and prints what both took.
///
/// # Errors
/// The process fails, or its answer is not that of before.
pub(crate) fn run(pool: &Path, selection: &MeasuredSelection, out: &mut Stdout) -> Result<(), CliError> {
    let command = [
        program::current()?.into_os_string(),
        "internal".into(),
        "reopen".into(),
    ];
    let text = query(&selection.selection.condition());
    let reopened = reopen::measure_in_process(&command, pool, &text, None)
        .map_err(|error| CliError::failed(error.to_string()))?;
    if reopened.answer != selection.answer {
        return Err(CliError::failed(format!(
            "after the restart, `{text}` has another answer: {:?} instead of {:?}",
            reopened.answer, selection.answer
        )));
    }
    writeln!(
        out,
        "\n4. Restart, in a new process: opened in {:.1} ms;\n   the selection of {} took {:.1} ms, once more \
         {:.1} ms, with the answer of before;\n   the process holds {} of DRAM of its own",
        reopened.open_ms,
        selectivity(selection.share),
        reopened.first_query_ms,
        reopened.second_query_ms,
        display(reopened.dram_bytes)
    )?;
    Ok(())
}
