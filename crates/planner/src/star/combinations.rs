//! The combinations of attributes of a dimension as codes: each that occurs has a number, and is decoded
//! once.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use datafusion::error::Result;
use halocline_columns::{CodeReader, Segment};
use halocline_sql::error::external;

/// Most combinations of codes that are numbered by an array.
const MAX_DENSE_COMBINATIONS: u64 = 1 << 20;

/// The distinct combinations of attributes in a segment.
pub(super) struct Combinations<'a> {
    segment: &'a Segment,
    columns: &'a [usize],
    readers: Vec<CodeReader<'a, u64>>,
    numbers: CombinationNumbers,
    /// The codes of the combinations in the order of their numbers, one code per column each.
    found: Vec<u64>,
}

/// The numbers of combinations of codes, plus one; 0 for a combination without a number.
enum CombinationNumbers {
    /// Numbered by an array, indexed by the rank of a combination among all possible ones. Holds the number
    /// of codes per column.
    Dense(Vec<u64>, Vec<u32>),
    /// Numbered by a hash map with the same rank as key.
    Sparse(Vec<u64>, HashMap<u64, u32>),
    /// Numbered by a hash map with the codes as key, if 64 bits cannot rank the combinations: a column with
    /// codes up to 2^64 - 1, or several with many.
    Wide(HashMap<Box<[u64]>, u32>),
}

impl CombinationNumbers {
    /// Returns an empty numbering for columns with these largest codes.
    fn for_max_codes(max_codes: &[u64]) -> Self {
        let sizes = max_codes.iter().map(|max| max.checked_add(1));
        let Some(sizes) = sizes.collect::<Option<Vec<u64>>>() else {
            return CombinationNumbers::Wide(HashMap::new());
        };
        match sizes.iter().try_fold(1_u64, |all, size| all.checked_mul(*size)) {
            Some(all) if all <= MAX_DENSE_COMBINATIONS => {
                CombinationNumbers::Dense(sizes, vec![0; all as usize])
            }
            Some(_) => CombinationNumbers::Sparse(sizes, HashMap::new()),
            None => CombinationNumbers::Wide(HashMap::new()),
        }
    }

    /// Returns the entry of a combination: its number plus one, or 0 if it has none yet.
    fn entry(&mut self, codes: &[u64]) -> &mut u32 {
        let rank = |sizes: &[u64]| {
            let digits = sizes.iter().zip(codes);
            digits.fold(0, |rank, (size, code)| rank * size + code)
        };
        match self {
            CombinationNumbers::Dense(sizes, numbers) => &mut numbers[rank(sizes) as usize],
            CombinationNumbers::Sparse(sizes, numbers) => numbers.entry(rank(sizes)).or_insert(0),
            CombinationNumbers::Wide(numbers) => {
                // Not `entry`, which would allocate a key for each row.
                if !numbers.contains_key(codes) {
                    numbers.insert(codes.into(), 0);
                }
                numbers.get_mut(codes).expect("it was put there")
            }
        }
    }
}

impl<'a> Combinations<'a> {
    pub(super) fn new(segment: &'a Segment, columns: &'a [usize]) -> Result<Self> {
        let (mut readers, mut max_codes) = (Vec::new(), Vec::new());
        for &column in columns {
            let column = segment.column(column);
            max_codes.push(column.code_space().map_or(0, |space| space.max_code()));
            readers.push(column.code_reader().map_err(external)?);
        }
        Ok(Combinations {
            segment,
            columns,
            readers,
            numbers: CombinationNumbers::for_max_codes(&max_codes),
            found: Vec::new(),
        })
    }

    /// Appends the number of the combination of each row.
    pub(super) fn read(
        &mut self,
        (chunk, block): (usize, usize),
        rows: &[u16],
        codes: &mut [u64],
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let codes = &mut codes[..rows.len()];
        let each = self.columns.len();
        let mut combinations = vec![0; rows.len() * each];
        for (at, reader) in self.readers.iter_mut().enumerate() {
            reader.read_rows(chunk, block, rows, codes).map_err(external)?;
            let of_column = combinations[at..].iter_mut().step_by(each);
            of_column.zip(&*codes).for_each(|(place, code)| *place = *code);
        }
        for combination in combinations.chunks_exact(each) {
            let number = self.numbers.entry(combination);
            if *number == 0 {
                self.found.extend_from_slice(combination);
                *number = (self.found.len() / each) as u32;
            }
            numbers.push(*number - 1);
        }
        Ok(())
    }

    /// Returns the values of the combinations that were found.
    pub(super) fn decode(self) -> Result<Vec<ArrayRef>> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (at, column) in self.columns.iter().enumerate() {
            // Without rows there is no combination to begin with.
            let codes = self.found[at.min(self.found.len())..].iter();
            let codes: Vec<u64> = codes.step_by(self.columns.len()).copied().collect();
            if let Some(space) = self.segment.column(*column).code_space() {
                arrays.push(space.decode(&codes).map_err(external)?);
            }
        }
        Ok(arrays)
    }
}
