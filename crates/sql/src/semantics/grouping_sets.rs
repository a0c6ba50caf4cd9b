//! `ROLLUP` and `CUBE` of several expressions as one, or of one expression twice: DataFusion refuses the
//! former and fails at the latter. Both become the grouping sets that they stand for. An expression that is
//! twice in `DISTINCT ON` is there once.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Distinct, Expr, GroupByExpr, Select, VisitorMut};

/// Most elements of a `CUBE` that is written out.
const MAX_CUBE_ELEMENTS: usize = 12;

pub(super) struct GroupingSetRewriter;

impl VisitorMut for GroupingSetRewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            groups.iter_mut().for_each(write_out);
        }
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            *keys = joined([&*keys]);
        }
        ControlFlow::Continue(())
    }
}

fn write_out(group: &mut Expr) {
    let sets = match group {
        Expr::Rollup(elements) if needs_sets(elements) => (0..=elements.len())
            .rev()
            .map(|some| joined(&elements[..some]))
            .collect(),
        Expr::Cube(elements) if needs_sets(elements) && elements.len() <= MAX_CUBE_ELEMENTS => {
            let subsets = (0..1_usize << elements.len()).rev();
            let is_in = |subset: usize, at: usize| subset >> (elements.len() - 1 - at) & 1 == 1;
            let subset = |subset: usize| {
                let elements = elements.iter().enumerate();
                let some = elements.filter(|(at, _)| is_in(subset, *at));
                joined(some.map(|(_, element)| element))
            };
            subsets.map(subset).collect()
        }
        Expr::GroupingSets(sets) => sets.iter().map(std::slice::from_ref).map(joined).collect(),
        _ => return,
    };
    *group = Expr::GroupingSets(sets);
}

fn needs_sets(elements: &[Vec<Expr>]) -> bool {
    let expressions: usize = elements.iter().map(Vec::len).sum();
    expressions > elements.len() || joined(elements).len() < expressions
}

/// Returns each expression of some elements once.
fn joined<'a>(elements: impl IntoIterator<Item = &'a Vec<Expr>>) -> Vec<Expr> {
    let mut set: Vec<Expr> = Vec::new();
    for expr in elements.into_iter().flatten() {
        // The places of literals in the text differ.
        if !set.iter().any(|other| other.to_string() == expr.to_string()) {
            set.push(expr.clone());
        }
    }
    set
}
