//! Constraints as parsed: `CHECK`, `UNIQUE`, and the lengths of texts. The rules of a table have conditions
//! as SQL, without the name of the table, which may change.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, CharacterLength, CheckConstraint, ColumnDef, ColumnOption, Expr, Ident, IndexColumn,
    NullsDistinctOption, TableConstraint, UniqueConstraint, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use halocline_columns::TableRule;
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, refuse};
use halocline_sql::syntax::{SqlDialect, walk, walk_mut};

/// A constraint as parsed.
#[derive(Debug)]
pub(crate) struct NewConstraint {
    /// The name that it is given.
    name: Option<String>,
    /// The column that it is written after.
    column: Option<String>,
    kind: ConstraintKind,
}

#[derive(Debug)]
enum ConstraintKind {
    Check(Box<Expr>),
    Unique(Vec<String>),
}

impl NewConstraint {
    /// Returns a unique constraint.
    pub(super) fn unique(name: String, columns: Vec<String>) -> Self {
        Self {
            name: Some(name),
            column: None,
            kind: ConstraintKind::Unique(columns),
        }
    }

    fn check(
        name: Option<&Ident>,
        column: Option<String>,
        check: &CheckConstraint,
    ) -> Result<Self, EngineError> {
        if check.enforced == Some(false) {
            return refuse("CHECK … NOT ENFORCED", "leave the constraint out");
        }
        Ok(Self {
            name: name.map(identifier),
            column,
            kind: ConstraintKind::Check(check.expr.clone()),
        })
    }
}

/// Takes the constraints but NOT NULL and PRIMARY KEY out of the options of a column.
///
/// # Errors
/// One is of a kind that is not offered.
pub(super) fn take_constraints(column: &mut ColumnDef) -> Result<Vec<NewConstraint>, EngineError> {
    let (mut constraints, of) = (Vec::new(), identifier(&column.name));
    for option in &column.options {
        match &option.option {
            ColumnOption::Check(check) => {
                let name = option.name.as_ref().or(check.name.as_ref());
                constraints.push(NewConstraint::check(name, Some(of.clone()), check)?);
            }
            ColumnOption::Unique(unique) => {
                refuse_unique_options(unique)?;
                let name = option.name.as_ref().or(unique.name.as_ref());
                constraints.push(NewConstraint {
                    name: name.map(identifier),
                    column: Some(of.clone()),
                    kind: ConstraintKind::Unique(vec![of.clone()]),
                });
            }
            ColumnOption::ForeignKey(_) => return refuse_foreign_key(),
            ColumnOption::Generated { .. } | ColumnOption::Identity(_) => {
                return refuse(
                    "a generated column",
                    "compute it in the statements that write, or in those that read",
                );
            }
            _ => {}
        }
    }
    let is_taken = |option: &ColumnOption| matches!(option, ColumnOption::Check(_) | ColumnOption::Unique(_));
    column.options.retain(|option| !is_taken(&option.option));
    Ok(constraints)
}

/// Reads a constraint that is no primary key.
///
/// # Errors
/// It is of a kind that is not offered.
pub(super) fn read_constraint(constraint: &TableConstraint) -> Result<NewConstraint, EngineError> {
    match constraint {
        TableConstraint::Check(check) => NewConstraint::check(check.name.as_ref(), None, check),
        TableConstraint::Unique(unique) => {
            refuse_unique_options(unique)?;
            let column = |column: &IndexColumn| match &column.column.expr {
                Expr::Identifier(name) => Ok(identifier(name)),
                other => refuse(format!("UNIQUE ({other})"), "name columns of the table"),
            };
            Ok(NewConstraint {
                name: unique.name.as_ref().map(identifier),
                column: None,
                kind: ConstraintKind::Unique(unique.columns.iter().map(column).collect::<Result<_, _>>()?),
            })
        }
        TableConstraint::ForeignKey(_) => refuse_foreign_key(),
        _ => refuse(
            "a constraint",
            "NOT NULL, CHECK, UNIQUE and PRIMARY KEY are the only ones; leave the others out",
        ),
    }
}

fn refuse_unique_options(unique: &UniqueConstraint) -> Result<(), EngineError> {
    if unique.nulls_distinct == NullsDistinctOption::NotDistinct {
        return refuse(
            "UNIQUE NULLS NOT DISTINCT",
            "declare the columns NOT NULL, with a DEFAULT that stands for no value",
        );
    }
    if unique.characteristics.is_some() {
        return refuse(
            "a deferrable constraint",
            "leave it out: each statement is checked",
        );
    }
    Ok(())
}

fn refuse_foreign_key<T>() -> Result<T, EngineError> {
    refuse(
        "a foreign key",
        "leave REFERENCES out, and insert only what is there: INSERT … SELECT … WHERE EXISTS (…)",
    )
}

/// Returns the error for unique constraints of a table without a primary key.
pub(super) fn unique_without_key(table: &str) -> EngineError {
    EngineError::Unsupported {
        what: format!("UNIQUE in {table}, which has no primary key,"),
        instead: "create the table with a PRIMARY KEY, which may be the same columns".into(),
    }
}

/// Returns the most characters of a text of this type; `None` if it is no text, or one without a limit.
pub(super) fn length_of(data_type: &ast::DataType) -> Option<u64> {
    use ast::DataType as T;
    match data_type {
        T::Character(length)
        | T::Char(length)
        | T::CharacterVarying(length)
        | T::CharVarying(length)
        | T::Varchar(length) => match length {
            Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
            Some(CharacterLength::Max) | None => None,
        },
        _ => None,
    }
}

