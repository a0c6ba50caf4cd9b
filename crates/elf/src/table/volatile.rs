//! Volatile indexes: only the definition is stored; the trees are in DRAM (Jibril et al., section 4). They
//! are built from the table and end with the process.
//!
//! Invariants: a tree is reused only for the segment that it was built from, whose rows never change (same
//! table, columns and layout, same id); trees hold no bytes of the pool, so that they keep no version of it
//! alive; their memory is reserved before it is mapped, and released with the last index that reads them.
//!
//! A build writes into memory of an estimated length and only counts the bytes beyond it; if there are any,
//! it either writes again into memory of the exact length, or reports that length if there is no room. An
//! index has all of its trees or none. Sizes are remembered, so that trees without room are not built twice.

use crate::geometry::MAX_DIMS;
use crate::place::PlacementStatus;
use crate::table::build::{check_columns, guess, write_segment};
use crate::table::cancel::CancellationToken;
use crate::table::memory::{MemoryOutput, MemoryRoom, pages};
use crate::table::meta::IndexMeta;
use crate::table::{IndexSegment, IndexState, OwnDictionary, TableIndex};
use crate::{Elf, ElfError, IndexOptions, Layout, Order, Result};
use halocline_cache::{DramBudget, Placement};
use halocline_columns::{Column, Dictionary, Segment, Table};
use halocline_pool::{ExtentBytes, Txn};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Puts the definition of a volatile index of `table` into a transaction; builds nothing. O(segments *
/// columns).
///
/// # Errors
/// [`ElfError::NotIndexable`] and [`ElfError::TooLarge`] for columns that cannot be indexed,
/// [`ElfError::WrongDimensions`] for none; [`ElfError::Pool`].
pub fn define_index(
    txn: &Txn,
    table: &Table,
    name: &str,
    columns: &[usize],
    layout: Layout,
    order: Order,
) -> Result<()> {
    check_columns(table, columns)?;
    if columns.len() > MAX_DIMS {
        return Err(ElfError::TooLarge {
            what: "the number of dimensions",
            found: columns.len() as u64,
            limit: MAX_DIMS as u64,
        });
    }
    for segment in table.segments() {
        let mut stored = columns.iter().map(|&column| segment.column(column));
        if let Some(column) = stored.find(|column| !has_codes(column)) {
            return Err(ElfError::NotIndexable {
                column: column.name().into(),
                reason: "it is stored without codes and is neither a string nor a decimal",
            });
        }
    }
    let mut meta = IndexMeta::new(table.name(), table.uid(), columns.to_vec(), layout, order);
    meta.placement = Some(Placement::Volatile.to_string());
    meta.put(txn, name, vec![])
}

/// Returns true if the column has codes or its values can be ranked.
fn has_codes(column: &Column) -> bool {
    column.code_space().is_some() || column.is_rankable()
}

/// Result of building the trees of a volatile index.
#[derive(Debug)]
#[non_exhaustive]
pub enum VolatileTrees {
    /// All of them are in DRAM.
    Whole(TableIndex),
    /// There is no room for all of them, so there are none.
    NoRoom {
        /// Bytes of DRAM that they need together: a lower bound if some segments were never built.
        needed: u64,
        /// Bytes that were available.
        room: u64,
    },
}

/// The trees of a volatile index, for reuse in its next version. They keep neither the index nor its table.
#[derive(Debug, Default)]
pub struct KeptTrees {
    of: Option<VolatileDefinition>,
    /// Positions in the table's schema, in the order of the trees' dimensions.
    columns: Vec<usize>,
    trees: Vec<KeptTree>,
}

/// The properties that must be unchanged for trees to be reused.
#[derive(Debug, PartialEq, Eq)]
struct VolatileDefinition {
    table_uid: u64,
    columns: Vec<usize>,
    layout: Layout,
    order: Order,
}

#[derive(Debug)]
struct KeptTree {
    segment: u64,
    /// Bytes of DRAM that it takes, or would take.
    bytes: u64,
    tree: Option<VolatileTree>,
}

#[derive(Debug)]
struct VolatileTree {
    elf: Elf<ExtentBytes>,
    own: Vec<Option<OwnDictionary>>,
}

/// Inputs of a build.
struct VolatileBuild<'a, F> {
    index: &'a TableIndex,
    table: &'a Table,
    budget: &'a DramBudget,
    /// Limit for all trees together, in addition to the budget.
    most: u64,
    options: &'a IndexOptions,
    begin: F,
    cancel: CancellationToken<'a>,
}

