//! The shell on a terminal: a pseudo-terminal of a width that the test sets.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::common::Home;

const PROMPT: &str = "halocline> ";
const CONTINUED: &str = "        -> ";

/// A shell on a terminal.
struct Terminal {
    child: Child,
    /// The side of the terminal where keys are pressed and the screen is seen.
    controller: File,
}

impl Terminal {
    /// Starts the program, and waits for its prompt.
    fn start(home: &Home, width: u16, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let side = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize {
            ws_row: 50,
            ws_col: width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&side, size).unwrap();
        let child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
            .current_dir(home.directory())
            .env("XDG_STATE_HOME", home.path("state"))
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .env_remove("HALOCLINE_LOG")
            .envs(variables.iter().copied())
            .args(arguments)
            .stdin(Stdio::from(side.try_clone().unwrap()))
            .stdout(Stdio::from(side.try_clone().unwrap()))
            .stderr(Stdio::from(side))
            .spawn()
            .unwrap();
        let mut terminal = Self {
            child,
            controller: File::from(controller),
        };
        terminal.read_to(PROMPT);
        terminal
    }

    /// Types a line, and returns what is printed up to the next prompt.
    fn line(&mut self, text: &str) -> String {
        self.type_to(text, PROMPT)
    }

    /// Types a line, and returns what is printed up to `prompt`.
    fn type_to(&mut self, text: &str, prompt: &str) -> String {
        write!(self.controller, "{text}\r").unwrap();
        self.read_to(prompt)
    }

    /// Types a last line, and returns what is printed after it. The program must end with success.
    fn end(mut self, text: &str) -> String {
        write!(self.controller, "{text}\r").unwrap();
        let mut rest = Vec::new();
        let mut buffer = [0; 4096];
        // The terminal reports an error once nobody has its other side.
        while let Ok(read @ 1..) = self.controller.read(&mut buffer) {
            rest.extend_from_slice(&buffer[..read]);
        }
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }

    /// Reads until the screen ends with `prompt`.
    fn read_to(&mut self, prompt: &str) -> String {
        let mut seen = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&seen).into_owned();
            if without_escapes(&text).trim_end_matches('\r').ends_with(prompt) {
                return text;
            }
            let mut buffer = [0; 4096];
            let read = self.controller.read(&mut buffer).unwrap_or(0);
            assert!(read > 0, "the program ended:\n{text}");
            seen.extend_from_slice(&buffer[..read]);
        }
    }
}

/// Returns a text without the sequences that move the cursor and set colours.
fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            plain.push(character);
            continue;
        }
        if characters.next() == Some('[') {
            let _ = characters.find(|c| ('@'..='~').contains(c));
        }
    }
    plain
}

#[test]
fn wide_answers_fit_the_terminal() {
    let home = Home::with_table();
    let mut terminal = Terminal::start(&home, 60, &["p"], &[]);
    let query = "SELECT t.*, t.*, t.*, t.* FROM t WHERE id = 17;";
    let text = without_escapes(&terminal.line(query));
    assert!(text.contains("hidden (\\x shows all)"), "{text}");
    let rows = text.lines().filter(|line| line.starts_with(['│', '┌', '└']));
    assert!(rows.clone().count() >= 3, "{text}");
    for row in rows {
        assert!(row.trim_end().chars().count() <= 60, "{row}");
    }
    terminal.line("\\x");
    let text = without_escapes(&terminal.line(query));
    assert_eq!(text.matches("2026-01-18").count(), 4, "{text}");
    terminal.end("exit");
}

#[test]
fn the_shell_ends_in_the_middle_of_a_statement() {
    let home = Home::with_table();
    for word in ["quit", "exit;", "\\q"] {
        let mut terminal = Terminal::start(&home, 80, &["p"], &[]);
        terminal.type_to("SELECT 1,", CONTINUED);
        terminal.end(word);
    }
    let mut terminal = Terminal::start(&home, 80, &["p"], &[]);
    terminal.type_to("SELECT 'a", CONTINUED);
    terminal.type_to("quit", CONTINUED);
    let text = without_escapes(&terminal.line("' AS s;"));
    assert!(text.contains("1 row"), "{text}");
    terminal.end(".quit");
}

#[test]
fn recalled_statements_keep_their_lines() {
    let home = Home::with_table();
    let mut terminal = Terminal::start(&home, 80, &["p"], &[]);
    terminal.type_to("SELECT 7 -- a comment", CONTINUED);
    terminal.line("AS seven;");
    let text = without_escapes(&terminal.line("\u{1b}[A"));
    assert!(text.contains("│ seven │") && text.contains("1 row"), "{text}");
    terminal.end("\\q");
}

#[test]
fn words_are_completed() {
    let home = Home::with_table();
    home.ok(&["sql", "p", "CREATE TABLE zebra AS SELECT 41 AS zstripes"]);
    let mut terminal = Terminal::start(&home, 80, &["p"], &[]);
    let text = without_escapes(&terminal.line("SELECT zst\t + 1 AS more FROM zeb\t;"));
    assert!(text.contains(" 42 │"), "{text}");
    terminal.end("\\q");
}

#[test]
fn plans_are_trees_on_a_terminal() {
    let home = Home::with_table();
    let mut terminal = Terminal::start(&home, 70, &["p"], &[]);
    let query = "EXPLAIN ANALYZE SELECT name, count(*) FROM t WHERE price > 3 GROUP BY name ORDER BY name;";
    let text = without_escapes(&terminal.line(query));
    assert!(text.contains("└─ ") && !text.contains("plan_type"), "{text}");
    assert!(text.contains("rows") && text.contains("table=t"), "{text}");
    terminal.end("\\q");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let home = Home::with_table();
    let query = "SELECT NULL AS nothing;";
    let mut terminal = Terminal::start(&home, 80, &["p"], &[]);
    let text = terminal.line(query);
    assert!(
        text.contains("\u{1b}[1;34m") && text.contains("\u{1b}[2m NULL"),
        "{text:?}"
    );
    terminal.end("\\q");
    let mut terminal = Terminal::start(&home, 80, &["p"], &[("NO_COLOR", "1")]);
    let text = terminal.line(query);
    assert!(
        !text.contains("\u{1b}[1;34m") && !text.contains("\u{1b}[2m"),
        "{text:?}"
    );
    terminal.end("\\q");
}

#[test]
fn a_statement_is_edited_in_a_program() {
    let home = Home::with_table();
    home.write("editor", "sed -i 's/41/42/' \"$1\"\n");
    let mut terminal = Terminal::start(&home, 80, &["p"], &[("VISUAL", "sh ./editor")]);
    terminal.line("SELECT 41 AS answer;");
    // The edited statement waits at the prompt for the key that runs it.
    let text = terminal.type_to("\\e", "SELECT 42 AS answer");
    assert!(without_escapes(&text).contains("42"), "{text}");
    let text = without_escapes(&terminal.line(";"));
    assert!(text.contains(" 42 │"), "{text}");
    terminal.end("\\q");
}
