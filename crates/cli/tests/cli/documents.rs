//! The documents: links resolve, the commands and statements in them run, the book has all of its pages.

#[path = "../common/documents.rs"]
mod pages;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::process::Command;

use pages::{documents_outside, root};

use crate::common::Home;

/// Pools on which the SQL blocks of a document run; of all others `example.pool`, which is new.
const POOLS: [(&str, &str); 4] = [
    ("docs/indexes.md", "shop.pool"),
    ("docs/loading.md", "shop.pool"),
    ("docs/operations.md", "shop.pool"),
    ("docs/star-queries.md", "ssb.pool"),
];

/// Commands that are not run, by how they begin, and why.
const SKIPPED: [(&str, &str); 4] = [
    (
        "cargo ",
        "builds and tests the workspace, which is what is running",
    ),
    ("export PATH=", "the test puts the program on the path"),
    (
        "halocline bench ",
        "is a program of its own: a test of crates/bench checks and runs them",
    ),
    (
        "python3 bench/peers/",
        "downloads other database systems, and needs gigabytes of data",
    ),
];

/// The directory of the pages that `docs/results.md` links to. They are not in the book.
const RESULTS: &str = "docs/results/";

/// The directory of texts that are parts of these pages.
const NOTES: &str = "docs/results/notes";

/// The languages that fenced blocks may have: others would escape the test.
const LANGUAGES: [&str; 5] = ["sh", "sql", "rust", "text", "json"];

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A fenced block of a document.
struct Block {
    language: String,
    line: usize,
    text: String,
}

/// Splits a document into its fenced blocks and the text outside of them, in which blocks are empty lines.
fn split(document: &str) -> (Vec<Block>, String) {
    let (mut blocks, mut prose) = (Vec::<Block>::new(), String::new());
    let mut inside = false;
    for (at, line) in document.lines().enumerate() {
        match (line.strip_prefix("```"), inside) {
            (Some(language), false) => {
                blocks.push(Block {
                    language: language.trim().to_owned(),
                    line: at + 1,
                    text: String::new(),
                });
                inside = true;
            }
            (Some(_), true) => inside = false,
            (None, true) => writeln!(blocks.last_mut().unwrap().text, "{line}").unwrap(),
            (None, false) => prose.push_str(line),
        }
        prose.push('\n');
    }
    assert!(!inside, "a block is not closed");
    (blocks, prose)
}

/// Splits a script into its commands: at the ends of lines that are not within quotes or a here-document.
fn commands(script: &str) -> Vec<String> {
    let (mut commands, mut command) = (Vec::new(), String::new());
    let (mut quote, mut until) = (None, None);
    for line in script.lines() {
        command.push_str(line);
        command.push('\n');
        if until.as_deref() == Some(line) {
            until = None;
        }
        if until.is_none() && !command.contains("<<'") {
            let mut before = ' ';
            for c in line.chars() {
                match (quote, c) {
                    (None, '\'' | '"') => quote = Some(c),
                    (None, '#') if before == ' ' => break,
                    (Some(open), _) if open == c => quote = None,
                    _ => {}
                }
                before = c;
            }
        } else if until.is_none()
            && let Some((_, word)) = line.split_once("<<'")
        {
            until = word.split('\'').next().map(str::to_owned);
        }
        if quote.is_none() && until.is_none() && !line.ends_with('\\') {
            let whole = std::mem::take(&mut command);
            if !whole.trim().is_empty() {
                commands.push(whole.trim().to_owned());
            }
        }
    }
    assert!(command.is_empty(), "a command does not end: {command}");
    commands
}

