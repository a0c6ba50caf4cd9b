//! Execution of `PREPARE`, `EXECUTE` and `DEALLOCATE`.

use arrow_schema::DataType;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::Expr;
use halocline_sql::EngineError;

use super::run::StatementRun;
use crate::QueryResult;
use crate::prepared::{PreparedBody, evaluated, literals};

impl StatementRun<'_> {
    /// Prepares a statement for the session under a name.
    ///
    /// # Errors
    /// The name is taken; those of [`PreparedBody::new`].
    pub(super) async fn prepare(
        &self,
        name: String,
        types: Option<Vec<DataType>>,
        statement: Parsed,
    ) -> Result<String, EngineError> {
        let body = PreparedBody::new(self.session, self.engine, statement, types, self.stack).await?;
        self.session.prepared().add(&name, body)?;
        Ok(format!("prepared statement {name}"))
    }

    /// Runs a prepared statement of the session.
    ///
    /// # Errors
    /// There is none of this name; an argument is no constant; those of [`PreparedBody::execute`].
    pub(super) async fn execute(&self, name: &str, given: Vec<Expr>) -> Result<QueryResult, EngineError> {
        let body = self.session.prepared().get(name)?;
        let values = match literals(&given) {
            Some(values) => values,
            None => evaluated(&self.session.schema_planner(self.engine)?, given).await?,
        };
        body.execute(self.session, self.engine, values).await
    }

    /// Removes a prepared statement of the session, or all of them.
    ///
    /// # Errors
    /// There is none of this name.
    pub(super) fn deallocate(&self, name: Option<String>) -> Result<String, EngineError> {
        let prepared = self.session.prepared();
        match name {
            Some(name) => {
                prepared.remove(&name)?;
                Ok(format!("removed prepared statement {name}"))
            }
            None => Ok(format!("removed {} prepared statements", prepared.clear())),
        }
    }
}
