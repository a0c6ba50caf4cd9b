//! Timing that can be compared: repetitions of all systems alternate, so that a slow moment of the machine
//! hits them alike; the median counts, and the spread is shown.

use crate::BenchError;

/// Measured values of one metric of one system.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Creates samples from values in the order they were measured.
    #[must_use]
    pub fn new(values: Vec<f64>) -> Self {
        Self(values)
    }

    /// Adds a value.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns one over each value: rates of times.
    pub(crate) fn inverse(&self) -> Self {
        Self(self.0.iter().map(|value| 1.0 / value).collect())
    }

    /// Returns the median, which is the mean of the two middle values if their number is even; NaN if there
    /// are no samples.
    #[must_use]
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[n / 2],
            n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
        }
    }

    /// Returns the smallest value; NaN if there are no samples.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// Returns the largest value; NaN if there are no samples.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }
}

/// One way to do what is measured; returns the measured value of one repetition.
pub(crate) type Run<'a> = Box<dyn FnMut() -> Result<f64, BenchError> + 'a>;

/// Runs every system once to warm up, then all of them `repetitions` times in turn; one sample set per
/// system.
///
/// # Errors
/// The first failure of a run.
pub(crate) fn interleaved(repetitions: usize, systems: &mut [Run<'_>]) -> Result<Vec<Samples>, BenchError> {
    for run in systems.iter_mut() {
        run()?;
    }
    let mut samples = vec![Samples::default(); systems.len()];
    for _ in 0..repetitions.max(1) {
        for (run, samples) in systems.iter_mut().zip(&mut samples) {
            samples.push(run()?);
        }
    }
    Ok(samples)
}

/// Returns the geometric mean; NaN if `values` is empty.
pub(crate) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        let samples = Samples::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((samples.median(), samples.min(), samples.max()), (2.0, 1.0, 3.0));
        assert_eq!(Samples::new(vec![4.0, 1.0]).median(), 2.5);
        assert!(Samples::default().median().is_nan());
        assert!((geometric_mean(&[1.0, 100.0]) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn systems_alternate_after_a_warm_up() {
        let order = std::cell::RefCell::new(Vec::new());
        let system = |name: char, value: f64| {
            let order = &order;
            let run: Run<'_> = Box::new(move || {
                order.borrow_mut().push(name);
                Ok(value)
            });
            run
        };
        let samples = interleaved(2, &mut [system('a', 1.0), system('b', 2.0)]).unwrap();
        assert_eq!(order.borrow().iter().collect::<String>(), "ababab");
        assert_eq!(
            samples,
            [Samples::new(vec![1.0, 1.0]), Samples::new(vec![2.0, 2.0])]
        );
    }

    #[test]
    fn a_failure_ends_the_measurement() {
        let mut systems: [Run<'_>; 1] = [Box::new(|| Err(BenchError::Setup("no".into())))];
        assert!(interleaved(3, &mut systems).is_err());
    }
}
