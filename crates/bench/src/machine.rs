//! The machine under an experiment, as it describes itself.

use std::fs;
use std::thread;

/// The CPU's name, or `unknown`.
#[must_use]
pub fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find_map(|line| {
            line.strip_prefix("model name")?
                .split_once(':')
                .map(|(_, name)| name.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown".to_owned())
}

/// CPUs this process may use.
#[must_use]
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// DRAM that this process holds for itself, in bytes: its anonymous resident pages, measured by the kernel.
/// Mapped bytes of a pool are not among them. `None` where the kernel does not say.
#[must_use]
pub fn anonymous_dram() -> Option<u64> {
    anonymous_dram_of("self")
}

/// The same of the process with this id (or `self`).
#[must_use]
pub fn anonymous_dram_of(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// As [`anonymous_dram`], counted page by page: exact at this moment, but slow where much is mapped.
#[must_use]
pub fn counted_dram() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_what_is_touched() {
        let Some(before) = anonymous_dram() else { return };
        let counted = counted_dram().unwrap_or_default();
        let block = vec![1u8; 64 << 20];
        let after = anonymous_dram().unwrap_or_default();
        assert!(
            after >= before + (block.len() as u64) * 9 / 10,
            "{before} -> {after}"
        );
        assert!(counted_dram().unwrap_or_default() >= counted + (block.len() as u64) * 9 / 10);
        assert!(cpus() > 0);
    }
}
