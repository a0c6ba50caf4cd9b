//! Expected reads of an access path: bytes from each tier, and nanoseconds for what is not in memory.
//!
//! Columns with conditions are read chunk by chunk where zone maps leave any row. Of other columns a path
//! reads the pages of its rows, or whole chunks where that is faster; a chunk that was not verified yet is
//! read as a whole. Pages are requested ahead in any case, so that neither latency nor what the kernel reads
//! around a page counts.
//!
//! Rows are assumed to be spread evenly, and what is in memory as well.

use halocline_media::PAGE;

use super::index::SegmentSelection;
use crate::machine::{DeviceSpeed, nanoseconds};

/// The part of a column that is in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnShare {
    /// Share of its bytes.
    pub resident: f64,
    /// Share of its chunks of which single rows can be read, as they were verified.
    pub verified: f64,
}

impl ColumnShare {
    /// A column that is in memory as a whole.
    pub const WHOLE: Self = Self {
        resident: 1.0,
        verified: 1.0,
    };
}

/// The chunks of a column of which rows are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunksOfRows {
    /// Bytes of these chunks.
    pub bytes: f64,
    /// Rows of these chunks.
    pub rows: f64,
    /// Rows of one chunk.
    pub chunk_rows: f64,
    /// The part of the column that is in memory.
    pub share: ColumnShare,
}

