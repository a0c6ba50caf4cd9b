//! Calibrations of directories, nodes and devices: their results, their ends, and what they refuse.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halocline_media::{MediaError, Profile, ProfiledMedium};

use crate::cold::{ColdFile, STEPS_OF_DEVICE};
use crate::memory::STEPS_OF_MEMORY;
use crate::steps::Steps;
use crate::{CalibrateError, CalibrateOptions, CalibrateTarget, MediumMeter, calibrate, numa_nodes};

fn tiny() -> CalibrateOptions {
    CalibrateOptions {
        bytes: Some(4 << 20),
        threads: 2,
        time: Duration::from_millis(1),
    }
}

#[test]
fn a_directory_is_measured_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let target = CalibrateTarget::Directory(folder.path().to_owned());
    let mut names = Vec::new();
    let profile = calibrate(&target, &tiny(), &AtomicBool::new(false), &mut |step| {
        assert!(step.done < step.total, "{step:?}");
        names.push(step.name.to_owned());
    })
    .unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(profile.check(), Ok(()));
    assert_eq!((profile.bytes, profile.cpus), (4 << 20, 2));
    let cold = profile.medium == ProfiledMedium::PageCache;
    assert_eq!(profile.cold.is_some(), cold);
    let expected = 2 * STEPS_OF_MEMORY + if cold { STEPS_OF_DEVICE } else { 0 };
    assert_eq!(names.len(), expected);
    for figures in [&profile.warm, &profile.dram] {
        let threads: Vec<u32> = figures.write.iter().map(|rate| rate.threads).collect();
        assert_eq!(threads, [1, 2]);
        let tables: Vec<u64> = figures.probes.iter().map(|cost| cost.bytes).collect();
        assert_eq!((tables[0], *tables.last().unwrap()), (32 << 10, 4 << 20));
    }
    // A file of a measured profile is read as it was written.
    let path = folder.path().join(Profile::FILE_NAME);
    profile.write(&path).unwrap();
    assert_eq!(Profile::read(&path).unwrap(), profile);
}

#[test]
fn a_cancelled_calibration_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = CalibrateTarget::Directory(folder.path().to_owned());
    let whole = 2 * STEPS_OF_MEMORY;
    for last in 0..whole {
        let cancelled = AtomicBool::new(false);
        let error = calibrate(&target, &tiny(), &cancelled, &mut |step| {
            cancelled.store(step.done == last, Ordering::Relaxed);
        });
        assert!(matches!(error, Err(CalibrateError::Cancelled)), "{error:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let measure = |target: CalibrateTarget, bytes| {
        let options = CalibrateOptions {
            bytes: Some(bytes),
            ..tiny()
        };
        calibrate(&target, &options, &AtomicBool::new(false), &mut |_| {}).unwrap_err()
    };
    let directory = |path: &Path| CalibrateTarget::Directory(path.to_owned());
    let error = measure(directory(folder.path()), 1 << 60);
    assert!(matches!(error, CalibrateError::NoSpace { .. }), "{error}");
    let file = folder.path().join("file");
    let error = measure(directory(&file), 1);
    assert!(
        matches!(error, CalibrateError::Media(MediaError::NotFound { .. })),
        "{error}"
    );
    fs::write(&file, "").unwrap();
    let error = measure(directory(&file), 1);
    assert!(matches!(error, CalibrateError::NotADirectory { .. }), "{error}");
    // Nobody creates files in /proc.
    let error = measure(directory(Path::new("/proc")), 1);
    assert!(
        matches!(error, CalibrateError::Media(MediaError::Io { .. })),
        "{error}"
    );
    let error = measure(CalibrateTarget::NumaNode(1023), 1);
    assert!(
        matches!(error, CalibrateError::NoNode { node: 1023, .. }),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn targets_are_parsed() {
    assert_eq!("numa:1".parse(), Ok(CalibrateTarget::NumaNode(1)));
    assert_eq!("/x".parse(), Ok(CalibrateTarget::Directory("/x".into())));
    let error = "numa:far".parse::<CalibrateTarget>().unwrap_err();
    assert!(error.contains("numa:1"), "{error}");
}

#[test]
fn memory_of_a_node_is_measured() {
    let target = CalibrateTarget::NumaNode(numa_nodes()[0]);
    match calibrate(&target, &tiny(), &AtomicBool::new(false), &mut |_| {}) {
        Ok(profile) => {
            assert_eq!(profile.medium, ProfiledMedium::NumaNode(numa_nodes()[0]));
            assert!(profile.cold.is_none() && profile.file_system.is_empty());
        }
        // A container may not allow it.
        Err(error) => assert!(matches!(error, CalibrateError::Placement { .. }), "{error}"),
    }
}

#[test]
fn a_device_is_measured_with_and_without_direct_io() {
    let folder = tempfile::tempdir().unwrap();
    let cancelled = AtomicBool::new(false);
    let meter = MediumMeter {
        time: Duration::from_millis(2),
        cancelled: &cancelled,
    };
    for direct in [true, false] {
        let mut file = ColdFile::create(folder.path(), 2 << 20).unwrap();
        if !direct {
            rustix::fs::fcntl_setfl(&file.file, rustix::fs::OFlags::empty()).unwrap();
            file.direct = false;
        }
        let mut steps = Steps {
            done: 0,
            total: STEPS_OF_DEVICE,
            cancelled: &cancelled,
            progress: &mut |_| {},
        };
        let figures = file.measure(&[1, 2], &meter, &mut steps).unwrap();
        assert_eq!(steps.done, STEPS_OF_DEVICE);
        let bandwidths = figures.read.iter().chain(&figures.write);
        assert!(
            bandwidths.clone().count() == 4 && bandwidths.clone().all(|rate| rate.bytes_per_second > 0.0)
        );
        assert!(figures.random_read_ns > 0.0 && figures.persist_ns > 0.0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
