//! Help and wrong command lines.

use crate::home::{Home, stdout};

#[test]
fn help_has_examples_and_hides_internal_steps() {
    let home = Home::new();
    for arguments in [&["--help"][..], &["kv", "--help"]] {
        let text = stdout(&home.ok(arguments));
        assert!(text.contains("Usage: halocline-bench"), "{text}");
        assert!(text.contains("Examples:"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 140),
            "a line is too long\n{text}"
        );
        assert!(!text.contains("internal"), "hidden steps are not shown:\n{text}");
    }
    assert!(stdout(&home.ok(&["--version"])).starts_with("halocline-bench 0."));
}

#[test]
fn wrong_command_lines_end_with_code_two() {
    let home = Home::new();
    for arguments in [
        &["open", "--rows", "0"][..],
        &["ssb", "--on", "floppy"],
        &["tree-ops", "--trees", "oak"],
        &["kv"],
        &["kv", "p", "--hot", "8MiB"],
        &["kv", "p", "--threads", "0"],
    ] {
        home.fails(2, arguments, &[]);
    }
}

#[test]
fn an_unknown_experiment_is_a_wrong_command_line() {
    Home::new().fails(2, &["everything"], &["everything", "bench list"]);
}

#[test]
fn an_experiment_without_a_medium_says_so() {
    let arguments = ["memory", "--medium", "emulated:optane:virtual"];
    Home::new().fails(2, &arguments, &["memory", "takes no --medium", "bench list"]);
}
