//! Volatile indexes: nothing stored but the definition, trees in DRAM that are built from the table and
//! counted.

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use halocline_cache::{DramBudget, Placement};
use halocline_columns::{
    CodePredicate, CodeSpace, Table, TableOptions, TableProperties, TableWriter, create_table,
};
use halocline_elf::{
    ElfError, IndexOptions, KeptTrees, Layout, Order, PlaceOptions, TableIndex, VolatileTrees, define_index,
    index_table, place_index, refresh_index,
};
use halocline_media::Dram;
use halocline_pool::{Pool, Txn};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

fn batch(rows: Range<i64>) -> RecordBatch {
    let numbers =
        |of: fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(rows.clone().map(of))) };
    // Too many strings for the table to have a dictionary.
    let text = |i| (i % 11 > 0).then(|| format!("string number {}", i * 7919 % 100_003));
    let texts: ArrayRef = Arc::new(StringArray::from_iter(rows.clone().map(text)));
    let columns = [
        ("b", numbers(|i| i * 7919 % 4001)),
        ("s", texts),
        ("a", numbers(|i| i % 50)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("columns of one length")
}

fn pool() -> Pool {
    Pool::create_on(Arc::new(Dram::new(1 << 20).expect("memory"))).expect("a fresh pool")
}

fn append(txn: &Txn, rows: Range<i64>) -> Table {
    let mut writer = TableWriter::append(txn, "t", TableOptions::default()).expect("a table");
    writer.write(&batch(rows)).expect("rows of the table");
    writer.finish().expect("finished");
    Table::open_in(txn, "t").expect("there")
}

/// A table of one segment with a volatile index `i` and a stored index `j` on all of its columns.
fn create(txn: &Txn, layout: Layout) -> Table {
    create_table(txn, "t", &batch(0..1).schema(), &TableProperties::default()).expect("storable");
    let table = append(txn, 0..20_000);
    define_index(txn, &table, "i", &[0, 1, 2], layout, Order::Auto).expect("columns");
    let options = IndexOptions {
        layout,
        ..IndexOptions::default()
    };
    index_table(txn, &table, "j", &[0, 1, 2], &options, &NEVER).expect("columns");
    table
}

fn open(txn: &Txn, name: &str) -> TableIndex {
    TableIndex::open_in(txn, name).expect("there")
}

fn refresh(txn: &Txn, table: &Table) {
    for name in ["i", "j"] {
        refresh_index(txn, table, name, &IndexOptions::default(), &NEVER).expect("its table");
    }
}

fn build(kept: &mut KeptTrees, txn: &Txn, table: &Table, budget: &DramBudget) -> VolatileTrees {
    let begin = || Ok(pool().begin()?);
    kept.build(
        &open(txn, "i"),
        table,
        budget,
        &IndexOptions::default(),
        begin,
        &NEVER,
    )
    .expect("built, or no room")
}

fn whole(trees: VolatileTrees) -> TableIndex {
    match trees {
        VolatileTrees::Whole(index) => index,
        other => panic!("{other:?}"),
    }
}

/// The rows that a selection finds in each segment.
fn found(index: &TableIndex) -> Vec<Vec<u32>> {
    let segments = index.segments().iter();
    let of_segment = segments.map(|segment| {
        let predicates: Vec<_> = segment
            .spaces()
            .iter()
            .map(|space| {
                let max = space.max_code();
                CodePredicate::range(max / 9, max - max / 7)
            })
            .collect();
        let selection = segment.elf().select(&predicates).expect("sound");
        let mut tids = selection.tids().expect("sound");
        tids.sort_unstable();
        tids
    });
    of_segment.collect()
}

#[test]
fn trees_are_those_that_would_be_stored() {
    for layout in [Layout::Packed, Layout::Published] {
        let pool = pool();
        let txn = pool.begin().expect("no other writer");
        let mut table = create(&txn, layout);
        let definition = open(&txn, "i");
        assert!(definition.is_volatile() && !definition.is_complete());
        assert_eq!((definition.stored_bytes(), definition.rows()), (0, 20_000));
        assert!(definition.bytes_about(&table) > 100_000);
        let (mut kept, budget) = (KeptTrees::default(), DramBudget::new(u64::MAX));
        let mut last = 0;
        for part in 0..4 {
            let index = whole(build(&mut kept, &txn, &table, &budget));
            let stored = open(&txn, "j");
            assert!(index.is_complete() && index.check().is_ok());
            assert_eq!(index.columns(), stored.columns());
            assert_eq!(index.rows(), table.rows());
            for (ours, other) in index.segments().iter().zip(stored.segments()) {
                let (ours, other) = (ours.elf().bytes(), other.elf().bytes());
                assert!(ours[..] == other[..], "segment bytes differ");
            }
            assert_eq!(found(&index), found(&stored));
            assert!(found(&index).iter().any(|rows| rows.len() > 1000));
            let dictionaries = index.segments()[0].spaces().iter();
            assert_eq!(dictionaries.filter_map(CodeSpace::dictionary).count(), 1);
            // What is counted is what is there.
            let placed = index.placed();
            assert_eq!(
                (placed.placement, placed.dram_bytes),
                (Placement::Volatile, budget.used())
            );
            assert_eq!(kept.bytes(), budget.used());
            let least: u64 = index.segments().iter().map(|s| s.elf().size()).sum();
            assert!(budget.used() >= least && budget.used() > last);
            last = budget.used();
            // What is there already is taken up as it is.
            assert!(kept.attach(&open(&txn, "i"), &table).is_some());
            table = append(&txn, 20_000 + part * 3000..23_000 + part * 3000);
            refresh(&txn, &table);
            assert!(kept.attach(&open(&txn, "i"), &table).is_none());
            assert_eq!(txn.get("index/i").expect("there").extent_count(), 0);
        }
        drop(kept);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn there_is_all_of_it_or_nothing() {
    let pool = pool();
    let txn = pool.begin().expect("no other writer");
    let mut table = create(&txn, Layout::Packed);
    let (mut kept, free) = (KeptTrees::default(), DramBudget::new(u64::MAX));
    let one = whole(build(&mut kept, &txn, &table, &free)).placed().dram_bytes;
    kept.let_go();
    assert_eq!((kept.bytes(), free.used()), (0, 0));
    table = append(&txn, 20_000..30_000);
    // The first one has room, the second has not, and both are gone.
    let budget = DramBudget::new(one);
    let VolatileTrees::NoRoom { needed, room } = build(&mut kept, &txn, &table, &budget) else {
        panic!("more than there is")
    };
    assert!(needed > one && room == one, "{needed} {room}");
    assert_eq!((kept.bytes(), budget.used()), (0, 0));
    // One page less than it needs is too little, and found so without building anything: nothing is spilled.
    budget.set_limit(needed - 1);
    let begin = || -> halocline_elf::Result<Txn> { panic!("nothing is to be built") };
    let refused = kept.build(
        &open(&txn, "i"),
        &table,
        &budget,
        &IndexOptions::default(),
        begin,
        &NEVER,
    );
    assert!(matches!(refused, Ok(VolatileTrees::NoRoom { needed: again, .. }) if again == needed));
    budget.set_limit(needed);
    let index = whole(build(&mut kept, &txn, &table, &budget));
    assert_eq!((index.placed().dram_bytes, budget.used()), (needed, needed));
    // Readers keep what they read, and it counts.
    kept.let_go();
    assert_eq!((kept.bytes(), budget.used()), (0, needed));
    assert!(index.check().is_ok());
    drop(index);
    assert_eq!(budget.used(), 0);

    // Its own limit is one, too.
    let dram = Some(one / 2);
    let options = PlaceOptions::default()
        .with_placement(Placement::Volatile)
        .with_dram(dram);
    place_index(&txn, "i", &options).expect("there");
    let refused = build(&mut KeptTrees::default(), &txn, &table, &free);
    // Also what is there already does not stay then.
    let mut kept = KeptTrees::default();
    let unlimited = PlaceOptions::default().with_placement(Placement::Volatile);
    place_index(&txn, "i", &unlimited).expect("there");
    whole(build(&mut kept, &txn, &table, &free));
    place_index(&txn, "i", &options).expect("there");
    assert!(matches!(
        build(&mut kept, &txn, &table, &free),
        VolatileTrees::NoRoom { .. }
    ));
    assert!(
        matches!(refused, VolatileTrees::NoRoom { needed, room } if needed == one && Some(room) == dram),
        "{refused:?}"
    );
    assert_eq!(free.used(), 0);
}

#[test]
fn a_build_can_be_ended() {
    let pool = pool();
    let txn = pool.begin().expect("no other writer");
    let table = create(&txn, Layout::Packed);
    let (mut kept, budget) = (KeptTrees::default(), DramBudget::new(u64::MAX));
    let begin = || Ok(self::pool().begin()?);
    let now = AtomicBool::new(true);
    let ended = kept.build(
        &open(&txn, "i"),
        &table,
        &budget,
        &IndexOptions::default(),
        begin,
        &now,
    );
    assert!(matches!(ended, Err(ElfError::Cancelled)), "{ended:?}");
    assert_eq!(budget.used(), 0);
    let stored = kept.build(
        &open(&txn, "j"),
        &table,
        &budget,
        &IndexOptions::default(),
        begin,
        &NEVER,
    );
    assert!(matches!(stored, Err(ElfError::Placement { .. })), "{stored:?}");
    drop(kept);
    assert!(matches!(
        define_index(&txn, &table, "k", &[0, 0], Layout::Packed, Order::Auto),
        Err(ElfError::NotIndexable { .. })
    ));
}

#[test]
fn trees_are_stored_again_when_the_placement_says_so() {
    let pool = pool();
    let txn = pool.begin().expect("no other writer");
    let table = create(&txn, Layout::Packed);
    let expected = found(&open(&txn, "j"));
    let place = |placement| {
        let options = PlaceOptions::default().with_placement(placement);
        place_index(&txn, "j", &options).expect("there");
    };
    place(Placement::Volatile);
    assert_eq!(txn.get("index/j").expect("there").bytes(), 0);
    place(Placement::Hybrid);
    assert!(!open(&txn, "j").is_complete());
    refresh(&txn, &table);
    let stored = open(&txn, "j");
    assert!(stored.is_complete() && !stored.is_volatile() && stored.check().is_ok());
    assert_eq!(found(&stored), expected);
    // Trees of another definition under the same name are not taken up.
    let (mut kept, budget) = (KeptTrees::default(), DramBudget::new(u64::MAX));
    whole(build(&mut kept, &txn, &table, &budget));
    txn.remove("index/i").expect("there");
    define_index(&txn, &table, "i", &[2], Layout::Packed, Order::Auto).expect("columns");
    assert!(kept.attach(&open(&txn, "i"), &table).is_none());
    let other = whole(build(&mut kept, &txn, &table, &budget));
    assert_eq!(other.columns(), [2]);
    assert_eq!(budget.used(), other.placed().dram_bytes);
}
