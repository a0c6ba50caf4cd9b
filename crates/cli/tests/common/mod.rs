//! The program as a user runs it, in a directory of its own.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use tempfile::TempDir;

/// A directory for one test, with the program to run in it.
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

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("halocline").unwrap();
        command
            .current_dir(self.directory())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("TMPDIR", self.directory())
            .env_remove("HALOCLINE_LOG")
            .args(arguments);
        command
    }

    /// Runs the program; it must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Assert {
        self.command(arguments).assert().success()
    }

    /// Runs the program; it must end with this code.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> Assert {
        self.command(arguments).assert().code(code)
    }

    /// Runs a SQL text and returns its rows as CSV.
    pub(crate) fn csv(&self, pool: &str, sql: &str) -> String {
        stdout(&self.ok(&["sql", pool, sql, "--output", "csv"]))
    }

    /// A pool `p` with a table `t` of 1000 rows: `id` 0 to 999, `day`, `name`, `price`.
    pub(crate) fn with_table() -> Self {
        let home = Self::new();
        home.write("t.csv", table_csv(1000));
        home.ok(&["import", "p", "t", "t.csv"]);
        home
    }
}

/// A CSV file with a header; every tenth name is empty.
pub(crate) fn table_csv(rows: usize) -> String {
    let mut text = "id,day,name,price\n".to_owned();
    for id in 0..rows {
        let name = if id % 10 == 0 {
            String::new()
        } else {
            format!("name {}", id % 7)
        };
        text += &format!("{id},2026-01-{:02},{name},{}.25\n", id % 28 + 1, id % 100);
    }
    text
}

pub(crate) fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

pub(crate) fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

/// An error is one line that says what happened, perhaps with a hint below it, and nothing on stdout.
pub(crate) fn assert_error(assert: &Assert, parts: &[&str]) {
    let text = stderr(assert);
    assert!(text.starts_with("error: "), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}
