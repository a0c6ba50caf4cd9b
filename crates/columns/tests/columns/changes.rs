//! Random sequences of changes, each after each beside a plain list of rows.

use crate::common::{Shape, random_array, types};
use crate::model::Model;
use arrow_schema::{DataType, Field};
use halocline_columns::compact::{CompactionPolicy, MergeOptions, merge, plan};
use halocline_columns::{
    Table, TableOptions, TableProperties, TableWriter, add_column, create_table, delete_rows, rename_column,
    truncate,
};
use halocline_media::Dram;
use halocline_pool::{Pool, Txn};
use proptest::prelude::*;
use std::sync::Arc;

/// One change of a table.
#[derive(Debug, Clone)]
enum Change {
    Append {
        rows: usize,
        seed: u64,
    },
    /// About `share` of 256 rows.
    Delete {
        share: u64,
        seed: u64,
    },
    AddColumn {
        data_type: DataType,
        shape: Shape,
        default: bool,
    },
    RenameColumn {
        seed: u64,
    },
    Truncate,
    /// Merges what a policy with few rows finds worth it, or everything.
    Compact {
        everything: bool,
    },
    /// Commits, and closes and opens the pool.
    Reopen,
    /// Drops the transaction with all changes since the last reopening.
    RollBack,
}

fn shape() -> impl Strategy<Value = Shape> {
    let distinct = prop_oneof![Just(0), Just(1), Just(40), Just(3000)];
    (distinct, prop_oneof![2 => Just(0), 1 => Just(30)], any::<u64>()).prop_map(|(distinct, nulls, seed)| {
        Shape {
            distinct,
            nulls,
            seed,
        }
    })
}

fn change() -> impl Strategy<Value = Change> {
    let share = prop_oneof![Just(0u64), Just(2), Just(60), Just(200), Just(256)];
    let column = (proptest::sample::select(types()), shape(), any::<bool>());
    prop_oneof![
        6 => (1usize..3000, any::<u64>()).prop_map(|(rows, seed)| Change::Append { rows, seed }),
        6 => (share, any::<u64>()).prop_map(|(share, seed)| Change::Delete { share, seed }),
        3 => column.prop_map(|(data_type, shape, default)| Change::AddColumn { data_type, shape, default }),
        1 => any::<u64>().prop_map(|seed| Change::RenameColumn { seed }),
        1 => Just(Change::Truncate),
        2 => any::<bool>().prop_map(|everything| Change::Compact { everything }),
        3 => Just(Change::Reopen),
        1 => Just(Change::RollBack),
    ]
}

fn options(segment_rows: u64) -> TableOptions {
    let mut options = TableOptions::default();
    (options.chunk_rows, options.segment_rows, options.dictionary_limit) = (1024, segment_rows, 100);
    options
}

fn apply(txn: &Txn, model: &mut Model, change: &Change, segment_rows: u64) {
    match change {
        Change::Append { rows, seed } => {
            let batch = model.batch(*rows, *seed);
            let mut writer = TableWriter::append(txn, "t", options(segment_rows)).expect("a table");
            writer
                .write(&batch.slice(0, rows / 3))
                .expect("rows of the table");
            writer
                .write(&batch.slice(rows / 3, rows - rows / 3))
                .expect("rows of the table");
            let stats = writer.finish().expect("finished");
            assert_eq!(stats.rows, *rows as u64);
            assert_eq!(stats.ids.end - stats.ids.start, stats.segments as u64);
            model.append(&batch);
        }
        Change::Delete { share, seed } => {
            let before = model.rows();
            let deleted = model.delete(&Table::open_in(txn, "t").expect("a table"), *share, *seed);
            let newly = delete_rows(txn, "t", &deleted).expect("rows of the table");
            assert_eq!(newly, (before - model.rows()) as u64);
        }
        Change::AddColumn {
            data_type,
            shape,
            default,
        } => {
            let field = Field::new(format!("n{}", model.fields.len()), data_type.clone(), !default);
            let value = default.then(|| random_array(data_type, 1, Shape { nulls: 0, ..*shape }));
            add_column(txn, "t", &field, value.as_ref()).expect("a new column");
            let value = value.unwrap_or_else(|| arrow_array::new_null_array(data_type, 1));
            let nulls = if *default { 0 } else { shape.nulls };
            model.add_column(field, Shape { nulls, ..*shape }, &value);
        }
        Change::RenameColumn { seed } => {
            let column = *seed as usize % model.fields.len();
            let (from, to) = (model.fields[column].name().clone(), format!("r{seed}"));
            if from != to {
                rename_column(txn, "t", &from, &to).expect("a column");
                model.fields[column] = model.fields[column].clone().with_name(to);
            }
        }
        Change::Truncate => {
            truncate(txn, "t").expect("a table");
            model.truncate();
        }
        Change::Compact { everything } => {
            let policy = if *everything {
                CompactionPolicy::everything()
            } else {
                CompactionPolicy {
                    small_rows: 500,
                    fanout: 2,
                    ..CompactionPolicy::default()
                }
            };
            let mut options = MergeOptions::default();
            (options.chunk_rows, options.memory, options.segment_rows) = (1024, 1 << 16, segment_rows);
            for group in plan(&Table::open_in(txn, "t").expect("a table"), &policy) {
                let stats = merge(txn, "t", &group, &options).expect("segments of the plan");
                assert_eq!(stats.merged, group.len());
            }
            if *everything && segment_rows > 3000 * 14 {
                let table = Table::open_in(txn, "t").expect("a table");
                assert!(table.segments().len() <= 1 && table.rows() == table.live_rows());
            }
        }
        Change::Reopen | Change::RollBack => unreachable!("not a change within a transaction"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changes_are_those_of_a_list_of_rows(
        columns in proptest::collection::vec((proptest::sample::select(types()), shape()), 1..4),
        changes in proptest::collection::vec(change(), 1..14),
        segment_rows in prop_oneof![Just(1u64 << 31), Just(1300)],
    ) {
        let medium = Arc::new(Dram::new(1 << 20).expect("memory"));
        let mut pool = Pool::create_on(Arc::clone(&medium)).expect("a fresh pool");
        let mut txn = pool.begin().expect("no other writer");
        let mut model = Model::new(&columns);
        create_table(&txn, "t", &model.schema(), &TableProperties::default()).expect("storable");
        let uid = Table::open_in(&txn, "t").expect("created").uid();
        txn.commit().expect("committed");
        txn = pool.begin().expect("no other writer");
        let mut kept = model.clone();
        for change in changes {
            match change {
                Change::Reopen => {
                    txn.commit().expect("committed");
                    kept = model.clone();
                    let before = Table::open(&pool.snapshot().expect("open"), "t").expect("committed");
                    pool = Pool::open_on(Arc::clone(&medium)).expect("closed and opened");
                    kept.assert_is(&before);
                    txn = pool.begin().expect("no other writer");
                }
                Change::RollBack => {
                    drop(txn);
                    model = kept.clone();
                    txn = pool.begin().expect("no other writer");
                }
                change => apply(&txn, &mut model, &change, segment_rows),
            }
            let table = Table::open_in(&txn, "t").expect("there");
            prop_assert_eq!(table.uid(), uid);
            model.assert_is(&table);
        }
    }
}
