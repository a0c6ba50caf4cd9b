//! Keys of joins with two kinds of equality: `a = b`, which no NULL satisfies, and `a IS NOT DISTINCT FROM b`.
//!
//! A join of DataFusion has one rule for NULL in all of its keys, and its optimizer carries that rule from
//! one join to another: keys are added to a join whatever its rule is, and of a chain of inner joins the rule
//! of the topmost one holds for all. [`join`] makes joins with keys of both kinds, [`ExtractKeys`] finds keys
//! among conditions, and [`OrderCrossJoins`] keeps null-safe joins out of chains. The last two replace rules
//! of DataFusion of the same names.
//!
//! Invariant: in a join with `NullEqualsNull`, the keys that are compared by `=` have no NULL on a side that
//! need not be preserved.

mod cross;
mod extract;
mod join;

use std::sync::Arc;

use datafusion::optimizer::{Optimizer, OptimizerRule};

use cross::OrderCrossJoins;
use extract::ExtractKeys;
pub use join::{EquiKey, join};

/// Returns DataFusion's logical rules, with own ones in the place of some.
pub fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    for rule in &mut rules {
        if let Some(replacing) = own_rules().into_iter().find(|own| own.name() == rule.name()) {
            *rule = replacing;
        }
    }
    rules
}

fn own_rules() -> [Arc<dyn OptimizerRule + Send + Sync>; 2] {
    [Arc::new(ExtractKeys), Arc::new(OrderCrossJoins::default())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_datafusion_are_replaced() {
        let before = Optimizer::new().rules;
        for own in own_rules() {
            assert!(before.iter().any(|rule| rule.name() == own.name()), "{own:?}");
        }
        assert_eq!(logical_rules().len(), before.len());
    }
}
