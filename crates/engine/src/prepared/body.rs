//! A prepared statement: its syntax tree, its parameters, and the templates for the types of values that it
//! was run with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::parser::{ResetStatement, Statement as Parsed};
use datafusion::sql::sqlparser::ast;
use halocline_catalog::context::EngineContext;
use halocline_sql::EngineError;
use halocline_sql::parameters::{bind as bind_parameters, bind_some};
use halocline_sql::stack::{OnLargeStack, StackSize};

use super::parameters::Parameters;
use super::template::QueryTemplate;
use super::values;
use crate::QueryResult;
use crate::session::{DatabaseSession, StatementTimes};
use crate::statement::{self, BoxedStatement, TextRun};

/// Templates of one statement.
const MAX_TEMPLATES: usize = 8;

/// A prepared statement.
pub(crate) struct PreparedBody {
    statement: Parsed,
    is_query: bool,
    stack: StackSize,
    parameters: Parameters,
    /// The oldest one first; `None` where a statement has no template for these values.
    templates: Mutex<Vec<(TemplateKey, Option<Arc<QueryTemplate>>)>>,
}

/// The types and values that a template depends on, apart from the statement.
#[derive(PartialEq, Eq)]
struct TemplateKey {
    settings: u64,
    /// For each parameter its type if it is open, else its value.
    parameters: Vec<ParameterKey>,
}

#[derive(PartialEq, Eq)]
enum ParameterKey {
    Type(DataType),
    Value(ScalarValue),
}

impl Drop for PreparedBody {
    fn drop(&mut self) {
        // A statement may nest deeply.
        let nothing = Parsed::Reset(ResetStatement::Variable(ast::ObjectName(Vec::new())));
        let statement = std::mem::replace(&mut self.statement, nothing);
        self.stack.call(|| drop(statement));
    }
}

impl PreparedBody {
    /// Prepares a statement, whose parameters have the declared types if there are any.
    ///
    /// # Errors
    /// The statement is not of a kind that can be prepared, or cannot be planned; the parameters are not
    /// numbered one after the other, or there are more or fewer of them than types.
    pub(crate) async fn new(
        session: &DatabaseSession,
        engine: &EngineContext,
        mut statement: Parsed,
        declared: Option<Vec<DataType>>,
        stack: StackSize,
    ) -> Result<Self, EngineError> {
        let is_query = match &statement {
            Parsed::Statement(inner) => match &**inner {
                ast::Statement::Query(_) => true,
                ast::Statement::Insert(_) | ast::Statement::Update(_) | ast::Statement::Delete(_) => false,
                _ => return Err(cannot_be_prepared()),
            },
            _ => return Err(cannot_be_prepared()),
        };
        let body = Self {
            parameters: Parameters::from_statement(&mut statement, declared)?,
            is_query,
            stack,
            templates: Mutex::default(),
            statement,
        };
        if is_query {
            body.infer(session, engine).await?
        } else {
            // Reports what is not offered.
            drop(body.bound(&body.parameters.nulls())?)
        }
        Ok(body)
    }

    /// Returns the types of the parameters as far as they are known.
    pub(crate) fn types(&self) -> Vec<Option<DataType>> {
        self.parameters.types()
    }

    /// Runs the statement with values for its parameters.
    ///
    /// # Errors
    /// [`EngineError::Parameter`]: there are more or fewer values than parameters, or one has a wrong type;
    /// those of the statement.
    pub(crate) async fn execute(
        &self,
        session: &Arc<DatabaseSession>,
        engine: &Arc<EngineContext>,
        values: Vec<ScalarValue>,
    ) -> Result<QueryResult, EngineError> {
        let values = self.checked(session, engine, values).await?;
        let literals = self.literals(&values);
        if let Some(literals) = &literals
            && let Some(Some(template)) = self.template(&self.key(session, &values, literals))
            && let Some(result) = run_template(session, engine, &template, literals).await?
        {
            return Ok(result);
        }
        let stack = self.stack(session, engine);
        OnLargeStack::new(stack, async move {
            if let Some(literals) = &literals
                && let Some(template) = self.plan(session, engine, &values, literals).await
                && let Some(result) = run_template(session, engine, &template, literals).await?
            {
                return Ok(result);
            }
            let statement = self.bound(&values)?;
            statement::run(session, engine, statement, TextRun::new(stack)).await
        })
        .await
    }

    /// Returns the size of the stack that the statement needs with the views that it names, whose texts may
    /// have changed.
    fn stack(&self, session: &DatabaseSession, engine: &EngineContext) -> StackSize {
        self.stack.max(session.stack_for_views(engine, &self.statement))
    }

