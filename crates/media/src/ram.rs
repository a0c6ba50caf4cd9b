//! The amount of DRAM.

use std::fs;
use std::path::Path;

/// Size assumed if the system does not report one.
const UNKNOWN: u64 = 4 << 30;

/// Returns the bytes of DRAM that this process may use: the machine's, or less in a control group (container)
/// with a limit.
#[must_use]
pub fn ram_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| total(&text)).unwrap_or(UNKNOWN);
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let limit = group.and_then(|text| limit(Path::new("/sys/fs/cgroup"), &text));
    limit.map_or(machine, |limit| limit.min(machine))
}

/// Returns `MemTotal` of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the lowest memory limit of the process's control group (version 2) and its ancestors.
fn limit(root: &Path, own_groups: &str) -> Option<u64> {
    let group = own_groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let directory = root.join(group);
    let around = directory.ancestors().take_while(|path| path.starts_with(root));
    around
        .filter_map(|path| {
            fs::read_to_string(path.join("memory.max"))
                .ok()?
                .trim()
                .parse()
                .ok()
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_the_group_and_those_around_it() {
        assert_eq!(total("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16 << 10));
        assert!(ram_bytes() > 1 << 20);
        let root = std::env::temp_dir().join(format!("halocline-ram-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/memory.max"), "1000\n").unwrap();
        fs::write(root.join("a/b/memory.max"), "max\n").unwrap();
        assert_eq!(limit(&root, "1:cpu:/x\n0::/a/b\n"), Some(1000));
        assert_eq!(limit(&root, "0::/\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
