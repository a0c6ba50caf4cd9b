//! Combinations of arrived stores to try at one crash point.

use rand::rngs::SmallRng;
use rand::seq::index;
use rand::{Rng, SeedableRng};

/// Combinations to try. Each has one number per line, below the number of its states; 0 is the durable state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choices {
    /// The combinations, starting with the one in which nothing arrived.
    pub(crate) list: Vec<Vec<u32>>,
    /// Number of possible combinations (saturating).
    pub(crate) possible: u128,
    /// True if the list holds all of them.
    pub(crate) exhaustive: bool,
}

/// Returns all combinations if they are at most `limit`. Otherwise returns the extremes (nothing arrived,
/// everything arrived, each line alone arrived, each line alone missing; the lines are drawn if twice their
/// number exceeds `limit`), filled up to `limit` with drawn combinations. All draws are determined by `seed`.
///
/// `states` holds the number of states of each line, at least 1.
pub(crate) fn choose(states: &[u32], limit: usize, seed: u64) -> Choices {
    let possible = states.iter().fold(1_u128, |product, count| {
        product.saturating_mul(u128::from(*count))
    });
    if possible <= limit as u128 {
        return Choices {
            list: all(states, possible as usize),
            possible,
            exhaustive: true,
        };
    }
    let mut rng = SmallRng::seed_from_u64(seed);
    let nothing = vec![0; states.len()];
    let everything: Vec<u32> = states.iter().map(|count| count - 1).collect();
    let mut list = vec![nothing.clone(), everything.clone()];
    for line in index::sample(&mut rng, states.len(), states.len().min(limit.div_ceil(2))) {
        list.push(nothing.clone());
        list.push(everything.clone());
        for (choice, source) in list.iter_mut().rev().zip([&nothing, &everything]) {
            choice[line] = source[line];
        }
    }
    while list.len() < limit {
        list.push(states.iter().map(|count| draw(*count, &mut rng)).collect());
    }
    Choices {
        list,
        possible,
        exhaustive: false,
    }
}

/// Enumerates all combinations; the first line varies fastest.
fn all(states: &[u32], possible: usize) -> Vec<Vec<u32>> {
    let mut list = Vec::with_capacity(possible);
    let mut choice = vec![0; states.len()];
    for _ in 0..possible {
        list.push(choice.clone());
        for (digit, count) in choice.iter_mut().zip(states) {
            *digit += 1;
            if *digit < *count {
                break;
            }
            *digit = 0;
        }
    }
    list
}

/// Draws nothing, everything or any state with equal probability.
pub(crate) fn draw(count: u32, rng: &mut impl Rng) -> u32 {
    match rng.random_range(0..3) {
        0 => 0,
        1 => count - 1,
        _ => rng.random_range(0..count),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn few_combinations_are_all_listed_once() {
        let choices = choose(&[2, 3, 1, 2], 12, 0);
        assert!(choices.exhaustive);
        assert_eq!(choices.list[0], [0, 0, 0, 0]);
        assert_eq!(choices.list.iter().collect::<BTreeSet<_>>().len(), 12);
        assert!(choices.list.iter().all(|choice| choice[1] < 3 && choice[2] == 0));
        assert_eq!(choose(&[], 1, 0).list, [Vec::<u32>::new()]);
    }

    #[test]
    fn a_sample_has_the_extremes_and_can_be_repeated() {
        let states = [3_u32; 20];
        let choices = choose(&states, 100, 7);
        assert!(!choices.exhaustive);
        assert_eq!(choices.possible, 3_u128.pow(20));
        assert_eq!(choices.list.len(), 100);
        for line in 0..20 {
            let (mut alone, mut missing) = (vec![0; 20], vec![2; 20]);
            alone[line] = 2;
            missing[line] = 0;
            assert!(
                choices.list.contains(&alone) && choices.list.contains(&missing),
                "line {line}"
            );
        }
        assert!(choices.list.contains(&vec![0; 20]) && choices.list.contains(&vec![2; 20]));
        assert_eq!(choices, choose(&states, 100, 7));
        assert_ne!(choices, choose(&states, 100, 8));
        assert!(choose(&[2; 1000], 10, 1).list.len() <= 12);
    }
}
