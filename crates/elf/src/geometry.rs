//! The record format: the position of each dimension.
//!
//! A *record* is a tuple's remaining dimensions and its TID as one little-endian integer: the TID in the
//! lowest bits, above it the last dimension, then the one before, and so on up. Two things follow, and the
//! whole crate rests on them:
//! - a field's position does not depend on where in the tree the record was cut off, so one predicate test
//!   serves all depths, and the record of a list at depth `d` is the lowest `record_len(d)` bytes of the full
//!   one;
//! - the full record, compared as an integer, sorts by tuple and then by TID: it is its own sort key.
//!
//! A field never straddles more than eight bytes (it starts at a byte boundary where it otherwise would), so
//! that one unaligned 64-bit load reads it.
//!
//! A *bucketed* tree has one depth more than there are dimensions: its values are the upper bits of the next
//! one's ([`Buckets`]). It has no bits of its own in a record; its field is a part of that dimension's.
//!
//! A *clustered* index is one whose rows stand in the order of their tuples: the rows below a list are
//! consecutive, so the list stores the number of the first one, and its records have no TID.

/// Most dimensions of an index.
pub(crate) const MAX_DIMS: usize = 64;

/// Position of one field in a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// First byte of the eight that hold the field.
    pub(crate) byte: usize,
    /// Bits to shift the load to the right.
    pub(crate) shift: u32,
    /// Width as a mask.
    pub(crate) mask: u64,
}

impl Field {
    /// Returns the index of the field's first bit in the record.
    pub(crate) fn bit(self) -> usize {
        self.byte * 8 + self.shift as usize
    }

    /// Returns the width of the field in bits.
    pub(crate) fn width(self) -> usize {
        self.mask.count_ones() as usize
    }
}

/// The fields again, an array for each of their parts, for vector loads of up to four dimensions from any one
/// on.
#[derive(Debug, Clone)]
pub(crate) struct FieldTable {
    pub(crate) byte: [u64; MAX_DIMS + 4],
    pub(crate) shift: [u64; MAX_DIMS + 4],
    pub(crate) mask: [u64; MAX_DIMS + 4],
    /// First bit above the TID.
    pub(crate) tail: [u64; MAX_DIMS + 4],
}

/// The extra depth of a bucketed tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// Depth of the buckets, which equals the number of the dimension whose codes they group.
    pub(crate) depth: usize,
    /// Bits of a code below those that select its bucket.
    pub(crate) shift: u32,
}

/// Format of the lists of one depth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LevelFormat {
    /// Bytes of a value: 1, 2, 4 or 8; 0 below the last dimension.
    pub(crate) value_len: usize,
    /// All bits of a value.
    pub(crate) value_mask: u64,
    /// Bytes of a record.
    pub(crate) record_len: usize,
    /// All bits of a record above the TID, if one load can give them all.
    pub(crate) tail_mask: Option<u64>,
}

/// The record format of one index and what follows from it.
#[derive(Debug, Clone)]
pub(crate) struct RecordGeometry {
    /// Rows in the index.
    pub(crate) rows: u64,
    /// The extra depth of a bucketed tree.
    pub(crate) buckets: Option<Buckets>,
    /// Largest value of each depth.
    pub(crate) max_codes: Vec<u64>,
    /// One field for each depth.
    pub(crate) fields: Vec<Field>,
    /// The fields in the form for vector loads.
    pub(crate) table: Box<FieldTable>,
    /// Bits of a record in a list of depth `d`, for `d` in `0..=dims`.
    pub(crate) record_bits: Vec<usize>,
    /// One for each depth in `0..=dims`.
    pub(crate) levels: Vec<LevelFormat>,
    /// First of the eight bytes that hold the bits above the TID, and how far they are shifted.
    pub(crate) tail_at: (usize, u32),
    /// Mask of the TID in a record's first four bytes; 0 if records have none.
    pub(crate) tid_mask: u32,
    /// Bytes before each list that hold the number of its first row; 0 if records have TIDs.
    pub(crate) base_len: usize,
    /// Bits of the full record.
    pub(crate) bits: usize,
}

pub(crate) fn bits_of(max: u64) -> usize {
    (64 - max.leading_zeros()) as usize
}

fn value_len(max: u64) -> usize {
    bits_of(max).div_ceil(8).next_power_of_two().max(1)
}

fn mask_of(bits: usize) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}

impl RecordGeometry {
    /// Creates a format of records with TIDs.
    pub(crate) fn new(rows: u64, max_codes: Vec<u64>) -> Self {
        let tid_bits = bits_of(rows.saturating_sub(1)).max(1);
        Self::with_tids(tid_bits, rows, max_codes)
    }

    /// Creates a clustered format: lists with the number of their first row, records without TIDs.
    pub(crate) fn clustered(rows: u64, max_codes: Vec<u64>) -> Self {
        Self {
            base_len: bits_of(rows.saturating_sub(1)).div_ceil(8).max(1),
            ..Self::with_tids(0, rows, max_codes)
        }
    }

    /// Returns true if rows are in the order of their tuples.
    pub(crate) fn is_clustered(&self) -> bool {
        self.base_len > 0
    }

