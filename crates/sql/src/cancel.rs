//! Cancellation of work that runs on another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A cancellation flag that is never set, for callers that cannot be cancelled.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// A guard that cancels work on another thread when the future that waits for it is dropped.
#[derive(Default)]
pub struct CancelOnDrop(Arc<AtomicBool>);

impl CancelOnDrop {
    /// Returns the flag that is set on drop; the work polls it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
