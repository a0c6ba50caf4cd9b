//! Zipfian numbers in constant time each: Gray et al., "Quickly Generating Billion-Record Synthetic
//! Databases", SIGMOD'94, section 3.2.

use crate::SplitMix64;

/// An error in creating a Zipf distribution.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ZipfError {
    /// There are no items to draw from.
    #[error("a Zipf distribution needs at least one item")]
    NoItems,
    /// The skew is outside the range of the method.
    #[error("the Zipf skew theta must be in [0, 1), not {0}")]
    Theta(f64),
}

/// A distribution over ranks `0..n`, in which the probability of rank `r` is proportional to `1 / (r +
/// 1)^theta`.
///
/// Theta 0 is uniform; 0.5 is the skew of the Elf papers, 0.99 that of YCSB.
///
/// ```
/// use halocline_workloads::{SplitMix64, Zipf};
/// let zipf = Zipf::new(1000, 0.5)?;
/// let rank = zipf.sample(&mut SplitMix64::new(1));
/// assert!(rank < 1000);
/// # Ok::<(), halocline_workloads::ZipfError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Zipf {
    items: u64,
    theta: f64,
    zeta_n: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Creates a distribution over `items` ranks with skew `theta`. O(min(items, 10^6)).
    ///
    /// # Errors
    /// [`ZipfError`] if there are no items or `theta` is not in `[0, 1)`.
    pub fn new(items: u64, theta: f64) -> Result<Self, ZipfError> {
        if items == 0 {
            return Err(ZipfError::NoItems);
        }
        if !(0.0..1.0).contains(&theta) {
            return Err(ZipfError::Theta(theta));
        }
        let zeta_n = zeta(items, theta);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - zeta(2, theta) / zeta_n);
        Ok(Self {
            items,
            theta,
            zeta_n,
            alpha: 1.0 / (1.0 - theta),
            eta,
        })
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Returns the exact probability of `rank`, which [`Self::sample`] approximates for ranks above 1.
    #[must_use]
    pub fn probability(&self, rank: u64) -> f64 {
        (rank as f64 + 1.0).powf(-self.theta) / self.zeta_n
    }

    /// Draws a rank. O(1).
    #[inline]
    pub fn sample(&self, rng: &mut SplitMix64) -> u64 {
        let u = rng.unit();
        let uz = u * self.zeta_n;
        if uz < 1.0 || self.items == 1 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = (self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.items - 1)
    }
}

/// Computes `sum over i in 1..=n of i^-theta`: the first million terms one by one, the rest by
/// Euler-Maclaurin, whose error there is far below the rounding error of the sum.
fn zeta(n: u64, theta: f64) -> f64 {
    const EXACT_TERMS: u64 = 1_000_000;
    let head = n.min(EXACT_TERMS);
    // Smallest terms first, to reduce rounding errors.
    let mut sum: f64 = (1..=head).rev().map(|i| (i as f64).powf(-theta)).sum();
    if n > head {
        let (a, b) = (head as f64, n as f64);
        let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
        let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
        let slopes = theta * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0)) / 12.0;
        sum += integral + ends + slopes;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_continues_smoothly_behind_the_exact_terms() {
        for theta in [0.0, 0.5, 0.9] {
            let n = 1_200_000u64;
            let exact: f64 = (1..=n).rev().map(|i| (i as f64).powf(-theta)).sum();
            assert!((zeta(n, theta) / exact - 1.0).abs() < 1e-12, "theta {theta}");
        }
    }

    #[test]
    fn frequencies_follow_the_law() {
        for theta in [0.0, 0.5, 0.99] {
            let zipf = Zipf::new(1000, theta).unwrap();
            let mut rng = SplitMix64::new(9);
            let draws = 200_000;
            let mut counts = vec![0u32; 1000];
            for _ in 0..draws {
                counts[zipf.sample(&mut rng) as usize] += 1;
            }
            // The method is exact for the first two ranks and approximate for the rest (up to a tenth off),
            // so ranges of ranks are compared.
            for range in [0..1, 1..2, 2..10, 10..100, 100..500, 500..1000] {
                let expected: f64 = range.clone().map(|rank| zipf.probability(rank)).sum();
                let got: f64 = range
                    .clone()
                    .map(|rank| f64::from(counts[rank as usize]))
                    .sum::<f64>()
                    / f64::from(draws);
                assert!(
                    (got - expected).abs() < 0.12 * expected + 0.002,
                    "theta {theta}, ranks {range:?}: {got} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn probabilities_sum_to_one() {
        let zipf = Zipf::new(5000, 0.5).unwrap();
        let sum: f64 = (0..5000).map(|rank| zipf.probability(rank)).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }

    #[test]
    fn tiny_and_wrong_parameters() {
        let mut rng = SplitMix64::new(1);
        let one = Zipf::new(1, 0.5).unwrap();
        let two = Zipf::new(2, 0.5).unwrap();
        for _ in 0..1000 {
            assert_eq!(one.sample(&mut rng), 0);
            assert!(two.sample(&mut rng) < 2);
        }
        assert_eq!(Zipf::new(0, 0.5).unwrap_err(), ZipfError::NoItems);
        assert_eq!(Zipf::new(10, 1.0).unwrap_err(), ZipfError::Theta(1.0));
        assert!(matches!(Zipf::new(10, f64::NAN), Err(ZipfError::Theta(_))));
    }
}
