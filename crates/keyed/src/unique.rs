//! Unique constraints of tables: a second store, in which the values of their columns lead to the rows.
//!
//! A key of that store is the number of the constraint, and the columns, encoded as in the key of a row. Its
//! value is the key of the row. A row that is NULL in one of the columns has no entry. Whoever writes rows
//! writes the entries in the same transaction, which depends on those that it looks up: of two transactions
//! that write the same values, one fails.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use halocline_columns::TableRule;
use halocline_store::{LoadOptions, MAX_KEY, PairSorter, Store, StoreLoader, StoreTransaction};

use crate::column_builder::ColumnBuilder;
use crate::column_values::ColumnValues;
use crate::definition::TableDefinition;
use crate::error::{KeyedError, Result};
use crate::key;
use crate::row::{RowColumn, RowReader};
use crate::table::KeyedTable;
use crate::view::KeyedView;

/// How the names of stores with entries begin.
pub(crate) const UNIQUE: &str = "sql/unique/";

pub(crate) fn unique_store_name(uid: u64) -> String {
    format!("{UNIQUE}{uid}")
}

/// The columns of a unique constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueColumns {
    name: String,
    number: u8,
    columns: Vec<usize>,
}

impl UniqueColumns {
    /// Returns the constraints of a definition.
    pub(crate) fn of(definition: &TableDefinition) -> Vec<Self> {
        let constraint = |rule: &TableRule| match rule {
            TableRule::Unique {
                name,
                columns,
                number,
            } => {
                let at = columns
                    .iter()
                    .map(|column| definition.schema.index_of(column).ok());
                Some(Self {
                    name: name.clone(),
                    number: *number,
                    columns: at.collect::<Option<_>>()?,
                })
            }
            _ => None,
        };
        definition.rules.rules().iter().filter_map(constraint).collect()
    }

    /// Returns the name of the constraint.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the positions of the columns in the table.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }
}

/// The entries of a new table, which are sorted in temporary files.
#[derive(Debug)]
pub(crate) struct UniqueBuilder {
    sorter: PairSorter,
    rows: u64,
}

impl UniqueBuilder {
    /// Begins to collect the entries of a table; `None` if it needs no store for them.
    pub(crate) fn new(table: &KeyedTable, options: &LoadOptions) -> Option<Self> {
        (!table.unique.is_empty()).then(|| Self::empty(options))
    }

    /// Begins to collect the entries of a table without constraints.
    pub(crate) fn empty(options: &LoadOptions) -> Self {
        Self {
            sorter: PairSorter::new(options),
            rows: 0,
        }
    }

    /// Adds the entries of an encoded row.
    ///
    /// # Errors
    /// [`KeyedError::UniqueTooLong`], [`KeyedError::Damaged`], [`KeyedError::Store`].
    pub(crate) fn push(&mut self, table: &KeyedTable, key: &[u8], value: &[u8]) -> Result<()> {
        self.rows += 1;
        for (_, entry) in table.unique_entries(key, value)? {
            let pushed = self.sorter.push(self.rows, &entry, key);
            pushed.map_err(|source| table.failed(source))?;
        }
        Ok(())
    }

    /// Makes the store of the entries.
    ///
    /// # Errors
    /// [`KeyedError::NotUnique`], [`KeyedError::Store`].
    pub(crate) fn finish(mut self, table: &KeyedTable, mut loader: StoreLoader) -> Result<Store> {
        let mut last: Option<Vec<u8>> = None;
        let mut sorted = self.sorter.sorted();
        while let Some(pair) = sorted.next().map_err(|source| table.failed(source))? {
            if last.as_deref() == Some(pair.key) {
                return Err(table.not_unique(pair.key));
            }
            let pushed = loader.push(pair.key, pair.value);
            pushed.map_err(|source| table.failed(source))?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(pair.key);
        }
        loader.finish().map_err(|source| table.failed(source))
    }
}

impl KeyedTable {
    /// Returns the unique constraints besides the primary key.
    pub fn unique(&self) -> &[UniqueColumns] {
        &self.unique
    }

    /// Returns the entries of an encoded row, each with the position of its constraint. A row that is NULL in
    /// a column of a constraint has none for it.
    ///
    /// # Errors
    /// [`KeyedError::UniqueTooLong`]; [`KeyedError::Damaged`] if the row is none of the table.
    pub fn unique_entries(&self, key: &[u8], value: &[u8]) -> Result<Vec<(usize, Vec<u8>)>> {
        let mut entries = Vec::new();
        if self.unique.is_empty() {
            return Ok(entries);
        }
        let columns = self.stored_columns(key, value);
        let columns = columns.ok_or_else(|| self.damaged("a row"))?;
        for (position, constraint) in self.unique.iter().enumerate() {
            let mut entry = vec![constraint.number];
            let mut values = constraint
                .columns
                .iter()
                .map(|at| (self.kinds[*at], &columns[*at]));
            let is_complete = values.all(|(kind, value)| match value {
                Some(value) => {
                    key::encode(kind, value, &mut entry);
                    true
                }
                None => false,
            });
            if is_complete && entry.len() > MAX_KEY {
                return Err(KeyedError::UniqueTooLong {
                    table: self.name().to_owned(),
                    name: constraint.name.clone(),
                    bytes: entry.len(),
                    most: MAX_KEY,
                });
            }
            if is_complete {
                entries.push((position, entry));
            }
        }
        Ok(entries)
    }

