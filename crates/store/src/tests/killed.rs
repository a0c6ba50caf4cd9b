//! Tests of the state that a killed process has left: frames that are not durable, and stores that the next
//! one has not settled when it is killed, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_explore::{Crash, Report, Tracked, Violation};
use halocline_media::{Medium, MediumAccess, MediumBackend};
use halocline_pool::Pool;

use super::workload::StoreStep::{
    Checkpoint, Delete, DeleteRange, HideRange, Put, PutAmidMoves, Reclaim, Snapshot,
};
use super::workload::{Running, StoreStep, Visible, explorer, states};
use crate::fault::{self, StoreFault};
use crate::segments::SegmentKind;

fn open(memory: &Arc<Tracked>) -> Running {
    let pool = Pool::open_on(Medium::from(memory)).unwrap();
    Running::open(&pool).unwrap()
}

/// Returns what a process has stored that makes these steps and is killed.
fn killed(image: &[u8], first: usize, steps: &[StoreStep]) -> Vec<u8> {
    let memory = Arc::new(Tracked::from_image(image).unwrap());
    let mut running = open(&memory);
    for (at, step) in steps.iter().enumerate() {
        running.step(first + at, step).unwrap();
    }
    std::mem::forget(running);
    memory.image()
}

/// Returns the image of new stores after these steps.
fn closed(steps: &[StoreStep]) -> Vec<u8> {
    let memory = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Medium::from(&memory)).unwrap();
    let mut running = Running::open(&pool).unwrap();
    for (at, step) in steps.iter().enumerate() {
        running.step(at, step).unwrap();
    }
    drop((running, pool));
    memory.image()
}

/// Explores commits after frames that a killed process has stored and not flushed.
fn commits_behind_lost_frames() -> Result<Report, Box<Violation>> {
    let setup = [Put(1, 9), Checkpoint];
    let lost = [Put(2, 300)];
    let steps = [Put(4, 20), Put(2, 30)];
    let states = states(&[&setup[..], &lost, &steps].concat());
    let before = closed(&setup);
    let check = |memory: Arc<Tracked>, crash: &Crash<'_>| -> Result<(), String> {
        let pool = Pool::open_on(Medium::from(memory)).map_err(|error| error.to_string())?;
        let found: Visible = Running::open(&pool)?.contents()?;
        let durable = match crash.acknowledged.len() {
            0 => setup.len(),
            acknowledged => setup.len() + lost.len() + acknowledged,
        };
        if states[durable..].contains(&found) {
            Ok(())
        } else {
            Err(format!("{} keys of state {durable}", found[0].len()))
        }
    };
    explorer().run(
        |memory| {
            memory.grow(before.len() as u64).unwrap();
            memory.store(0, &before);
        },
        |memory| {
            let after = killed(&before, setup.len(), &lost);
            for (line, bytes) in after.chunks(64).enumerate() {
                let offset = line * 64;
                if before.get(offset..offset + bytes.len()) != Some(bytes) {
                    memory.store(offset as u64, bytes);
                }
            }
            let mut running = open(memory);
            for (at, step) in steps.iter().enumerate() {
                memory.begin(at as u64);
                running.step(setup.len() + lost.len() + at, step).unwrap();
                memory.acknowledge(at as u64);
            }
            std::mem::forget(running);
        },
        check,
    )
}

#[test]
fn commits_behind_frames_of_a_killed_process_are_durable() {
    let report = commits_behind_lost_frames().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 20, "{report}");
    let fault = StoreFault::TrustUnfenced;
    assert!(
        fault::with(fault, commits_behind_lost_frames).is_err(),
        "{fault:?} is not noticed"
    );
}

fn puts(keys: std::ops::Range<u32>, len: usize) -> Vec<StoreStep> {
    keys.map(|key| Put(key, len)).collect()
}

/// Returns the number of needed bytes in log segments, as counted and as found by walking the stores.
pub(super) fn needed_bytes(running: &Running) -> (u64, u64) {
    let state = &running.stores.handle.state;
    state.settle().unwrap();
    let counted = {
        let segments = state.segments();
        let logs = segments
            .iter()
            .filter(|(_, segment)| segment.kind == SegmentKind::Log);
        logs.map(|(_, segment)| segment.used).sum()
    };
    let mut found = 0;
    for store in state.stores().values() {
        let each = |_: &[u8], record: crate::record::RecordRef| {
            let chunks = state.extent_of(&record).unwrap().1.into_iter();
            let chunks = chunks.map(|chunk| crate::record::RecordRef::load(state.medium(), chunk).unwrap());
            found += record.len() + chunks.map(|chunk| chunk.len()).sum::<u64>();
        };
        state
            .for_each_newest(store, &crate::key_range::KeyRange::ALL, each)
            .unwrap();
    }
    (counted, found)
}

