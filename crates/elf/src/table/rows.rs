//! The rows of a table's segment as codes.

use crate::{ElfError, Result, Rows};
use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{Array, GenericByteArray, GenericByteViewArray};
use arrow_schema::DataType;
use halocline_columns::{CodeSpace, Column, ColumnsError, Dictionary};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Rows of a plain string column that are read at once.
const CHUNK: usize = 1 << 16;

/// One dimension: codes of the table, or of a dictionary made for the index.
pub(super) enum Source<'a> {
    Coded(&'a Column, &'a CodeSpace),
    Ranked(Ranked),
}

/// A plain string column with the codes that a new dictionary gives.
pub(super) struct Ranked {
    /// One code for each row.
    codes: Vec<u32>,
    max_code: u64,
    distinct: u64,
    pub(super) has_null: bool,
    /// A [`Dictionary`]'s bytes.
    pub(super) dictionary: Vec<u8>,
}

impl<'a> Source<'a> {
    /// # Errors
    /// [`ElfError::NotIndexable`], or what reading the strings gives.
    pub(super) fn new(column: &'a Column) -> Result<Self> {
        match column.code_space() {
            Some(space) => Ok(Self::Coded(column, space)),
            None => Ranked::new(column).map(Self::Ranked),
        }
    }

    pub(super) fn distinct(&self) -> u64 {
        match self {
            Self::Coded(_, space) => space.distinct_estimate().saturating_add(space.has_null().into()),
            Self::Ranked(ranked) => ranked.distinct,
        }
    }

    fn max_code(&self) -> u64 {
        match self {
            Self::Coded(_, space) => space.max_code(),
            Self::Ranked(ranked) => ranked.max_code,
        }
    }
}

impl Ranked {
    fn new(column: &Column) -> Result<Self> {
        let mut strings = Strings::default();
        for start in (0..column.rows()).step_by(CHUNK) {
            let array = column.scan(start..column.rows().min(start + CHUNK))?;
            strings.add(&*array, column.name())?;
        }
        let has_null = strings.ids.contains(&u32::MAX);
        let mut sorted: Vec<(Box<[u8]>, u32)> = strings.known.into_iter().collect();
        sorted.sort_unstable();
        let mut codes = vec![0; sorted.len()];
        for (rank, (_, id)) in sorted.iter().enumerate() {
            codes[*id as usize] = rank as u32 + u32::from(has_null);
        }
        Ok(Self {
            codes: strings
                .ids
                .iter()
                .map(|&id| codes.get(id as usize).copied().unwrap_or(0))
                .collect(),
            max_code: (sorted.len() as u64 + u64::from(has_null)).saturating_sub(1),
            distinct: sorted.len() as u64 + u64::from(has_null),
            has_null,
            dictionary: Dictionary::encode(sorted.iter().map(|(string, _)| &**string)),
        })
    }
}

/// Strings numbered as they come; NULL is `u32::MAX`.
#[derive(Default)]
struct Strings {
    known: HashMap<Box<[u8]>, u32>,
    ids: Vec<u32>,
}

impl Strings {
    fn add(&mut self, array: &dyn Array, column: &str) -> Result<()> {
        match array.data_type() {
            DataType::Utf8 => self.bytes(array.as_string::<i32>()),
            DataType::LargeUtf8 => self.bytes(array.as_string::<i64>()),
            DataType::Binary => self.bytes(array.as_binary::<i32>()),
            DataType::LargeBinary => self.bytes(array.as_binary::<i64>()),
            DataType::Utf8View => self.views(array.as_string_view()),
            DataType::BinaryView => self.views(array.as_binary_view()),
            _ => {
                let reason = "it is stored without codes and is no string";
                return Err(ElfError::NotIndexable {
                    column: column.into(),
                    reason,
                });
            }
        }
        Ok(())
    }

    fn bytes<T: ByteArrayType>(&mut self, array: &GenericByteArray<T>) {
        array.iter().for_each(|value| self.one(value.map(AsRef::as_ref)));
    }

    fn views<T: ByteViewType + ?Sized>(&mut self, array: &GenericByteViewArray<T>) {
        array.iter().for_each(|value| self.one(value.map(AsRef::as_ref)));
    }

    fn one(&mut self, value: Option<&[u8]>) {
        let id = match value {
            None => u32::MAX,
            Some(string) => match self.known.get(string) {
                Some(&id) => id,
                None => {
                    let id = self.known.len() as u32;
                    self.known.insert(string.into(), id);
                    id
                }
            },
        };
        self.ids.push(id);
    }
}

/// A segment's dimensions, in the order of the tree. Reading can fail, which [`Rows`] cannot say: the first error is kept.
pub(super) struct SegmentRows<'a> {
    rows: usize,
    sources: Vec<&'a Source<'a>>,
    failed: OnceLock<ColumnsError>,
}

thread_local! {
    static CODES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl<'a> SegmentRows<'a> {
    pub(super) fn new(rows: usize, sources: Vec<&'a Source<'a>>) -> Self {
        Self {
            rows,
            sources,
            failed: OnceLock::new(),
        }
    }

    /// The first error that reading met.
    pub(super) fn failed(self) -> Result<()> {
        self.failed.into_inner().map_or(Ok(()), |error| Err(error.into()))
    }
}

impl Rows for SegmentRows<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dims(&self) -> usize {
        self.sources.len()
    }

    fn max_code(&self, dim: usize) -> u64 {
        self.sources[dim].max_code()
    }

    fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
        match self.sources[dim] {
            Source::Ranked(ranked) => {
                for (out, &code) in out.iter_mut().zip(&ranked.codes[start..]) {
                    *out = u64::from(code);
                }
            }
            Source::Coded(column, _) => CODES.with_borrow_mut(|codes| {
                codes.clear();
                match column.read_codes(start..start + out.len(), codes) {
                    Ok(()) if codes.len() == out.len() => out.copy_from_slice(codes),
                    Ok(()) => out.fill(0),
                    Err(error) => {
                        out.fill(0);
                        // A later error tells nothing new.
                        let _ = self.failed.set(error);
                    }
                }
            }),
        }
    }
}
