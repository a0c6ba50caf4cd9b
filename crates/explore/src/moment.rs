//! A single crash at a drawn moment.
//!
//! For tests that continue with one image instead of checking all of them.

use halocline_media::LINE;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::Tracked;
use crate::choices::draw;
use crate::model::CrashModel;

/// Records what is done to a medium, for one crash in the middle of it.
///
/// ```
/// use halocline_explore::{CrashRecorder, Tracked};
/// use halocline_media::MediumAccess;
///
/// let medium = Tracked::new(4096)?;
/// let recorder = CrashRecorder::start(&medium);
/// medium.store_u64(0, 1);
/// medium.persist(0, 8)?;
/// medium.store_u64(64, 2);
/// let crash = recorder.crash(7);
/// let after = Tracked::from_image(&crash.bytes)?;
/// assert!(!crash.complete || after.load_u64(0) == 1);
/// # Ok::<(), halocline_media::MediaError>(())
/// ```
#[derive(Debug)]
pub struct CrashRecorder<'a>(&'a Tracked);

/// The contents of a medium after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashImage {
    /// All bytes of the medium.
    pub bytes: Vec<u8>,
    /// True if the crash came after all recorded calls, so that everything acknowledged must be present.
    pub complete: bool,
}

impl<'a> CrashRecorder<'a> {
    /// Starts recording; the present contents count as durable.
    pub fn start(medium: &'a Tracked) -> Self {
        medium.start_recording();
        Self(medium)
    }

    /// Stops recording and returns the image of a crash at a moment drawn by `seed`: at the end in one of
    /// four cases, otherwise at any moment.
    pub fn crash(self, seed: u64) -> CrashImage {
        let trace = self.0.stop_recording();
        let mut rng = StdRng::seed_from_u64(seed);
        let end = trace.events.len();
        let moment = match rng.random_range(0..4) {
            0 => end,
            _ => rng.random_range(0..=end),
        };
        let mut model = CrashModel::new(trace.start);
        for event in &trace.events[..moment] {
            model.apply(event);
        }
        let mut bytes = model.durable().to_vec();
        for line in model.open_lines() {
            let contents = line.contents[draw(line.contents.len() as u32, &mut rng) as usize];
            let from = (line.line * LINE) as usize;
            bytes[from..from + contents.len()].copy_from_slice(&contents);
        }
        CrashImage {
            bytes,
            complete: moment == end,
        }
    }
}

impl Drop for CrashRecorder<'_> {
    fn drop(&mut self) {
        self.0.stop_recording();
    }
}
