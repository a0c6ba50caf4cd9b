//! Death at any moment of a change of a table: it is there wholly or not at all, and the table is sound.

use crate::common::{Shape, values};
use crate::model::{Model, read};
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, Field};
use halocline_columns::compact::{MergeOptions, merge};
use halocline_columns::{
    Table, TableOptions, TableProperties, TableWriter, add_column, create_table, delete_rows, rename_column,
    rename_table, truncate,
};
use halocline_explore::{Explorer, Tracked};
use halocline_pool::{Pool, Txn};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The change that the test kills.
const CHANGE: u64 = 1;

fn shape(distinct: u64, nulls: u64, seed: u64) -> Shape {
    Shape {
        distinct,
        nulls,
        seed,
    }
}

fn empty_model() -> Model {
    Model::new(&[
        (DataType::Int32, shape(40, 20, 5)),
        (DataType::Utf8, shape(3000, 0, 9)),
    ])
}

fn options(memory: usize) -> TableOptions {
    let mut options = TableOptions::default();
    // Makes an append write several parts, and spill.
    (options.chunk_rows, options.memory, options.dictionary_limit) = (1024, memory, 20);
    options
}

fn append(txn: &Txn, model: &mut Model, rows: usize, seed: u64) {
    let batch = model.batch(rows, seed);
    let mut writer = TableWriter::append(txn, "t", options(512)).expect("a table");
    writer.write(&batch).expect("rows of the table");
    writer.finish().expect("finished");
    model.append(&batch);
    follow_order(&open(txn), model);
}

/// A clustering decides the order of the rows, which is tested elsewhere.
fn follow_order(table: &Table, model: &mut Model) {
    if table.cluster().is_some() {
        (0..model.columns.len()).for_each(|column| model.columns[column] = read(table, column));
    }
}

/// Two segments, the first with deleted rows.
fn set_up(pool: &Pool, properties: &TableProperties) -> Model {
    let mut model = empty_model();
    let txn = pool.begin().expect("no other writer");
    create_table(&txn, "t", &model.schema(), properties).expect("storable");
    append(&txn, &mut model, 1100, 1);
    delete(&txn, &mut model, 2);
    append(&txn, &mut model, 300, 2);
    txn.commit().expect("committed");
    model
}

fn delete(txn: &Txn, model: &mut Model, seed: u64) {
    let rows = model.delete(&Table::open_in(txn, "t").expect("a table"), 60, seed);
    delete_rows(txn, "t", &rows).expect("rows of the table");
}

/// Kills `change`, which takes a table from one state to another, at every moment and with every flush and
/// fence left out.
fn explore(properties: &TableProperties, to_name: &str, change: impl Fn(&Txn, &mut Model)) {
    // One handle for both: what a pool does when it is first written to after an open is tested there.
    let kept = RefCell::new(None);
    // The rows, and the ids of the segments: a merge does not change the rows.
    let none = || RefCell::new((empty_model(), vec![]));
    let (before, after) = (none(), none());
    let explorer = Explorer {
        limit: 24,
        ..Explorer::default()
    };
    let report = explorer.mutants(
        |medium| {
            let pool = Pool::create_on(Arc::clone(medium)).expect("a fresh pool");
            let model = set_up(&pool, properties);
            let table = Table::open(&pool.snapshot().expect("open"), "t").expect("set up");
            before.replace((model, ids(&table)));
            kept.replace(Some(pool));
        },
        |medium| {
            let pool = kept.take().expect("set up above");
            let mut model = before.borrow().0.clone();
            medium.begin(CHANGE);
            let txn = pool.begin().expect("no other writer");
            change(&txn, &mut model);
            let ids = ids(&Table::open_in(&txn, to_name).expect("changed"));
            txn.commit().expect("committed");
            medium.acknowledge(CHANGE);
            after.replace((model, ids));
        },
        |medium, crash| {
            let acknowledged = crash.acknowledged.contains(&CHANGE);
            match (holds(&medium, to_name, &after.borrow()), acknowledged) {
                (Ok(()), _) => Ok(()),
                (Err(lost), true) => Err(format!("an acknowledged change is gone: {lost}")),
                (Err(not_after), false) => holds(&medium, "t", &before.borrow())
                    .map_err(|not_before| format!("neither after ({not_after}) nor before ({not_before})")),
            }
        },
    );
    let report = report.unwrap_or_else(|violation| panic!("seed {:#x}: {violation}", explorer.seed));
    assert!(report.unchanged.fences >= 2 && report.caught >= 4, "{report}");
    assert!(report.missed.is_empty(), "{report}");
}

