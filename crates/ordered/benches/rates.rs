//! Benchmark of a tree: rates of its operations, lines flushed and fences waited for.
//!
//! ```text
//! cargo bench -p halocline-ordered --bench rates -- [KEYS] [FOLDER] [TREE] [still] [count]
//! ```
//! Inserts KEYS (1,000,000) random keys into a tree in FOLDER (/dev/shm), on a file that is treated as
//! DAX, so that every flush is executed, and then measures each operation, on one thread unless stated
//! otherwise. TREE is `lb`, `lb2`, `lb4`, `fp`, `wb`, `fast-fair`, or `still`, an `lb` without entry
//! moving. `count` counts lines and fences, which takes some time itself.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use halocline_media::{Counting, FileMedium, FileOptions, FlushCounts, Medium};
use halocline_ordered::{LbOptions, LbTree, OrderedIndex, TreeError, TreeKind, create_tree, open_tree};
use halocline_pool::Pool;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

type Failure = Box<dyn std::error::Error>;

/// Number of keys per batched lookup.
const BATCH: usize = 1024;

struct Settings {
    keys: usize,
    folder: String,
    kind: TreeKind,
    still: bool,
    count: bool,
}

fn main() -> Result<(), Failure> {
    // `cargo bench` passes `--bench`; `cargo test` does not, and uses small data.
    let (flags, rest): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--bench");
    let measured = !flags.is_empty();
    let mut arguments = rest.into_iter();
    let default = if measured { 1_000_000 } else { 1_000 };
    let keys = arguments.next().map_or(Ok(default), |text| text.parse())?;
    let folder = arguments.next().unwrap_or_else(|| "/dev/shm".to_owned());
    let kind = arguments.next().map_or(Ok(TreeKind::Lb), |text| text.parse())?;
    let words: Vec<String> = arguments.collect();
    let said = |what: &str| words.iter().any(|word| word == what);
    let settings = Settings {
        keys,
        folder,
        kind,
        still: said("still"),
        count: said("count"),
    };
    println!(
        "{keys} keys, {kind}{}",
        if settings.still { ", no entries moved" } else { "" }
    );
    measure(&settings)
}

const STILL: LbOptions = LbOptions {
    moving: false,
    chunk: 256 << 10,
};

fn create(settings: &Settings, pool: &Pool) -> Result<Box<dyn OrderedIndex>, TreeError> {
    if settings.still {
        Ok(Box::new(<LbTree>::create(pool, "tree", STILL)?))
    } else {
        create_tree(pool, "tree", settings.kind)
    }
}

/// Returns a key that is unique to `number`.
fn key(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7FB5_D329_728E_A185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81DA_DEF4_BC2D_D44D)
}

fn measure(settings: &Settings) -> Result<(), Failure> {
    let path = format!("{}/halocline-rates-{}.pool", settings.folder, std::process::id());
    let file = FileOptions {
        create: true,
        assume_dax: true,
        ..FileOptions::default()
    };
    let result = FileMedium::open(&path, &file)
        .map_err(Failure::from)
        .and_then(|medium| {
            let medium = Medium::from(medium);
            if settings.count {
                let medium = Arc::new(Counting::new(medium));
                rates(settings, &Medium::from(&medium), || medium.counts())
            } else {
                rates(settings, &medium, FlushCounts::default)
            }
        });
    std::fs::remove_file(&path)?;
    result
}

