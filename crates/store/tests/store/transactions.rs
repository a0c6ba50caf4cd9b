//! Transactions: what they see, what they conflict with, and that they are serialisable.

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{Isolation, Store, StoreError, Stores, StoresOptions, WriteBatch};

use crate::common::dram_pool;

fn stores() -> (Stores, Store) {
    let (pool, _) = dram_pool();
    let stores = Stores::open_with(&pool, StoresOptions::default().with_pending_records(7)).unwrap();
    let store = stores.store("s").unwrap();
    (stores, store)
}

/// A change of a store beside a transaction.
type StoreChange = fn(&Store);

fn is_conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict { .. }))
}

#[test]
fn a_transaction_sees_its_writes_and_its_snapshot() {
    let (stores, store) = stores();
    (0..30).for_each(|key| store.put(format!("{key:02}"), "old").unwrap());
    let mut transaction = stores.begin();
    transaction.put(&store, "05", "new").unwrap();
    transaction.put(&store, "055", "more").unwrap();
    transaction.delete(&store, "06").unwrap();
    store.put("07", "later").unwrap();
    store.delete("08").unwrap();
    let pairs: Result<Vec<_>, _> = transaction.scan(&store, "05".."09").collect();
    let expected = [("05", "new"), ("055", "more"), ("07", "old"), ("08", "old")];
    let expected: Vec<_> = expected.map(|(key, value)| (key.into(), value.into())).into();
    assert_eq!(pairs.unwrap(), expected);
    assert_eq!(transaction.get(&store, "06").unwrap(), None);
    assert_eq!(transaction.get(&store, "07").unwrap().unwrap(), b"old");
    drop(transaction);
    assert_eq!(
        store.get("05").unwrap().unwrap(),
        b"old",
        "a dropped transaction writes nothing"
    );
}

#[test]
fn write_skew_is_refused_unless_snapshots_suffice() {
    for (isolation, refused) in [(Isolation::Serializable, true), (Isolation::Snapshot, false)] {
        let (stores, store) = stores();
        store.put("ada", "on call").unwrap();
        store.put("bob", "on call").unwrap();
        // Each may leave while the other one is on call.
        let (mut first, mut second) = (stores.begin_with(isolation), stores.begin_with(isolation));
        assert_eq!(first.get(&store, "bob").unwrap().unwrap(), b"on call");
        assert_eq!(second.get(&store, "ada").unwrap().unwrap(), b"on call");
        first.put(&store, "ada", "off").unwrap();
        second.put(&store, "bob", "off").unwrap();
        first.commit().unwrap();
        assert_eq!(is_conflict(second.commit()), refused, "{isolation:?}");
    }
}

#[test]
fn phantoms_are_noticed() {
    let change: [(&str, StoreChange); 3] = [
        ("insert", |store| store.put("b5", "x").unwrap()),
        ("delete", |store| store.delete("b1").unwrap()),
        ("insert and delete", |store| {
            store.put("b7", "x").unwrap();
            store.delete("b7").unwrap();
        }),
    ];
    for checkpoints in [false, true] {
        for (name, change) in change {
            let (stores, store) = stores();
            ["a1", "b1", "b2", "c1"]
                .iter()
                .for_each(|key| store.put(key, "v").unwrap());
            let mut transaction = stores.begin();
            let count = transaction.scan_prefix(&store, "b").count();
            transaction.put(&store, "count", count.to_string()).unwrap();
            change(&store);
            if checkpoints {
                stores.checkpoint().unwrap();
            }
            assert!(is_conflict(transaction.commit()), "{name}");
            // What is outside of the range is no conflict.
            let mut transaction = stores.begin();
            assert_eq!(transaction.scan(&store, "a".."b").count(), 1);
            transaction.put(&store, "count", "1").unwrap();
            store.put("b9", "x").unwrap();
            transaction.commit().unwrap();
        }
    }
}

