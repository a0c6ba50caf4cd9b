//! Small changes per second: appends of 100 bytes to a log, each in a transaction of its own, and publishes
//! of small objects.
//!
//! `cargo bench -p halocline-pool --bench publish_rates`. The pools are created in the folder of
//! `HALOCLINE_BENCH_FOLDER`, by default the one for temporary files.

use divan::Bencher;
use divan::counter::ItemsCount;
use halocline_pool::{ObjectKind, Pool, PoolError, PoolOptions};
use tempfile::TempDir;

fn main() {
    divan::main();
}

/// How a pool makes its changes durable.
#[derive(Debug, Clone, Copy)]
enum DurabilityMode {
    PageCache,
    Strict,
    AssumeDax,
}

use DurabilityMode::{AssumeDax, PageCache, Strict};

/// Creates a pool with a log; the folder lives as long as the guard.
fn create(mode: DurabilityMode) -> (TempDir, Pool) {
    let folder = std::env::var_os("HALOCLINE_BENCH_FOLDER").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(folder).expect("a folder that can be written");
    let options = PoolOptions::default()
        .with_strict(matches!(mode, Strict))
        .with_assume_dax(matches!(mode, AssumeDax));
    let pool = Pool::create(folder.path().join("publish_rates.pool"), &options).expect("a pool");
    put_log(&pool).expect("a log");
    (folder, pool)
}

/// Publishes an empty log.
fn put_log(pool: &Pool) -> Result<(), PoolError> {
    let txn = pool.begin()?;
    txn.put_log("log", 1 << 20)?;
    txn.commit().map(drop)
}

/// Measures a change of the pool.
fn measure(bencher: Bencher<'_, '_>, mode: DurabilityMode, change: fn(&Pool) -> Result<(), PoolError>) {
    let (_folder, pool) = create(mode);
    bencher
        .counter(ItemsCount::new(1_usize))
        .bench_local(|| change(&pool).expect("a change"));
}

#[divan::bench(args = [PageCache, Strict, AssumeDax], min_time = 1)]
fn append_100_bytes(bencher: Bencher<'_, '_>, mode: DurabilityMode) {
    measure(bencher, mode, |pool| {
        let appended = pool.begin()?.log_append("log", &[7; 100]);
        match appended {
            Err(PoolError::LogFull { .. }) => put_log(pool),
            other => other.map(drop),
        }
    });
}

#[divan::bench(args = [PageCache, Strict, AssumeDax], min_time = 1)]
fn begin_and_drop(bencher: Bencher<'_, '_>, mode: DurabilityMode) {
    measure(bencher, mode, |pool| pool.begin().map(drop));
}

#[divan::bench(args = [PageCache, Strict, AssumeDax], min_time = 1)]
fn put_1000_bytes(bencher: Bencher<'_, '_>, mode: DurabilityMode) {
    measure(bencher, mode, |pool| {
        let txn = pool.begin()?;
        let mut writer = txn.alloc(1000)?;
        writer.append(&[7; 1000]);
        let extent = writer.finish(1000)?;
        txn.put("object", ObjectKind::TABLE, b"", vec![extent])?;
        txn.commit().map(drop)
    });
}

#[divan::bench(args = [PageCache, Strict, AssumeDax], min_time = 1)]
fn put_without_extents(bencher: Bencher<'_, '_>, mode: DurabilityMode) {
    measure(bencher, mode, |pool| {
        let txn = pool.begin()?;
        txn.put("object", ObjectKind::TABLE, b"other", vec![])?;
        txn.commit().map(drop)
    });
}
