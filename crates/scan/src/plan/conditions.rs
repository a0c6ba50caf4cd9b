//! The filters of one table reference, translated to predicates on codes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::logical_expr::Expr;
use halocline_catalog::filter::{ColumnCondition, unqualified};
use halocline_catalog::selections::IndexSelection;
use halocline_catalog::{OpenIndex, OpenTable};
use halocline_columns::{CodePredicate, CodeSpace, Segment, StringPredicate};
use halocline_elf::TableIndex;

/// A predicate on the codes of each segment.
pub(super) type PerSegment = Vec<CodePredicate>;

/// A predicate for the scan of a segment.
#[derive(Debug, Clone)]
pub enum ScanPredicate {
    /// On the codes of the column.
    Codes(CodePredicate),
    /// On its strings, if it has no codes.
    Strings(StringPredicate),
}

/// Predicates on columns of a segment, by position of the column.
pub(super) type OnColumns<P> = Vec<(usize, P)>;

/// A condition translated to predicates on codes or strings, as far as that is exact.
#[derive(Debug)]
pub struct Translation {
    /// On the column of the table in each segment; `None` if a segment has no exact predicate.
    pub scan: Option<Vec<ScanPredicate>>,
    /// On the dimension of each index of the table, by position among its indexes; `None` where the column is
    /// no dimension.
    pub indexes: Vec<Option<PerSegment>>,
    /// True if no scan can answer the condition, but a volatile index may do so once it is built.
    pub pending_volatile: bool,
}

/// A cache of the translations that one statement needs.
#[derive(Debug, Default)]
pub struct TranslationCache(Mutex<HashMap<ColumnCondition, Arc<Translation>>>);

impl TranslationCache {
    /// Returns the translation of a condition.
    pub fn translation(&self, condition: &ColumnCondition, open: &OpenTable) -> Arc<Translation> {
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
    /// Returns true if the scan or an index can answer the condition without evaluating an expression. That
    /// counts volatile indexes that are not built yet; if the build fails, the scan evaluates the condition
    /// as an expression after all.
    pub fn is_exact(&self) -> bool {
        self.scan.is_some() || self.pending_volatile || self.indexes.iter().any(Option::is_some)
    }
}

fn translate(condition: &ColumnCondition, open: &OpenTable) -> Translation {
    let field = open.table.schema().field(condition.column);
    let segments = open.table.segments();
    let on_strings = condition.on_strings(field);
    let of_segment = |segment: &Segment| match segment.column(condition.column).code_space() {
        Some(space) => condition.translate_own(field, space).map(ScanPredicate::Codes),
        None => on_strings.clone().map(ScanPredicate::Strings),
    };
    let scan: Option<Vec<ScanPredicate>> = segments.iter().map(of_segment).collect();
    let codes: Option<PerSegment> = scan.as_ref().and_then(|scan| {
        let codes = scan.iter().map(|predicate| match predicate {
            ScanPredicate::Codes(codes) => Some(codes.clone()),
            ScanPredicate::Strings(_) => None,
        });
        codes.collect()
    });
    let indexes = open.indexes.iter().map(|index| {
        let index = index.now()?;
        let dimension = index
            .columns()
            .iter()
            .position(|column| *column == condition.column)?;
        if codes.is_some() {
            // A dimension has the codes of its column, if the column has any.
            return codes.clone();
        }
        (0..segments.len())
            .map(|segment| condition.translate(field, dimension_space(&index, segment, dimension)))
            .collect()
    });
    let pending = |index: &OpenIndex| index.now().is_none() && index.is_to_be_built(condition.column);
    Translation {
        pending_volatile: scan.is_none() && open.indexes.iter().any(pending),
        indexes: indexes.collect(),
        scan,
    }
}

/// Returns the code space of a dimension in a segment.
pub(super) fn dimension_space(index: &TableIndex, segment: usize, dimension: usize) -> &CodeSpace {
    index.segments()[segment].space(dimension)
}

/// The filters of a scan, separated by whether they can be translated to codes.
#[derive(Debug, Clone)]
pub struct Filters {
    /// Conditions on a single column, with their translations.
    pub conditions: Vec<(ColumnCondition, Arc<Translation>)>,
    /// All other filters.
    pub others: Vec<Expr>,
}

impl Filters {
    /// Reads the filters of a scan.
    pub fn read(filters: &[Expr], open: &OpenTable, translations: &TranslationCache) -> Self {
        let (mut conditions, mut others) = (Vec::new(), Vec::new());
        for filter in filters {
            match ColumnCondition::read(filter, open.table.schema()) {
                Some(condition) => {
                    let translation = translations.translation(&condition, open);
                    conditions.push((condition, translation));
                }
                None => others.push(unqualified(filter.clone()).unwrap_or_else(|| filter.clone())),
            }
        }
        Self { conditions, others }
    }

