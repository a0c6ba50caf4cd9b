//! A directory for one test, with the program to run in it.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use tempfile::TempDir;

/// The file of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_halocline-bench");

pub(crate) struct Home {
    directory: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The names of the files that are there.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .current_dir(self.directory())
            .env("TMPDIR", self.directory())
            .env_remove("HALOCLINE_LOG")
            .args(arguments);
        command
    }

    /// Runs the program; it must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Assert {
        self.command(arguments).assert().success()
    }

    /// Runs the program; it must end with this code, and an error that has the parts.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str], parts: &[&str]) {
        let assert = self.command(arguments).assert().code(code);
        let text = stderr(&assert);
        assert!(text.starts_with("error: "), "{text}");
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
        assert!(!text.contains("panicked"), "{text}");
    }
}

pub(crate) fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

pub(crate) fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}
