//! The check of the order of the crates: a crate depends on crates below it, and nothing below `sql` depends
//! on DataFusion, which takes minutes to build.
//!
//! The order is that of the list in docs/architecture.md, lowest first. Dependencies of tests do not count.

use std::fs;
use std::path::Path;

use crate::sources::entries;

/// The lowest crate that may depend on DataFusion.
const FIRST_WITH_DATAFUSION: &str = "sql";

/// Fails if a crate is not in the list, or depends on one above it, and lists all such dependencies.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    println!("\n== layers");
    let document = read(&root.join("docs/architecture.md"))?;
    let crates = listed(&document);
    let mut found = Vec::new();
    for name in entries(&root.join("crates"))? {
        let manifest = root.join("crates").join(&name).join("Cargo.toml");
        found.extend(wrong(&name, &read(&manifest)?, &crates));
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "the order of the crates is broken; move what is shared down, or change the list in docs/architecture.md:\n{}",
            found.join("\n")
        ))
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Returns the crates that the document lists, lowest first. This crate, the tasks, is above all of them.
fn listed(document: &str) -> Vec<&str> {
    let section = document
        .split("\n## ")
        .find(|section| section.starts_with("Crates\n"));
    let items = section
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.strip_prefix("- `"));
    let names = items.flat_map(|item| {
        item.split_once("`:")
            .map_or(item, |(names, _)| names)
            .split("`, `")
    });
    names.chain(["xtask"]).collect()
}

/// Returns a sentence for each dependency of a crate that its place does not allow.
fn wrong(name: &str, manifest: &str, crates: &[&str]) -> Vec<String> {
    let height = |name: &str| crates.iter().position(|other| *other == name);
    let Some(own) = height(name) else {
        return vec![format!("{name} has no place in the list")];
    };
    let mut found = Vec::new();
    for dependency in dependencies(manifest) {
        let other = match dependency.strip_prefix("halocline") {
            Some("") => "halocline",
            Some(rest) => rest.trim_start_matches('-'),
            None => {
                let too_low = height(FIRST_WITH_DATAFUSION).is_some_and(|first| own < first);
                if too_low && dependency.starts_with("datafusion") {
                    found.push(format!(
                        "{name} depends on {dependency}, as only {FIRST_WITH_DATAFUSION} and above may"
                    ));
                }
                continue;
            }
        };
        if height(other).is_none_or(|other| other >= own) {
            found.push(format!("{name} depends on {other}, which is not below it"));
        }
    }
    found
}

/// Returns the names of the dependencies of a manifest, without those of tests.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().scan("", |section, line| {
        if line.starts_with('[') {
            *section = line;
        }
        Some((*section, line))
    });
    lines.filter_map(|(section, line)| {
        let is_name = |c: char| c == '-' || c == '_' || c.is_ascii_alphanumeric();
        let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
        let in_list = matches!(section, "[dependencies]" | "[build-dependencies]");
        (in_list && end > 0).then_some(&line[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_on_what_is_above_are_found() {
        let document = "# A\n\n## Crates\n\nText.\n\n- `columns`: Tables.\n- `values`, `import`: Values; files.\n\
                        - `sql`: Statements.\n- `engine`, `catalog`: All else.\n\n## B\n\n- `other`: No crate.\n";
        let crates = listed(document);
        assert_eq!(
            crates,
            ["columns", "values", "import", "sql", "engine", "catalog", "xtask"]
        );
        let manifest = "[package]\nname = \"halocline-import\"\n[dependencies]\nhalocline-columns.workspace = true\n\
                        datafusion.workspace = true\nhalocline-sql = { workspace = true }\n\n[dev-dependencies]\n\
                        halocline-engine.workspace = true\n";
        let found = wrong("import", manifest, &crates);
        assert_eq!(
            found,
            [
                "import depends on datafusion, as only sql and above may",
                "import depends on sql, which is not below it"
            ]
        );
        assert!(wrong("catalog", manifest, &crates).is_empty());
        assert_eq!(wrong("other", "", &crates).len(), 1);
    }
}