#[test]
fn lost_updates_are_refused_across_checkpoints() {
    let (stores, store) = stores();
    store.put("n", "0").unwrap();
    let mut transaction = stores.begin();
    let n: u64 = String::from_utf8(transaction.get(&store, "n").unwrap().unwrap())
        .unwrap()
        .parse()
        .unwrap();
    store.put("n", "5").unwrap();
    for key in 0..50 {
        store.put(format!("other {key}"), "").unwrap();
    }
    stores.reclaim().unwrap();
    transaction.put(&store, "n", (n + 1).to_string()).unwrap();
    assert!(is_conflict(transaction.commit()));
    // A key that was deleted, and whose deletion could be purged, was changed too.
    let mut transaction = stores.begin();
    assert!(transaction.get(&store, "n").unwrap().is_some());
    store.delete("n").unwrap();
    stores.reclaim().unwrap();
    transaction.put(&store, "m", "1").unwrap();
    assert!(is_conflict(transaction.commit()));
}

#[test]
fn threads_that_add_up_lose_nothing() {
    let (stores, store) = stores();
    for account in 0..4 {
        store.put(format!("{account}"), "1000").unwrap();
    }
    let number = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().parse::<i64>().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (stores, store) = (&stores, &store);
            scope.spawn(move || {
                for step in 0..200usize {
                    let (from, to) = ((thread + step) % 4, (thread * 3 + step * 7 + 1) % 4);
                    if from == to {
                        continue;
                    }
                    loop {
                        let mut transaction = stores.begin();
                        let mut add = |account: usize, amount: i64| {
                            let key = account.to_string();
                            let old = number(transaction.get(store, &key).unwrap().unwrap());
                            transaction.put(store, &key, (old + amount).to_string()).unwrap();
                        };
                        add(from, -1);
                        add(to, 1);
                        match transaction.commit() {
                            Ok(()) => break,
                            Err(error) => assert!(is_conflict::<()>(Err(error))),
                        }
                    }
                    // Every snapshot has the same sum.
                    let snapshot = stores.snapshot();
                    let sum: i64 = snapshot
                        .scan::<&str>(store, ..)
                        .map(|pair| number(pair.unwrap().1))
                        .sum();
                    assert_eq!(sum, 4000);
                }
            });
        }
    });
    assert_eq!(stores.stats().snapshots, 0);
}

#[test]
fn a_transaction_depends_on_what_its_scan_has_read() {
    let writes: [(StoreChange, bool); 4] = [
        (|store| store.put("0001x", "").unwrap(), true),
        (|store| store.delete("0002").unwrap(), true),
        (|store| store.put("5000x", "").unwrap(), false),
        (|store| store.delete("5000").unwrap(), false),
    ];
    for (number, (write, refused)) in writes.into_iter().enumerate() {
        let (stores, store) = stores();
        let mut batch = WriteBatch::new();
        (0..6000).for_each(|key| batch.put(&store, format!("{key:04}"), "").unwrap());
        stores.write(batch).unwrap();
        let mut transaction = stores.begin();
        let mut scan = transaction.scan::<&str>(&store, ..);
        assert_eq!(scan.by_ref().take(4).count(), 4);
        drop(scan);
        // A scan that reads nothing depends on nothing.
        drop(transaction.scan(&store, "4000"..));
        transaction.put(&store, "sum", "4").unwrap();
        write(&store);
        assert_eq!(is_conflict(transaction.commit()), refused, "write {number}");
    }
}

