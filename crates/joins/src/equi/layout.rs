//! The layout of a row: the bit fields of its columns in 64-bit words.
//!
//! The key comes first, then the columns, the widest first, which leaves no gaps between them. No field
//! crosses a word boundary; a column of 128 bits has a field in each of two words. NULLs and Booleans take a
//! bit. Variable-length values lie in bytes beside the rows; their word is a [span](Span).

use arrow_schema::DataType;

use crate::{JoinError, JoinResult};

/// Longest variable-length value.
pub(super) const MAX_VALUE_LEN: usize = 1 << 30;

/// A field of a row, of 1 to 64 bits in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BitField {
    pub(super) word: usize,
    pub(super) shift: u32,
    pub(super) bits: u32,
}

impl BitField {
    #[inline(always)]
    pub(super) fn mask(self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }

    /// Returns the value of a row's field.
    #[inline(always)]
    pub(super) fn get(self, row: &[u64]) -> u64 {
        row[self.word] >> self.shift & self.mask()
    }

    /// Sets a field to 0.
    #[inline(always)]
    pub(super) fn clear(self, row: &mut [u64]) {
        row[self.word] &= !(self.mask() << self.shift);
    }

    /// Sets a field that is 0.
    #[inline(always)]
    pub(super) fn put(self, row: &mut [u64], value: u64) {
        row[self.word] |= value << self.shift;
    }
}

/// Position and length of a variable-length value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) u64);

impl Span {
    /// Creates a span. Lengths are at most [`MAX_VALUE_LEN`].
    #[inline(always)]
    pub(super) fn new(offset: usize, len: usize) -> Span {
        Span((len as u64) << 32 | offset as u64)
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline(always)]
    pub(super) fn slice(self, bytes: &[u8]) -> &[u8] {
        let offset = self.0 as u32 as usize;
        &bytes[offset..offset + self.len()]
    }
}

/// How the values of a type are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldStorage {
    /// One bit.
    Bool(BitField),
    /// 8 to 64 bits as in Arrow.
    Fixed(BitField),
    /// 128 bits: the lower and the upper half.
    Wide([BitField; 2]),
    /// A span of the bytes of the value.
    Bytes(BitField),
    /// A span of the value in the row format of `arrow-row`.
    Encoded(BitField),
}

/// The fields of a column.
#[derive(Debug, Clone)]
pub(super) struct ColumnLayout {
    pub(super) data_type: DataType,
    pub(super) storage: FieldStorage,
    /// Validity bit; `None` if the column has no NULLs or `storage` encodes them.
    pub(super) valid: Option<BitField>,
}

/// Form of the keys of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// This number of words.
    Words(usize),
    /// A word with the hash, then the span of the key's bytes.
    Bytes,
}

impl KeyForm {
    fn words(self) -> usize {
        match self {
            KeyForm::Words(words) => words,
            KeyForm::Bytes => 2,
        }
    }
}

/// Returns the width in bits of a fixed-width type; `None` for other types.
pub(super) fn fixed_bits(data_type: &DataType) -> Option<u32> {
    Some(match data_type {
        DataType::Boolean => 1,
        DataType::Int8 | DataType::UInt8 => 8,
        DataType::Int16 | DataType::UInt16 | DataType::Float16 => 16,
        DataType::Int32 | DataType::UInt32 | DataType::Float32 => 32,
        DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => 32,
        DataType::Int64 | DataType::UInt64 | DataType::Float64 => 64,
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) => 64,
        DataType::Duration(_) | DataType::Decimal64(..) => 64,
        DataType::Decimal128(..) => 128,
        _ => return None,
    })
}

/// Returns true for strings and binary values.
pub(super) fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(
        data_type,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
    )
}

/// Packs bit fields into words, first fit.
#[derive(Debug)]
pub(super) struct FieldPacker {
    /// Bits in use of each word.
    used: Vec<u32>,
    first: usize,
}

impl FieldPacker {
    /// Creates a packer that starts after the first `words` words.
    pub(super) fn after(words: usize) -> FieldPacker {
        FieldPacker {
            used: vec![u64::BITS; words],
            first: words,
        }
    }

    pub(super) fn place(&mut self, bits: u32) -> BitField {
        let fits = |used: &u32| used + bits <= u64::BITS;
        let shared = self.used[self.first..].iter().position(fits);
        let word = shared.map_or_else(
            || {
                self.used.push(0);
                self.used.len() - 1
            },
            |at| self.first + at,
        );
        let shift = self.used[word];
        self.used[word] += bits;
        BitField { word, shift, bits }
    }

    pub(super) fn words(&self) -> usize {
        self.used.len()
    }
}

