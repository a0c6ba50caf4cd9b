//! The documents: the commands of this program in them have options that exist, and run; the pages of results
//! are those of the recordings.

#[path = "../../../cli/tests/common/documents.rs"]
mod pages;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use halocline_bench::experiments;
use pages::{documents_outside, root};

use crate::home::Home;

/// Commands that are not run, by the experiment, and why.
const NOT_RUN: [(&str, &str); 1] = [("ssb", "takes minutes, and gigabytes of space")];

/// The directory of the recordings and of their pages, which have no scripts.
const RECORDINGS: &str = "docs/results";

/// Returns the arguments of the commands of this program in the shell scripts of a document, by line.
fn commands(document: &str) -> Vec<(usize, Vec<&str>)> {
    let (mut in_block, mut in_script) = (false, false);
    let mut commands = vec![];
    for (at, line) in document.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            in_block = !in_block;
            in_script = in_block && language.trim() == "sh";
        } else if in_script && let Some(arguments) = line.strip_prefix("halocline bench ") {
            let is_simple = !arguments.contains(['\'', '"', '\\', '$', '|', '>', '#', ';']);
            assert!(is_simple, "line {}: write words only: {line}", at + 1);
            commands.push((at + 1, arguments.split_whitespace().collect()));
        }
    }
    commands
}

#[test]
fn every_command_has_options_that_exist_and_runs() {
    let (mut found, mut not_run) = (0, BTreeSet::new());
    for name in documents_outside(RECORDINGS) {
        let home = Home::new();
        let document = fs::read_to_string(root().join(&name)).unwrap();
        for (line, arguments) in commands(&document) {
            found += 1;
            let shown = format!("{name}:{line}: {}", arguments.join(" "));
            // The parser comes to --help when it has accepted all before it.
            let run = |more: &[&str]| {
                let words = [arguments.as_slice(), more].concat();
                let output = home.command(&words).output().unwrap();
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{shown}\n{errors}");
            };
            run(&["--help"]);
            let of = arguments[0];
            if NOT_RUN.iter().any(|(experiment, _)| *experiment == of) {
                assert!(experiments().iter().any(|experiment| experiment.name == of));
                not_run.insert(of.to_owned());
            } else {
                run(&[]);
            }
        }
    }
    assert!(found >= 10, "only {found} commands were found");
    let listed: BTreeSet<String> = NOT_RUN.iter().map(|(of, _)| (*of).to_owned()).collect();
    assert_eq!(
        not_run, listed,
        "experiments that are listed as not run, and are in no document"
    );
}

#[test]
fn commands_are_found_in_scripts() {
    let document =
        "halocline bench a\n```sh\nhalocline bench b  --c\nls\n```\n```text\nhalocline bench d\n```\n";
    assert_eq!(commands(document), [(3, vec!["b", "--c"])]);
}

/// `cargo xtask report` writes the pages and their figures.
#[test]
fn the_results_are_those_recorded() {
    let home = Home::new();
    let (recordings, copy) = (root().join(RECORDINGS), home.path(RECORDINGS));
    fs::create_dir_all(&copy).unwrap();
    let names = |directory: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(directory).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    };
    let is_written = |name: &String| name.ends_with(".md") || name.ends_with(".svg");
    let (written, recorded): (BTreeSet<String>, BTreeSet<String>) =
        names(&recordings).into_iter().partition(is_written);
    assert!(recorded.len() > 20, "{recorded:?}");
    for name in &recorded {
        symlink(recordings.join(name), copy.join(name)).unwrap();
    }
    home.ok(&["report", RECORDINGS, "--out", "docs/results.md"]);
    let all = names(&copy).into_iter().filter(is_written);
    assert_eq!(all.collect::<BTreeSet<String>>(), written);
    let files = written.iter().map(|name| format!("{RECORDINGS}/{name}"));
    for file in files.chain(["docs/results.md".to_owned()]) {
        let same = fs::read(home.path(&file)).unwrap() == fs::read(root().join(&file)).unwrap();
        assert!(same, "{file}: run `cargo xtask report`");
    }
}