    /// Returns the format with the depth of the buckets added.
    pub(crate) fn bucketed(self, buckets: Buckets) -> Self {
        let Self {
            rows,
            mut max_codes,
            mut fields,
            mut record_bits,
            tail_at,
            tid_mask,
            base_len,
            bits,
            ..
        } = self;
        let Buckets { depth, shift } = buckets;
        let whole = fields[depth];
        let part = Field {
            byte: whole.byte,
            shift: whole.shift + shift,
            mask: whole.mask >> shift,
        };
        max_codes.insert(depth, max_codes[depth] >> shift);
        fields.insert(depth, part);
        record_bits.insert(depth, whole.bit() + whole.width());
        let tid_bits = tail_at.0 * 8 + tail_at.1 as usize;
        Self {
            buckets: Some(buckets),
            base_len,
            tid_mask,
            ..Self::from_fields(tid_bits, rows, max_codes, fields, record_bits, bits)
        }
    }

    fn with_tids(tid_bits: usize, rows: u64, max_codes: Vec<u64>) -> Self {
        let dims = max_codes.len();
        let mut fields = vec![Field::default(); dims];
        let mut record_bits = vec![tid_bits; dims + 1];
        let mut at = tid_bits;
        for dim in (0..dims).rev() {
            let width = bits_of(max_codes[dim]);
            record_bits[dim] = at;
            if at % 8 + width > 64 {
                at = at.next_multiple_of(8);
            }
            fields[dim] = Field {
                byte: at / 8,
                shift: (at % 8) as u32,
                mask: mask_of(width),
            };
            at += width;
        }
        Self::from_fields(tid_bits, rows, max_codes, fields, record_bits, at)
    }

    fn from_fields(
        tid_bits: usize,
        rows: u64,
        max_codes: Vec<u64>,
        fields: Vec<Field>,
        record_bits: Vec<usize>,
        bits: usize,
    ) -> Self {
        let dims = max_codes.len();
        let part = |part: fn(&Field) -> u64| std::array::from_fn(|dim| fields.get(dim).map_or(0, part));
        let table = FieldTable {
            byte: part(|field| field.byte as u64),
            shift: part(|field| u64::from(field.shift)),
            mask: part(|field| field.mask),
            tail: std::array::from_fn(|dim| {
                fields.get(dim).map_or(0, |field| (field.bit() - tid_bits) as u64)
            }),
        };
        let levels = (0..=dims).map(|depth| {
            let value_len = max_codes.get(depth).map_or(0, |&max| value_len(max));
            let tail = record_bits[depth] - tid_bits;
            LevelFormat {
                value_len,
                value_mask: mask_of(value_len * 8),
                record_len: record_bits[depth].div_ceil(8),
                tail_mask: (tail + tid_bits % 8 <= 64).then(|| mask_of(tail)),
            }
        });
        Self {
            rows,
            buckets: None,
            levels: levels.collect(),
            table: Box::new(table),
            record_bits,
            tail_at: (tid_bits / 8, (tid_bits % 8) as u32),
            tid_mask: mask_of(tid_bits) as u32,
            base_len: 0,
            bits,
            max_codes,
            fields,
        }
    }

    /// Returns the number of levels of the tree: the dimensions, and one more if it is bucketed.
    pub(crate) fn dims(&self) -> usize {
        self.max_codes.len()
    }

    /// Returns the number of indexed columns, without the buckets.
    pub(crate) fn columns(&self) -> usize {
        self.dims() - usize::from(self.buckets.is_some())
    }

    /// Returns true if the values of this depth are buckets.
    #[inline]
    pub(crate) fn is_of_buckets(&self, depth: usize) -> bool {
        self.buckets.is_some_and(|buckets| buckets.depth == depth)
    }

    /// Returns the depth at which the values of dimension `dim` are stored.
    pub(crate) fn depth_of(&self, dim: usize) -> usize {
        dim + usize::from(self.buckets.is_some_and(|buckets| dim >= buckets.depth))
    }

    /// Returns the number of 64-bit words of a full record.
    pub(crate) fn words(&self) -> usize {
        self.bits.div_ceil(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_never_straddle_more_than_eight_bytes() {
        let maxima = [0, 1, 99, 1 << 31, (1 << 60) - 1, u64::MAX];
        for (max, of) in maxima.into_iter().flat_map(|max| {
            [
                (max, RecordGeometry::new as fn(_, _) -> _),
                (max, RecordGeometry::clustered),
            ]
        }) {
            let geometry: RecordGeometry = of(10_000_000, vec![max, 3, max, 0, 7, max]);
            for (dim, field) in geometry.fields.iter().enumerate() {
                assert!(field.shift as usize + field.width() <= 64);
                if dim > 0 {
                    assert!(field.bit() + field.width() <= geometry.fields[dim - 1].bit());
                }
                assert!(
                    field.bit() + field.width() <= geometry.levels[dim.saturating_sub(1)].record_len * 8
                        || dim == 0
                );
            }
        }
    }

    #[test]
    fn uniform_tables_take_seven_bits_a_value() {
        let geometry = RecordGeometry::new(10_000_000, vec![99; 10]);
        assert_eq!(geometry.bits, 94);
        assert_eq!(geometry.words(), 2);
        assert_eq!(geometry.levels[3].record_len, 9);
        assert_eq!(geometry.levels[3].value_len, 1);
        assert_eq!(geometry.levels[10].value_len, 0);
    }
}
