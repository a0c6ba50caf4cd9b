//! The search for the cheapest order of joins.
//!
//! Up to [`MAX_EXACT_RELATIONS`] relations that equalities connect are ordered by dynamic programming over
//! subsets (DPsub in Moerkotte, Neumann: "Analysis of two existing and one new dynamic programming algorithm
//! for the generation of optimal bushy join trees without cross products", VLDB 2006), larger parts by
//! joining the cheapest pair again and again. Relations that nothing connects are joined in the end, the
//! smallest first; no other cross products are considered. A semi, anti or left join is applied to any part
//! that has what its condition refers to.
//!
//! The cost of a join is [`order::hash_join`].

use halocline_costs::join::order;

use super::graph::{JoinGraph, JoinTree, Relation};

/// Most relations that are ordered exactly: at most 3^10 / 2 pairs of subsets.
const MAX_EXACT_RELATIONS: usize = 10;

/// An order with its cost.
#[derive(Debug, Clone)]
pub(super) struct Ordered {
    pub(super) tree: JoinTree,
    relations: u64,
    pub(super) cost: f64,
}

/// Returns the rows of a part of the graph.
pub(super) type Rows<'r> = &'r dyn Fn(u64) -> f64;

/// Returns the cheapest order that the search finds. O(3^10 + relations^3).
pub(super) fn best_order(graph: &JoinGraph, rows: Rows<'_>) -> Option<Ordered> {
    let search = Search {
        neighbours: neighbours(graph),
        relations: &graph.relations,
        rows,
    };
    let mut parts: Vec<Ordered> = Vec::new();
    let mut left: u64 = graph.leaves().fold(0, |all, leaf| all | 1 << leaf);
    let mut attached = graph.all() & !left;
    while left != 0 {
        let component = search.component(left.trailing_zeros() as usize);
        left &= !component;
        let mut part = component;
        // What is attached may need another relation that is.
        loop {
            let own = bits(attached).filter(|number| search.outer(*number) & !part == 0);
            let own = own.fold(0, |all, number| all | 1 << number);
            if own == 0 {
                break;
            }
            part |= own;
            attached &= !own;
        }
        parts.push(search.connected(part)?);
    }
    parts.extend(bits(attached).map(single));
    search.greedy(parts, true)
}

/// Returns the cost of an order.
pub(super) fn cost(tree: &JoinTree, rows: Rows<'_>) -> f64 {
    match tree {
        JoinTree::Relation(_) => 0.0,
        JoinTree::Join(build, probe) => {
            let (b, p) = (build.relations(), probe.relations());
            cost(build, rows) + cost(probe, rows) + order::hash_join(rows(b), rows(p), rows(b | p))
        }
    }
}

fn single(relation: usize) -> Ordered {
    Ordered {
        tree: JoinTree::Relation(relation),
        relations: 1 << relation,
        cost: 0.0,
    }
}

/// Returns the numbers of the relations in a set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(number)
    })
}

/// Returns, for each leaf, the leaves that have an expression equal to one of its own.
fn neighbours(graph: &JoinGraph) -> Vec<u64> {
    let mut neighbours = vec![0u64; graph.relations.len()];
    for class in &graph.classes {
        let leaves = class.members.iter().fold(0, |all, member| all | 1 << member.leaf);
        for leaf in bits(leaves) {
            neighbours[leaf] |= leaves & !(1 << leaf);
        }
    }
    neighbours
}

struct Search<'s> {
    neighbours: Vec<u64>,
    relations: &'s [Relation],
    rows: Rows<'s>,
}

