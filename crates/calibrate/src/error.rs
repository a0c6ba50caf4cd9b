//! Errors of a calibration: [`CalibrateError`].

use std::io;
use std::path::PathBuf;

use halocline_media::MediaError;

/// An error of a calibration. Nothing of its scratch file is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The caller has cancelled the calibration.
    #[error("the calibration was cancelled")]
    Cancelled,
    /// The path does not name a directory.
    #[error("{} is not a directory; give a directory on the medium to measure", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The scratch file would leave too little of the file system free.
    #[error(
        "{} has {available} bytes free, and the calibration needs {needed} bytes while {kept} bytes \
         stay free; free space on it, or measure less with a smaller size",
        path.display()
    )]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// Bytes that the calibration writes.
        needed: u64,
        /// Bytes that it leaves free.
        kept: u64,
        /// Free bytes.
        available: u64,
    },
    /// The measured range does not fit into free memory.
    #[error(
        "the calibration needs {needed} bytes of memory, and {available} bytes are available to it; \
         measure less with a smaller size"
    )]
    NoMemory {
        /// Bytes that the calibration allocates.
        needed: u64,
        /// Half of the free memory.
        available: u64,
    },
    /// The machine has no such NUMA node, or no memory in it.
    #[error("NUMA node {node} has no memory; choose one of these nodes: {}", list(nodes))]
    NoNode {
        /// The requested node.
        node: u32,
        /// The nodes with memory.
        nodes: Vec<u32>,
    },
    /// The operating system does not place memory on the node.
    #[error(
        "cannot place memory on NUMA node {node}: {source}; check the limits of this process (cpuset, seccomp)"
    )]
    Placement {
        /// The requested node.
        node: u32,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The medium has failed.
    #[error(transparent)]
    Media(#[from] MediaError),
}

fn list(nodes: &[u32]) -> String {
    let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
    nodes.join(", ")
}
