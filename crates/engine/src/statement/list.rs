//! The list of all kinds of statements. Each one is parsed and run in its file.

use super::advise::ADVISE;
use super::alter_index::ALTER_INDEX;
use super::alter_table::ALTER_TABLE;
use super::copy_from::COPY_FROM;
use super::copy_to::COPY_TO;
use super::create_external_table::CREATE_EXTERNAL_TABLE;
use super::create_index::CREATE_INDEX;
use super::create_macro::CREATE_MACRO;
use super::create_table::CREATE_TABLE;
use super::create_table_as::CREATE_TABLE_AS;
use super::create_temporary_table::CREATE_TEMP_TABLE;
use super::create_view::CREATE_VIEW;
use super::delete::DELETE;
use super::drop_index::DROP_INDEX;
use super::drop_macro::DROP_MACRO;
use super::drop_table::DROP_TABLE;
use super::drop_view::DROP_VIEW;
use super::insert::INSERT;
use super::pragma::PRAGMA;
use super::prepared::{DEALLOCATE, EXECUTE, PREPARE};
use super::select::{DESCRIBE, EXPLAIN, SELECT, SHOW, SHOW_FUNCTIONS};
use super::set::{RESET, SET};
use super::show_create::SHOW_CREATE;
use super::show_indexes::SHOW_INDEXES;
use super::statement_kind::StatementKind;
use super::transaction::{BEGIN, COMMIT, ROLLBACK};
use super::truncate::TRUNCATE;
use super::update::UPDATE;
use super::vacuum::VACUUM;

/// All kinds of statements, in the order of the reference.
pub(crate) const STATEMENT_KINDS: &[StatementKind] = &[
    SELECT,
    EXPLAIN,
    DESCRIBE,
    SHOW,
    SHOW_CREATE,
    SHOW_FUNCTIONS,
    SHOW_INDEXES,
    PRAGMA,
    CREATE_TABLE,
    CREATE_TABLE_AS,
    CREATE_TEMP_TABLE,
    ALTER_TABLE,
    DROP_TABLE,
    CREATE_EXTERNAL_TABLE,
    CREATE_VIEW,
    DROP_VIEW,
    CREATE_MACRO,
    DROP_MACRO,
    INSERT,
    UPDATE,
    DELETE,
    TRUNCATE,
    COPY_FROM,
    COPY_TO,
    CREATE_INDEX,
    ALTER_INDEX,
    DROP_INDEX,
    ADVISE,
    BEGIN,
    COMMIT,
    ROLLBACK,
    PREPARE,
    EXECUTE,
    DEALLOCATE,
    VACUUM,
    SET,
    RESET,
];
