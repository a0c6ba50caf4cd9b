//! Three-valued truth of a boolean expression over one column.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::atom;
use super::codes::CodeDomain;
use super::intervals::Intervals;

/// The codes for which an expression is true, and those for which it is false; it is NULL for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Truth {
    pub yes: Intervals,
    pub no: Intervals,
}

impl Truth {
    /// Returns the truth of an expression that is always NULL.
    pub(super) fn unknown() -> Self {
        Self {
            yes: Intervals::empty(),
            no: Intervals::empty(),
        }
    }

    /// Returns the truth of an expression that is true on `yes`, false on all other values, and NULL on NULL.
    pub(super) fn strict(yes: Intervals, codes: &CodeDomain<'_>) -> Self {
        let yes = yes.intersect(&codes.values);
        Self {
            no: yes.complement(&codes.values),
            yes,
        }
    }

    /// Returns the truth of an expression that is true on `yes` and false on all other codes, including NULL.
    pub(super) fn total(yes: Intervals, codes: &CodeDomain<'_>) -> Self {
        Self {
            no: yes.complement(&codes.values.union(&codes.nulls)),
            yes,
        }
    }

    pub(super) fn not(self) -> Self {
        Self {
            yes: self.no,
            no: self.yes,
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            yes: self.yes.intersect(&other.yes),
            no: self.no.union(&other.no),
        }
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        Self {
            yes: self.yes.union(&other.yes),
            no: self.no.intersect(&other.no),
        }
    }

    /// Returns the codes for which the expression is NULL.
    fn null(&self, codes: &CodeDomain<'_>) -> Intervals {
        self.yes
            .union(&self.no)
            .complement(&codes.values.union(&codes.nulls))
    }
}

/// Returns the truth of `expr`, exactly, or `None`.
pub(super) fn truth_of(expr: &Expr, codes: &CodeDomain<'_>) -> Option<Truth> {
    match expr {
        Expr::Alias(alias) => truth_of(&alias.expr, codes),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And,
            right,
        }) => Some(truth_of(left, codes)?.and(&truth_of(right, codes)?)),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => Some(truth_of(left, codes)?.or(&truth_of(right, codes)?)),
        Expr::Not(inner) => Some(truth_of(inner, codes)?.not()),
        Expr::IsTrue(inner) => Some(Truth::total(truth_of(inner, codes)?.yes, codes)),
        Expr::IsNotTrue(inner) => Some(Truth::total(truth_of(inner, codes)?.yes, codes).not()),
        Expr::IsFalse(inner) => Some(Truth::total(truth_of(inner, codes)?.no, codes)),
        Expr::IsNotFalse(inner) => Some(Truth::total(truth_of(inner, codes)?.no, codes).not()),
        Expr::IsUnknown(inner) => Some(Truth::total(truth_of(inner, codes)?.null(codes), codes)),
        Expr::IsNotUnknown(inner) => Some(Truth::total(truth_of(inner, codes)?.null(codes), codes).not()),
        Expr::Literal(ScalarValue::Boolean(value), _) => Some(match value {
            Some(true) => Truth::total(codes.values.union(&codes.nulls), codes),
            Some(false) => Truth::total(Intervals::empty(), codes),
            None => Truth::unknown(),
        }),
        other => atom::truth_of_atom(other, codes),
    }
}
