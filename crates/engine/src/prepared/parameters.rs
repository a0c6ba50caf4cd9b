//! The parameters of a prepared statement: which of them a plan leaves open, and their types.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Expr, Value, VisitorMut};
use halocline_sql::EngineError;
use halocline_sql::syntax::visit_mut;

use super::operands::{for_each_operand, parameter_number};
use super::values::{check, check_count, convert};

/// The parameters of a statement.
pub(super) struct Parameters {
    /// For each, whether it is an operand and nothing else, so that a plan can be made without its value.
    open: Vec<bool>,
    /// The declared types; `None` if no types were declared.
    declared: Option<Vec<DataType>>,
    /// The types that follow from the statement, as far as they do.
    inferred: Mutex<Vec<Option<DataType>>>,
}

impl Parameters {
    /// Returns the parameters of a statement, which is left as it is.
    ///
    /// # Errors
    /// [`EngineError::Parameter`]: they are not numbered one after the other, or there are more or fewer of
    /// them than declared types.
    pub(super) fn from_statement(
        statement: &mut Parsed,
        declared: Option<Vec<DataType>>,
    ) -> Result<Self, EngineError> {
        let open = open_parameters(statement)?;
        if let Some(declared) = &declared
            && declared.len() != open.len()
        {
            return Err(EngineError::Parameter {
                name: format!("${}", declared.len().min(open.len()) + 1),
                reason: format!(
                    "the statement has {} parameters, and {} types are declared",
                    open.len(),
                    declared.len()
                ),
            });
        }
        Ok(Self {
            inferred: Mutex::new(vec![None; open.len()]),
            declared,
            open,
        })
    }

    /// Returns, for each parameter, whether a plan can be made without its value.
    pub(super) fn open(&self) -> &[bool] {
        &self.open
    }

    /// Returns a NULL for each parameter.
    pub(super) fn nulls(&self) -> Vec<ScalarValue> {
        vec![ScalarValue::Null; self.open.len()]
    }

    /// Returns the types as far as they are known.
    pub(super) fn types(&self) -> Vec<Option<DataType>> {
        match &self.declared {
            Some(declared) => declared.iter().cloned().map(Some).collect(),
            None => self.inferred().clone(),
        }
    }

    fn inferred(&self) -> MutexGuard<'_, Vec<Option<DataType>>> {
        self.inferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the types that follow from the statement, by name of the parameter.
    pub(super) fn infer(&self, mut types: HashMap<String, Option<DataType>>) {
        for (at, data_type) in self.inferred().iter_mut().enumerate() {
            *data_type = types.remove(&format!("${}", at + 1)).flatten();
        }
    }

    /// Returns values as the types demand them: converted to declared types, else as they are.
    ///
    /// # Errors
    /// [`EngineError::Parameter`]: there are more or fewer values than parameters, or one has a wrong type.
    pub(super) fn checked(&self, given: &[ScalarValue]) -> Result<Vec<ScalarValue>, EngineError> {
        check_count(self.open.len(), given.len())?;
        if let Some(declared) = &self.declared {
            let pairs = given.iter().zip(declared).enumerate();
            return pairs
                .map(|(at, (value, to))| convert(at + 1, value, to))
                .collect();
        }
        for (at, (value, expected)) in given.iter().zip(self.inferred().iter()).enumerate() {
            if let Some(expected) = expected {
                check(at + 1, value, expected)?;
            }
        }
        Ok(given.to_vec())
    }
}

/// Returns, for each parameter, whether it is an operand and nothing else.
///
/// # Errors
/// [`EngineError::Parameter`]: parameters are not numbered one after the other.
fn open_parameters(statement: &mut Parsed) -> Result<Vec<bool>, EngineError> {
    let mut uses = ParameterUses::default();
    if let ControlFlow::Break(error) = visit_mut(statement, &mut uses) {
        return Err(error);
    }
    if let Some(unused) = uses.0.iter().position(|uses| *uses == 0) {
        return Err(EngineError::Parameter {
            name: format!("${}", unused + 1),
            reason: format!(
                "it is not in the statement, which has ${}; number parameters from $1",
                uses.0.len()
            ),
        });
    }
    let mut others = uses.0;
    for_each_operand(statement, &mut |expr| {
        if let Some(number) = parameter_number(expr) {
            others[number - 1] -= 1;
        }
    });
    Ok(others.into_iter().map(|others| others == 0).collect())
}

/// The number of uses of each parameter.
#[derive(Default)]
struct ParameterUses(Vec<usize>);

impl VisitorMut for ParameterUses {
    type Break = EngineError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        /// Parameters of one statement.
        const MAX_PARAMETERS: usize = 65_535;
        let Expr::Value(value) = &*expr else {
            return ControlFlow::Continue(());
        };
        let Value::Placeholder(name) = &value.value else {
            return ControlFlow::Continue(());
        };
        let Some(number) = parameter_number(expr).filter(|number| (1..=MAX_PARAMETERS).contains(number))
        else {
            return ControlFlow::Break(EngineError::Parameter {
                name: name.clone(),
                reason: format!(
                    "write parameters as $1, $2 and so on, or as ?; there may be {MAX_PARAMETERS}"
                ),
            });
        };
        if self.0.len() < number {
            self.0.resize(number, 0);
        }
        self.0[number - 1] += 1;
        ControlFlow::Continue(())
    }
}
