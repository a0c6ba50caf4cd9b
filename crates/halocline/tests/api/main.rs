//! The public interface of the library crates, as a text: a change of it shows in `api.txt`.
//!
//! The text is made from the sources: what `lib.rs` of a crate exports, with its fields, variants, methods
//! and traits. `HALOCLINE_UPDATE_API=1 cargo test -p halocline --test api` writes it anew.

mod interface;
mod sources;

use std::fs;
use std::path::Path;

use sources::Sources;

/// The library crates, from the lowest to the facade.
const CRATES: [&str; 14] = [
    "media",
    "explore",
    "calibrate",
    "emulator",
    "costs",
    "pool",
    "cache",
    "columns",
    "elf",
    "ordered",
    "store",
    "joins",
    "engine",
    "halocline",
];

/// The crates that the engine consists of. What it exports of them is listed as its own.
const PARTS_OF_ENGINE: [&str; 6] = ["values", "import", "sql", "catalog", "scan", "planner"];

#[test]
fn the_public_interface_is_as_recorded() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    for name in CRATES {
        let source_of = |name: &str| here.join("..").join(name).join("src");
        let mut sources = Sources::load(&source_of(name));
        if name == "engine" {
            for part in PARTS_OF_ENGINE {
                sources = sources.with_internal(&format!("halocline_{part}"), &source_of(part));
            }
        }
        text.push_str(&format!("# {name}\n"));
        for line in interface::lines(&sources) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    let path = here.join("tests/api/api.txt");
    if std::env::var_os("HALOCLINE_UPDATE_API").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    let first = text
        .lines()
        .zip(recorded.lines())
        .find(|(now, recorded)| now != recorded);
    assert!(
        text == recorded,
        "the public interface has changed, first in {first:?} (now, recorded in {}); if that is meant, \
         write the file anew with HALOCLINE_UPDATE_API=1 and name the change in CHANGELOG.md",
        path.display()
    );
}
