//! The durable header of an index, the Elf header of docs/format/indexes.md.
//!
//! Invariants: all numbers are little-endian; the header's checksum covers every byte before the nodes, so an
//! index whose header passes [`ElfHeader::read`] has self-consistent lengths and dimensions. The nodes are
//! *not* covered: the pool's checksums (`check`) cover them, and searches tolerate any bytes there.

use crate::geometry::{Buckets, MAX_DIMS, RecordGeometry};
use crate::histogram::{BUCKETS, Histogram};
use crate::packed::point_batch::FieldCoefficients;
use crate::packed::shortcuts::{ShortcutForm, Shortcuts};
use crate::view::PAD;
use crate::{ElfError, Layout, Result};
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"HLCLELF\0";
/// Newest version. An index is written in the oldest that can say what it is: one with quartered shortcuts in
/// version 5, another bucketed one in version 4, another with shortcuts of form near in version 3, another
/// clustered one in version 2, all others in version 1.
const VERSION: u16 = 5;
/// Beside the layout, since version 2: the index is clustered.
const CLUSTERED: u16 = 1 << 15;
/// Beside the layout, since version 4: the bits of a code that are not its bucket's; 0: there are no buckets.
const SHIFT_AT: u32 = 8;
const SHIFT: u16 = 0x3f << SHIFT_AT;

/// Most rows of an index: a TID's top bit is the last-mark of layout `published`.
pub(crate) const MAX_ROWS: u64 = 1 << 31;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U16,
    /// The top bit marks a clustered index (version 2); [`SHIFT`] holds the shift of its buckets (version
    /// 4).
    layout: U16,
    dims: U16,
    /// Number of depths that the shortcuts cover (layout `packed`), with their form in the two top bits; 0
    /// for none. If there are buckets, theirs is the last of these depths.
    shortcut_dims: U16,
    rows: U64,
    /// Bytes of the whole index.
    len: U64,
    /// First byte after the header and its tables.
    nodes_start: U64,
    /// First byte after the nodes.
    nodes_end: U64,
    /// Offset of the root list; equals `nodes_end` in an empty index.
    root: U64,
    /// xxh3 of the header and its tables, with this field zero.
    checksum: U64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDim {
    max_code: U64,
    /// Estimated distinct codes.
    distinct: U64,
    /// Offset and number of the codes whose ranks stand for them (layout `published`); both zero if codes
    /// stand for themselves.
    ranks_at: U64,
    ranks: U64,
    /// Equi-depth quantiles of the codes.
    quantiles: [U64; BUCKETS + 1],
}

const _: () = assert!(size_of::<RawHeader>() == 64 && size_of::<RawDim>() == 552);

/// Location of the sorted codes of a dimension whose ranks the nodes hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ranks {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// A validated header.
#[derive(Debug, Clone)]
pub(crate) struct ElfHeader {
    pub(crate) layout: Layout,
    pub(crate) len: u64,
    pub(crate) nodes_start: u64,
    pub(crate) nodes_end: u64,
    pub(crate) root: u64,
    pub(crate) geometry: RecordGeometry,
    pub(crate) ranks: Vec<Ranks>,
    pub(crate) shortcuts: Shortcuts,
    /// The index has shortcuts in an obsolete form, which are ignored.
    pub(crate) unread: bool,
    /// Coefficients for batches of points, if the shape of the index allows them.
    pub(crate) coefficients: Option<Vec<FieldCoefficients>>,
    pub(crate) histograms: Vec<Histogram>,
}

/// Returns the bytes of the header and tables of an index with `dims` dimensions.
pub(crate) fn header_len(dims: usize) -> usize {
    (size_of::<RawHeader>() + dims * size_of::<RawDim>()).next_multiple_of(64)
}

/// Returns the length of an index whose last used byte is before `end`.
pub(crate) fn padded_len(end: u64) -> u64 {
    (end + PAD as u64).next_multiple_of(64)
}

impl Layout {
    fn number(self) -> u16 {
        match self {
            Self::Packed => 1,
            Self::Published => 2,
        }
    }
}

