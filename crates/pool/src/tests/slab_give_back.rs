//! Slabs that give chunks back, under crashes and random operations: no node is lost, and no space is used
//! twice.

use std::sync::Arc;
use std::time::Duration;

use halocline_explore::{Explorer, Tracked};
use halocline_media::MediumAccess;
use proptest::prelude::*;

use super::model::{BOOT, PoolStep, SMALL_POOL, run};
use super::slab::{NodeList, OPTIONS};
use crate::fault::{self, PoolFault};
use crate::{Pool, PoolError};
use ListStep::{GiveBack, GiveBackEmpty, Objects, Pop, Push, Thin};

/// A step on a list whose slab shares the pool with other objects.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ListStep {
    Push,
    Pop,
    /// Removes all but every seventh value.
    Thin,
    /// Moves the nodes of nearly empty chunks and gives these back.
    GiveBack,
    /// Gives back the chunks that are empty already.
    GiveBackEmpty,
    /// Replaces objects, so that free space gets other bytes.
    Objects,
}

impl NodeList {
    /// Moves the nodes in these ranges elsewhere.
    fn leave(&self, closed: &[std::ops::Range<u64>]) -> Result<(), PoolError> {
        let medium = self.0.medium();
        let mut link = self.0.root();
        loop {
            let node = medium.load_u64(link);
            if node == 0 {
                return Ok(());
            }
            let mut at = node;
            if closed.iter().any(|range| range.contains(&node)) {
                at = self.0.alloc()?;
                medium.store_u64(at, medium.load_u64(node));
                medium.store_u64(at + 8, medium.load_u64(node + 8));
                medium.persist(at, 16)?;
                medium.store_u64(link, at);
                medium.persist(link, 8)?;
                self.0.free(node);
            }
            link = at;
        }
    }

    /// Unlinks six nodes of seven by one store each.
    fn thin(&self) -> Result<(), PoolError> {
        let medium = self.0.medium();
        let mut kept = medium.load_u64(self.0.root());
        while kept != 0 {
            let mut next = medium.load_u64(kept);
            let mut freed = Vec::new();
            while next != 0 && freed.len() < 6 {
                freed.push(next);
                next = medium.load_u64(next);
            }
            medium.store_u64(kept, next);
            medium.persist(kept, 8)?;
            freed.into_iter().for_each(|node| self.0.free(node));
            kept = next;
        }
        Ok(())
    }

    fn give_back(&self, moves: bool) -> Result<u64, PoolError> {
        let closed = self.0.close_chunks(2);
        if moves {
            self.leave(&closed)?;
        }
        let given = self.0.give_back_chunks(Duration::ZERO);
        self.0.reopen_chunks();
        given
    }

    fn step(&self, number: u64, step: ListStep) -> Result<(), PoolError> {
        match step {
            Push => self.push(number + 1),
            Pop => self.pop(),
            Thin => self.thin(),
            GiveBack => self.give_back(true).map(drop),
            GiveBackEmpty => self.give_back(false).map(drop),
            Objects => {
                let steps = [
                    PoolStep::Put("a", number as u8, &[4000, 4000, 4000]),
                    PoolStep::Put("b", number as u8, &[9000]),
                    PoolStep::Remove("a"),
                ];
                run(self.0.pool(), &steps, |_| (), |_| ());
                Ok(())
            }
        }
    }
}

/// Returns the list after these steps.
fn expected(steps: &[ListStep]) -> Vec<u64> {
    let mut list = Vec::new();
    for (number, step) in (0..).zip(steps) {
        match step {
            Push => list.insert(0, number + 1),
            Pop => drop(list.remove(1)),
            Thin => list = list.into_iter().step_by(7).collect(),
            GiveBack | GiveBackEmpty | Objects => {}
        }
    }
    list
}

/// Opens the pool and its list, and continues work on both.
fn check(medium: Arc<Tracked>, steps: &[ListStep], first: usize, last: usize) -> Result<(), String> {
    let text = |error: PoolError| error.to_string();
    let pool = Pool::open_with(medium, SMALL_POOL, BOOT).map_err(text)?;
    let list = NodeList::open(&pool).map_err(text)?;
    let found = list.values();
    if found != expected(&steps[..first]) && found != expected(&steps[..last]) {
        return Err(format!("found {found:?} after {first} to {last} operations"));
    }
    for step in [Objects, GiveBack, Objects, Push, Push, Objects] {
        list.step(99, step).map_err(text)?;
    }
    if list.values()[2..] != found[..] {
        return Err(format!("{found:?} became {:?}", list.values()));
    }
    drop(list);
    let report = pool.check(|_| ()).map_err(text)?;
    if report.is_intact() {
        Ok(())
    } else {
        Err(format!("{report:?}"))
    }
}

