//! Consistency of a profile. Whoever uses one divides by its figures, so a profile that makes no sense is
//! refused where it is read.

use super::{AccessFigures, Profile, Rate};
use crate::LINE;

/// A field of a profile that contradicts others or lies out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the profile of a medium is inconsistent: {field} {defect}; write it again with `halocline calibrate`"
)]
pub struct ProfileInconsistency {
    /// The field, as `warm.read[0].bytes_per_second`.
    pub field: String,
    /// The value, and the reason it is refused.
    pub defect: String,
}

impl Profile {
    /// Checks that the figures are positive and do not contradict each other. Profiles that were
    /// [read](Profile::read) have been checked.
    ///
    /// # Errors
    /// The first inconsistency, in the order of the fields.
    pub fn check(&self) -> Result<(), ProfileInconsistency> {
        check(self)
    }
}

/// Returns the first inconsistency of a profile, in the order of its fields.
fn check(profile: &Profile) -> Result<(), ProfileInconsistency> {
    if profile.version != Profile::VERSION {
        return fail(
            "version",
            format!(
                "is {}, and this program knows {}",
                profile.version,
                Profile::VERSION
            ),
        );
    }
    for (field, count) in [("bytes", profile.bytes), ("cpus", profile.cpus.into())] {
        if count == 0 {
            return fail(field, "is 0".to_owned());
        }
    }
    check_figures("warm", &profile.warm, false)?;
    if let Some(cold) = &profile.cold {
        check_figures("cold", cold, true)?;
    }
    check_figures("dram", &profile.dram, false)
}

fn check_figures(name: &str, figures: &AccessFigures, device: bool) -> Result<(), ProfileInconsistency> {
    let path = |field: &str| format!("{name}.{field}");
    for (field, value) in [
        ("sequential_read_ns", figures.sequential_read_ns),
        ("random_read_ns", figures.random_read_ns),
        ("persist_ns", figures.persist_ns),
        ("peak_read", figures.peak_read),
        ("peak_write", figures.peak_write),
    ] {
        check_positive(path(field), value)?;
    }
    check_rates(&path("read"), &figures.read, figures.peak_read)?;
    check_rates(&path("write"), &figures.write, figures.peak_write)?;
    if !figures.write.iter().any(|rate| rate.threads == figures.writers) {
        return fail(
            path("writers"),
            format!("is {}, which {name}.write does not contain", figures.writers),
        );
    }
    if !figures.unit.is_power_of_two() || !(LINE..=1 << 20).contains(&figures.unit) {
        return fail(
            path("unit"),
            format!("is {}, not a power of two from 64 to 1048576", figures.unit),
        );
    }
    let strides: Vec<u64> = figures.strides.iter().map(|cost| cost.stride).collect();
    check_ascending(&path("strides"), &strides, device)?;
    for (at, cost) in figures.strides.iter().enumerate() {
        check_positive(format!("{name}.strides[{at}].value_ns"), cost.value_ns)?;
    }
    let sizes: Vec<u64> = figures.probes.iter().map(|cost| cost.bytes).collect();
    check_ascending(&path("probes"), &sizes, device)?;
    for (at, cost) in figures.probes.iter().enumerate() {
        check_positive(format!("{name}.probes[{at}].batched_ns"), cost.batched_ns)?;
        check_positive(format!("{name}.probes[{at}].dependent_ns"), cost.dependent_ns)?;
    }
    Ok(())
}

fn check_rates(list: &str, rates: &[Rate], peak: f64) -> Result<(), ProfileInconsistency> {
    let threads: Vec<u64> = rates.iter().map(|rate| rate.threads.into()).collect();
    check_ascending(list, &threads, false)?;
    for (at, rate) in rates.iter().enumerate() {
        let field = format!("{list}[{at}].bytes_per_second");
        check_positive(field.clone(), rate.bytes_per_second)?;
        if rate.bytes_per_second > peak {
            return fail(
                field,
                format!("is {}, more than the peak of {peak}", rate.bytes_per_second),
            );
        }
    }
    Ok(())
}

/// Checks that a list is not empty, unless it may be, and that its keys ascend from 1 or more.
fn check_ascending(list: &str, keys: &[u64], may_be_empty: bool) -> Result<(), ProfileInconsistency> {
    match keys.first() {
        None if may_be_empty => Ok(()),
        None => fail(list, "is empty".to_owned()),
        Some(0) => fail(list, "begins with 0".to_owned()),
        Some(_) => match keys.windows(2).find(|pair| pair[0] >= pair[1]) {
            None => Ok(()),
            Some(pair) => fail(list, format!("has {} before {}", pair[0], pair[1])),
        },
    }
}

fn check_positive(field: String, value: f64) -> Result<(), ProfileInconsistency> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        fail(field, format!("is {value}, not a positive number"))
    }
}

