//! Joins that merge columns: conditions in place of USING and NATURAL.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, JoinConstraint, JoinOperator, Value};

use super::constraint;
use super::rewrite::{MergedColumns, Outcome, last_name, not_known};
use super::scope::{Found, Merged, Place, Scope};
use crate::EngineError;

impl MergedColumns<'_> {
    /// Joins two parts of a FROM clause. If `merges`, the join gets a condition in place of USING or NATURAL.
    pub(super) fn join(
        &mut self,
        left: Scope,
        right: Scope,
        operator: &mut JoinOperator,
        merges: bool,
    ) -> Outcome<Scope> {
        let common = match constraint(operator) {
            Some(JoinConstraint::Using(names)) if merges => {
                Some(names.iter().filter_map(last_name).collect())
            }
            Some(JoinConstraint::Natural) if merges => Some(common_names(&left, &right)?),
            _ => None,
        };
        let Some(names) = common else {
            let mut joined = left;
            joined.append(right);
            self.scopes.push(joined);
            self.names(operator)?;
            return Ok(self.scopes.pop().unwrap_or_default());
        };
        let mut merged = Vec::with_capacity(names.len());
        let mut condition: Option<Expr> = None;
        let moved = left.relations.len();
        for name in names {
            let of_left = side(&left, &name)?;
            let of_right = side(&right, &name)?;
            let equal = Expr::BinaryOp {
                left: Box::new(left.value(&of_left.values)),
                op: BinaryOperator::Eq,
                right: Box::new(right.value(&of_right.values)),
            };
            condition = Some(match condition {
                Some(before) => Expr::BinaryOp {
                    left: Box::new(before),
                    op: BinaryOperator::And,
                    right: Box::new(equal),
                },
                None => equal,
            });
            merged.push((of_left, of_right.moved(moved)));
        }
        let on_left_only = matches!(operator, JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_));
        let on_right_only = matches!(operator, JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_));
        let (mut joined, only_right) = (left, right.clone());
        joined.append(right);
        for (of_left, of_right) in merged {
            joined.merged.retain(|known| known.name != of_left.name);
            joined.merged.push(merge(operator, of_left, of_right));
        }
        set_condition(operator, condition);
        if on_left_only {
            joined.relations.truncate(moved);
            joined
                .merged
                .retain(|merged| merged.values.iter().all(|(relation, _)| *relation < moved));
            for merged in &mut joined.merged {
                merged.members.retain(|(relation, _)| *relation < moved);
            }
        }
        Ok(if on_right_only { only_right } else { joined })
    }
}

impl Merged {
    fn moved(self, by: usize) -> Self {
        let place = |(relation, column): Place| (relation + by, column);
        Self {
            name: self.name,
            values: self.values.into_iter().map(place).collect(),
            members: self.members.into_iter().map(place).collect(),
        }
    }
}

/// Returns the column of one side of a join that a name of USING stands for.
fn side(scope: &Scope, name: &str) -> Outcome<Merged> {
    let problem = match scope.find(name) {
        Found::Merged(merged) => return Ok(merged.clone()),
        Found::Column(place) => {
            return Ok(Merged {
                name: name.to_owned(),
                values: vec![place.clone()],
                members: vec![place],
            });
        }
        Found::NotKnown => {
            let unknown = scope.relations.iter().find(|relation| relation.columns.is_none());
            return not_known(unknown.map_or(&[], |relation| &relation.qualifier));
        }
        Found::Ambiguous => "is there more than once on one side of the join; write ON",
        Found::Nothing => "is not on both sides of the join",
    };
    Err(EngineError::Query(format!(
        "the column {name} in USING or NATURAL {problem}"
    )))
}

/// Merges the columns of both sides.
fn merge(operator: &JoinOperator, left: Merged, right: Merged) -> Merged {
    let members = left.members.into_iter().chain(right.members).collect();
    let values = match operator {
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => right.values,
        JoinOperator::FullOuter(_) => left.values.into_iter().chain(right.values).collect(),
        JoinOperator::Join(_) | JoinOperator::Inner(_) if right.values.len() < left.values.len() => {
            right.values
        }
        _ => left.values,
    };
    Merged {
        name: left.name,
        values,
        members,
    }
}

/// Gives a join a condition; one without has all pairs of rows.
fn set_condition(operator: &mut JoinOperator, condition: Option<Expr>) {
    let condition = match (condition, &*operator) {
        (None, JoinOperator::Join(_) | JoinOperator::Inner(_)) => {
            *operator = JoinOperator::CrossJoin(JoinConstraint::None);
            return;
        }
        (None, _) => Expr::Value(Value::Boolean(true).into()),
        (Some(condition), _) => condition,
    };
    if let JoinOperator::Join(constraint)
    | JoinOperator::Inner(constraint)
    | JoinOperator::Left(constraint)
    | JoinOperator::LeftOuter(constraint)
    | JoinOperator::Right(constraint)
    | JoinOperator::RightOuter(constraint)
    | JoinOperator::FullOuter(constraint)
    | JoinOperator::LeftSemi(constraint)
    | JoinOperator::RightSemi(constraint)
    | JoinOperator::LeftAnti(constraint)
    | JoinOperator::RightAnti(constraint) = operator
    {
        *constraint = JoinConstraint::On(condition);
    }
}

fn common_names(left: &Scope, right: &Scope) -> Outcome<Vec<String>> {
    let names = |scope: &Scope| match scope.names() {
        Some(names) => Ok(names),
        None => {
            let unknown = scope.relations.iter().find(|relation| relation.columns.is_none());
            not_known(unknown.map_or(&[], |relation| &relation.qualifier))
        }
    };
    let (of_left, of_right) = (names(left)?, names(right)?);
    Ok(of_left
        .into_iter()
        .filter(|name| of_right.contains(name))
        .collect())
}
