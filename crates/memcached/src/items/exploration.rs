//! The exploration of workloads on tracked memory: after every crash, what was acknowledged as durable is
//! there, wholly, and no cas value repeats.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use halocline_explore::{Crash, Explorer, Report, Tracked, TrackedPageCache, Violation};
use halocline_media::{Medium, MediumAccess, boot_id};
use halocline_pool::{Pool, PoolError};

use super::workload::{
    Backend, Collisions, Pass, Pipeline, Running, START, Step, Store, Sync, Together, Tree, Visible,
    changes_of, is_durable, item_of,
};
use crate::MemcachedError;
use crate::settings::Durability;

/// The medium that a workload sees over the tracked memory.
pub(super) type MediumOf = fn(&Arc<Tracked>) -> Medium;

/// Returns persistent memory.
pub(super) fn dax(memory: &Arc<Tracked>) -> Medium {
    Medium::from(memory)
}

/// Returns a page-cache file whose fences are syncs.
pub(super) fn strict_file(memory: &Arc<Tracked>) -> Medium {
    Medium::from(TrackedPageCache::new(memory, true))
}

/// Returns a page-cache file whose fences are not durable.
pub(super) fn lazy_file(memory: &Arc<Tracked>) -> Medium {
    Medium::from(TrackedPageCache::new(memory, false))
}

/// A workload, which is explored from the end of its setup on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload<'a> {
    pub(super) backend: Backend,
    pub(super) durability: Durability,
    pub(super) medium: MediumOf,
    pub(super) setup: &'a [Step],
    pub(super) steps: &'a [Step],
    /// Bytes of the pool from which on items leave.
    pub(super) limit: Option<u64>,
}

/// The items that are visible after a step.
#[derive(Debug, Default)]
pub(super) struct ExpectedState {
    pub(super) after: Visible,
    /// States that a crash in the step may leave besides: those after its commits but the last.
    between: Vec<Visible>,
}

