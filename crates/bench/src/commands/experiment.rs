//! Experiments: running one, listing all, and the pages of recorded runs.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use halocline_bench::{RecordingFile, Reporter, Settings, experiments, page};
use halocline_terminal::{CliError, program};

use crate::args::BenchArgs;

pub(super) fn run(args: &BenchArgs) -> Result<(), CliError> {
    if args.experiment == "list" {
        let mut out = io::stdout();
        for experiment in experiments() {
            writeln!(out, "{:16} {}", experiment.name, experiment.about)?;
            writeln!(out, "{:16} options: {}", "", experiment.options.join(", "))?;
        }
        return Ok(());
    }
    if args.experiment == "report" {
        return report(args);
    }
    let Some(experiment) = experiments()
        .iter()
        .find(|experiment| experiment.name == args.experiment)
    else {
        return Err(CliError::Usage {
            message: format!("there is no experiment `{}`", args.experiment),
            hint: "`halocline bench list` shows the experiments".to_owned(),
        });
    };
    if args.tiers.names_medium() && !experiment.options.contains(&"--medium") {
        return Err(CliError::Usage {
            message: format!(
                "`bench {}` takes no --medium and no --cache-model: it measures no time on a medium",
                experiment.name
            ),
            hint: "`halocline bench list` shows what each experiment takes".to_owned(),
        });
    }
    let settings = Settings {
        quick: args.quick,
        rows: args.rows.map(|rows| rows as usize),
        scale_factor: args.sf,
        seed: args.seed,
        threads: args.threads.map(|threads| threads as usize),
        repetitions: args.repeat.map(|repeat| repeat as usize),
        directory: args.dir.clone(),
        program: Some(program::beside("halocline")?).filter(|path| path.is_file()),
        reopen: vec![
            program::current()?.into_os_string(),
            "internal".into(),
            "reopen".into(),
        ],
        tiers: args.tiers.tiers(),
        trees: args.trees.trees(),
        ssb: args.ssb.ssb(),
        memory: args.memory,
        on: args.on.clone(),
    };
    let mut out = BufWriter::new(io::stdout());
    let mut reporter = Reporter::new(experiment.name, &mut out);
    if let Some(path) = &args.json {
        let json = RecordingFile::append_to(path).map_err(|error| unwritable(path, &error))?;
        reporter = reporter.with_json(json);
    }
    (experiment.run)(&settings, &mut reporter)?;
    reporter.finish(experiment.views, experiment.charts, args.tiers.plot.as_deref())?;
    Ok(out.flush()?)
}

/// Writes the short page of the recordings in a directory, and beside them the full pages and their figures.
fn report(args: &BenchArgs) -> Result<(), CliError> {
    let Some(directory) = &args.recordings else {
        return Err(CliError::Usage {
            message: "`bench report` needs the directory of the recordings".to_owned(),
            hint: "record runs with --json DIR/NAME.jsonl, then run `halocline bench report DIR`".to_owned(),
        });
    };
    let beside = args.out.as_deref().and_then(Path::parent);
    let link = directory.strip_prefix(beside.unwrap_or(Path::new("")));
    let page = page(directory, link.unwrap_or(directory))?;
    for (name, text) in &page.files {
        write(&directory.join(name), text)?;
    }
    match &args.out {
        Some(out) => write(out, &page.text),
        None => Ok(io::stdout().write_all(page.text.as_bytes())?),
    }
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}
