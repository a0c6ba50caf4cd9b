//! Help, wrong command lines, completions.

use crate::common::{Home, stderr, stdout};

const COMMANDS: [&str; 15] = [
    "demo",
    "import",
    "index",
    "sql",
    "info",
    "check",
    "compact",
    "vacuum",
    "calibrate",
    "advise",
    "kv",
    "drop",
    "generate",
    "bench",
    "completions",
];

#[test]
fn help_lists_the_commands_with_examples() {
    let text = stdout(&Home::new().ok(&["--help"]));
    for command in COMMANDS {
        assert!(
            text.contains(&format!("\n  {command} ")),
            "{command} is not in\n{text}"
        );
    }
    assert!(
        text.contains("Examples:") && text.contains("Exit codes:"),
        "{text}"
    );
    assert!(!text.contains("internal"), "hidden steps are not shown:\n{text}");
}

#[test]
fn every_command_has_help() {
    let home = Home::new();
    // That of `bench` is the help of another program.
    for command in COMMANDS.into_iter().filter(|command| *command != "bench") {
        let text = stdout(&home.ok(&[command, "--help"]));
        assert!(text.contains("Usage: halocline"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 140),
            "{command}: a line is too long\n{text}"
        );
    }
    for command in [
        "demo",
        "import",
        "index",
        "sql",
        "info",
        "compact",
        "vacuum",
        "calibrate",
        "kv",
        "generate",
        "completions",
    ] {
        assert!(
            stdout(&home.ok(&[command, "--help"])).contains("Examples:"),
            "{command} has no examples"
        );
    }
}

#[test]
fn the_version_is_shown() {
    assert!(stdout(&Home::new().ok(&["--version"])).starts_with("halocline 0."));
}

#[test]
fn a_memory_limit_that_cannot_work_is_refused() {
    let home = Home::new();
    let text = stderr(&home.fails(1, &["sql", "p", "--create", "SELECT 1", "--memory", "10"]));
    assert!(
        text.contains("--memory") && text.contains("give 32MiB or more"),
        "{text}"
    );
    assert!(!home.path("p").exists());
}

#[test]
fn wrong_command_lines_end_with_code_two() {
    let home = Home::new();
    for arguments in [
        &["explode"][..],
        &["import", "p"],
        &["import", "p", "t"],
        &["import", "p", "t", "f", "--format", "xml"],
        &["import", "p", "t", "f", "--delimiter", "ab"],
        &["index", "p", "t"],
        &["index", "p", "t", "--on", "a", "--order", "random"],
        &["sql"],
        &["sql", "p", "SELECT 1", "-f", "x.sql"],
        &["sql", "p", "--output", "xml"],
        &["sql", "p", "SELECT 1", "--repeat", "0"],
        &["sql", "p", "--memory", "lots"],
        &["compact", "p", "--bandwidth", "fast"],
        &["vacuum"],
        &["calibrate"],
        &["calibrate", "numa:far"],
        &["calibrate", ".", "--size", "0"],
        &["calibrate", ".", "--threads", "0"],
        &["kv", "p"],
        &["kv", "p", "put", "1"],
        &["kv", "p", "put", "one", "2"],
        &["kv", "p", "create", "--tree", "oak"],
        &["kv", "p", "load", "f", "--fill", "0"],
        &["demo", "--sf", "0"],
        &["demo", "--sf", "many"],
        &["completions", "cmd.exe"],
    ] {
        let text = stderr(&home.fails(2, arguments));
        assert!(
            text.contains("error:") || text.contains("Usage:"),
            "{arguments:?}: {text}"
        );
    }
}

#[test]
fn completions_are_printed_for_each_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = stdout(&home.ok(&["completions", shell]));
        for part in ["halocline", "import", "bench"] {
            assert!(text.contains(part), "{shell}: {part}");
        }
        assert!(!text.contains("internal"), "{shell} completes a hidden command");
    }
}