fn fail(field: impl Into<String>, defect: String) -> Result<(), ProfileInconsistency> {
    Err(ProfileInconsistency {
        field: field.into(),
        defect,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::profile::{ProbeFigures, ProfiledMedium, StrideFigures};

    fn rates(rates: &[(u32, f64)]) -> Vec<Rate> {
        let rate = |(threads, bytes_per_second)| Rate {
            threads,
            bytes_per_second,
        };
        rates.iter().copied().map(rate).collect()
    }

    fn figures(read: &[(u32, f64)], write: &[(u32, f64)], unit: u64) -> AccessFigures {
        let peak = |rates: &[(u32, f64)]| rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
        AccessFigures {
            sequential_read_ns: 20.0,
            random_read_ns: 320.5,
            read: rates(read),
            write: rates(write),
            peak_read: peak(read),
            peak_write: peak(write),
            writers: 2,
            unit,
            unit_measured: true,
            persist_ns: 94.0,
            strides: [(4, 1.0), (256, 60.0)]
                .map(|(stride, value_ns)| StrideFigures { stride, value_ns })
                .to_vec(),
            probes: [(32 << 10, 2.0, 4.0), (32 << 20, 50.0, 320.0)]
                .map(|(bytes, batched_ns, dependent_ns)| ProbeFigures {
                    bytes,
                    batched_ns,
                    dependent_ns,
                })
                .to_vec(),
        }
    }

    /// Returns a consistent profile.
    pub(crate) fn profile() -> Profile {
        let warm = figures(
            &[(1, 4.1e9), (2, 8e9), (12, 32e9)],
            &[(1, 7e9), (2, 8.5e9), (12, 5e9)],
            256,
        );
        let mut cold = figures(&[(1, 1e9), (2, 2e9)], &[(1, 1e9), (2, 1.5e9)], 4096);
        (cold.strides, cold.probes) = (Vec::new(), Vec::new());
        Profile {
            version: Profile::VERSION,
            medium: ProfiledMedium::PageCache,
            file_system: "ext4".to_owned(),
            bytes: 256 << 20,
            cache_bytes: 32 << 20,
            cpus: 12,
            warm,
            cold: Some(cold),
            dram: figures(&[(1, 8.7e9), (12, 102e9)], &[(1, 7.2e9), (2, 79e9)], 64),
        }
    }

    #[test]
    fn a_consistent_profile_passes() {
        assert_eq!(check(&profile()), Ok(()));
        let mut without = profile();
        without.cold = None;
        assert_eq!(check(&without), Ok(()));
    }

    /// Makes a profile inconsistent.
    type Change = fn(&mut Profile);

    #[test]
    fn every_inconsistent_field_is_named() {
        let cases: &[(&str, Change)] = &[
            ("version", |p| p.version = 2),
            ("bytes", |p| p.bytes = 0),
            ("cpus", |p| p.cpus = 0),
            ("warm.sequential_read_ns", |p| p.warm.sequential_read_ns = 0.0),
            ("dram.random_read_ns", |p| p.dram.random_read_ns = -1.0),
            ("warm.persist_ns", |p| p.warm.persist_ns = f64::NAN),
            ("warm.peak_read", |p| p.warm.peak_read = f64::INFINITY),
            ("warm.peak_write", |p| p.warm.peak_write = 0.0),
            ("warm.read[2].bytes_per_second", |p| p.warm.peak_read = 31e9),
            ("cold.write[1].bytes_per_second", |p| {
                p.cold.as_mut().unwrap().peak_write = 1.1e9;
            }),
            ("warm.read", |p| p.warm.read.clear()),
            ("cold.read", |p| p.cold.as_mut().unwrap().read.clear()),
            ("dram.write", |p| p.dram.write.clear()),
            ("warm.read", |p| p.warm.read[0].threads = 0),
            ("warm.read", |p| p.warm.read[1].threads = 1),
            ("warm.read[0].bytes_per_second", |p| {
                p.warm.read[0].bytes_per_second = f64::NAN;
            }),
            ("warm.writers", |p| p.warm.writers = 3),
            ("warm.unit", |p| p.warm.unit = 0),
            ("warm.unit", |p| p.warm.unit = 96),
            ("cold.unit", |p| p.cold.as_mut().unwrap().unit = 1 << 21),
            ("warm.strides", |p| p.warm.strides.clear()),
            ("dram.strides", |p| p.dram.strides.reverse()),
            ("warm.strides[1].value_ns", |p| p.warm.strides[1].value_ns = 0.0),
            ("dram.probes", |p| p.dram.probes.clear()),
            ("dram.probes", |p| p.dram.probes[1].bytes = 5),
            ("dram.probes[0].batched_ns", |p| {
                p.dram.probes[0].batched_ns = -2.0
            }),
            ("dram.probes[1].dependent_ns", |p| {
                p.dram.probes[1].dependent_ns = f64::NEG_INFINITY;
            }),
        ];
        for (field, change) in cases {
            let mut profile = profile();
            change(&mut profile);
            assert_eq!(
                check(&profile).map_err(|found| found.field),
                Err((*field).to_owned())
            );
        }
    }
}
