//! The documents of the repository, for the tests of several crates.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub(super) fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates.parent().unwrap().to_owned()
}

/// Returns the names of all documents, relative to the root of the repository, but for those in a directory.
pub(super) fn documents_outside(directory: &str) -> Vec<String> {
    let mut names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(str::to_owned)
        .to_vec();
    add_pages("docs", directory, &mut names);
    names.sort();
    names
}

/// Adds the names of the pages in a directory and those below it.
fn add_pages(directory: &str, left_out: &str, names: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(directory)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{directory}/{}", entry.file_name().into_string().unwrap());
        if !entry.file_type().unwrap().is_dir() {
            names.extend(name.ends_with(".md").then_some(name));
        } else if name != left_out {
            add_pages(&name, left_out, names);
        }
    }
}
