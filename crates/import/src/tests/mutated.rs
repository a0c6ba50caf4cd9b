//! Mutated files of every format: an import of them ends in rows or in an error that names the file.
//!
//! `HALOCLINE_MUTATIONS` sets the number of mutations per file, `HALOCLINE_MUTATION_SEED` the first seed.

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterProperties;
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
    NullArray, StringArray, StringViewArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

fn rows() -> RecordBatch {
    let count = 300;
    let some = |i: i64| (i % 7 != 0).then_some(i);
    let columns: [(&str, ArrayRef); 9] = [
        ("i", Arc::new((0..count).map(some).collect::<Int64Array>())),
        (
            "b",
            Arc::new(
                (0..count)
                    .map(|i| some(i).map(|i| i % 3 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "f",
            Arc::new(
                (0..count)
                    .map(|i| some(i).map(|i| i as f64 / 3.0))
                    .collect::<Float64Array>(),
            ),
        ),
        (
            "s",
            Arc::new(
                (0..count)
                    .map(|i| some(i).map(|i| format!("text number {i}")))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "v",
            Arc::new(
                (0..count)
                    .map(|i| some(i).map(|i| format!("a longer view {i}")))
                    .collect::<StringViewArray>(),
            ),
        ),
        ("d", Arc::new((0..300i32).map(Some).collect::<Date32Array>())),
        ("n", Arc::new(NullArray::new(300))),
        (
            "c",
            Arc::new((0..300i128).map(|i| Some(i * 1000)).collect::<Decimal128Array>()),
        ),
        (
            "k",
            Arc::new(
                (0..300)
                    .map(|i| ["x", "y", "z"][i % 3])
                    .collect::<DictionaryArray<Int8Type>>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn parquet(compression: Compression) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_data_page_row_count_limit(100)
        .set_max_row_group_row_count(Some(200))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), rows().schema(), Some(properties)).unwrap();
    writer.write(&rows()).unwrap();
    writer.into_inner().unwrap()
}

fn ipc(compression: Option<CompressionType>, stream: bool) -> Vec<u8> {
    let options = IpcWriteOptions::default()
        .try_with_compression(compression)
        .unwrap();
    if stream {
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &rows().schema(), options).unwrap();
        writer.write(&rows()).unwrap();
        return writer.into_inner().unwrap();
    }
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &rows().schema(), options).unwrap();
    writer.write(&rows()).unwrap();
    writer.write(&rows()).unwrap();
    writer.into_inner().unwrap()
}

fn texts() -> (String, String) {
    let (mut csv, mut tbl) = ("id,zip,\"a,b\",day\n".to_string(), String::new());
    for i in 0..200 {
        csv += &format!("{i},0{i},\"text \"\"{i}\"\",\n{i}\",2024-01-{:02}\n", i % 28 + 1);
        tbl += &format!("{i}|NAME {i}|comment {i}|\n");
    }
    (csv, tbl)
}

/// Changes a few places of the bytes.
fn mutate(bytes: &mut Vec<u8>, random: &mut StdRng) {
    for _ in 0..random.random_range(1..4) {
        let length = bytes.len();
        let at = match random.random_range(0..3) {
            // Headers and footers hold what decoders trust.
            0 => random.random_range(0..length.min(600)),
            1 => length - random.random_range(1..length.min(1500)),
            _ => random.random_range(0..length),
        };
        match random.random_range(0..6) {
            0 | 1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes[at] = [0, 0x7f, 0x80, 0xff][random.random_range(0..4)],
            3 => {
                let end = (at + 8).min(length);
                let huge: u64 = [u64::MAX, 1 << 58, i64::MAX as u64, 1 << 31, 0][random.random_range(0..5)];
                bytes[at..end].copy_from_slice(&huge.to_le_bytes()[..end - at]);
            }
            4 => {
                let end = (at + random.random_range(1..40)).min(length);
                let from = random.random_range(0..length - (end - at));
                bytes.copy_within(from..from + (end - at), at);
            }
            _ => drop(bytes.drain(at..(at + random.random_range(1..20)).min(length - 1).max(at))),
        }
    }
}

#[test]
fn mutated_files_give_rows_or_an_error() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (count, first) = (
        number("HALOCLINE_MUTATIONS", 100),
        number("HALOCLINE_MUTATION_SEED", 1),
    );
    let (csv, tbl) = texts();
    let files: [(&str, Vec<u8>); 10] = [
        ("a.csv", csv.into_bytes()),
        ("a.tbl", tbl.into_bytes()),
        ("plain.parquet", parquet(Compression::UNCOMPRESSED)),
        ("zstd.parquet", parquet(Compression::ZSTD(ZstdLevel::default()))),
        ("snappy.parquet", parquet(Compression::SNAPPY)),
        ("a.arrow", ipc(None, false)),
        ("zstd.arrow", ipc(Some(CompressionType::ZSTD), false)),
        ("lz4.arrow", ipc(Some(CompressionType::LZ4_FRAME), false)),
        ("a.arrows", ipc(None, true)),
        ("lz4.arrows", ipc(Some(CompressionType::LZ4_FRAME), true)),
    ];
    let dir = tempfile::tempdir().unwrap();
    let (mut read, mut refused) = (0, 0);
    for (name, whole) in &files {
        read_all(
            "region",
            &[write(dir.path(), name, whole)],
            &ImportOptions::default(),
        )
        .unwrap_or_else(|error| panic!("{error}"));
        for seed in first..first + count {
            let mut bytes = whole.clone();
            mutate(&mut bytes, &mut StdRng::seed_from_u64(seed));
            let path = write(dir.path(), name, &bytes);
            let result = std::panic::catch_unwind(|| {
                read_all("region", std::slice::from_ref(&path), &ImportOptions::default())
            });
            match result {
                Ok(Ok(_)) => read += 1,
                Ok(Err(error)) => {
                    assert!(error.to_string().contains(name), "{name}, seed {seed}: {error}");
                    refused += 1;
                }
                Err(_) => panic!("{name}, seed {seed}: the import panicked"),
            }
        }
    }
    assert!(read > 0 && refused > 0, "{read} files read, {refused} refused");
}

/// A few bytes that decompress to more than there is memory for are refused before they are decompressed.
#[test]
fn parts_that_decompress_to_too_much_are_refused() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(20 << 20)]));
    let batch = RecordBatch::try_from_iter([("s", text)]).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(::parquet::file::properties::EnabledStatistics::None)
        .build();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    parquet.write(&batch).unwrap();
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::ZSTD))
        .unwrap();
    let mut arrow = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    arrow.write(&batch).unwrap();
    let options = ImportOptions {
        batch_bytes: Some(1 << 20),
        ..Default::default()
    };
    for (name, bytes) in [
        ("x.parquet", parquet.into_inner().unwrap()),
        ("x.arrow", arrow.into_inner().unwrap()),
    ] {
        assert!(bytes.len() < 64 << 10, "{name} has {} bytes", bytes.len());
        let (_, text) = error_of("t", name, &bytes, &options);
        assert!(
            text.contains("20 MiB when decompressed, more than the 16 MiB"),
            "{text}"
        );
    }
}
