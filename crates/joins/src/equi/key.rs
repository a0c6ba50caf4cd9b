//! Keys as words or bytes that are equal exactly if the keys are.
//!
//! Keys of fixed width are packed into words, several into one if they fit. A single string is its bytes. All
//! other combinations are encoded by `arrow-row`.

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;

use super::hash;
use super::layout::{BitField, FieldPacker, KeyForm, Span, fixed_bits, is_bytes};
use super::values::{append_bytes, for_each_value, write_fixed};
use crate::{JoinError, JoinResult};

/// Most words of a key; wider ones are bytes.
const MAX_WORDS: usize = 4;

/// Largest precision of decimals of 64 bits.
const PRECISION_64: u8 = 18;

/// Returns the type of the values of a type: that of a dictionary's values, any other itself.
pub(super) fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        other => other.clone(),
    }
}

/// Returns an array without dictionary.
pub(super) fn plain_array(array: &ArrayRef) -> JoinResult<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(..) => Ok(cast(array, &plain_type(array.data_type()))?),
        _ => Ok(array.clone()),
    }
}

/// The keys of some rows.
#[derive(Debug, Default)]
pub(super) struct KeyBatch {
    /// Hash of each key.
    pub(super) hashes: Vec<u64>,
    pub(super) keys: KeyValues,
    /// Rows of which no key is NULL; `None` if these are all.
    pub(super) nulls: Option<NullBuffer>,
}

/// Keys, NULLs as anything.
#[derive(Debug)]
pub(super) enum KeyValues {
    /// This number of words each.
    Words(usize, Vec<u64>),
    /// Spans of bytes.
    Bytes(Vec<Span>, Vec<u8>),
}

impl Default for KeyValues {
    fn default() -> KeyValues {
        KeyValues::Words(1, Vec::new())
    }
}

/// Reads the keys of one side.
#[derive(Debug)]
pub(super) struct KeyEncoder {
    columns: Vec<usize>,
    form: KeyPacking,
    /// True if NULL is a value like others.
    nulls_equal: bool,
}

/// The fields of a key: its value, and if NULLs are equal, a bit that is 1 if there is one.
type KeyFields = (BitField, Option<BitField>);

#[derive(Debug)]
enum KeyPacking {
    /// The fields of each key, and the number of words.
    Words(Vec<KeyFields>, usize),
    OneString,
    Rows(Box<RowConverter>),
}

impl KeyEncoder {
    /// Creates encoders of the keys of the build and the probe side, given as column and type. If
    /// `nulls_equal`, NULL is equal to NULL.
    ///
    /// # Errors
    /// [`JoinError::KeyTypes`], [`JoinError::UnsupportedType`].
    pub(super) fn pair(
        build: &[(usize, DataType)],
        probe: &[(usize, DataType)],
        nulls_equal: bool,
    ) -> JoinResult<(KeyEncoder, KeyEncoder)> {
        let plain = |keys: &[(usize, DataType)]| -> Vec<DataType> {
            keys.iter().map(|(_, data_type)| plain_type(data_type)).collect()
        };
        let types = [plain(build), plain(probe)];
        let mut widths = Vec::with_capacity(build.len());
        for (build, probe) in types[0].iter().zip(&types[1]) {
            widths.push(common_width(build, probe)?);
        }
        let widths: Option<Vec<u32>> = widths.into_iter().collect();
        let fields = widths.and_then(|widths| pack(&widths, nulls_equal));
        let is_string = types[0].len() == 1 && is_bytes(&types[0][0]) && !nulls_equal;
        let encoder = |keys: &[(usize, DataType)], types: &[DataType]| {
            let form = match &fields {
                Some((fields, words)) => KeyPacking::Words(fields.clone(), *words),
                None if is_string => KeyPacking::OneString,
                None => {
                    let fields = types.iter().cloned().map(SortField::new).collect();
                    KeyPacking::Rows(Box::new(RowConverter::new(fields)?))
                }
            };
            Ok::<_, JoinError>(KeyEncoder {
                columns: keys.iter().map(|(column, _)| *column).collect(),
                form,
                nulls_equal,
            })
        };
        Ok((encoder(build, &types[0])?, encoder(probe, &types[1])?))
    }

    /// Returns the form of the keys.
    pub(super) fn key_form(&self) -> KeyForm {
        match &self.form {
            KeyPacking::Words(_, words) => KeyForm::Words(*words),
            KeyPacking::OneString | KeyPacking::Rows(_) => KeyForm::Bytes,
        }
    }

