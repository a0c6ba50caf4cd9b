//! Memory of one NUMA node, which is how CXL memory usually appears.
#![allow(unsafe_code, reason = "asks the kernel to place memory")]

use std::fs;
use std::io;

use halocline_media::{Dram, MediumAccess};

use crate::CalibrateError;

/// Nodes that a mask has room for; the kernel supports no more.
const MAX_NODES: usize = 1024;

/// Returns the numbers of the NUMA nodes with memory, in ascending order.
#[must_use]
pub fn numa_nodes() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    match parse_list(text.trim()) {
        nodes if nodes.is_empty() => vec![0],
        nodes => nodes,
    }
}

/// Parses the kernel's lists of numbers, as `0-1,4`.
fn parse_list(text: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Allocates `bytes` of memory whose pages will come from the node.
///
/// # Errors
/// [`CalibrateError::NoNode`], [`CalibrateError::Placement`],
/// [`MediaError::OutOfMemory`](halocline_media::MediaError::OutOfMemory).
pub(crate) fn memory_of(node: u32, bytes: u64) -> Result<Dram, CalibrateError> {
    let nodes = numa_nodes();
    if !nodes.contains(&node) || node as usize >= MAX_NODES {
        return Err(CalibrateError::NoNode { node, nodes });
    }
    let memory = Dram::new(bytes)?;
    let mut mask = [0_u64; MAX_NODES / 64];
    mask[node as usize / 64] |= 1 << (node % 64);
    // SAFETY: nobody else has the memory yet, so nobody stores to it.
    let start = unsafe { memory.slice(0, bytes as usize) }.as_ptr();
    // SAFETY: the range is mapped, and the policy changes where its pages come from, not their contents;
    // the mask has as many bits as the call is told (the kernel's count includes one more).
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            bytes,
            libc::MPOL_BIND,
            mask.as_ptr(),
            MAX_NODES + 1,
            0,
        )
    };
    match result {
        0 => Ok(memory),
        _ => Err(CalibrateError::Placement {
            node,
            source: io::Error::last_os_error(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(parse_list("0"), [0]);
        assert_eq!(parse_list("0-2,5"), [0, 1, 2, 5]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn a_node_that_is_missing_is_answered_with_those_there_are() {
        let nodes = numa_nodes();
        let missing = nodes.iter().max().unwrap() + 1;
        let error = memory_of(missing, 4096).unwrap_err();
        assert!(matches!(&error, CalibrateError::NoNode { nodes: listed, .. } if *listed == nodes));
        let message = format!(
            "NUMA node {missing} has no memory; choose one of these nodes: {}",
            nodes[0]
        );
        assert!(error.to_string().starts_with(&message), "{error}");
        match memory_of(nodes[0], 1 << 20) {
            Ok(memory) => {
                memory.store_u64(8, 7);
                assert_eq!(memory.load_u64(8), 7);
            }
            // A container may not allow it.
            Err(error) => assert!(matches!(error, CalibrateError::Placement { .. }), "{error}"),
        }
    }
}