/// Expected reads of an access path, or of a part of one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ExpectedReads {
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
    /// Adds other reads.
    pub fn add(&mut self, other: Self) {
        self.dram += other.dram;
        self.lower += other.lower;
        self.sequential += other.sequential;
        self.scattered += other.scattered;
    }

    /// Returns the nanoseconds of all reads.
    pub fn total(&self) -> f64 {
        self.sequential + self.scattered
    }

    /// Returns the nanoseconds of a scan that computes for `cpu` nanoseconds: it reads chunks meanwhile, and
    /// waits for single pages.
    pub fn beside_scan(&self, cpu: f64) -> f64 {
        cpu.max(self.sequential) + self.scattered
    }

    /// Returns the reads of whole chunks of this number of bytes, of which the share `resident` is in memory.
    /// `device` is `None` if the tier below DRAM needs no reads before it is used.
    pub fn of_chunks(bytes: f64, resident: f64, device: Option<DeviceSpeed>) -> Self {
        Self {
            sequential: device.map_or(0.0, |device| (1.0 - resident) * bytes * device.byte_ns),
            ..Self::split(bytes, resident)
        }
    }

    /// Returns the reads of `rows` rows that are in these chunks: by single pages, or `None` if whole chunks
    /// are read faster. No pages are read if there are no rows.
    pub fn of_rows(chunks: &ChunksOfRows, rows: f64, device: Option<DeviceSpeed>) -> Option<Self> {
        let (all, in_chunks, share) = (chunks.bytes, chunks.rows.max(1.0), chunks.share);
        // Each row is one of these with this chance, so a group of them has some with the other one.
        let density = (rows / in_chunks).min(1.0);
        let touched = |group: f64| 1.0 - (1.0 - density).powf(group.max(1.0));
        let page_rows = PAGE as f64 / (all / in_chunks).max(f64::MIN_POSITIVE);
        let chunk_rows = chunks.chunk_rows.min(in_chunks);
        let (pages, read_chunks) = (touched(page_rows.min(in_chunks)), touched(chunk_rows));
        let single = pages * share.verified * all;
        let unverified = read_chunks * (1.0 - share.verified) * all;
        let mut scattered = 0.0;
        if let Some(device) = device {
            let missing = 1.0 - share.resident;
            let chunk_bytes = (all * chunk_rows / in_chunks).max(1.0);
            let requests = single / PAGE as f64 + unverified / chunk_bytes;
            scattered = missing * (requests * device.page_ns + unverified * device.byte_ns);
            if missing * all * device.byte_ns < scattered {
                return None;
            }
        }
        Some(Self {
            scattered,
            ..Self::split(single + unverified, share.resident)
        })
    }

    /// Returns the reads of a selection through an index of `rows` rows, of which the share `resident` is in
    /// memory.
    pub fn of_selection(
        selection: SegmentSelection,
        rows: u64,
        resident: f64,
        device: Option<DeviceSpeed>,
    ) -> Self {
        let pages = (selection.bytes / PAGE as f64).max(1.0);
        let (_, apart) = nanoseconds::ELF_LIST;
        // Lists that lie apart from the one before are anywhere; rows take their share of the bytes.
        let visited = pages * (1.0 - (-apart * selection.lists / pages).exp());
        let yielded = if selection.is_clustered {
            0.0
        } else {
            pages * selection.rows / rows.max(1) as f64
        };
        let touched = (visited + yielded).min(pages);
        let scattered = device.map_or(0.0, |device| {
            let single = touched * device.page_ns;
            let whole = pages * PAGE as f64 * device.byte_ns;
            (1.0 - resident) * single.min(whole)
        });
        Self {
            scattered,
            ..Self::split(touched * PAGE as f64, resident)
        }
    }

    fn split(bytes: f64, resident: f64) -> Self {
        Self {
            dram: bytes * resident,
            lower: bytes * (1.0 - resident),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DeviceSpeed = DeviceSpeed::new(1e9, 80_000.0);

    fn chunks(resident: f64, verified: f64) -> ChunksOfRows {
        ChunksOfRows {
            bytes: 1e8,
            rows: 1e7,
            chunk_rows: 65_536.0,
            share: ColumnShare { resident, verified },
        }
    }

    #[test]
    fn few_rows_read_their_pages_and_many_read_chunks() {
        let few = ExpectedReads::of_rows(&chunks(0.0, 1.0), 10.0, Some(DISK)).unwrap();
        assert!(
            (few.scattered / (10.0 * DISK.page_ns) - 1.0).abs() < 0.01,
            "{few:?}"
        );
        assert_eq!((few.dram, few.sequential), (0.0, 0.0));
        assert_eq!(ExpectedReads::of_rows(&chunks(0.0, 1.0), 1e6, Some(DISK)), None);
        // What is in memory is not read.
        let resident = ExpectedReads::of_rows(&chunks(1.0, 1.0), 1e6, Some(DISK)).unwrap();
        assert_eq!((resident.total(), resident.lower), (0.0, 0.0));
        // Without a device, all bytes are used where they are.
        let in_place = ExpectedReads::of_rows(&chunks(0.0, 1.0), 1e6, None).unwrap();
        assert!(in_place.total() == 0.0 && in_place.lower > 9e7, "{in_place:?}");
    }

    #[test]
    fn chunks_are_read_while_a_scan_computes() {
        let reads = ExpectedReads::of_chunks(1e6, 0.25, Some(DISK));
        assert_eq!((reads.dram, reads.lower, reads.sequential), (2.5e5, 7.5e5, 7.5e5));
        assert_eq!((reads.beside_scan(1e5), reads.beside_scan(1e6)), (7.5e5, 1e6));
    }

    #[test]
    fn a_selection_reads_no_more_than_the_index() {
        let selection = SegmentSelection {
            rows: 1e6,
            lists: 1e6,
            ranges: 1e6,
            is_clustered: false,
            bytes: 4096.0 * 100.0,
        };
        let reads = ExpectedReads::of_selection(selection, 1_000_000, 0.0, Some(DISK));
        assert_eq!(reads.lower, selection.bytes);
        assert!((reads.scattered - selection.bytes * DISK.byte_ns).abs() < 1e-6);
        let copied = ExpectedReads::of_selection(selection, 1_000_000, 1.0, Some(DISK));
        assert_eq!((copied.dram, copied.total()), (selection.bytes, 0.0));
    }
}