/// A reader's transaction is validated against commits of the writer since.
#[test]
fn a_reader_compares_what_it_has_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let store = stores.store("s").unwrap();
    for key in ["a", "b", "d"] {
        store.put(key, "1").unwrap();
    }
    let reading = Pool::open(&path, &PoolOptions::default().with_read_only(true)).unwrap();
    let reader = Stores::open_reader(&reading).unwrap();
    let read = reader.existing("s").unwrap();
    let begin = || {
        reader.refresh().unwrap();
        let mut transaction = reader.begin();
        transaction.get(&read, "a").unwrap();
        assert!(transaction.scan(&read, "c".."e").count() > 0);
        transaction
    };
    let changes: [(StoreChange, bool); 5] = [
        (|store| store.put("b", "2").unwrap(), false),
        (|store| store.put("a", "2").unwrap(), true),
        (|store| store.put("cc", "2").unwrap(), true),
        (|store| store.delete("cc").unwrap(), true),
        (|store| store.put("e", "2").unwrap(), false),
    ];
    for (change, is_of_it) in changes {
        let transaction = begin();
        change(&store);
        stores.checkpoint().unwrap();
        assert_eq!(is_conflict(transaction.compare()), is_of_it);
    }
    // Nothing was committed since.
    let transaction = begin();
    drop((store, stores));
    let stores = Stores::open(&pool).unwrap();
    transaction.compare().unwrap();
    // Whether something has changed is not known any more.
    let transaction = begin();
    drop(stores);
    let stores = Stores::open(&pool).unwrap();
    stores.existing("s").unwrap().put("b", "3").unwrap();
    let stale = transaction.compare();
    assert!(matches!(stale, Err(StoreError::Stale { .. })), "{stale:?}");
    reader.begin().compare().unwrap();
}

#[test]
fn a_transaction_of_a_reader_goes_on_when_the_stores_are_opened_for_writing() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    stores.store("s").unwrap().put("a", "1").unwrap();
    let reader = Stores::open_reader(&pool).unwrap();
    let read = reader.existing("s").unwrap();
    let begin = || {
        reader.refresh().unwrap();
        let mut transaction = reader.begin();
        assert_eq!(transaction.get(&read, "a").unwrap().as_deref(), Some(&b"1"[..]));
        transaction
    };
    let (mut first, mut late) = (begin(), begin());
    drop(stores);
    let stores = Stores::open(&pool).unwrap();
    let store = stores.existing("s").unwrap();
    first.continue_on(&stores).unwrap();
    first.put(&store, "b", "2").unwrap();
    // It still depends on what it has read.
    let mut dependent = begin();
    dependent.continue_on(&stores).unwrap();
    dependent.put(&store, "c", "3").unwrap();
    first.commit().unwrap();
    store.put("a", "2").unwrap();
    assert!(is_conflict(dependent.commit()));
    let stale = late.continue_on(&stores);
    assert!(matches!(stale, Err(StoreError::Stale { .. })), "{stale:?}");
}

/// Each transaction reads all of a range, and adds 1 to one of its keys, which may be absent. In an order of
/// one after the other, each finds the sum of those before it, so that every sum is found once.
#[test]
fn transactions_that_read_a_range_are_serialisable() {
    const EACH: u64 = 60;
    let (pool, _) = dram_pool();
    let stores = Stores::open_with(&pool, StoresOptions::default().with_pending_records(50)).unwrap();
    let (store, other) = (stores.store("s").unwrap(), stores.store("other").unwrap());
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let attempt = |thread: u64, step: u64| -> Result<u64, StoreError> {
        let mut transaction = stores.begin();
        let mut sum = 0;
        let mine = format!("{:03}", (thread * 31 + step * 17) % 40);
        // Half of them read the keys one by one.
        if (thread + step).is_multiple_of(2) {
            for pair in transaction.scan::<&str>(&store, ..) {
                sum += number(&pair?.1);
            }
        } else {
            for key in 0..40 {
                let found = transaction.get(&store, format!("{key:03}"))?;
                sum += found.map_or(0, |found| number(&found));
            }
        }
        let old = transaction.get(&store, &mine)?.map_or(0, |found| number(&found));
        transaction.put(&store, &mine, (old + 1).to_le_bytes())?;
        transaction.commit().map(|()| sum)
    };
    let mut sums: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (attempt, other) = (&attempt, &other);
                scope.spawn(move || {
                    let mut sums = Vec::new();
                    for step in 0..EACH {
                        let sum = loop {
                            other.put(format!("{thread}"), "beside").unwrap();
                            match attempt(thread, step) {
                                Err(StoreError::Conflict { .. }) => {}
                                sum => break sum.unwrap(),
                            }
                        };
                        sums.push(sum);
                    }
                    sums
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    sums.sort_unstable();
    assert!(sums.into_iter().eq(0..4 * EACH));
}
