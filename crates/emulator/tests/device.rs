//! The emulated device on a virtual clock: microbenchmarks whose results follow from the profile.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use halocline_emulator::CoreShape;
use halocline_emulator::{
    CacheShape, ClockMode, Counts, Device, DeviceProfile, EmulatedBytes, EmulatedSpec, Host, Watch,
};
use halocline_media::{Bytes, Dram, LINE};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const REGION: u64 = 512 * MIB;

fn spec(profile: DeviceProfile, core: CoreShape) -> EmulatedSpec {
    EmulatedSpec {
        clock: ClockMode::Virtual,
        cache: CacheShape::with_bytes(14 * MIB),
        host: Some(Host::like(&profile.dram)),
        core,
        ..EmulatedSpec::new(profile)
    }
}

fn device(profile: DeviceProfile) -> Arc<Device> {
    Device::new(&spec(profile, CoreShape::default())).unwrap()
}

/// Returns the nanoseconds on the virtual clock per call over `count` calls, and the counts of the whole run.
fn each(device: &Device, count: u64, mut act: impl FnMut(u64)) -> (f64, Counts) {
    let (before, counts) = (device.elapsed(), device.counts());
    (0..count).for_each(&mut act);
    device.settle();
    let ns = (device.elapsed() - before).as_secs_f64() * 1e9 / count as f64;
    (ns, device.counts() - counts)
}

fn about(is: f64, wanted: f64, percent: f64, what: &str) {
    assert!(
        (is / wanted - 1.0).abs() * 100.0 <= percent,
        "{what}: {is}, should be {wanted} within {percent} %"
    );
}

/// Returns addresses in random order, each in a different unit.
fn random_place(step: u64) -> u64 {
    step.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (REGION / 4096) * 4096
}

#[test]
fn a_pointer_chase_takes_the_profiles_latency() {
    for (profile, latency) in [
        (DeviceProfile::dram(), 90.0),
        (DeviceProfile::optane(), 325.0),
        (DeviceProfile::cxl(), 210.0),
        (DeviceProfile::nvme(), 200_000.0),
    ] {
        let device = device(profile);
        let (ns, counts) = each(&device, 10_000, |step| device.touch(random_place(step), 8));
        about(ns, latency, 0.1, &device.to_string());
        assert_eq!(
            (counts.lines, counts.hits, counts.streamed),
            (10_000, 0, 0),
            "{device}"
        );
    }
}

#[test]
fn work_between_dependent_accesses_comes_on_top() {
    let device = device(DeviceProfile::optane());
    let (ns, _) = each(&device, 10_000, |step| {
        device.touch(random_place(step), 8);
        device.work(Duration::from_nanos(20));
    });
    about(ns, 345.0, 0.1, "chase with work");
}

#[test]
fn a_search_loop_overlaps_what_does_not_depend_on_each_other() {
    // One list is read again and again, and at each of its entries a child somewhere else: the addresses of
    // the children are known without the children.
    let cost = |window_ns: f64, work: u64| {
        let core = CoreShape {
            window_ns,
            ..CoreShape::default()
        };
        let device = Device::new(&spec(DeviceProfile::optane(), core)).unwrap();
        let list = 600 * MIB;
        device.touch(list, 8);
        device.settle();
        let (ns, _) = each(&device, 10_000, |step| {
            device.touch(list + step % 8 * 8, 8);
            device.touch(random_place(step), 8);
            device.work(Duration::from_nanos(work));
        });
        ns
    };
    about(cost(0.0, 20), 345.0, 1.0, "without a window");
    // Three children within 50 ns of work: the core continues once the first has arrived.
    let overlapped = cost(50.0, 20);
    assert!((345.0 / 4.0..345.0 / 2.0).contains(&overlapped), "{overlapped}");
    // With more work than the window holds, the gain is the window.
    about(cost(50.0, 200), 325.0 + 200.0 - 50.0, 2.0, "much work");
}

