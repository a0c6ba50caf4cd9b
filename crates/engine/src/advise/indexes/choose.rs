//! The choice of a set of indexes within a space budget.
//!
//! The cost of a workload with a set of indexes is the sum of the costs of its parts, each with the index
//! that is best for it. That is a submodular function of the set, so the gain of a set is at most the sum of
//! the gains that its members have alone (Nemhauser, Wolsey and Fisher, 1978), and the gains that fit the
//! space are bounded by a fractional knapsack. A greedy choice by gain per byte, improved by exchanges, is
//! the first solution; branch and bound with that bound improves it until it is proved to be the best, or
//! has compared [`MAX_COMPARED_COSTS`] costs.

use std::sync::atomic::{AtomicBool, Ordering};

/// Most costs that the search compares, some tenths of a second.
const MAX_COMPARED_COSTS: usize = 100_000_000;

/// A choice to be made.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    /// Cost of each part of the workload without any candidate, multiplied by its weight.
    pub(super) base: Vec<f64>,
    pub(super) candidates: Vec<ChoiceCandidate>,
    /// Bytes for all.
    pub(super) space: u64,
}

/// An index that can be chosen.
#[derive(Debug, Clone)]
pub(super) struct ChoiceCandidate {
    pub(super) bytes: u64,
    /// The cost of having it: it is not chosen for a smaller gain.
    pub(super) penalty: f64,
    /// Parts of the workload that are cheaper with it than without any, ascending, and their costs.
    pub(super) costs: Vec<(usize, f64)>,
}

impl Choice {
    /// Returns the positions of the chosen candidates, ascending; and true if no other set is better. `None`
    /// if `cancel` was set.
    pub(super) fn solve(&self, cancel: &AtomicBool) -> Option<(Vec<usize>, bool)> {
        let fits = |at: &usize| self.candidates[*at].bytes <= self.space;
        let usable: Vec<usize> = (0..self.candidates.len()).filter(fits).collect();
        let mut best = self.improved(self.greedy(&usable, true), &usable, cancel)?;
        let other = self.improved(self.greedy(&usable, false), &usable, cancel)?;
        if self.total(&other) < self.total(&best) {
            best = other;
        }
        let mut search = Search {
            choice: self,
            best_cost: self.total(&best),
            best,
            compared: 0,
            cancel,
        };
        search.branch(&self.base, &mut Vec::new(), self.space, &usable);
        if cancel.load(Ordering::Relaxed) {
            return None;
        }
        let is_best = search.compared < MAX_COMPARED_COSTS;
        search.best.sort_unstable();
        Some((search.best, is_best))
    }

    /// Returns the cost of the workload with a set, the penalties included.
    pub(super) fn total(&self, set: &[usize]) -> f64 {
        let mut costs = self.base.clone();
        for at in set {
            self.lower(&mut costs, *at);
        }
        costs.iter().sum::<f64>() + self.penalties(set)
    }

    fn lower(&self, costs: &mut [f64], candidate: usize) {
        for (part, cost) in &self.candidates[candidate].costs {
            costs[*part] = costs[*part].min(*cost);
        }
    }

    /// Returns the gain of adding a candidate, less the penalty.
    fn gain(&self, costs: &[f64], candidate: usize) -> f64 {
        let parts = self.candidates[candidate].costs.iter();
        let gain: f64 = parts.map(|(part, cost)| (costs[*part] - cost).max(0.0)).sum();
        gain - self.candidates[candidate].penalty
    }

    fn penalties(&self, set: &[usize]) -> f64 {
        set.iter().map(|at| self.candidates[*at].penalty).sum()
    }

    fn bytes(&self, set: &[usize]) -> u64 {
        set.iter().map(|at| self.candidates[*at].bytes).sum()
    }