fn rates(settings: &Settings, medium: &Medium, counts: impl Fn() -> FlushCounts) -> Result<(), Failure> {
    let keys = settings.keys;
    let extra = keys / 5;
    let pool = Pool::create_on(medium)?;
    let tree = create(settings, &pool)?;
    let counted = |what: &str, count: usize, work: &mut dyn FnMut() -> Result<(), Failure>| {
        let (before, start) = (counts(), Instant::now());
        work()?;
        let seconds = start.elapsed().as_secs_f64();
        let cost = counts() - before;
        print!("{what:<24} {:>7.3} Mop/s", count as f64 / seconds / 1e6);
        if cost.fences > 0 {
            let each = |number: u64| number as f64 / count as f64;
            print!("   {:.3} lines {:.3} fences", each(cost.lines), each(cost.fences));
        }
        println!();
        Ok::<(), Failure>(())
    };
    counted("load by inserts", keys, &mut || {
        for number in 0..keys as u64 {
            tree.insert(key(number), number)?;
        }
        Ok(())
    })?;
    counted("insert", extra, &mut || {
        for number in keys..keys + extra {
            tree.insert(key(number as u64), 1)?;
        }
        Ok(())
    })?;
    println!("{:?}", tree.stats());

    let mut rng = SmallRng::seed_from_u64(1);
    let lookups = keys / 2;
    let uniform: Vec<u64> = (0..lookups)
        .map(|_| key(rng.random_range(0..keys as u64)))
        .collect();
    let skewed = zipf(keys, lookups, &mut rng);
    let mut sum = 0;
    for (what, wanted) in [("get, uniform", &uniform), ("get, Zipf 0.99", &skewed)] {
        counted(what, lookups, &mut || {
            for key in wanted {
                sum += tree.get(*key)?.ok_or("a key is missing")?;
            }
            Ok(())
        })?;
        counted(&format!("{what}, batched"), lookups, &mut || {
            let mut values = vec![None; BATCH];
            for keys in wanted.chunks(BATCH) {
                tree.get_batch(keys, &mut values[..keys.len()])?;
                sum += values.iter().flatten().sum::<u64>();
            }
            Ok(())
        })?;
    }
    counted("get, none there", lookups, &mut || {
        for key in &uniform {
            sum += tree.get(key ^ 1 << 17)?.unwrap_or(0);
        }
        Ok(())
    })?;
    let scans = keys / 20;
    counted("scan 100", scans, &mut || {
        let mut entries = Vec::with_capacity(200);
        for key in &uniform[..scans] {
            entries.clear();
            tree.scan(*key, 100, &mut entries)?;
            sum += entries.len() as u64;
        }
        Ok(())
    })?;
    counted("update", lookups, &mut || {
        for key in &uniform {
            tree.update(*key, 3)?;
        }
        Ok(())
    })?;
    two_threads("get, uniform", lookups, |half| {
        for key in uniform.iter().skip(half).step_by(2) {
            tree.get(*key).ok();
        }
    });
    two_threads("insert", extra, |half| {
        for number in (keys + extra + half..keys + 2 * extra).step_by(2) {
            tree.insert(key(number as u64), 1).ok();
        }
    });
    let mut doomed: Vec<u64> = (0..extra as u64).map(|number| key(number * 5)).collect();
    doomed.shuffle(&mut rng);
    counted("remove", extra, &mut || {
        for key in &doomed {
            tree.remove(*key)?;
        }
        Ok(())
    })?;
    counted("insert, stable tree", extra, &mut || {
        for key in &doomed {
            tree.insert(*key, 1)?;
        }
        Ok(())
    })?;
    drop(tree);
    let start = Instant::now();
    let tree = open_tree(&pool, "tree")?;
    println!("opened in {:.3} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let entries = tree.len();
    println!(
        "{entries} entries, counted in {:.3} s",
        start.elapsed().as_secs_f64()
    );
    let start = Instant::now();
    let report = tree.check()?;
    println!(
        "checked in {:.3} s, intact: {}",
        start.elapsed().as_secs_f64(),
        report.is_intact()
    );
    std::hint::black_box(sum);
    Ok(())
}

fn two_threads(what: &str, count: usize, work: impl Fn(usize) + Sync) {
    let start = Instant::now();
    thread::scope(|scope| {
        for half in 0..2 {
            let work = &work;
            scope.spawn(move || work(half));
        }
    });
    let rate = count as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{:<24} {rate:>7.3} Mop/s", format!("{what}, 2 threads"));
}

/// Draws key numbers from a Zipf distribution with exponent 0.99 (Gray et al., SIGMOD 1994), scattered.
fn zipf(keys: usize, count: usize, rng: &mut SmallRng) -> Vec<u64> {
    const THETA: f64 = 0.99;
    let zeta = |n: usize| (1..=n).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
    let (all, two) = (zeta(keys), zeta(2));
    let alpha = 1.0 / (1.0 - THETA);
    let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - THETA)) / (1.0 - two / all);
    let mut rank = || {
        let u: f64 = rng.random();
        let scaled = u * all;
        match scaled {
            ..1.0 => 0,
            _ if scaled < two => 1,
            _ => (keys as f64 * (eta * u - eta + 1.0).powf(alpha)) as u64,
        }
    };
    (0..count).map(|_| key(rank().min(keys as u64 - 1))).collect()
}
