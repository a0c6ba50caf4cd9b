//! Files of pool creations that were killed before completion: `.NAME.PID-N.new` beside the pool.
//!
//! A creation locks its file while it is still empty, and the lock ends with the process. So a file is
//! removed only if it is not locked and if its process is gone or has the id of this one (process ids restart
//! in containers), whose own files are never more than empty without a lock.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, test_kill_process};

use crate::locks::LockFile;

/// Returns a name beside the pool's that no other creation uses.
pub(crate) fn unfinished_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = prefix(path);
    name.push(format!(
        "{}-{}.new",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    path.with_file_name(name)
}

/// Removes the files that killed creations of this pool have left. Files that cannot be removed are harmless
/// and stay.
pub(crate) fn remove_leftovers(path: &Path) {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let prefix = prefix(path);
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let Some(process) = process_of(&entry.file_name(), &prefix) else {
            continue;
        };
        let found = parent.join(entry.file_name());
        if is_left_over(&found, process) {
            match fs::remove_file(&found) {
                Ok(()) => tracing::info!(path = %found.display(), "removed what a killed creation had left"),
                Err(error) => tracing::debug!(path = %found.display(), %error, "left as it is"),
            }
        }
    }
}

fn prefix(path: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// Returns the process id in the name of an unfinished file.
fn process_of(name: &OsStr, prefix: &OsStr) -> Option<u32> {
    let rest = name
        .as_encoded_bytes()
        .strip_prefix(prefix.as_encoded_bytes())?
        .strip_suffix(b".new")?;
    let (process, number) = std::str::from_utf8(rest).ok()?.split_once('-')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

fn is_left_over(path: &Path, process: u32) -> bool {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    let Ok(file) = File::options().read(true).write(true).open(path) else {
        return false;
    };
    let empty = file.metadata().map_or(true, |found| found.len() == 0);
    let own = process == std::process::id() && !empty;
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let gone = pid.is_none_or(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
    (own || gone) && LockFile::new(file).try_writer().unwrap_or(false)
}
