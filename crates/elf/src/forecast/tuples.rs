//! The sampled rows as integers that sort by tuple: the ranks of the depths, the first one in the highest
//! bits.

use super::SampledColumn;
use crate::geometry::{Buckets, bits_of};

/// One depth of the tree in a tuple.
#[derive(Debug, Clone)]
pub(super) struct TupleDepth {
    /// The dimension that it belongs to.
    pub(super) dimension: usize,
    /// Its values by rank: codes, or numbers of buckets.
    pub(super) values: Vec<u64>,
    /// The rank of each code of the dimension; `None` if the ranks are those of the codes.
    pub(super) of_code: Option<Vec<u32>>,
    /// Estimated distinct values in the segment.
    pub(super) distinct: u64,
    /// Bits below the rank.
    shift: u32,
    mask: u128,
}

/// Sampled rows, sorted.
#[derive(Debug)]
pub(super) struct SortedTuples {
    pub(super) depths: Vec<TupleDepth>,
    keys: Vec<u128>,
    /// True if the rows already were in the order of their tuples.
    pub(super) is_in_row_order: bool,
}

impl SortedTuples {
    /// Sorts the rows by these columns, with a depth for the buckets; `None` if a tuple needs more than
    /// 128 bits.
    pub(super) fn new(columns: &[&SampledColumn], buckets: Option<Buckets>) -> Option<Self> {
        let mut depths = Vec::with_capacity(columns.len() + 1);
        for (dimension, column) in columns.iter().enumerate() {
            if let Some(buckets) = buckets.filter(|buckets| buckets.depth == dimension) {
                let mut values: Vec<u64> = column.codes.iter().map(|code| code >> buckets.shift).collect();
                values.dedup();
                let bucket = |code: &u64| {
                    values
                        .binary_search(&(code >> buckets.shift))
                        .unwrap_or_else(|at| at)
                };
                let of_code = column.codes.iter().map(|code| bucket(code) as u32).collect();
                let most = (column.max_code >> buckets.shift).saturating_add(1);
                depths.push(depth(dimension, values, Some(of_code), column.distinct.min(most)));
            }
            depths.push(depth(dimension, column.codes.clone(), None, column.distinct));
        }
        let mut used = 0;
        for depth in depths.iter_mut().rev() {
            depth.shift = used;
            used += bits_of(depth.values.len().saturating_sub(1) as u64) as u32;
        }
        if used > 127 {
            return None;
        }
        for depth in &mut depths {
            let bits = bits_of(depth.values.len().saturating_sub(1) as u64);
            depth.mask = (1 << bits) - 1;
        }
        let rows = columns.first().map_or(0, |column| column.ranks.len());
        let mut keys = vec![0_u128; rows];
        for depth in &depths {
            for (key, rank) in keys.iter_mut().zip(&columns[depth.dimension].ranks) {
                let rank = depth
                    .of_code
                    .as_ref()
                    .map_or(*rank, |of_code| of_code[*rank as usize]);
                *key |= u128::from(rank) << depth.shift;
            }
        }
        let is_in_row_order = keys.is_sorted();
        keys.sort_unstable();
        Some(Self {
            depths,
            keys,
            is_in_row_order,
        })
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the rank of a row at a depth.
    pub(super) fn rank(&self, row: usize, depth: usize) -> usize {
        let depth = &self.depths[depth];
        (self.keys[row] >> depth.shift & depth.mask) as usize
    }

    /// Returns true if two rows have the same values up to this depth.
    pub(super) fn same(&self, a: usize, b: usize, depth: usize) -> bool {
        (self.keys[a] ^ self.keys[b]) >> self.depths[depth].shift == 0
    }

    /// Returns the end of the rows from `start` on, before `end`, that have the same values up to this depth.
    pub(super) fn group_end(&self, start: usize, end: usize, depth: usize) -> usize {
        let mut step = 1;
        while start + step < end && self.same(start, start + step, depth) {
            step *= 2;
        }
        let rows = start + step / 2 + 1..end.min(start + step);
        let beyond = self.keys[rows.clone()]
            .partition_point(|key| (key ^ self.keys[start]) >> self.depths[depth].shift == 0);
        (rows.start + beyond).min(end)
    }

    /// Returns the number of distinct prefixes up to this depth among adjacent rows.
    pub(super) fn groups(&self, start: usize, end: usize, depth: usize) -> usize {
        let first = usize::from(start < end);
        first
            + (start + 1..end)
                .filter(|&row| !self.same(row - 1, row, depth))
                .count()
    }
}

fn depth(dimension: usize, values: Vec<u64>, of_code: Option<Vec<u32>>, distinct: u64) -> TupleDepth {
    TupleDepth {
        dimension,
        values,
        of_code,
        distinct,
        shift: 0,
        mask: 0,
    }
}
