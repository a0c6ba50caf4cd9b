//! Files as they are and as they should not be, read without a pool.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::concat::concat_batches;
use halocline_values::sql_name;

use super::files::Files;
use super::*;

fn write(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Reads all rows of the files into one batch.
fn read_all(table: &str, files: &[PathBuf], options: &ImportOptions) -> Result<RecordBatch, ImportError> {
    let files = Files::open(table, files, options)?;
    let mut batches = Vec::new();
    for number in 0..files.count() {
        for batch in files.read(number)?.batches {
            batches.push(batch?);
        }
    }
    Ok(concat_batches(&files.schema, &batches).unwrap())
}

fn error_of(
    table: &str,
    name: &str,
    bytes: impl AsRef<[u8]>,
    options: &ImportOptions,
) -> (ImportError, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), name, bytes);
    let error = read_all(table, &[path], options).unwrap_err();
    let text = error
        .to_string()
        .replace(&format!("{}/", dir.path().display()), "");
    (error, text)
}

/// Reads `name type [not null], …`.
fn with_schema(text: &str) -> ImportOptions {
    let field = |text: &str| {
        let (name, data_type) = text.split_once(' ').unwrap();
        let is_nullable = !data_type.ends_with(" not null");
        let data_type = match data_type.trim_end_matches(" not null") {
            "tinyint" => DataType::Int8,
            "int" => DataType::Int32,
            "bigint" => DataType::Int64,
            "varchar" => DataType::Utf8,
            "bytea" => DataType::Binary,
            "date" => DataType::Date32,
            "timestamp(3)" => DataType::Timestamp(TimeUnit::Millisecond, None),
            other => panic!("{other} is no type of these tests"),
        };
        Field::new(name, data_type, is_nullable)
    };
    let fields: Vec<Field> = text.split(", ").map(field).collect();
    ImportOptions {
        schema: Some(Arc::new(Schema::new(fields))),
        ..ImportOptions::default()
    }
}

#[test]
fn csv_types_come_from_the_values() {
    let dir = tempfile::tempdir().unwrap();
    let text = "i,f,b,d,t,s,e\n1,1.5,true,1994-01-01,1994-01-01 10:00:00,x,\n,2.0,,,,\"a,\"\"b\n c\",\n-7,0.25,false,2020-02-29,2020-01-01 00:00:01.500,,\n";
    let batch = read_all(
        "t",
        &[write(dir.path(), "a.csv", text)],
        &ImportOptions::default(),
    )
    .unwrap();
    let types: Vec<String> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| sql_name(f.data_type()))
        .collect();
    assert_eq!(
        types,
        [
            "bigint",
            "double",
            "boolean",
            "date",
            "timestamp(9)",
            "varchar",
            "varchar"
        ]
    );
    assert_eq!(batch.num_rows(), 3);
    assert_eq!(
        batch.columns().iter().map(|c| c.null_count()).collect::<Vec<_>>(),
        [1, 0, 1, 1, 1, 1, 3]
    );
}

#[test]
fn csv_variants() {
    let dir = tempfile::tempdir().unwrap();
    let semicolon = ImportOptions {
        delimiter: Some(b';'),
        header: Some(false),
        nulls: vec!["NULL".into()],
        ..Default::default()
    };
    let batch = read_all(
        "t",
        &[write(dir.path(), "a.csv", "1;x\r\nNULL;NULL\r\n3;\r\n")],
        &semicolon,
    )
    .unwrap();
    assert_eq!(batch.schema().field(0).name(), "c1");
    assert_eq!(
        (
            batch.num_rows(),
            batch.column(0).null_count(),
            batch.column(1).null_count()
        ),
        (3, 1, 2)
    );
    let tsv = read_all(
        "t",
        &[write(dir.path(), "b.tsv", "a\tb\n1\t2\n")],
        &ImportOptions::default(),
    )
    .unwrap();
    assert_eq!(tsv.num_columns(), 2);
    let bom = read_all(
        "t",
        &[write(dir.path(), "c.csv", "\u{feff}a,b\n1,2\n")],
        &ImportOptions::default(),
    )
    .unwrap();
    assert_eq!(bom.schema().field(0).name(), "a");
    let header_only = read_all(
        "t",
        &[write(dir.path(), "d.csv", "a,b\n")],
        &ImportOptions::default(),
    )
    .unwrap();
    assert_eq!((header_only.num_rows(), header_only.num_columns()), (0, 2));
}

#[test]
fn values_beyond_the_sample_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "a.csv", "a\n1\n2\nx\n");
    let options = ImportOptions {
        sample_rows: Some(2),
        ..Default::default()
    };
    let files = Files::open("t", std::slice::from_ref(&path), &options).unwrap();
    assert!(files.guessed);
    let error = files.read(0).unwrap().batches.find_map(Result::err).unwrap();
    assert_eq!(
        (error.place, error.column.as_deref()),
        (SourceLocation::Line(4), Some("a"))
    );
    let all = ImportOptions {
        sample_rows: None,
        ..Default::default()
    };
    assert_eq!(
        read_all("t", &[path], &all)
            .unwrap()
            .schema()
            .field(0)
            .data_type(),
        &DataType::Utf8View
    );
}

