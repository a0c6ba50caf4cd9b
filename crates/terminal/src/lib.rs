//! The parts that the command line programs share.
//!
//! Invariants:
//! - answers go to stdout, everything else (errors, hints, progress, timings) to stderr;
//! - the exit code is 0 for success, 1 for an error, 2 for a wrong command line, 3 for a key that is not
//!   there, 4 where the pool was cut off while it was read, 130 after Ctrl-C;
//! - a reader that closes the pipe early ends the program silently, as a success.

pub mod args;
mod error;
pub mod interrupt;
pub mod output;
pub mod pools;
pub mod program;
pub mod progress;
pub mod screen;
pub mod size;

pub use error::CliError;
