//! `CREATE INDEX` as parsed.

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexType};

use super::{Statement, identifier, object_name, option_of};
use crate::{EngineError, IndexSpec, Layout, Order};

/// Reads the statement.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn create(create: &CreateIndex) -> Result<Statement, EngineError> {
    let refuse = |what: String, instead: &str| {
        Err(EngineError::Unsupported {
            what,
            instead: instead.into(),
        })
    };
    let Some(name) = &create.name else {
        return refuse(
            "CREATE INDEX without a name".into(),
            "write CREATE INDEX name ON …",
        );
    };
    match &create.using {
        None => {}
        Some(IndexType::Custom(kind)) if kind.value.eq_ignore_ascii_case("elf") => {}
        Some(other) => {
            return refuse(
                format!("an index of type {other}"),
                "there is one type: USING elf",
            );
        }
    }
    if create.unique {
        return refuse(
            "a UNIQUE index".into(),
            "an Elf holds equal rows as well; leave UNIQUE out",
        );
    }
    if create.predicate.is_some() || !create.include.is_empty() {
        return refuse(
            "WHERE or INCLUDE in CREATE INDEX".into(),
            "an Elf holds all rows; leave it out",
        );
    }
    let mut columns = Vec::new();
    for column in &create.columns {
        let Expr::Identifier(ident) = &column.column.expr else {
            return refuse(
                format!("an index on {}", column.column.expr),
                "index a column of its own",
            );
        };
        if column.column.options.asc.is_some() || column.column.options.nulls_first.is_some() {
            return refuse(
                format!("a direction for {ident} in an index"),
                "an Elf has none; leave it out",
            );
        }
        columns.push(identifier(ident));
    }
    let (mut layout, mut order) = (Layout::default(), Order::default());
    for option in &create.with {
        match option_of(option)
            .as_ref()
            .map(|(key, value)| (key.as_str(), value.as_str()))
        {
            Some(("layout", "packed")) => layout = Layout::Packed,
            Some(("layout", "published")) => layout = Layout::Published,
            Some(("order", "auto")) => order = Order::Auto,
            Some(("order", "given")) => order = Order::Given,
            _ => {
                let instead =
                    "the options are layout = 'packed' or 'published' and order = 'auto' or 'given'";
                return refuse(format!("the index option {option}"), instead);
            }
        }
    }
    let spec = IndexSpec {
        name: object_name(name)?,
        table: object_name(&create.table_name)?,
        columns,
        layout,
        order,
    };
    Ok(Statement::CreateIndex {
        spec,
        if_not_exists: create.if_not_exists,
    })
}
