//! The number of lines of each crate's sources, without tests.
//!
//! Test code is also a module that follows `#[cfg(test)]` to the end of its file. Blank lines are not counted.

use std::path::Path;

use crate::sources::{entries, sources};

#[derive(Debug, Default, Clone, Copy)]
struct LineCount {
    code: usize,
    comments: usize,
}

/// Prints a line for each crate, and the sum.
pub(crate) fn print(root: &Path) -> Result<(), String> {
    let folder = root.join("crates");
    let mut names = entries(&folder)?;
    names.retain(|name| folder.join(name).join("src").is_dir());
    let mut sum = LineCount::default();
    println!("{:<12} {:>8} {:>8} {:>8}", "crate", "lines", "code", "comments");
    for name in names {
        let mut count = LineCount::default();
        for (_, text) in sources(&folder.join(&name).join("src"))? {
            count_text(&text, &mut count);
        }
        print_line(&name, count);
        sum.code += count.code;
        sum.comments += count.comments;
    }
    print_line("all", sum);
    Ok(())
}

fn print_line(name: &str, LineCount { code, comments }: LineCount) {
    println!("{name:<12} {:>8} {code:>8} {comments:>8}", code + comments);
}

fn count_text(text: &str, count: &mut LineCount) {
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let is_tests = line == "#[cfg(test)]"
            && lines
                .peek()
                .is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        match line {
            _ if is_tests => return,
            "" => {}
            comment if comment.starts_with("//") => count.comments += 1,
            _ => count.code += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_tests_are_left_out() {
        let mut count = LineCount::default();
        let text = "//! Header.\n\nfn f() {\n    // Why.\n}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        count_text(text, &mut count);
        assert_eq!((count.code, count.comments), (2, 2));
    }
}
