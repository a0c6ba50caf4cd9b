//! Subcommands that are programs of their own. Shells stand for these programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use tempfile::TempDir;

use crate::common::{assert_error, stderr, stdout};

/// The program in a directory of its own, with others beside it.
struct Installed {
    directory: TempDir,
}

impl Installed {
    fn beside(others: &[&str]) -> Self {
        // A link to the program needs the file system that it lies on.
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = directory.path().join("halocline");
        fs::hard_link(assert_cmd::cargo::cargo_bin("halocline"), program).unwrap();
        for other in others {
            symlink("/bin/sh", directory.path().join(other)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Assert {
        let mut command = Command::new(self.path("halocline"));
        command.current_dir(self.directory.path()).args(arguments);
        command.assert()
    }
}

#[test]
fn arguments_and_the_exit_code_are_passed_on() {
    let installed = Installed::beside(&["halocline-bench", "halocline-xyz"]);
    for name in ["bench", "xyz"] {
        let run = installed.run(&[
            name,
            "-c",
            "echo \"$0\" \"$@\"; exit 7",
            "--help",
            "-x",
            "",
            "--",
            "a b",
        ]);
        assert_eq!(stdout(&run), "--help -x  -- a b\n", "{name}: {}", stderr(&run));
        run.code(7);
    }
    let run = installed.run(&["bench", "-c", "kill -TERM $$"]);
    assert_eq!(
        run.get_output().status.signal(),
        Some(15),
        "it is the same process"
    );
}

#[test]
fn the_workloads_of_kv_are_those_of_bench() {
    let installed = Installed::beside(&["halocline-bench"]);
    fs::write(installed.path("kv"), "echo \"$@\"\n").unwrap();
    let run = installed.run(&["kv", "p", "--strict", "bench", "--workloads", "AC", "--help"]);
    assert_eq!(
        stdout(&run),
        "p --strict --workloads AC --help\n",
        "{}",
        stderr(&run)
    );
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let installed = Installed::beside(&[]);
    for arguments in [
        &["bench", "list"][..],
        &["bench", "--help"],
        &["kv", "p", "bench"],
    ] {
        let run = installed.run(arguments).code(1);
        let build = "cargo build --release -p halocline-bench";
        assert_error(
            &run,
            &["`bench` is a program of its own", "halocline-bench", build],
        );
    }
    let run = installed.run(&["imprt", "p"]).code(2);
    assert_error(&run, &["imprt", "import", "Usage:"]);
}

#[test]
fn commands_of_the_program_itself_come_first() {
    let installed = Installed::beside(&["halocline-completions", "halocline-help"]);
    let run = installed.run(&["completions", "bash"]).success();
    assert!(stdout(&run).contains("bench"));
    let run = installed.run(&["help", "bench"]).success();
    assert!(stdout(&run).contains("halocline-bench"));
}
