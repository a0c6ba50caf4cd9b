//! The files of records: where they are, and which of them are run.

use std::path::{Path, PathBuf};

const SPILLING: &str =
    "queries with little memory: the memory that they need depends on the operators and their order";

/// Beginnings of the paths of files that are not run, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "spark/",
        "functions of Spark, which DataFusion has in another crate",
    ),
    ("array/", "lists, which tables do not store"),
    ("aggregate_memory_spill", SPILLING),
    ("nested_loop_join_spill", SPILLING),
    ("ordered_aggregate_spill", SPILLING),
    ("sort_merge_join_spill", SPILLING),
];

/// Returns the directory of the files; `None` if the environment names none.
///
/// # Panics
/// There are no files in the directory that it names.
pub(super) fn directory() -> Option<PathBuf> {
    let crate_sources = PathBuf::from(std::env::var_os("HALOCLINE_SLT").filter(|value| !value.is_empty())?);
    let files = crate_sources.join("test_files");
    assert!(
        files.join("select.slt").is_file(),
        "HALOCLINE_SLT is {}, which are not the sources of datafusion-sqllogictest",
        crate_sources.display()
    );
    Some(files)
}

/// Returns the beginnings of the paths of files to run, if not all of them are.
pub(super) fn selection() -> Option<Vec<String>> {
    let names = std::env::var("HALOCLINE_SLT_FILES").ok()?;
    Some(names.split(',').map(str::to_owned).collect())
}

/// Returns the paths of the files to run, relative to the directory, and the numbers of the others by reason.
pub(super) fn files(
    directory: &Path,
    selection: &Option<Vec<String>>,
) -> (Vec<String>, Vec<(&'static str, usize)>) {
    let mut found = Vec::new();
    find(directory, directory, &mut found);
    found.sort();
    if let Some(names) = selection {
        found.retain(|file| names.iter().any(|name| file.starts_with(name)));
        return (found, Vec::new());
    }
    let mut left_out: Vec<(&'static str, usize)> = Vec::new();
    found.retain(|file| {
        let Some((_, reason)) = LEFT_OUT.iter().find(|(name, _)| file.starts_with(name)) else {
            return true;
        };
        match left_out.iter_mut().find(|(other, _)| other == reason) {
            Some((_, number)) => *number += 1,
            None => left_out.push((reason, 1)),
        }
        false
    });
    (found, left_out)
}

fn find(directory: &Path, root: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, root, found);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            let relative = path.strip_prefix(root).unwrap();
            found.push(relative.to_str().unwrap().to_owned());
        }
    }
}
