//! Conditions on chunks of strings, compared with the strings one by one; and on damaged chunks.

use super::chunk::StringsChunk;
use super::filter::StringsFilter;
use super::pending::PendingStrings;
use crate::codec::encode::Encoded;
use crate::format::{BLOCK, CODEC_FSST, CODEC_RAW_STRINGS};
use crate::kernel::BlockMask;
use crate::{LikePattern, StringPredicate};
use proptest::prelude::*;
use std::ops::Bound;
use zerocopy::IntoBytes;

type Strings = Vec<Option<Vec<u8>>>;

fn encode(strings: &Strings) -> Encoded {
    let mut pending = PendingStrings::default();
    strings.iter().for_each(|string| match string {
        Some(string) => pending.push(string),
        None => pending.push_null(),
    });
    pending.encode()
}

/// Generates a string from `seed`: some share beginnings, some are empty or long, and characters have one to
/// four bytes.
fn string(seed: u32) -> Vec<u8> {
    const PIECES: [&str; 12] = [
        "",
        "s",
        "s99",
        "https://example.org/",
        "a",
        "ab",
        "\u{e9}",
        "\u{1F980}",
        "_%\\",
        "zebra",
        "\0",
        "0123456789",
    ];
    let piece = |at: u32| PIECES[(seed >> (at * 4)) as usize % PIECES.len()];
    let mut text: String = (0..seed % 6).map(piece).collect();
    if seed.is_multiple_of(251) {
        text = text.repeat(40);
    }
    if !seed.is_multiple_of(3) {
        text.push_str(&format!("{}", seed % 7919));
    }
    text.into_bytes()
}

fn strings(rows: usize, nulls: u32, seed: u64) -> Strings {
    let mut state = seed | 1;
    let mut next = || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    };
    let mut row = |_| (next() % 100 >= nulls).then(|| string(next()));
    (0..rows).map(&mut row).collect()
}

/// Returns conditions of every kind with some of the strings as constants.
fn conditions(constants: &[Vec<u8>]) -> Vec<StringPredicate> {
    let bounds = |at: usize| {
        let constant = constants[at % constants.len()].as_slice();
        match at % 3 {
            0 => Bound::Included(constant),
            1 => Bound::Excluded(constant),
            _ => Bound::Unbounded,
        }
    };
    let patterns = [
        "%zebra%",
        "%a%b%",
        "s%9",
        "s99%",
        "_99%",
        "%\u{e9}_",
        "%",
        "",
        "%org/a%1",
        "%\\%%",
        "s__%",
        "___",
        "%0",
        "%s9901234%",
        "_%_%_%",
    ];
    let patterns = patterns.map(|pattern| LikePattern::parse(pattern).expect("no escape is open"));
    let mut all: Vec<StringPredicate> = patterns.map(StringPredicate::like).into();
    for (at, constant) in constants.iter().enumerate() {
        all.push(StringPredicate::equal(constant));
        all.push(StringPredicate::prefix(&constant[..constant.len() / 2]));
        all.push(StringPredicate::range(bounds(at), bounds(at + 1)));
        if let Ok(text) = std::str::from_utf8(constant) {
            all.push(StringPredicate::like(LikePattern::containing(text)));
            all.push(StringPredicate::like(LikePattern::ending_with(text)));
        }
    }
    all.push(StringPredicate::set(constants.iter().map(Vec::as_slice)));
    all.push(StringPredicate::set([]));
    all.push(StringPredicate::null());
    let some = [all[0].clone(), all[all.len() / 2].not(), all[20].clone()];
    all.push(StringPredicate::any(some));
    all.push(StringPredicate::any([StringPredicate::null(), all[3].clone()]));
    all.iter()
        .flat_map(|condition| [condition.clone(), condition.not()])
        .collect()
}

/// Filters the selected rows of a chunk, `run` blocks at a time.
fn filter(
    encoded: &Encoded,
    condition: &StringPredicate,
    masks: &mut [BlockMask],
    run: usize,
) -> Result<(), super::Defect> {
    let chunk = StringsChunk::new(&encoded.entry, encoded.bytes())?;
    let entry = &encoded.entry;
    let of_values = condition
        .of_zone(entry.min, entry.max)
        .filter(|_| entry.nulls < entry.rows);
    let mut filter = StringsFilter::new(condition, of_values);
    for (at, masks) in masks.chunks_mut(run).enumerate() {
        filter.keep(&chunk, at * run, masks)?;
    }
    Ok(())
}

fn is_set(masks: &[BlockMask], row: usize) -> bool {
    masks[row / BLOCK][row % BLOCK / 64] >> (row % 64) & 1 == 1
}

/// Returns masks that select about one row in `one_of`.
fn masks(rows: usize, one_of: usize) -> Vec<BlockMask> {
    let mut masks = vec![BlockMask::default(); rows.div_ceil(BLOCK)];
    for row in (0..rows).filter(|row| (row * 7).is_multiple_of(one_of)) {
        masks[row / BLOCK][row % BLOCK / 64] |= 1 << (row % 64);
    }
    masks
}