#[test]
fn prefetched_accesses_overlap_up_to_the_misses_of_a_core() {
    for misses in [1, 4, 12] {
        let core = CoreShape {
            misses,
            ..CoreShape::default()
        };
        let device = Device::new(&spec(DeviceProfile::optane(), core)).unwrap();
        let (ns, counts) = each(&device, 1000, |group| {
            for step in 0..16 {
                device.prefetch(random_place(group * 16 + step));
            }
            for step in 0..16 {
                device.touch(random_place(group * 16 + step), 8);
            }
        });
        let rounds = 16_u64.div_ceil(misses as u64) as f64;
        about(ns, rounds * 325.0, 10.0, "a group of 16");
        assert_eq!((counts.lines, counts.hits), (16_000, 16_000));
    }
}

#[test]
fn strides_show_the_unit() {
    let core = CoreShape {
        ahead: Some(0),
        window_ns: 0.0,
        ..CoreShape::default()
    };
    let sweep = |profile: DeviceProfile| {
        [64, 128, 256, 512, 4096].map(|stride| {
            let device = Device::new(&spec(profile.clone(), core)).unwrap();
            each(&device, 10_000, |step| device.touch(step * stride, 8)).0
        })
    };
    let (optane, dram) = (sweep(DeviceProfile::optane()), sweep(DeviceProfile::dram()));
    for (is, wanted) in optane.iter().zip([175.0, 225.0, 325.0, 325.0, 325.0]) {
        about(*is, wanted, 1.0, "optane");
    }
    for (is, wanted) in dram.iter().zip([80.0, 90.0, 90.0, 90.0, 90.0]) {
        about(*is, wanted, 1.0, "dram");
    }
}

/// Returns the total GB/s of several threads that call `act` for the lines of disjoint parts.
fn bandwidth(device: &Arc<Device>, threads: u64, act: impl Fn(&Device, u64) + Sync) -> f64 {
    const LINES: u64 = 100_000;
    let barrier = Barrier::new(threads as usize);
    let before = device.elapsed();
    device.share_among(threads as usize);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (barrier, act) = (&barrier, &act);
            scope.spawn(move || {
                device.settle();
                barrier.wait();
                let base = device.reserve(LINES * LINE);
                (0..LINES).for_each(|line| act(device, base + line * LINE));
                device.fence();
                device.settle();
            });
        }
    });
    (threads * LINES * LINE) as f64 / (device.elapsed() - before).as_secs_f64() / 1e9
}

#[test]
fn sequential_bandwidth_is_the_profiles_by_thread_count() {
    let mut optane = DeviceProfile::optane();
    optane.device.read_gbps = vec![8.0, 16.0, 24.0, 32.0];
    optane.device.write_gbps = vec![6.0, 13.0, 11.0];
    for (threads, read, write) in [(1, 8.0, 6.0), (2, 16.0, 13.0), (4, 32.0, 11.0), (8, 32.0, 11.0)] {
        let device = device(optane.clone());
        let is = bandwidth(&device, threads, |device, at| device.touch(at, 64));
        about(is, read, 10.0, &format!("{threads} threads read"));
        let is = bandwidth(&device, threads, |device, at| {
            device.wrote(at, 64);
            device.flush(at, 64);
        });
        about(is, write, 10.0, &format!("{threads} threads write"));
    }
}

#[test]
fn a_prefetcher_of_few_lines_has_less_than_the_bandwidth() {
    let mut optane = DeviceProfile::optane();
    optane.device.read_gbps = vec![8.0];
    let sequential = |ahead| {
        let core = CoreShape {
            ahead,
            ..CoreShape::default()
        };
        let device = Device::new(&spec(optane.clone(), core)).unwrap();
        bandwidth(&device, 1, |device, at| device.touch(at, 64))
    };
    about(sequential(None), 8.0, 10.0, "as far as it takes");
    let (none, few) = (sequential(Some(0)), sequential(Some(20)));
    // The prefetched lines per latency, and the core's own misses.
    about(few, 20.0 * 64.0 / 325.0, 30.0, "20 lines");
    assert!(
        none < 0.75 * few,
        "{none} GB/s without a prefetcher, {few} with one"
    );
}

