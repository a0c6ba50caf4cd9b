//! Measured values of one metric: [`Samples`].

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
    #[must_use]
    pub fn inverse(&self) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        let samples = Samples::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((samples.median(), samples.min(), samples.max()), (2.0, 1.0, 3.0));
        assert_eq!(Samples::new(vec![4.0, 1.0]).median(), 2.5);
        assert!(Samples::default().median().is_nan());
    }
}
