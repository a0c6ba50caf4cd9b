//! A page of results: recorded values as Markdown tables and figures, one section for each experiment, and in
//! it one for each run.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::comparisons::COMPARISONS;
use crate::report::Measurement;
use crate::view::Grid;
use crate::{BenchError, Chart, TableView, experiments};

const HEAD: &str = "\
# Results

This page is written by `halocline bench report` from recorded runs. An experiment compares systems within one run, \
checks that their answers agree, and records each value with its whole configuration. Values on an emulated medium \
are those of a model, as the medium of their section says.
";

/// Rows from which on a table is folded.
const LONG: usize = 40;

/// Figures from publications and other programs: values whose configuration names their source instead of a
/// command.
const PUBLISHED: TableView = TableView {
    title: "published",
    metrics: &["*"],
    split: &["source"],
    rows: &["system", "question"],
    columns: "metric",
    base: None,
};

/// A page of results with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The page in Markdown.
    pub text: String,
    /// The figures that it shows: names of files without extension, and SVG text.
    pub figures: Vec<(String, String)>,
}

/// An experiment on the page.
struct Section {
    name: &'static str,
    about: &'static str,
    /// The command that records it.
    command: String,
    views: &'static [TableView],
    charts: &'static [Chart],
}

/// Returns the experiments of this program, then those of others.
fn sections() -> impl Iterator<Item = Section> {
    let own = experiments().iter().map(|experiment| Section {
        name: experiment.name,
        about: experiment.about,
        command: format!("halocline bench {} --json FILE", experiment.name),
        views: experiment.views,
        charts: experiment.charts,
    });
    let others = COMPARISONS.iter().map(|comparison| Section {
        name: comparison.name,
        about: comparison.about,
        command: comparison.command.to_owned(),
        views: comparison.views,
        charts: comparison.charts,
    });
    own.chain(others)
}

/// Returns the page of the recordings in a directory: files `*.jsonl`, written with `--json`. A file
/// `EXPERIMENT.md` beside them is the text of that experiment's section. Values with a `source` in their
/// configuration are not measured here; they get tables of their own. Figures are linked as files in the
/// directory `figures`, relative to the page.
///
/// # Errors
/// The directory or a file cannot be read; a line is not a measured value, which the error names; a figure
/// cannot be drawn.
pub fn page(directory: &Path, figures: &Path) -> Result<Page, BenchError> {
    let mut recorded = Vec::new();
    for path in recordings(directory)? {
        recorded.extend(read(&path)?);
    }
    let mut page = HEAD.to_owned();
    let mut drawn = Vec::new();
    for section in sections() {
        let name = section.name;
        let of_experiment = recorded.iter().filter(|value| value.experiment == name).cloned();
        let (published, values): (Vec<Measurement>, Vec<Measurement>) =
            of_experiment.partition(|value| value.config.contains_key("source"));
        let _ = write!(page, "\n## {name}\n\n{}.\n", sentence(section.about));
        if let Some(text) = optional(&directory.join(format!("{name}.md")))? {
            let _ = write!(page, "\n{}\n", text.trim());
        }
        for grid in PUBLISHED.grids(&published) {
            add(&grid, &mut page);
        }
        if values.is_empty() {
            let _ = write!(page, "\nNot recorded. `{}` records it.\n", section.command);
            continue;
        }
        let runs = runs(values);
        for (at, values) in runs.iter().enumerate() {
            let is_one_of_several = runs.len() > 1;
            if is_one_of_several {
                let _ = write!(page, "\n### {name}, run {}\n", at + 1);
            }
            describe(values, &mut page);
            for grid in section.views.iter().flat_map(|view| view.grids(values)) {
                add(&grid, &mut page);
            }
            for chart in section.charts {
                for (mut figure, svg) in chart.figures(name, values)? {
                    if is_one_of_several {
                        let _ = write!(figure, "-run-{}", at + 1);
                    }
                    let path = figures.join(format!("{figure}.svg"));
                    let _ = write!(page, "\n![{}]({})\n", sentence(chart.title), path.display());
                    drawn.push((figure, svg));
                }
            }
        }
    }
    Ok(Page {
        text: page,
        figures: drawn,
    })
}

/// Returns the values of each command by themselves: what different runs measured is not to be compared.
fn runs(values: Vec<Measurement>) -> Vec<Vec<Measurement>> {
    let mut runs: Vec<Vec<Measurement>> = Vec::new();
    for value in values {
        let same = |run: &&mut Vec<Measurement>| run[0].config.get("command") == value.config.get("command");
        match runs.iter_mut().find(same) {
            Some(run) => run.push(value),
            None => runs.push(vec![value]),
        }
    }
    runs
}