#[test]
fn large_touches_take_the_bandwidth() {
    let mut optane = DeviceProfile::optane();
    optane.device.read_gbps = vec![8.0];
    let device = device(optane);
    let (ns, counts) = each(&device, 100, |step| device.touch(step * MIB, MIB as usize));
    about(ns, MIB as f64 / 8.0, 10.0, "1 MiB");
    assert_eq!((counts.lines, counts.units), (100 * MIB / LINE, 100 * MIB / 256));
}

/// Returns the nanoseconds per 2 KiB range when several sequences are read in turn, with the given work per
/// range.
fn scanned(places: u64, work: Duration) -> f64 {
    let mut optane = DeviceProfile::optane();
    optane.device.read_gbps = vec![8.0];
    let device = device(optane);
    let (ns, counts) = each(&device, 12_000, |step| {
        device.scan(step % places * (GIB + 31 * MIB) + step / places * 2048, 2048);
        device.work(work);
    });
    let read = 12_000 * 2048 / LINE;
    assert!((read..read + places * 64).contains(&counts.lines), "{counts:?}");
    ns
}

#[test]
fn scans_take_the_bandwidth_or_the_work_whichever_is_more() {
    for places in [1, 3, 12] {
        about(scanned(places, Duration::ZERO), 2048.0 / 8.0, 10.0, "no work");
        about(
            scanned(places, Duration::from_nanos(200)),
            2048.0 / 8.0,
            10.0,
            "less work than transfer",
        );
        about(
            scanned(places, Duration::from_nanos(900)),
            900.0,
            20.0,
            "more work than transfer",
        );
    }
}

#[test]
fn what_was_asked_for_ahead_of_a_scan_comes_beside_the_work() {
    let device = device(DeviceProfile::optane());
    let scan = |ahead: bool| {
        each(&device, 1000, |step| {
            let at = step * 64 * 1024;
            device.scan(at, 4096);
            if ahead {
                device.scan_ahead(at + 4096, 60 * 1024);
            }
            device.work(Duration::from_micros(10));
            device.scan(at + 4096, 60 * 1024);
        })
        .0
    };
    let (without, with) = (scan(false), scan(true));
    assert!(with < 0.95 * without, "{with} ns, {without} ns without");
    // Nothing is fetched where no scan is expected.
    let before = device.counts();
    device.scan_ahead(500 * GIB, 4096);
    assert_eq!((device.counts() - before).lines, 0);
}

#[test]
fn touches_of_each_overlap() {
    let device = device(DeviceProfile::optane());
    let places = |step: u64| (0..12).map(move |i| random_place(12 * step + i));
    let (ns, counts) = each(&device, 1000, |step| device.touch_each(places(step)));
    about(ns, 325.0, 100.0, "twelve at once");
    assert!(counts.lines > 11_900 && counts.calls < 1010, "{counts:?}");
}

#[test]
fn relative_keeps_the_ratio_and_absolute_the_figures() {
    let optane = DeviceProfile::optane();
    let host = Host {
        random_ns: 180.0,
        read_gbps: vec![10.0],
        write_gbps: vec![5.0],
    };
    for (absolute, wanted) in [(false, 650.0), (true, 325.0)] {
        let spec = EmulatedSpec {
            absolute,
            host: Some(host.clone()),
            ..spec(optane.clone(), CoreShape::default())
        };
        let device = Device::new(&spec).unwrap();
        let (ns, _) = each(&device, 1000, |step| device.touch(random_place(step), 8));
        about(ns, wanted, 0.2, &device.to_string());
    }
}