    /// Adds the candidate with the largest gain, per byte or at all, as long as one fits and gains.
    fn greedy(&self, usable: &[usize], per_byte: bool) -> Vec<usize> {
        let (mut set, mut costs, mut space) = (Vec::new(), self.base.clone(), self.space);
        loop {
            let value = |at: usize| {
                let gain = self.gain(&costs, at);
                if per_byte {
                    gain / self.candidates[at].bytes.max(1) as f64
                } else {
                    gain
                }
            };
            let rest = usable.iter().copied();
            let fitting = rest.filter(|at| !set.contains(at) && self.candidates[*at].bytes <= space);
            let best = fitting
                .map(|at| (value(at), at))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            match best {
                Some((value, at)) if value > 0.0 => {
                    self.lower(&mut costs, at);
                    space -= self.candidates[at].bytes;
                    set.push(at);
                }
                _ => return set,
            }
        }
    }

    /// Drops, adds and exchanges single candidates as long as that lowers the cost.
    fn improved(&self, mut set: Vec<usize>, usable: &[usize], cancel: &AtomicBool) -> Option<Vec<usize>> {
        let mut cost = self.total(&set);
        loop {
            if cancel.load(Ordering::Relaxed) {
                return None;
            }
            let mut best: Option<(f64, Vec<usize>)> = None;
            let mut offer = |set: Vec<usize>| {
                let cost = self.total(&set);
                if self.bytes(&set) <= self.space && best.as_ref().is_none_or(|best| cost < best.0) {
                    best = Some((cost, set));
                }
            };
            // One past the end stands for none that is dropped.
            for dropped in 0..=set.len() {
                let mut rest = set.clone();
                if dropped < set.len() {
                    rest.swap_remove(dropped);
                    offer(rest.clone());
                }
                for added in usable.iter().filter(|at| !set.contains(at)) {
                    offer(rest.iter().copied().chain([*added]).collect());
                }
            }
            match best {
                Some((better, next)) if better < cost - cost.abs() * 1e-9 => (cost, set) = (better, next),
                _ => return Some(set),
            }
        }
    }
}

/// A depth-first search over the sets.
struct Search<'a> {
    choice: &'a Choice,
    best: Vec<usize>,
    best_cost: f64,
    compared: usize,
    cancel: &'a AtomicBool,
}

impl Search<'_> {
    /// Searches the sets that contain `set`, whose parts cost `costs`, and some of `rest`.
    fn branch(&mut self, costs: &[f64], set: &mut Vec<usize>, space: u64, rest: &[usize]) {
        if self.compared >= MAX_COMPARED_COSTS || self.cancel.load(Ordering::Relaxed) {
            return;
        }
        let choice = self.choice;
        let compared = rest.iter().map(|at| choice.candidates[*at].costs.len());
        self.compared += costs.len() + compared.sum::<usize>();
        let cost = costs.iter().sum::<f64>() + choice.penalties(set);
        if cost < self.best_cost {
            (self.best_cost, self.best) = (cost, set.clone());
        }
        let bytes = |at: usize| choice.candidates[at].bytes;
        let gains = rest.iter().filter(|at| bytes(**at) <= space);
        let mut gains: Vec<(f64, usize)> = gains
            .map(|at| (choice.gain(costs, *at), *at))
            .filter(|(gain, _)| *gain > 0.0)
            .collect();
        let density = |(gain, at): &(f64, usize)| gain / bytes(*at).max(1) as f64;
        gains.sort_by(|a, b| density(b).total_cmp(&density(a)).then(a.1.cmp(&b.1)));
        for (at, (_, candidate)) in gains.iter().enumerate() {
            // What is left out from here on is not tried again, so the bound shrinks with every step.
            if cost - bound(&gains[at..], space, bytes) >= self.best_cost * (1.0 - 1e-12) {
                return;
            }
            let mut lowered = costs.to_vec();
            choice.lower(&mut lowered, *candidate);
            let rest: Vec<usize> = gains[at + 1..].iter().map(|(_, at)| *at).collect();
            set.push(*candidate);
            self.branch(&lowered, set, space - bytes(*candidate), &rest);
            set.pop();
        }
    }
}

