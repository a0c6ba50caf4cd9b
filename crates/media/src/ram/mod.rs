//! The amount of DRAM that this process may use.

mod groups;

use std::fs;

/// Size assumed if the system does not report one.
const DEFAULT_RAM_BYTES: u64 = 4 << 30;

/// Returns the bytes of DRAM that this process may use: the lowest of the machine's, the limits of its
/// control groups (containers), and the address space that `RLIMIT_AS` leaves. Mappings made so far are no
/// longer left, so that a pool is mapped before this is asked.
#[must_use]
pub fn ram_bytes() -> u64 {
    let machine = read("/proc/meminfo").and_then(|text| kibibytes(&text, "MemTotal:"));
    let limits = [groups::limit(), address_space_left()];
    let limits = limits.into_iter().flatten();
    limits
        .chain([machine.unwrap_or(DEFAULT_RAM_BYTES)])
        .min()
        .unwrap_or(DEFAULT_RAM_BYTES)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns the value of a line of `/proc/meminfo` or `/proc/self/status`, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the bytes of address space that this process may still map by `RLIMIT_AS`; `None` if there is no
/// limit.
#[must_use]
pub fn address_space_left() -> Option<u64> {
    let limit = soft_limit(&read("/proc/self/limits")?)?;
    let mapped = kibibytes(&read("/proc/self/status")?, "VmSize:")?;
    Some(limit.saturating_sub(mapped))
}

/// Returns the soft limit of the address space in `/proc/self/limits`.
fn soft_limit(limits: &str) -> Option<u64> {
    let rest = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_lines() {
        assert_eq!(
            kibibytes("MemTotal:       16 kB\nMemFree: 1 kB\n", "MemTotal:"),
            Some(16 << 10)
        );
        assert_eq!(kibibytes("MemFree: 1 kB\n", "MemTotal:"), None);
        let limits = |soft| {
            format!(
                "Max file size   unlimited\nMax address space         {soft}            unlimited            bytes\n"
            )
        };
        assert_eq!(soft_limit(&limits("1048576000")), Some(1_048_576_000));
        assert_eq!(soft_limit(&limits("unlimited")), None);
        assert!(ram_bytes() > 1 << 20);
    }
}
