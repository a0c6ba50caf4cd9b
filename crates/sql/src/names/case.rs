//! Columns that are written without quotes and in another case than they have: `studyName`, which is looked
//! up as `studyname`, is the column `studyName` where there is no other.
//!
//! A name is looked up as SQL has it first; only an error about it makes this module look at the columns.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitorMut};

use crate::syntax::normal;

/// A name of columns that is written in another case than the columns have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherCase {
    /// The name as it is looked up, in lower case.
    written: String,
    /// The name that the columns have.
    name: String,
}

impl OtherCase {
    /// Returns the name whose case is the cause of an error; `None` if the cause is another one, or if
    /// columns of several names are meant.
    pub fn cause(error: &DataFusionError) -> Option<Self> {
        let DataFusionError::SchemaError(schema_error, _) = error.find_root() else {
            return None;
        };
        let SchemaError::FieldNotFound { field, valid_fields } = &**schema_error else {
            return None;
        };
        let written = field.name();
        let names = valid_fields.iter().map(|column| column.name());
        let names: BTreeSet<&str> = names
            .filter(|name| *name != written && name.to_lowercase() == *written)
            .collect();
        match names.into_iter().collect::<Vec<_>>()[..] {
            [name] => Some(Self {
                written: written.to_owned(),
                name: name.to_owned(),
            }),
            _ => None,
        }
    }
}

/// Gives columns the case that they have.
#[derive(Debug)]
pub struct CaseRewriter {
    case: OtherCase,
    /// A name was changed.
    pub changed: bool,
}

impl CaseRewriter {
    /// Creates a rewriter of one name.
    pub fn new(case: OtherCase) -> Self {
        Self { case, changed: false }
    }

    fn ident(&mut self, ident: &mut Ident) {
        if ident.quote_style.is_none() && normal(ident) == self.case.written {
            *ident = Ident::with_quote('"', self.case.name.clone());
            self.changed = true;
        }
    }
}

impl VisitorMut for CaseRewriter {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => self.ident(ident),
            Expr::CompoundIdentifier(parts) => {
                if let Some(last) = parts.last_mut() {
                    self.ident(last);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
