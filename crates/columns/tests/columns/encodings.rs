//! Columns whose chunks have every encoding, compared with the numbers that they were made of.

use crate::common::{assert_same, dram_pool};
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt8Array, UInt32Array,
};
use halocline_columns::{
    BLOCK_ROWS, Bitset, BlockMask, Code, CodePredicate, Column, Encoding, RowSelection, Segment, Table,
    TableEncoding, TableOptions, TableProperties, TableWriter, compact, create_table, delete_rows,
};
use halocline_workloads::SplitMix64;
use proptest::prelude::*;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The numbers of a column whose chunks get an encoding.
pub(crate) fn numbers(kind: Encoding, rows: usize, rng: &mut SplitMix64) -> Vec<i64> {
    let mut last = -1000;
    (0..rows)
        .map(|row| {
            last = match kind {
                Encoding::Constant => 42,
                Encoding::BitPacked => rng.below(1000) as i64 - 500,
                // Ends of the range of 16 bits keep the width, whatever is drawn.
                Encoding::Plain => [0, 65_535, rng.below(65_536) as i64][(row % 1024).min(2)],
                Encoding::Dictionary => rng.below(20) as i64 * 10_000_000_007,
                Encoding::Delta => last + rng.below(3) as i64,
                _ if row % 1024 == 0 || rng.below(12) == 0 => rng.next_u64() as i64 >> 30,
                _ => last,
            };
            last
        })
        .collect()
}

/// The numbers of a column of runs so short that they are marked.
pub(crate) fn short_runs(rows: usize, rng: &mut SplitMix64) -> Vec<i64> {
    let mut last = 0;
    (0..rows)
        .map(|_| {
            if rng.below(4) == 0 {
                last = rng.next_u64() as i64 >> 36;
            }
            last
        })
        .collect()
}

pub(crate) fn array(numbers: &[i64], nulls: u64, rng: &mut SplitMix64) -> ArrayRef {
    let values = numbers
        .iter()
        .map(|&number| (rng.below(256) >= nulls).then_some(number));
    Arc::new(Int64Array::from_iter(values))
}

fn check_reader<C: Code>(column: &Column, codes: &[u64], rng: &mut SplitMix64) {
    let mut reader = column.code_reader::<C>().expect("codes");
    for chunk in 0..column.chunks() {
        let first = chunk * column.chunk_rows();
        let codes = &codes[first..(first + column.chunk_rows()).min(codes.len())];
        for (block, codes) in codes.chunks(BLOCK_ROWS).enumerate() {
            let mut read = [C::default(); BLOCK_ROWS];
            assert_eq!(reader.read(chunk, block, &mut read).expect("sound"), codes.len());
            assert!(
                read[..codes.len()]
                    .iter()
                    .map(|code| code.number())
                    .eq(codes.iter().copied())
            );
            for share in [2, 8, 300] {
                let rows: Vec<u16> = (0..codes.len() as u16)
                    .filter(|_| rng.below(share) == 0)
                    .collect();
                let mut some = vec![C::default(); rows.len()];
                reader.read_rows(chunk, block, &rows, &mut some).expect("sound");
                let expected = || rows.iter().map(|&row| codes[usize::from(row)]);
                assert!(some.iter().map(|code| code.number()).eq(expected()));
                let mut mask: BlockMask = [0; BLOCK_ROWS / 64];
                rows.iter()
                    .for_each(|row| mask[usize::from(*row) / 64] |= 1 << (row % 64));
                let kept = reader.read_masked(chunk, block, &mask, &mut read).expect("sound");
                assert!(read[..kept].iter().map(|code| code.number()).eq(expected()));
            }
        }
        // Also rows of blocks that follow.
        let start = rng.below(codes.len().div_ceil(BLOCK_ROWS) as u64) as usize;
        let behind = &codes[start * BLOCK_ROWS..];
        let rows: Vec<u16> = (0..=u16::MAX)
            .take(behind.len())
            .filter(|row| rng.below(if *row < 3000 { 2 } else { 20 }) == 0)
            .collect();
        let mut some = vec![C::default(); rows.len()];
        reader.read_rows(chunk, start, &rows, &mut some).expect("sound");
        let expected = rows.iter().map(|&row| behind[usize::from(row)]);
        assert!(some.iter().map(|code| code.number()).eq(expected));
    }
}

