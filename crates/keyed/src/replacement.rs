//! Tables that take the place of others, and the others as long as somebody may read them.
//!
//! A statement or a transaction that reads an older version of the stores finds the table of that version, by
//! its definition then. Invariant: its rows are there until no snapshot is older than the replacement.

use std::sync::{Arc, MutexGuard, PoisonError};

use halocline_store::{DecidedBatch, StoreError, StoreTransaction};

use crate::definition::TableDefinition;
use crate::error::{KeyedError, Result};
use crate::table::KeyedTable;
use crate::tables::{KeyedTables, found, index_of};
use crate::unpublished::UnpublishedTable;
use crate::view::KeyedView;

/// A table whose place another one has taken.
#[derive(Debug)]
pub(crate) struct ReplacedTable {
    pub(crate) table: Arc<KeyedTable>,
    /// The first commit that sees the other one.
    pub(crate) since: u64,
}

/// Tables that take the places of others when a transaction commits. Dropping it drops them.
#[derive(Debug, Default)]
pub struct Replacements {
    of: Vec<Replacement>,
    /// Tables that the transaction has replaced again. Its statements may be reading them.
    passed: Vec<UnpublishedTable>,
}

#[derive(Debug)]
struct Replacement {
    old: Arc<KeyedTable>,
    new: UnpublishedTable,
}

impl Replacements {
    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    fn add(&mut self, old: &Arc<KeyedTable>, new: UnpublishedTable) {
        self.passed.retain(UnpublishedTable::is_read);
        let mut before = self.of.iter_mut();
        match before.find(|before| before.new.table().definition.uid == old.definition.uid) {
            Some(before) => self.passed.push(std::mem::replace(&mut before.new, new)),
            None => self.of.push(Replacement {
                old: Arc::clone(old),
                new,
            }),
        }
    }
}

impl KeyedTables {
    /// Makes a table one of the pool, durably, in place of one of its name without rows, and commits a
    /// transaction with it, as [`publish_rewritten`](Self::publish_rewritten) does.
    ///
    /// # Errors
    /// [`KeyedError::Changed`], also if the table has rows; [`KeyedError::List`]. The new table is gone then.
    pub fn publish_in_place_of(
        &self,
        unpublished: UnpublishedTable,
        empty: &Arc<KeyedTable>,
        mut transaction: StoreTransaction,
    ) -> Result<Arc<KeyedTable>> {
        let first = transaction.scan::<&[u8]>(&empty.store, ..).next();
        match first {
            None => self.publish_rewritten(unpublished, empty, transaction),
            Some(Ok(_) | Err(StoreError::Dropped { .. })) => Err(empty.changed()),
            Some(Err(error)) => Err(KeyedError::List(error)),
        }
    }

    /// Makes a table one of the pool, durably, in place of another one of its name, and commits a transaction
    /// with it, which must have read all rows that matter. Statements that write to that one fail from the
    /// same moment on; those that read an older version find it by [`table_in`](Self::table_in).
    ///
    /// # Errors
    /// [`KeyedError::Changed`]: the table is not that one any more, or what the transaction has read was
    /// changed. [`KeyedError::List`]. The new table is gone then.
    pub fn publish_rewritten(
        &self,
        unpublished: UnpublishedTable,
        old: &Arc<KeyedTable>,
        mut transaction: StoreTransaction,
    ) -> Result<Arc<KeyedTable>> {
        let table = Arc::clone(unpublished.table());
        let mut replacements = Replacements::default();
        self.replace_in(&mut transaction, unpublished, old, &mut replacements)?;
        let committed = self.commit_replacing(transaction, replacements);
        committed.map_err(|error| match error {
            KeyedError::List(StoreError::Conflict { .. } | StoreError::Dropped { .. }) => table.changed(),
            error => error,
        })?;
        Ok(table)
    }

    /// Lets a table take the place of another one of its name in a transaction, which finds it by
    /// [`table_in`](Self::table_in) from now on. It has been made of all rows that the transaction sees, and
    /// is one of the pool once that is committed by [`commit_replacing`](Self::commit_replacing).
    ///
    /// # Errors
    /// [`KeyedError::List`].
    pub fn replace_in(
        &self,
        transaction: &mut StoreTransaction,
        new: UnpublishedTable,
        old: &Arc<KeyedTable>,
        replacements: &mut Replacements,
    ) -> Result<()> {
        let table = new.table();
        transaction
            .put(self.definitions()?, table.name(), table.definition.to_bytes())
            .map_err(KeyedError::List)?;
        transaction.replace(&old.store, &table.store);
        if let (Some(old), Some(new)) = (&old.index, &table.index) {
            transaction.replace(old, new);
        }
        replacements.add(old, new);
        Ok(())
    }

    /// Returns a transaction in which empty tables take the places of those with some names, to be committed
    /// by [`commit_replacing`](Self::commit_replacing) or
    /// [`commit_replacing_with`](Self::commit_replacing_with). No name may occur twice.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`], [`KeyedError::Store`], [`KeyedError::List`].
    pub fn replace_by_empty(&self, names: &[&str]) -> Result<(StoreTransaction, Replacements)> {
        let emptied = found(&self.tables(), names)?;
        let (mut transaction, mut replacements) = (self.stores.begin(), Replacements::default());
        for table in &emptied {
            let empty = self.prepare(table.definition.clone())?;
            self.replace_in(&mut transaction, empty, table, &mut replacements)?;
        }
        Ok((transaction, replacements))
    }