    /// Returns the key of the row that an entry leads to.
    ///
    /// # Errors
    /// [`KeyedError::Store`].
    pub fn unique_owner(&self, view: &KeyedView, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        match &self.index {
            Some(index) => view.get(index, entry).map_err(|source| self.failed(source)),
            None => Ok(None),
        }
    }

    /// Changes the entries in a transaction in which rows are going to be deleted and written, each given by
    /// its key, and with its value if it is written. Changes nothing if it fails.
    ///
    /// # Errors
    /// [`KeyedError::NotUnique`], [`KeyedError::UniqueTooLong`], [`KeyedError::Damaged`],
    /// [`KeyedError::Store`].
    pub fn change_unique<'a>(
        &self,
        transaction: &mut StoreTransaction,
        deleted: impl Iterator<Item = &'a [u8]>,
        written: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Result<()> {
        let Some(index) = self.index.as_ref().filter(|_| !self.unique.is_empty()) else {
            return Ok(());
        };
        // Of each entry, the row that it leads to after the statement.
        let mut changes: BTreeMap<Vec<u8>, Option<&[u8]>> = BTreeMap::new();
        for key in deleted.chain(written.clone().map(|(key, _)| key)) {
            let old = transaction.get(&self.store, key);
            if let Some(value) = old.map_err(|source| self.failed(source))? {
                let entries = self.unique_entries(key, &value)?.into_iter();
                changes.extend(entries.map(|(_, entry)| (entry, None)));
            }
        }
        for (key, value) in written {
            for (_, entry) in self.unique_entries(key, value)? {
                let is_taken = match changes.get(&entry) {
                    Some(owner) => owner.is_some(),
                    None => {
                        let owner = transaction.get(index, &entry);
                        owner.map_err(|source| self.failed(source))?.is_some()
                    }
                };
                if is_taken {
                    return Err(self.not_unique(&entry));
                }
                changes.insert(entry, Some(key));
            }
        }
        for (entry, owner) in changes {
            let changed = match owner {
                Some(key) => transaction.put(index, entry, key),
                None => transaction.delete(index, entry),
            };
            changed.map_err(|source| self.failed(source))?;
        }
        Ok(())
    }

    /// Returns the error for an entry that two rows have.
    fn not_unique(&self, entry: &[u8]) -> KeyedError {
        let number = entry.first().copied();
        let constraint = self
            .unique
            .iter()
            .find(|constraint| Some(constraint.number) == number);
        let (name, at) = constraint.map_or(("", &[][..]), |constraint| {
            (constraint.name.as_str(), constraint.columns.as_slice())
        });
        let columns = at.iter().map(|at| self.schema().field(*at).name().as_str());
        KeyedError::NotUnique {
            table: self.name().to_owned(),
            name: name.to_owned(),
            columns: columns.collect::<Vec<_>>().join(", "),
            values: self.decode_entry(at, entry).unwrap_or_default(),
        }
    }

    /// Returns the values of an entry, as arrays of one value.
    fn decode_entry(&self, columns: &[usize], entry: &[u8]) -> Option<Vec<ArrayRef>> {
        let (_, mut entry) = entry.split_first()?;
        let mut values = Vec::with_capacity(columns.len());
        for &at in columns {
            let (kind, mut value) = (self.kinds[at], Vec::new());
            key::decode(kind, &mut entry, &mut value)?;
            let mut builder = ColumnBuilder::new(self.schema().field(at).data_type(), kind);
            builder.push(Some(&value))?;
            values.push(builder.finish().ok()?);
        }
        Some(values)
    }

    /// Returns the columns of an encoded row as they are stored, `None` where it is NULL; `None` if it is no
    /// row of the table.
    fn stored_columns(&self, mut key: &[u8], value: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
        let mut columns = vec![None; self.kinds.len()];
        for &at in &self.definition.key {
            let mut column = Vec::new();
            key::decode(self.kinds[at], &mut key, &mut column)?;
            columns[at] = Some(column);
        }
        let mut reader = RowReader::new(value)?;
        for &at in &self.others {
            columns[at] = match reader.next(self.kinds[at])? {
                RowColumn::Value(value) => Some(value.to_vec()),
                RowColumn::Null => None,
                RowColumn::Missing => self.definition.initial[at].as_ref().and_then(|initial| {
                    let values = ColumnValues::new(initial, self.kinds[at])?;
                    values.value(0).map(<[u8]>::to_vec)
                }),
            };
        }
        Some(columns)
    }
}
