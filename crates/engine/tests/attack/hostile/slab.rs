//! Lies of trees and other slabs: metadata, heads, roots, and links that lead out of range or back.

use halocline_workloads::SplitMix64;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::damage::Owner;
use crate::image::{Object, set_word, word};
use crate::items::ITEMS;
use crate::segments::STORES;

use super::{Draft, lie_in, number, seal};

/// Where in the head of a slab the owner's root is.
const ROOT: usize = 256;
/// Bytes of the checksum of a node, and of a line.
const NODE_SUM: usize = 4;
const LINE: usize = 64;
/// Bytes of the head.
const HEAD: usize = 4096;

pub(super) fn lie(draft: &mut Draft<'_>, rng: &mut SplitMix64) {
    let image = draft.image;
    // Of the stores' nodes, which have checksums of their own, stores.rs knows more.
    let trees = match rng.below(10) {
        0..6 => image.of_kind("tree/"),
        6..9 => image.of_kind(ITEMS),
        _ => image
            .objects
            .iter()
            .filter(|object| object.name == STORES)
            .collect(),
    };
    let tree = trees[rng.below(trees.len() as u64) as usize];
    draft.owners.insert(Owner::Object(tree.name.clone()));
    draft.story = format!("{}, ", tree.name);
    let first = tree.extents[0].bytes.clone();
    let node = word(&image.bytes, tree.meta.start + 4) as u32 as usize;
    for _ in 0..=rng.below(2) {
        let extent = &tree.extents[rng.below(tree.extents.len() as u64) as usize].bytes;
        let from = extent.start + if *extent == first { HEAD } else { 0 };
        let nodes = (extent.end - from) / node;
        let at = from + rng.below(nodes.max(1) as u64) as usize * node;
        let bytes = &mut draft.bytes;
        // A chunk may have room for the head only.
        let kinds = if nodes == 0 { 3 } else { 8 };
        draft.story += &match rng.below(kinds) {
            0 => lie_in(bytes, tree.meta.start, &[(0, 4), (4, 4), (8, 8)], rng),
            1 => {
                let other = trees[rng.below(trees.len() as u64) as usize];
                bytes[tree.meta.start..tree.meta.start + 16]
                    .copy_from_slice(&image.bytes[other.meta.clone()][..16]);
                format!("the metadata of {}; ", other.name)
            }
            2 => lie_in(
                bytes,
                first.start,
                &[(16, 8), (24, 8), (ROOT, 8), (ROOT + 8, 8), (ROOT + 64, 8)],
                rng,
            ),
            3 => {
                let value = link(&first, node, nodes, rng);
                set_word(bytes, first.start + ROOT, value);
                format!("root = {value}; ")
            }
            4..6 => {
                // Any word of a node leads to another one, or to itself.
                let word = at + rng.below(node as u64 / 8) as usize * 8;
                let value = link(&first, node, nodes, rng);
                set_word(bytes, word, value);
                format!("link at {word} = {value}; ")
            }
            _ => {
                let word = at + rng.below(node as u64 / 8) as usize * 8;
                let value = number(rng, self::word(bytes, word));
                set_word(bytes, word, value);
                format!("word at {word} = {value}; ")
            }
        };
    }
    seal_nodes(&mut draft.bytes, tree, node);
    seal::directory(&mut draft.bytes, image);
}

/// Makes the checksums right of the root and of all nodes that have one.
fn seal_nodes(bytes: &mut [u8], tree: &Object, size: usize) {
    let first = tree.extents[0].bytes.start;
    let sum = xxh3_64(&bytes[first + ROOT..first + ROOT + LINE]);
    set_word(bytes, first + 24, sum);
    for extent in tree.extents.iter().map(|extent| extent.bytes.clone()) {
        let start = extent.start + if extent.start == first { HEAD } else { 0 };
        let room = extent.end - start;
        let lines = |count: usize| (count * NODE_SUM).next_multiple_of(LINE);
        let most = room / (size + NODE_SUM);
        let count = (0..=most)
            .rev()
            .find(|count| count * size + lines(*count) <= room)
            .unwrap();
        let sums = extent.end - lines(count);
        for number in 0..count {
            let (node, at) = (start + number * size, sums + number * NODE_SUM);
            // A node without one is not in use.
            if bytes[at..at + NODE_SUM] != [0; NODE_SUM] {
                let sum = xxh3_64_with_seed(&bytes[node..node + size], node as u64) as u32;
                bytes[at..at + NODE_SUM].copy_from_slice(&sum.min(u32::MAX - 1).to_le_bytes());
            }
        }
    }
}

/// The offset of a node.
fn link(first: &std::ops::Range<usize>, node: usize, nodes: usize, rng: &mut SplitMix64) -> u64 {
    let number = rng.below(nodes.max(1) as u64) as usize;
    let slip = [0, 0, 0, 8][rng.below(4) as usize];
    (first.start + HEAD + number * node + slip) as u64
}
