//! `PRAGMA table_info('t')` and `PRAGMA show_tables`, as DuckDB and SQLite have them.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray};
use arrow_cast::display::array_value_to_string;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{self, Value};
use halocline_catalog::write::WrittenTable;
use halocline_scan::keyed::keyed_infos;
use halocline_sql::EngineError;
use halocline_sql::names::shown_schema;
use halocline_sql::parse::{parse_tree, refuse};
use halocline_values::sql_name;

use super::run::StatementRun;
use super::select::show_tables_query;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;
use crate::ddl::quoted_name;

/// `PRAGMA` in the list of statements.
pub(super) const PRAGMA: StatementKind = StatementKind {
    name: "PRAGMA",
    example: "PRAGMA table_info('t')",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `PRAGMA table_info` as parsed.
#[derive(Debug)]
pub(super) struct TableInfoStatement {
    /// The table or view.
    name: String,
}

impl RunStatement for TableInfoStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let name = self.name;
            let query = parse_tree(&format!("SELECT * FROM {}", quoted_name(&name)))?;
            let (catalog, view) = run.session.versions(run.engine, Some(&query))?;
            let plan = run.session.planner_with(&catalog, view).plan(query).await?;
            let schema = shown_schema(Arc::clone(plan.schema().inner()));
            let stored = StoredColumns::read(&run, &name)?;
            let fields = schema.fields();
            let default = |at: usize| stored.defaults.get(at).cloned().flatten();
            let is_key = |name: &String| Some(stored.key.contains(name));
            let columns: [(&str, ArrayRef); 6] = [
                (
                    "cid",
                    Arc::new(Int32Array::from_iter_values(0..fields.len() as i32)),
                ),
                (
                    "name",
                    Arc::new(StringArray::from_iter_values(
                        fields.iter().map(|field| field.name()),
                    )),
                ),
                (
                    "type",
                    Arc::new(StringArray::from_iter_values(
                        fields.iter().map(|field| sql_name(field.data_type())),
                    )),
                ),
                (
                    "notnull",
                    Arc::new(BooleanArray::from_iter(
                        fields.iter().map(|field| Some(!field.is_nullable())),
                    )),
                ),
                (
                    "dflt_value",
                    Arc::new(StringArray::from_iter((0..fields.len()).map(default))),
                ),
                (
                    "pk",
                    Arc::new(BooleanArray::from_iter(
                        fields.iter().map(|field| is_key(field.name())),
                    )),
                ),
            ];
            let columns = columns.map(|(name, values)| (name, values, name == "dflt_value"));
            let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
            let rows = RecordBatchStreamAdapter::new(
                batch.schema(),
                futures::stream::iter([Ok::<_, DataFusionError>(batch)]),
            );
            Ok(QueryResult::rows(Box::pin(rows)))
        })
    }
}

/// Properties of the columns of a table beside their types.
#[derive(Default)]
struct StoredColumns {
    /// The default of each column as text.
    defaults: Vec<Option<String>>,
    /// The columns of the primary key.
    key: Vec<String>,
}

impl StoredColumns {
    /// Reads those of a table; of a view or a file there are none.
    ///
    /// # Errors
    /// The pool cannot be read.
    fn read(run: &StatementRun<'_>, name: &str) -> Result<Self, EngineError> {
        let defaults_of = |table: &dyn WrittenTable| {
            let defaults = (0..table.schema().fields().len()).map(|column| {
                let value = table.default_value(column)?;
                array_value_to_string(value, 0).ok()
            });
            Self {
                defaults: defaults.collect(),
                key: Vec::new(),
            }
        };
        if let Some(table) = run.session.temporaries().table(name) {
            return Ok(defaults_of(&*table));
        }
        let catalog = run.session.peek(run.engine)?;
        if catalog.has_table(name) {
            return Ok(defaults_of(&catalog.table(name)?.table));
        }
        let found = keyed_infos(run.engine)?
            .into_iter()
            .find(|table| table.name == name);
        Ok(found.map_or_else(Self::default, |table| Self {
            defaults: table.columns.into_iter().map(|column| column.default).collect(),
            key: table.primary_key,
        }))
    }
}

/// Parses `PRAGMA`; `None` for any other statement.
///
/// # Errors
/// It is another one than those there are.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Pragma { name, value, is_eq } = statement else {
        return Ok(None);
    };
    let pragma = name.to_string().to_lowercase();
    let value = value.as_ref().map(|value| &value.value);
    match (pragma.as_str(), value, is_eq) {
        ("table_info", Some(Value::SingleQuotedString(table) | Value::DoubleQuotedString(table)), false) => {
            boxed(TableInfoStatement { name: table.clone() })
        }
        ("show_tables", None, _) => show_tables_query().map(Some),
        _ => refuse(
            format!("PRAGMA {name}"),
            "there are PRAGMA table_info('table') and PRAGMA show_tables; settings are changed by SET name = value",
        ),
    }
}
