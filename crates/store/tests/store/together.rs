//! Transactions that are committed together with one of the pool.

use halocline_pool::{ObjectKind, Pool, PoolOptions, Txn};
use halocline_store::{DecidedBatch, StoreError, Stores};

use crate::common::dram_pool;

fn set(txn: &Txn, value: u8) -> Result<(), StoreError> {
    Ok(txn.put("object", ObjectKind(77), &[value], vec![])?)
}

fn object(pool: &Pool) -> Option<u8> {
    let snapshot = pool.snapshot().unwrap();
    snapshot.get("object").map(|object| object.meta()[0])
}

#[test]
fn both_or_none() {
    let (pool, _) = dram_pool();
    let stores = Stores::open(&pool).unwrap();
    let store = stores.store("s").unwrap();
    let begin = || {
        let mut transaction = stores.begin();
        transaction.get(&store, "read").unwrap();
        transaction.put(&store, "k", "new").unwrap();
        transaction
    };
    // A conflict: the pool is not asked.
    let transaction = begin();
    store.put("read", "changed").unwrap();
    let conflict = transaction.commit_with(|_| -> Result<(), StoreError> { panic!("it was decided") });
    assert!(
        matches!(conflict, Err(StoreError::Conflict { .. })),
        "{conflict:?}"
    );
    // The pool fails: nothing is in the store, which goes on.
    let txn = pool.begin().unwrap();
    let failed = begin().commit_with(|batch| {
        batch.put_into(&txn)?;
        set(&txn, 1)?;
        txn.put("", ObjectKind(77), &[], vec![])?;
        Ok::<(), StoreError>(())
    });
    assert!(matches!(failed, Err(StoreError::Pool(_))), "{failed:?}");
    drop(txn);
    assert_eq!((store.get("k").unwrap(), object(&pool)), (None, None));
    store.put("other", "x").unwrap();
    let commit = |batch: &DecidedBatch, value| {
        let txn = pool.begin()?;
        batch.put_into(&txn)?;
        set(&txn, value)?;
        txn.commit()?;
        Ok::<(), StoreError>(())
    };
    begin().commit_with(|batch| commit(batch, 2)).unwrap();
    assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(object(&pool), Some(2));
    // What only reads depends on what it has read.
    let mut transaction = stores.begin();
    transaction.get(&store, "k").unwrap();
    store.put("k", "newer").unwrap();
    let conflict = transaction.commit_with(|batch| commit(batch, 3));
    assert!(
        matches!(conflict, Err(StoreError::Conflict { .. })),
        "{conflict:?}"
    );
    drop((store, stores));
    let stores = Stores::open(&pool).unwrap();
    let store = stores.existing("s").unwrap();
    assert_eq!(
        store.get("k").unwrap().as_deref(),
        Some(&b"newer"[..]),
        "the batch is not committed twice"
    );
    assert_eq!(store.len(), 3);
}

/// The state that a process leaves that is killed between the two halves of the commit.
#[test]
fn an_interrupted_commit_is_ended_by_the_next_opening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let store = stores.store("s").unwrap();
    store.put("gone", "x").unwrap();
    let mut transaction = stores.begin();
    transaction.put(&store, "k", "new").unwrap();
    transaction.delete(&store, "gone").unwrap();
    let killed = directory.path().join("killed");
    let committed: Result<(), StoreError> = transaction.commit_with(|batch| {
        let txn = pool.begin()?;
        batch.put_into(&txn)?;
        set(&txn, 1)?;
        txn.commit()?;
        // The file as a process leaves it that is killed now.
        std::fs::copy(&path, &killed).unwrap();
        Ok(())
    });
    committed.unwrap();
    drop((store, stores, pool));
    let path = killed;
    let read_only = PoolOptions::default().with_read_only(true);
    let open = || Pool::open(&path, &read_only).unwrap();
    let sees_it = |stores: &Stores| {
        let store = stores.existing("s").unwrap();
        assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!((store.get("gone").unwrap(), store.len()), (None, 1));
    };
    // It is not ended for a reader that cannot write, which sees it all the same.
    let before = std::fs::read(&path).unwrap();
    sees_it(&Stores::open_reader(&open()).unwrap());
    assert!(before == std::fs::read(&path).unwrap(), "a reader has written");
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let reader = Stores::open_reader(&open()).unwrap();
    [&stores, &reader].into_iter().for_each(sees_it);
    assert_eq!(object(&pool), Some(1));
}

#[test]
fn what_was_published_is_committed_although_it_is_not_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let store = stores.store("s").unwrap();
    for published in [true, false] {
        let key = if published { "published" } else { "not" };
        let mut transaction = stores.begin();
        transaction.put(&store, key, "new").unwrap();
        let failed = transaction.commit_with(|batch| {
            let txn = pool.begin()?;
            batch.put_into(&txn)?;
            set(&txn, 2)?;
            if published {
                txn.commit()?;
            }
            Err(StoreError::Poisoned {
                reason: "the file has gone".to_owned(),
            })
        });
        assert!(matches!(failed, Err(StoreError::Poisoned { .. })), "{failed:?}");
        assert_eq!(store.get(key).unwrap().is_some(), published);
    }
    store.put("later", "x").unwrap();
    drop((store, stores));
    let stores = Stores::open(&pool).unwrap();
    let store = stores.existing("s").unwrap();
    assert_eq!((store.get("not").unwrap(), store.len()), (None, 2));
}
