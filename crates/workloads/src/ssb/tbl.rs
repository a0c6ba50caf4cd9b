//! Reader of the `.tbl` files that the public generator (dbgen) writes: one line per row, with a `|`
//! after or between the values.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};

use super::{BATCH_ROWS, SsbTable};

/// An error in reading a `.tbl` file. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum TblError {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A line has too few or too many values: the file belongs to another table or is truncated.
    #[error(
        "{}, line {line}: {got} values instead of the {expected} of table {table}; specify the \
         table that the file belongs to",
        path.display()
    )]
    ValueCount {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// The table whose format was expected.
        table: SsbTable,
        /// Number of columns of the table.
        expected: usize,
        /// Number of values in the line.
        got: usize,
    },
    /// A value is not a 32-bit integer.
    #[error(
        "{}, line {line}: `{value}` in column {column} is not a 32-bit integer; correct or remove the line",
        path.display()
    )]
    Number {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// Name of the column.
        column: String,
        /// The value found.
        value: String,
    },
    /// A value is not UTF-8.
    #[error("{}, line {line}: column {column} is not UTF-8; convert the file to UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// Name of the column.
        column: String,
    },
}

#[derive(Debug)]
enum TblColumn {
    Numbers(Vec<i32>),
    Texts(StringBuilder),
}

/// A reader of a `.tbl` file in batches of 8192 rows. It stops at the first error. It needs memory for
/// one batch and one line.
///
/// ```
/// use halocline_workloads::{SsbTable, TblReader};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("supplier.tbl");
/// std::fs::write(&path, "1|Supplier#000000001|sdrGnX|UNITED ST4|UNITED STATES|AMERICA|34-698-298-8460|\n")?;
/// let batches: Vec<_> = TblReader::open(SsbTable::Supplier, &path)?.collect::<Result<_, _>>()?;
/// assert_eq!(batches[0].num_rows(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TblReader {
    table: SsbTable,
    schema: SchemaRef,
    path: PathBuf,
    file: BufReader<File>,
    line: u64,
    text: Vec<u8>,
    failed: bool,
}

impl TblReader {
    /// Opens a file of `table`.
    ///
    /// # Errors
    /// [`TblError::Io`].
    pub fn open(table: SsbTable, path: &Path) -> Result<Self, TblError> {
        let io = |source| TblError::Io {
            path: path.to_owned(),
            source,
        };
        Ok(Self {
            table,
            schema: table.schema(),
            path: path.to_owned(),
            file: BufReader::with_capacity(1 << 20, File::open(path).map_err(io)?),
            line: 0,
            text: Vec::new(),
            failed: false,
        })
    }

    /// Returns the schema of the batches, that of the table.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Reads a line; returns false at the end of the file.
    fn read_line(&mut self) -> Result<bool, TblError> {
        self.text.clear();
        let read = self.file.read_until(b'\n', &mut self.text);
        let read = read.map_err(|source| TblError::Io {
            path: self.path.clone(),
            source,
        })?;
        self.line += 1;
        for end in *b"\n\r|" {
            self.text.pop_if(|last| *last == end);
        }
        Ok(read > 0)
    }

    /// Appends the values of the current line.
    fn append(&self, columns: &mut [TblColumn]) -> Result<(), TblError> {
        let got = self.text.split(|&byte| byte == b'|').count();
        if got != columns.len() {
            return Err(TblError::ValueCount {
                path: self.path.clone(),
                line: self.line,
                table: self.table,
                expected: columns.len(),
                got,
            });
        }
        let values = self.text.split(|&byte| byte == b'|');
        for ((value, values), field) in values.zip(columns).zip(self.schema.fields()) {
            let text = std::str::from_utf8(value).map_err(|_| TblError::NotUtf8 {
                path: self.path.clone(),
                line: self.line,
                column: field.name().clone(),
            })?;
            match values {
                TblColumn::Texts(texts) => texts.append_value(text),
                TblColumn::Numbers(numbers) => numbers.push(text.parse().map_err(|_| TblError::Number {
                    path: self.path.clone(),
                    line: self.line,
                    column: field.name().clone(),
                    value: text.to_owned(),
                })?),
            }
        }
        Ok(())
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, TblError> {
        let of = |data_type: &DataType| match data_type {
            DataType::Int32 => TblColumn::Numbers(Vec::new()),
            _ => TblColumn::Texts(StringBuilder::new()),
        };
        let mut columns: Vec<TblColumn> = self.schema.fields().iter().map(|f| of(f.data_type())).collect();
        let mut rows = 0;
        while rows < BATCH_ROWS && self.read_line()? {
            self.append(&mut columns)?;
            rows += 1;
        }
        let arrays = columns.into_iter().map(|values| match values {
            TblColumn::Numbers(numbers) => Arc::new(Int32Array::from(numbers)) as ArrayRef,
            TblColumn::Texts(mut texts) => Arc::new(texts.finish()),
        });
        let batch = RecordBatch::try_new(self.schema.clone(), arrays.collect());
        Ok((rows > 0).then(|| batch.expect("columns of equal length and the types of the schema")))
    }
}

impl Iterator for TblReader {
    type Item = Result<RecordBatch, TblError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let batch = self.batch().transpose();
        self.failed = !matches!(batch, Some(Ok(_)));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use std::fmt::Write;

