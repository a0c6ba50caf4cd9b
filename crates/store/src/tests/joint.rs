//! A process that is killed after the decision of a transaction of both: whoever reads sees both halves. The
//! tests run themselves as the process that is killed.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use halocline_pool::{ObjectKind, Pool, PoolOptions};

use crate::fault::{self, StoreFault};
use crate::room::SegmentClaim;
use crate::{Store, StoreError, Stores, StoresOptions, WriteBatch};

const POOL: &str = "HALOCLINE_STORE_JOINT_POOL";
const POINT: &str = "HALOCLINE_STORE_JOINT_POINT";

/// Points after a decision at which the process ends.
const POINTS: [StoreFault; 3] = [
    StoreFault::DieDecided,
    StoreFault::DieLogged,
    StoreFault::DieFenced,
];

/// Sum of the balances.
const SUM: u64 = 1000;
/// Accounts in the store.
const ACCOUNTS: u64 = 20;
/// Accounts without balance, whose range is deleted.
const EMPTY: std::ops::Range<u64> = 1000..1040;

fn open(path: &Path, read_only: bool) -> Pool {
    Pool::open(path, &PoolOptions::default().with_read_only(read_only)).unwrap()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Returns the balance of an account with padding, which takes several chunks for some accounts.
fn value(account: u64, balance: u64) -> Vec<u8> {
    let mut value = balance.to_le_bytes().to_vec();
    value.resize(8 + (account as usize % 3) * 17_000, account as u8);
    value
}

/// Moves 1 from an account in the store to the object of the pool. An account without balance is deleted.
fn transfer(pool: &Pool, stores: &Stores, account: u64) -> Result<(), StoreError> {
    let store = stores.store("accounts")?;
    let mut transaction = stores.begin();
    // Keys that a deleted range may hide.
    transaction.put(&store, (EMPTY.start + 5).to_be_bytes(), value(1, 0))?;
    transaction.delete(&store, (EMPTY.start + 7).to_be_bytes())?;
    let key = account.to_be_bytes();
    let balance = number(&transaction.get(&store, key)?.unwrap()) - 1;
    match balance {
        0 => transaction.delete(&store, key)?,
        _ => transaction.put(&store, key, value(account, balance))?,
    }
    transaction.commit_with(|batch| {
        let txn = pool.begin()?;
        batch.put_into(&txn)?;
        let paid = number(txn.get("paid").unwrap().meta()) + 1;
        txn.put("paid", ObjectKind(77), &paid.to_le_bytes(), vec![])?;
        txn.commit()?;
        Ok(())
    })
}

fn create(path: &Path) {
    let pool = Pool::create(path, &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let store = stores.store("accounts").unwrap();
    for account in 0..ACCOUNTS {
        // The first one is emptied by the first transfer.
        let balance = if account == 0 { 1 } else { 2 };
        store.put(account.to_be_bytes(), value(account, balance)).unwrap();
    }
    for account in EMPTY {
        store.put(account.to_be_bytes(), value(account, 0)).unwrap();
    }
    let txn = pool.begin().unwrap();
    let paid = SUM - (2 * ACCOUNTS - 1);
    txn.put("paid", ObjectKind(77), &paid.to_le_bytes(), vec![])
        .unwrap();
    txn.commit().unwrap();
}

#[test]
#[ignore = "run by other tests, as a process of its own"]
fn child() {
    let path = std::env::var_os(POOL).unwrap();
    let point: usize = std::env::var(POINT).unwrap().parse().unwrap();
    let pool = open(path.as_ref(), false);
    let options = StoresOptions::default()
        .with_background(false)
        .with_deleted_at_once(6);
    let stores = Stores::open_with(&pool, options).unwrap();
    let store = stores.store("accounts").unwrap();
    store.put(1_u64.to_be_bytes(), value(1, 2)).unwrap();
    transfer(&pool, &stores, 2).unwrap();
    hide(&stores, &store, EMPTY);
    stores.handle.state.delete_step(&store.state).unwrap();
    let account = point as u64 % 2;
    fault::with(POINTS[point], || transfer(&pool, &stores, account)).unwrap();
}

/// Deletes a range, and leaves its keys hidden.
fn hide(stores: &Stores, store: &Store, accounts: std::ops::Range<u64>) {
    let mut batch = WriteBatch::new();
    let (from, to) = (accounts.start.to_be_bytes(), accounts.end.to_be_bytes());
    batch.delete_range(store, from..to).unwrap();
    let state = &stores.handle.state;
    state
        .commit_batch(batch.ops, None, SegmentClaim::Deletions)
        .unwrap();
}

fn run_child(path: &Path, point: usize) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::joint::child", "--ignored"])
        .env(POOL, path)
        .env(POINT, point.to_string())
        .output()
        .unwrap()
        .status;
    assert!(!status.success(), "the process was not killed");
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Sum, pairs, and counters of keys and bytes.
type Seen = (u64, Pairs, (u64, u64));

fn pairs(store: &Store) -> Pairs {
    store.scan::<&[u8]>(..).map(Result::unwrap).collect()
}

/// Returns all that a reader sees: the sum of both halves, pairs, and counters.
fn seen(pool: &Pool, stores: &Stores) -> Seen {
    let paid = number(pool.snapshot().unwrap().object("paid").unwrap().meta());
    let store = stores.existing("accounts").unwrap();
    let pairs = pairs(&store);
    let mut backward: Vec<_> = store.scan::<&[u8]>(..).rev().map(Result::unwrap).collect();
    backward.reverse();
    assert_eq!(pairs, backward);
    for (key, value) in &pairs {
        assert_eq!(store.get(key).unwrap().as_ref(), Some(value));
    }
    let balances: u64 = pairs.iter().map(|(_, value)| number(value)).sum();
    (paid + balances, pairs, (store.len(), store.bytes()))
}

#[test]
fn readers_see_both_halves_wherever_the_writer_is_killed() {
    for (point, fault) in POINTS.into_iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        create(&path);
        // Readers from before, of which one may write.
        let early = [true, false].map(|read_only| {
            let pool = open(&path, read_only);
            let stores = Stores::open_reader(&pool).unwrap();
            assert_eq!(seen(&pool, &stores).0, SUM);
            (pool, stores)
        });
        run_child(&path, point);

        let before = fs::read(&path).unwrap();
        let pool = open(&path, true);
        let stores = Stores::open_reader(&pool).unwrap();
        let expected = seen(&pool, &stores);
        assert_eq!(expected.0, SUM, "{:?}", fault);
        // There is nothing newer.
        stores.refresh().unwrap();
        assert_eq!(seen(&pool, &stores), expected);
        let snapshot = stores.snapshot();
        let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.problems, []);
        let (pool_before, stores_before) = &early[0];
        match stores_before.refresh() {
            Err(StoreError::Interrupted { .. }) => assert_eq!(fault, StoreFault::DieDecided),
            refreshed => {
                refreshed.unwrap();
                assert_eq!(seen(pool_before, stores_before), expected);
            }
        }
        assert!(before == fs::read(&path).unwrap(), "a reader has written");

        // One that can write ends the commit.
        let (pool_before, stores_before) = &early[1];
        stores_before.refresh().unwrap();
        assert_eq!(seen(pool_before, stores_before), expected);
        if fault == StoreFault::DieDecided {
            let store = stores.existing("accounts").unwrap();
            let stale = snapshot.get(&store, 1_u64.to_be_bytes());
            assert!(matches!(stale, Err(StoreError::Stale { .. })), "{stale:?}");
        }
        stores.refresh().unwrap();
        assert_eq!(seen(&pool, &stores), expected);
        drop((early, snapshot, stores, pool));

        let pool = open(&path, false);
        let stores = Stores::open(&pool).unwrap();
        assert_eq!(seen(&pool, &stores), expected);
        transfer(&pool, &stores, 5).unwrap();
        assert_eq!(seen(&pool, &stores).0, SUM);
    }
}

