//! The statements that create tables and indexes as they are.

use crate::keywords::is_keyword;
use crate::{IndexInfo, KeyedTableInfo, TableInfo, TableRule};

/// Types whose values are written without quotes, by how their names begin.
const PLAIN_TYPES: [&str; 8] = [
    "boolean", "tinyint", "smallint", "int", "bigint", "real", "double", "decimal",
];

/// A column as statements define it.
struct ColumnText<'a> {
    name: &'a str,
    type_name: &'a str,
    nullable: bool,
    default: Option<&'a str>,
}

impl ColumnText<'_> {
    fn text(&self) -> String {
        // The types of columns are named as in SQL, but for this one.
        let type_name = if self.type_name.starts_with("time64") {
            "time"
        } else {
            self.type_name
        };
        let mut text = format!("{} {type_name}", quoted_name(self.name));
        if !self.nullable {
            text += " NOT NULL";
        }
        if let Some(value) = self.default {
            let is_plain = PLAIN_TYPES.iter().any(|plain| type_name.starts_with(plain));
            let value = if is_plain { value.to_owned() } else { quoted(value) };
            text += &format!(" DEFAULT {value}");
        }
        text
    }
}

/// Returns the statement that creates a table without a primary key.
pub fn create_table(table: &TableInfo) -> String {
    let columns = table.columns.iter().map(|column| ColumnText {
        name: &column.name,
        type_name: &column.r#type,
        nullable: column.nullable,
        default: column.default.as_deref(),
    });
    let mut text = create(&table.name, columns, constraints(&table.rules));
    if !table.cluster.is_empty() {
        text += &format!(" WITH (sort = {})", quoted(&table.cluster.join(", ")));
    }
    text + ";"
}

/// Returns the statement that creates a table with a primary key.
pub fn create_keyed_table(table: &KeyedTableInfo) -> String {
    let columns = table.columns.iter().map(|column| ColumnText {
        name: &column.name,
        type_name: &column.r#type,
        nullable: column.nullable,
        default: column.default.as_deref(),
    });
    let key = format!("PRIMARY KEY ({})", quoted_names(&table.primary_key));
    let constraints = std::iter::once(key).chain(constraints(&table.rules));
    create(&table.name, columns, constraints) + ";"
}

/// Returns the statement that creates an index.
pub fn create_index(index: &IndexInfo) -> String {
    let mut options = vec!["order = 'given'".to_owned()];
    if index.layout != "packed" {
        options.push(format!("layout = {}", quoted(&index.layout)));
    }
    // What was chosen for `auto` stands behind it.
    let placement = index.placement.split(" (").next().unwrap_or_default();
    if placement != "slow-only" {
        options.push(format!("placement = {}", quoted(placement)));
    }
    options.extend(index.dram.map(|bytes| format!("dram = '{bytes}'")));
    format!(
        "CREATE INDEX {} ON {} USING elf ({}) WITH ({});",
        quoted_name(&index.name),
        quoted_name(&index.table),
        quoted_names(&index.columns),
        options.join(", ")
    )
}

fn create<'a>(
    table: &str,
    columns: impl Iterator<Item = ColumnText<'a>>,
    constraints: impl IntoIterator<Item = String>,
) -> String {
    let lines = columns.map(|column| column.text()).chain(constraints);
    let lines: Vec<String> = lines.map(|line| format!("    {line}")).collect();
    format!("CREATE TABLE {} (\n{}\n)", quoted_name(table), lines.join(",\n"))
}

/// Returns the constraints among the rules of a table; the types of columns have the lengths.
fn constraints(rules: &[TableRule]) -> impl Iterator<Item = String> + '_ {
    rules.iter().filter_map(|rule| match rule {
        TableRule::Check { name, condition } => {
            Some(format!("CONSTRAINT {} CHECK ({condition})", quoted_name(name)))
        }
        TableRule::Unique { name, columns, .. } => Some(format!(
            "CONSTRAINT {} UNIQUE ({})",
            quoted_name(name),
            quoted_names(columns)
        )),
        _ => None,
    })
}

/// Returns names as a list in a statement.
pub(crate) fn quoted_names(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| quoted_name(name)).collect();
    names.join(", ")
}

/// Returns a text as a literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns a name as statements have to write it.
pub fn quoted_name(name: &str) -> String {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_plain = name.chars().all(is_part)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && !is_keyword(name);
    if is_plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_named() {
        let rules = [
            TableRule::Check {
                name: "t_a_check".into(),
                condition: "a > 0".into(),
            },
            TableRule::Length {
                column: "b".into(),
                characters: 3,
            },
            TableRule::Unique {
                name: "No".into(),
                columns: vec!["a".into(), "b".into()],
                number: 0,
            },
        ];
        let texts: Vec<String> = constraints(&rules).collect();
        assert_eq!(
            texts,
            [
                "CONSTRAINT t_a_check CHECK (a > 0)",
                "CONSTRAINT \"No\" UNIQUE (a, b)"
            ]
        );
    }

    #[test]
    fn names_and_texts_are_quoted_where_they_must_be() {
        for (name, expected) in [
            ("orders", "orders"),
            ("a_1", "a_1"),
            ("1a", "\"1a\""),
            ("Größe", "\"Größe\""),
            ("select", "\"select\""),
            ("a\"b", "\"a\"\"b\""),
        ] {
            assert_eq!(quoted_name(name), expected);
        }
        assert_eq!(quoted("it's"), "'it''s'");
        let column = ColumnText {
            name: "note",
            type_name: "varchar",
            nullable: false,
            default: Some("none"),
        };
        assert_eq!(column.text(), "note varchar NOT NULL DEFAULT 'none'");
        let column = ColumnText {
            type_name: "decimal(12,2)",
            default: Some("0.00"),
            nullable: true,
            ..column
        };
        assert_eq!(column.text(), "note decimal(12,2) DEFAULT 0.00");
    }
}
