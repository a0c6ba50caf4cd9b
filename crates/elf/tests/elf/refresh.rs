//! Indexes that follow their table: appends, deletions, replaced segments, new names, and indexes of version
//! 1.

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use halocline_columns::{
    CodePredicate, Table, TableOptions, TableProperties, TableWriter, create_table, delete_rows, rename_table,
};
use halocline_elf::{
    ElfError, IndexOptions, Layout, Order, RefreshStats, TableIndex, index_table, refresh_index,
    rename_index_table,
};
use halocline_media::Dram;
use halocline_pool::{ExtentRef, ObjectKind, Pool, Txn};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

/// Column `id` has more distinct values than `kind`; `note` is stored without codes.
fn batch(rows: Range<i64>) -> RecordBatch {
    let notes = StringArray::from_iter_values(rows.clone().map(|i| format!("note {i}")));
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(rows.clone()))),
        (
            "kind",
            Arc::new(Int64Array::from_iter_values(rows.map(|i| i % 7))),
        ),
        ("note", Arc::new(notes)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn options() -> TableOptions {
    let mut options = TableOptions::default();
    (options.chunk_rows, options.dictionary_limit) = (1024, 50);
    options
}

fn append(txn: &Txn, rows: Range<i64>) {
    let mut writer = TableWriter::append(txn, "t", options()).expect("a table");
    writer.write(&batch(rows)).expect("rows of the table");
    writer.finish().expect("finished");
}

fn refresh(txn: &Txn, name: &str) -> RefreshStats {
    let table = Table::open_in(txn, "t").expect("there");
    refresh_index(txn, &table, name, &IndexOptions::default(), &NEVER).expect("its table")
}

/// Counts the rows of each segment that the index finds with `kind` = 3 and notes that start with "note 1".
fn found(txn: &Txn, name: &str) -> Vec<(u64, u64)> {
    let index = TableIndex::open_in(txn, name).expect("there");
    index.check().expect("sound");
    let count = |segment: &halocline_elf::IndexSegment| {
        let predicates = index.columns().iter().enumerate().map(|(dim, column)| {
            let space = segment.space(dim);
            match column {
                1 => space.equal(&Int64Array::from(vec![3])).expect("an integer"),
                2 => space.prefix("note 1").expect("a string"),
                _ => CodePredicate::Any,
            }
        });
        let predicates: Vec<CodePredicate> = predicates.collect();
        let selection = segment.elf().select(&predicates).expect("as many dimensions");
        (segment.id(), selection.count().expect("sound"))
    };
    index.segments().iter().map(count).collect()
}

fn expected(rows: Range<i64>) -> u64 {
    let matches = |i: &i64| i % 7 == 3 && i.to_string().starts_with('1');
    rows.filter(matches).count() as u64
}

fn extents(txn: &Txn, object: &str) -> Vec<ExtentRef> {
    let object = txn.get(object).expect("there");
    (0..object.extent_count()).map(|i| object.extent_ref(i)).collect()
}

#[test]
fn only_new_segments_are_built() {
    let pool = Pool::create_on(Arc::new(Dram::new(1 << 20).expect("memory"))).expect("a fresh pool");
    let txn = pool.begin().expect("no other writer");
    create_table(&txn, "t", &batch(0..1).schema(), &TableProperties::default()).expect("storable");
    let table = Table::open_in(&txn, "t").expect("there");
    for (name, layout, order) in [
        ("auto", Layout::Packed, Order::Auto),
        ("given", Layout::Published, Order::Given),
    ] {
        let options = IndexOptions {
            layout,
            order,
            ..IndexOptions::default()
        };
        index_table(&txn, &table, name, &[2, 0, 1], &options, &NEVER).expect("columns");
    }
    append(&txn, 0..2000);
    append(&txn, 2000..5000);
    for name in ["auto", "given"] {
        assert!(!TableIndex::open_in(&txn, name).expect("there").is_complete());
        let stats = refresh(&txn, name);
        assert_eq!((stats.built, stats.rows, stats.kept), (2, 5000, 0));
        assert_eq!(
            found(&txn, name),
            [(0, expected(0..2000)), (1, expected(2000..5000))]
        );
        let index = TableIndex::open_in(&txn, name).expect("there");
        assert!(index.is_complete());
        // The first segment decides; of equals the one named first.
        assert_eq!(
            index.columns(),
            if name == "auto" { &[1, 2, 0] } else { &[2, 0, 1] }
        );
        assert_eq!(index.segment(1).expect("indexed").elf().rows(), 3000);
        assert!(index.segment(2).is_none());
    }
    txn.commit().expect("committed");

    // Deleting rows changes nothing, another segment is added, a replaced one goes.
    let txn = pool.begin().expect("no other writer");
    let before = extents(&txn, "index/auto");
    delete_rows(&txn, "t", &BTreeMap::from([(0, (0..100).collect())])).expect("rows");
    assert_eq!(refresh(&txn, "auto").kept, 2);
    assert_eq!(extents(&txn, "index/auto"), before);
    append(&txn, 5000..5100);
    let stats = refresh(&txn, "auto");
    assert_eq!((stats.built, stats.kept, stats.dropped), (1, 2, 0));
    let mut writer = TableWriter::replacing(&txn, "t", &[0], options()).expect("a segment");
    writer.write(&batch(100..2000)).expect("rows of the table");
    writer.finish().expect("finished");
    assert_eq!(found(&txn, "auto").len(), 2);
    let stats = refresh(&txn, "auto");
    assert_eq!((stats.built, stats.kept, stats.dropped), (1, 2, 1));
    let all = [
        (3, expected(100..2000)),
        (1, expected(2000..5000)),
        (2, expected(5000..5100)),
    ];
    assert_eq!(found(&txn, "auto"), all);
    assert_eq!(extents(&txn, "index/auto")[2..4], before[2..4]);
    txn.commit().expect("committed");
    let index = TableIndex::open(&pool.snapshot().expect("open"), "auto").expect("published");
    assert!(index.is_complete() && index.rows() == 5000);
}

#[test]
fn a_build_can_be_cancelled() {
    let pool = Pool::create_on(Arc::new(Dram::new(1 << 20).expect("memory"))).expect("a fresh pool");
    let txn = pool.begin().expect("no other writer");
    create_table(&txn, "t", &batch(0..1).schema(), &TableProperties::default()).expect("storable");
    append(&txn, 0..2000);
    let table = Table::open_in(&txn, "t").expect("there");
    let (options, now) = (IndexOptions::default(), AtomicBool::new(true));
    // By a column with codes, and by one that gets a dictionary first.
    for columns in [[0, 1], [2, 1]] {
        let ended = index_table(&txn, &table, "i", &columns, &options, &now);
        assert!(matches!(ended, Err(ElfError::Cancelled)), "{ended:?}");
        assert!(txn.get("index/i").is_none());
        index_table(&txn, &table, "i", &columns, &options, &NEVER).expect("columns");
        let before = extents(&txn, "index/i");
        append(&txn, 2000..5000);
        let longer = Table::open_in(&txn, "t").expect("there");
        let ended = refresh_index(&txn, &longer, "i", &options, &now);
        assert!(matches!(ended, Err(ElfError::Cancelled)), "{ended:?}");
        assert_eq!(extents(&txn, "index/i"), before);
        let stats = refresh(&txn, "i");
        assert_eq!((stats.kept, stats.rows), (1, longer.rows() - 2000));
        txn.remove("index/i").expect("there");
    }
}

#[test]
fn an_index_follows_its_table_and_no_other() {
    let pool = Pool::create_on(Arc::new(Dram::new(1 << 20).expect("memory"))).expect("a fresh pool");
    let txn = pool.begin().expect("no other writer");
    let mut writer = TableWriter::new(&txn, "t", batch(0..1).schema(), options()).expect("storable");
    writer.write(&batch(0..3000)).expect("rows of the table");
    writer.finish().expect("finished");
    let table = Table::open_in(&txn, "t").expect("there");
    index_table(&txn, &table, "i", &[0, 1], &IndexOptions::default(), &NEVER).expect("columns");
    rename_table(&txn, "t", "u").expect("free");
    assert!(matches!(
        TableIndex::open_in(&txn, "i"),
        Err(ElfError::Columns(_))
    ));
    rename_index_table(&txn, "i", "u").expect("there");
    let index = TableIndex::open_in(&txn, "i").expect("there");
    assert_eq!((index.table(), index.is_complete()), ("u", true));

    create_table(&txn, "t", &batch(0..1).schema(), &TableProperties::default()).expect("free");
    let other = Table::open_in(&txn, "t").expect("there");
    let refused = refresh_index(&txn, &other, "i", &IndexOptions::default(), &NEVER);
    assert!(matches!(refused, Err(ElfError::Stale { .. })), "{refused:?}");
}

#[test]
fn indexes_of_version_1_open_and_follow() {
    let pool = Pool::create_on(Arc::new(Dram::new(1 << 20).expect("memory"))).expect("a fresh pool");
    let txn = pool.begin().expect("no other writer");
    let mut writer = TableWriter::new(&txn, "t", batch(0..1).schema(), options()).expect("storable");
    writer.write(&batch(0..3000)).expect("rows of the table");
    writer.finish().expect("finished");
    let table = Table::open_in(&txn, "t").expect("there");
    let given = IndexOptions {
        order: Order::Given,
        ..IndexOptions::default()
    };
    index_table(&txn, &table, "i", &[2, 0, 1], &given, &NEVER).expect("columns");
    let of_table = extents(&txn, "table/t");
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    for extent in &of_table {
        hash.update(&extent.len.to_le_bytes());
        hash.update(&extent.checksum.to_le_bytes());
    }
    let table = r#"{"v":1,"columns":[{"name":"id","type":"i64","nullable":false},{"name":"kind","type":"i64",
        "nullable":false},{"name":"note","type":"utf8","nullable":false}],"segments":[{"rows":3000,"extents":2}]}"#;
    let index = |hash: u64| {
        format!(
            r#"{{"v":1,"table":"t","columns":[2,0,1],"layout":"packed","table_hash":{hash},"segments":[{{"rows":3000,
            "dictionaries":[{{"dim":0,"has_null":false}}]}}]}}"#
        )
    };
    txn.put("table/t", ObjectKind::TABLE, table.as_bytes(), of_table)
        .expect("known extents");
    let of_index = extents(&txn, "index/i");
    for (hash, name) in [(hash.digest(), "i"), (hash.digest() ^ 1, "stale")] {
        let name = format!("index/{name}");
        txn.put(&name, ObjectKind::INDEX, index(hash).as_bytes(), of_index.clone())
            .expect("known extents");
    }
    let stale = TableIndex::open_in(&txn, "stale");
    assert!(matches!(stale, Err(ElfError::Stale { .. })), "{stale:?}");
    assert_eq!(found(&txn, "i"), [(0, expected(0..3000))]);
    append(&txn, 3000..4000);
    assert_eq!(found(&txn, "i"), [(0, expected(0..3000))]);
    let stats = refresh(&txn, "i");
    assert_eq!((stats.built, stats.kept), (1, 1));
    assert_eq!(
        found(&txn, "i"),
        [(0, expected(0..3000)), (1, expected(3000..4000))]
    );
}
