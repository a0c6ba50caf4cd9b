//! Merging the groups of all threads.
//!
//! Pages of an array that one thread alone has groups in are taken as they are, the others are merged side by
//! side. Hashed groups are merged by partitions of their hashes, which threads take one after the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::group_table::{GroupTable, Grouping, MemoryLimit, PAGE};
use super::groups::{GroupRange, Groups};
use super::hash_index::{HashIndex, PARTITIONS, hash};
use super::layout::StateLayout;
use crate::{JoinError, JoinResult};

/// Records from which on several threads merge them.
const MIN_PARALLEL_RECORDS: usize = 1 << 14;

/// The circumstances of a merge.
#[derive(Clone, Copy)]
pub(super) struct Merge<'a> {
    pub(super) layout: &'a StateLayout,
    pub(super) grouping: Grouping,
    pub(super) threads: usize,
    pub(super) interrupted: &'a AtomicBool,
    pub(super) memory: MemoryLimit<'a>,
}

impl Merge<'_> {
    /// Merges the tables of all threads. O(groups).
    ///
    /// # Errors
    /// [`JoinError::Memory`], [`JoinError::Interrupted`].
    pub(super) fn tables(self, mut tables: Vec<GroupTable<'_>>) -> JoinResult<Groups> {
        let words = self.layout.words;
        match self.grouping {
            Grouping::Whole | Grouping::Lanes(_) => {
                tables.iter_mut().for_each(GroupTable::finish);
                let mut tables = tables.into_iter().map(|table| table.words);
                let mut all = tables.next().unwrap_or_default();
                for other in tables {
                    for (record, other) in all.chunks_exact_mut(words).zip(other.chunks_exact(words)) {
                        self.layout.merge(record, other);
                    }
                }
                let range = GroupRange {
                    arena: 0,
                    words: 0..all.len(),
                    first: Some(0),
                };
                Ok(Groups::new(self.layout, vec![all], vec![range]))
            }
            Grouping::Array(_) => self.arrays(tables),
            Grouping::Hashed => self.hashed(tables),
        }
    }

    fn arrays(self, mut tables: Vec<GroupTable<'_>>) -> JoinResult<Groups> {
        let page_words = PAGE * self.layout.words;
        let mut pages: Vec<Vec<Option<&mut [u64]>>> = Vec::with_capacity(tables.len());
        let mut owners: Vec<Option<usize>> = Vec::new();
        for (number, table) in tables.iter_mut().enumerate() {
            owners.resize(table.touched.len(), None);
            let all = table.words.chunks_exact_mut(page_words).zip(&table.touched);
            let of_table = all.zip(&mut owners).map(|((page, touched), owner)| {
                if *touched {
                    // The first thread with groups in a page receives those of all others.
                    owner.get_or_insert(number);
                }
                touched.then_some(page)
            });
            pages.push(of_table.collect());
        }
        let mut shared: Vec<Vec<&mut [u64]>> = Vec::new();
        for page in 0..owners.len() {
            let of_page = pages.iter_mut().filter_map(|pages| pages[page].take());
            let of_page: Vec<&mut [u64]> = of_page.collect();
            if of_page.len() > 1 {
                shared.push(of_page);
            }
        }
        let merge = |pages: &mut [Vec<&mut [u64]>]| -> JoinResult<()> {
            for pages in pages {
                self.check()?;
                if let Some((into, others)) = pages.split_first_mut() {
                    for other in others {
                        let pairs = into.chunks_exact_mut(self.layout.words);
                        for (record, other) in pairs.zip(other.chunks_exact(self.layout.words)) {
                            // A page may have few groups. Records without rows would change nothing.
                            if other[0] > 0 {
                                self.layout.merge(record, other);
                            }
                        }
                    }
                }
            }
            Ok(())
        };
        let threads = if shared.len() * PAGE < MIN_PARALLEL_RECORDS {
            1
        } else {
            self.threads
        };
        // Pages are disjoint, so threads merge them without locks.
        let share = shared.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let shares: Vec<_> = (shared.chunks_mut(share))
                .map(|pages| scope.spawn(move || merge(pages)))
                .collect();
            let joined = shares.into_iter().map(|share| {
                share
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.collect::<JoinResult<Vec<()>>>()
        })?;
        let ranges = owners.iter().enumerate().filter_map(|(page, owner)| {
            Some(GroupRange {
                arena: (*owner)?,
                words: page * page_words..(page + 1) * page_words,
                first: Some((page * PAGE) as u64),
            })
        });
        let ranges = ranges.collect();
        let arenas = tables.into_iter().map(|table| table.words).collect();
        Ok(Groups::new(self.layout, arenas, ranges))
    }

    fn hashed(self, tables: Vec<GroupTable<'_>>) -> JoinResult<Groups> {
        let of_arena = |(arena, words): (usize, &Vec<u64>)| GroupRange {
            arena,
            words: 0..words.len(),
            first: None,
        };
        let filled = tables.iter().filter(|table| !table.words.is_empty()).count();
        // The records of a single thread need no merge and stay where they are.
        if filled <= 1 {
            let arenas: Vec<Vec<u64>> = tables.into_iter().map(|table| table.words).collect();
            let ranges = arenas.iter().enumerate().map(of_arena).collect();
            return Ok(Groups::new(self.layout, arenas, ranges));
        }
        let records: usize = tables
            .iter()
            .map(|table| table.words.len() / self.layout.words)
            .sum();
        let threads = if records < MIN_PARALLEL_RECORDS {
            1
        } else {
            self.threads
        };
        // First each table is split, then each partition is merged.
        let partitions = self.side_by_side(threads, tables.len(), |table| tables[table].partitions())?;
        let arenas = self.side_by_side(threads, PARTITIONS, |partition| {
            let lists = tables.iter().zip(&partitions);
            let lists = lists.map(|(table, lists)| (&table.words[..], &lists[partition][..]));
            self.partition(&lists.collect::<Vec<_>>())
        })?;
        let ranges = arenas.iter().enumerate().map(of_arena).collect();
        Ok(Groups::new(self.layout, arenas, ranges))
    }

    /// Merges the records of a partition, given by their first words.
    fn partition(self, tables: &[(&[u64], &[u32])]) -> JoinResult<Vec<u64>> {
        let words = self.layout.words;
        // Room for the case that no group is in two tables.
        let most: usize = tables.iter().map(|(_, records)| records.len()).sum();
        self.memory
            .reserve(most * words * size_of::<u64>() + HashIndex::bytes_for(most))?;
        // The index must not become full, or a search in it would not end.
        let mut index = HashIndex::with_room(most);
        let mut all: Vec<u64> = Vec::with_capacity(most * words);
        for (table, records) in tables {
            for first in *records {
                let other = &table[*first as usize..][..words];
                let number = self.layout.number(other).unwrap_or(0);
                let (record, is_new) =
                    index.find_or_add(hash(number), |record| all[record * words + 1] == number);
                if is_new {
                    all.extend_from_slice(other)
                } else {
                    self.layout.merge(&mut all[record * words..][..words], other)
                }
            }
        }
        Ok(all)
    }

    /// Calls `work` with all numbers below `count` on several threads, and returns the results in order.
    fn side_by_side<T: Send>(
        self,
        threads: usize,
        count: usize,
        work: impl Fn(usize) -> JoinResult<T> + Sync,
    ) -> JoinResult<Vec<T>> {
        // Relaxed order suffices: the counter hands out numbers and nothing else.
        let next = AtomicUsize::new(0);
        let run = || -> JoinResult<Vec<(usize, T)>> {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(done);
                }
                self.check()?;
                done.push((number, work(number)?));
            }
        };
        let mut all = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(run)).collect();
            let mut all = run()?;
            for other in others {
                let done = other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                all.extend(done?);
            }
            Ok::<_, JoinError>(all)
        })?;
        all.sort_unstable_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, result)| result).collect())
    }

    fn check(self) -> JoinResult<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            Err(JoinError::Interrupted)
        } else {
            Ok(())
        }
    }
}
