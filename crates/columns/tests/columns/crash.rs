//! A table replaced by an import, and death at any moment of it.

use crate::common::assert_same;
use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use halocline_columns::{Table, TableOptions, TableWriter};
use halocline_explore::{Explorer, Tracked};
use halocline_pool::Pool;
use std::cell::RefCell;
use std::sync::Arc;

/// The import that the test kills.
const IMPORT: u64 = 1;

fn batch(rows: i32, seed: i32) -> RecordBatch {
    let number = Int32Array::from_iter((0..rows).map(|i| (i % 7 != 3).then_some((i * seed) % 4)));
    let kind =
        StringArray::from_iter_values((0..rows).map(|i| ["air", "rail", "ship"][(i * seed % 3) as usize]));
    // Distinct strings, and so few rows with one that they stay raw.
    let text = StringArray::from_iter((0..rows).map(|i| (i % 60 == 0).then(|| format!("{seed} {i}"))));
    let columns: [(&str, ArrayRef); 3] = [
        ("number", Arc::new(number)),
        ("kind", Arc::new(kind)),
        ("text", Arc::new(text)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn import(pool: &Pool, batch: &RecordBatch) {
    let txn = pool.begin().expect("no other writer");
    let mut options = TableOptions::default();
    options.chunk_rows = 1024;
    // Makes the import write a part, spill ids and give up a dictionary on its way.
    options.memory = 512;
    options.dictionary_limit = 20;
    let mut writer = TableWriter::new(&txn, "t", batch.schema(), options).expect("storable");
    (0..batch.num_rows()).step_by(700).for_each(|row| {
        writer
            .write(&batch.slice(row, 700.min(batch.num_rows() - row)))
            .expect("written");
    });
    let stats = writer.finish().expect("finished");
    assert!(stats.extents >= 3, "{stats:?}");
    txn.commit().expect("committed");
}

/// Which of the two tables a crash left, or why it is neither.
fn found(medium: Arc<Tracked>, old: &RecordBatch, new: &RecordBatch) -> Result<bool, String> {
    let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
    let table =
        Table::open(&pool.snapshot().map_err(|error| error.to_string())?, "t").map_err(|e| e.to_string())?;
    if let Some(error) = table.check().first() {
        return Err(error.to_string());
    }
    let is_new = table.rows() == new.num_rows() as u64;
    let expected = if is_new { new } else { old };
    let segment = &table.segments()[0];
    for (i, column) in expected.columns().iter().enumerate() {
        assert_same(
            &segment
                .column(i)
                .scan(0..segment.rows())
                .map_err(|e| e.to_string())?,
            column,
        );
    }
    Ok(is_new)
}

#[test]
fn an_import_is_there_wholly_or_not_at_all() {
    let (old, new) = (batch(1100, 5), batch(2200, 11));
    // One handle for both: what a pool does when it is first written to after an open is tested there.
    let kept = RefCell::new(None);
    let explorer = Explorer {
        limit: 24,
        ..Explorer::default()
    };
    let report = explorer
        .mutants(
            |medium| {
                let pool = Pool::create_on(Arc::clone(medium)).expect("a fresh pool");
                import(&pool, &old);
                kept.replace(Some(pool));
            },
            |medium| {
                let pool = kept.take().expect("set up above");
                medium.begin(IMPORT);
                import(&pool, &new);
                medium.acknowledge(IMPORT);
            },
            |medium, crash| match found(medium, &old, &new)? {
                false if crash.acknowledged.contains(&IMPORT) => {
                    Err("an acknowledged import is gone".to_owned())
                }
                _ => Ok(()),
            },
        )
        .unwrap_or_else(|violation| panic!("seed {:#x}: {violation}", explorer.seed));
    assert!(report.unchanged.fences >= 2 && report.caught >= 4, "{report}");
    assert!(report.missed.is_empty(), "{report}");
}
