//! Parquet and Arrow IPC files, whole and damaged.

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::file::properties::WriterProperties;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};

use super::*;
use crate::temporary_files::SystemFiles;

fn batch(from: i32) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(from..from + 1000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter(
        (from..from + 1000).map(|i| (i % 3 > 0).then(|| format!("t{i}"))),
    ));
    RecordBatch::try_from_iter_with_nullable([("a", numbers, false), ("b", texts, true)]).unwrap()
}

fn parquet_bytes() -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1000))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch(0).schema(), Some(properties)).unwrap();
    for from in [0, 1000, 2000] {
        writer.write(&batch(from)).unwrap();
    }
    writer.into_inner().unwrap()
}

fn ipc_file() -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batch(0).schema()).unwrap();
    writer.write(&batch(0)).unwrap();
    writer.write(&batch(1000)).unwrap();
    writer.into_inner().unwrap()
}

fn ipc_stream() -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch(0).schema()).unwrap();
    writer.write(&batch(0)).unwrap();
    writer.write(&batch(1000)).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn whole_files_give_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes, rows) in [
        ("p", parquet_bytes(), 3000),
        ("f", ipc_file(), 2000),
        ("s", ipc_stream(), 2000),
    ] {
        let path = write(dir.path(), name, bytes);
        let batch = read_all("t", &[path], &ImportOptions::default()).unwrap();
        assert_eq!(batch.num_rows(), rows, "{name}");
        assert_eq!(
            batch.schema().field(1).data_type(),
            &DataType::Utf8View,
            "{name}: texts become views"
        );
        assert!(!batch.schema().field(0).is_nullable() && batch.schema().field(1).is_nullable());
    }
}

#[test]
fn large_batches_of_arrow_files_are_read_in_parts() {
    const ROWS: usize = 70_000;
    let text = |row: usize| (!row.is_multiple_of(5)).then(|| format!("{row:0300}"));
    let numbers = Decimal128Array::from_iter_values((0..ROWS).map(|row| row as i128 * 1_000_000_007));
    let numbers: ArrayRef = Arc::new(numbers.with_precision_and_scale(38, 2).unwrap());
    let texts: ArrayRef = Arc::new((0..ROWS).map(text).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter([("a", numbers), ("b", texts)]).unwrap();
    let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    for batch in [batch.slice(0, 10), batch.slice(10, ROWS - 10)] {
        file.write(&batch).unwrap();
        stream.write(&batch).unwrap();
    }
    let options = ImportOptions {
        batch_bytes: Some(1 << 20),
        ..ImportOptions::default()
    };
    let dir = tempfile::tempdir().unwrap();
    for bytes in [file.into_inner().unwrap(), stream.into_inner().unwrap()] {
        let path = write(dir.path(), "large", bytes);
        for spills in [false, true] {
            let mut files = Files::open("t", std::slice::from_ref(&path), &options).unwrap();
            if spills {
                files = files.spilling_to(Arc::new(SystemFiles));
            }
            let mut row = 0;
            for part in files.read(0).unwrap().batches {
                let part = part.unwrap();
                assert!(part.num_rows() * 300 <= 2 << 20, "{} rows", part.num_rows());
                let numbers = part.column(0).as_primitive::<Decimal128Type>().iter();
                for (number, found) in numbers.zip(part.column(1).as_string_view().iter()) {
                    assert_eq!(number, Some(row as i128 * 1_000_000_007));
                    assert_eq!(found.map(str::to_owned), text(row));
                    row += 1;
                }
            }
            assert_eq!(row, ROWS);
        }
    }
}

#[test]
fn a_cut_anywhere_is_an_error() {
    let options = ImportOptions::default();
    for (name, bytes) in [
        ("x.parquet", parquet_bytes()),
        ("x.arrow", ipc_file()),
        ("x.arrows", ipc_stream()),
    ] {
        for part in 0..40 {
            let cut = bytes.len() * part / 40;
            let (_, text) = error_of("t", name, &bytes[..cut], &options);
            assert!(text.starts_with(name), "cut at {cut}: {text}");
        }
        let (error, text) = error_of("t", name, &bytes[..bytes.len() - 3], &options);
        assert!(matches!(error.fault, ImportFault::Truncated(_)), "{text}");
    }
}

#[test]
fn a_damaged_row_group_is_named() {
    let mut bytes = parquet_bytes();
    let third = bytes.len() / 2;
    for byte in &mut bytes[third..third + 600] {
        *byte ^= 0x5a;
    }
    let (error, text) = error_of("t", "x.parquet", &bytes, &ImportOptions::default());
    assert_eq!(error.place, SourceLocation::RowGroup(1), "{text}");
}

#[test]
fn foreign_bytes_are_not_parquet() {
    let options = ImportOptions {
        format: ImportFormat::Parquet,
        ..Default::default()
    };
    let (error, text) = error_of("t", "x.parquet", "just a text that is long enough", &options);
    assert!(matches!(error.fault, ImportFault::Foreign { .. }), "{text}");
    assert_eq!(
        text,
        "x.parquet: is not a Parquet file: it does not begin with PAR1"
    );
}

#[test]
fn files_with_other_columns_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = write(dir.path(), "a.parquet", parquet_bytes());
    let other = |name: &str, column: &str, array: ArrayRef| {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..1));
        let batch = RecordBatch::try_from_iter([("a", numbers), (column, array)]).unwrap();
        let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        write(dir.path(), name, writer.into_inner().unwrap())
    };
    let types = other("b.arrow", "b", Arc::new(Int64Array::from(vec![1])));
    let names = other("c.arrow", "z", Arc::new(StringArray::from(vec!["x"])));
    let good = other("d.arrow", "b", Arc::new(StringArray::from(vec!["x"])));
    let options = ImportOptions::default();
    let text = |second: &PathBuf| {
        read_all("t", &[first.clone(), second.clone()], &options)
            .unwrap_err()
            .to_string()
    };
    assert!(text(&types).ends_with(
        "b.arrow: has other columns than expected: column b is bigint here and varchar in the first file"
    ));
    assert!(text(&names).ends_with("c.arrow: has other columns than expected: a, z instead of a, b"));
    assert_eq!(
        read_all("t", &[first.clone(), good], &options)
            .unwrap()
            .num_rows(),
        3001
    );
    let cast = with_schema("a bigint, b varchar");
    assert_eq!(
        read_all("t", std::slice::from_ref(&first), &cast)
            .unwrap()
            .schema()
            .field(0)
            .data_type(),
        &DataType::Int64
    );
    let narrow = with_schema("a tinyint, b varchar");
    assert!(matches!(
        read_all("t", &[first], &narrow).unwrap_err().fault,
        ImportFault::SchemaMismatch(_)
    ));
}
