//! Macros: expressions under a name, which take the place of their calls before a statement is planned.

mod definition;
mod expand;

pub(crate) use definition::{MacroDefinition, MacroParameter, parse_expression};
pub(crate) use expand::{MacroExpander, expanded};