impl Workload<'_> {
    fn open(&self, pool: &Pool) -> Running {
        Running::open_at(pool, self.backend, self.durability, self.limit, START).unwrap()
    }

    /// Returns the commits of a step that is durable in several: in trees those of each change, otherwise
    /// those of changes of which none depends on one before it.
    fn commits(&self, step: Step) -> Vec<Vec<Step>> {
        let mut commits: Vec<Vec<Step>> = Vec::new();
        for change in changes_of(step) {
            let depends =
                |before: &Step| item_of(*before).0 == item_of(change).0 && !matches!(change, Step::Set(..));
            match commits.last_mut().filter(|_| self.backend.is_atomic()) {
                Some(last) if !last.iter().any(depends) => last.push(change),
                _ => commits.push(vec![change]),
            }
        }
        commits
    }

    /// Returns what is visible after each number of steps. As in an exploration, the items are opened anew
    /// after the setup.
    pub(super) fn states(&self) -> Vec<ExpectedState> {
        let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
        let mut states = vec![ExpectedState::default()];
        for (done, steps) in [(&[][..], self.setup), (self.setup, self.steps)] {
            let running = self.open(&pool);
            running.clock.fetch_add(passed(done), Relaxed);
            for step in steps {
                let mut between = Vec::new();
                match step {
                    Together(..) | Pipeline(_) => {
                        for commit in self.commits(*step) {
                            running.apply(&commit);
                            between.push(running.visible());
                        }
                        between.pop();
                    }
                    step => _ = running.step(*step),
                }
                let after = running.visible();
                states.push(ExpectedState { after, between });
            }
        }
        states
    }

    pub(super) fn explore(&self) -> Result<Report, Box<Violation>> {
        let states = self.states();
        // The greatest cas value that was given in each number of steps.
        let given = RefCell::new(vec![0]);
        let explorer = Explorer {
            limit: match self.backend {
                Store => 100,
                // Trees have tests of their own.
                _ => 30,
            },
            ..Explorer::default()
        };
        let run = |running: &Running, step: &Step| {
            let cas = running.step(*step).unwrap_or(0);
            let mut given = given.borrow_mut();
            let greatest = given.last().copied().unwrap_or(0).max(cas);
            given.push(greatest);
        };
        let prepare = |memory: &Arc<Tracked>| {
            let pool = Pool::create_on((self.medium)(memory)).unwrap();
            let running = self.open(&pool);
            self.setup.iter().for_each(|step| run(&running, step));
            drop(running);
            pool.sync().unwrap();
        };
        let work = |memory: &Arc<Tracked>| {
            let pool = Pool::open_on((self.medium)(memory)).unwrap();
            let running = self.open(&pool);
            running.clock.fetch_add(passed(self.setup), Relaxed);
            for (at, step) in self.steps.iter().enumerate() {
                memory.begin(at as u64);
                run(&running, step);
                memory.acknowledge(at as u64);
            }
            if is_durable(&pool) {
                // Whatever closing does is no part of the workload.
                std::mem::forget(running)
            } else {
                let closing = self.steps.len() as u64;
                memory.begin(closing);
                running.items.storage.close().unwrap();
                drop(running);
                memory.acknowledge(closing);
            }
        };
        explorer.run(prepare, work, |memory, crash| {
            self.check(&memory, crash, &states, &given.borrow())
        })
    }

    /// Accepts a medium that holds one of the states that a crash may leave, and on which no cas value comes
    /// again.
    fn check(
        &self,
        memory: &Arc<Tracked>,
        crash: &Crash<'_>,
        states: &[ExpectedState],
        given: &[u64],
    ) -> Result<(), String> {
        let medium = (self.medium)(memory);
        if !medium.fence_is_durable() {
            reboot(memory);
        }
        let (first, last) = crash.completed(self.setup.len());
        let all = [self.setup, self.steps].concat();
        let is_closed = first > all.len();
        let (first, last) = (first.min(all.len()), last.min(all.len()));
        let keeps_operations = match self.backend {
            // Whatever the durability, each change waits for its fences.
            Tree(_) | Collisions(_) => medium.fence_is_durable(),
            Store => self.durability == Durability::Operation,
        };
        let least = match self.durability {
            _ if keeps_operations || is_closed => first,
            Durability::Group => synced(&all[..first]).max(self.setup.len()),
            _ => self.setup.len(),
        };
        let mut now = START + passed(&all[..first]);
        if !keeps_operations {
            // Cas values rely on a clock that has gone on since the machine went down.
            now += 1000;
        }
        let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
        let running = match Running::open_at(&pool, self.backend, Durability::Operation, None, now) {
            Err(error) if self.may_be_refused(&pool, &error) && !is_closed => return Ok(()),
            opened => opened.map_err(|error| error.to_string())?,
        };
        let found = running.visible();
        let between = states[least + 1..=last].iter().flat_map(|state| &state.between);
        let allowed = states[least..=last]
            .iter()
            .map(|state| &state.after)
            .chain(between);
        let allowed: Vec<&Visible> = allowed.collect();
        if !allowed.contains(&&found) && !self.is_between(&found, &allowed) {
            let sizes = |state: &Visible| -> Vec<(u8, usize)> {
                state.iter().map(|(number, data)| (*number, data.len())).collect()
            };
            let allowed: Vec<_> = allowed.into_iter().map(sizes).collect();
            return Err(format!("{:?} instead of one of {allowed:?}", sizes(&found)));
        }
        let cas = running.set(255, 1, None);
        if cas <= given[first] {
            return Err(format!(
                "the cas value {cas} comes again, {} was given before",
                given[first]
            ));
        }
        match self.backend {
            Store => Ok(()),
            _ => running.leaks_nothing(),
        }
    }

    /// Returns true if an error says that the pool was being written when the machine went down, and fences
    /// were not durable.
    fn may_be_refused(&self, pool: &Pool, error: &MemcachedError) -> bool {
        let is_unsynced = matches!(error, MemcachedError::Pool(PoolError::SlabUnsynced { .. }));
        is_unsynced && !is_durable(pool)
    }

    /// Returns true if `found` has changes of a command that are durable one after another: those of an item
    /// and of others that leave for it.
    fn is_between(&self, found: &Visible, states: &[&Visible]) -> bool {
        let ([first, last], Some(_), false) = (states, self.limit, self.backend.is_atomic()) else {
            return false;
        };
        let is_in = |state: &Visible, number: &u8, data: &Vec<u8>| state.get(number) == Some(data);
        let all_right = found
            .iter()
            .all(|(number, data)| is_in(first, number, data) || is_in(last, number, data));
        let mut stay = first.iter().filter(|(number, data)| is_in(last, number, data));
        all_right && stay.all(|(number, data)| is_in(found, number, data))
    }

    pub(super) fn passes(&self, images: usize) {
        let report = self
            .explore()
            .unwrap_or_else(|violation| panic!("{self:?}: {violation}"));
        assert!(report.images >= images, "{report}");
    }
}

/// Changes the number of the boot in which slabs were written, as if the machine had gone down. Superblocks
/// are not written during a workload whose slabs do not grow.
fn reboot(memory: &Tracked) {
    const SUPERBLOCKS: usize = 16 << 10;
    let (image, boot) = (memory.image(), boot_id());
    for at in (SUPERBLOCKS..image.len()).step_by(64) {
        if image[at..].starts_with(&boot) {
            memory.store(at as u64, &[0xB0; 16]);
        }
    }
}

/// Returns the number of steps up to the last sync.
fn synced(steps: &[Step]) -> usize {
    let last = steps.iter().rposition(|step| matches!(step, Sync));
    last.map_or(0, |last| last + 1)
}

/// Returns the time that passes in steps, in ms.
fn passed(steps: &[Step]) -> u64 {
    let ms = |step: &Step| match step {
        Pass(seconds) => seconds * 1000,
        _ => 0,
    };
    steps.iter().map(ms).sum()
}