#[test]
fn malformed_csv_is_told_with_its_line() {
    let ints = with_schema("a int, b int");
    for (text, wanted) in [
        ("a,b\n1,2\n3\n", "x.csv, line 3: has 1 columns instead of 2"),
        ("a,b\n1,2\n3,4,5\n", "x.csv, line 3: has 3 columns instead of 2"),
        (
            "a,b\n1,2\n3,4x\n",
            "x.csv, line 3, column b: '4x' is not a value of type int",
        ),
        (
            "a,b\n1,99999999999\n",
            "x.csv, line 2, column b: '99999999999' is not a value of type int",
        ),
        (
            "a,c\n1,2\n",
            "x.csv, line 1: has other columns than expected: the header line names a, c instead of a, b",
        ),
        (
            "",
            "x.csv: is empty: there is no line that tells its columns; give a schema",
        ),
    ] {
        assert_eq!(error_of("t", "x.csv", text, &ints).1, wanted, "{text:?}");
    }
    let (error, _) = error_of(
        "t",
        "x.csv",
        b"a,b\n1,2\n\xff,3\n",
        &with_schema("a varchar, b int"),
    );
    assert_eq!(
        (error.place, error.fault),
        (SourceLocation::Line(3), ImportFault::InvalidUtf8)
    );
    let texts = with_schema("a int, b varchar");
    let (error, _) = error_of("t", "x.csv", "a,b\n1,x\n2,\"y\n3,z\n", &texts);
    assert_eq!(
        (error.place, error.fault),
        (SourceLocation::Line(3), ImportFault::OpenQuote)
    );
    let (error, _) = error_of("t", "x.csv", "a,b\n\"1\n2\",x\n2,y\n", &texts);
    assert_eq!(
        error.place,
        SourceLocation::Line(2),
        "a value over two lines is at its first"
    );
    let (error, text) = error_of(
        "t",
        "x.csv",
        "a,b\n1,x\n,y\n",
        &with_schema("a int not null, b varchar"),
    );
    assert_eq!(error.fault, ImportFault::UnexpectedNull, "{text}");
}

const REGION: &str = "0|AFRICA|lar deposits|\n1|AMERICA|hs \"use|\n";

#[test]
fn tbl_with_the_schema_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "region.tbl", REGION);
    let batch = read_all("region", &[path.clone(), path], &ImportOptions::default()).unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (4, 3));
    assert_eq!(batch.schema().field(2).name(), "r_comment");
    let bare = write(dir.path(), "bare.tbl", "1|x||\n2|y|z");
    let options = with_schema("a int, b varchar, c varchar not null, d varchar");
    assert!(
        read_all("t", &[bare], &options).is_err(),
        "the second line is short"
    );
    let bare = write(dir.path(), "bare.tbl", "1|x||q\n2|y|z|r");
    let batch = read_all("t", &[bare], &options).unwrap();
    assert_eq!((batch.num_rows(), batch.column(2).null_count()), (2, 0));
}

#[test]
fn malformed_tbl_is_told_with_its_line() {
    let options = ImportOptions::default();
    for (text, wanted) in [
        ("0|A|x|\n1|B|\n", "r.tbl, line 2: has 2 columns instead of 3"),
        ("0|A|x|\n1|B|y|z|\n", "r.tbl, line 2: has 4 columns instead of 3"),
        (
            "0|A|x|\none|B|y|\n",
            "r.tbl, line 2, column r_regionkey: 'one' is not a value of type bigint",
        ),
        (
            "0|A|x|\n1|B|trunca",
            "r.tbl, line 2: ends too early: the line does not end in a delimiter",
        ),
        (
            "0|A|x|\n|B|y|\n",
            "r.tbl, line 2, column r_regionkey: is NULL in a NOT NULL column",
        ),
    ] {
        assert_eq!(error_of("region", "r.tbl", text, &options).1, wanted, "{text:?}");
    }
    let (error, _) = error_of("region", "r.tbl", b"0|A|x|\n1|\xc3\x28|y|\n", &options);
    assert_eq!(
        (error.place, error.fault),
        (SourceLocation::Line(2), ImportFault::InvalidUtf8)
    );
    let (_, text) = error_of("other", "r.tbl", REGION, &options);
    assert!(
        text.contains("'other' is not a table of TPC-H; give a schema"),
        "{text}"
    );
}

#[test]
fn files_that_do_not_tell_what_they_are() {
    let options = ImportOptions::default();
    let (_, text) = error_of("t", "data", "1,2\n", &options);
    assert!(text.contains("say --format"), "{text}");
    let missing = read_all("t", &[PathBuf::from("no-such-file.csv")], &options).unwrap_err();
    assert!(matches!(missing.fault, ImportFault::Unreadable(_)));
}

mod binary;
mod csv;
mod mutated;
mod roundtrip;
