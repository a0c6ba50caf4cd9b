//! Full and failing disks: a typed error, and nothing published is lost.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::MediaError;

use super::model::{BOOT, ExpectedObjects, PoolStep, SMALL_POOL, contents, find, run, write};
use super::wrapped::Wrapped;
use crate::{ObjectKind, Pool, PoolError};

fn state(seed: u8) -> ExpectedObjects {
    ExpectedObjects::from([("a", (seed, vec![100]))])
}

#[test]
fn a_full_disk_fails_the_transaction_only() {
    for lazy in [false, true] {
        let tracked = Arc::new(Tracked::new(0).unwrap());
        let medium = if lazy {
            Wrapped::lazy(&tracked)
        } else {
            Wrapped::new(&tracked)
        };
        let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
        run(
            &pool,
            &[PoolStep::Put("a", 1, &[100]), PoolStep::Put("big", 2, &[20_000])],
            |_| (),
            |_| (),
        );
        medium.limit(pool.info().unwrap().len);
        let txn = pool.begin().unwrap();
        let small = write(&txn, &contents(3, 0, 100));
        let error = txn.alloc(50_000).unwrap_err();
        assert!(
            matches!(&error, PoolError::DiskFull { wanted, .. } if *wanted >= 50_000),
            "{error}"
        );
        assert!(error.to_string().contains("small disk"));
        // The transaction can still be used.
        txn.remove("big").unwrap();
        txn.put("a", ObjectKind::TABLE, &[3; 20], vec![small]).unwrap();
        txn.commit().unwrap();
        find(&pool, &[state(3)], 0, 0).unwrap();
        // Freed space is reused as a last resort, even if that takes a sync.
        for seed in 4..40 {
            run(&pool, &[PoolStep::Put("a", seed, &[100])], |_| (), |_| ());
        }
        // Allow exactly the growth that is needed, less than the pool prefers.
        let len = pool.info().unwrap().len;
        let fits = |extra| {
            medium.limit(len + extra);
            let txn = pool.begin().unwrap();
            txn.alloc(70_000).map(drop)
        };
        let extra = (0..).step_by(4096).find(|extra| fits(*extra).is_ok());
        assert!(
            extra.is_some_and(|extra| extra > 0 && extra < 70_000),
            "{extra:?}"
        );
        assert_eq!(pool.info().unwrap().len, len + extra.unwrap());
        run(
            &pool,
            &[PoolStep::Put("big", 5, &[24_000, 12_000])],
            |_| (),
            |_| (),
        );
        assert!(pool.check(|_| ()).unwrap().is_intact());
    }
}

#[test]
fn a_failed_fence_fails_the_publish_and_all_after_it() {
    let mut published = Vec::new();
    while published.last() != Some(&true) {
        let tracked = Arc::new(Tracked::new(0).unwrap());
        let medium = Wrapped::new(&tracked);
        let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
        run(&pool, &[PoolStep::Put("a", 1, &[100])], |_| (), |_| ());
        let txn = pool.begin().unwrap();
        let extent = write(&txn, &contents(2, 0, 100));
        txn.put("a", ObjectKind::TABLE, &[2; 20], vec![extent]).unwrap();
        medium.fail_after(published.len() as u64);
        let result = txn.commit();
        published.push(result.is_ok());
        if let Err(error) = result {
            assert!(
                matches!(error, PoolError::Media(MediaError::Poisoned { .. })),
                "{error}"
            );
            // The visible state is complete, and no later publish succeeds.
            find(&pool, &[state(1), state(2)], 0, 1).unwrap();
            let next = pool.begin().and_then(|txn| {
                txn.remove("a")?;
                txn.commit()
            });
            assert!(
                matches!(next, Err(PoolError::Media(MediaError::Poisoned { .. }))),
                "{next:?}"
            );
        }
        // The disk is repaired, and the pool opened again.
        drop(pool);
        let pool = Pool::open_with(tracked, SMALL_POOL, BOOT).unwrap();
        let first = usize::from(published.last() == Some(&true));
        find(&pool, &[state(1), state(2)], first, 1).unwrap();
        run(
            &pool,
            &[PoolStep::Put("a", 3, &[100]), PoolStep::Put("a", 4, &[100, 100])],
            |_| (),
            |_| (),
        );
        assert!(pool.check(|_| ()).unwrap().is_intact());
    }
    assert!(published.len() > 2, "a publish has two fences: {published:?}");
}