/// Each process is killed before it has settled what the one before has left, or after that.
#[test]
fn what_a_killed_process_has_left_is_settled_later() {
    let setup = [puts(0..60, 30), vec![Delete(7), Checkpoint]].concat();
    let lives: [Vec<StoreStep>; 4] = [
        [puts(5..15, 40), puts(100..110, 50), vec![Delete(9), Put(5, 1)]].concat(),
        [puts(8..20, 60), vec![DeleteRange(102, 104), Delete(11)]].concat(),
        vec![Put(5, 3), Put(200, 5), Delete(200)],
        puts(0..10, 70),
    ];
    for is_settled in [false, true] {
        let mut image = closed(&setup);
        let mut all = setup.clone();
        for steps in &lives {
            let settle = |image: &[u8]| {
                let memory = Arc::new(Tracked::from_image(image).unwrap());
                let running = open(&memory);
                running.stores.handle.state.settle().unwrap();
                std::mem::forget(running);
                memory.image()
            };
            if is_settled {
                image = settle(&image);
            }
            image = killed(&image, all.len(), steps);
            all.extend_from_slice(steps);
            let memory = Arc::new(Tracked::from_image(&image).unwrap());
            let running = open(&memory);
            let found = running.contents().unwrap();
            assert_eq!(Some(&found), states(&all).last());
            let counted: Vec<u64> = running.open.iter().map(crate::Store::len).collect();
            assert_eq!(counted, [found[0].len() as u64, found[1].len() as u64]);
            let bytes: usize = found[0].iter().map(|(key, value)| key.len() + value.len()).sum();
            assert_eq!(running.open[0].bytes(), bytes as u64);
            let (counted, found) = needed_bytes(&running);
            assert_eq!(counted, found);
        }
    }
}

/// Returns true if stores hold what they held and what is added, after a process was killed after a
/// checkpoint.
fn keeps_pages() -> bool {
    let setup = [puts(0..60, 30), vec![Checkpoint]].concat();
    let added: Vec<StoreStep> = (0..30)
        .flat_map(|key| [Put(100 + key, 15_000), Checkpoint])
        .collect();
    let image = killed(&closed(&[]), 0, &setup);
    let memory = Arc::new(Tracked::from_image(&image).unwrap());
    let mut running = open(&memory);
    let mut numbered = added.iter().enumerate();
    let are_added = numbered.all(|(at, step)| running.step(setup.len() + at, step).is_ok());
    let all = [setup, added].concat();
    are_added
        && running
            .contents()
            .is_ok_and(|found| Some(&found) == states(&all).last())
}

#[test]
fn pages_of_a_checkpoint_are_in_use() {
    assert!(keeps_pages());
    let fault = StoreFault::ForgetAllocated;
    assert!(!fault::with(fault, keeps_pages), "{fault:?} is not noticed");
}

/// The log has copies of versions of the checkpoint: pointed to or not, superseded by a commit before the
/// process was killed, or by the next one before it settles.
#[test]
fn copies_of_a_killed_process_are_counted_once() {
    let rewrites: Vec<StoreStep> = (0..9).map(|at| Put(at % 4, 15_000)).collect();
    let setup = [puts(0..20, 30), rewrites, vec![Checkpoint]].concat();
    let image = closed(&setup);
    for (amid, is_pointed) in [(false, false), (true, false), (false, true), (true, true)] {
        let memory = Arc::new(Tracked::from_image(&image).unwrap());
        let mut running = open(&memory);
        let state = Arc::clone(&running.stores.handle.state);
        // As a killed process that has appended copies, and changed the pointers or not.
        let mut copied = crate::moves::CopiedRecords::default();
        let segments = state.segments_to_empty(u64::MAX);
        state.copy_needed(&segments, &mut copied).unwrap();
        assert!(copied.bytes > 100);
        let mut all = setup.clone();
        if amid {
            running.step(all.len(), &Put(6, 33)).unwrap();
            all.push(Put(6, 33));
        }
        if is_pointed {
            state.move_copied(copied).unwrap();
        }
        std::mem::forget((running, state));
        let memory = Arc::new(Tracked::from_image(&memory.image()).unwrap());
        let mut running = open(&memory);
        // Before the keys are settled.
        assert!(!running.stores.handle.state.is_settled.load(Ordering::Acquire));
        for step in [Put(7, 11), Put(7, 12), Delete(8), Put(6, 34)] {
            running.step(all.len(), &step).unwrap();
            all.push(step);
        }
        let (counted, found) = needed_bytes(&running);
        // Where the originals are that entries do not lead to any more, only the killed process knew.
        assert!(
            counted == found || is_pointed && counted > found,
            "{counted}, {found}"
        );
        for step in [Reclaim, PutAmidMoves(9, 7), Reclaim] {
            running.step(all.len(), &step).unwrap();
            all.push(step);
        }
        let found = running.contents().unwrap();
        assert_eq!(Some(&found), states(&all).last());
        assert_eq!(running.open[0].len(), found[0].len() as u64);
    }
}

