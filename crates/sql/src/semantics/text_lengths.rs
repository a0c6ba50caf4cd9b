//! Casts to texts of a length: `CAST(x AS varchar(3))` cuts off what is longer, as in PostgreSQL. DataFusion
//! ignores the length.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, CharacterLength, Expr, Value, VisitorMut};

use crate::syntax::call_of;

/// Rewrites casts to texts of a length as calls of `left`.
pub(super) struct LengthRewriter;

impl VisitorMut for LengthRewriter {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { data_type, .. } = expr
            && let Some(length) = take_length(data_type)
        {
            let length = Expr::value(Value::Number(length.to_string(), false));
            let cast = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = call_of("left", [cast, length]);
        }
        ControlFlow::Continue(())
    }
}

/// Takes the length away from a type of texts.
fn take_length(data_type: &mut ast::DataType) -> Option<u64> {
    use ast::DataType as T;
    let (T::Character(length)
    | T::Char(length)
    | T::CharacterVarying(length)
    | T::CharVarying(length)
    | T::Varchar(length)) = data_type
    else {
        return None;
    };
    match length.take()? {
        CharacterLength::IntegerLength { length, .. } => Some(length),
        CharacterLength::Max => None,
    }
}
