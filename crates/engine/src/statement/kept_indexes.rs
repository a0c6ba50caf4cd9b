//! Indexes of a replaced table, which are built again on the new table if it has their columns.

use std::sync::atomic::AtomicBool;

use halocline_catalog::transaction::Transaction;
use halocline_elf::{ElfError, TableIndex};
use halocline_sql::EngineError;
use halocline_sql::index_spec::IndexSpec;
use halocline_sql::placement_spec::PlacementSpec;

use super::build_index::build_index;
use super::place_index::set_placement;
use crate::{Order, Placement};

/// The definitions of the indexes of a replaced table.
#[derive(Debug, Default)]
pub(crate) struct KeptIndexes {
    definitions: Vec<(IndexSpec, PlacementSpec)>,
    /// Names of those with a column that the new table does not have.
    without_columns: Vec<String>,
    /// Names of those whose definition cannot be read.
    unreadable: Vec<String>,
}

impl KeptIndexes {
    /// Reads the definitions of the indexes of a table.
    pub(super) fn read(transaction: &mut Transaction, table: &str) -> Self {
        let mut kept = Self::default();
        let catalog = transaction.catalog();
        let open = catalog.objects().table(table).ok();
        for name in catalog.indexes_of(table) {
            let index = TableIndex::open_in(transaction.txn(), &name).ok();
            match open.as_ref().zip(index) {
                Some((open, index)) => {
                    let schema = open.table.schema();
                    let names = index
                        .columns()
                        .iter()
                        .map(|column| schema.field(*column).name().clone());
                    // The order of the existing tree.
                    let spec = IndexSpec::new(name, table, names)
                        .with_layout(index.layout())
                        .with_order(Order::Given);
                    let placed = index.wanted().map_or_else(
                        |_| PlacementSpec::default(),
                        |wanted| PlacementSpec {
                            placement: Some(wanted.placement),
                            dram: Some(wanted.dram),
                        },
                    );
                    kept.definitions.push((spec, placed));
                }
                None => kept.unreadable.push(name),
            }
        }
        kept
    }

    /// Takes columns by the names that `name_of` returns; `None` for those that the new table does not have.
    pub(super) fn rename_columns<'a>(&mut self, name_of: impl Fn(&str) -> Option<&'a str>) {
        for (mut spec, placed) in std::mem::take(&mut self.definitions) {
            let names = spec
                .columns
                .iter()
                .map(|column| name_of(column).map(str::to_owned));
            match names.collect::<Option<Vec<String>>>() {
                Some(names) => {
                    spec.columns = names;
                    self.definitions.push((spec, placed));
                }
                None => self.without_columns.push(spec.name),
            }
        }
    }

    /// Builds the indexes again. Returns the end of a message that lists those that were built and those that
    /// were dropped; empty if there were none.
    ///
    /// # Errors
    /// One cannot be built, or the caller wants the end.
    pub(crate) fn rebuild(
        self,
        transaction: &mut Transaction,
        cancel: &AtomicBool,
    ) -> Result<String, EngineError> {
        let (mut made, mut without_columns) = (Vec::new(), self.without_columns);
        for (spec, placed) in self.definitions {
            let open = transaction.catalog().objects().table(&spec.table)?;
            let there = |column: &String| open.table.schema().index_of(column).is_ok();
            if !spec.columns.iter().all(there) {
                without_columns.push(spec.name);
                continue;
            }
            let volatile = placed.placement == Some(Placement::Volatile);
            match build_index(transaction, &spec, false, volatile, cancel) {
                Ok(_) => {
                    set_placement(transaction, &spec.name, false, placed, cancel)?;
                    made.push(spec.name);
                }
                // A column has a type now that no index is made on.
                Err(EngineError::Elf(ElfError::NotIndexable { .. })) => without_columns.push(spec.name),
                Err(error) => return Err(error),
            }
        }
        let mut said = String::new();
        if !made.is_empty() {
            said += &format!(", with index {}", made.join(", "));
        }
        if !without_columns.is_empty() {
            let names = without_columns.join(", ");
            said += &format!("; dropped index {names}, whose columns are not there any more");
        }
        if !self.unreadable.is_empty() {
            said += &format!(
                "; dropped index {}, which cannot be read",
                self.unreadable.join(", ")
            );
        }
        Ok(said)
    }
}
