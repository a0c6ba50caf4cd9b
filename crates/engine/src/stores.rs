//! Key-value stores of the open database, and the tables with a primary key in them: see
//! [`Database::store`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use halocline_keyed::KeyedTables;
use halocline_pool::Pool;
use halocline_store::{Store, Stores};

use crate::{Database, EngineError};

/// The stores of the pool, opened when they are first needed.
#[derive(Debug)]
pub(crate) struct OpenStores {
    pool: Pool,
    opened: Mutex<Opened>,
    /// Locked for writing while a transaction that has changed both kinds of tables is visible in one of them
    /// only.
    moment: RwLock<()>,
}

#[derive(Debug, Default)]
struct Opened {
    stores: Option<Stores>,
    tables: Option<Arc<KeyedTables>>,
}

impl OpenStores {
    pub(crate) fn new(pool: &Pool) -> Self {
        Self {
            pool: pool.clone(),
            opened: Mutex::default(),
            moment: RwLock::default(),
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a guard under which versions of tables with and without a primary key are of one moment.
    pub(crate) fn moment(&self) -> RwLockReadGuard<'_, ()> {
        self.moment.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a guard under which a transaction becomes visible in both kinds of tables.
    pub(crate) fn commit_moment(&self) -> RwLockWriteGuard<'_, ()> {
        self.moment.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stores if they are open.
    pub(crate) fn if_open(&self) -> Option<Stores> {
        self.opened().stores.clone()
    }

    /// Returns the stores, which are created if the pool has none.
    ///
    /// # Errors
    /// They are damaged or open elsewhere; the pool cannot be written.
    pub(crate) fn stores(&self) -> Result<Stores, EngineError> {
        Ok(self.opened().stores(&self.pool)?.clone())
    }

    /// Returns the tables with a primary key, for creating one.
    ///
    /// # Errors
    /// Those of [`stores`](Self::stores); the list of tables is damaged.
    pub(crate) fn tables(&self) -> Result<Arc<KeyedTables>, EngineError> {
        self.opened().tables(&self.pool)
    }

    /// Returns the tables with a primary key; none if the pool has no stores.
    ///
    /// # Errors
    /// Those of [`tables`](Self::tables).
    pub(crate) fn existing_tables(&self) -> Result<Option<Arc<KeyedTables>>, EngineError> {
        let mut opened = self.opened();
        if opened.stores.is_none() && !Stores::exist_in(&self.pool)? {
            return Ok(None);
        }
        opened.tables(&self.pool).map(Some)
    }
}

impl Opened {
    fn stores(&mut self, pool: &Pool) -> Result<&Stores, EngineError> {
        let opened = match self.stores.take() {
            Some(stores) => stores,
            None => Stores::open(pool)?,
        };
        Ok(self.stores.insert(opened))
    }

    fn tables(&mut self, pool: &Pool) -> Result<Arc<KeyedTables>, EngineError> {
        if let Some(tables) = &self.tables {
            return Ok(Arc::clone(tables));
        }
        let tables = Arc::new(KeyedTables::open(self.stores(pool)?)?);
        self.tables = Some(Arc::clone(&tables));
        Ok(tables)
    }
}

impl Database {
    /// Opens the key-value stores of the pool through this handle; later calls return the same. While they
    /// are open, no other handle can open them.
    ///
    /// # Errors
    /// The stores are damaged or open elsewhere; the pool cannot be written.
    pub fn stores(&self) -> Result<Stores, EngineError> {
        self.engine.stores.stores()
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
