//! The changes of a rewrite in the order of their keys: [`KeyChanges`].

use halocline_store::SortedPairs;

use crate::error::{KeyedError, Result};
use crate::rewrite::RewriteRule;
use crate::table::KeyedTable;

/// First byte of the value of a change: the row with its key is deleted, or follows.
pub(crate) const DELETE: u8 = 0;
pub(crate) const PUT: u8 = 1;

/// The changes in the order of their keys.
pub(crate) struct KeyChanges<'a> {
    table: &'a KeyedTable,
    rule: RewriteRule,
    sorted: SortedPairs<'a>,
    /// The next change, if there is one.
    next: PairBuffer,
    has_next: bool,
}

#[derive(Default)]
struct PairBuffer {
    number: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// All changes of one key.
pub(crate) struct KeyChange {
    pub(crate) key: Vec<u8>,
    pub(crate) is_deleted: bool,
    pub(crate) written: Option<Vec<u8>>,
    /// The number of the row that is written.
    pub(crate) number: u64,
}

impl<'a> KeyChanges<'a> {
    /// Reads changes by a rule.
    ///
    /// # Errors
    /// Those of [`SortedPairs::next`].
    pub(crate) fn new(table: &'a KeyedTable, rule: RewriteRule, sorted: SortedPairs<'a>) -> Result<Self> {
        let mut changes = Self {
            table,
            rule,
            sorted,
            next: PairBuffer::default(),
            has_next: false,
        };
        changes.advance()?;
        Ok(changes)
    }

    fn advance(&mut self) -> Result<()> {
        let next = self.sorted.next().map_err(|source| self.table.failed(source))?;
        self.has_next = next.is_some();
        if let Some(next) = next {
            self.next.number = next.number;
            self.next.key.clear();
            self.next.key.extend_from_slice(next.key);
            self.next.value.clear();
            self.next.value.extend_from_slice(next.value);
        }
        Ok(())
    }

    /// Returns the changes of the next key, if there is one.
    ///
    /// # Errors
    /// [`KeyedError::DuplicateRow`], [`KeyedError::UpdatedTwice`], and those of [`SortedPairs::next`].
    pub(crate) fn next_key(&mut self) -> Result<Option<KeyChange>> {
        if !self.has_next {
            return Ok(None);
        }
        let mut changed = KeyChange {
            key: self.next.key.clone(),
            is_deleted: false,
            written: None,
            number: 0,
        };
        while self.has_next && self.next.key == changed.key {
            match self.next.value.split_first() {
                Some((&PUT, value)) => self.write(&mut changed, value)?,
                _ if changed.is_deleted && self.rule == RewriteRule::Update => {
                    return Err(KeyedError::UpdatedTwice {
                        table: self.table.name().to_owned(),
                        key: changed.key,
                    });
                }
                _ => changed.is_deleted = true,
            }
            self.advance()?;
        }
        Ok(Some(changed))
    }

    fn write(&self, changed: &mut KeyChange, value: &[u8]) -> Result<()> {
        match (&changed.written, self.rule) {
            (None, _) | (Some(_), RewriteRule::Replace) => {
                changed.written = Some(value.to_vec());
                changed.number = self.next.number;
                Ok(())
            }
            (Some(_), RewriteRule::InsertNew) => Ok(()),
            (Some(_), _) => Err(self.duplicate(&changed.key, self.next.number, true)),
        }
    }

    /// Returns the error for a row with the key of another one.
    pub(crate) fn duplicate(&self, key: &[u8], number: u64, by_statement: bool) -> KeyedError {
        KeyedError::DuplicateRow {
            table: self.table.name().to_owned(),
            key: key.to_vec(),
            number,
            by_statement,
        }
    }
}
