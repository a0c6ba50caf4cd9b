//! Identification of the current boot of the machine.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Returns an identifier of the current boot. While it stays the same, pages in the page cache that a dead
/// process has written are intact.
///
/// If the system provides none, the identifier is random per process, so that every open looks like one after
/// a reboot: the safe assumption.
pub fn boot_id() -> [u8; 16] {
    static BOOT_ID: OnceLock<[u8; 16]> = OnceLock::new();
    *BOOT_ID.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        text.ok()
            .and_then(|text| parse_uuid(text.trim()))
            .unwrap_or_else(of_this_process)
    })
}

fn of_this_process() -> [u8; 16] {
    let mut id = [0; 16];
    for half in id.as_chunks_mut::<8>().0 {
        *half = random_word().to_le_bytes();
    }
    id
}

/// Returns a random number that is unlikely to repeat.
pub(crate) fn random_word() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != 16 || !rest.is_empty() {
        return None;
    }
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_sixteen_bytes() {
        let id = parse_uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!(
            id,
            [
                0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff
            ]
        );
        for wrong in [
            "",
            "0011",
            "00112233-4455-6677-8899-aabbccddeef",
            "zz112233-4455-6677-8899-aabbccddeeff",
        ] {
            assert_eq!(parse_uuid(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_boot_id_stays() {
        assert_eq!(boot_id(), boot_id());
        assert_ne!(boot_id(), [0; 16]);
    }
}
