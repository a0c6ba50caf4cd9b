//! A column that does not fit into memory, in files that are mapped: an array of all its values, whose pages
//! the system takes back when memory is short.

mod appended_file;

use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteViewArray, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use datafusion::arrow::array::ArrayData;
use datafusion::error::{DataFusionError, Result};
use halocline_catalog::spill_files::SpillFiles;

use self::appended_file::{AppendedFile, WRITE_BYTES};

/// Bytes of a text that its view has itself.
const MAX_INLINE_BYTES: usize = 12;
/// Bytes of a buffer of texts, which views address with 32 bits.
const TEXT_BUFFER_BYTES: u64 = 1 << 30;

/// The values of a column, which are appended.
pub struct FileColumn {
    data_type: DataType,
    rows: usize,
    /// One bit for each row, in memory, from the first NULL on.
    valid: Option<BooleanBufferBuilder>,
    values: Values,
}

enum Values {
    /// In memory.
    Bits(BooleanBufferBuilder),
    Fixed {
        width: usize,
        file: AppendedFile,
    },
    Views {
        views: AppendedFile,
        texts: AppendedFile,
    },
}

impl FileColumn {
    /// Returns true for types that it takes.
    pub fn takes(data_type: &DataType) -> bool {
        let is_view = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
        *data_type == DataType::Boolean || is_view || data_type.primitive_width().is_some()
    }

    /// Creates one without rows.
    ///
    /// # Errors
    /// A file cannot be created; the type is none that it [`takes`](Self::takes).
    pub fn new(data_type: DataType, files: &SpillFiles) -> Result<Self> {
        let values = match (&data_type, data_type.primitive_width()) {
            (DataType::Boolean, _) => Values::Bits(BooleanBufferBuilder::new(0)),
            (DataType::Utf8View | DataType::BinaryView, _) => Values::Views {
                views: AppendedFile::new(files)?,
                texts: AppendedFile::new(files)?,
            },
            (_, Some(width)) => Values::Fixed {
                width,
                file: AppendedFile::new(files)?,
            },
            _ => {
                let text = format!("values of type {data_type} have no fixed width");
                return Err(DataFusionError::Internal(text));
            }
        };
        Ok(Self {
            data_type,
            rows: 0,
            valid: None,
            values,
        })
    }

    /// Returns the bytes in memory.
    pub fn size(&self) -> usize {
        let values = match &self.values {
            Values::Bits(bits) => bits.capacity() / 8,
            Values::Fixed { .. } => WRITE_BYTES,
            Values::Views { .. } => 2 * WRITE_BYTES,
        };
        let valid = self.valid.as_ref().map_or(0, |valid| valid.capacity() / 8);
        valid + values
    }

    /// Appends values of its type.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn append(&mut self, array: &ArrayRef) -> Result<()> {
        if array.null_count() > 0 && self.valid.is_none() {
            let mut valid = BooleanBufferBuilder::new(self.rows);
            valid.append_n(self.rows, true);
            self.valid = Some(valid);
        }
        if let Some(valid) = &mut self.valid {
            match array.nulls() {
                Some(nulls) => valid.append_buffer(nulls.inner()),
                None => valid.append_n(array.len(), true),
            }
        }
        self.rows += array.len();
        match &mut self.values {
            Values::Bits(bits) => bits.append_buffer(array.as_boolean().values()),
            Values::Fixed { width, file } => {
                let data = array.to_data();
                let values = data.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
                let start = data.offset() * *width;
                file.append(&values[start..start + array.len() * *width])?;
            }
            Values::Views { views, texts } => match array.data_type() {
                DataType::Utf8View => append_views(array.as_string_view(), views, texts)?,
                _ => append_views(array.as_binary_view(), views, texts)?,
            },
        }
        Ok(())
    }

    /// Returns all values.
    ///
    /// # Errors
    /// A file cannot be written, or mapped.
    pub fn finish(self) -> Result<ArrayRef> {
        let nulls = self.valid.map(|mut valid| NullBuffer::new(valid.finish()));
        match self.values {
            Values::Bits(mut bits) => Ok(Arc::new(BooleanArray::new(bits.finish(), nulls))),
            Values::Fixed { file, .. } => {
                let data = ArrayData::builder(self.data_type)
                    .len(self.rows)
                    .nulls(nulls)
                    .add_buffer(file.finish()?);
                Ok(make_array(data.build()?))
            }
            Values::Views { views, texts } => {
                let (views, texts) = (ScalarBuffer::from(views.finish()?), texts.finish()?);
                let starts = (0..texts.len()).step_by(TEXT_BUFFER_BYTES as usize);
                let buffers = starts.map(|start| {
                    let len = (texts.len() - start).min(TEXT_BUFFER_BYTES as usize);
                    texts.slice_with_length(start, len)
                });
                let buffers: Vec<Buffer> = buffers.collect();
                Ok(match self.data_type {
                    DataType::Utf8View => {
                        let array = GenericByteViewArray::<StringViewType>::try_new(views, buffers, nulls);
                        Arc::new(array?) as ArrayRef
                    }
                    _ => {
                        let array = GenericByteViewArray::<BinaryViewType>::try_new(views, buffers, nulls);
                        Arc::new(array?)
                    }
                })
            }
        }
    }
}

/// Appends texts, and views of them.
fn append_views<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
    views: &mut AppendedFile,
    texts: &mut AppendedFile,
) -> Result<()> {
    for value in array {
        let bytes: &[u8] = value.map_or(&[], AsRef::as_ref);
        let view = if bytes.len() > MAX_INLINE_BYTES {
            texts.keep_together(bytes.len() as u64, TEXT_BUFFER_BYTES)?;
            let (buffer, offset) = (texts.len() / TEXT_BUFFER_BYTES, texts.len() % TEXT_BUFFER_BYTES);
            texts.append(bytes)?;
            make_view(bytes, buffer as u32, offset as u32)
        } else {
            make_view(bytes, 0, 0)
        };
        views.append(&view.to_le_bytes())?;
    }
    Ok(())
}
