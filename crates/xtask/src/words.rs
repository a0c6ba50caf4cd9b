//! The check of doc comments and names:
//! - the doc comment of a function begins with a verb in the third person;
//! - the name of a constant is not a bare word that leaves open what there is most, few or enough of;
//! - no two public types of the workspace have the same name.
//!
//! It looks at lines, not at syntax: the first word of a doc comment ends in `s`, and is none of the plural
//! nouns that such comments began with. Tests are left out, as their comments may say what they are about.

use std::collections::BTreeMap;
use std::path::Path;

use crate::sources::{entries, sources};

/// Words in `s` that are no verbs.
const NOUNS: [&str; 43] = [
    "Always",
    "As",
    "Bits",
    "Blocks",
    "Bytes",
    "Chunks",
    "Codes",
    "Columns",
    "Conditions",
    "Depths",
    "Entries",
    "Fields",
    "Figures",
    "Floats",
    "Hits",
    "Items",
    "Its",
    "Keys",
    "Latencies",
    "Less",
    "Lines",
    "Nodes",
    "Numbers",
    "Offsets",
    "Operands",
    "Others",
    "Pages",
    "Pairs",
    "Places",
    "Rows",
    "Seconds",
    "Segments",
    "Sixteenths",
    "Sizes",
    "Statistics",
    "Strings",
    "Sums",
    "Tables",
    "Texts",
    "This",
    "Values",
    "Versions",
    "Words",
];

/// Words that do not name a constant by themselves.
const BARE_WORDS: [&str; 6] = ["MOST", "FEW", "KEPT", "ENOUGH", "LEAST", "MANY"];

/// Keywords that declare a type.
const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// The name of a public type that every crate may declare.
const SHARED_TYPE: &str = "Result";

/// Words before `fn` in the declaration of a function.
const QUALIFIERS: [&str; 6] = ["pub", "default", "const", "async", "unsafe", "extern"];

/// Fails if a doc comment, constant or public type below `crates` breaks one of the rules, and names each.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    println!("\n== doc comments and names");
    let (mut comments, mut constants, mut types) = (Vec::new(), Vec::new(), BTreeMap::new());
    for name in entries(&root.join("crates"))? {
        for (file, text) in sources(&root.join("crates").join(name).join("src"))? {
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let file = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            comments.extend(without_verb(text).map(|(line, word)| format!("{file}:{line}: `{word}`")));
            constants.extend(bare_constants(text).map(|(line, name)| format!("{file}:{line}: `{name}`")));
            add_public_types(&mut types, &file, text);
        }
    }
    let rules = [
        (
            "the doc comment of a function begins with a verb in the third person, as in `Returns the …`",
            comments,
        ),
        (
            "the name of a constant says what it is, as in `MAX_ROWS`",
            constants,
        ),
        (
            "the name of a public type is unique in the workspace",
            repeated(&types),
        ),
    ];
    let broken = rules.into_iter().filter(|(_, found)| !found.is_empty());
    let errors: Vec<String> = broken
        .map(|(rule, found)| format!("{rule}:\n{}", found.join("\n")))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

/// Returns the numbers of the lines that declare a constant with a bare word as its name, and the names.
fn bare_constants(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let declaration = without_visibility(line.trim_start());
        let constant = declaration.strip_prefix("const ");
        let (name, _) = constant
            .or_else(|| declaration.strip_prefix("static "))?
            .split_once(':')?;
        BARE_WORDS.contains(&name).then_some((at + 1, name))
    })
}

/// Returns a declaration without `pub` or `pub(…)`.
fn without_visibility(declaration: &str) -> &str {
    let is_public = declaration.starts_with("pub ") || declaration.starts_with("pub(");
    let end = if declaration.starts_with("pub(") {
        ") "
    } else {
        " "
    };
    match declaration.split_once(end) {
        Some((_, rest)) if is_public => rest,
        _ => declaration,
    }
}

/// Adds the places (`file:line`) where a text declares public types, by name.
fn add_public_types(types: &mut BTreeMap<String, Vec<String>>, file: &str, text: &str) {
    for (at, line) in text.lines().enumerate() {
        if let Some(name) = public_type(line.trim_start())
            && name != SHARED_TYPE
        {
            let places = types.entry(name.to_owned()).or_default();
            places.push(format!("{file}:{}", at + 1));
        }
    }
}

/// Returns the name of the public type that a line declares. `None` if it declares none, or a macro names it.
fn public_type(line: &str) -> Option<&str> {
    let declaration = line.strip_prefix("pub ")?;
    let declaration = declaration.strip_prefix("unsafe ").unwrap_or(declaration);
    let (keyword, rest) = declaration.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (TYPE_KEYWORDS.contains(&keyword) && !name.is_empty()).then_some(name)
}

/// Returns the places and names of types that are declared more than once.
fn repeated(types: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let repeated = types.iter().filter(|(_, places)| places.len() > 1);
    repeated
        .flat_map(|(name, places)| places.iter().map(move |place| format!("{place}: `{name}`")))
        .collect()
}

/// Returns the numbers of the lines where doc comments of functions begin without a verb, and the first
/// words.
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

    #[test]
    fn nouns_are_no_verbs() {
        assert!(NOUNS.is_sorted());
        let nouns = [
            "As",
            "Conditions",
            "Fields",
            "Figures",
            "Floats",
            "Hits",
            "Latencies",
            "Operands",
            "Places",
            "Seconds",
            "Sixteenths",
            "Sums",
        ];
        for noun in nouns {
            let text = format!("/// {noun} of the groups.\nfn groups() {{}}");
            let found: Vec<_> = without_verb(&text).collect();
            assert_eq!(found, [(1, noun)]);
        }
        assert!(["Returns", "Adds", "Reads"].into_iter().all(is_verb));
    }

    #[test]
    fn constants_with_bare_names_are_found() {
        let text = "
            const MOST: usize = 1;
            const MOST_ROWS: usize = 1;
            pub(crate) const FEW: usize = 1;
            pub static KEPT: usize = 1;
            const fn enough() {}
            let least = LEAST;
        ";
        let found: Vec<_> = bare_constants(text).collect();
        assert_eq!(found, [(2, "MOST"), (4, "FEW"), (5, "KEPT")]);
    }

    #[test]
    fn public_types_of_one_name_are_found() {
        let mut types = BTreeMap::new();
        let first = "pub struct Rows<'a>(&'a str);\npub type Result<T> = T;\npub(crate) struct Keys;";
        let second =
            "pub struct Keys;\npub struct $name;\n    pub enum Rows {\npub type Result<T> = T;\nstruct Rows;";
        add_public_types(&mut types, "a.rs", first);
        add_public_types(&mut types, "b.rs", second);
        assert_eq!(repeated(&types), ["a.rs:1: `Rows`", "b.rs:3: `Rows`"]);
    }
}
