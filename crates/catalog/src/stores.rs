//! Key-value stores of the open database, and the tables with a primary key in them.
//!
//! They are opened for writing if that is possible, else for reading: the pool is opened read-only, or
//! another process writes them. What was opened for reading moves on to the newest commit with each
//! statement, and is opened for writing when a statement wants to write, which waits for the process that has
//! the stores open as it waits for another writer of the pool.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use halocline_keyed::KeyedTables;
use halocline_pool::{Pool, PoolError};
use halocline_sql::EngineError;
use halocline_store::{StoreError, Stores};

/// Interval at which a statement that waits for another process tries again, and polls its cancellation flag.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// The stores of the pool, opened when they are first needed.
#[derive(Debug)]
pub struct OpenStores {
    pool: Pool,
    opened: Mutex<Opened>,
    /// Locked for writing while a transaction that has changed both kinds of tables is visible in one of
    /// them only.
    moment: RwLock<()>,
}

#[derive(Debug, Default)]
struct Opened {
    stores: Option<Stores>,
    tables: Option<Arc<KeyedTables>>,
}

impl OpenStores {
    /// Returns the stores of a pool, none of which is open yet.
    pub fn new(pool: &Pool) -> Self {
        Self {
            pool: pool.clone(),
            opened: Mutex::default(),
            moment: RwLock::default(),
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns a guard under which versions of tables with and without a primary key are of one moment.
    pub fn moment(&self) -> RwLockReadGuard<'_, ()> {
        self.moment.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a guard under which a transaction becomes visible in both kinds of tables.
    pub fn commit_moment(&self) -> RwLockWriteGuard<'_, ()> {
        self.moment.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stores if they are open.
    pub fn if_open(&self) -> Option<Stores> {
        self.opened().stores.clone()
    }

    /// Returns the stores, which are created if the pool has none. Waits up to `wait` for another process
    /// that has them open, or until `cancel` is set; other sessions read meanwhile. Blocks.
    ///
    /// # Errors
    /// They are damaged or open elsewhere; the pool cannot be written; the caller wants the end.
    pub fn stores(&self, wait: Duration, cancel: &AtomicBool) -> Result<Stores, EngineError> {
        let begun = Instant::now();
        loop {
            match self.opened().writable(&self.pool) {
                Err(error) if is_contention(&error) && begun.elapsed() < wait => {}
                opened => return Ok(opened?.clone()),
            }
            if cancel.load(Ordering::Relaxed) {
                return Err(EngineError::Cancelled);
            }
            thread::sleep(TRY_AGAIN.min(wait.saturating_sub(begun.elapsed())));
        }
    }

    /// Returns the tables with a primary key, for creating or changing one. Waits as [`stores`](Self::stores)
    /// does. Blocks.
    ///
    /// # Errors
    /// Those of [`stores`](Self::stores); the list of tables is damaged.
    pub fn tables(&self, wait: Duration, cancel: &AtomicBool) -> Result<Arc<KeyedTables>, EngineError> {
        self.stores(wait, cancel)?;
        self.opened().tables(&self.pool)
    }

    /// Opens the stores for reading if another process has them open for writing, and so may change them and
    /// other tables together. Stores that cannot be opened are an error of whoever reads from them.
    pub fn open_beside_writer(&self) {
        let mut opened = self.opened();
        if opened.stores.is_some() || !Stores::are_in_use(&self.pool).unwrap_or(false) {
            return;
        }
        match Stores::open_reader(&self.pool) {
            Ok(stores) => opened.stores = Some(stores),
            Err(error) => tracing::debug!(%error, "the stores cannot be read"),
        }
    }

    /// Returns true if the stores are open for reading, beside a process that may write them.
    pub fn is_reader(&self) -> bool {
        self.opened().stores.as_ref().is_some_and(Stores::is_reader)
    }

    /// Moves on to the newest commit if the stores are open for reading. Returns true if they are.
    ///
    /// # Errors
    /// The stores cannot be read.
    pub fn renew(&self) -> Result<bool, EngineError> {
        let mut opened = self.opened();
        let Some(stores) = opened.stores.clone().filter(Stores::is_reader) else {
            return Ok(false);
        };
        match stores.refresh() {
            // There is a commit that only a new reader can show.
            Err(StoreError::Interrupted { .. }) => opened.stores = Some(Stores::open_reader(&self.pool)?),
            refreshed => refreshed?,
        }
        opened.tables = None;
        Ok(true)
    }

    /// Opens the stores if the pool has some and they can be read: what cannot be read is an error of whoever
    /// reads it.
    pub fn open_existing(&self) {
        if let Err(error) = self.existing_tables() {
            tracing::debug!(%error, "the stores cannot be opened");
        }
    }

    /// Gives unused space of the stores back to the pool, for `VACUUM`. Waits up to `wait` for another writer
    /// of the pool. Does nothing if the pool has no stores, or if another process writes them, which gives
    /// back much of it itself.
    ///
    /// # Errors
    /// The stores are damaged; the pool cannot be written.
    pub fn give_back(&self, wait: Duration) -> Result<(), EngineError> {
        let (stores, tables) = {
            let mut opened = self.opened();
            if opened.stores.is_none() && !Stores::exist_in(&self.pool)? {
                return Ok(());
            }
            let stores = match opened.writable(&self.pool) {
                Err(EngineError::Store(StoreError::Pool(PoolError::SlabInUse { .. }))) => return Ok(()),
                stores => stores?.clone(),
            };
            (stores, opened.tables.clone())
        };
        if let Some(tables) = tables {
            tables.drop_replaced();
        }
        stores.give_back(wait)?;
        Ok(())
    }

    /// Returns the tables with a primary key; `None` if the pool has no stores.
    ///
    /// # Errors
    /// Those of [`tables`](Self::tables).
    pub fn existing_tables(&self) -> Result<Option<Arc<KeyedTables>>, EngineError> {
        let mut opened = self.opened();
        if opened.stores.is_none() && !Stores::exist_in(&self.pool)? {
            return Ok(None);
        }
        opened.tables(&self.pool).map(Some)
    }
}

impl Opened {
    fn writable(&mut self, pool: &Pool) -> Result<&Stores, EngineError> {
        let opened = match self.stores.clone().filter(|stores| !stores.is_reader()) {
            Some(stores) => stores,
            None => {
                let stores = Stores::open(pool)?;
                self.tables = None;
                stores
            }
        };
        Ok(self.stores.insert(opened))
    }

    fn readable(&mut self, pool: &Pool) -> Result<&Stores, EngineError> {
        let opened = match self.stores.take() {
            Some(stores) => stores,
            None => match Stores::open(pool) {
                Err(StoreError::Pool(PoolError::ReadOnly { .. } | PoolError::SlabInUse { .. })) => {
                    Stores::open_reader(pool)?
                }
                opened => opened?,
            },
        };
        Ok(self.stores.insert(opened))
    }

    fn tables(&mut self, pool: &Pool) -> Result<Arc<KeyedTables>, EngineError> {
        if let Some(tables) = &self.tables {
            return Ok(Arc::clone(tables));
        }
        let stores = self.readable(pool)?;
        let tables = match KeyedTables::open(stores) {
            // Another process has opened the stores for writing since this one has read them.
            Err(_) if stores.is_reader() => {
                stores.refresh()?;
                KeyedTables::open(stores)?
            }
            opened => opened?,
        };
        let tables = Arc::new(tables);
        self.tables = Some(Arc::clone(&tables));
        Ok(tables)
    }
}

/// Returns true if an error may go away when another process closes the stores or ends a transaction.
fn is_contention(error: &EngineError) -> bool {
    let of_pool = |error: &PoolError| matches!(error, PoolError::SlabInUse { .. } | PoolError::Locked { .. });
    matches!(error, EngineError::Store(StoreError::Pool(error)) if of_pool(error))
}
