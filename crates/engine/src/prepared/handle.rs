//! Prepared statements of the Rust interface: [`Database::prepare`].

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use halocline_sql::EngineError;
use halocline_sql::stack::OnLargeStack;

use super::body::PreparedBody;
use crate::statement::parse_unbound;
use crate::{Database, QueryResult};

/// A statement that is parsed once and run any number of times with values for its parameters. Made by
/// [`Database::prepare`].
///
/// It belongs to the session that prepared it: it runs in its transaction and with its settings, and sees the
/// newest version of the database each time. Cheap to clone; clones may run at the same time.
#[derive(Clone)]
pub struct PreparedStatement {
    db: Database,
    body: Arc<PreparedBody>,
}

impl std::fmt::Debug for PreparedStatement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedStatement")
            .field("parameters", &self.body.types())
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Prepares a `SELECT`, `INSERT`, `UPDATE` or `DELETE` with parameters, written as `$1`, `$2` and so on
    /// or as `?`. A query of one table is planned when it first runs with values of some types; later
    /// executions only choose the access path, for the values that they have. The answers are those of
    /// [`sql_with`](Self::sql_with). Needs a tokio runtime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use halocline_engine::{Database, DatabaseOptions, EngineError, params};
    /// # let db = Database::in_memory(&DatabaseOptions::default())?;
    /// db.sql("CREATE TABLE stock (item TEXT, pieces INT)").await?;
    /// let insert = db.prepare("INSERT INTO stock VALUES (?, ?)").await?;
    /// for (item, pieces) in [("nails", 40), ("screws", 7)] {
    ///     insert.execute(params![item, pieces]).await?;
    /// }
    /// let few = db.prepare("SELECT item FROM stock WHERE pieces < $1").await?;
    /// assert_eq!(few.execute([10]).await?.collect().await?[0].num_rows(), 1);
    /// assert!(matches!(few.execute(["many"]).await, Err(EngineError::Parameter { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The statement cannot be parsed or planned, or is of another kind; [`EngineError::Parameter`]: the
    /// parameters are not numbered one after the other, or are of both kinds.
    pub async fn prepare(&self, text: &str) -> Result<PreparedStatement, EngineError> {
        let stack = self.session.stack_for_text(&self.engine, text);
        let prepare = async {
            let statement = parse_unbound(text)?;
            PreparedBody::new(&self.session, &self.engine, statement, None, stack).await
        };
        Ok(PreparedStatement {
            body: Arc::new(OnLargeStack::new(stack, prepare).await?),
            db: self.clone(),
        })
    }
}

impl PreparedStatement {
    /// Returns the types of the parameters, in their order: of those that a query compares with a column the
    /// type of the column. `None` for the others, which take any value.
    #[must_use]
    pub fn parameter_types(&self) -> Vec<Option<DataType>> {
        self.body.types()
    }

    /// Runs the statement with values for its parameters, as [`Database::sql_with`] does.
    /// [`params!`](crate::params) makes values of several types. NULL is a value of each type.
    ///
    /// # Errors
    /// [`EngineError::Parameter`]: there are more or fewer values than parameters, or a value cannot be
    /// compared with its parameter's type; those of [`Database::sql`].
    pub async fn execute<V: Into<ScalarValue>>(
        &self,
        values: impl IntoIterator<Item = V>,
    ) -> Result<QueryResult, EngineError> {
        let values = values.into_iter().map(Into::into).collect();
        self.body.execute(&self.db.session, &self.db.engine, values).await
    }
}
