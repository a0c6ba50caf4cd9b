//! Constraints as parsed: `CHECK`, and the lengths of texts. The rules of a table have the conditions as SQL,
//! without the name of the table, which may change.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, CharacterLength, CheckConstraint, ColumnDef, ColumnOption, Expr, Ident, TableConstraint, Visitor,
    VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use halocline_columns::TableRule;
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, refuse};
use halocline_sql::syntax::{SqlDialect, walk, walk_mut};

/// A `CHECK` as parsed.
#[derive(Debug)]
pub(crate) struct NewCheck {
    /// The name that it is given.
    name: Option<String>,
    /// The column that it is written after.
    column: Option<String>,
    condition: Expr,
}

/// Takes the checks out of the options of a column.
///
/// # Errors
/// It has a constraint of a kind that is not offered.
pub(super) fn take_checks(column: &mut ColumnDef) -> Result<Vec<NewCheck>, EngineError> {
    let (mut checks, of) = (Vec::new(), identifier(&column.name));
    for option in &column.options {
        match &option.option {
            ColumnOption::Check(check) => {
                let name = option.name.as_ref().or(check.name.as_ref());
                checks.push(new_check(name, Some(of.clone()), check)?);
            }
            ColumnOption::Unique(_) => return refuse_unique(),
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
    let is_check = |option: &ColumnOption| matches!(option, ColumnOption::Check(_));
    column.options.retain(|option| !is_check(&option.option));
    Ok(checks)
}

/// Reads a constraint that is no primary key.
///
/// # Errors
/// It is of a kind that is not offered.
pub(super) fn read_constraint(constraint: &TableConstraint) -> Result<NewCheck, EngineError> {
    match constraint {
        TableConstraint::Check(check) => new_check(check.name.as_ref(), None, check),
        TableConstraint::Unique(_) => refuse_unique(),
        TableConstraint::ForeignKey(_) => refuse_foreign_key(),
        _ => refuse(
            "a constraint",
            "NOT NULL, CHECK and PRIMARY KEY are the only ones; leave the others out",
        ),
    }
}

fn refuse_unique<T>() -> Result<T, EngineError> {
    refuse(
        "UNIQUE",
        "make the columns the PRIMARY KEY of the table, or of a second table with a row for each value",
    )
}

fn refuse_foreign_key<T>() -> Result<T, EngineError> {
    refuse(
        "a foreign key",
        "leave REFERENCES out, and insert only what is there: INSERT … SELECT … WHERE EXISTS (…)",
    )
}

fn new_check(
    name: Option<&Ident>,
    column: Option<String>,
    check: &CheckConstraint,
) -> Result<NewCheck, EngineError> {
    if check.enforced == Some(false) {
        return refuse("CHECK … NOT ENFORCED", "leave the constraint out");
    }
    Ok(NewCheck {
        name: name.map(identifier),
        column,
        condition: (*check.expr).clone(),
    })
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

/// Adds a check to the rules of a table.
///
/// # Errors
/// There is a constraint of its name.
pub(super) fn add_check(
    table: &str,
    rules: &mut Vec<TableRule>,
    check: &NewCheck,
) -> Result<(), EngineError> {
    let mut condition = check.condition.clone();
    let _ = walk_mut(&mut condition, &mut Unqualified(table));
    let name = match &check.name {
        Some(name) if is_taken(rules, name) => {
            return Err(EngineError::Exists {
                kind: "constraint",
                name: name.clone(),
                instead: "choose another name",
            });
        }
        Some(name) => name.clone(),
        None => free_name(table, rules, check, &condition),
    };
    rules.push(TableRule::Check {
        name,
        condition: condition.to_string(),
    });
    Ok(())
}

/// Returns true if there is a constraint of this name.
pub(super) fn is_taken(rules: &[TableRule], name: &str) -> bool {
    let is_named = |rule: &TableRule| matches!(rule, TableRule::Check { name: other, .. } if other == name);
    rules.iter().any(is_named)
}

/// Returns a name as PostgreSQL gives it: of the table and of the column, if it is about one, with a number
/// if that is taken.
fn free_name(table: &str, rules: &[TableRule], check: &NewCheck, condition: &Expr) -> String {
    let column = check.column.clone().or_else(|| {
        let mut used = names_in(condition).into_iter();
        used.next().filter(|_| used.next().is_none())
    });
    let stem = match column {
        Some(column) => format!("{table}_{column}_check"),
        None => format!("{table}_check"),
    };
    let numbered = (1u64..).map(|number| format!("{stem}{number}"));
    let mut names = std::iter::once(stem.clone()).chain(numbered);
    names.find(|name| !is_taken(rules, name)).unwrap_or_default()
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
        let check = NewCheck {
            name: None,
            column: None,
            condition: parsed(condition).unwrap(),
        };
        add_check(table, rules, &check).unwrap();
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
