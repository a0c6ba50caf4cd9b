//! Access to the key-value stores of a database.

use halocline_sql::EngineError;
use halocline_sql::cancel::NEVER;
use halocline_store::{Store, Stores};

use crate::Database;

impl Database {
    /// Opens the key-value stores of the pool through this handle; later calls return the same. While they
    /// are open, no other handle can open them for writing: the call waits for that up to
    /// [`DatabaseOptions::lock_wait`](crate::DatabaseOptions::lock_wait).
    ///
    /// # Errors
    /// The stores are damaged or open elsewhere; the pool cannot be written.
    pub fn stores(&self) -> Result<Stores, EngineError> {
        self.engine.stores.stores(self.engine.lock_wait(), &NEVER)
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
