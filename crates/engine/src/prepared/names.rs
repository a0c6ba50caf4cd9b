//! The statements that a session has prepared with `PREPARE`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halocline_sql::EngineError;
use halocline_sql::error::known_names;

use super::body::PreparedBody;

/// Prepared statements by name.
#[derive(Default)]
pub(crate) struct PreparedNames(Mutex<BTreeMap<String, Arc<PreparedBody>>>);

impl PreparedNames {
    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Arc<PreparedBody>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a statement.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<PreparedBody>, EngineError> {
        let names = self.names();
        names.get(name).cloned().ok_or_else(|| no_statement(name, &names))
    }

    /// Adds a statement.
    ///
    /// # Errors
    /// There is one of this name.
    pub(crate) fn add(&self, name: &str, body: PreparedBody) -> Result<(), EngineError> {
        let mut names = self.names();
        if names.contains_key(name) {
            return Err(EngineError::Exists {
                kind: "prepared statement",
                name: name.to_owned(),
                instead: "remove it with DEALLOCATE first, or choose another name",
            });
        }
        names.insert(name.to_owned(), Arc::new(body));
        Ok(())
    }

    /// Removes a statement.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn remove(&self, name: &str) -> Result<(), EngineError> {
        let mut names = self.names();
        match names.remove(name) {
            Some(_) => Ok(()),
            None => Err(no_statement(name, &names)),
        }
    }

    /// Removes all statements and returns their number.
    pub(crate) fn clear(&self) -> usize {
        std::mem::take(&mut *self.names()).len()
    }
}

fn no_statement(name: &str, names: &BTreeMap<String, Arc<PreparedBody>>) -> EngineError {
    let known: Vec<String> = names.keys().cloned().collect();
    EngineError::NoPreparedStatement {
        name: name.to_owned(),
        known: known_names("prepared statements", &known),
    }
}
