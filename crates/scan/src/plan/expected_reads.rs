//! The bytes that an access path is expected to read from each tier, and how long it waits for those that are
//! not in memory: sums over the columns and segments of a table, by the formulas of
//! [`halocline_costs::access::reads`].

use halocline_catalog::OpenTable;
use halocline_columns::Segment;
use halocline_costs::access::index::SegmentSelection;
use halocline_costs::access::reads::{ChunksOfRows, ColumnShare, ExpectedReads};
use halocline_costs::machine::DeviceSpeed;
use halocline_elf::TableIndex;
use halocline_sql::size::rounded;

/// Sums of expected reads, and the columns of which whole chunks are expected to be read.
pub(super) struct ReadModel<'a> {
    open: &'a OpenTable,
    /// `None` if the tier below DRAM needs no reads before it is used.
    device: Option<DeviceSpeed>,
    pub reads: ExpectedReads,
    /// Columns of which whole chunks are read that are not in memory.
    pub ahead: Vec<usize>,
    /// True if single pages, or pages of the index, have to be read.
    pub scattered: bool,
}

impl<'a> ReadModel<'a> {
    /// Starts the model of a path; `None` if everything is in DRAM anyway.
    pub(super) fn new(open: &'a OpenTable) -> Option<Self> {
        open.memory.lower_tier()?;
        Some(Self {
            open,
            device: open.memory.device(),
            reads: ExpectedReads::default(),
            ahead: Vec::new(),
            scattered: false,
        })
    }

    /// Adds a column of a segment with a condition, of which `share` of the rows are in chunks that are read.
    pub(super) fn chunks(&mut self, segment: &Segment, column: usize, share: f64) {
        let of_column = self.share(column);
        let bytes = segment.column(column).stored_bytes() as f64 * share;
        self.whole_chunks(column, bytes, of_column);
    }

    /// Adds a column of which `rows` rows of a segment are read. They are in chunks with `share` of the
    /// segment's rows.
    pub(super) fn rows(&mut self, segment: &Segment, column: usize, rows: f64, share: f64) {
        if rows <= 0.0 || share <= 0.0 {
            return;
        }
        let chunks = ChunksOfRows {
            bytes: segment.column(column).stored_bytes() as f64 * share,
            rows: segment.rows() as f64 * share,
            chunk_rows: segment.chunk_rows() as f64,
            share: self.share(column),
        };
        match ExpectedReads::of_rows(&chunks, rows, self.device) {
            Some(reads) => {
                self.reads.add(reads);
                self.note_scattered(chunks.share.resident);
            }
            None => self.whole_chunks(column, chunks.bytes, chunks.share),
        }
    }

    /// Adds a selection through an index, the one at position `number`.
    pub(super) fn index(
        &mut self,
        number: usize,
        index: &TableIndex,
        selection: SegmentSelection,
        rows: u64,
    ) {
        let resident = self.open.residency.index(&self.open.memory, number, index);
        self.reads.add(ExpectedReads::of_selection(
            selection,
            rows,
            resident,
            self.device,
        ));
        self.note_scattered(resident);
    }

    /// Writes the expected bytes from each tier for EXPLAIN.
    pub(super) fn describe(&self) -> String {
        let lower_tier = self.open.memory.lower_tier().unwrap_or_default();
        describe(self.reads.dram, self.reads.lower, lower_tier)
    }

    fn share(&self, column: usize) -> ColumnShare {
        match self.device {
            Some(_) => {
                let open = self.open;
                open.residency.column(&open.memory, &open.table, column)
            }
            None => ColumnShare {
                resident: 0.0,
                verified: 1.0,
            },
        }
    }

    fn whole_chunks(&mut self, column: usize, bytes: f64, share: ColumnShare) {
        if self.device.is_some() && share.resident < 1.0 && !self.ahead.contains(&column) {
            self.ahead.push(column);
        }
        self.reads
            .add(ExpectedReads::of_chunks(bytes, share.resident, self.device));
    }

    /// Notes that single pages are read, of something that is in memory to a share.
    fn note_scattered(&mut self, resident: f64) {
        self.scattered |= self.device.is_some() && resident < 1.0;
    }
}

/// Writes bytes from two tiers as `1.5 MiB from DRAM, 12.0 KiB from disk`.
fn describe(dram: f64, lower: f64, lower_tier: &str) -> String {
    let (dram, lower) = (dram.round() as u64, lower.round() as u64);
    let mut parts = Vec::new();
    if dram > 0 || lower == 0 {
        parts.push(format!("{} from DRAM", rounded(dram)));
    }
    if lower > 0 {
        parts.push(format!("{} from {lower_tier}", rounded(lower)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_without_bytes_are_left_out() {
        let text = |dram, lower| describe(dram, lower, "disk");
        assert_eq!(text(1536.0, 17.2), "1.5 KiB from DRAM, 17 bytes from disk");
        assert_eq!(text(1536.0, 0.0), "1.5 KiB from DRAM");
        assert_eq!(text(0.4, 4096.0), "4.0 KiB from disk");
        assert_eq!(text(0.0, 0.0), "0 bytes from DRAM");
    }
}
