//! The bytes that an access path is expected to read from each tier, and how long it waits for those that are
//! not in memory.
//!
//! Columns with conditions are read chunk by chunk where zone maps leave any row. Of other columns a path
//! reads the pages of its rows, or whole chunks where that is faster; a chunk that was not verified yet is
//! read as a whole. Pages are requested ahead in any case (see `ScanAhead`), so that neither latency nor what
//! the kernel reads around a page counts.
//!
//! Rows are assumed to be spread evenly, and what is in memory as well.

use halocline_catalog::OpenTable;
use halocline_catalog::tiers::{ColumnShare, DeviceSpeed};
use halocline_columns::Segment;
use halocline_elf::TableIndex;
use halocline_media::PAGE;
use halocline_sql::size::rounded;

use super::cost::{SegmentSelection, nanoseconds};

/// Expected reads of an access path.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ExpectedReads {
    /// Bytes that are in DRAM.
    pub dram: f64,
    /// Bytes that are in the tier below.
    pub lower: f64,
    /// Nanoseconds to read chunk after chunk, which scans do while they compare.
    pub sequential: f64,
    /// Nanoseconds to read single pages.
    pub scattered: f64,
}

impl ExpectedReads {
    fn add(&mut self, other: Self) {
        self.dram += other.dram;
        self.lower += other.lower;
        self.sequential += other.sequential;
        self.scattered += other.scattered;
    }

    /// Returns the nanoseconds of all reads.
    pub(super) fn total(&self) -> f64 {
        self.sequential + self.scattered
    }
}

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
        let of_column = self.share(column);
        let all = segment.column(column).stored_bytes() as f64 * share;
        let in_chunks = (segment.rows() as f64 * share).max(1.0);
        // Each row is one of these with this chance, so a group of them has some with the other one.
        let density = (rows / in_chunks).min(1.0);
        let touched = |group: f64| 1.0 - (1.0 - density).powf(group.max(1.0));
        let page_rows = PAGE as f64 / (all / in_chunks).max(f64::MIN_POSITIVE);
        let chunk_rows = (segment.chunk_rows() as f64).min(in_chunks);
        let (pages, chunks) = (touched(page_rows.min(in_chunks)), touched(chunk_rows));
        let single = pages * of_column.verified * all;
        let unverified = chunks * (1.0 - of_column.verified) * all;
        if let Some(device) = self.device {
            let missing = 1.0 - of_column.resident;
            let chunk_bytes = (all * chunk_rows / in_chunks).max(1.0);
            let requests = single / PAGE as f64 + unverified / chunk_bytes;
            let scattered = missing * (requests * device.page_ns + unverified * device.byte_ns);
            if missing * all * device.byte_ns < scattered {
                return self.whole_chunks(column, all, of_column);
            }
            self.reads.scattered += scattered;
            self.scattered |= missing > 0.0;
        }
        self.split(single + unverified, of_column.resident);
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
        let pages = (selection.bytes / PAGE as f64).max(1.0);
        let (_, apart) = nanoseconds::ELF_LIST;
        // Lists that lie apart from the one before are anywhere; rows take their share of the bytes.
        let visited = pages * (1.0 - (-apart * selection.estimate.lists / pages).exp());
        let yielded = match selection.is_clustered {
            true => 0.0,
            false => pages * selection.estimate.rows / rows.max(1) as f64,
        };
        let touched = (visited + yielded).min(pages);
        if let Some(device) = self.device {
            let missing = 1.0 - resident;
            let single = touched * device.page_ns;
            let whole = pages * PAGE as f64 * device.byte_ns;
            self.reads.scattered += missing * single.min(whole);
            self.scattered |= missing > 0.0;
        }
        self.split(touched * PAGE as f64, resident);
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
        if let Some(device) = self.device
            && share.resident < 1.0
        {
            self.reads.sequential += (1.0 - share.resident) * bytes * device.byte_ns;
            if !self.ahead.contains(&column) {
                self.ahead.push(column);
            }
        }
        self.split(bytes, share.resident);
    }

    fn split(&mut self, bytes: f64, resident: f64) {
        self.reads.add(ExpectedReads {
            dram: bytes * resident,
            lower: bytes * (1.0 - resident),
            ..ExpectedReads::default()
        });
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