/// Checks that the table of a pool, opened after a crash, has these rows and is intact; the error says why
/// not.
fn holds(medium: &Arc<Tracked>, name: &str, (model, segments): &(Model, Vec<u64>)) -> Result<(), String> {
    let pool = Pool::open_on(Arc::clone(medium)).map_err(|error| error.to_string())?;
    let snapshot = pool.snapshot().map_err(|error| error.to_string())?;
    let table = Table::open(&snapshot, name).map_err(|error| error.to_string())?;
    if let Some(error) = table.check().first() {
        return Err(error.to_string());
    }
    if table.schema() != &model.schema() || ids(&table) != *segments {
        return Err(format!("segments {:?} of {}", ids(&table), table.schema()));
    }
    for (column, expected) in model.columns.iter().enumerate() {
        if values(&read(&table, column)) != values(expected) {
            return Err(format!("column {column} has other values"));
        }
    }
    Ok(())
}

fn unclustered() -> TableProperties {
    TableProperties::default()
}

#[test]
fn appends() {
    explore(&unclustered(), "t", |txn, model| append(txn, model, 1500, 3));
}

#[test]
fn deletions() {
    explore(&unclustered(), "t", |txn, model| delete(txn, model, 4));
}

#[test]
fn the_last_rows_of_a_segment() {
    explore(&unclustered(), "t", |txn, model| {
        let second = open(txn).segments()[1].clone();
        let rows = (0..second.rows() as u32).collect();
        delete_rows(txn, "t", &BTreeMap::from([(second.id(), rows)])).expect("rows of the table");
        let first = model.rows() - second.rows();
        model
            .columns
            .iter_mut()
            .for_each(|column| *column = column.slice(0, first));
    });
}

#[test]
fn new_columns() {
    explore(&unclustered(), "t", |txn, model| {
        let value: ArrayRef = Arc::new(StringArray::from(vec!["the same"]));
        let field = Field::new("new", DataType::Utf8, false);
        add_column(txn, "t", &field, Some(&value)).expect("a new column");
        model.add_column(field, shape(1, 0, 1), &value);
    });
}

#[test]
fn merges() {
    explore(&unclustered(), "t", |txn, _| merge_all(txn));
}

#[test]
fn merges_that_sort() {
    let cluster = TableProperties {
        cluster: Some(vec!["c0".into()]),
        ..TableProperties::default()
    };
    explore(&cluster, "t", |txn, model| {
        merge_all(txn);
        follow_order(&open(txn), model);
    });
}

#[test]
fn truncations() {
    explore(&unclustered(), "t", |txn, model| {
        truncate(txn, "t").expect("a table");
        model.truncate();
    });
}

#[test]
fn other_names() {
    explore(&unclustered(), "u", |txn, model| {
        rename_column(txn, "t", "c1", "text").expect("a column");
        rename_table(txn, "t", "u").expect("a table");
        model.fields[1] = model.fields[1].clone().with_name("text");
    });
}

#[test]
fn several_changes_at_once() {
    explore(&unclustered(), "t", |txn, model| {
        append(txn, model, 500, 5);
        delete(txn, model, 6);
        rename_column(txn, "t", "c1", "text").expect("a column");
        model.fields[1] = model.fields[1].clone().with_name("text");
    });
}

fn open(txn: &Txn) -> Table {
    Table::open_in(txn, "t").expect("there")
}

fn ids(table: &Table) -> Vec<u64> {
    table.segments().iter().map(|segment| segment.id()).collect()
}

fn merge_all(txn: &Txn) {
    let ids = ids(&open(txn));
    let mut options = MergeOptions::default();
    (options.chunk_rows, options.memory) = (1024, 4096);
    let stats = merge(txn, "t", &ids, &options).expect("segments of the table");
    assert_eq!((stats.merged, stats.ids.end - stats.ids.start), (ids.len(), 1));
}