impl ElfHeader {
    /// Encodes the header and its tables, `header_len(dims)` bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let dims = self.geometry.columns();
        let (version, clustered) = if self.geometry.is_clustered() {
            (2, CLUSTERED)
        } else {
            (1, 0)
        };
        let (version, shift) = match self.geometry.buckets {
            Some(buckets) => (4, (buckets.shift as u16) << SHIFT_AT),
            None if self.shortcuts.form == ShortcutForm::Near => (3, 0),
            None => (version, 0),
        };
        let version = match self.shortcuts.form {
            ShortcutForm::Quartered => VERSION,
            ShortcutForm::Direct | ShortcutForm::Near => version,
        };
        let mut raw = RawHeader {
            magic: MAGIC,
            version: version.into(),
            layout: (self.layout.number() | clustered | shift).into(),
            dims: (dims as u16).into(),
            shortcut_dims: (self.shortcuts.dims() as u16 | self.shortcuts.form.bit()).into(),
            rows: self.geometry.rows.into(),
            len: self.len.into(),
            nodes_start: self.nodes_start.into(),
            nodes_end: self.nodes_end.into(),
            root: self.root.into(),
            checksum: 0.into(),
        };
        let mut bytes = raw.as_bytes().to_vec();
        for (dim, ranks) in self.ranks.iter().enumerate() {
            let depth = self.geometry.depth_of(dim);
            let histogram = &self.histograms[depth];
            let dim = RawDim {
                max_code: self.geometry.max_codes[depth].into(),
                distinct: histogram.distinct.into(),
                ranks_at: ranks.at.into(),
                ranks: ranks.len.into(),
                quantiles: histogram.quantiles.map(U64::new),
            };
            bytes.extend_from_slice(dim.as_bytes());
        }
        bytes.resize(header_len(dims), 0);
        raw.checksum = xxh3_64(&bytes).into();
        bytes[..size_of::<RawHeader>()].copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Reads and validates. O(dims).
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let not_an_elf = || ElfError::NotAnElf {
            found: bytes[..bytes.len().min(8)].to_vec(),
        };
        let (raw, _) = RawHeader::read_from_prefix(bytes).map_err(|_| not_an_elf())?;
        if raw.magic != MAGIC {
            return Err(not_an_elf());
        }
        if raw.version.get() > VERSION {
            return Err(ElfError::NewerVersion {
                found: raw.version.get(),
                supported: VERSION,
            });
        }
        let damaged = |what| ElfError::damaged(0, what);
        let dims = raw.dims.get() as usize;
        if !(1..=MAX_DIMS).contains(&dims) {
            return Err(damaged("the header's number of dimensions is out of range"));
        }
        let tables = bytes
            .get(..header_len(dims))
            .ok_or_else(|| damaged("the index is shorter than its header"))?;
        let mut zeroed = tables.to_vec();
        zeroed[..size_of::<RawHeader>()].copy_from_slice(
            RawHeader {
                checksum: 0.into(),
                ..raw
            }
            .as_bytes(),
        );
        if xxh3_64(&zeroed) != raw.checksum.get() {
            return Err(damaged("the header's checksum does not match"));
        }
        let shift = match raw.version.get() {
            4.. => u32::from(raw.layout.get() & SHIFT) >> SHIFT_AT,
            _ => 0,
        };
        let layout = raw.layout.get() & !(SHIFT * u16::from(shift > 0));
        let (layout, clustered) = match (raw.version.get(), layout) {
            (_, 1) => (Layout::Packed, false),
            (_, 2) => (Layout::Published, false),
            (2.., layout) if layout == CLUSTERED | 1 => (Layout::Packed, true),
            _ => return Err(damaged("the layout is unknown")),
        };
        let (raw_dims, _) = <[RawDim]>::ref_from_prefix_with_elems(&tables[size_of::<RawHeader>()..], dims)
            .map_err(|_| damaged("the dimension table is cut off"))?;
        let max_codes = raw_dims.iter().map(|dim| dim.max_code.get()).collect();
        let geometry = if clustered {
            RecordGeometry::clustered(raw.rows.get(), max_codes)
        } else {
            RecordGeometry::new(raw.rows.get(), max_codes)
        };
        let (shortcut_dims, form) = ShortcutForm::split(raw.shortcut_dims.get());
        let buckets = (shift > 0).then(|| Buckets {
            depth: shortcut_dims.wrapping_sub(1),
            shift,
        });
        let mut histograms: Vec<Histogram> = raw_dims
            .iter()
            .map(|dim| Histogram {
                distinct: dim.distinct.get(),
                quantiles: dim.quantiles.map(|code| code.get()),
            })
            .collect();
        let geometry = match buckets {
            None => geometry,
            Some(buckets) if layout == Layout::Packed && buckets.are_possible(&geometry) => {
                histograms.insert(buckets.depth, histograms[buckets.depth].upper(buckets.shift));
                geometry.bucketed(buckets)
            }
            Some(_) => return Err(damaged("the header's buckets cannot be")),
        };
        // Before version 3 the same bit marked a form that is no longer supported; searches then start at the
        // root.
        let unread = raw.version.get() < 3 && form == ShortcutForm::Near;
        if raw.version.get() < 5 && form == ShortcutForm::Quartered {
            return Err(damaged("the header's shortcuts cannot be"));
        }
        let shortcut_dims = if unread { 0 } else { shortcut_dims };
        let shortcuts = Shortcuts::new(&geometry, shortcut_dims, form, raw.nodes_end.get())
            .filter(|shortcuts| layout == Layout::Packed || shortcuts.dims() == 0)
            .ok_or_else(|| damaged("the header's shortcuts cannot be"))?;
        let header = Self {
            layout,
            len: raw.len.get(),
            nodes_start: raw.nodes_start.get(),
            nodes_end: raw.nodes_end.get(),
            root: raw.root.get(),
            unread,
            coefficients: FieldCoefficients::all(&geometry, &shortcuts),
            geometry,
            shortcuts,
            ranks: raw_dims
                .iter()
                .map(|dim| Ranks {
                    at: dim.ranks_at.get(),
                    len: dim.ranks.get(),
                })
                .collect(),
            histograms,
        };
        header.validate(bytes.len() as u64)?;
        Ok(header)
    }

    fn validate(&self, available: u64) -> Result<()> {
        let damaged = |what| Err(ElfError::damaged(0, what));
        if self.len > available {
            return damaged("the index is cut off: shorter than its header says");
        }
        let sorted = [
            header_len(self.geometry.columns()) as u64,
            self.nodes_start,
            self.nodes_end,
            self.len,
        ];
        let end = self.nodes_end.max(self.shortcuts.end());
        if !sorted.is_sorted() || self.len.saturating_sub(end) < PAD as u64 {
            return damaged("the header's offsets are out of order");
        }
        if !(self.nodes_start..=self.nodes_end).contains(&self.root) {
            return damaged("the root lies outside the nodes");
        }
        if self.geometry.rows > MAX_ROWS || (self.geometry.rows > 0 && self.root == self.nodes_end) {
            return damaged("the header's number of rows is out of range");
        }
        for ranks in &self.ranks {
            let end = ranks.len.checked_mul(8).and_then(|len| ranks.at.checked_add(len));
            if end.is_none_or(|end| end > self.len) {
                return damaged("a rank table lies outside the index");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Returns offset, size and name in each row of the table under a heading of `docs/format/indexes.md`.
    fn documented(heading: &str) -> Vec<String> {
        let section = include_str!("../../../docs/format/indexes.md")
            .lines()
            .skip_while(|line| *line != heading);
        let rows = section
            .skip_while(|line| !line.starts_with('|'))
            .take_while(|line| line.starts_with('|'));
        rows.skip(2)
            .map(|row| row.split('|').take(4).collect::<Vec<_>>().join("|"))
            .collect()
    }

    macro_rules! rows {
        ($structure:ty: $($field:ident),*) => {{
            let empty: $structure = zerocopy::FromZeros::new_zeroed();
            vec![$(format!(
                "| {} | {} | `{}` ",
                offset_of!($structure, $field),
                size_of_val(&empty.$field),
                stringify!($field)
            )),*]
        }};
    }

    #[test]
    fn structures_are_as_documented() {
        let header = rows!(RawHeader: magic, version, layout, dims, shortcut_dims, rows, len, nodes_start, nodes_end, root, checksum);
        assert_eq!(documented("## ElfHeader (64 bytes)"), header);
        let dim = rows!(RawDim: max_code, distinct, ranks_at, ranks, quantiles);
        assert_eq!(documented("## ElfDimension (552 bytes)"), dim);
    }
}