/// A filter by every third place, where places begin with some code.
fn check_filter(column: &Column, codes: &[u64], has_null: bool, rng: &mut SplitMix64) {
    let first = codes[rng.below(codes.len() as u64) as usize];
    let span = codes.iter().max().map_or(0, |most| most.saturating_sub(first)) / 2;
    let mut bits = Bitset::new((span + 1).min(100_000) as u32);
    (0..bits.places()).step_by(3).for_each(|place| {
        bits.set(place);
    });
    let mut filter = column.filter(first.wrapping_neg(), &bits).expect("narrow codes");
    for chunk in 0..column.chunks() {
        let codes = &codes[chunk * column.chunk_rows()..];
        let codes = &codes[..codes.len().min(column.chunk_rows())];
        for (block, codes) in codes.chunks(BLOCK_ROWS).enumerate() {
            let mut mask = [u64::MAX; BLOCK_ROWS / 64];
            mask[3] = 0xf0f0;
            let before = mask;
            filter.keep(chunk, block, &mut mask).expect("sound");
            for (row, &code) in codes.iter().enumerate() {
                let place = code.wrapping_sub(first);
                let is_there = place < u64::from(bits.places()) && place % 3 == 0 && !(has_null && code == 0);
                let bit = |mask: &BlockMask| mask[row / 64] >> (row % 64) & 1 == 1;
                assert_eq!(
                    bit(&mask),
                    bit(&before) && is_there,
                    "chunk {chunk}, block {block}, row {row}"
                );
            }
        }
    }
}

fn check_column(segment: &Segment, index: usize, values: &Int64Array, rng: &mut SplitMix64) {
    let column = segment.column(index);
    let codes: Vec<u64> = {
        let smallest = values.iter().flatten().min().unwrap_or(0);
        let shift = u64::from(values.null_count() > 0);
        values
            .iter()
            .map(|value| value.map_or(0, |value| (value - smallest) as u64 + shift))
            .collect()
    };
    let mut read = Vec::new();
    column.read_codes(0..codes.len(), &mut read).expect("sound");
    assert_eq!(read, codes);
    let bits = column.code_bits().expect("codes");
    for fits in [8, 16, 32, 64].into_iter().filter(|&width| width >= bits) {
        match fits {
            8 => check_reader::<u8>(column, &codes, rng),
            16 => check_reader::<u16>(column, &codes, rng),
            32 => check_reader::<u32>(column, &codes, rng),
            _ => check_reader::<u64>(column, &codes, rng),
        }
    }
    if bits <= u32::BITS {
        check_filter(column, &codes, values.null_count() > 0, rng);
    }
    let reader = column.code_reader::<u64>().expect("codes");
    for (chunk, codes) in codes.chunks(column.chunk_rows()).enumerate() {
        let info = column.chunk_info(chunk).expect("sound");
        let nulls = values
            .slice(chunk * column.chunk_rows(), codes.len())
            .null_count();
        assert_eq!((info.rows, info.nulls), (codes.len(), nulls));
        let (low, high) = (codes.iter().min().copied(), codes.iter().max().copied());
        assert_eq!((Some(info.zone.0), Some(info.zone.1)), (low, high));
        let distinct: BTreeSet<u64> = codes
            .iter()
            .copied()
            .filter(|&code| nulls == 0 || code > 0)
            .collect();
        assert_eq!(info.base, distinct.first().copied().unwrap_or(0));
        if let Some(about) = info.distinct {
            let error = (f64::from(about) - distinct.len() as f64).abs();
            assert!(
                error <= 2.0 + 0.15 * distinct.len() as f64,
                "{info:?}: {}",
                distinct.len()
            );
        }
        let equal = |code: u64| {
            reader
                .may_match(chunk, &CodePredicate::equal(code))
                .expect("sound")
        };
        assert!(codes.iter().all(|&code| equal(code)));
        assert!(!equal(info.zone.1 + 1));
    }
}

