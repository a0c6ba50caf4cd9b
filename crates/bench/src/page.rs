//! Pages of results: recorded values as Markdown tables and figures. Each experiment has a full page, with a
//! section for each run, and a section of the short page, with its main tables.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use comfy_table::presets;

use crate::comparisons::{Section, comparisons};
use crate::report::Measurement;
use crate::view::{Grid, field, grouped};
use crate::{BenchError, TableView, experiments, recording};

const HEAD: &str = "\
# Results

This page is written by `halocline bench report` from recorded runs. An experiment compares systems within one run, \
checks that their answers agree, and records each value with its whole configuration. Values on an emulated medium \
are those of a model, as the medium of their section says. `cargo build --release -p halocline-bench` builds \
`halocline bench`.

This page has the main tables of the latest runs, and of tables by query the geometric mean. The full page of an \
experiment has all of its runs, tables, figures and notes; the recorded values lie beside it.
";

/// The rows of the longest table that is not folded. Longer ones are not on the short page.
const MAX_ROWS: usize = 30;

/// The tables of an experiment on the short page: one of each of its latest runs, or all of its only run.
const MAIN_TABLES: usize = 2;

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

/// The pages of results with their figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The short page, in Markdown.
    pub text: String,
    /// The other files, by name: the full page of each experiment, in Markdown, and the figures that it
    /// shows.
    pub files: Vec<(String, String)>,
}

impl Section {
    fn grids(&self, values: &[Measurement]) -> impl Iterator<Item = Grid> {
        self.views.iter().flat_map(move |view| view.grids(values))
    }
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
    own.chain(comparisons())
}

/// Returns the pages of the recordings in a directory: files `*.jsonl` and `*.jsonl.zst`, written with
/// `--json`. A file `notes/EXPERIMENT.md` below them is text on that experiment's page. Values with a
/// `source` in their configuration are not measured here; they get tables of their own. The short page links
/// to the others as files in the directory `link`.
///
/// # Errors
/// The directory or a file cannot be read; a line is not a measured value, which the error names; a figure
/// cannot be drawn.
pub fn page(directory: &Path, link: &Path) -> Result<Page, BenchError> {
    let recorded = recording::read_all(directory)?;
    let mut page = HEAD.to_owned();
    let mut files = Vec::new();
    for section in sections() {
        let name = section.name;
        let of_experiment = recorded.iter().filter(|value| value.experiment == name).cloned();
        let (published, values): (Vec<Measurement>, Vec<Measurement>) =
            of_experiment.partition(|value| value.config.contains_key("source"));
        let mut full = format!("# {name}\n\n{}.\n", sentence(section.about));
        let _ = write!(page, "\n#{full}");
        if let Some(notes) = optional(&directory.join(format!("notes/{name}.md")))? {
            let _ = write!(full, "\n{}\n", notes.trim());
        }
        for grid in PUBLISHED.grids(&published) {
            add(&grid, &mut full);
        }
        if values.is_empty() {
            let missing = format!("\nNot recorded. `{}` records it.\n", section.command);
            page.push_str(&missing);
            full.push_str(&missing);
        }
        // What different commands measured is not to be compared.
        let runs = grouped(values.into_iter(), |value| field(value, "command"));
        let is_one_of_several = runs.len() > 1;
        for ((_, values), run) in runs.iter().zip(1..) {
            if is_one_of_several {
                let _ = write!(full, "\n## Run {run}\n");
            }
            let _ = write!(full, "\n- {}\n", description(values).join("\n- "));
            for grid in section.grids(values) {
                add(&grid, &mut full);
            }
            for chart in section.charts {
                for (mut figure, svg) in chart.figures(name, values)? {
                    if is_one_of_several {
                        let _ = write!(figure, "-run-{run}");
                    }
                    figure.push_str(".svg");
                    let _ = write!(full, "\n![{}]({figure})\n", sentence(chart.title));
                    files.push((figure, svg));
                }
            }
        }
        let latest = &runs[runs.len().saturating_sub(MAIN_TABLES)..];
        for (_, values) in latest {
            let _ = write!(page, "\n{}\n", description(values).join(" · "));
            let short = section.grids(values).map(Grid::summary);
            let short = short.filter(|grid| grid.rows.len() <= MAX_ROWS);
            for grid in short.take(MAIN_TABLES / latest.len()) {
                add(&grid, &mut page);
            }
        }
        let file = format!("{name}.md");
        let _ = write!(page, "\n[Full page]({})\n", link.join(&file).display());
        files.push((file, full));
    }
    Ok(Page { text: page, files })
}

