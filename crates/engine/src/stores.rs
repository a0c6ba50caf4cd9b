//! Key-value stores of the open database: see [`Database::store`].

use std::sync::{Mutex, PoisonError};

use halocline_store::{Store, Stores};

use crate::{Database, EngineError};

/// The stores of the pool, once they have been opened.
#[derive(Debug, Default)]
pub(crate) struct OpenStores(Mutex<Option<Stores>>);

impl Database {
    /// Opens the key-value stores of the pool through this handle; later calls return the same. While they
    /// are open, no other handle can open them.
    ///
    /// # Errors
    /// The stores are damaged or open elsewhere; the pool cannot be written.
    pub fn stores(&self) -> Result<Stores, EngineError> {
        let mut open = self
            .engine
            .stores
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(stores) = &*open {
            return Ok(stores.clone());
        }
        let stores = Stores::open(&self.engine.pool)?;
        *open = Some(stores.clone());
        Ok(stores)
    }

    /// Opens a key-value store of the pool, which is created durably if there is none of this name.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use halocline_engine::{Database, DatabaseOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::create(&directory.path().join("p"), &DatabaseOptions::default())?;
    /// let sessions = db.store("sessions")?;
    /// sessions.put("user/17", "logged in")?;
    /// assert_eq!(sessions.get("user/17")?.as_deref(), Some(&b"logged in"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`stores`](Self::stores); the name is empty or too long.
    pub fn store(&self, name: &str) -> Result<Store, EngineError> {
        Ok(self.stores()?.store(name)?)
    }
}
