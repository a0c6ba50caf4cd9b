//! Statements that change more rows than DRAM holds: [`KeyedRewrite`].
//!
//! The changes are sorted by key in temporary files. Merged with the rows of the table, which are in that
//! order as well, they make a new table, which takes the place of the old one. So a statement takes the
//! memory of the sort, however many rows it changes, and one that fails or is interrupted leaves nothing.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use halocline_store::{LoadOptions, PairSorter, StoreError, StoreLoader};

use crate::error::{KeyedError, Result};
use crate::key_changes::{DELETE, KeyChanges, PUT};
use crate::ranges::KeyBounds;
use crate::table::KeyedTable;
use crate::tables::KeyedTables;
use crate::unique::{UniqueBuilder, unique_store_name};
use crate::unpublished::UnpublishedTable;
use crate::view::KeyedView;

/// The range of all rows.
const ALL_ROWS: KeyBounds = (Bound::Unbounded, Bound::Unbounded);

/// Number of rows after which a rewrite looks whether it is cancelled.
const CANCEL_EVERY: u64 = 1 << 12;

/// The meaning of several changes of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteRule {
    /// Rows are added, whose keys must be new.
    Insert,
    /// Rows are added whose keys are new; of those with the same key, the first one.
    InsertNew,
    /// Rows are added in place of those with the same key; of several, the last one.
    Replace,
    /// Rows are added in place of those with the same key. No two have the same key.
    ReplaceOnce,
    /// Rows are deleted and added again, each once. No two have the same key in the end.
    Update,
    /// Rows are deleted.
    Delete,
}

/// Numbers of rows that were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RewrittenRows {
    /// Rows of the old table that were deleted.
    pub deleted: u64,
    /// Rows that were added.
    pub written: u64,
}

/// Changes of rows of a table, which make a new one of it.
#[derive(Debug)]
pub struct KeyedRewrite {
    table: Arc<KeyedTable>,
    rule: RewriteRule,
    sorter: PairSorter,
    /// The value of the change that is being added.
    change: Vec<u8>,
    /// For the entries of unique constraints.
    of_entries: LoadOptions,
}

impl KeyedRewrite {
    /// Begins to collect changes of a table.
    pub fn new(table: &Arc<KeyedTable>, rule: RewriteRule, options: &LoadOptions) -> Self {
        let parts = if table.unique.is_empty() { 1 } else { 2 };
        let of_entries = options.part_of_memory(parts);
        Self {
            table: Arc::clone(table),
            rule,
            sorter: PairSorter::new(&of_entries),
            change: Vec::new(),
            of_entries,
        }
    }