fn explore() -> Result<(), String> {
    let setup = [vec![Push; 40], vec![Thin]].concat();
    let work = [
        GiveBackEmpty,
        Objects,
        GiveBack,
        Objects,
        Push,
        Push,
        Push,
        Push,
        GiveBack,
        Objects,
        Push,
        Objects,
    ];
    let steps = [&setup[..], &work].concat();
    let explorer = Explorer {
        limit: 400,
        ..Explorer::default()
    };
    let result = explorer.run(
        |medium| {
            let pool = Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap();
            drop(pool.create_slab("list", &OPTIONS).unwrap());
            let list = NodeList::open(&pool).unwrap();
            for (number, step) in (0..).zip(&setup) {
                list.step(number, *step).unwrap();
            }
        },
        |medium| {
            let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT).unwrap();
            let list = NodeList::open(&pool).unwrap();
            let before = list.0.stats();
            for (number, step) in (setup.len() as u64..).zip(work) {
                medium.begin(number);
                list.step(number, step).unwrap();
                medium.acknowledge(number);
            }
            assert!(list.0.stats().chunks < before.chunks && list.0.stats().bytes < before.bytes);
        },
        |medium, crash| {
            let (first, last) = crash.completed(setup.len());
            check(medium, &steps, first, last)
        },
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn chunks_are_given_back_whole_or_not_at_all() {
    explore().unwrap();
    for fault in [PoolFault::GiveBackInUse, PoolFault::GiveBackUnpublished] {
        let found = fault::with(fault, || std::panic::catch_unwind(explore));
        assert!(!matches!(found, Ok(Ok(()))), "{fault:?} is not noticed");
    }
}

#[test]
fn what_is_given_back_is_used_by_others_and_leaves_the_file() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    let list = NodeList::open(&pool).unwrap();
    (0..300).for_each(|value| list.push(value).unwrap());
    let (full, len) = (list.0.stats(), medium.len());
    (0..295).for_each(|_| list.pop().unwrap());
    let given = list.give_back(true).unwrap();
    let stats = list.0.stats();
    assert_eq!(stats.bytes + given, full.bytes);
    assert!(stats.bytes < full.bytes / 8 && stats.capacity - stats.used >= 2);
    // The rest is too little to give any of it back.
    assert_eq!(list.give_back(true).unwrap(), 0);
    let values = list.values();
    let steps = [PoolStep::Put("a", 1, &[100_000])];
    run(&pool, &steps, |_| (), |_| ());
    assert!(medium.len() <= len, "the space was used again");
    run(&pool, &[PoolStep::Remove("a")], |_| (), |_| ());
    let report = pool.vacuum().unwrap();
    assert!(report.allocated < len / 4 || report.len < len / 4, "{report:?}");
    assert_eq!(list.values(), values);
    drop(list);
    assert_eq!(NodeList::open(&pool).unwrap().values(), values);
}

/// A snapshot of an older generation keeps the space of a chunk from others.
#[test]
fn readers_of_older_generations_keep_the_space() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    let list = NodeList::open(&pool).unwrap();
    (0..100).for_each(|value| list.push(value).unwrap());
    (0..98).for_each(|_| list.pop().unwrap());
    let snapshot = pool.snapshot().unwrap();
    let len = medium.len();
    let given = list.give_back(true).unwrap();
    assert!(given > 50_000);
    run(&pool, &[PoolStep::Put("a", 1, &[50_000])], |_| (), |_| ());
    assert!(medium.len() > len, "the chunk may still be read");
    drop(snapshot);
}

/// A random operation.
#[derive(Debug, Clone, Copy)]
enum RandomStep {
    List(ListStep),
    Vacuum,
    Reopen,
}

fn random_step() -> impl Strategy<Value = RandomStep> {
    prop_oneof![
        12 => Just(RandomStep::List(Push)),
        11 => Just(RandomStep::List(Pop)),
        1 => Just(RandomStep::List(GiveBack)),
        1 => Just(RandomStep::List(Thin)),
        1 => Just(RandomStep::List(GiveBackEmpty)),
        1 => Just(RandomStep::List(Objects)),
        1 => Just(RandomStep::Vacuum),
        1 => Just(RandomStep::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_lists_give_back_what_they_do_not_need(
        first in 0..150_u64,
        steps in prop::collection::vec(random_step(), 20..250),
    ) {
        let medium = Arc::new(Tracked::new(0).unwrap());
        let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
        drop(pool.create_slab("list", &OPTIONS).unwrap());
        let mut list = NodeList::open(&pool).unwrap();
        let mut model: Vec<u64> = Vec::new();
        let pushes = (0..first).map(|_| RandomStep::List(Push));
        for (number, step) in (0..).zip(pushes.chain(steps)) {
            match step {
                RandomStep::List(Pop) if model.len() < 2 => continue,
                RandomStep::List(step) => list.step(number, step).unwrap(),
                RandomStep::Vacuum => drop(pool.vacuum().unwrap()),
                RandomStep::Reopen => {
                    drop(list);
                    list = NodeList::open(&pool).unwrap();
                }
            }
            match step {
                RandomStep::List(Push) => model.insert(0, number + 1),
                RandomStep::List(Pop) => drop(model.remove(1)),
                RandomStep::List(Thin) => model = model.into_iter().step_by(7).collect(),
                _ => {}
            }
            prop_assert_eq!(list.0.stats().used, model.len() as u64);
        }
        prop_assert_eq!(list.values(), model.clone());
        drop(list);
        prop_assert!(pool.check(|_| ()).unwrap().is_intact());
        prop_assert_eq!(NodeList::open(&pool).unwrap().values(), model);
    }
}
