//! The list of columns and constraints of `CREATE TABLE` as parsed.

use arrow_schema::SchemaRef;
use datafusion::sql::sqlparser::ast::{self, ColumnDef, ColumnOption, Expr, TableConstraint};
use halocline_columns::TableRule;
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, object_name, refuse};
use halocline_sql::sql_types::read_columns;

use super::constraints::{add_constraint, length_of, read_constraint, take_constraints};

/// A list of columns and constraints.
pub(super) struct ListedColumns {
    /// The columns, without their defaults and constraints but NOT NULL.
    pub(super) columns: Vec<ColumnDef>,
    /// The default of each.
    pub(super) defaults: Vec<Option<Expr>>,
    /// The columns of the primary key; empty if there is no key.
    pub(super) key: Vec<String>,
    /// The rules that the rows obey.
    pub(super) rules: Vec<TableRule>,
}

impl ListedColumns {
    /// Reads the list of a statement.
    ///
    /// # Errors
    /// There are two primary keys, two constraints of one name, or constraints of another kind.
    pub(super) fn read(create: &ast::CreateTable) -> Result<Self, EngineError> {
        let table = object_name(&create.name)?;
        let (mut key, others) = primary_key(&create.constraints)?;
        let (mut rules, mut constraints) = (Vec::new(), Vec::new());
        let (mut columns, defaults): (Vec<_>, Vec<_>) = create.columns.iter().map(without_default).unzip();
        for column in &mut columns {
            constraints.append(&mut take_constraints(column)?);
            rules.extend(length_of(&column.data_type).map(|characters| TableRule::Length {
                column: identifier(&column.name),
                characters,
            }));
            let options = column.options.len();
            column
                .options
                .retain(|option| !matches!(option.option, ColumnOption::PrimaryKey(_)));
            if column.options.len() == options {
                continue;
            }
            if !key.is_empty() {
                let instead = "for several columns write PRIMARY KEY (a, b) after the columns";
                return refuse("PRIMARY KEY twice", instead);
            }
            key = vec![identifier(&column.name)];
        }
        for constraint in others {
            constraints.push(read_constraint(constraint)?);
        }
        for constraint in &constraints {
            add_constraint(&table, &mut rules, constraint)?;
        }
        Ok(Self {
            columns,
            defaults,
            key,
            rules,
        })
    }

    /// Returns the columns.
    ///
    /// # Errors
    /// There are none; one cannot be stored, or has an option that is not offered.
    pub(super) fn schema(&self, table: &str) -> Result<SchemaRef, EngineError> {
        let wrong = |reason| EngineError::Query(format!("CREATE TABLE {table}: {reason}"));
        read_columns(&self.columns).map_err(wrong)
    }
}

/// Returns the columns of the primary key among the constraints, none if there is no key, and the others.
fn primary_key(constraints: &[TableConstraint]) -> Result<(Vec<String>, Vec<&TableConstraint>), EngineError> {
    let (mut key, mut others) = (Vec::new(), Vec::new());
    for constraint in constraints {
        let TableConstraint::PrimaryKey(primary) = constraint else {
            others.push(constraint);
            continue;
        };
        if !key.is_empty() {
            return refuse("PRIMARY KEY twice", "write PRIMARY KEY (a, b)");
        }
        for column in &primary.columns {
            match &column.column.expr {
                Expr::Identifier(name) if column.column.options.asc != Some(false) => {
                    key.push(identifier(name));
                }
                other => {
                    return refuse(format!("PRIMARY KEY ({other})"), "name columns, without DESC");
                }
            }
        }
    }
    Ok((key, others))
}

/// Returns a column without its default, and the default.
pub(super) fn without_default(column: &ColumnDef) -> (ColumnDef, Option<Expr>) {
    let mut column = column.clone();
    let mut default = None;
    column.options.retain(|option| match &option.option {
        ColumnOption::Default(value) => {
            default = Some(value.clone());
            false
        }
        _ => true,
    });
    (column, default)
}
