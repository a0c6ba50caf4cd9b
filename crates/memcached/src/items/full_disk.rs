//! A full disk: values are refused, and items are deleted and flushed at the first attempt, which takes no
//! free byte of the disk.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::MediumAccess;
use halocline_ordered::TreeKind;
use halocline_pool::{ObjectKind, Pool, PoolError};

use super::workload::{Backend, Collisions, Delete, Running, START, Set, Step, Store, Tree};
use super::{ChangeOutcome, RemoveOutcome, WriteOutcome};
use crate::settings::Durability;

const BACKENDS: [Backend; 4] = [
    Store,
    Tree(TreeKind::Lb),
    Tree(TreeKind::FastFair),
    Collisions(TreeKind::Fp),
];

/// Items on a disk that has room for nothing more.
struct FullDisk {
    memory: Arc<Tracked>,
    pool: Pool,
    backend: Backend,
    running: Running,
    /// The items, of which the first ones are large.
    items: u8,
    large: u8,
}

/// Bytes of a large item, and of the others.
const LARGE: usize = 20_000;
const SMALL: usize = 2000;

impl FullDisk {
    fn new(backend: Backend) -> FullDisk {
        let memory = Arc::new(Tracked::new(0).unwrap());
        let pool = Pool::create_on(Arc::clone(&memory)).unwrap();
        let running = Running::open_at(&pool, backend, Durability::Process, None, START).unwrap();
        memory.limit(3 << 20);
        let mut disk = FullDisk {
            memory,
            pool,
            backend,
            running,
            items: 0,
            large: 0,
        };
        // The large ones leave rests, which the others fill.
        for bytes in [LARGE, SMALL] {
            while disk.is_stored(Set(disk.items, bytes)) {
                disk.items += 1;
                disk.large += u8::from(bytes == LARGE);
            }
        }
        assert!(disk.items > 50, "{backend:?}: {} items", disk.items);
        disk
    }

    /// Returns true if an item is stored, and false if there is no room.
    fn is_stored(&self, set: Step) -> bool {
        match self.running.outcomes(&[set]).remove(0) {
            Ok(ChangeOutcome::Write(WriteOutcome::Stored { .. })) => true,
            Err(error) if error.is_full() => false,
            other => panic!("{:?}: {other:?}", self.backend),
        }
    }

    /// Deletes items that have arrived together; each of them must be gone afterwards.
    fn delete(&self, numbers: std::ops::Range<u8>) {
        let deletions: Vec<Step> = numbers.clone().map(Delete).collect();
        for (number, outcome) in numbers.zip(self.running.outcomes(&deletions)) {
            let is_removed = matches!(outcome, Ok(ChangeOutcome::Remove(RemoveOutcome::Removed)));
            assert!(is_removed, "{:?}, item {number}: {outcome:?}", self.backend);
        }
    }

    /// Stores objects in what the items have left of the pool, until there is not a free block.
    fn fill_rest(&self) {
        let put = |number: usize| {
            let txn = self.pool.begin()?;
            let mut writer = txn.alloc(1)?;
            writer.append(&[1]);
            let extent = writer.finish(1)?;
            txn.put(&format!("rest/{number}"), ObjectKind::TABLE, &[], vec![extent])?;
            txn.commit()
        };
        let refused = (0..).find_map(|number| put(number).err());
        assert!(
            matches!(refused, Some(PoolError::DiskFull { .. })),
            "{:?}: {refused:?}",
            self.backend
        );
    }

    fn reclaim(&self) {
        while self.running.items.reclaim().unwrap() {}
    }

    fn visible(&self) -> Vec<u8> {
        self.running.visible().into_keys().collect()
    }

    /// Opens the items again, on the disk as it is.
    fn open_again(self) -> FullDisk {
        let FullDisk {
            memory,
            pool,
            backend,
            running,
            items,
            large,
        } = self;
        drop(running);
        memory.limit(memory.len());
        let running = Running::open_at(&pool, backend, Durability::Process, None, START).unwrap();
        FullDisk {
            memory,
            pool,
            backend,
            running,
            items,
            large,
        }
    }
}

#[test]
fn items_are_deleted_at_the_first_attempt() {
    for backend in BACKENDS {
        let disk = FullDisk::new(backend);
        let (items, large) = (disk.items, disk.large);
        for number in 0..large / 3 {
            disk.delete(number..number + 1);
        }
        let disk = disk.open_again();
        disk.delete(large / 3..large / 2);
        assert_eq!(
            disk.visible(),
            (large / 2..items).collect::<Vec<_>>(),
            "{backend:?}"
        );
        // There is room again for others of their size.
        disk.reclaim();
        for number in 0..large / 4 {
            assert!(disk.is_stored(Set(number, LARGE)), "{backend:?}, item {number}");
        }
        // All can be deleted, one after the other.
        for number in (0..large / 4).chain(large / 2..items) {
            disk.delete(number..number + 1);
        }
        assert_eq!(disk.visible(), [0; 0], "{backend:?}");
    }
}

#[test]
fn items_are_flushed_at_the_first_attempt() {
    for backend in BACKENDS {
        let disk = FullDisk::new(backend);
        if !backend.is_atomic() {
            disk.fill_rest();
        }
        disk.running.items.flush(0).unwrap();
        assert_eq!(disk.visible(), [0; 0], "{backend:?}");
        disk.reclaim();
        for number in 0..disk.large / 2 {
            assert!(disk.is_stored(Set(number, LARGE)), "{backend:?}, item {number}");
        }
        let disk = disk.open_again();
        assert_eq!(
            disk.visible(),
            (0..disk.large / 2).collect::<Vec<_>>(),
            "{backend:?}"
        );
    }
}

/// Each of the trees takes a part of the reserve, until the former ones are removed.
#[test]
fn items_in_trees_are_flushed_again_and_again() {
    for backend in BACKENDS.into_iter().filter(|backend| !backend.is_atomic()) {
        let disk = FullDisk::new(backend);
        disk.fill_rest();
        for _ in 0..3 {
            for _ in 0..5 {
                disk.running.items.flush(0).unwrap();
            }
            assert_eq!(disk.visible(), [0; 0], "{backend:?}");
            disk.reclaim();
            assert!(disk.is_stored(Set(0, LARGE)), "{backend:?}");
        }
        // As after a crash, former trees are there at the opening.
        disk.running.items.flush(0).unwrap();
        let disk = disk.open_again();
        assert_eq!(disk.visible(), [0; 0], "{backend:?}");
        disk.reclaim();
        for number in 0..disk.large / 2 {
            assert!(disk.is_stored(Set(number, LARGE)), "{backend:?}, item {number}");
        }
    }
}
