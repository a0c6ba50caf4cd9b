//! Costs from the measured profile of a medium.

use halocline_media::{AccessFigures, Profile, ProfileInconsistency, Rate};

use super::medium::MediumCosts;

impl MediumCosts {
    /// Creates the costs of a measured medium, whose pages are resident if it has a page cache.
    ///
    /// # Errors
    /// The profile is inconsistent.
    pub fn of_profile(profile: &Profile) -> Result<MediumCosts, ProfileInconsistency> {
        profile.check()?;
        Ok(MediumCosts::of_figures(&profile.warm, &profile.dram))
    }

    /// Creates the costs of a slow tier and of DRAM from consistent figures of either.
    pub fn of_figures(medium: &AccessFigures, dram: &AccessFigures) -> MediumCosts {
        MediumCosts::new(
            &rates(&medium.read),
            &rates(&medium.write),
            usize::try_from(medium.unit).unwrap_or(usize::MAX),
            &random_reads(dram),
            &random_reads(medium),
        )
    }
}

fn rates(rates: &[Rate]) -> Vec<(usize, f64)> {
    rates
        .iter()
        .map(|rate| (rate.threads as usize, rate.bytes_per_second))
        .collect()
}

/// Returns the seconds of a probe of a batch, which is one independent random read, by size of the table.
fn random_reads(figures: &AccessFigures) -> Vec<(usize, f64)> {
    let probes = figures.probes.iter();
    probes
        .map(|probe| {
            let bytes = usize::try_from(probe.bytes).unwrap_or(usize::MAX);
            (bytes, probe.batched_ns * 1e-9)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use halocline_calibrate::{CalibrateOptions, CalibrateTarget, calibrate};

    use super::*;

    fn measured() -> Profile {
        let directory = tempfile::tempdir().unwrap();
        let options = CalibrateOptions {
            bytes: Some(1 << 20),
            threads: 2,
            time: Duration::from_micros(200),
        };
        let target = CalibrateTarget::Directory(directory.path().to_owned());
        calibrate(&target, &options, &AtomicBool::new(false), &mut |_| {}).unwrap()
    }

    #[test]
    fn costs_are_those_of_the_profile() {
        let profile = measured();
        let costs = MediumCosts::of_profile(&profile).unwrap();
        for threads in [1, 2] {
            let seconds = costs.read(1e9, threads) * profile.warm.read_bandwidth(threads as u32);
            assert!((seconds / 1e9 - 1.0).abs() < 1e-9);
        }
        let best = costs.best_writers(2);
        let seconds = costs.write(1e9, 2) * profile.warm.write_bandwidth(best as u32);
        assert!((seconds / 1e9 - 1.0).abs() < 1e-9);
        let probe = profile.dram.probe(256 << 10).unwrap();
        assert!((costs.dram_read(f64::from(256 << 10)) * 1e9 / probe.batched_ns - 1.0).abs() < 1e-9);
        assert!(costs.slow_read(f64::from(1 << 20), 8.0, 2) > 0.0);
    }

    #[test]
    fn an_inconsistent_profile_is_refused() {
        let mut profile = measured();
        profile.dram.write[0].bytes_per_second = f64::NAN;
        let error = MediumCosts::of_profile(&profile).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the profile of a medium is inconsistent: dram.write[0].bytes_per_second is NaN, not a positive number; \
             write it again with `halocline calibrate`"
        );
    }
}