#[test]
fn counts_are_those_of_a_plain_model() {
    let seed = RandomState::new().hash_one(0);
    let run = || {
        let mut random = SmallRng::seed_from_u64(seed);
        let core = CoreShape {
            ahead: Some(0),
            ..CoreShape::default()
        };
        let spec = EmulatedSpec {
            cache: CacheShape::with_bytes(2 << 10),
            ..spec(DeviceProfile::optane(), core)
        };
        let device = Device::new(&spec).unwrap();
        // Two sets of 16 lines, each a list, most recent first; the buffer of units has four such sets.
        let (mut lines, mut units) = (vec![Vec::new(); 2], vec![Vec::new(); 4]);
        let mut wanted = Counts::default();
        let seen = |list: &mut Vec<u64>, item: u64| {
            let at = list.iter().position(|held| *held == item);
            at.map(|at| list.remove(at));
            list.insert(0, item);
            list.truncate(16);
            at.is_some()
        };
        for _ in 0..5000 {
            let (at, len) = (random.random_range(0..200 * LINE), random.random_range(1..2000));
            let prefetch = random.random_bool(0.3);
            let last = if prefetch {
                at / LINE
            } else {
                (at + len - 1) / LINE
            };
            for line in at / LINE..=last {
                if seen(&mut lines[line as usize % 2], line) {
                    wanted.hits += u64::from(!prefetch);
                    continue;
                }
                wanted.lines += 1;
                wanted.units += u64::from(!seen(&mut units[(line / 4 % 4) as usize], line / 4));
            }
            if prefetch {
                device.prefetch(at);
            } else {
                device.touch(at, len as usize);
            }
        }
        // One call each, except for repeated touches of the same line.
        let calls = device.counts().calls;
        assert!((4900..=5000).contains(&calls), "seed {seed}: {calls}");
        wanted.calls = calls;
        assert_eq!(device.counts(), wanted, "seed {seed}");
        device.elapsed()
    };
    assert_eq!(run(), run());
}

#[test]
fn flushes_of_a_unit_are_combined_and_a_fence_waits() {
    let device = device(DeviceProfile::optane());
    let (ns, counts) = each(&device, 1000, |step| {
        device.wrote(step * 256, 256);
        device.flush(step * 256, 256);
        device.fence();
    });
    assert_eq!(
        (counts.written_lines, counts.written_units, counts.fences),
        (4000, 1000, 1000)
    );
    about(ns, 94.0, 1.0, "persist");
}

#[test]
fn bytes_are_charged_and_extents_do_not_alias() {
    let core = CoreShape {
        ahead: Some(0),
        ..CoreShape::default()
    };
    let device = Device::new(&spec(DeviceProfile::optane(), core)).unwrap();
    let one: EmulatedBytes<Arc<[u8]>> = EmulatedBytes::new(vec![1_u8; 1000].into(), device.clone());
    let two: EmulatedBytes<Arc<[u8]>> = EmulatedBytes::new(vec![2_u8; 1000].into(), device.clone());
    one.touch(10, 4);
    two.touch(10, 4);
    two.touch(70, 4);
    two.touch(70, 4);
    two.prefetch(1 << 40);
    two.touch(999, 100);
    assert_eq!((one.as_slice()[0], two.as_slice()[0]), (1, 2));
    let counts = device.counts();
    assert_eq!((counts.lines, counts.hits, counts.units), (4, 1, 3), "{counts:?}");
}

