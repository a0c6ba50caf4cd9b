//! The source files of a crate, without tests: folders and files named `tests`, and files that end with
//! `_tests.rs`.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the names in a folder, in order.
pub(crate) fn entries(folder: &Path) -> Result<Vec<String>, String> {
    let cannot = |error| format!("cannot read {}: {error}", folder.display());
    let read = fs::read_dir(folder).map_err(cannot)?;
    let names = read.map(|entry| Ok(entry.map_err(cannot)?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_, String>>()?;
    names.sort();
    Ok(names)
}

/// Returns the paths and texts of the source files below a folder, in order.
pub(crate) fn sources(folder: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let mut found = Vec::new();
    for name in entries(folder)? {
        let path = folder.join(&name);
        if name == "tests" || name == "tests.rs" || name.ends_with("_tests.rs") {
            continue;
        }
        if path.is_dir() {
            found.append(&mut sources(&path)?);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            found.push((path, text));
        }
    }
    Ok(found)
}
