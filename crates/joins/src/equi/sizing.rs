//! How many partitions a build side gets, and how large their buffers are.

use super::join::OUTPUT_ROWS;

/// Smallest buffer of a partition: a page.
const MIN_CHUNK: usize = 4 << 10;

/// Largest buffer of a partition.
const MAX_CHUNK: usize = 256 << 10;

/// Size of a partition whose hash table is built within the CPU's own cache.
const CACHED_PART: usize = 512 << 10;

/// Size of a spilled partition whose hash table fits the last-level cache beside others.
const SPILLED_PART: usize = 2 << 20;

/// Buffers for which there are more spilled partitions than needed: smaller ones would make many small
/// transfers.
const SPILLED_CHUNK: usize = 64 << 10;

/// Size of a partition if the build side has any number of rows, and the memory is full.
const UNKNOWN_PART: usize = 4 << 20;

/// Most partitions: each thread writes to all of them in turn, and more would miss the TLB.
const MAX_PARTS: usize = 1024;

/// Most partitions if some are spilled, so that buffers stay large.
const MAX_SPILLED_PARTS: usize = 512;

/// Most partitions if nothing is known of the build side, which then is small more often than not.
const MAX_UNKNOWN_PARTS: usize = 128;

/// Number of partitions and rows of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizing {
    pub(super) parts: usize,
    pub(super) chunk_rows: usize,
}

impl Sizing {
    /// Returns the rows of the first buffer of a partition.
    pub(super) fn first_rows(&self, row_bytes: usize) -> usize {
        (MIN_CHUNK / row_bytes).clamp(1, self.chunk_rows)
    }

    /// Chooses for a memory limit, a number of threads, bytes of a row in a buffer, and the estimated bytes
    /// of the hash table (`None` if unknown).
    ///
    /// The buffers of all threads take an eighth of the memory, or what the least partitions and buffers
    /// need.
    pub(super) fn new(limit: usize, threads: usize, row_bytes: usize, table: Option<usize>) -> Sizing {
        let fits = table.is_some_and(|table| table <= limit / 8 * 7);
        let parts = match table {
            Some(table) if fits => (table / CACHED_PART).next_power_of_two().clamp(16, MAX_PARTS),
            Some(table) => {
                let times = (table / limit.max(1)).clamp(1, MAX_SPILLED_PARTS);
                let cached = (table / SPILLED_PART).min(limit / (8 * threads * SPILLED_CHUNK));
                (8 * times)
                    .max(cached)
                    .next_power_of_two()
                    .clamp(32, MAX_SPILLED_PARTS)
            }
            None => (limit / UNKNOWN_PART)
                .next_power_of_two()
                .clamp(32, MAX_UNKNOWN_PARTS),
        };
        let table = table.unwrap_or(limit);
        let most = limit / (4 * threads * MIN_CHUNK);
        let parts = parts.min(most.max(4).next_power_of_two());
        let mut bytes = limit / (8 * threads * parts);
        if fits {
            bytes = bytes.min(table / (2 * threads * parts));
        }
        let bytes = bytes.clamp(MIN_CHUNK, MAX_CHUNK);
        Sizing {
            parts,
            chunk_rows: (bytes / row_bytes).clamp(1, OUTPUT_ROWS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_little_of_the_memory() {
        for limit in [1 << 20, 64 << 20, 8 << 30_usize] {
            for table in [
                None,
                Some(1000),
                Some(limit / 2),
                Some(limit * 2),
                Some(limit * 40),
            ] {
                for row in [8, 16, 400] {
                    let sizing = Sizing::new(limit, 4, row, table);
                    let buffers = sizing.parts * sizing.chunk_rows * row * 4;
                    assert!(
                        buffers <= limit / 4 + (256 << 10),
                        "{limit} {table:?} {row}: {sizing:?}"
                    );
                }
            }
        }
        assert_eq!(Sizing::new(0, 2, 16, Some(100)).parts, 4);
    }
}
