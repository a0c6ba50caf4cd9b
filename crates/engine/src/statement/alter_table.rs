//! `ALTER TABLE`.

use datafusion::sql::sqlparser::ast::{self, AlterTableOperation, Expr, RenameTableNameKind};
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, object_name, refuse};
use halocline_sql::sql_types::read_field;

use super::columns::without_default;
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_changes::{Alter, Alteration};
use crate::QueryResult;

/// `ALTER TABLE` in the list of statements.
pub(super) const ALTER_TABLE: StatementKind = StatementKind {
    name: "ALTER TABLE",
    example: "ALTER TABLE t ADD COLUMN b int",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// An `ALTER TABLE` as parsed.
#[derive(Debug)]
pub(super) struct AlterTableStatement(Alter);

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
    let [operation] = alter.operations.as_slice() else {
        return refuse(
            "ALTER TABLE with several changes",
            "send them one by one, within BEGIN and COMMIT",
        );
    };
    if alter.only || alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
        return refuse("an option of ALTER TABLE", "write ALTER TABLE t …");
    }
    let what = match operation {
        AlterTableOperation::AddColumn {
            column_def,
            if_not_exists,
            column_position: None,
            ..
        } => {
            let (column, default) = without_default(column_def);
            let wrong = |reason| EngineError::Query(format!("ADD COLUMN {}: {reason}", column_def.name));
            Alteration::AddColumn {
                field: read_field(&column).map_err(wrong)?,
                default: default.map(Box::new),
                if_not_exists: *if_not_exists,
            }
        }
        AlterTableOperation::RenameTable {
            table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
        } => Alteration::Rename(object_name(name)?),
        AlterTableOperation::RenameColumn {
            old_column_name,
            new_column_name,
        } => Alteration::RenameColumn {
            from: identifier(old_column_name),
            to: identifier(new_column_name),
        },
        AlterTableOperation::ClusterBy { exprs } => {
            let column = |expr: &Expr| match expr {
                Expr::Identifier(ident) => Ok(identifier(ident)),
                other => refuse(format!("CLUSTER BY {other}"), "name columns of the table"),
            };
            Alteration::Cluster(exprs.iter().map(column).collect::<Result<_, _>>()?)
        }
        AlterTableOperation::DropClusteringKey => Alteration::Cluster(Vec::new()),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return refuse(
                format!("ALTER TABLE … {}", words.join(" ")),
                "there are ADD COLUMN, RENAME TO, RENAME COLUMN and CLUSTER BY; for others write the table anew: \
                 CREATE OR REPLACE TABLE t AS SELECT …",
            );
        }
    };
    boxed(AlterTableStatement(Alter {
        table: object_name(&alter.name)?,
        if_exists: alter.if_exists,
        what,
    }))
}