    /// Notes that the row with an encoded key is deleted.
    ///
    /// # Errors
    /// [`KeyedError::Store`] with [`StoreError::Spill`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        let pushed = self.sorter.push(0, key, &[DELETE]);
        pushed.map_err(|source| self.table.failed(source))
    }

    /// Notes that an encoded row is added, whose number does not descend.
    ///
    /// # Errors
    /// [`KeyedError::Store`] with [`StoreError::Spill`].
    pub fn put(&mut self, number: u64, key: &[u8], value: &[u8]) -> Result<()> {
        self.change.clear();
        self.change.push(PUT);
        self.change.extend_from_slice(value);
        let pushed = self.sorter.push(number, key, &self.change);
        pushed.map_err(|source| self.table.failed(source))
    }

    /// Makes the new table of the rows that `view` sees and the changes. It takes the place of the old one by
    /// [`KeyedTables::publish_rewritten`], or in an open transaction by [`KeyedTables::replace_in`].
    ///
    /// # Errors
    /// [`KeyedError::DuplicateRow`], [`KeyedError::UpdatedTwice`], [`KeyedError::NotUnique`],
    /// [`KeyedError::UniqueTooLong`], [`KeyedError::Cancelled`], [`KeyedError::Store`].
    pub fn finish(
        mut self,
        tables: &KeyedTables,
        view: &KeyedView,
        cancel: &AtomicBool,
    ) -> Result<(UnpublishedTable, RewrittenRows)> {
        let mut definition = self.table.definition.clone();
        let name = tables.new_store(&mut definition)?;
        let failed = |source| self.table.failed(source);
        let mut rewritten = NewRows {
            loader: view.load(tables.stores(), &name).map_err(failed)?,
            table: &self.table,
            cancel,
            seen: 0,
            unique: UniqueBuilder::new(&self.table, &self.of_entries),
        };
        let mut rows = view.scan(&self.table.store, &ALL_ROWS);
        let mut changes = KeyChanges::new(&self.table, self.rule, self.sorter.sorted())?;
        let mut counts = RewrittenRows::default();
        let mut row = rows.next().transpose().map_err(failed)?;
        let mut of_key = changes.next_key()?;
        loop {
            rewritten.poll()?;
            let order = match (&row, &of_key) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, _)), Some(of_key)) => key.cmp(&of_key.key),
            };
            if order.is_ge()
                && let Some(changed) = of_key.take()
            {
                let there = row.take_if(|_| order.is_eq());
                if order.is_eq() {
                    row = rows.next().transpose().map_err(failed)?;
                }
                counts.deleted += u64::from(changed.is_deleted);
                let stays = there.as_ref().filter(|_| !changed.is_deleted);
                match (changed.written, stays, self.rule) {
                    (Some(value), None, _)
                    | (Some(value), Some(_), RewriteRule::Replace | RewriteRule::ReplaceOnce) => {
                        counts.written += 1;
                        rewritten.push(&changed.key, &value)?;
                    }
                    (Some(_), Some((key, value)), RewriteRule::InsertNew) => rewritten.push(key, value)?,
                    (Some(_), Some(_), _) => {
                        return Err(changes.duplicate(&changed.key, changed.number, false));
                    }
                    (None, Some((key, value)), _) => rewritten.push(key, value)?,
                    (None, None, _) => {}
                }
                of_key = changes.next_key()?;
            } else if let Some((key, value)) = &row {
                rewritten.push(key, value)?;
                row = rows.next().transpose().map_err(failed)?;
            }
        }
        let store = rewritten.loader.finish().map_err(failed)?;
        let uid = definition.uid;
        let table = Arc::new(KeyedTable::new(definition, store, None));
        let unpublished = UnpublishedTable::new(tables.stores(), table);
        // What the transaction has written to the store of the old one is forgotten if there is a new one.
        let entries = rewritten.unique.or_else(|| {
            let has_store = self.table.index.is_some();
            has_store.then(|| UniqueBuilder::empty(&self.of_entries))
        });
        let index = entries.map(|entries| {
            let loader = view.load(tables.stores(), &unique_store_name(uid));
            entries.finish(&self.table, loader.map_err(failed)?)
        });
        Ok((unpublished.with_index(index.transpose()?), counts))
    }
}

/// The rows of the new table.
struct NewRows<'a> {
    loader: StoreLoader,
    table: &'a KeyedTable,
    cancel: &'a AtomicBool,
    /// Rows and changes so far.
    seen: u64,
    unique: Option<UniqueBuilder>,
}

impl NewRows<'_> {
    /// Looks from time to time whether the rewrite is cancelled.
    fn poll(&mut self) -> Result<()> {
        self.seen += 1;
        if self.seen.is_multiple_of(CANCEL_EVERY) && self.cancel.load(atomic::Ordering::Relaxed) {
            return Err(KeyedError::Cancelled {
                table: self.table.name().to_owned(),
            });
        }
        Ok(())
    }

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(unique) = &mut self.unique {
            unique.push(self.table, key, value)?;
        }
        let pushed = self.loader.push(key, value);
        pushed.map_err(|source: StoreError| self.table.failed(source))
    }
}