/// Runs a shell command in a directory; its error output if it fails.
fn run(home: &Home, command: &str) -> Result<(), String> {
    let program = assert_cmd::cargo::cargo_bin("halocline");
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-euc", command])
        .current_dir(home.directory())
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .env("XDG_STATE_HOME", home.path("state"))
        .env("TMPDIR", home.directory())
        .env_remove("HALOCLINE_LOG")
        .output()
        .unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Runs the blocks of a document in order, in a directory of its own; adds failures and the skipped commands
/// that it met.
fn run_document(name: &str, failures: &mut String, skipped: &mut BTreeSet<&str>) {
    let home = Home::new();
    let pool = POOLS.iter().find(|(document, _)| *document == name);
    let pool = pool.map_or("example.pool", |(_, pool)| pool);
    for block in split(&read(name)).0 {
        assert!(
            LANGUAGES.contains(&block.language.as_str()),
            "{name}:{}: the language of the block is not one of {LANGUAGES:?}",
            block.line
        );
        let commands = match block.language.as_str() {
            "sh" => commands(&block.text),
            "sql" => {
                home.write("block.sql", &block.text);
                vec![format!("halocline sql {pool} --create -f block.sql")]
            }
            // The only JSON there is describes an emulated device.
            "json" => {
                home.write("profile.json", &block.text);
                let medium = "--medium emulated:profile.json:virtual";
                vec![format!("halocline sql profile.pool --create 'SELECT 1' {medium}")]
            }
            _ => Vec::new(),
        };
        for command in commands {
            if let Some((start, _)) = SKIPPED.iter().find(|(start, _)| command.starts_with(start)) {
                skipped.insert(start);
            } else if let Err(error) = run(&home, &command) {
                writeln!(failures, "{name}:{}: {command}\n{error}", block.line).unwrap();
            }
        }
    }
}

#[test]
fn every_command_and_statement_runs() {
    let (mut failures, mut skipped) = (String::new(), BTreeSet::new());
    for name in documents_outside(NOTES) {
        run_document(&name, &mut failures, &mut skipped);
    }
    assert!(failures.is_empty(), "{failures}");
    let listed: BTreeSet<&str> = SKIPPED.iter().map(|(start, _)| *start).collect();
    assert_eq!(
        skipped, listed,
        "commands that are listed as skipped, and are in no document"
    );
}

#[test]
fn commands_end_with_their_lines() {
    let script = "a 'b\nc' # don't\nd \\\n  e\ncat > f <<'END'\n'\nEND\nf\n";
    assert_eq!(
        commands(script),
        ["a 'b\nc' # don't", "d \\\n  e", "cat > f <<'END'\n'\nEND", "f"]
    );
}

/// Returns the fragment by which a heading is linked.
fn fragment(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn fragments(document: &str) -> BTreeSet<String> {
    let prose = split(document).1;
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| fragment(line.trim_start_matches('#')))
        .collect()
}

/// Returns the targets of the links of a document.
fn links(document: &str) -> Vec<String> {
    let prose = split(document).1;
    // Inline code has no links; every second part between backticks is code.
    let text: String = prose
        .lines()
        .flat_map(|line| line.split('`').step_by(2).chain(["\n"]))
        .collect();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(str::to_owned).collect()
}

#[test]
fn links_between_documents_resolve() {
    let mut broken = String::new();
    let mut count = 0;
    for name in documents_outside(NOTES) {
        let document = read(&name);
        for target in links(&document) {
            if target.starts_with("https://") {
                continue;
            }
            count += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => root().join(&name),
                file => root().join(&name).parent().unwrap().join(file),
            };
            let found = match fs::read_to_string(&path) {
                Ok(text) => anchor.is_empty() || fragments(&text).contains(anchor),
                Err(_) => false,
            };
            if !found {
                writeln!(broken, "{name}: {target}").unwrap();
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{broken}");
    assert!(count > 50, "only {count} links were found");
}

#[test]
fn the_summary_has_every_page() {
    let linked: BTreeSet<String> = links(&read("docs/SUMMARY.md"))
        .into_iter()
        .map(|target| format!("docs/{target}"))
        .collect();
    let pages: BTreeSet<String> = documents_outside(NOTES)
        .into_iter()
        .filter(|name| name.starts_with("docs/") && !name.starts_with(RESULTS) && name != "docs/SUMMARY.md")
        .collect();
    assert_eq!(linked, pages);
}

#[test]
fn the_contents_of_the_format_have_every_section() {
    let linked: BTreeSet<String> = links(&read("docs/format.md")).into_iter().collect();
    let (mut missing, mut pages) = (String::new(), 0);
    for name in documents_outside(NOTES) {
        let Some(page) = name
            .strip_prefix("docs/")
            .filter(|page| page.starts_with("format/"))
        else {
            continue;
        };
        pages += 1;
        for line in split(&read(&name)).1.lines().filter(|line| line.starts_with('#')) {
            let target = if line.starts_with("# ") {
                page.to_owned()
            } else {
                format!("{page}#{}", fragment(line.trim_start_matches('#')))
            };
            if !linked.contains(&target) {
                writeln!(missing, "{target}").unwrap();
            }
        }
    }
    assert!(missing.is_empty(), "not linked by docs/format.md:\n{missing}");
    assert!(pages > 1, "only {pages} pages were found");
}

#[test]
fn the_architecture_is_short() {
    let words = read("docs/architecture.md").split_whitespace().count();
    assert!(words <= 2000, "{words} words; move details to module headers");
}

#[test]
fn the_glossary_has_each_term_once_in_order() {
    let text = read("docs/glossary.md");
    let terms: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| term "))
        .map(|line| {
            fragment(
                line.trim_start_matches("| ")
                    .split([',', '(', '|'])
                    .next()
                    .unwrap(),
            )
        })
        .collect();
    assert!(terms.len() > 80, "only {} terms were found", terms.len());
    assert!(terms.is_sorted(), "the terms are not in alphabetical order");
    let full: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .collect();
    assert_eq!(
        full.iter().collect::<BTreeSet<_>>().len(),
        full.len(),
        "a term stands twice"
    );
}
