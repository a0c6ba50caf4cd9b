//! The check of the variables of tests and benchmarks: CONTRIBUTING.md lists those that are read, and no
//! others.
//!
//! A source reads a variable where it passes its name, in quotes, to a function. What it passes to `env` or
//! `env_remove` is for a process that it starts, and so is a name that is only a constant. Variables that the
//! programs read are in docs/settings.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::sources::entries;

/// What the names of all variables begin with.
const PREFIX: &str = "HALOCLINE_";

/// Calls after which a name in quotes is not read, as the end of the text before it.
const NOT_READ: [&str; 3] = [".env(", ".env_remove(", "Some("];

/// Fails if a variable that the sources below `crates` read is in no list, or CONTRIBUTING.md lists one that
/// is not read, and names all of them.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    println!("\n== variables");
    let mut read = BTreeSet::new();
    add_read(&root.join("crates"), &mut read)?;
    let of_tests = listed(&text_of(&root.join("CONTRIBUTING.md"))?);
    let of_programs = listed(&text_of(&root.join("docs/settings.md"))?);
    let mut errors = Vec::new();
    for name in &read {
        if !of_tests.contains(name) && !of_programs.contains(name) {
            errors.push(format!("{name} is read, and not in the list of CONTRIBUTING.md"));
        }
    }
    for name in of_tests.difference(&read) {
        errors.push(format!("{name} is in the list of CONTRIBUTING.md, and not read"));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Adds the variables that the sources below a folder read, tests and benchmarks included.
fn add_read(folder: &Path, read: &mut BTreeSet<String>) -> Result<(), String> {
    for name in entries(folder)? {
        let path = folder.join(&name);
        if name == "target" {
            continue;
        }
        if path.is_dir() {
            add_read(&path, read)?;
        } else if name.ends_with(".rs") {
            read.extend(names_read(&text_of(&path)?));
        }
    }
    Ok(())
}

/// Returns the names of variables that a source passes to functions that read them.
fn names_read(source: &str) -> impl Iterator<Item = String> {
    let quoted = format!("\"{PREFIX}");
    let places: Vec<usize> = source.match_indices(&quoted).map(|(at, _)| at).collect();
    places.into_iter().filter_map(move |at| {
        let before = source[..at].trim_end();
        let is_read = before.ends_with('(') && !NOT_READ.iter().any(|call| before.ends_with(*call));
        let (name, _) = source[at + 1..].split_once('"')?;
        (is_read && is_name(name)).then(|| name.to_owned())
    })
}

fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    let is_part = |letter: u8| letter == b'_' || letter.is_ascii_uppercase() || letter.is_ascii_digit();
    !rest.is_empty() && rest.bytes().all(is_part)
}

/// Returns the variables in the first column of the tables of a document.
fn listed(document: &str) -> BTreeSet<String> {
    let cells = document
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let words = cells.flat_map(|cell| cell.split('`'));
    words.filter(|word| is_name(word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_passed_to_functions_are_read() {
        let source = "
            const POOL: &str = \"HALOCLINE_POOL\";
            let seed = std::env::var(\"HALOCLINE_SEED\");
            let rounds = number(
                \"HALOCLINE_ROUNDS\",
                7,
            );
            command.env(\"HALOCLINE_TREE\", kind).env_remove(\"HALOCLINE_LOG\");
            println!(\"HALOCLINE_SEED={seed}\");
            guard(Some(\"HALOCLINE_H\"));
        ";
        let found: Vec<_> = names_read(source).collect();
        assert_eq!(found, ["HALOCLINE_SEED", "HALOCLINE_ROUNDS"]);
    }

    #[test]
    fn names_in_the_first_column_are_listed() {
        let document = "`HALOCLINE_TEXT`\n\n| variable | meaning |\n|---|---|\n\
                        | `HALOCLINE_A`, `HALOCLINE_B2` | as `HALOCLINE_C` |\n";
        let found: Vec<_> = listed(document).into_iter().collect();
        assert_eq!(found, ["HALOCLINE_A", "HALOCLINE_B2"]);
    }
}
