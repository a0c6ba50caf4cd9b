//! Copies in DRAM that outlive a version of an index: reuse, shares, one budget, and the choice that is kept
//! with the index.

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use halocline_cache::{DramBudget, Links, Placement, PolicyKind, StaticLists};
use halocline_columns::{
    CodePredicate, Table, TableOptions, TableProperties, TableWriter, create_table, rename_table,
};
use halocline_elf::{
    ElfError, IndexOptions, KeptCopies, Layout, PlaceOptions, TableIndex, index_table, place_index,
    refresh_index, rename_index_table,
};
use halocline_media::Dram;
use halocline_pool::{Pool, Txn};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);
const PROBABLE: Placement = Placement::Static(StaticLists::Probable);

fn batch(rows: Range<i64>) -> RecordBatch {
    let column =
        |of: fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(rows.clone().map(of))) };
    let columns = [("a", column(|i| i % 50)), ("b", column(|i| i * 7919 % 4001))];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn append(txn: &Txn, rows: Range<i64>) {
    let mut writer = TableWriter::append(txn, "t", TableOptions::default()).expect("a table");
    writer.write(&batch(rows)).expect("rows of the table");
    writer.finish().expect("finished");
}

fn refresh(txn: &Txn) -> TableIndex {
    let table = Table::open_in(txn, "t").expect("there");
    refresh_index(txn, &table, "i", &IndexOptions::default(), &NEVER).expect("its table");
    TableIndex::open_in(txn, "i").expect("there")
}

fn pool() -> Pool {
    Pool::create_on(Arc::new(Dram::new(1 << 20).expect("memory"))).expect("a fresh pool")
}

/// An index of one segment.
fn create(txn: &Txn, layout: Layout) -> TableIndex {
    create_table(txn, "t", &batch(0..1).schema(), &TableProperties::default()).expect("storable");
    append(txn, 0..20_000);
    let table = Table::open_in(txn, "t").expect("there");
    let options = IndexOptions {
        layout,
        ..IndexOptions::default()
    };
    index_table(txn, &table, "i", &[0, 1], &options, &NEVER).expect("columns");
    TableIndex::open_in(txn, "i").expect("there")
}

fn wanted(placement: Placement, dram: Option<u64>) -> PlaceOptions {
    PlaceOptions::default().with_placement(placement).with_dram(dram)
}

fn rows(index: &TableIndex) -> u64 {
    let predicates = [
        CodePredicate::Range { lo: 3, hi: 20 },
        CodePredicate::Range { lo: 100, hi: 2000 },
    ];
    let count = |elf: &halocline_elf::Elf<_>| elf.select(&predicates)?.count();
    let counts = index
        .segments()
        .iter()
        .map(|segment| count(segment.elf()).expect("sound"));
    counts.sum()
}

fn bytes(index: &TableIndex) -> Vec<u64> {
    let segments = index.segments().iter();
    segments
        .map(|segment| segment.elf().placed().dram_bytes)
        .collect()
}

