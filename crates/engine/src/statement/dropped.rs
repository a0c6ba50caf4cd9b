//! `DROP TABLE` and `DROP INDEX` as parsed.

use datafusion::sql::sqlparser::ast::{self, ObjectType};
use halocline_sql::EngineError;
use halocline_sql::parse::{object_name, refuse};

/// The objects that a statement drops.
#[derive(Debug)]
pub(super) struct DroppedObjects {
    /// Their names.
    pub(super) names: Vec<String>,
    /// Skip missing ones.
    pub(super) if_exists: bool,
}

/// Reads `DROP` of objects of one type; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn read_dropped(
    statement: &ast::Statement,
    of_type: ObjectType,
) -> Result<Option<DroppedObjects>, EngineError> {
    let ast::Statement::Drop {
        object_type,
        if_exists,
        names,
        purge,
        temporary,
        cascade: _,
        restrict: _,
        table: _,
    } = statement
    else {
        return Ok(None);
    };
    if *purge || *temporary {
        return refuse("PURGE or TEMPORARY in DROP", "leave it out");
    }
    let names = names.iter().map(object_name).collect::<Result<_, _>>()?;
    Ok((*object_type == of_type).then_some(DroppedObjects {
        names,
        if_exists: *if_exists,
    }))
}
