//! The number of lines of each crate's sources, without tests.
//!
//! Test code is: folders and files named `tests`, files that end with `_tests.rs`, and a module that follows
//! `#[cfg(test)]` to the end of its file. Blank lines are not counted.

use std::fs;
use std::path::Path;

#[derive(Debug, Default, Clone, Copy)]
struct LineCount {
    code: usize,
    comments: usize,
}

/// Prints a line for each crate, and the sum.
pub(crate) fn print(root: &Path) -> Result<(), String> {
    let folder = root.join("crates");
    let mut names: Vec<String> = entries(&folder)?
        .into_iter()
        .filter(|name| folder.join(name).join("src").is_dir())
        .collect();
    names.sort();
    let mut sum = LineCount::default();
    println!("{:<12} {:>8} {:>8} {:>8}", "crate", "lines", "code", "comments");
    for name in names {
        let mut count = LineCount::default();
        count_folder(&folder.join(&name).join("src"), &mut count)?;
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

fn entries(folder: &Path) -> Result<Vec<String>, String> {
    let cannot = |error| format!("cannot read {}: {error}", folder.display());
    let read = fs::read_dir(folder).map_err(cannot)?;
    read.map(|entry| Ok(entry.map_err(cannot)?.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn count_folder(folder: &Path, count: &mut LineCount) -> Result<(), String> {
    for name in entries(folder)? {
        let path = folder.join(&name);
        if name == "tests" || name == "tests.rs" || name.ends_with("_tests.rs") {
            continue;
        }
        if path.is_dir() {
            count_folder(&path, count)?;
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            count_text(&text, count);
        }
    }
    Ok(())
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
