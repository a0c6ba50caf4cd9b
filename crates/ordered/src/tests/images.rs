//! The number of distinct crash images that the tests have opened.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

/// Minimum total of all [`scenario`]s.
const MIN_IMAGES: usize = 1_000_000;

/// Number of completed scenarios and of their images.
static TOTAL: Mutex<(usize, usize)> = Mutex::new((0, 0));

thread_local! {
    /// Number of images of this thread's current scenario.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Counts the images of an exploration. If `HALOCLINE_CRASH_COUNT` names a file, also appends the
/// number to it as a line, to be summed up.
pub(crate) fn count(images: usize) {
    OWN.set(OWN.get() + images);
    if let Some(path) = std::env::var_os("HALOCLINE_CRASH_COUNT") {
        let file = File::options().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{images}")).unwrap();
    }
}

/// Runs one of `of` scenarios. The last one to complete checks the minimum number of images. The check
/// is skipped if only some scenarios run, or fewer long random runs than usual.
pub(crate) fn scenario(of: usize, run: impl FnOnce()) {
    OWN.set(0);
    run();
    let mut total = TOTAL.lock().unwrap();
    total.0 += 1;
    total.1 += OWN.get();
    let (ended, images) = *total;
    let usual = std::env::var_os("HALOCLINE_CRASH_RUNS").is_none();
    assert!(
        !usual || ended < of || images >= MIN_IMAGES,
        "{images} crash images"
    );
}