    /// Returns the statement with values in place of its parameters.
    fn bound(&self, values: &[ScalarValue]) -> Result<BoxedStatement, EngineError> {
        let mut statement = self.statement.clone();
        bind_parameters(&mut statement, values)?;
        statement::from_tree(statement)
    }

    /// Returns the values as the types of the parameters demand them.
    async fn checked(
        &self,
        session: &DatabaseSession,
        engine: &EngineContext,
        given: Vec<ScalarValue>,
    ) -> Result<Vec<ScalarValue>, EngineError> {
        if self.is_query && self.parameters.checked(&given).is_err() {
            // The table may be another one now.
            let stack = self.stack(session, engine);
            OnLargeStack::new(stack, self.infer(session, engine)).await?;
        }
        self.parameters.checked(&given)
    }

    /// Infers the types of the parameters, as far as they follow from the statement.
    ///
    /// # Errors
    /// The statement cannot be planned, whatever the values are.
    async fn infer(&self, session: &DatabaseSession, engine: &EngineContext) -> Result<(), EngineError> {
        let planner = session.schema_planner(engine)?;
        let Ok(plan) = planner.plan(self.statement.clone()).await else {
            // Some expressions need the type of a parameter.
            let mut statement = self.statement.clone();
            bind_parameters(&mut statement, &self.parameters.nulls())?;
            return planner.plan(statement).await.map(drop);
        };
        if let Ok(types) = plan.get_parameter_types() {
            self.parameters.infer(types);
        }
        Ok(())
    }

    /// Returns the values as literals are planned; `None` if there is a NULL among them, or a value whose
    /// literal is an expression.
    fn literals(&self, values: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
        let pairs = values.iter().zip(self.parameters.open());
        let literals = pairs.map(|(value, open)| {
            if *open {
                values::as_literal(value)
            } else {
                Some(ScalarValue::Null)
            }
        });
        literals.collect::<Option<_>>().filter(|_| self.is_query)
    }

    fn key(
        &self,
        session: &DatabaseSession,
        values: &[ScalarValue],
        literals: &[ScalarValue],
    ) -> TemplateKey {
        let parameters = self.parameters.open().iter().zip(values).zip(literals);
        let parameters = parameters.map(|((open, value), literal)| {
            if *open {
                ParameterKey::Type(literal.data_type())
            } else {
                ParameterKey::Value(value.clone())
            }
        });
        TemplateKey {
            settings: session.states().version(),
            parameters: parameters.collect(),
        }
    }

    fn templates(&self) -> MutexGuard<'_, Vec<(TemplateKey, Option<Arc<QueryTemplate>>)>> {
        self.templates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the template for a key; `None` inside if the statement has none for it.
    fn template(&self, key: &TemplateKey) -> Option<Option<Arc<QueryTemplate>>> {
        let templates = self.templates();
        let found = templates.iter().find(|(other, _)| other == key);
        found.map(|(_, template)| template.clone())
    }

    /// Makes the template for these values; `None` if there is none.
    async fn plan(
        &self,
        session: &DatabaseSession,
        engine: &EngineContext,
        values: &[ScalarValue],
        literals: &[ScalarValue],
    ) -> Option<Arc<QueryTemplate>> {
        let key = self.key(session, values, literals);
        if let Some(None) = self.template(&key) {
            return None;
        }
        let mut statement = self.statement.clone();
        bind_some(&mut statement, values, self.parameters.open()).ok()?;
        let planner = session.schema_planner(engine).ok()?;
        let built = QueryTemplate::build(&planner, statement, literals).await;
        // A statement that cannot be planned now is planned again, which reports the error.
        let template = built.ok()?.map(Arc::new);
        let mut templates = self.templates();
        templates.retain(|(other, _)| *other != key);
        if templates.len() == MAX_TEMPLATES {
            templates.remove(0);
        }
        templates.push((key, template.clone()));
        template
    }
}

async fn run_template(
    session: &DatabaseSession,
    engine: &EngineContext,
    template: &QueryTemplate,
    values: &[ScalarValue],
) -> Result<Option<QueryResult>, EngineError> {
    let mut times = StatementTimes::start();
    let rows = session
        .run_template(engine, template, values, &mut times, false)
        .await?;
    Ok(rows.map(QueryResult::rows))
}

fn cannot_be_prepared() -> EngineError {
    EngineError::Unsupported {
        what: "preparing anything but SELECT, INSERT, UPDATE and DELETE".into(),
        instead: "send the statement itself".into(),
    }
}