impl Search<'_> {
    /// Returns the leaves that a relation needs: those of its condition if it is the inner side of a semi
    /// join.
    fn outer(&self, relation: usize) -> u64 {
        self.relations[relation]
            .attached
            .as_ref()
            .map_or(0, |attached| attached.outer)
    }

    fn is_attached(&self, part: u64) -> bool {
        part.is_power_of_two() && self.outer(part.trailing_zeros() as usize) != 0
    }

    /// Returns the leaves that are connected to a leaf, by way of others.
    fn component(&self, leaf: usize) -> u64 {
        let (mut component, mut new) = (0u64, 1u64 << leaf);
        while new != 0 {
            component |= new;
            new = self.next_to(new) & !component;
        }
        component
    }

    fn next_to(&self, part: u64) -> u64 {
        bits(part).fold(0, |all, leaf| all | self.neighbours[leaf])
    }

    /// Returns true if two parts can be joined; those that nothing connects only if `cross`.
    fn can_join(&self, a: u64, b: u64, cross: bool) -> bool {
        match (self.is_attached(a), self.is_attached(b)) {
            (true, true) => false,
            (true, false) => self.outer(a.trailing_zeros() as usize) & !b == 0,
            (false, true) => self.outer(b.trailing_zeros() as usize) & !a == 0,
            (false, false) => cross || self.next_to(a) & b != 0,
        }
    }

    /// Returns the cost of joining two parts, and true if the second one is the build side.
    fn join_cost(&self, a: u64, b: u64) -> (f64, bool) {
        let (of_a, of_b, output) = ((self.rows)(a), (self.rows)(b), (self.rows)(a | b));
        let swap = of_b < of_a;
        (order::hash_join(of_a.min(of_b), of_a.max(of_b), output), swap)
    }

    fn join(&self, a: Ordered, b: Ordered) -> Ordered {
        let (cost, swap) = self.join_cost(a.relations, b.relations);
        let (build, probe) = if swap { (b, a) } else { (a, b) };
        Ordered {
            cost: build.cost + probe.cost + cost,
            relations: build.relations | probe.relations,
            tree: JoinTree::join(build.tree, probe.tree),
        }
    }

    /// Orders a connected component and the semi joins that need nothing else.
    fn connected(&self, part: u64) -> Option<Ordered> {
        match part.count_ones() as usize {
            1..=MAX_EXACT_RELATIONS => self.exact(part),
            _ => self.greedy(bits(part).map(single).collect(), false),
        }
    }

    /// Finds the cheapest join tree by dynamic programming over the subsets of `part` in ascending numerical
    /// order, in which every subset comes after its own subsets.
    fn exact(&self, part: u64) -> Option<Ordered> {
        let members: Vec<usize> = bits(part).collect();
        let sets = 1usize << members.len();
        // The relations of each set of positions in `members`.
        let mut global = vec![0u64; sets];
        for set in 1..sets {
            let first = members[set.trailing_zeros() as usize];
            global[set] = global[set & (set - 1)] | 1 << first;
        }
        // The cost of each set, and the subset that is joined with the rest; 0 for single relations.
        let mut best: Vec<Option<(f64, usize)>> = vec![None; sets];
        for set in 1..sets {
            if set.is_power_of_two() {
                best[set] = Some((0.0, 0));
                continue;
            }
            // The half with the lowest relation, so that each pair is seen once.
            let lowest = set & set.wrapping_neg();
            let rest = set & !lowest;
            let mut others = rest;
            while others != 0 {
                let half = set & !others;
                if let (Some((a, _)), Some((b, _))) = (best[half], best[others])
                    && best[set].is_none_or(|(cost, _)| a + b < cost)
                    && self.can_join(global[half], global[others], false)
                {
                    let cost = a + b + self.join_cost(global[half], global[others]).0;
                    if best[set].is_none_or(|(known, _)| cost < known) {
                        best[set] = Some((cost, half));
                    }
                }
                others = (others - 1) & rest;
            }
        }
        self.tree(sets - 1, &members, &best)
    }

    fn tree(&self, set: usize, members: &[usize], best: &[Option<(f64, usize)>]) -> Option<Ordered> {
        match best[set]? {
            (_, 0) => Some(single(members[set.trailing_zeros() as usize])),
            (_, half) => {
                let (a, b) = (
                    self.tree(half, members, best)?,
                    self.tree(set & !half, members, best)?,
                );
                Some(self.join(a, b))
            }
        }
    }

    /// Joins the cheapest pair until one is left (greedy operator ordering, Fegaras, DEXA 1998).
    fn greedy(&self, mut parts: Vec<Ordered>, cross: bool) -> Option<Ordered> {
        while parts.len() > 1 {
            let mut cheapest: Option<(f64, usize, usize)> = None;
            for second in 1..parts.len() {
                for first in 0..second {
                    let (a, b) = (parts[first].relations, parts[second].relations);
                    if !self.can_join(a, b, cross) {
                        continue;
                    }
                    let cost = self.join_cost(a, b).0;
                    if cheapest.is_none_or(|(known, ..)| cost < known) {
                        cheapest = Some((cost, first, second));
                    }
                }
            }
            let (_, first, second) = cheapest?;
            let b = parts.swap_remove(second);
            let a = parts.swap_remove(first);
            parts.push(self.join(a, b));
        }
        parts.pop()
    }
}