/// The layout of the rows of one side.
#[derive(Debug)]
pub(super) struct RowLayout {
    pub(super) key: KeyForm,
    /// Words of a row; at least 1.
    pub(super) stride: usize,
    pub(super) columns: Vec<ColumnLayout>,
    /// All fields but spans.
    pub(super) fields: Vec<BitField>,
    /// Words that are spans.
    pub(super) spans: Vec<usize>,
}

impl RowLayout {
    /// Lays out a key and columns, given as type and nullability.
    ///
    /// # Errors
    /// [`JoinError::UnsupportedType`].
    pub(super) fn new(key: KeyForm, types: &[(DataType, bool)]) -> JoinResult<RowLayout> {
        let mut order: Vec<(u32, usize)> = Vec::with_capacity(types.len());
        for (column, (data_type, _)) in types.iter().enumerate() {
            if fixed_bits(data_type).is_none() && !is_bytes(data_type) {
                check_encodable(data_type)?;
            }
            order.push((fixed_bits(data_type).unwrap_or(u64::BITS), column));
        }
        order.sort_by_key(|(bits, column)| (std::cmp::Reverse(*bits), *column));
        let mut packer = FieldPacker::after(key.words());
        let mut storages = vec![None; types.len()];
        for (bits, column) in order {
            let data_type = &types[column].0;
            storages[column] = Some(match bits {
                1 => FieldStorage::Bool(packer.place(1)),
                128 => FieldStorage::Wide([packer.place(64), packer.place(64)]),
                bits if fixed_bits(data_type).is_some() => FieldStorage::Fixed(packer.place(bits)),
                bits if is_bytes(data_type) => FieldStorage::Bytes(packer.place(bits)),
                bits => FieldStorage::Encoded(packer.place(bits)),
            });
        }
        let mut columns = Vec::with_capacity(types.len());
        for ((data_type, nullable), storage) in types.iter().zip(storages.into_iter().flatten()) {
            let has_bit = *nullable && !matches!(storage, FieldStorage::Encoded(_));
            columns.push(ColumnLayout {
                data_type: data_type.clone(),
                storage,
                valid: has_bit.then(|| packer.place(1)),
            });
        }
        let whole = |word| BitField {
            word,
            shift: 0,
            bits: u64::BITS,
        };
        let (mut fields, mut spans) = match key {
            KeyForm::Words(words) => ((0..words).map(whole).collect(), Vec::new()),
            KeyForm::Bytes => (vec![whole(0)], vec![1]),
        };
        for column in &columns {
            match column.storage {
                FieldStorage::Bool(field) | FieldStorage::Fixed(field) => fields.push(field),
                FieldStorage::Wide(halves) => fields.extend(halves),
                FieldStorage::Bytes(field) | FieldStorage::Encoded(field) => spans.push(field.word),
            }
            fields.extend(column.valid);
        }
        Ok(RowLayout {
            key,
            stride: packer.words().max(1),
            columns,
            fields,
            spans,
        })
    }

    /// Returns the size of a row in bytes without its variable-length values.
    pub(super) fn row_bytes(&self) -> usize {
        self.stride * size_of::<u64>()
    }

    /// Returns the hash of a row's key.
    #[inline(always)]
    pub(super) fn hash(&self, row: &[u64]) -> u64 {
        match self.key {
            KeyForm::Words(words) => super::hash::of_words(&row[..words]),
            KeyForm::Bytes => row[0],
        }
    }
}

/// Checks that values of a type can be encoded as rows.
///
/// # Errors
/// [`JoinError::UnsupportedType`] if they cannot.
pub(super) fn check_encodable(data_type: &DataType) -> JoinResult<()> {
    use arrow_row::{RowConverter, SortField};
    let field = SortField::new(data_type.clone());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        return Err(JoinError::UnsupportedType {
            data_type: data_type.clone(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_share_words() {
        let types = [
            (DataType::Boolean, true),
            (DataType::Int32, false),
            (DataType::Int8, true),
            (DataType::Utf8, true),
            (DataType::Decimal128(30, 2), false),
            (DataType::Int16, false),
        ];
        let layout = RowLayout::new(KeyForm::Words(1), &types).unwrap();
        // Key, decimal (2), string, and all others in one.
        assert_eq!((layout.stride, layout.spans.as_slice()), (5, [3].as_slice()));
        let mut used = vec![0_u64; layout.stride];
        for field in &layout.fields {
            let bits = field.mask() << field.shift;
            assert_eq!(used[field.word] & bits, 0, "{field:?} overlaps");
            used[field.word] |= bits;
        }
        assert_eq!(layout.row_bytes(), 40);
    }

    #[test]
    fn spans_hold_positions() {
        let span = Span::new(2, 3);
        assert_eq!((span.len(), span.slice(b"abcdefg")), (3, b"cde".as_slice()));
    }
}