#[test]
fn specs_are_read_and_wrong_ones_say_what_is_right() {
    let spec: EmulatedSpec = "emulated:optane:virtual:absolute:cache=14:ahead=20"
        .parse()
        .unwrap();
    assert_eq!(spec.core.ahead, Some(20));
    assert_eq!(
        (spec.clock, spec.absolute, spec.cache.bytes()),
        (ClockMode::Virtual, true, 14 * MIB)
    );
    assert_eq!(spec.to_string().parse::<EmulatedSpec>().unwrap(), spec);
    let plain: EmulatedSpec = "emulated:optane:cache=14".parse().unwrap();
    assert_eq!(plain.core.ahead, None);
    assert_eq!(
        "emulated:cxl".parse::<EmulatedSpec>().unwrap().clock,
        ClockMode::Delay
    );
    let device = Device::new(&spec).unwrap();
    assert_eq!(
        device.to_string(),
        "emulated optane, absolute, virtual, cache 14 MiB"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.json");
    let mut mine = DeviceProfile::optane();
    mine.name = "mine".into();
    std::fs::write(&file, serde_json::to_vec(&mine).unwrap()).unwrap();
    let name = file.to_str().unwrap();
    assert_eq!(DeviceProfile::find(name).unwrap(), mine);
    mine.device.random_ns = -1.0;
    std::fs::write(&file, serde_json::to_vec(&mine).unwrap()).unwrap();
    let said = |text: &str| text.parse::<EmulatedSpec>().unwrap_err().to_string();
    assert!(said(&format!("emulated:{name}")).contains("random_ns = -1"));
    std::fs::write(&file, "{}").unwrap();
    assert!(said(&format!("emulated:{name}")).contains("missing field"));
    assert!(said("emulated:optane:fast").contains("virtual, delay, absolute"));
    assert!(said("emulated:optane:ahead=65").contains("ahead=65"));
    assert!(said("emulated:optane:ahead").contains("ahead=LINES"));
    assert!(said("emulated:floppy").contains("dram, optane, cxl, nvme"));
    assert!(said("floppy").contains("emulated:PROFILE"));
}

#[test]
fn a_medium_is_charged_for_loads_flushes_and_fences() {
    let device = device(DeviceProfile::optane());
    let medium = device.emulate(Dram::new(MIB).unwrap());
    assert!(medium.observer().is_some() && medium.as_file().is_none());
    medium.store(0, &[1; 512]);
    medium.persist(0, 512).unwrap();
    let mut into = [0; 512];
    medium.load(0, &mut into);
    medium.prefetch(64 * 1024);
    assert_eq!((into, medium.load_u64(64 * 1024)), ([1; 512], 0));
    let counts = device.counts();
    assert_eq!(
        (counts.lines, counts.hits),
        (1, 9),
        "the cache has what was stored"
    );
    assert_eq!(
        (counts.written_lines, counts.written_units, counts.fences),
        (8, 2, 1)
    );
}

#[test]
fn a_watch_shows_the_devices_time_or_the_walls_without_the_models_own() {
    let device = device(DeviceProfile::optane());
    let watch = Watch::start(Some(&device));
    (0..100).for_each(|step| device.touch(random_place(step), 8));
    let lap = watch.lap();
    assert_eq!((lap.counts.lines, lap.overrun), (100, Duration::ZERO));
    about(lap.time.as_nanos() as f64, 32_500.0, 2.0, "100 random reads");

    // A later thread, and one whose clock is behind, measure the same time as this one.
    for _ in 0..2 {
        let watch = Watch::start(Some(&device));
        std::thread::scope(|scope| {
            let device = &device;
            scope.spawn(move || (200..300).for_each(|step| device.touch(random_place(step), 8)));
        });
        about(
            watch.elapsed().as_nanos() as f64,
            32_500.0,
            2.0,
            "100 reads by another thread",
        );
        device.drop_caches();
    }

    let delayed = EmulatedSpec {
        clock: ClockMode::Delay,
        absolute: true,
        ..spec(DeviceProfile::optane(), CoreShape::default())
    };
    let device = Device::new(&delayed).unwrap();
    let wall = Watch::start(None);
    let (all, own) = (Watch::start(Some(&device)), Watch::start_alone(Some(&device)));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let device = &device;
            scope.spawn(move || (0..1000).for_each(|step| device.touch(random_place(2 * step + thread), 8)));
        }
    });
    let (all, own) = (all.lap(), own.lap());
    // The overrun of other threads does not count for this one.
    assert!(own.overrun < all.overrun, "{own:?}, {all:?}");
    assert!(all.overrun <= device.overrun());
    assert!(all.counts.lines > 1000);
    assert!(all.time + all.overrun <= wall.elapsed());
    assert_eq!(wall.lap().counts, Counts::default());
}
