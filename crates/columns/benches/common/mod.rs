//! Shared parts of the benchmarks of tables: their scale factor, and tables to read.

use arrow_array::RecordBatch;
use halocline_columns::{Table, TableOptions, TableStats, TableWriter};
use halocline_pool::{Pool, PoolOptions};
use tempfile::TempDir;

/// Returns the scale factor of `HALOCLINE_BENCH_SCALE`: by default 0.1, and 0.002 under `cargo test`, which
/// runs every benchmark once without the argument `--bench`.
pub(crate) fn scale() -> f64 {
    let measured = std::env::args().any(|argument| argument == "--bench");
    std::env::var("HALOCLINE_BENCH_SCALE").map_or_else(
        |_| if measured { 0.1 } else { 0.002 },
        |scale| scale.parse().expect("a scale factor"),
    )
}

/// Creates a pool in a folder of its own, in that of `HALOCLINE_BENCH_FOLDER` or the one for temporary files.
/// The files live as long as the guard.
pub(crate) fn create_pool() -> (TempDir, Pool) {
    let folder = std::env::var_os("HALOCLINE_BENCH_FOLDER").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(folder).expect("a folder that can be written");
    let pool = Pool::create(folder.path().join("bench.pool"), &PoolOptions::default()).expect("a pool");
    (folder, pool)
}

/// Publishes a table of the batches.
pub(crate) fn import(pool: &Pool, name: &str, batches: &[RecordBatch]) -> TableStats {
    let txn = pool.begin().expect("a transaction");
    let mut writer =
        TableWriter::new(&txn, name, batches[0].schema(), TableOptions::default()).expect("a table");
    for batch in batches {
        writer.write(batch).expect("a batch that fits");
    }
    let stats = writer.finish().expect("an import");
    txn.commit().expect("a commit");
    stats
}

/// Imports the batches and opens their table. The file is removed: the table keeps it mapped.
pub(crate) fn imported_table(name: &str, batches: &[RecordBatch]) -> Table {
    let (_folder, pool) = create_pool();
    import(&pool, name, batches);
    Table::open(&pool.snapshot().expect("a snapshot"), name).expect("the table")
}
