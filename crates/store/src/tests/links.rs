//! Links of the log to other segments: damaged ones, ones before which frames are damaged, and those that
//! lead to nothing because the process was killed.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::Medium;
use halocline_pool::{ObjectKind, Pool};
use zerocopy::IntoBytes;

use super::workload::options;
use crate::fault::{self, StoreFault};
use crate::layout::{FRAME_FENCED, FRAME_HEAD, FRAME_LINK, FRAME_MORE, FrameHead, SEGMENT};
use crate::log::{LogPosition, LogReader, LogStep, frame_checksum};
use crate::{StoreError, Stores, StoresOptions, WriteBatch};

fn roomy() -> StoresOptions {
    options(&Arc::default()).with_pending_records(10_000)
}

/// The log after the checkpoint: frames, and links with the segments that they lead to.
struct Log {
    image: Vec<u8>,
    frames: Vec<u64>,
    links: Vec<(u64, u64)>,
}

impl Log {
    /// Returns the log after the work, and the image of a process that was killed then.
    fn after(work: impl FnOnce(&Stores)) -> Log {
        let medium = Arc::new(Tracked::new(0).unwrap());
        let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
        let stores = Stores::open_with(&pool, roomy()).unwrap();
        stores.store("s").unwrap();
        stores.checkpoint().unwrap();
        let (position, secret) = {
            let committer = stores.handle.state.committer();
            (committer.log.position(), committer.log.secret())
        };
        work(&stores);
        let of_pool = Medium::from(Arc::clone(&medium));
        let mut reader = LogReader::new(&of_pool, secret, position);
        let (mut frames, mut links) = (Vec::new(), Vec::new());
        loop {
            let at = reader.position().offset;
            match reader.step() {
                LogStep::Link(next) => links.push((at, next)),
                LogStep::OpenFrame(_) => frames.push(at),
                LogStep::End => break,
                LogStep::Damaged(at) => panic!("damage at {at}"),
            }
        }
        Log {
            image: medium.image(),
            frames,
            links,
        }
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Puts values one by one.
fn put_singly(stores: &Stores) {
    let store = stores.store("s").unwrap();
    (0..200).for_each(|number| store.put(key(number), [7; 1000]).unwrap());
}

/// Puts values in one batch of several segments.
fn put_together(stores: &Stores) {
    let store = stores.store("s").unwrap();
    let mut batch = WriteBatch::new();
    (1000..1200).for_each(|number| batch.put(&store, key(number), [8; 1000]).unwrap());
    stores.write(batch).unwrap();
}

fn is_damaged(image: &[u8]) -> bool {
    let pool = Pool::open_on(Arc::new(Tracked::from_image(image).unwrap())).unwrap();
    match Stores::open_with(&pool, roomy()) {
        Err(StoreError::Damaged { .. }) => true,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}

#[test]
fn flipped_links_are_damage() {
    let log = Log::after(put_singly);
    let (at, _) = log.links[1];
    for bit in 0..FRAME_HEAD as usize * 8 {
        let mut changed = log.image.clone();
        changed[at as usize + bit / 8] ^= 1 << (bit % 8);
        assert!(is_damaged(&changed), "bit {bit}");
    }
}

/// The frames and links of a batch do not say that those before them were durable; frames after it do.
#[test]
fn damage_before_links_of_a_batch_is_noticed() {
    let log = Log::after(|stores| {
        put_together(stores);
        put_singly(stores);
    });
    let first = log.frames.iter().take(3);
    for at in first {
        let mut changed = log.image.clone();
        changed[*at as usize + FRAME_HEAD as usize + 8] ^= 1;
        assert!(is_damaged(&changed), "the frame at {at}");
    }
}

/// Opens and closes stores whose log ends with a link or a part of a batch, again and again.
fn reopen_without_ends() {
    for work in [put_singly, put_together] {
        let log = Log::after(work);
        assert!(log.links.len() > 2, "{:?}", log.links);
        for (_, next) in &log.links {
            let mut image = log.image.clone();
            // What the process had stored in this segment, and in the next ones, was not durable.
            for (_, lost) in log.links.iter().skip_while(|(_, first)| first != next) {
                image[*lost as usize..(lost + SEGMENT) as usize].fill(0);
            }
            let pool = Pool::open_on(Arc::new(Tracked::from_image(&image).unwrap())).unwrap();
            let mut keys = None;
            for round in 0..4 {
                let stores = Stores::open_with(&pool, roomy()).unwrap();
                let store = stores.store("s").unwrap();
                assert_eq!(*keys.get_or_insert(store.len()), store.len(), "round {round}");
                // Checkpoints take free segments.
                stores.store(&format!("other {round}")).unwrap();
                stores.checkpoint().unwrap();
            }
        }
    }
}

#[test]
fn a_log_without_its_end_opens_again_and_again() {
    reopen_without_ends();
}

/// Returns a frame without records at a position of the log, and the position after it.
fn frame(secret: u64, at: LogPosition, flags: u16, commit: u64) -> (FrameHead, LogPosition) {
    let mut head = FrameHead {
        len: (FRAME_HEAD as u32).into(),
        flags: flags.into(),
        records: 0_u16.into(),
        number: at.number.into(),
        chain: at.chain.into(),
        commit: commit.into(),
        checksum: 0.into(),
    };
    head.checksum = frame_checksum(secret, at.offset, &head, &[]).into();
    let next = LogPosition {
        offset: at.offset + FRAME_HEAD,
        number: at.number + 1,
        chain: head.checksum.get(),
        ..at
    };
    (head, next)
}

/// Returns the image of stores whose log ends with a link to a place that is not theirs: in another object of
/// the pool, where a frame with these flags is, or beyond the end of the pool.
fn with_foreign_link(is_beyond: bool, flags: Option<u16>) -> Vec<u8> {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, roomy()).unwrap();
    put_singly(&stores);
    let txn = pool.begin().unwrap();
    let len = 2 * SEGMENT;
    let mut extent = txn.alloc(len).unwrap();
    extent.append(&vec![0x77; len as usize]);
    let extent = extent.finish(len).unwrap();
    txn.put("other", ObjectKind(77), &[], vec![extent]).unwrap();
    txn.commit().unwrap();
    let (position, secret) = {
        let committer = stores.handle.state.committer();
        (committer.log.position(), committer.log.secret())
    };
    let mut image = medium.image();
    let object = pool.snapshot().unwrap().object("other").unwrap();
    let target = if is_beyond {
        image.len() as u64 + SEGMENT
    } else {
        object.extent_ref(0).offset.next_multiple_of(8)
    };
    assert!(!stores.handle.state.slab.is_node(target));
    let mut store = |at: u64, head: &FrameHead| {
        image[at as usize..(at + FRAME_HEAD) as usize].copy_from_slice(head.as_bytes());
    };
    let (link, next) = frame(secret, position, FRAME_LINK | FRAME_FENCED, target);
    store(position.offset, &link);
    if let Some(flags) = flags {
        let there = LogPosition {
            offset: target,
            segment: target,
            ..next
        };
        store(target, &frame(secret, there, flags, 1 << 20).0);
    }
    image
}

/// A link that an earlier program did not erase may lead to what was given back to the pool since.
#[test]
fn a_link_to_what_was_given_back_ends_the_log() {
    for (is_beyond, flags) in [(false, None), (true, None), (false, Some(FRAME_MORE))] {
        let image = with_foreign_link(is_beyond, flags);
        let pool = Pool::open_on(Arc::new(Tracked::from_image(&image).unwrap())).unwrap();
        for round in 0..3 {
            let stores = Stores::open_with(&pool, roomy()).unwrap();
            let store = stores.store("s").unwrap();
            assert_eq!(store.len(), 200 + round, "{is_beyond}, {flags:?}");
            store.put(key(1000 + round as u32), "more").unwrap();
        }
    }
    // There is a whole batch.
    assert!(is_damaged(&with_foreign_link(false, Some(0))));
}

#[test]
fn an_unfinished_batch_that_stays_is_noticed() {
    let kept = || fault::with(StoreFault::KeepUnfinished, reopen_without_ends);
    assert!(std::panic::catch_unwind(kept).is_err());
}