#[test]
fn copies_are_used_again_where_bytes_are_the_same() {
    for layout in [Layout::Packed, Layout::Published] {
        let pool = pool();
        let txn = pool.begin().expect("no other writer");
        let first = create(&txn, layout);
        let (mut kept, budget) = (KeptCopies::default(), DramBudget::new(u64::MAX));
        let options = wanted(Placement::Hybrid, None);
        let placed = kept.place(&first, &options, &budget).expect("room");
        let one = bytes(&placed)[0];
        assert!(one > 0 && budget.used() == one);
        append(&txn, 20_000..23_000);
        let second = refresh(&txn);
        let attached = kept.attach(&second);
        assert_eq!(bytes(&attached), [one, 0]);
        let used = budget.used();
        let placed_again = kept.place(&second, &options, &budget).expect("room");
        assert!(bytes(&placed_again)[1] > 0);
        // The first segment's copy is there once, whoever reads it.
        assert_eq!(budget.used(), used + bytes(&placed_again)[1]);
        assert_eq!(rows(&placed_again), rows(&second));
        assert_eq!(rows(&attached), rows(&second));
        // Other options: the copies are made anew, and the old ones count until their readers are gone.
        let levels = wanted(Placement::Static(StaticLists::Levels(1)), Some(1 << 20));
        let upper = kept.place(&second, &levels, &budget).expect("room");
        assert_eq!(rows(&upper), rows(&second));
        assert!(budget.used() > upper.placed().dram_bytes);
        drop((placed, placed_again, attached));
        assert_eq!(budget.used(), upper.placed().dram_bytes);
        drop((upper, kept));
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn neither_share_nor_budget_is_passed() {
    let pool = pool();
    let txn = pool.begin().expect("no other writer");
    let mut index = create(&txn, Layout::Packed);
    let dram = 64 << 10;
    let (mut kept, budget) = (KeptCopies::default(), DramBudget::new(u64::MAX));
    for part in 0..6 {
        let placed = kept
            .place(&index, &wanted(PROBABLE, Some(dram)), &budget)
            .expect("room");
        let total: u64 = bytes(&placed).iter().sum();
        assert!(total <= dram && total > 0, "{part}: {:?}", bytes(&placed));
        assert_eq!(budget.used(), total);
        assert_eq!(rows(&placed), rows(&index));
        append(&txn, 20_000 + part * 5000..25_000 + part * 5000);
        index = refresh(&txn);
    }
    drop(kept);

    let (mut kept, small) = (KeptCopies::default(), DramBudget::new(20 << 10));
    let other = small.reserve(8 << 10).expect("room");
    let options = wanted(PROBABLE, Some(1 << 20));
    let short = kept.place(&index, &options, &small).expect("a stated fallback");
    assert!(kept.is_short() && small.used() <= 20 << 10);
    let why = short.placed().fallback.expect("it is said");
    assert!(why.contains("halocline.dram_budget leaves"), "{why}");
    assert_eq!(rows(&short), rows(&index));
    drop((short, other));
    small.set_limit(u64::MAX);
    let placed = kept.place(&index, &options, &small).expect("room");
    assert_eq!((kept.is_short(), placed.placed().fallback), (false, None));
}

#[test]
fn the_choice_is_kept_with_the_index() {
    let pool = pool();
    let txn = pool.begin().expect("no other writer");
    let index = create(&txn, Layout::Packed);
    assert_eq!(index.wanted(), Ok(PlaceOptions::default()));
    let choice = wanted(PROBABLE, Some(12345));
    place_index(&txn, "i", &choice).expect("such a placement");
    append(&txn, 20_000..21_000);
    assert_eq!(refresh(&txn).wanted(), Ok(choice));
    rename_table(&txn, "t", "u").expect("free");
    rename_index_table(&txn, "i", "u").expect("there");
    txn.commit().expect("committed");
    let snapshot = pool.snapshot().expect("open");
    let index = TableIndex::open(&snapshot, "i").expect("there");
    assert_eq!(index.wanted(), Ok(choice));
    assert_eq!(index.placed().dram_bytes, 0);

    let txn = pool.begin().expect("no other writer");
    let hashed = Placement::Dynamic(PolicyKind::Lru, Links::Hashed);
    let Err(error @ ElfError::Placement { .. }) = place_index(&txn, "i", &wanted(hashed, None)) else {
        panic!("layout packed has no hash table of lists")
    };
    assert!(error.to_string().contains("layout published"), "{error}");
    assert!(matches!(
        place_index(&txn, "j", &choice),
        Err(ElfError::NoSuchIndex { .. })
    ));
    // One that a newer program has stored.
    let object = txn.get("index/i").expect("there");
    let meta = String::from_utf8_lossy(object.meta()).replace("\"static\"", "\"orbital\"");
    let extents = (0..object.extent_count()).map(|i| object.extent_ref(i)).collect();
    txn.put("index/i", object.kind(), meta.as_bytes(), extents)
        .expect("room");
    let index = TableIndex::open_in(&txn, "i").expect("usable all the same");
    assert!(
        index
            .wanted()
            .is_err_and(|error| error.to_string().contains("orbital"))
    );
}
