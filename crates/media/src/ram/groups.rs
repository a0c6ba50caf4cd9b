//! Memory limits of control groups, of version 1 and 2, and of machines that have both.
//!
//! `/proc/self/cgroup` names the group of this process in each hierarchy, `/proc/self/mountinfo` the places
//! where hierarchies are mounted, which may show a part only: inside a container the group is named as it is
//! outside, and the mount point is the container's own group. A group's limit holds for all below it.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Values that version 1 writes for "no limit": the largest number of pages of whatever size.
const UNLIMITED: u64 = 1 << 62;

/// Returns the lowest memory limit in bytes of the process's groups and those around them.
pub(super) fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    lowest(&groups, &mounts)
}

/// The two versions of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// Returns the name of the file that has the limit.
    fn file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }
}

/// A place where the memory controller's hierarchy is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that the mount point shows.
    root: PathBuf,
    point: PathBuf,
}

fn lowest(groups: &str, mounts: &str) -> Option<u64> {
    let mounts = mounts.lines().filter_map(mount);
    let limits = mounts.filter_map(|mount| limit_at(&mount, &group_of(groups, mount.version)?));
    limits.min()
}

/// Returns the process's group in a hierarchy with the memory controller.
fn group_of(groups: &str, version: Version) -> Option<PathBuf> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let is_found = match version {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => controllers.is_empty(),
        };
        is_found.then(|| PathBuf::from(group))
    })
}

/// Reads a line of `mountinfo`: number, parent, device, root, mount point, options, further fields, a hyphen,
/// type, source, options of the file system.
fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let (mut left, mut right) = (left.split(' ').skip(3), right.split(' '));
    let (root, point) = (left.next()?, left.next()?);
    let (kind, options) = (right.next()?, right.nth(1)?);
    let version = match kind {
        "cgroup2" => Version::Two,
        "cgroup" if options.split(',').any(|option| option == "memory") => Version::One,
        _ => return None,
    };
    Some(Mount {
        version,
        root: unescaped(root),
        point: unescaped(point),
    })
}

/// Returns a path of `mountinfo`, where blanks and backslashes are octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let [blank, tab, line, backslash] = ["\\040", "\\011", "\\012", "\\134"];
    let path = path.replace(blank, " ").replace(tab, "\t").replace(line, "\n");
    PathBuf::from(path.replace(backslash, "\\"))
}

/// Returns the lowest limit of a group and those around it that a mount shows.
fn limit_at(mount: &Mount, group: &Path) -> Option<u64> {
    // A group outside what is shown is named relative to that, or as its host names it.
    let is_shown = |path: &&Path| path.components().all(|part| part != Component::ParentDir);
    let shown = group.strip_prefix(&mount.root).ok().filter(is_shown);
    let directory = mount.point.join(shown.unwrap_or(Path::new("")));
    let around = directory
        .ancestors()
        .take_while(|path| path.starts_with(&mount.point));
    let limit = |path: &Path| -> Option<u64> {
        let text = fs::read_to_string(path.join(mount.version.file())).ok()?;
        text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
    };
    around.filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a hierarchy of control groups in a temporary directory.
    fn hierarchy(limits: &[(&str, Version, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (group, version, limit) in limits {
            let directory = root.path().join(group);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(version.file()), limit).unwrap();
        }
        root
    }

    fn mounted(version: Version, root: &str, point: &Path) -> String {
        let kind = match version {
            Version::One => "cgroup cgroup rw,memory",
            Version::Two => "cgroup2 cgroup2 rw",
        };
        let point = point.display();
        format!(
            "31 23 0:28 / /sys rw - tmpfs tmpfs rw\n35 31 0:32 {root} {point} rw,relatime shared:9 - {kind}\n"
        )
    }

    #[test]
    fn the_lowest_limit_of_a_group_and_those_around_it() {
        let (one, two) = (Version::One, Version::Two);
        let version_2 = hierarchy(&[("a", two, "1000\n"), ("a/b", two, "max\n"), ("c", two, "10\n")]);
        let mounts = mounted(two, "/", version_2.path());
        assert_eq!(lowest("1:cpu:/x\n0::/a/b\n", &mounts), Some(1000));
        assert_eq!(lowest("0::/\n", &mounts), None);
        let version_1 = hierarchy(&[
            ("", one, "9223372036854771712\n"),
            ("a", one, "3000\n"),
            ("a/b", one, "2000\n"),
        ]);
        let both = mounts + &mounted(one, "/", version_1.path());
        assert_eq!(lowest("4:cpu,memory:/a/b\n0::/\n", &both), Some(2000));
        assert_eq!(lowest("4:cpu,memory:/a/b\n0::/c\n", &both), Some(10));
        assert_eq!(lowest("4:memory:/\n0::/\n", &both), None);
    }

    #[test]
    fn a_container_sees_its_group_where_the_hierarchy_is_mounted() {
        for version in [Version::One, Version::Two] {
            let inside = hierarchy(&[("", version, "500"), ("own", version, "400")]);
            let groups = |group: &str| match version {
                Version::One => format!("4:memory:{group}\n"),
                Version::Two => format!("0::{group}\n"),
            };
            for (group, root, expected) in [
                // Named as the host names it, by a mount that says what it shows.
                ("/docker/7", "/docker/7", 500),
                ("/docker/7/own", "/docker/7", 400),
                // With a namespace of its own, or one that does not hold the group.
                ("/", "/", 500),
                ("/own", "/", 400),
                ("/../other", "/", 500),
                // Named as the host names it, by a mount that does not say what it shows.
                ("/docker/7", "/", 500),
            ] {
                let mounts = mounted(version, root, inside.path());
                assert_eq!(
                    lowest(&groups(group), &mounts),
                    Some(expected),
                    "{group} in {root}"
                );
            }
        }
    }

    #[test]
    fn paths_are_unescaped() {
        let line = "35 31 0:32 / /my\\040groups\\134 rw - cgroup2 none rw";
        assert_eq!(mount(line).unwrap().point, Path::new("/my groups\\"));
    }
}
