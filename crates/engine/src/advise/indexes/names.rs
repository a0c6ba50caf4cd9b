//! Names and statements of proposed indexes.

use std::collections::BTreeSet;

use super::super::advice::quoted;
use crate::statement::parse;

/// Longest name before a number is added.
const MAX_NAME_CHARS: usize = 48;

/// Returns a name for an index on these columns that `taken` does not have, and adds it.
pub(super) fn index_name(table: &str, columns: &[&str], taken: &mut BTreeSet<String>) -> String {
    let mut name = format!("{table}_{}", columns.join("_"));
    if let Some((end, _)) = name.char_indices().nth(MAX_NAME_CHARS) {
        name.truncate(end);
    }
    let mut free = name.clone();
    let mut number = 2;
    while taken.contains(&free) {
        free = format!("{name}_{number}");
        number += 1;
    }
    taken.insert(free.clone());
    free
}

/// Returns the statement that builds an index.
pub(super) fn create_index(name: &str, table: &str, columns: &[&str], options: &[String]) -> String {
    let with = match options {
        [] => String::new(),
        options => format!(" WITH ({})", options.join(", ")),
    };
    let of = |quoted: &dyn Fn(&str) -> String| {
        let columns: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let (name, table) = (quoted(name), quoted(table));
        format!(
            "CREATE INDEX {name} ON {table} USING elf ({}){with}",
            columns.join(", ")
        )
    };
    readable(&of)
}

/// Returns the statement that drops an index.
pub(super) fn drop_index(name: &str) -> String {
    readable(&|quoted: &dyn Fn(&str) -> String| format!("DROP INDEX {}", quoted(name)))
}

/// The text of a statement, whose names a function writes.
type Statement<'a> = dyn Fn(&dyn Fn(&str) -> String) -> String + 'a;

/// Returns the statement with quotes where they are needed; around all names if one is a word of SQL.
fn readable(of: &Statement<'_>) -> String {
    let plain = of(&quoted);
    match parse(&plain, &[]) {
        Ok(_) => plain,
        Err(_) => of(&|name: &str| format!("\"{}\"", name.replace('"', "\"\""))),
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;
    use crate::statement::CreateIndexStatement;

    #[test]
    fn statements_parse_whatever_the_names() {
        for name in ["a", "order", "select", "Ä b", "x\"y", "1st", "date"] {
            let text = create_index(name, name, &["v", name], &["order = 'given'".into()]);
            let parsed: Box<dyn Any> = parse(&text, &[]).unwrap();
            let spec = parsed.downcast::<CreateIndexStatement>().unwrap().spec;
            assert_eq!(
                (spec.name.as_str(), spec.columns),
                (name, vec!["v".to_owned(), name.to_owned()])
            );
            parse(&drop_index(name), &[]).unwrap();
        }
    }

    #[test]
    fn names_are_new() {
        let mut taken = BTreeSet::from(["t_a".to_owned()]);
        assert_eq!(index_name("t", &["a"], &mut taken), "t_a_2");
        assert_eq!(index_name("t", &["a"], &mut taken), "t_a_3");
        assert_eq!(index_name("t", &["a", "b"], &mut taken), "t_a_b");
        let long = "ö".repeat(60);
        assert_eq!(
            index_name(&long, &["a"], &mut taken).chars().count(),
            MAX_NAME_CHARS
        );
    }
}