    /// Reads the keys of a batch.
    ///
    /// # Errors
    /// [`JoinError::Arrow`], [`JoinError::ValueTooLong`], [`JoinError::Unsupported`] for a decimal beyond its
    /// precision.
    pub(super) fn encode(&self, batch: &RecordBatch) -> JoinResult<KeyBatch> {
        let arrays = self
            .columns
            .iter()
            .map(|column| plain_array(batch.column(*column)));
        let arrays = arrays.collect::<JoinResult<Vec<_>>>()?;
        let mut nulls = None;
        for array in &arrays {
            nulls = NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref());
        }
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0 && !self.nulls_equal);
        let keys = match &self.form {
            KeyPacking::Words(fields, words) => {
                KeyValues::Words(*words, key_words(&arrays, fields, *words, batch)?)
            }
            KeyPacking::OneString => one_string(&arrays[0])?,
            KeyPacking::Rows(converter) => {
                let rows = converter.convert_columns(&arrays)?;
                let (mut spans, mut bytes) = (Vec::with_capacity(rows.num_rows()), Vec::new());
                for row in &rows {
                    push_bytes(row.as_ref(), &mut spans, &mut bytes)?;
                }
                KeyValues::Bytes(spans, bytes)
            }
        };
        let hashes = match &keys {
            KeyValues::Words(1, words) => words.iter().map(|word| hash::of_word(*word)).collect(),
            KeyValues::Words(width, words) => words.chunks_exact(*width).map(hash::of_words).collect(),
            KeyValues::Bytes(spans, bytes) => spans
                .iter()
                .map(|span| hash::of_bytes(span.slice(bytes)))
                .collect(),
        };
        Ok(KeyBatch { hashes, keys, nulls })
    }
}

/// Returns the bits that a pair of keys takes in words; `None` if it does not fit there.
///
/// # Errors
/// [`JoinError::KeyTypes`].
fn common_width(build: &DataType, probe: &DataType) -> JoinResult<Option<u32>> {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let is_text = |data_type: &DataType| matches!(data_type, Utf8 | LargeUtf8 | Utf8View);
    let is_binary = |data_type: &DataType| matches!(data_type, Binary | LargeBinary | BinaryView);
    let same = match (build, probe) {
        (DataType::Decimal128(one, scale), DataType::Decimal128(other, other_scale)) => {
            let precision = *one.max(other);
            if scale == other_scale && precision <= PRECISION_64 {
                return Ok(Some(u64::BITS));
            }
            scale == other_scale
        }
        (DataType::Timestamp(one, _), DataType::Timestamp(other, _)) => one == other,
        _ => build == probe || is_text(build) && is_text(probe) || is_binary(build) && is_binary(probe),
    };
    if !same {
        return Err(JoinError::KeyTypes {
            build: build.clone(),
            probe: probe.clone(),
        });
    }
    Ok(fixed_bits(build).filter(|bits| *bits <= u64::BITS))
}

/// Packs keys of some widths into words; `None` if they need too many words.
fn pack(widths: &[u32], nulls_equal: bool) -> Option<(Vec<KeyFields>, usize)> {
    let mut order: Vec<usize> = (0..widths.len()).collect();
    order.sort_by_key(|key| std::cmp::Reverse(widths[*key]));
    let mut packer = FieldPacker::after(0);
    let mut fields = vec![None; widths.len()];
    for key in order {
        fields[key] = Some(packer.place(widths[key]));
    }
    let fields = fields.into_iter().collect::<Option<Vec<_>>>()?;
    let fields = fields
        .into_iter()
        .map(|field| (field, nulls_equal.then(|| packer.place(1))));
    let fields = fields.collect();
    (packer.words() <= MAX_WORDS).then_some((fields, packer.words()))
}

fn key_words(
    arrays: &[ArrayRef],
    fields: &[KeyFields],
    width: usize,
    batch: &RecordBatch,
) -> JoinResult<Vec<u64>> {
    let mut words = vec![0; batch.num_rows() * width];
    for (array, (field, valid)) in arrays.iter().zip(fields) {
        if matches!(array.data_type(), DataType::Decimal128(..)) {
            let decimals = array.as_primitive::<Decimal128Type>();
            for (row, word) in words.chunks_exact_mut(width).enumerate() {
                if decimals.is_valid(row) {
                    let value = i64::try_from(decimals.value(row)).map_err(|_| {
                        JoinError::Unsupported("a decimal key has more digits than its type declares")
                    })?;
                    field.put(word, value as u64);
                }
            }
        } else {
            write_fixed(array, *field, width, None, &mut words);
        }
        if let Some(valid) = valid {
            for (row, word) in words.chunks_exact_mut(width).enumerate() {
                // The bits below a NULL are arbitrary.
                if array.is_valid(row) {
                    valid.put(word, 1)
                } else {
                    field.clear(word)
                }
            }
        }
    }
    Ok(words)
}

fn one_string(array: &ArrayRef) -> JoinResult<KeyValues> {
    let (mut spans, mut bytes) = (Vec::with_capacity(array.len()), Vec::new());
    for_each_value(array, None, |_, value| push_bytes(value, &mut spans, &mut bytes))?;
    Ok(KeyValues::Bytes(spans, bytes))
}

fn push_bytes(value: &[u8], spans: &mut Vec<Span>, bytes: &mut Vec<u8>) -> JoinResult<()> {
    spans.push(append_bytes(value, bytes)?);
    Ok(())
}