/// Adds a constraint to the rules of a table.
///
/// # Errors
/// There is a constraint of its name; it names a column twice, or there are too many.
pub(super) fn add_constraint(
    table: &str,
    rules: &mut Vec<TableRule>,
    constraint: &NewConstraint,
) -> Result<(), EngineError> {
    let name = |stem: String| match &constraint.name {
        Some(name) if is_taken(rules, name) => Err(EngineError::Exists {
            kind: "constraint",
            name: name.clone(),
            instead: "choose another name",
        }),
        Some(name) => Ok(name.clone()),
        None => Ok(free_name(rules, stem)),
    };
    let rule = match &constraint.kind {
        ConstraintKind::Check(condition) => {
            let mut condition = Expr::clone(condition);
            let _ = walk_mut(&mut condition, &mut Unqualified(table));
            let column = constraint.column.clone().or_else(|| {
                let mut used = names_in(&condition).into_iter();
                used.next().filter(|_| used.next().is_none())
            });
            let stem = match column {
                Some(column) => format!("{table}_{column}_check"),
                None => format!("{table}_check"),
            };
            TableRule::Check {
                name: name(stem)?,
                condition: condition.to_string(),
            }
        }
        ConstraintKind::Unique(columns) => {
            let distinct: BTreeSet<&String> = columns.iter().collect();
            if distinct.len() < columns.len() {
                return refuse(
                    format!("UNIQUE ({})", columns.join(", ")),
                    "name each column once",
                );
            }
            TableRule::Unique {
                name: name(format!("{table}_{}_key", columns.join("_")))?,
                columns: columns.clone(),
                number: free_number(table, rules)?,
            }
        }
    };
    rules.push(rule);
    Ok(())
}

/// Returns true if there is a constraint of this name.
pub(super) fn is_taken(rules: &[TableRule], name: &str) -> bool {
    rules.iter().any(|rule| rule.name() == Some(name))
}

/// Returns a name as PostgreSQL gives it: a stem, with a number if that is taken.
fn free_name(rules: &[TableRule], stem: String) -> String {
    let numbered = (1u64..).map(|number| format!("{stem}{number}"));
    let mut names = std::iter::once(stem.clone()).chain(numbered);
    names.find(|name| !is_taken(rules, name)).unwrap_or_default()
}

/// Returns a number that no unique constraint has, nor had since the table was last written anew.
fn free_number(table: &str, rules: &[TableRule]) -> Result<u8, EngineError> {
    let numbers = rules.iter().filter_map(|rule| match rule {
        TableRule::Unique { number, .. } => Some(*number),
        _ => None,
    });
    let next = numbers.max().map_or(Some(0), |last| last.checked_add(1));
    next.ok_or_else(|| {
        EngineError::Query(format!(
            "table {table} has too many UNIQUE constraints; drop some"
        ))
    })
}

/// Returns the columns that a condition of a rule names.
///
/// # Errors
/// The condition cannot be parsed.
pub(super) fn columns_of(condition: &str) -> Result<BTreeSet<String>, EngineError> {
    Ok(names_in(&parsed(condition)?))
}

/// Returns a condition of a rule with another name of a column.
///
/// # Errors
/// The condition cannot be parsed.
pub(super) fn with_renamed(condition: &str, from: &str, to: &str) -> Result<String, EngineError> {
    let mut condition = parsed(condition)?;
    let _ = walk_mut(&mut condition, &mut Renamed { from, to });
    Ok(condition.to_string())
}

fn parsed(condition: &str) -> Result<Expr, EngineError> {
    let parser = Parser::new(&SqlDialect).try_with_sql(condition);
    let parsed = parser.and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| EngineError::Query(format!("CHECK ({condition}): {error}")))
}

fn names_in(condition: &Expr) -> BTreeSet<String> {
    let mut names = NamedColumns::default();
    let _ = walk(condition, &mut names);
    names.0
}

/// Collects names of columns.
#[derive(Default)]
struct NamedColumns(BTreeSet<String>);

impl Visitor for NamedColumns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr {
            self.0.insert(identifier(name));
        }
        ControlFlow::Continue(())
    }
}

/// Leaves the name of the table out of those of its columns.
struct Unqualified<'a>(&'a str);

impl VisitorMut for Unqualified<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let [.., table, column] = names.as_slice()
            && identifier(table) == self.0
        {
            *expr = Expr::Identifier(column.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Gives a column another name.
struct Renamed<'a> {
    from: &'a str,
    to: &'a str,
}

impl VisitorMut for Renamed<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && identifier(name) == self.from
        {
            *name = Ident::with_quote('"', self.to);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &str, rules: &mut Vec<TableRule>, condition: &str) -> String {
        let constraint = NewConstraint {
            name: None,
            column: None,
            kind: ConstraintKind::Check(Box::new(parsed(condition).unwrap())),
        };
        add_constraint(table, rules, &constraint).unwrap();
        match rules.last() {
            Some(TableRule::Check { name, condition }) => format!("{name}: {condition}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_and_conditions() {
        let mut rules = Vec::new();
        assert_eq!(check("t", &mut rules, "t.A > 0"), "t_a_check: A > 0");
        assert_eq!(
            check("t", &mut rules, "a < 9 AND a <> 5"),
            "t_a_check1: a < 9 AND a <> 5"
        );
        assert_eq!(check("t", &mut rules, "a < b"), "t_check: a < b");
        assert_eq!(check("t", &mut rules, "1 = 1"), "t_check1: 1 = 1");
        assert_eq!(
            columns_of("a < \"B\" + 1").unwrap(),
            BTreeSet::from(["B".into(), "a".into()])
        );
        assert_eq!(with_renamed("A < b", "a", "x y").unwrap(), "\"x y\" < b");
    }
}