fn check(strings: &Strings, constants: &[Vec<u8>], one_of: usize, run: usize) {
    let encoded = encode(strings);
    let selected = masks(strings.len(), one_of);
    for condition in conditions(constants) {
        let mut found = selected.clone();
        filter(&encoded, &condition, &mut found, run).expect("a sound chunk");
        for (row, string) in strings.iter().enumerate() {
            let expected = is_set(&selected, row) && condition.matches(string.as_deref());
            assert_eq!(
                is_set(&found, row),
                expected,
                "row {row}: {string:?}, {condition:?}"
            );
        }
    }
}

fn constants(strings: &Strings, seed: u64) -> Vec<Vec<u8>> {
    let mut constants: Vec<Vec<u8>> = strings
        .iter()
        .flatten()
        .step_by(1 + strings.len() / 5)
        .cloned()
        .collect();
    constants.push(string(seed as u32));
    constants.push(b"s99".to_vec());
    constants
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn compressed_strings_match_as_they_are(
        rows in 1100usize..3500, nulls in prop_oneof![Just(0u32), Just(30), Just(95)], seed in any::<u64>(),
        one_of in prop_oneof![Just(1usize), Just(3), Just(90)], run in 1usize..4,
    ) {
        let strings = strings(rows, nulls, seed);
        check(&strings, &constants(&strings, seed), one_of, run);
    }

    #[test]
    fn small_chunks_match_as_they_are(
        rows in 1usize..80, nulls in prop_oneof![Just(0u32), Just(30), Just(100)], seed in any::<u64>(),
        one_of in prop_oneof![Just(1usize), Just(3)],
    ) {
        let strings = strings(rows, nulls, seed);
        check(&strings, &constants(&strings, seed), one_of, 1);
    }

    #[test]
    fn other_bytes_match_as_they_are(
        strings in proptest::collection::vec(
            proptest::option::weighted(0.9, proptest::collection::vec(prop_oneof![3 => Just(b'a'), 1 => any::<u8>()], 0..30)),
            1..600,
        ),
    ) {
        check(&strings, &constants(&strings, 7), 1, 1);
    }

    #[test]
    fn damaged_chunks_never_panic(
        at in any::<proptest::sample::Index>(), byte in any::<u8>(), nulls in prop_oneof![Just(0u32), Just(30)],
        seed in any::<u64>(), one_of in prop_oneof![Just(1usize), Just(90)],
    ) {
        let strings = strings(1500, nulls, seed);
        let mut encoded = encode(&strings);
        let at = at.index(encoded.words.len() * 8);
        encoded.words.as_mut_bytes()[at] = byte;
        for condition in conditions(&constants(&strings, seed)) {
            let _ = filter(&encoded, &condition, &mut masks(strings.len(), one_of), 2);
        }
    }
}

#[test]
fn chunks_of_the_tests_are_of_both_kinds() {
    assert_eq!(encode(&strings(2000, 30, 1)).entry.encoding, CODEC_FSST);
    assert_eq!(encode(&strings(20, 30, 1)).entry.encoding, CODEC_RAW_STRINGS);
}

#[test]
fn long_strings_are_looked_at_one_by_one() {
    let mut state = 1_u64;
    let mut digits = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:08x}", state >> 32)
    };
    let mut long = |row: usize| {
        let text: String = (0..row * 400).map(|_| digits()).collect();
        Some(text.into_bytes())
    };
    let strings: Strings = (0..40).map(&mut long).collect();
    let encoded = encode(&strings);
    assert_eq!(encoded.entry.encoding, CODEC_FSST);
    let chunk = StringsChunk::new(&encoded.entry, encoded.bytes()).expect("a sound chunk");
    assert!(chunk.strings_of(0).expect("a sound chunk").is_none());
    check(
        &strings,
        &[strings[7].clone().unwrap_or_default(), b"s99".to_vec()],
        1,
        1,
    );
}

#[test]
fn a_string_that_ends_within_an_escape_is_refused() {
    let strings: Strings = (0..1500)
        .map(|row| Some(format!("word {row}").into_bytes()))
        .collect();
    let mut encoded = encode(&strings);
    assert_eq!(encoded.entry.encoding, CODEC_FSST);
    // The bytes are the last section: all of them become escapes.
    let len = encoded.words.len() * 8;
    encoded.words.as_mut_bytes()[len - 4000..].fill(u8::MAX);
    for pattern in ["%x%", "%x"] {
        let condition = StringPredicate::like(LikePattern::parse(pattern).expect("no escape"));
        let filtered = filter(&encoded, &condition, &mut masks(1500, 1), 2);
        assert!(filtered.is_err(), "{pattern}");
    }
}