/// Appends a table; a long one is folded.
fn add(grid: &Grid, page: &mut String) {
    let (title, table) = (sentence(&grid.title), grid.to_markdown());
    let _ = match grid.len() > LONG {
        true => write!(
            page,
            "\n<details><summary>{title} ({} rows)</summary>\n\n{table}\n\n</details>\n",
            grid.len()
        ),
        false => write!(page, "\n{title}:\n\n{table}\n"),
    };
}

/// Appends where, when and how the values were measured.
fn describe(values: &[Measurement], page: &mut String) {
    for (name, of) in [
        ("Machine", "cpu"),
        ("CPUs", "cpus"),
        ("Date", "date"),
        ("Command", "command"),
        ("Medium", "medium"),
    ] {
        let _ = write!(page, "\n- {name}: {}", all_of(values, of));
    }
    page.push('\n');
}

fn recordings(directory: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let failed =
        |error: io::Error| BenchError::Setup(format!("cannot read {}: {error}", directory.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<Vec<Measurement>, BenchError> {
    let text = fs::read_to_string(path)
        .map_err(|error| BenchError::Setup(format!("cannot read {}: {error}", path.display())))?;
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let place = format!("{}, line {}", path.display(), number + 1);
            BenchError::Setup(format!(
                "{place} is not a measured value as --json writes it: {error}"
            ))
        })
    };
    text.lines().enumerate().map(line).collect()
}

fn optional(path: &Path) -> Result<Option<String>, BenchError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BenchError::Setup(format!(
            "cannot read {}: {error}",
            path.display()
        ))),
    }
}

/// Returns the different values of a name in the configurations.
fn all_of(values: &[Measurement], name: &str) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let found: BTreeSet<String> = values
        .iter()
        .filter_map(|value| value.config.get(name))
        .map(text)
        .collect();
    let quoted = found.into_iter().map(|text| match name {
        "command" => format!("`{text}`"),
        _ => text,
    });
    quoted.collect::<Vec<_>>().join("; ")
}

/// Returns the text with its first letter in upper case.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"experiment":"open","system":"halocline","config":{"cpu":"some","cpus":2,"command":"halocline bench open","pool_bytes":1000,"cache":"warm"},"metric":"open","value":1.5,"unit":"ms"}"#;

    #[test]
    fn recorded_values_become_sections() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.jsonl"), format!("{LINE}\n")).unwrap();
        fs::write(directory.path().join("open.md"), "It is quick.\n").unwrap();
        let page = page(directory.path(), Path::new("figures")).unwrap().text;
        for text in [
            "## open\n",
            "\nIt is quick.\n",
            "- Command: `halocline bench open`\n",
            "| 1000       | warm  | 1.50 ms |",
            "## verify\n",
            "Not recorded. `halocline bench verify --json FILE` records it.",
            "## tpch\n",
            "Not recorded. `python3 bench/peers/queries.py tpch DIR/sf3 --json FILE` records it.",
        ] {
            assert!(page.contains(text), "`{text}` is not in\n{page}");
        }
    }

    #[test]
    fn runs_are_not_mixed() {
        let directory = tempfile::tempdir().unwrap();
        let other = LINE
            .replace("bench open", "bench open --repeat 9")
            .replace("1.5", "2.5");
        fs::write(directory.path().join("a.jsonl"), format!("{LINE}\n{other}\n")).unwrap();
        let page = page(directory.path(), Path::new("")).unwrap().text;
        let (first, second) = page.split_once("### open, run 2").expect("two runs");
        assert!(first.contains("### open, run 1") && first.contains("1.50 ms") && !first.contains("2.50 ms"));
        assert!(second.contains("`halocline bench open --repeat 9`") && second.contains("2.50 ms"));
    }

    #[test]
    fn published_figures_are_apart_from_runs() {
        let directory = tempfile::tempdir().unwrap();
        let published = LINE
            .replace(
                r#""cpu":"some","cpus":2,"command":"halocline bench open""#,
                r#""source":"a paper""#,
            )
            .replace("halocline", "another system");
        fs::write(directory.path().join("a.jsonl"), format!("{published}\n{LINE}\n")).unwrap();
        let page = page(directory.path(), Path::new("")).unwrap().text;
        let (before, run) = page
            .split_once("- Command: `halocline bench open`")
            .expect("one run");
        assert!(before.contains("Published (source a paper):"), "{page}");
        assert!(
            before.contains("another system") && !run.contains("another system"),
            "{page}"
        );
        assert!(!page.contains("### open, run 1"), "{page}");
    }

    #[test]
    fn a_wrong_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.jsonl"), format!("{LINE}\n{{}}\n")).unwrap();
        let error = page(directory.path(), Path::new("")).unwrap_err().to_string();
        assert!(
            error.contains("a.jsonl, line 2 is not a measured value"),
            "{error}"
        );
        assert!(page(&directory.path().join("missing"), Path::new("")).is_err());
    }
}
