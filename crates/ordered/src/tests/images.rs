//! How many crash images the tests have opened, each once.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

/// What [`scenario`]s must add up to when all have run.
const LEAST: usize = 1_000_000;

/// How many scenarios have ended, and their images.
static TOTAL: Mutex<(usize, usize)> = Mutex::new((0, 0));

thread_local! {
    /// Images of the scenario that this thread runs.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Takes note of the images of an exploration. The number is also appended as a line to the file that `HALOCLINE_CRASH_COUNT`
/// names, if it does, to be summed up.
pub(crate) fn count(images: usize) {
    OWN.set(OWN.get() + images);
    if let Some(path) = std::env::var_os("HALOCLINE_CRASH_COUNT") {
        let file = File::options().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{images}")).unwrap();
    }
}

/// Runs one of so many scenarios. The last of them to end checks that there were images enough; if only some are run, none does, and
/// neither if there are to be fewer long random runs than usual.
pub(crate) fn scenario(of: usize, run: impl FnOnce()) {
    OWN.set(0);
    run();
    let mut total = TOTAL.lock().unwrap();
    total.0 += 1;
    total.1 += OWN.get();
    let (ended, images) = *total;
    let usual = std::env::var_os("HALOCLINE_CRASH_RUNS").is_none();
    assert!(!usual || ended < of || images >= LEAST, "{images} crash images");
}
