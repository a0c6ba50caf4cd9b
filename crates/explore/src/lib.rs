//! The crash explorer: runs a workload on a [`Tracked`] medium and opens every state that a crash may leave.
//!
//! ```
//! use halocline_explore::Explorer;
//! use halocline_media::{MediumAccess, MediumBackend};
//!
//! // Two words, published by a third: the pointer must not be durable before what it points to.
//! let report = Explorer::default().mutants(
//!     |medium| medium.grow(4096).unwrap(),
//!     |medium| {
//!         medium.begin(1);
//!         medium.store_u64(0, 7);
//!         medium.persist(0, 8).unwrap();
//!         medium.store_u64(64, 1);
//!         medium.persist(64, 8).unwrap();
//!         medium.acknowledge(1);
//!     },
//!     |medium, crash| match (medium.load_u64(64), medium.load_u64(0)) {
//!         (1, 7) => Ok(()),
//!         (0, _) if crash.acknowledged.is_empty() => Ok(()),
//!         other => Err(format!("found {other:?}")),
//!     },
//! )?;
//! assert!(report.unchanged.exhaustive());
//! assert_eq!((report.caught, report.missed.len()), (4, 0), "{report}");
//! # Ok::<(), Box<halocline_explore::Violation>>(())
//! ```
//!
//! The workload runs once and is recorded. Images are derived from the recording, so a flush or fence can be
//! left out without running the workload again. The states at a fence include those of every moment since the
//! previous fence, because each of these is a state in which less has arrived.
//!
//! This crate is for tests: nothing that a program runs depends on it. It accesses memory through
//! [`Dram`](halocline_media::Dram) alone.

mod choices;
mod explorer;
mod images;
mod model;
mod moment;
mod mutation;
mod page_cache;
mod report;
mod trace;
mod tracked;
mod walk;

pub use explorer::Explorer;
pub use moment::{CrashImage, CrashRecorder};
pub use mutation::Mutation;
pub use page_cache::TrackedPageCache;
pub use report::{ArrivedLine, Crash, CrashPoint, MutantReport, Report, Violation};
pub use tracked::Tracked;