    /// Formats a batch as dbgen would write it.
    fn text(batch: &RecordBatch, last: &str) -> String {
        let mut out = String::new();
        for row in 0..batch.num_rows() {
            for (i, column) in batch.columns().iter().enumerate() {
                let bar = if i + 1 == batch.num_columns() { last } else { "|" };
                match column.as_any().downcast_ref::<Int32Array>() {
                    Some(numbers) => write!(out, "{}{bar}", numbers.value(row)),
                    None => {
                        let texts = column.as_any().downcast_ref::<arrow_array::StringArray>();
                        write!(out, "{}{bar}", texts.expect("numbers and strings").value(row))
                    }
                }
                .unwrap();
            }
            out.push('\n');
        }
        out
    }

    fn read(table: SsbTable, text: impl AsRef<[u8]>) -> Vec<Result<RecordBatch, TblError>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.tbl");
        std::fs::write(&path, text).unwrap();
        let reader = TblReader::open(table, &path).unwrap();
        assert_eq!(reader.schema(), table.schema());
        reader.collect()
    }

    #[test]
    fn what_is_written_is_read() {
        for table in SsbTable::ALL {
            let batches: Vec<RecordBatch> = table.reader(0.01, 0, 1).map(Result::unwrap).collect();
            let whole = arrow_select::concat::concat_batches(&table.schema(), &batches).unwrap();
            for last in ["|", ""] {
                let written = text(&whole, last);
                for written in [written.trim_end_matches('\n').to_owned(), written] {
                    let read: Vec<RecordBatch> =
                        read(table, written).into_iter().map(Result::unwrap).collect();
                    assert!(read.iter().all(|batch| batch.num_rows() <= 8192));
                    let read = arrow_select::concat::concat_batches(&table.schema(), &read).unwrap();
                    assert_eq!(read, whole, "{table}, values end in `{last}`");
                }
            }
        }
        assert!(read(SsbTable::Part, "").is_empty());
    }

    #[test]
    fn errors_name_file_and_line_and_end_the_reading() {
        let good = "1|Supplier#000000001|a|UNITED ST4|UNITED STATES|AMERICA|34-698-298-8460|\n";
        for (bad, expected) in [
            (
                "2|Supplier#000000002|b|\n".as_bytes(),
                "x.tbl, line 2: 3 values instead of the 7",
            ),
            (b"\n", "x.tbl, line 2: 1 values instead of the 7"),
            (b"two|b|c|d|e|f|g|\n", "x.tbl, line 2: `two` in column s_suppkey"),
            (
                b"5000000000|b|c|d|e|f|g|\n",
                "`5000000000` in column s_suppkey is not a 32-bit integer",
            ),
            (
                b"2|b|c|\xff|e|f|g|\n",
                "x.tbl, line 2: column s_city is not UTF-8",
            ),
        ] {
            let mut results = read(
                SsbTable::Supplier,
                [good.as_bytes(), bad, good.as_bytes()].concat(),
            );
            let error = results.remove(0).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(results.is_empty());
        }
        let error = TblReader::open(SsbTable::Part, Path::new("/no/such/part.tbl")).unwrap_err();
        assert!(error.to_string().contains("/no/such/part.tbl"), "{error}");
    }
}
