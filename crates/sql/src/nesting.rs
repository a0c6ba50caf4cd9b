//! Bounds how deeply a statement nests.
//!
//! The parser reads `a + b + c …`, `a::int::int …` and `… UNION ALL …` in loops, so its own limit of
//! recursion does not bound them, but their trees are as deep as they are long, and all that walks over them
//! later recurses. So they are bounded here, before they are planned; the limits are far below what a [large
//! stack](crate::stack) has room for. Long chains of AND and OR, which programs generate, are made balanced
//! trees: they may have any length.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, SetExpr, Value, VisitorMut};

use crate::EngineError;
use crate::syntax::visit_mut;

/// Levels of an expression.
const MAX_EXPRESSION_LEVELS: usize = 2_000;
/// Set operations within one query.
const SET_OPERATIONS: usize = 3_000;
/// Operands of a chain of AND or OR above which it is balanced; EXPLAIN shows shorter ones as they were
/// written.
const MAX_UNBALANCED_OPERANDS: usize = 64;
/// Bytes of a text whose tokens need not be counted.
const UNCOUNTED_TEXT: usize = 100_000;
/// Brackets that follow each other directly, as in the type `int[][]`, in a text that may be parsed.
const MAX_BRACKETS: usize = 500;
/// Tokens between two commas, at one level of parentheses, of a text that may be parsed: a chain of operators
/// has no comma between its operands.
const MAX_TOKENS: usize = 200_000;

/// Limits of nesting.
pub struct Nesting;

impl Nesting {
    /// Checks a text before it is parsed, so that even the tree of a statement that is refused can be
    /// dropped.
    ///
    /// # Errors
    /// It has a chain of operators that is longer than anything allowed.
    pub fn check_text(text: &str) -> Result<(), EngineError> {
        if text.contains(&"[]".repeat(MAX_BRACKETS)) {
            return Err(EngineError::TooDeep {
                what: "a type of the statement",
                limit: MAX_BRACKETS,
                instead: "name a type without that many brackets",
            });
        }
        if text.len() > UNCOUNTED_TEXT && longest_chain(text) > MAX_TOKENS {
            Err(too_deep_expression())
        } else {
            Ok(())
        }
    }

