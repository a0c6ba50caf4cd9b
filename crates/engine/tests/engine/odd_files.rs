//! Parquet and Arrow files of other writers: without numbers of NULLs, with NaN, old timestamps, UUIDs, and
//! values that do not fit their types.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::DataType;
use halocline_engine::{Database, EngineError, ImportOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::data_type::{Int96, Int96Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::support::{new_pool, query, run};

fn import(db: &Database, table: &str, path: &Path) -> Result<u64, EngineError> {
    let (options, cancel) = (ImportOptions::default(), AtomicBool::new(false));
    let report = db.import(table, &[path.to_owned()], &options, &mut |_| (), &cancel);
    report.map(|report| report.rows)
}

fn written(dir: &Path, name: &str, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let path = dir.join(name);
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

/// Writes the footer of a Parquet file anew, with other metadata of its columns.
fn rewrite(path: &Path, change: impl Fn(ColumnChunkMetaData) -> ColumnChunkMetaData) {
    let file = File::open(path).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    let footer = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    bytes.truncate(bytes.len() - 8 - footer);
    let mut builder = metadata.into_builder();
    let group = |group: RowGroupMetaData| {
        let columns = group.columns().iter().cloned().map(&change).collect();
        group.into_builder().set_column_metadata(columns).build().unwrap()
    };
    let groups = builder.take_row_groups().into_iter().map(group).collect();
    let metadata = builder.set_row_groups(groups).build();
    ParquetMetaDataWriter::new(&mut bytes, &metadata)
        .finish()
        .unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_without_null_counts_keeps_its_nulls() {
    let (dir, db) = new_pool();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let path = written(dir.path(), "a.parquet", vec![("v", numbers)]);
    rewrite(&path, |column| {
        let ends = ValueStatistics::new(Some(1i64), Some(3), None, None, false);
        let builder = column.into_builder().set_statistics(Statistics::Int64(ends));
        let builder = builder
            .set_column_index_offset(None)
            .set_column_index_length(None);
        builder.build().unwrap()
    });
    let file = path.display();
    assert_eq!(
        query(&db, &format!("SELECT count(*) FROM '{file}' WHERE v IS NULL")).await,
        ["1"]
    );
    assert_eq!(
        query(
            &db,
            &format!("SELECT v FROM '{file}' ORDER BY v NULLS FIRST LIMIT 1")
        )
        .await,
        ["NULL"]
    );
    assert_eq!(
        query(&db, &format!("SELECT count(v), count(*) FROM '{file}'")).await,
        ["2|3"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nan_is_found_though_statistics_do_not_know_it() {
    let (dir, db) = new_pool();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN, 3.0]));
    let path = written(dir.path(), "a.parquet", vec![("f", floats)]);
    let file = path.display();
    for (condition, count) in [
        ("f > 5", "1"),
        ("f >= 3", "2"),
        ("f = 'NaN'::double", "1"),
        ("NOT f <= 3", "1"),
        ("f <> 3", "2"),
        ("f < 2", "1"),
    ] {
        let text = format!("SELECT count(*) FROM '{file}' WHERE {condition}");
        assert_eq!(query(&db, &text).await, [count], "{condition}");
    }
    assert_eq!(
        query(&db, &format!("SELECT min(f), max(f) FROM '{file}'")).await,
        ["1.000000000e0|NaN"]
    );
    assert_eq!(
        query(&db, &format!("SELECT f FROM '{file}' ORDER BY f DESC LIMIT 1")).await,
        ["NaN"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dictionary_pages_at_offset_zero_are_none() {
    let (dir, db) = new_pool();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let path = written(dir.path(), "a.parquet", vec![("v", numbers)]);
    rewrite(&path, |column| {
        let builder = column.into_builder().set_dictionary_page_offset(Some(0));
        builder.build().unwrap()
    });
    assert_eq!(
        query(&db, &format!("SELECT sum(v) FROM '{}'", path.display())).await,
        ["6"]
    );
    assert_eq!(import(&db, "t", &path).unwrap(), 3);
    assert_eq!(query(&db, "SELECT sum(v) FROM t").await, ["6"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binaries_of_fixed_size_are_stored() {
    let (dir, db) = new_pool();
    let ids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        [Some(vec![1u8; 16]), None, Some(vec![0xff; 16])].into_iter(),
        16,
    );
    let ids: ArrayRef = Arc::new(ids.unwrap());
    let path = written(dir.path(), "a.parquet", vec![("u", ids)]);
    run(
        &db,
        &format!("CREATE TABLE t AS SELECT * FROM '{}'", path.display()),
    )
    .await;
    assert_eq!(import(&db, "i", &path).unwrap(), 3);
    for table in ["t", "i"] {
        let one = format!("SELECT count(*) FROM {table} WHERE u = X'{}'", "01".repeat(16));
        assert_eq!(query(&db, &one).await, ["1"]);
        assert_eq!(query(&db, &format!("SELECT count(u) FROM {table}")).await, ["2"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_of_96_bits_reach_from_year_1_to_9999() {
    let (dir, db) = new_pool();
    let path = dir.path().join("a.parquet");
    let field = Type::primitive_type_builder("t", PhysicalType::INT96);
    let field = field.with_repetition(Repetition::REQUIRED).build().unwrap();
    let schema = Type::group_type_builder("schema").with_fields(vec![Arc::new(field)]);
    let schema = Arc::new(schema.build().unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(&path).unwrap(), schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // Nanoseconds of the day and the Julian day.
    let values = [(0u64, 1_721_426u32), (86_399_123_456_000, 5_373_484)].map(|(nanos, day)| {
        let mut value = Int96::new();
        value.set_data(nanos as u32, (nanos >> 32) as u32, day);
        value
    });
    column
        .typed::<Int96Type>()
        .write_batch(&values, None, None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let expected = ["0001-01-01T00:00:00", "9999-12-31T23:59:59.123456"];
    let select = format!("SELECT t FROM '{}'", path.display());
    assert_eq!(query(&db, &select).await, expected);
    assert_eq!(import(&db, "i", &path).unwrap(), 2);
    assert_eq!(query(&db, "SELECT t FROM i").await, expected);
}

fn arrow_file(dir: &Path, name: &str, column: ArrayRef) -> PathBuf {
    let batch = RecordBatch::try_from_iter_with_nullable([("v", column, true)]).unwrap();
    let path = dir.join(name);
    let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_among_the_values_of_a_dictionary_is_null() {
    let (dir, db) = new_pool();
    let keys = Int32Array::from(vec![Some(0), Some(1), Some(0), None]);
    let values = StringArray::from(vec![Some("a"), None]);
    let column = DictionaryArray::<Int32Type>::new(keys, Arc::new(values));
    let path = arrow_file(dir.path(), "a.arrow", Arc::new(column));
    assert_eq!(import(&db, "t", &path).unwrap(), 4);
    assert_eq!(query(&db, "SELECT v FROM t").await, ["a", "NULL", "a", "NULL"]);
    assert_eq!(
        query(&db, "SELECT count(v), count(*) FROM t WHERE v = 'a' OR v IS NULL").await,
        ["2|4"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_of_more_digits_than_their_type_are_refused() {
    let (dir, db) = new_pool();
    let wrong = || -> ArrayRef {
        let values = Decimal128Array::from(vec![123, 1_234_567]);
        Arc::new(values.with_data_type(DataType::Decimal128(5, 2)))
    };
    let arrow = arrow_file(dir.path(), "a.arrow", wrong());
    let parquet = written(dir.path(), "a.parquet", vec![("v", wrong())]);
    for path in [arrow, parquet] {
        let error = import(&db, "t", &path).unwrap_err().to_string();
        assert!(error.contains("column v: 12345.67 is too large"), "{error}");
    }
    assert!(query(&db, "SHOW TABLES").await.is_empty());
}