    /// Returns all filters as expressions.
    pub fn expressions(&self) -> Vec<Expr> {
        let conditions = self
            .conditions
            .iter()
            .map(|(condition, _)| condition.expr.clone());
        conditions.chain(self.others.iter().cloned()).collect()
    }

    /// Returns the conditions that the index at position `number` answers; `None` if there are none.
    pub fn index_selection(&self, number: usize, open: &OpenTable) -> Option<IndexSelection> {
        let fields = open.table.schema().fields();
        let answered = self.conditions.iter().filter_map(|(condition, translation)| {
            translation.indexes[number].as_ref()?;
            Some((fields[condition.column].clone(), condition.clone()))
        });
        let conditions: Vec<_> = answered.collect();
        (!conditions.is_empty()).then(|| IndexSelection::new(conditions))
    }

    /// Returns the filters that the index at position `number` can answer.
    pub fn for_index(&self, number: usize, index: &TableIndex, segments: usize) -> IndexPushdown {
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
            for (predicates, codes) in predicates.iter_mut().zip(codes) {
                predicates[dimension] = predicates[dimension].and(codes);
            }
            answered[at] = true;
            constrained[dimension] = true;
        }
        IndexPushdown {
            predicates,
            answered,
            constrained,
        }
    }

    /// Splits the conditions that are not `answered` into predicates for the scan and expressions.
    pub fn remaining(&self, answered: &[bool], segments: usize) -> RemainingFilters {
        let mut kernels: Vec<OnColumns<CodePredicate>> = vec![Vec::new(); segments];
        let mut strings: Vec<OnColumns<StringPredicate>> = vec![Vec::new(); segments];
        let mut expressions = self.others.clone();
        let mut described = Vec::new();
        for ((condition, translation), answered) in self.conditions.iter().zip(answered) {
            if *answered {
                continue;
            }
            match &translation.scan {
                Some(scan) => {
                    described.push(condition.expr.to_string());
                    for (segment, predicate) in scan.iter().enumerate() {
                        match predicate {
                            ScanPredicate::Codes(CodePredicate::Any) => {}
                            ScanPredicate::Codes(codes) => {
                                kernels[segment].push((condition.column, codes.clone()));
                            }
                            ScanPredicate::Strings(predicate) => {
                                add_strings(&mut strings[segment], condition.column, predicate);
                            }
                        }
                    }
                }
                None => expressions.push(condition.expr.clone()),
            }
        }
        RemainingFilters {
            kernels,
            strings,
            described,
            expressions,
        }
    }
}

/// Adds a predicate on strings, to one on the same column if both are ranges.
fn add_strings(predicates: &mut OnColumns<StringPredicate>, column: usize, predicate: &StringPredicate) {
    for (other, present) in predicates.iter_mut() {
        if *other == column
            && let Some(both) = present.and(predicate)
        {
            *present = both;
            return;
        }
    }
    predicates.push((column, predicate.clone()));
}

/// The filters that an index answers.
pub struct IndexPushdown {
    /// Predicates, per segment and dimension.
    pub predicates: Vec<Vec<CodePredicate>>,
    /// For each condition of [`Filters`], whether the predicates stand for it.
    pub answered: Vec<bool>,
    /// For each dimension, whether it has a condition.
    pub constrained: Vec<bool>,
}

/// The filters that no index answers.
pub struct RemainingFilters {
    /// Predicates for the scan kernels, per segment.
    pub kernels: Vec<OnColumns<CodePredicate>>,
    /// Predicates on strings without codes, per segment.
    pub strings: Vec<OnColumns<StringPredicate>>,
    /// All of these predicates as SQL, for EXPLAIN.
    pub described: Vec<String>,
    /// Filters that must be evaluated as expressions.
    pub expressions: Vec<Expr>,
}
