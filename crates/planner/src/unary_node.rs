//! The part of [`ExecutionPlan`] that nodes with one child, in a field `input`, have in common.
//!
//! These are macros instead of a wrapper such as [`LeafExec`](halocline_scan::leaf::LeafExec), because
//! optimizer rules look for the nodes by their types.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;

/// Implements the methods about children. `|node, input| new` makes the node for another child.
macro_rules! one_child {
    (|$node:ident, $input:ident| $new:expr) => {
        fn children(&self) -> Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.input]
        }

        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            children: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
        ) -> ::datafusion::error::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            let $input = $crate::unary_node::only_child(self.name(), children)?;
            let $node = &*self;
            Ok(::std::sync::Arc::new($new))
        }
    };
}

/// Implements `apply_expressions` for a node without expressions.
macro_rules! no_expressions {
    () => {
        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &::std::sync::Arc<dyn ::datafusion::physical_expr::PhysicalExpr>,
            ) -> ::datafusion::error::Result<
                ::datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> ::datafusion::error::Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(::datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

pub(crate) use {no_expressions, one_child};

/// Returns the new child of the node of this name.
///
/// # Errors
/// There are none or several.
pub(crate) fn only_child(
    node: &str,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [child] = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children)
        .map_err(|_| DataFusionError::Internal(format!("{node} has one child")))?;
    Ok(child)
}
