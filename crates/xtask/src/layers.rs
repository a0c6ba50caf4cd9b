//! The check of the order of the crates: a crate depends on crates below it, and nothing below `sql` depends on
//! DataFusion, which takes minutes to build.
//!
//! Dependencies of tests do not count.

use std::fs;
use std::path::Path;

use crate::sources::entries;

/// The crates, lowest first, as in docs/architecture.md.
const CRATES: [&str; 27] = [
    "faults",
    "media",
    "emulator",
    "pool",
    "cache",
    "columns",
    "elf",
    "ordered",
    "store",
    "keyed",
    "joins",
    "workloads",
    "values",
    "import",
    "sql",
    "catalog",
    "scan",
    "planner",
    "engine",
    "memcached",
    "capi",
    "halocline",
    "measure",
    "terminal",
    "bench",
    "cli",
    "xtask",
];

/// The lowest crate that may depend on DataFusion.
const FIRST_WITH_DATAFUSION: &str = "sql";

/// Fails if a crate is not in the list, or depends on one above it, and lists all such dependencies.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    println!("\n== layers");
    let mut found = Vec::new();
    for name in entries(&root.join("crates"))? {
        let manifest = root.join("crates").join(&name).join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .map_err(|error| format!("cannot read {}: {error}", manifest.display()))?;
        found.extend(wrong(&name, &text));
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the order of the crates is broken; move what is shared down, or change the list in xtask/src/layers.rs:\n{}",
            found.join("\n")
        )),
    }
}

/// Returns a sentence for each dependency of a crate that its place does not allow.
fn wrong(name: &str, manifest: &str) -> Vec<String> {
    let height = |name: &str| CRATES.iter().position(|other| *other == name);
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
        let manifest = "[package]\nname = \"halocline-import\"\n[dependencies]\nhalocline-columns.workspace = true\n\
                        datafusion.workspace = true\nhalocline-sql = { workspace = true }\n\n[dev-dependencies]\n\
                        halocline-engine.workspace = true\n";
        let found = wrong("import", manifest);
        assert_eq!(
            found,
            [
                "import depends on datafusion, as only sql and above may",
                "import depends on sql, which is not below it"
            ]
        );
        assert!(wrong("catalog", manifest).is_empty());
        assert_eq!(wrong("other", "").len(), 1);
    }
}