impl KeptTrees {
    /// Returns the bytes of DRAM that the trees take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let there = self.trees.iter().filter(|kept| kept.tree.is_some());
        there.map(|kept| kept.bytes).sum()
    }

    /// Drops all trees. Their sizes are remembered, so that they are not built without room for them.
    pub fn let_go(&mut self) {
        self.trees.iter_mut().for_each(|kept| kept.tree = None);
    }

    /// Returns the volatile index with its trees if all of them exist; builds none. O(segments * columns).
    #[must_use]
    pub fn attach(&self, index: &TableIndex, table: &Table) -> Option<TableIndex> {
        if table.segments().is_empty() {
            return Some(index.with_trees(index.columns(), vec![]));
        }
        if self.of.as_ref() != Some(&index.definition()) {
            return None;
        }
        let attach = |segment: &Segment| {
            let VolatileTree { elf, own } = self.of_segment(segment)?;
            let (elf, own) = (elf.clone(), own.clone());
            IndexSegment::of_tree(index.name(), segment, &self.columns, elf, own, None).ok()
        };
        let segments = table.segments().iter().map(attach).collect::<Option<_>>()?;
        Some(index.with_trees(&self.columns, segments))
    }

    /// Returns the volatile index with all of its trees in DRAM. Builds those of segments that have none yet,
    /// so that a version with a few more segments costs the trees of these only, and drops those of
    /// segments that the table no longer has. Of `options`, layout and order are ignored: they are the
    /// index's own. Spills go to transactions returned by `begin`, one for each segment, of any pool;
    /// they end without a commit. Setting `cancel` from any thread ends the build; trees that are
    /// complete stay. O(n log n) in the rows of the new segments.
    ///
    /// # Errors
    /// [`ElfError::Placement`] if the index is not volatile; [`ElfError::Cancelled`]; else as
    /// [`index_table`](crate::index_table), and there are no trees then.
    pub fn build(
        &mut self,
        index: &TableIndex,
        table: &Table,
        budget: &DramBudget,
        options: &IndexOptions,
        begin: impl Fn() -> Result<Txn>,
        cancel: &AtomicBool,
    ) -> Result<VolatileTrees> {
        let wanted = index.wanted().unwrap_or_default();
        if wanted.placement != Placement::Volatile {
            return Err(ElfError::Placement {
                placement: wanted.placement,
                reason: "its trees are stored, and refresh_index builds them".into(),
            });
        }
        let job = VolatileBuild {
            index,
            table,
            budget,
            most: wanted.dram.unwrap_or(u64::MAX),
            options,
            begin,
            cancel: CancellationToken::new(cancel),
        };
        let built = self.build_all(&job);
        if !matches!(built, Ok(true) | Err(ElfError::Cancelled)) {
            // An index has all of its trees or none.
            let room = self.room(&job);
            self.let_go();
            built?;
            let needed = self.trees.iter().map(|kept| kept.bytes).sum();
            return Ok(VolatileTrees::NoRoom { needed, room });
        }
        built?;
        let whole = self.attach(index, table);
        whole.map(VolatileTrees::Whole).ok_or_else(|| {
            self.let_go();
            ElfError::Write("the trees of the volatile index do not match its table".into())
        })
    }

    /// Builds the missing trees. Returns false if there is no room for them.
    fn build_all(&mut self, job: &VolatileBuild<'_, impl Fn() -> Result<Txn>>) -> Result<bool> {
        let of = job.index.definition();
        if self.of.as_ref() != Some(&of) {
            *self = Self {
                of: Some(of),
                ..Self::default()
            };
        }
        let segments = job.table.segments();
        self.trees
            .retain(|kept| segments.iter().any(|segment| segment.id() == kept.segment));
        for segment in segments {
            // Known sizes are compared first, so that no tree is built only to be dropped.
            if self.trees.iter().map(|kept| kept.bytes).sum::<u64>() > self.room(job) {
                return Ok(false);
            }
            if self.of_segment(segment).is_none() && !self.build_segment(job, segment)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the bytes of DRAM available for all trees.
    fn room<F>(&self, job: &VolatileBuild<'_, F>) -> u64 {
        job.most.min(self.bytes().saturating_add(job.budget.free()))
    }

    fn of_segment(&self, segment: &Segment) -> Option<&VolatileTree> {
        let mut trees = self.trees.iter();
        trees.find(|kept| kept.segment == segment.id())?.tree.as_ref()
    }

    /// Builds the tree of a segment. Returns false if there is no room for it.
    fn build_segment(
        &mut self,
        job: &VolatileBuild<'_, impl Fn() -> Result<Txn>>,
        segment: &Segment,
    ) -> Result<bool> {
        let taken = self.bytes();
        let room = |taken| MemoryRoom {
            budget: job.budget,
            most: job.most.saturating_sub(taken),
            lacks: OnceLock::new(),
        };
        let first = self.trees.iter().all(|kept| kept.tree.is_none());
        if first {
            self.columns = job.index.columns().to_vec();
        }
        let IndexState { layout, order, .. } = *job.index.inner;
        let mut meta = IndexMeta::new(
            job.table.name(),
            job.table.uid(),
            self.columns.clone(),
            layout,
            order,
        );
        let txn = (job.begin)()?;
        let (of_tree, mut of_dictionaries) = (room(taken), 0);
        let written = write_segment(
            &txn,
            job.table,
            segment,
            &mut meta,
            first && order == Order::Auto,
            job.options,
            &job.cancel,
            |guess, dictionaries| {
                of_dictionaries = pages(dictionaries);
                Ok(MemoryOutput::new(&job.cancel, &of_tree, guess)?)
            },
        );
        let written = match (written, of_tree.lacks.get()) {
            (Err(ElfError::Cancelled), _) => return Err(ElfError::Cancelled),
            (_, Some(lacks)) => {
                self.put(segment, lacks + of_dictionaries, None);
                return Ok(false);
            }
            (written, None) => written?,
        };
        self.columns = meta.columns;
        let (tree, mut bytes) = written.out.finish();
        let mut own = vec![None; self.columns.len()];
        let of_dictionaries = room(taken + bytes);
        for (dictionary, extent) in written.dictionaries {
            let stored = txn.extent(&extent)?;
            bytes += pages(extent.len);
            let copy = of_dictionaries.copy(&stored)?;
            if let Some((copy, own)) = copy.zip(own.get_mut(dictionary.dim)) {
                let len = copy.len();
                *own = Some((Dictionary::open(copy, 0..len)?, dictionary.has_null));
            }
        }
        if of_dictionaries.lacks.get().is_some() {
            self.put(segment, bytes, None);
            return Ok(false);
        }
        let elf = Elf::open(tree)?.with_placed(PlacementStatus {
            placement: Placement::Volatile,
            dram_bytes: bytes,
            fallback: None,
        });
        self.put(segment, bytes, Some(VolatileTree { elf, own }));
        Ok(true)
    }

    fn put(&mut self, segment: &Segment, bytes: u64, tree: Option<VolatileTree>) {
        self.trees.retain(|kept| kept.segment != segment.id());
        self.trees.push(KeptTree {
            segment: segment.id(),
            bytes,
            tree,
        });
    }
}

impl TableIndex {
    fn definition(&self) -> VolatileDefinition {
        let IndexState {
            table_uid,
            columns,
            layout,
            order,
            ..
        } = &*self.inner;
        VolatileDefinition {
            table_uid: *table_uid,
            columns: columns.clone(),
            layout: *layout,
            order: *order,
        }
    }

    /// Returns the volatile index with its trees.
    fn with_trees(&self, columns: &[usize], segments: Vec<IndexSegment>) -> Self {
        Self {
            inner: Arc::new(IndexState {
                columns: columns.to_vec(),
                rows: segments.iter().map(|segment| segment.elf.rows()).sum(),
                complete: true,
                segments,
                ..(*self.inner).clone()
            }),
        }
    }

    /// Estimates the bytes of the trees of an index of `table` with these columns and this layout, without
    /// the dictionaries made for it. For a volatile index this is the DRAM that a build may need.
    pub fn bytes_about(&self, table: &Table) -> u64 {
        let of_segment = |segment: &Segment| {
            let most = (segment.rows() as u64).saturating_sub(1);
            let max_code = |&column: &usize| {
                let space = segment.column(column).code_space();
                space.map_or(most, |space| space.max_code())
            };
            guess(
                segment.rows(),
                self.columns().iter().map(max_code).collect(),
                self.layout(),
            )
        };
        table.segments().iter().map(of_segment).sum()
    }
}
