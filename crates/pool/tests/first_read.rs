//! Large extents with any bit flipped: the blocks of a read are verified first, and no others are read.

use std::fs;
use std::ops::Range;
use std::path::Path;

use halocline_media::Bytes;
use halocline_pool::{ExtentBytes, ObjectKind, Pool, PoolOptions, VerifyMode};

/// Length in bytes: more blocks than fit one page of checksums, the last one partial.
const LEN: usize = 600 * 4096 + 1234;

/// A random number generator (xorshift64*) from a seed that failures print.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end as u64) as usize
    }

    fn range(&mut self) -> Range<usize> {
        let start = self.below(LEN);
        let longest = [10, 5000, 100_000][self.below(3)];
        start..(start + 1 + self.below(longest)).min(LEN)
    }
}

fn contents() -> Vec<u8> {
    (0..LEN)
        .map(|at| ((at * at) >> 5) as u8 ^ (at >> 11) as u8)
        .collect()
}

/// Writes a pool with one large extent, in ascending or descending order; returns its offset.
fn write(path: &Path, scattered: bool) -> u64 {
    let pool = Pool::create(path, &PoolOptions::default()).unwrap();
    let txn = pool.begin().unwrap();
    let mut writer = txn.alloc(LEN as u64 + 99_999).unwrap();
    let bytes = contents();
    if scattered {
        let half = LEN / 2;
        writer.write_at(half as u64, &bytes[half..]);
        writer.write_at(0, &bytes[..half]);
    } else {
        bytes.chunks(777).for_each(|part| writer.append(part));
    }
    let extent = writer.finish(LEN as u64).unwrap();
    txn.put("table/t", ObjectKind::TABLE, b"", vec![extent]).unwrap();
    txn.commit().unwrap();
    pool.close().unwrap();
    extent.offset
}

fn open(path: &Path) -> Pool {
    let options = PoolOptions::default().with_read_only(true);
    Pool::open(path, &options).unwrap()
}

fn extent(pool: &Pool, name: &str) -> ExtentBytes {
    pool.snapshot().unwrap().object(name).unwrap().extent(0).unwrap()
}

#[test]
fn no_flipped_bit_is_read_unnoticed() {
    let directory = tempfile::tempdir().unwrap();
    let expected = contents();
    for scattered in [false, true] {
        let path = directory.path().join(format!("pool-{scattered}"));
        let start = write(&path, scattered) as usize;
        let mut random = Random(0x5eed + u64::from(scattered));
        let mut file = fs::read(&path).unwrap();
        for round in 0..300 {
            let at = random.below(LEN);
            let bit = 1 << random.below(8);
            file[start + at] ^= bit;
            fs::write(&path, &file).unwrap();
            file[start + at] ^= bit;
            let pool = open(&path);
            let bytes = extent(&pool, "table/t");
            for _ in 0..20 {
                let range = random.range();
                let hit = (range.start / 4096..range.end.div_ceil(4096)).contains(&(at / 4096));
                match bytes.verify_range(range.clone()) {
                    Ok(()) => assert!(
                        !hit && bytes[range.clone()] == expected[range],
                        "round {round} at {at}"
                    ),
                    Err(damage) => {
                        assert!(hit, "round {round}: {damage:?} has nothing to do with {at}");
                        assert_eq!(damage.offset, (at / 4096 * 4096) as u64);
                        assert_eq!(damage.object, "extent 0 of 'table/t'");
                    }
                }
            }
            Bytes::verify(&bytes, at, 1);
            assert_eq!(
                bytes.damage().map(|damage| damage.offset),
                Some((at / 4096 * 4096) as u64),
                "round {round}"
            );
        }
    }
}

#[test]
fn damaged_checksums_do_not_hide_or_invent_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let start = write(&path, false) as usize;
    let pages = start + LEN.next_multiple_of(4096);
    let mut random = Random(0xd1ce);
    let mut file = fs::read(&path).unwrap();
    for round in 0..40 {
        let (at, bit) = (pages + random.below(2 * 4096), 1 << random.below(8));
        let data = (round % 2 == 1).then(|| start + random.below(LEN));
        file[at] ^= bit;
        data.into_iter().for_each(|data| file[data] ^= bit);
        fs::write(&path, &file).unwrap();
        file[at] ^= bit;
        data.into_iter().for_each(|data| file[data] ^= bit);
        let pool = open(&path);
        let report = pool.check(|_| ()).unwrap();
        assert_eq!(report.damaged_sums, [("table/t".to_owned(), 0)], "round {round}");
        assert_eq!(report.is_intact(), data.is_none());
        let found = extent(&pool, "table/t").verify_range(0..LEN);
        assert_eq!(found.is_ok(), data.is_none(), "round {round}");
    }
}

#[test]
fn what_is_verified_stays_so_in_later_generations_and_under_other_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    write(&path, true);
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    let left = |name: &str| {
        let bytes = extent(&pool, name);
        let bits = bytes.verified_blocks().iter();
        bits.map(|word| word.load(std::sync::atomic::Ordering::Relaxed).count_ones())
            .sum::<u32>()
    };
    extent(&pool, "table/t").verify_range(5000..13_000).unwrap();
    assert_eq!(left("table/t"), 3);
    let txn = pool.begin().unwrap();
    let same = txn.get("table/t").unwrap().extent_ref(0);
    assert!(same.sums);
    txn.put("table/u", ObjectKind::TABLE, b"", vec![same]).unwrap();
    txn.remove("table/t").unwrap();
    txn.commit().unwrap();
    assert_eq!(
        left("table/u"),
        3,
        "a renamed extent keeps its checksums and what is known of it"
    );
    pool.forget_verified();
    assert_eq!(left("table/u"), 0);
    extent(&pool, "table/u").verify_range(0..LEN).unwrap();
    let all = extent(&pool, "table/u");
    assert!(all.verified_blocks().is_empty(), "nothing is left to verify");
}

#[test]
fn off_holds_for_those_who_do_not_copy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let start = write(&path, false) as usize;
    let mut file = fs::read(&path).unwrap();
    file[start + 100_000] ^= 4;
    fs::write(&path, &file).unwrap();
    let pool = open(&path);
    pool.set_verify_mode(VerifyMode::Off);
    let bytes = extent(&pool, "table/t");
    assert!(bytes.verified_blocks().is_empty());
    bytes.verify_range(0..LEN).unwrap();
    let copying = pool.verified_reads();
    bytes.verify_range(0..LEN).unwrap_err();
    Bytes::verify(&bytes, 100_000, 1);
    assert!(bytes.damage().is_some());
    drop(copying);
    assert!(bytes.damage().is_none() && bytes.verify_range(0..LEN).is_ok());
    bytes.verify_range_again(0..LEN).unwrap_err();
    pool.set_verify_mode(VerifyMode::Lazy);
    bytes.verify_range(0..LEN).unwrap_err();
}
