//! Pushes a domain into joins.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, when};

use super::correlation::columns_of;
use super::join_conditions::same;
use super::push::{Equalities, Equated, PushDown, Pushed, keeps_left, named, retained};
use super::rule::unsupported;

/// The columns that represent the attributes, and whether NULL in them has no partner.
type Representatives = (Vec<Column>, Vec<bool>);

impl PushDown<'_> {
    /// Pushes the domain into the sides of a join that need it. Where both have it, rows with equal values
    /// are joined.
    ///
    /// # Errors
    /// A domain cannot be pushed into one of the sides.
    pub(super) fn join(&mut self, join: Join, equalities: &Equalities) -> Result<Pushed> {
        use JoinType as T;
        let scope = self.domain.scope();
        if join.null_aware {
            return Err(unsupported(
                "a correlated NOT IN of this form",
                "write NOT EXISTS",
            ));
        }
        let by_condition = join.filter.iter().any(|filter| scope.is_used_by(filter))
            || join
                .on
                .iter()
                .any(|(left, right)| scope.is_used_by(left) || scope.is_used_by(right));
        let mut left_depends = scope.is_used_within(&join.left)?;
        let mut right_depends = scope.is_used_within(&join.right)?;
        match join.join_type {
            T::Inner => left_depends |= by_condition && !right_depends,
            // The rows that are kept without a partner need the values, and conditions are evaluated with
            // theirs.
            T::Left | T::LeftSemi | T::LeftAnti | T::LeftMark => left_depends = true,
            T::Right | T::RightSemi | T::RightAnti | T::RightMark => right_depends = true,
            T::Full => (left_depends, right_depends) = (true, true),
        }
        let (for_left, for_right) = self.sides(&join, equalities);
        let outputs = join.schema.columns();
        let conditions: Vec<Expr> = join.filter.map(split_conjunction_owned).unwrap_or_default();
        let left = Arc::unwrap_or_clone(join.left);
        let right = Arc::unwrap_or_clone(join.right);
        let (left, left_pushed) = self.side(left, left_depends, &for_left)?;
        let (right, right_pushed) = self.side(right, right_depends, &for_right)?;
        let representatives = left_pushed
            .as_ref()
            .or(right_pushed.as_ref())
            .map(|side| side.0.clone());
        let representatives = representatives.unwrap_or_default();
        let replace = |expr: Expr| self.domain.replace(expr, &representatives);
        let mut on = Vec::with_capacity(join.on.len());
        for (left, right) in join.on {
            on.push((replace(left)?, replace(right)?));
        }
        let mut filter: Vec<Expr> = conditions.into_iter().map(replace).collect::<Result<_>>()?;
        if let (Some((left, left_strict)), Some((right, right_strict))) = (&left_pushed, &right_pushed) {
            let pairs = left.iter().zip(right);
            match join.null_equality {
                NullEquality::NullEqualsNull => on.extend(
                    pairs.map(|(left, right)| (Expr::Column(left.clone()), Expr::Column(right.clone()))),
                ),
                NullEquality::NullEqualsNothing => {
                    let strict = |at: usize| {
                        let of = |side: &[bool]| side.get(at).copied().unwrap_or(false);
                        of(left_strict) || of(right_strict)
                    };
                    filter.extend(same(left, right, strict));
                }
            }
        }
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            datafusion::logical_expr::utils::conjunction(filter),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            false,
        )?;
        let plan = LogicalPlan::Join(joined);
        match (join.join_type, left_pushed, right_pushed) {
            (T::Full, Some(left), Some(right)) => self.either(plan, &outputs, left, right),
            (T::Right | T::RightSemi | T::RightAnti | T::RightMark, _, Some((columns, strict)))
            | (_, Some((columns, strict)), _)
            | (_, None, Some((columns, strict))) => Ok(Pushed {
                plan,
                representatives: columns,
                strict,
            }),
            (_, None, None) => Err(unsupported(
                "a subquery with a correlated join of this form",
                "write it as a join",
            )),
        }
    }

    /// Pushes the domain into a side if it needs it.
    fn side(
        &mut self,
        plan: LogicalPlan,
        depends: bool,
        equalities: &Equalities,
    ) -> Result<(LogicalPlan, Option<Representatives>)> {
        if !depends {
            return Ok((plan, None));
        }
        let pushed = self.plan(plan, equalities)?;
        Ok((pushed.plan, Some((pushed.representatives, pushed.strict))))
    }

    /// Returns the equalities that hold for the rows of each side that matter.
    fn sides(&self, join: &Join, equalities: &Equalities) -> (Equalities, Equalities) {
        use JoinType as T;
        let (left, right) = (join.left.schema(), join.right.schema());
        let keeps_right = matches!(join.join_type, T::Right | T::Full);
        let keeps_left = keeps_left(join.join_type);
        // A condition above the join drops rows of a side unless the other one is kept without a partner.
        let mut for_left = if keeps_right {
            self.none()
        } else {
            retained(equalities, &|expr| is_over(expr, left))
        };
        let mut for_right = if keeps_left {
            self.none()
        } else {
            retained(equalities, &|expr| is_over(expr, right))
        };
        // One of the join drops rows of a side unless that side is kept.
        let conditions = join
            .filter
            .clone()
            .map(split_conjunction_owned)
            .unwrap_or_default();
        for condition in &conditions {
            if let Some((at, expr, strict)) = self.domain.equated(condition) {
                let add = |side: &mut Equalities| {
                    if let Some(candidates) = side.get_mut(at) {
                        let expr = expr.clone();
                        candidates.push(Equated { expr, strict });
                    }
                };
                let left_kept = matches!(join.join_type, T::Left | T::Full | T::LeftAnti | T::LeftMark);
                let right_kept = matches!(join.join_type, T::Right | T::Full | T::RightAnti | T::RightMark);
                if is_over(&expr, left) && !left_kept {
                    add(&mut for_left);
                } else if is_over(&expr, right) && !right_kept {
                    add(&mut for_right);
                }
            }
        }
        // What equals an expression of the other side by a key.
        if join.join_type == T::Inner {
            for at in 0..equalities.len() {
                let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
                let key_is_strict = join.null_equality == NullEquality::NullEqualsNothing;
                for (left, right) in &join.on {
                    let find = |side: &Equalities, expr: &Expr| {
                        let candidates = side.get(at).into_iter().flatten();
                        let mut equal = candidates.filter(|candidate| candidate.expr == *expr);
                        equal.next().map(|candidate| candidate.strict)
                    };
                    if let Some(strict) = find(&for_left, left) {
                        of_right.push((right.clone(), strict || key_is_strict));
                    }
                    if let Some(strict) = find(&for_right, right) {
                        of_left.push((left.clone(), strict || key_is_strict));
                    }
                }
                for (side, found) in [(&mut for_left, of_left), (&mut for_right, of_right)] {
                    if let Some(candidates) = side.get_mut(at) {
                        candidates.extend(found.into_iter().map(|(expr, strict)| Equated { expr, strict }));
                    }
                }
            }
        }
        (for_left, for_right)
    }

    /// Represents the attributes of a full join by those of the side that a row has.
    fn either(
        &mut self,
        plan: LogicalPlan,
        outputs: &[Column],
        (left, left_strict): Representatives,
        (right, right_strict): Representatives,
    ) -> Result<Pushed> {
        let mut exprs: Vec<Expr> = outputs
            .iter()
            .map(|output| named(Expr::Column(output.clone()), output))
            .collect();
        let mut representatives = Vec::with_capacity(left.len());
        for (left, right) in left.into_iter().zip(right) {
            let fresh = self.names.column();
            let (left, right) = (Expr::Column(left), Expr::Column(right));
            let value = when(left.clone().is_null(), right).otherwise(left)?;
            exprs.push(value.alias(fresh.name()));
            representatives.push(fresh);
        }
        let strict = left_strict
            .into_iter()
            .zip(right_strict)
            .map(|(left, right)| left && right);
        Ok(Pushed {
            plan: LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?),
            representatives,
            strict: strict.collect(),
        })
    }
}

/// Returns true for an expression of these columns alone.
fn is_over(expr: &Expr, schema: &DFSchema) -> bool {
    columns_of(expr).iter().all(|column| schema.has_column(column))
}
