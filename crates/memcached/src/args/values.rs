//! Values of options.

use halocline_cache::PolicyKind;

use super::MEBI;
use crate::settings::MAX_ITEM;

pub(super) fn policy(text: &str) -> Result<PolicyKind, String> {
    let known = PolicyKind::ALL.iter().find(|kind| kind.name() == text);
    let names = || PolicyKind::ALL.map(PolicyKind::name).join(", ");
    known
        .copied()
        .ok_or_else(|| format!("unknown policy; use one of {}", names()))
}

pub(super) fn item_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], MEBI),
        _ => (text, 1),
    };
    let size = digits.parse::<u64>().ok().and_then(|size| size.checked_mul(unit));
    match size {
        None => Err("expected a number of bytes, with k or m for KiB or MiB".to_owned()),
        Some(size) if (1024..=MAX_ITEM).contains(&size) => Ok(size),
        Some(_) => Err("the largest size of an item is between 1k and 1m".to_owned()),
    }
}

pub(super) fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "expected permissions in octal, such as 700".to_owned())
}

pub(super) fn protocol(text: &str) -> Result<String, String> {
    match text {
        "ascii" | "auto" => Ok(text.to_owned()),
        "binary" => Err("the binary protocol is not supported; clients use the text protocol".to_owned()),
        _ => Err("use ascii or auto".to_owned()),
    }
}

pub(super) fn udp(text: &str) -> Result<u16, String> {
    match text {
        "0" => Ok(0),
        _ => Err("UDP is not supported; clients use TCP or a Unix socket".to_owned()),
    }
}

pub(super) fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of at least 1".to_owned())
}