/// Returns how many more bytes count as needed than are, after keys with copies in the log were set. A killed
/// process has let their entries lead to the copies, so that nobody knows the originals, and perhaps deleted
/// a range that hides them.
fn unneeded_behind_copies(hides: bool) -> u64 {
    let rewrites: Vec<StoreStep> = (0..9).map(|at| Put(at % 4, 15_000)).collect();
    let setup = [puts(0..20, 30), rewrites, vec![Checkpoint]].concat();
    let memory = Arc::new(Tracked::from_image(&closed(&setup)).unwrap());
    let mut running = open(&memory);
    let state = Arc::clone(&running.stores.handle.state);
    let mut copied = crate::moves::CopiedRecords::default();
    let segments = state.segments_to_empty(u64::MAX);
    state.copy_needed(&segments, &mut copied).unwrap();
    assert!(copied.bytes > 100);
    state.move_copied(copied).unwrap();
    let hidden = hides.then_some(HideRange(0, 20));
    let steps: Vec<StoreStep> = hidden.into_iter().chain([Put(7, 11), Put(6, 12)]).collect();
    let behind = steps.len() - 2;
    for (at, step) in steps[..behind].iter().enumerate() {
        running.step(setup.len() + at, step).unwrap();
    }
    std::mem::forget((running, state));
    let memory = Arc::new(Tracked::from_image(&memory.image()).unwrap());
    let mut running = open(&memory);
    assert!(!running.stores.handle.state.is_settled.load(Ordering::Acquire));
    for (at, step) in steps.iter().enumerate().skip(behind) {
        running.step(setup.len() + at, step).unwrap();
    }
    let all = [&setup[..], &steps].concat();
    assert_eq!(running.contents().ok().as_ref(), states(&all).last());
    let (counted, found) = needed_bytes(&running);
    counted.checked_sub(found).unwrap()
}

#[test]
fn copies_of_hidden_keys_are_counted_once() {
    let expected = unneeded_behind_copies(false);
    assert_eq!(unneeded_behind_copies(true), expected);
    let fault = StoreFault::DeleteUnsettled;
    let unneeded = fault::with(fault, || unneeded_behind_copies(true));
    assert!(unneeded < expected, "{fault:?} is not noticed");
}

/// Returns how many more bytes count as needed than are, after keys were set after a checkpoint, segments
/// with their versions before emptied, and the process killed. A snapshot keeps the first versions. The
/// second ones may have been hidden by a range that the checkpoint carries on, whose deletions have its
/// commit.
fn unneeded_beside_a_snapshot(hides: bool) -> u64 {
    let rewrites = (0..9).map(|at| Put(30 + at % 4, 15_000));
    let steps: Vec<StoreStep> = puts(0..20, 30)
        .into_iter()
        .chain([Snapshot])
        .chain(puts(0..20, 40))
        .chain(rewrites)
        .chain(hides.then_some(HideRange(0, 20)))
        .chain([Checkpoint])
        .chain(puts(0..20, 5))
        .chain([PutAmidMoves(40, 7)])
        .collect();
    let image = killed(&closed(&[]), 0, &steps);
    let memory = Arc::new(Tracked::from_image(&image).unwrap());
    let running = open(&memory);
    let found = running.contents().unwrap();
    assert_eq!(Some(&found), states(&steps).last());
    assert_eq!(running.open[0].len(), found[0].len() as u64);
    let bytes: usize = found[0].iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(running.open[0].bytes(), bytes as u64);
    let (counted, found) = needed_bytes(&running);
    counted.checked_sub(found).unwrap()
}

#[test]
fn versions_that_hidden_keys_had_are_settled() {
    assert_eq!(
        unneeded_beside_a_snapshot(true),
        unneeded_beside_a_snapshot(false)
    );
}