/// The thread that makes the checkpoint that is overdue runs only afterwards.
#[test]
fn an_opening_ends_a_commit_behind_many_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    create(&path);
    run_child(&path, 0);
    let pool = open(&path, false);
    let options = StoresOptions::default().with_pending_records(1);
    let stores = Stores::open_with(&pool, options).unwrap();
    assert_eq!(seen(&pool, &stores).0, SUM);
}

/// Without the batch the readers see half of the transaction.
#[test]
fn a_forgotten_batch_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    create(&path);
    run_child(&path, 0);
    let pool = open(&path, true);
    let stores = fault::with(StoreFault::ForgetDecided, || Stores::open_reader(&pool)).unwrap();
    assert_ne!(seen(&pool, &stores).0, SUM);
}

/// A reader follows the log of its writer, over checkpoints, moved records and deleted ranges, with the
/// counters of the writer.
#[test]
fn a_reader_follows_its_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    create(&path);
    let pool = open(&path, false);
    let options = StoresOptions::default()
        .with_background(false)
        .with_deleted_at_once(2)
        .with_pending_records(40);
    let stores = Stores::open_with(&pool, options).unwrap();
    let reading = open(&path, true);
    let reader = Stores::open_reader(&reading).unwrap();
    let store = stores.store("accounts").unwrap();
    let (mut kept, mut followed) = (Vec::new(), 0);
    for step in 0..600_u64 {
        let account = 100 + step * step % 37;
        match step % 7 {
            0 => store.delete(account.to_be_bytes()).unwrap(),
            _ => store.put(account.to_be_bytes(), value(step, step)).unwrap(),
        }
        if step % 90 == 50 {
            stores.reclaim().unwrap();
        }
        if step % 31 == 20 {
            hide(&stores, &store, 105..125);
        }
        if step % 31 == 25 {
            stores.handle.state.delete_step(&store.state).unwrap();
        }
        if step % 3 == 0 {
            let state = &reader.handle.state;
            followed += u32::from(state.follow(state.observer.as_ref().unwrap()).unwrap());
            reader.refresh().unwrap();
            let found = seen(&reading, &reader);
            // Hidden keys are deleted before they are counted.
            let expected = match step % 31 {
                20..26 => {
                    let pairs = pairs(&store);
                    let bytes = pairs.iter().map(|(key, value)| key.len() + value.len());
                    let counted = (pairs.len() as u64, bytes.sum::<usize>() as u64);
                    (found.0, pairs, counted)
                }
                _ => seen(&pool, &stores),
            };
            assert_eq!(found, expected, "step {step}");
            if step % 60 == 0 {
                kept.push((reader.snapshot(), expected.1));
            }
        }
    }
    assert!(followed > 100, "{followed}");
    let store = reader.existing("accounts").unwrap();
    for (snapshot, expected) in kept {
        let pairs: Vec<_> = snapshot.scan::<&[u8]>(&store, ..).map(Result::unwrap).collect();
        assert!(pairs == expected, "a snapshot has changed");
    }
}