    /// Checks a parsed statement, and balances its long chains of AND and OR.
    ///
    /// # Errors
    /// It nests too deeply.
    pub fn bound(statement: &mut Parsed) -> Result<(), EngineError> {
        match visit_mut(statement, &mut NestingBounds::default()) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

fn too_deep_expression() -> EngineError {
    EngineError::TooDeep {
        what: "an expression of the statement",
        limit: MAX_EXPRESSION_LEVELS,
        instead: "write a list of values as IN (…), or store parts of it in a table",
    }
}

#[derive(Default)]
struct NestingBounds {
    /// Levels of the expression being visited.
    level: usize,
}

impl VisitorMut for NestingBounds {
    type Break = EngineError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        self.level += 1;
        if self.level > MAX_EXPRESSION_LEVELS {
            return ControlFlow::Break(too_deep_expression());
        }
        balance(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<EngineError> {
        self.level -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<EngineError> {
        if set_operations(&query.body) > SET_OPERATIONS {
            return ControlFlow::Break(EngineError::TooDeep {
                what: "the chain of UNION, INTERSECT and EXCEPT",
                limit: SET_OPERATIONS,
                instead: "run it in parts, with INSERT INTO … SELECT",
            });
        }
        ControlFlow::Continue(())
    }
}

/// Returns the number of set operations that follow each other in a query.
fn set_operations(body: &SetExpr) -> usize {
    let (mut count, mut bodies) = (0, vec![body]);
    while let Some(body) = bodies.pop() {
        if let SetExpr::SetOperation { left, right, .. } = body {
            count += 1;
            bodies.extend([&**left, &**right]);
        }
    }
    count
}

/// Makes a long chain `a OR b OR c …` (or AND), whose tree is as deep as it is long, a balanced tree.
/// Three-valued AND and OR are associative, and the order of the operands stays.
fn balance(expr: &mut Expr) {
    let Expr::BinaryOp { op, .. } = expr else {
        return;
    };
    let op = op.clone();
    if !matches!(op, BinaryOperator::And | BinaryOperator::Or) || chain(expr, &op) <= MAX_UNBALANCED_OPERANDS
    {
        return;
    }
    let mut operands = Vec::new();
    let mut rest = std::mem::replace(expr, Expr::value(Value::Null));
    loop {
        match rest {
            Expr::BinaryOp {
                left,
                op: here,
                right,
            } if here == op => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    *expr = balanced(operands, &mut |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    })
    .expect("a chain has operands");
}

/// Counts the operands of a chain of the operator `of`.
fn chain(mut expr: &Expr, of: &BinaryOperator) -> usize {
    let mut operands = 1;
    while let Expr::BinaryOp { left, op, .. } = expr
        && op == of
    {
        operands += 1;
        expr = left;
    }
    operands
}

/// Combines operands pairwise into a tree whose depth is the logarithm of their number, keeping their order.
pub fn balanced<T>(mut operands: Vec<T>, combine: &mut impl FnMut(T, T) -> T) -> Option<T> {
    while operands.len() > 1 {
        let mut pairs = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => combine(left, right),
                None => left,
            });
        }
        operands = pairs;
    }
    operands.pop()
}

/// Returns the largest number of tokens between commas (or semicolons) at one level of parentheses. Words and
/// numbers are one token each, other characters one each; those in quotes and comments do not count.
fn longest_chain(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut longest, mut here, mut outer, mut at) = (0, 0, Vec::new(), 0);
    while at < bytes.len() {
        let start = at;
        at += 1;
        match bytes[start] {
            quote @ (b'\'' | b'"' | b'`') => at = end_after(bytes, at, &[quote]),
            b'-' if bytes.get(at) == Some(&b'-') => {
                at = end_after(bytes, at, b"\n");
                continue;
            }
            b'/' if bytes.get(at) == Some(&b'*') => {
                at = end_after(bytes, at + 1, b"*/");
                continue;
            }
            byte if byte.is_ascii_whitespace() => continue,
            b'(' => outer.push(std::mem::take(&mut here)),
            b')' => here = outer.pop().unwrap_or(0),
            b',' | b';' => {
                here = 0;
                continue;
            }
            byte if byte.is_ascii_alphanumeric() => {
                while bytes.get(at).is_some_and(u8::is_ascii_alphanumeric) {
                    at += 1;
                }
            }
            _ => {}
        }
        here += 1;
        longest = longest.max(here);
    }
    longest
}

/// Returns the position after the next `end`, or after everything.
fn end_after(bytes: &[u8], from: usize, end: &[u8]) -> usize {
    let found = bytes[from.min(bytes.len())..]
        .windows(end.len())
        .position(|window| window == end);
    found.map_or(bytes.len(), |found| from + found + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_trees_keep_the_order() {
        for count in [1, 2, 3, 7, 8, 9, 1000] {
            let words: Vec<String> = (0..count).map(|n: usize| n.to_string()).collect();
            let joined = balanced(words.clone(), &mut |left, right| format!("{left} {right}"));
            assert_eq!(joined.unwrap(), words.join(" "));
        }
        assert_eq!(balanced(Vec::<u8>::new(), &mut |left, _| left), None);
    }

    #[test]
    fn chains_are_counted_between_commas() {
        assert_eq!(longest_chain("1+2+3, 4+5"), 5);
        assert_eq!(longest_chain("f(1+2, 3) + 4"), 4);
        assert_eq!(longest_chain("'a + b' /* + + */ -- + +\n + x1"), 3);
        assert_eq!(longest_chain("'open"), 1);
        assert_eq!(longest_chain("/* open"), 0);
        assert_eq!(longest_chain(")))("), 1);
    }
}
