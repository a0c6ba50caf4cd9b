//! Timing that can be compared: repetitions of all systems alternate, so that a slow moment of the machine
//! hits them alike; the median counts, and the spread is shown.

use crate::{BenchError, Samples};

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
    fn means_are_geometric() {
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
