//! The machine under a measurement, as it describes itself.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

/// Returns the name of the CPU, or `unknown`.
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

/// Returns the number of CPUs that this process may use.
#[must_use]
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the current date in UTC as `YYYY-MM-DD`.
#[must_use]
pub fn date() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    civil_date(since.as_secs() / 86_400)
}

/// Converts days since 1970-01-01 to `YYYY-MM-DD`, in years that begin in March, so that a leap day is the
/// last day of its year.
fn civil_date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the command line of this process, with the program's name in place of its path.
#[must_use]
pub fn command() -> String {
    let mut arguments = env::args_os();
    let program = arguments.next().unwrap_or_default();
    let mut words = vec![
        Path::new(&program)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(arguments.map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Returns the DRAM in bytes that this process holds for itself: its anonymous resident pages, measured by
/// the kernel. Mapped bytes of a pool are not included. Returns `None` if the kernel does not report it.
#[must_use]
pub fn anonymous_dram() -> Option<u64> {
    anonymous_dram_of("self")
}

/// Returns the [`anonymous_dram`] of the process with this id (or `self`).
#[must_use]
pub fn anonymous_dram_of(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Counts [`anonymous_dram`] page by page, which is exact at this moment, but slow if much is mapped.
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
    fn days_become_dates() {
        for (days, date) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(civil_date(days), date);
        }
    }

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
