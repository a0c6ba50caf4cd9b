//! The check of doc comments: that of a function begins with a verb in the third person.
//!
//! It looks at lines, not at syntax: the first word ends in `s`, and is none of the plural nouns that such
//! comments began with. Tests are left out, as their comments may say what they are about.

use std::path::Path;

use crate::sources::{entries, sources};

/// Words in `s` that are no verbs.
const NOUNS: [&str; 31] = [
    "Always",
    "Bits",
    "Blocks",
    "Bytes",
    "Chunks",
    "Codes",
    "Columns",
    "Depths",
    "Entries",
    "Items",
    "Its",
    "Keys",
    "Less",
    "Lines",
    "Nodes",
    "Numbers",
    "Offsets",
    "Others",
    "Pages",
    "Pairs",
    "Rows",
    "Segments",
    "Sizes",
    "Statistics",
    "Strings",
    "Tables",
    "Texts",
    "This",
    "Values",
    "Versions",
    "Words",
];

/// Words before `fn` in the declaration of a function.
const QUALIFIERS: [&str; 6] = ["pub", "default", "const", "async", "unsafe", "extern"];

/// Fails if the doc comment of a function below `crates` begins without a verb, and names each.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    println!("\n== doc comments");
    let mut found = Vec::new();
    for name in entries(&root.join("crates"))? {
        for (file, text) in sources(&root.join("crates").join(name).join("src"))? {
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let file = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            found.extend(without_verb(text).map(|(line, word)| format!("{file}:{line}: `{word}`")));
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the doc comment of a function begins with a verb in the third person, as in `Returns the …`:\n{}",
            found.join("\n")
        )),
    }
}

/// Returns the numbers of the lines where doc comments of functions begin without a verb, and the first words.
fn without_verb(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let begins =
        |at: &usize| lines[*at].starts_with("///") && (*at == 0 || !lines[*at - 1].starts_with("///"));
    let starts: Vec<usize> = (0..lines.len()).filter(begins).collect();
    starts.into_iter().filter_map(move |start| {
        let mut rest = lines[start..].iter().skip_while(|line| line.starts_with("///"));
        let is_test = |line: &&str| line.contains("test]") || line.contains("test(");
        let mut depth = 0_i32;
        let declaration = rest.find(|line| {
            let is_attribute = depth > 0 || line.starts_with("#[");
            let brackets = |bracket| line.matches(bracket).count() as i32;
            depth += if is_attribute {
                brackets('[') - brackets(']')
            } else {
                0
            };
            !is_attribute || is_test(line)
        })?;
        let first = lines[start].trim_start_matches('/').split_whitespace().next();
        let first = first.unwrap_or_default().trim_end_matches(',');
        (is_function(declaration) && !is_test(declaration) && !is_verb(first)).then_some((start + 1, first))
    })
}

fn is_function(declaration: &str) -> bool {
    let mut words = declaration.split_whitespace();
    let is_qualifier = |word: &str| {
        let name = word.split('(').next().unwrap_or_default();
        QUALIFIERS.contains(&name) || word.starts_with('"') || word.ends_with(')')
    };
    words.find(|word| !is_qualifier(word)) == Some("fn")
}

fn is_verb(word: &str) -> bool {
    let letters = word.bytes().skip(1).all(|letter| letter.is_ascii_lowercase());
    word.starts_with(|letter: char| letter.is_ascii_uppercase())
        && letters
        && word.ends_with('s')
        && !NOUNS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_without_a_verb_are_found() {
        let text = "
            /// Returns the sum.
            fn sum() {}
            /// The sum of all,
            /// Returns nothing.
            #[must_use]
            pub(crate) const unsafe fn sum_of_all() {}
            /// Bytes of a block.
            #[expect(
                clippy::all,
            )]
            pub(in crate::blocks) fn bytes() {}
            /// A block.
            struct Block;
            /// A sum has one value.
            #[test]
            fn sums() {}
        ";
        let found: Vec<_> = without_verb(text).collect();
        assert_eq!(found, [(4, "The"), (8, "Bytes")]);
    }
}