fn predicates(codes: &[u64], rng: &mut SplitMix64) -> Vec<CodePredicate> {
    let mut pick = || codes[rng.below(codes.len() as u64) as usize];
    let (a, b) = (pick(), pick());
    vec![
        CodePredicate::equal(a),
        CodePredicate::range(a.min(b), a.max(b)),
        CodePredicate::range(a.min(b) + 1, (a.max(b) + 1).max(1)),
        CodePredicate::range(0, a),
        CodePredicate::range(1, u64::MAX),
        CodePredicate::set(vec![a, b, pick() + 1]),
        CodePredicate::set((0..40).map(|_| pick()).collect()),
    ]
}

/// Selected rows that are kept by a set of codes: of a part of the column's, or of none.
fn check_kept_codes(segment: &Segment, number: usize, codes: &[u64], rng: &mut SplitMix64) {
    let column = segment.column(number);
    let has_null = column.null_count() > 0;
    let most = codes.iter().max().map_or(0, |most| *most);
    if most > 1 << 24 {
        return;
    }
    let (from, share) = (rng.below(most + 1), rng.below(4));
    let mut bits = Bitset::new(most as u32 + 1);
    for code in codes.iter().filter(|code| **code >= from && **code % 4 < share) {
        bits.set(*code as u32);
    }
    let some: Vec<usize> = (0..codes.len())
        .filter(|row| row / 900 % 4 > 0 || rng.below(30) == 0)
        .collect();
    let mut kept = RowSelection::default();
    some.iter().for_each(|row| kept.add_range(*row..row + 1));
    let excluded = segment.keep_codes(number, &bits, &mut kept).expect("sound");
    assert!(excluded + kept.len() <= some.len());
    let expected = some.iter().filter(|row| {
        let code = codes[**row];
        !(has_null && code == 0) && bits.has(code as u32) == 1
    });
    assert!(
        kept.rows().map(|row| row as usize).eq(expected.copied()),
        "column {number}"
    );
    if bits.count() == 0 {
        assert_eq!(excluded, some.len());
    }
}

/// Selections that conditions add to, and filter, and the values that are decoded for them.
fn check_selections(
    segment: &Segment,
    columns: &[ArrayRef],
    conditions: &[(usize, CodePredicate)],
    expected: &RoaringBitmap,
    rng: &mut SplitMix64,
) {
    let rows = segment.rows();
    let middle = rng.below(rows as u64) as usize / BLOCK_ROWS * BLOCK_ROWS;
    let mut added = RowSelection::default();
    for part in [0..middle, middle..rows] {
        segment.select_into(conditions, part, &mut added).expect("sound");
    }
    assert!(added.rows().eq(expected), "{conditions:?}");

    let some: RoaringBitmap = (0..rows as u32)
        .filter(|row| row / 700 % 3 > 0 || rng.below(20) == 0)
        .collect();
    let mut filtered = RowSelection::default();
    some.iter()
        .for_each(|row| filtered.add_range(row as usize..row as usize + 1));
    segment.filter(conditions, &mut filtered).expect("sound");
    let raw = segment.with_deleted_rows();
    let expected = some & raw.select(conditions, 0..rows).expect("sound");
    assert!(filtered.rows().eq(&expected), "{conditions:?}");

    for selection in [added, filtered] {
        let rows = UInt32Array::from_iter_values(selection.rows());
        for (number, column) in columns.iter().enumerate() {
            let read = segment.column(number).decode(&selection).expect("sound");
            assert_same(
                &read,
                &arrow_select::take::take(column, &rows, None).expect("rows exist"),
            );
        }
    }
}

pub(crate) fn table_of(columns: &[ArrayRef], chunk_rows: usize) -> (halocline_pool::Pool, Table) {
    table_of_encoding(columns, chunk_rows, TableEncoding::Chosen)
}