/// Appends a table; a long one is folded.
fn add(grid: &Grid, page: &mut String) {
    let (title, rows) = (sentence(&grid.title), grid.rows.len());
    let table = grid.to_text(presets::ASCII_MARKDOWN);
    let _ = if rows > MAX_ROWS {
        write!(
            page,
            "\n<details><summary>{title} ({rows} rows)</summary>\n\n{table}\n\n</details>\n"
        )
    } else {
        write!(page, "\n{title}:\n\n{table}\n")
    };
}

/// Returns where, when and how the values were measured.
fn description(values: &[Measurement]) -> Vec<String> {
    let lines = [
        ("Machine", "cpu", ""),
        ("CPUs", "cpus", ""),
        ("Date", "date", ""),
        ("Command", "command", "`"),
        ("Medium", "medium", ""),
    ];
    let line = |(label, name, quote): (&str, &str, &str)| {
        let found: BTreeSet<String> = values.iter().map(|value| field(value, name)).collect();
        let found = found.iter().filter(|text| !text.is_empty());
        let quoted: Vec<String> = found.map(|text| format!("{quote}{text}{quote}")).collect();
        (!quoted.is_empty()).then(|| format!("{label}: {}", quoted.join("; ")))
    };
    lines.into_iter().filter_map(line).collect()
}

/// Returns the text of a file, if there is one.
fn optional(path: &Path) -> Result<Option<String>, BenchError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(recording::unreadable(path, &error)),
    }
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

    /// Returns the pages of lines, and the full page of `open` among them.
    fn pages(lines: &str) -> (String, String) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.jsonl"), lines).unwrap();
        fs::create_dir(directory.path().join("notes")).unwrap();
        fs::write(directory.path().join("notes/open.md"), "It is quick.\n").unwrap();
        let page = page(directory.path(), Path::new("all")).unwrap();
        let open = page.files.into_iter().find(|(name, _)| name == "open.md");
        (page.text, open.unwrap().1)
    }

    #[test]
    fn recorded_values_become_pages() {
        let (short, full) = pages(LINE);
        let table = "| 1000       | warm  | 1.50 ms |";
        for text in [
            "## open\n",
            "Machine: some · CPUs: 2 · Command: `halocline bench open`\n",
            table,
            "[Full page](all/open.md)\n",
            "## verify\n",
            "Not recorded. `halocline bench verify --json FILE` records it.",
            "## tpch\n",
            "Not recorded. `python3 bench/peers/queries.py tpch DIR/sf3 --json FILE` records it.",
        ] {
            assert!(short.contains(text), "`{text}` is not in\n{short}");
        }
        let command = "\n- Command: `halocline bench open`\n";
        for text in ["# open\n", "\nIt is quick.\n", command, table] {
            assert!(full.contains(text), "`{text}` is not in\n{full}");
        }
    }

    #[test]
    fn runs_are_not_mixed_and_the_latest_are_on_the_short_page() {
        let run = |value: &str| {
            let command = format!("bench open --repeat {value}");
            LINE.replace("bench open", &command).replace("1.5", value)
        };
        let (short, full) = pages(&[run("1.5"), run("2.5"), run("3.5")].join("\n"));
        let (first, later) = full.split_once("## Run 2").expect("three runs");
        assert!(first.contains("## Run 1") && first.contains("1.50 ms") && !first.contains("2.50 ms"));
        assert!(later.contains("`halocline bench open --repeat 2.5`") && later.contains("2.50 ms"));
        assert!(!short.contains("1.50 ms") && short.contains("2.50 ms") && short.contains("3.50 ms"));
    }

    #[test]
    fn published_figures_are_apart_from_runs() {
        let published = LINE
            .replace(
                r#""cpu":"some","cpus":2,"command":"halocline bench open""#,
                r#""source":"a paper""#,
            )
            .replace("halocline", "another system");
        let (_, page) = pages(&format!("{published}\n{LINE}\n"));
        let (before, run) = page
            .split_once("- Command: `halocline bench open`")
            .expect("one run");
        assert!(before.contains("Published (source a paper):"), "{page}");
        assert!(
            before.contains("another system") && !run.contains("another system"),
            "{page}"
        );
        assert!(!page.contains("## Run 1"), "{page}");
    }
}