/// Returns the most that candidates, by descending gain per byte, can gain within `space` bytes.
fn bound(gains: &[(f64, usize)], space: u64, bytes: impl Fn(usize) -> u64) -> f64 {
    let (mut sum, mut left) = (0.0, space as f64);
    for (gain, at) in gains {
        let size = bytes(*at) as f64;
        if size > left {
            return sum + gain * left / size;
        }
        sum += gain;
        left -= size;
    }
    sum
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn random(rng: &mut StdRng) -> Choice {
        let parts = rng.random_range(0..8);
        let base: Vec<f64> = (0..parts).map(|_| rng.random_range(1.0..100.0)).collect();
        let candidates = (0..rng.random_range(0..11)).map(|_| ChoiceCandidate {
            bytes: rng.random_range(0..50),
            penalty: rng.random_range(0.0..5.0),
            costs: (0..parts)
                .filter_map(|part| {
                    let is_there = rng.random_ratio(1, 2);
                    is_there.then(|| (part, base[part] * rng.random_range(0.0..1.0)))
                })
                .collect(),
        });
        let candidates = candidates.collect();
        Choice {
            candidates,
            space: rng.random_range(0..150),
            base,
        }
    }

    /// Returns the least cost of all sets that fit.
    fn brute_force(choice: &Choice) -> f64 {
        let sets = (0_u32..1 << choice.candidates.len()).map(|bits| -> Vec<usize> {
            (0..choice.candidates.len())
                .filter(|at| bits >> at & 1 == 1)
                .collect()
        });
        let fitting = sets.filter(|set| choice.bytes(set) <= choice.space);
        fitting
            .map(|set| choice.total(&set))
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_choice_is_as_good_as_the_best_of_all_sets() {
        for seed in 0..400 {
            let choice = random(&mut StdRng::seed_from_u64(seed));
            let (set, is_best) = choice.solve(&AtomicBool::new(false)).unwrap();
            let (found, best) = (choice.total(&set), brute_force(&choice));
            assert!(
                is_best && (found - best).abs() < 1e-6,
                "seed {seed}: {set:?} costs {found}, {best} is possible"
            );
            assert!(
                choice.bytes(&set) <= choice.space && set.is_sorted(),
                "seed {seed}: {set:?}"
            );
        }
    }

    #[test]
    fn greedy_alone_would_choose_worse() {
        // The first is best per byte, and leaves no space for the second.
        let candidate = |bytes, cost| ChoiceCandidate {
            bytes,
            penalty: 1.0,
            costs: vec![(0, cost)],
        };
        let choice = Choice {
            base: vec![100.0],
            candidates: vec![candidate(10, 50.0), candidate(100, 1.0)],
            space: 100,
        };
        assert_eq!(choice.greedy(&[0, 1], true), [0]);
        assert_eq!(choice.solve(&AtomicBool::new(false)).unwrap(), (vec![1], true));
    }

    #[test]
    fn nothing_is_chosen_without_space_or_gain_and_a_cancelled_choice_ends() {
        let mut choice = Choice {
            base: vec![10.0],
            candidates: vec![ChoiceCandidate {
                bytes: 5,
                penalty: 1.0,
                costs: vec![(0, 8.0)],
            }],
            space: 4,
        };
        assert_eq!(choice.solve(&AtomicBool::new(false)).unwrap().0, [0; 0]);
        (choice.space, choice.candidates[0].penalty) = (5, 3.0);
        assert_eq!(choice.solve(&AtomicBool::new(false)).unwrap().0, [0; 0]);
        choice.candidates[0].penalty = 1.0;
        assert_eq!(choice.solve(&AtomicBool::new(false)).unwrap().0, [0]);
        assert_eq!(choice.solve(&AtomicBool::new(true)), None);
    }
}