fn table_of_encoding(
    columns: &[ArrayRef],
    chunk_rows: usize,
    encoding: TableEncoding,
) -> (halocline_pool::Pool, Table) {
    let named = columns
        .iter()
        .enumerate()
        .map(|(i, array)| (format!("c{i}"), array.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(named).expect("columns of one length");
    let mut options = TableOptions::default();
    options.chunk_rows = chunk_rows;
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    let properties = TableProperties {
        encoding,
        ..TableProperties::default()
    };
    create_table(&txn, "t", &batch.schema(), &properties).expect("storable");
    let mut writer = TableWriter::append(&txn, "t", options).expect("there");
    writer.write(&batch).expect("written");
    writer.finish().expect("finished");
    txn.commit().expect("committed");
    let table = Table::open(&pool.snapshot().expect("open pool"), "t").expect("written above");
    (pool, table)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn all_encodings_agree_with_the_numbers(
        seed in any::<u64>(),
        rows in 1usize..9000,
        chunk_rows in prop_oneof![Just(1024), Just(4096), Just(65_536)],
        nulls in prop_oneof![3 => Just(0u64), 2 => Just(10), 1 => Just(250)],
        deleted in prop_oneof![Just(0u64), Just(30), Just(200)],
        encoding in prop_oneof![3 => Just(TableEncoding::Chosen), 1 => Just(TableEncoding::Plain)],
    ) {
        let mut rng = SplitMix64::new(seed);
        let columns: Vec<ArrayRef> =
            Encoding::ALL.iter().map(|&kind| numbers(kind, rows, &mut rng)).chain([short_runs(rows, &mut SplitMix64::new(seed))])
            .map(|numbers| array(&numbers, nulls, &mut SplitMix64::new(seed ^ 1))).collect();
        let (pool, table) = table_of_encoding(&columns, chunk_rows, encoding);
        prop_assert_eq!(table.encoding(), encoding);
        prop_assert!(table.check().is_empty(), "{:?}", table.check());
        let segment = &table.segments()[0];
        for (i, column) in columns.iter().enumerate() {
            let values = column.as_any().downcast_ref::<Int64Array>().expect("numbers");
            check_column(segment, i, values, &mut rng);
        }
        let dead: RoaringBitmap = (0..rows as u32).filter(|_| rng.below(256) < deleted).collect();
        let txn = pool.begin().expect("no other writer");
        let segment_id = segment.id();
        delete_rows(&txn, "t", &BTreeMap::from([(segment_id, dead.clone())])).expect("rows");
        let table = Table::open_in(&txn, "t").expect("there");
        let Some(segment) = table.segments().first() else {
            prop_assert_eq!(dead.len(), rows as u64);
            return Ok(());
        };
        let mut codes = vec![Vec::new(); columns.len()];
        for (i, codes) in codes.iter_mut().enumerate() {
            segment.column(i).read_codes(0..rows, codes).expect("sound");
            check_kept_codes(segment, i, codes, &mut rng);
        }
        for round in 0..7 {
            let chosen: Vec<usize> = (0..columns.len()).filter(|_| rng.below(2) == 0).collect();
            let condition = |i: usize| (i, predicates(&codes[i], &mut rng).swap_remove((round + i) % 7));
            let conditions: Vec<(usize, CodePredicate)> = chosen.into_iter().map(condition).collect();
            let expected: RoaringBitmap = (0..rows as u32)
                .filter(|&row| !dead.contains(row))
                .filter(|&row| conditions.iter().all(|(i, predicate)| predicate.matches(codes[*i][row as usize])))
                .collect();
            let found = segment.select(&conditions, 0..rows).expect("sound");
            prop_assert_eq!(&found, &expected, "{:?}", conditions);
            check_selections(segment, &columns, &conditions, &expected, &mut rng);
        }
    }
}

#[test]
fn each_kind_of_column_gets_its_encoding() {
    let mut rng = SplitMix64::new(1);
    for nulls in [0, 10] {
        let columns: Vec<ArrayRef> = Encoding::ALL
            .iter()
            .map(|&kind| array(&numbers(kind, 200_000, &mut rng), nulls, &mut rng))
            .collect();
        let (_, table) = table_of(&columns, 65_536);
        for (i, kind) in Encoding::ALL.into_iter().enumerate() {
            let column = table.segments()[0].column(i);
            let encodings: BTreeSet<String> = (0..column.chunks())
                .map(|chunk| format!("{:?}", column.chunk_info(chunk).expect("sound").encoding))
                .collect();
            let expected = match kind {
                // A place for NULL takes bits of its own, and values beside NULLs do not ascend.
                Encoding::Constant | Encoding::Plain | Encoding::Delta | Encoding::RunLength if nulls > 0 => {
                    continue;
                }
                kind => format!("{kind:?}"),
            };
            assert_eq!(encodings, BTreeSet::from([expected]), "nulls {nulls}");
        }
    }
}

#[test]
fn only_what_needs_it_is_of_version_4_or_5() {
    let mut rng = SplitMix64::new(2);
    let columns = [
        numbers(Encoding::BitPacked, 5000, &mut rng),
        numbers(Encoding::Delta, 5000, &mut rng),
        short_runs(5000, &mut rng),
    ];
    let versions = columns.map(|numbers| {
        let (pool, _) = table_of(&[array(&numbers, 0, &mut rng)], 65_536);
        let object = pool.snapshot().expect("open").get("table/t").expect("there");
        String::from_utf8_lossy(object.meta())[..7].to_owned()
    });
    assert_eq!(versions, ["{\"v\":2,", "{\"v\":4,", "{\"v\":5,"]);
}

/// Every value of a plain column takes the bytes of its type, however few values there are, and also after a
/// merge.
#[test]
fn plain_columns_are_as_wide_as_their_types() {
    const ROWS: usize = 70_000;
    let columns: [ArrayRef; 4] = [
        Arc::new(Int32Array::from_iter_values((0..ROWS as i32).map(|i| i % 10))),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| 42))),
        Arc::new(UInt8Array::from_iter(
            (0..ROWS).map(|i| (i % 2 == 0).then_some(7)),
        )),
        Arc::new(StringArray::from_iter_values(
            (0..ROWS).map(|i| ["AIR", "RAIL"][i % 2]),
        )),
    ];
    let (pool, table) = table_of_encoding(&columns, 65_536, TableEncoding::Plain);
    let insist = |table: &Table| {
        assert_eq!(table.encoding(), TableEncoding::Plain);
        assert!(table.check().is_empty());
        for (at, bytes) in [4, 8, 1, 4].into_iter().enumerate() {
            let column = table.segments()[0].column(at);
            for chunk in 0..column.chunks() {
                let info = column.chunk_info(chunk).expect("sound");
                assert_eq!(info.encoding, Encoding::Plain, "column {at}");
                assert_eq!(
                    info.bytes,
                    (info.rows.next_multiple_of(BLOCK_ROWS) * bytes) as u64
                );
                assert!(info.distinct.is_some_and(|distinct| distinct <= 10), "{info:?}");
            }
            let read = column.scan(0..ROWS).expect("sound");
            assert_eq!(read.to_data(), columns[at].to_data(), "column {at}");
        }
    };
    insist(&table);
    let txn = pool.begin().expect("no other writer");
    let ids = [table.segments()[0].id()];
    compact::merge(&txn, "t", &ids, &compact::MergeOptions::default()).expect("merged");
    let merged = Table::open_in(&txn, "t").expect("there");
    assert_ne!(merged.segments()[0].id(), ids[0]);
    insist(&merged);
    let object = txn.get("table/t").expect("there");
    let description = String::from_utf8_lossy(object.meta()).into_owned();
    assert!(description.starts_with("{\"v\":4,"), "{description}");
}

/// The library's format decides by the number of rows how a container is stored: 4096 are the most that are
/// an array.
#[test]
fn selected_rows_come_back_from_their_serialized_form() {
    for found in [4095, 4096, 4097] {
        let marked: Vec<Option<i64>> = (0..65_536)
            .map(|row| Some(i64::from(row % 15 == 3 && row / 15 < found)))
            .collect();
        let column: ArrayRef = std::sync::Arc::new(Int64Array::from(marked));
        let (_pool, table) = table_of(&[column], 65_536);
        let segment = &table.segments()[0];
        let mut codes = Vec::new();
        segment.column(0).read_codes(3..4, &mut codes).expect("sound");
        let rows = segment
            .select(&[(0, CodePredicate::equal(codes[0]))], 0..65_536)
            .expect("sound");
        let expected: RoaringBitmap = (0..found as u32).map(|row| row * 15 + 3).collect();
        assert_eq!(rows, expected, "{found} rows");
        let mut bytes = Vec::new();
        rows.serialize_into(&mut bytes).expect("a vector takes any bytes");
        let read = RoaringBitmap::deserialize_from(&bytes[..]).expect("as it was written");
        assert_eq!(read, expected, "{found} rows");
    }
}
