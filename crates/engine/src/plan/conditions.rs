//! The filters of one table reference, translated against its code spaces.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::logical_expr::Expr;
use halocline_columns::{CodePredicate, CodeSpace};
use halocline_elf::TableIndex;

use crate::catalog::{OpenIndex, OpenTable};
use crate::filter::{Condition, both, unqualified};

/// One condition over the codes of each segment.
pub(crate) type PerSegment = Vec<CodePredicate>;

/// What became of a condition.
#[derive(Debug)]
pub(crate) struct Translation {
    /// Over the table's own columns; none if a segment's column has no codes or the condition no exact set.
    pub(crate) scan: Option<PerSegment>,
    /// Over the dimension of each index of the table (by position among its indexes), where it is one.
    pub(crate) indexes: Vec<Option<PerSegment>>,
    /// Whether a volatile index may have more to say once it is built.
    pub(crate) may_be: bool,
}

/// Translations of one statement, each made once.
#[derive(Debug, Default)]
pub(crate) struct Translations(Mutex<HashMap<Condition, Arc<Translation>>>);

impl Translations {
    /// The translation of a condition.
    pub(crate) fn of(&self, condition: &Condition, open: &OpenTable) -> Arc<Translation> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(translation) = known.get(condition) {
            return Arc::clone(translation);
        }
        let translation = Arc::new(translate(condition, open));
        known.insert(condition.clone(), Arc::clone(&translation));
        translation
    }
}

impl Translation {
    /// Can the condition be answered without evaluating an expression, by the scan or by some index, or perhaps by one that is
    /// to be built. If it cannot then, the scan evaluates it as an expression all the same.
    pub(crate) fn is_exact(&self) -> bool {
        self.scan.is_some() || self.may_be || self.indexes.iter().any(Option::is_some)
    }
}

fn translate(condition: &Condition, open: &OpenTable) -> Translation {
    let field = open.table.schema().field(condition.column);
    let one = |space: Option<&CodeSpace>| condition.translate(field, space?);
    let segments = open.table.segments();
    let scan: Option<PerSegment> = segments
        .iter()
        .map(|segment| one(segment.column(condition.column).code_space()))
        .collect();
    let indexes = open.indexes.iter().map(|index| {
        let index = index.now()?;
        let dimension = index
            .columns()
            .iter()
            .position(|column| *column == condition.column)?;
        if scan.is_some() {
            // A dimension has the codes of its column, if the column has any.
            return scan.clone();
        }
        (0..segments.len())
            .map(|segment| one(Some(dimension_space(&index, segment, dimension))))
            .collect()
    });
    let may_be = |index: &OpenIndex| index.now().is_none() && index.is_to_be_built(condition.column);
    Translation {
        may_be: scan.is_none() && open.indexes.iter().any(may_be),
        indexes: indexes.collect(),
        scan,
    }
}

/// The code space of a dimension in a segment.
pub(crate) fn dimension_space(index: &TableIndex, segment: usize, dimension: usize) -> &CodeSpace {
    index.segments()[segment].space(dimension)
}

/// The filters of a scan, sorted by what can be made of them.
pub(crate) struct Filters {
    /// Conditions on one column each, with their translations.
    pub(crate) conditions: Vec<(Condition, Arc<Translation>)>,
    /// All others.
    pub(crate) others: Vec<Expr>,
}

impl Filters {
    /// Reads the filters of a scan.
    pub(crate) fn read(filters: &[Expr], open: &OpenTable, translations: &Translations) -> Self {
        let (mut conditions, mut others) = (Vec::new(), Vec::new());
        for filter in filters {
            match Condition::read(filter, open.table.schema()) {
                Some(condition) => {
                    let translation = translations.of(&condition, open);
                    conditions.push((condition, translation));
                }
                None => others.push(unqualified(filter.clone()).unwrap_or_else(|| filter.clone())),
            }
        }
        Self { conditions, others }
    }

    /// All of them as expressions.
    pub(crate) fn expressions(&self) -> Vec<Expr> {
        let conditions = self
            .conditions
            .iter()
            .map(|(condition, _)| condition.expr.clone());
        conditions.chain(self.others.iter().cloned()).collect()
    }

    /// What index number `number` can answer: a predicate per dimension for each segment, and which conditions these
    /// predicates stand for.
    pub(crate) fn for_index(&self, number: usize, index: &TableIndex, segments: usize) -> IndexPart {
        let dimensions = index.columns().len();
        let mut predicates = vec![vec![CodePredicate::Any; dimensions]; segments];
        let mut answered = vec![false; self.conditions.len()];
        let mut constrained = vec![false; dimensions];
        for (at, (condition, translation)) in self.conditions.iter().enumerate() {
            let Some(codes) = &translation.indexes[number] else {
                continue;
            };
            let Some(dimension) = index.columns().iter().position(|c| *c == condition.column) else {
                continue;
            };
            let merged: Option<PerSegment> = (0..segments)
                .map(|segment| {
                    let max = dimension_space(index, segment, dimension).max_code();
                    both(&predicates[segment][dimension], &codes[segment], max)
                })
                .collect();
            if let Some(merged) = merged {
                for (segment, predicate) in merged.into_iter().enumerate() {
                    predicates[segment][dimension] = predicate;
                }
                answered[at] = true;
                constrained[dimension] = true;
            }
        }
        IndexPart {
            predicates,
            answered,
            constrained,
        }
    }

    /// Splits the conditions that are not `answered` into predicates for the scan kernels and expressions.
    pub(crate) fn rest(&self, answered: &[bool], segments: usize) -> Rest {
        let mut kernels: Vec<Vec<(usize, CodePredicate)>> = vec![Vec::new(); segments];
        let mut expressions = self.others.clone();
        let mut described = Vec::new();
        for ((condition, translation), answered) in self.conditions.iter().zip(answered) {
            if *answered {
                continue;
            }
            match &translation.scan {
                Some(codes) => {
                    described.push(condition.expr.to_string());
                    for (kernel, code) in kernels.iter_mut().zip(codes) {
                        if *code != CodePredicate::Any {
                            kernel.push((condition.column, code.clone()));
                        }
                    }
                }
                None => expressions.push(condition.expr.clone()),
            }
        }
        Rest {
            kernels,
            described,
            expressions,
        }
    }
}

/// What an index answers of the filters.
pub(crate) struct IndexPart {
    /// Per segment, per dimension.
    pub(crate) predicates: Vec<Vec<CodePredicate>>,
    /// Which conditions they stand for.
    pub(crate) answered: Vec<bool>,
    /// Which dimensions have a condition.
    pub(crate) constrained: Vec<bool>,
}

/// What is left of the filters.
pub(crate) struct Rest {
    /// For the scan kernels, per segment.
    pub(crate) kernels: Vec<Vec<(usize, CodePredicate)>>,
    /// These in words.
    pub(crate) described: Vec<String>,
    /// For DataFusion's expressions.
    pub(crate) expressions: Vec<Expr>,
}
