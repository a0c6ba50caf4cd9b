//! `ALTER TABLE`.

use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, Expr, RenameTableNameKind, TableConstraint,
};
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, object_name, refuse};
use halocline_sql::sql_types::{self, read_field};

use super::columns::without_default;
use super::constraints::{length_of, read_constraint, take_constraints};
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_changes::{Alter, Alteration, Alterations};
use crate::QueryResult;

/// `ALTER TABLE` in the list of statements.
pub(super) const ALTER_TABLE: StatementKind = StatementKind {
    name: "ALTER TABLE",
    example: "ALTER TABLE t ADD COLUMN b int",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// An `ALTER TABLE` as parsed.
#[derive(Debug)]
pub(super) struct AlterTableStatement(pub(super) Alter);

impl RunStatement for AlterTableStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self(alter) = *self;
        Box::pin(async move {
            let table = run.table(&alter.table).await?;
            let message = table.alter(&run, alter).await?;
            Ok(QueryResult::done(message))
        })
    }
}

/// Parses `ALTER TABLE`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::AlterTable(alter) = statement else {
        return Ok(None);
    };
    if alter.only || alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
        return refuse("an option of ALTER TABLE", "write ALTER TABLE t …");
    }
    let what = match alter.operations.as_slice() {
        [
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            },
        ] => Alterations::Rename(object_name(name)?),
        operations => {
            let mut alterations = Vec::new();
            for operation in operations {
                read_operation(operation, &mut alterations)?;
            }
            Alterations::Definition(alterations)
        }
    };
    boxed(AlterTableStatement(Alter {
        table: object_name(&alter.name)?,
        if_exists: alter.if_exists,
        what,
    }))
}

/// Reads one change of a definition.
///
/// # Errors
/// It is not offered.
fn read_operation(operation: &AlterTableOperation, into: &mut Vec<Alteration>) -> Result<(), EngineError> {
    match operation {
        AlterTableOperation::AddColumn {
            column_def,
            if_not_exists,
            column_position: None,
            ..
        } => {
            let (mut column, default) = without_default(column_def);
            let constraints = take_constraints(&mut column)?;
            let wrong = |reason| EngineError::Query(format!("ADD COLUMN {}: {reason}", column_def.name));
            into.push(Alteration::AddColumn {
                field: read_field(&column).map_err(wrong)?,
                default: default.map(Box::new),
                length: length_of(&column.data_type),
                constraints,
                if_not_exists: *if_not_exists,
            });
        }
        AlterTableOperation::DropColumn {
            column_names,
            if_exists,
            ..
        } => into.extend(column_names.iter().map(|column| Alteration::DropColumn {
            column: identifier(column),
            if_exists: *if_exists,
        })),
        AlterTableOperation::RenameColumn {
            old_column_name,
            new_column_name,
        } => into.push(Alteration::RenameColumn {
            from: identifier(old_column_name),
            to: identifier(new_column_name),
        }),
        AlterTableOperation::AlterColumn { column_name, op } => {
            into.push(read_column_operation(identifier(column_name), op)?);
        }
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::PrimaryKey(_),
            ..
        } => {
            return refuse(
                "ALTER TABLE … ADD PRIMARY KEY",
                "write the table anew: CREATE TABLE u (PRIMARY KEY (…)) AS SELECT * FROM t",
            );
        }
        AlterTableOperation::AddConstraint { not_valid: true, .. } => {
            return refuse("NOT VALID", "correct the rows first, then add the constraint");
        }
        AlterTableOperation::AddConstraint { constraint, .. } => {
            into.push(Alteration::AddConstraint(read_constraint(constraint)?));
        }
        AlterTableOperation::DropConstraint { if_exists, name, .. } => {
            into.push(Alteration::DropConstraint {
                name: identifier(name),
                if_exists: *if_exists,
            });
        }
        AlterTableOperation::ClusterBy { exprs } => {
            let column = |expr: &Expr| match expr {
                Expr::Identifier(ident) => Ok(identifier(ident)),
                other => refuse(format!("CLUSTER BY {other}"), "name columns of the table"),
            };
            let columns = exprs.iter().map(column).collect::<Result<_, _>>()?;
            into.push(Alteration::Cluster(columns));
        }
        AlterTableOperation::DropClusteringKey => into.push(Alteration::Cluster(Vec::new())),
        AlterTableOperation::RenameTable { .. } => {
            return refuse(
                "RENAME TO beside other changes in ALTER TABLE",
                "send it on its own, within BEGIN and COMMIT",
            );
        }
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return refuse(
                format!("ALTER TABLE … {}", words.join(" ")),
                "there are ADD, DROP, ALTER and RENAME of columns, ADD and DROP CONSTRAINT, RENAME TO and CLUSTER BY; \
                 for others write the table anew: CREATE OR REPLACE TABLE t AS SELECT …",
            );
        }
    }
    Ok(())
}

/// Reads a change of one column.
///
/// # Errors
/// It is not offered; the type cannot be stored.
fn read_column_operation(
    column: String,
    operation: &AlterColumnOperation,
) -> Result<Alteration, EngineError> {
    Ok(match operation {
        AlterColumnOperation::SetNotNull => Alteration::SetNullable {
            column,
            nullable: false,
        },
        AlterColumnOperation::DropNotNull => Alteration::SetNullable {
            column,
            nullable: true,
        },
        AlterColumnOperation::SetDefault { value } => Alteration::SetDefault {
            column,
            default: Some(Box::new(value.clone())),
        },
        AlterColumnOperation::DropDefault => Alteration::SetDefault {
            column,
            default: None,
        },
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            let wrong = |reason| EngineError::Query(format!("ALTER COLUMN {column} TYPE: {reason}"));
            Alteration::SetType {
                data_type: sql_types::data_type(data_type).map_err(wrong)?,
                length: length_of(data_type),
                using: using.clone().map(Box::new),
                column,
            }
        }
        AlterColumnOperation::AddGenerated { .. } => {
            return refuse(
                "ADD GENERATED",
                "compute the column in the statements that write, or in those that read",
            );
        }
    })
}