    /// Commits a transaction, with which tables take the places of others.
    ///
    /// # Errors
    /// [`KeyedError::Changed`]: a table is not the one any more that the transaction has replaced.
    /// [`KeyedError::List`]. The new tables are gone then, unless they were committed.
    pub fn commit_replacing(&self, transaction: StoreTransaction, replacements: Replacements) -> Result<()> {
        let prepared = transaction.prepare().map_err(KeyedError::List)?;
        self.put_in_place(replacements, || prepared.commit().map_err(KeyedError::List))
    }

    /// Commits a transaction as [`commit_replacing`](Self::commit_replacing) does, together with one of the
    /// pool, as [`commit_with`](StoreTransaction::commit_with) does.
    ///
    /// # Errors
    /// [`KeyedError::Changed`]: a table is not the one any more that the transaction has replaced. That of
    /// `decide`, and those of the commit. The new tables are gone then, unless they were committed.
    pub fn commit_replacing_with<E: From<KeyedError> + From<StoreError>>(
        &self,
        transaction: StoreTransaction,
        replacements: Replacements,
        decide: impl FnOnce(&DecidedBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let prepared = transaction.prepare()?;
        self.put_in_place(replacements, || prepared.commit_with(decide))
    }

    /// Makes new tables those of the pool by a commit, whose reads were compared before, since all who look a
    /// table up wait meanwhile.
    fn put_in_place<E: From<KeyedError>>(
        &self,
        replacements: Replacements,
        commit: impl FnOnce() -> Result<u64, E>,
    ) -> Result<(), E> {
        let mut tables = self.tables();
        for Replacement { old, .. } in &replacements.of {
            let current = tables.get(old.name());
            if !current.is_some_and(|current| Arc::ptr_eq(current, old)) {
                return Err(old.changed().into());
            }
        }
        let committed = commit();
        let newest = || self.stores.snapshot().commit();
        let since = committed.as_ref().map_or_else(|_| newest(), |since| *since);
        for Replacement { mut new, .. } in replacements.of {
            let table = Arc::clone(new.table());
            // A commit that has failed because the file was moved may be in it.
            if committed.is_err() && !self.is_defined(&table) {
                continue;
            }
            new.keep();
            let replaced = tables.insert(table.name().to_owned(), table);
            self.replaced()
                .extend(replaced.map(|table| ReplacedTable { table, since }));
        }
        committed.map(drop)
    }

    /// Returns true if the newest definition of a name is that of a table.
    fn is_defined(&self, table: &KeyedTable) -> bool {
        let stored = self
            .definitions()
            .ok()
            .and_then(|store| store.get(table.name()).ok()?);
        let stored = stored.and_then(|bytes| TableDefinition::from_bytes(table.name(), &bytes).ok());
        stored.is_some_and(|stored| stored.uid == table.definition.uid)
    }

    /// Returns a table as a version of the stores has it: another one may have taken its place since. `None`
    /// if there is none of this name now.
    ///
    /// # Errors
    /// [`KeyedError::Changed`]: the rows of that version are gone. [`KeyedError::List`],
    /// [`KeyedError::Damaged`].
    pub fn table_in(&self, name: &str, view: &KeyedView) -> Result<Option<Arc<KeyedTable>>> {
        let Some(table) = self.table(name) else {
            return Ok(None);
        };
        // A reader does not know since when a store has been in its place.
        if let KeyedView::Snapshot(snapshot) = view
            && !self.stores.is_reader()
            && snapshot.sees(&table.store)
        {
            return Ok(Some(table));
        }
        // A transaction depends on the definition: another table may take the place of this one.
        let definition = view.get(self.definitions()?, name.as_bytes());
        let Some(bytes) = definition.map_err(KeyedError::List)? else {
            return Ok(Some(table));
        };
        let definition = TableDefinition::from_bytes(name, &bytes)?;
        if definition.uid == table.definition.uid {
            return Ok(Some(table));
        }
        let replaced = self.replaced();
        let mut replaced = replaced.iter().map(|replaced| &replaced.table);
        if let Some(found) = replaced.find(|replaced| replaced.definition.uid == definition.uid) {
            return Ok(Some(Arc::clone(found)));
        }
        match self.stores.existing(&definition.store_name()) {
            Ok(store) => {
                let index = index_of(&self.stores, &definition)?;
                Ok(Some(Arc::new(KeyedTable::new(definition, store, index))))
            }
            Err(StoreError::NoSuchStore { .. }) => Err(table.changed()),
            Err(error) => Err(KeyedError::List(error)),
        }
    }

    fn replaced(&self) -> MutexGuard<'_, Vec<ReplacedTable>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the space of tables whose place others have taken, unless a statement reads them, or one can
    /// find them that reads an older version. What cannot be freed now is freed by a later call, or when the
    /// tables are opened again.
    pub fn drop_replaced(&self) {
        let mut replaced = self.replaced();
        let unread = replaced.extract_if(.., |replaced| {
            Arc::strong_count(&replaced.table) == 1 && !self.stores.are_read_before(replaced.since)
        });
        let unread: Vec<_> = unread.map(|replaced| replaced.table).collect();
        drop(replaced);
        self.drop_stores(&unread);
    }
}
