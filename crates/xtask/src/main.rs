//! The tasks of the workspace, with nothing but cargo: `cargo xtask help`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod budget;
mod install;
mod layers;
mod lines;
mod oracles;
mod record;
mod sources;
mod variables;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
Usage: cargo xtask TASK [ARGUMENT...]

  fmt       Check the format of all sources; `fmt --fix` rewrites them
  check     Check doc comments, names, the order of the crates and the list of variables, run the lints, build
            the documentation, package the crates, and check licences where cargo-deny is installed
  test      Run all tests; arguments are passed on to `cargo test`
  bench     Run the benchmarks; arguments are passed on to `cargo bench`
  docs      Build the API documentation, and the book where mdbook is installed
  install-c Build the C interface, and install libraries, header and pkg-config file under PREFIX
  record    Record the experiments of docs/results.md on this machine, or those named, and write the pages
  report    Write docs/results.md and the pages in docs/results from what is recorded
  lines     Count the lines of each crate, without tests
  budget    Run statements in control groups with little memory, beside DuckDB; `budget --help`
  oracles   Compare answers to random queries with DuckDB, SQLite and other settings; `oracles --help`
  ci        Run fmt, check and test
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    let done = match task.as_str() {
        "fmt" => fmt(&rest),
        "check" => check(),
        "test" => test(&rest),
        "bench" => cargo("bench", &["bench", "--workspace", "--locked"], &rest),
        "docs" => docs(),
        "install-c" => install::install_c(&root(), &rest),
        "record" => record::record(&root(), &rest),
        "report" => record::report(),
        "lines" => lines::print(&root()),
        "budget" => budget::measure(&root(), &rest),
        "oracles" => oracles::compare(&root(), &rest),
        "ci" => fmt(&[]).and_then(|()| check()).and_then(|()| test(&[])),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!(
            "there is no task `{other}`; `cargo xtask help` lists them"
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn fmt(arguments: &[String]) -> Result<(), String> {
    match arguments.first().map(String::as_str) {
        Some("--fix") => cargo("format", &["fmt", "--all"], &[]),
        _ => cargo("format", &["fmt", "--all", "--check"], &[]),
    }
}

fn check() -> Result<(), String> {
    words::check(&root())?;
    layers::check(&root())?;
    variables::check(&root())?;
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    cargo("lints", &lints, &[])?;
    api_docs()?;
    let package = [
        "package",
        "--workspace",
        "--no-verify",
        "--allow-dirty",
        "--locked",
        "--quiet",
    ];
    cargo("packages", &package, &[])?;
    if is_installed("cargo-deny") {
        let deny = ["deny", "--locked", "check", "bans", "licenses", "sources"];
        cargo("licences, bans, sources", &deny, &[])?;
    }
    Ok(())
}

fn test(arguments: &[String]) -> Result<(), String> {
    cargo("tests", &["test", "--workspace", "--locked"], arguments)?;
    if arguments.is_empty() {
        let orderings = [
            "test",
            "--package",
            "halocline-ordered",
            "--features",
            "loom",
            "--test",
            "orderings",
            "--locked",
        ];
        cargo("memory orderings", &orderings, &[])?;
    }
    Ok(())
}

fn docs() -> Result<(), String> {
    api_docs()?;
    if is_installed("mdbook") {
        run("book", Command::new("mdbook").args(["build", "docs"]))
    } else {
        println!("mdbook is not installed: the book is readable as Markdown from docs/SUMMARY.md");
        Ok(())
    }
}

fn api_docs() -> Result<(), String> {
    let mut doc = Command::new(env!("CARGO"));
    doc.args(["doc", "--workspace", "--no-deps", "--locked"]);
    run("documentation", doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn cargo(step: &str, arguments: &[&str], more: &[String]) -> Result<(), String> {
    run(step, Command::new(env!("CARGO")).args(arguments).args(more))
}

fn run(step: &str, command: &mut Command) -> Result<(), String> {
    println!("\n== {step}");
    let status = command.current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{step}: {command:?} ended with {status}")),
        Err(error) => Err(format!("{step}: cannot run {command:?}: {error}")),
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns the root of the workspace.
fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    crates.expect("the crate lies in crates/xtask").to_owned()
}
