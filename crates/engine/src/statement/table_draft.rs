//! The definition of a table as an `ALTER TABLE` is to leave it: [`TableDraft`]. The same for all kinds of
//! tables, which make the table of it.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::Expr;
use halocline_catalog::write::{BatchFitter, RowRules, WrittenTable};
use halocline_columns::{TableRule, TableRules};
use halocline_sql::EngineError;
use halocline_values::convert;
use halocline_values::sql_name;
use halocline_values::storable::storable_type;

use super::constraints::{
    NewConstraint, add_constraint, columns_of, is_taken, unique_without_key, with_renamed,
};
use super::defaults::default_of;
use super::table_changes::{Alteration, taken};

/// A definition that is being changed.
pub(super) struct TableDraft {
    table: String,
    /// The columns as they are stored.
    stored: SchemaRef,
    columns: Vec<DraftColumn>,
    rules: Vec<TableRule>,
    /// Names of the columns of the primary key.
    key: Vec<String>,
    cluster: Option<Vec<String>>,
    zone: Option<Tz>,
    /// Set if rows that are there may disobey the definition.
    looks_at_rows: bool,
    /// Set if values that are there change.
    rewrites: bool,
    is_changed: bool,
    /// A description of each change, for the message.
    done: Vec<String>,
}

/// A column of a draft.
pub(super) struct DraftColumn {
    pub(super) field: Field,
    pub(super) default: Option<ArrayRef>,
    pub(super) source: ColumnSource,
}

/// The values of a column in the rows there are.
pub(super) enum ColumnSource {
    /// Those of the stored column of this position, cast to the type.
    Stored(usize),
    /// An expression over the stored columns, instead of the stored column of this position.
    Computed(usize, Box<Expr>),
    /// One value, or NULL.
    Added(Option<ArrayRef>),
}

impl TableDraft {
    /// Begins to change the definition of a table with this primary key and clustering. Defaults are read in
    /// the time zone `zone`.
    pub(super) fn new(
        table: &dyn WrittenTable,
        key: Vec<String>,
        cluster: Option<&[String]>,
        zone: Option<Tz>,
    ) -> Self {
        let stored = Arc::clone(table.schema());
        let column = |(at, field): (usize, &Arc<Field>)| DraftColumn {
            field: field.as_ref().clone(),
            default: table.default_value(at).cloned(),
            source: ColumnSource::Stored(at),
        };
        Self {
            table: table.name().to_owned(),
            columns: stored.fields().iter().enumerate().map(column).collect(),
            stored,
            rules: table.rules().rules().to_vec(),
            key,
            cluster: cluster.map(<[String]>::to_vec),
            zone,
            looks_at_rows: false,
            rewrites: false,
            is_changed: false,
            done: Vec::new(),
        }
    }

    /// Makes the changes of a statement.
    ///
    /// # Errors
    /// A column or a constraint is missing, or its name is taken; a default or a condition does not fit.
    pub(super) fn change(&mut self, alterations: &[Alteration]) -> Result<(), EngineError> {
        for alteration in alterations {
            self.apply(alteration)?;
        }
        RowRules::plan(&self.table, &self.schema(), &self.rules)?;
        Ok(())
    }

    fn apply(&mut self, alteration: &Alteration) -> Result<(), EngineError> {
        match alteration {
            Alteration::AddColumn {
                field,
                default,
                length,
                constraints,
                if_not_exists,
            } => {
                let name = field.name();
                if self.find(name).is_some() {
                    if *if_not_exists {
                        self.done.push(format!("column {name} is there already"));
                        return Ok(());
                    }
                    return Err(taken("column", name));
                }
                self.add_column(field, default.as_deref(), *length)?;
                for constraint in constraints {
                    self.add_constraint(constraint)?;
                }
                self.did(format!("column {name} added"));
            }
            Alteration::DropColumn { column, if_exists } if *if_exists && self.find(column).is_none() => {
                self.done.push(format!("there is no column {column}"));
            }
            Alteration::DropColumn { column, .. } => self.drop_column(column)?,
            Alteration::RenameColumn { from, to } => {
                let at = self.position(from)?;
                if self.find(to).is_some() {
                    return Err(taken("column", to));
                }
                self.rename_column(at, from, to)?;
                self.did(format!("column {from} is {to} now"));
            }
            Alteration::SetType {
                column,
                data_type,
                length,
                using,
            } => {
                let at = self.position(column)?;
                let data_type = storable_type(data_type);
                self.did(format!(
                    "column {column} has the type {} now",
                    sql_name(&data_type)
                ));
                self.set_type(at, Field::new(column, data_type, true), *length, using.as_deref())?;
            }
            Alteration::SetDefault { column, default } => {
                let at = self.position(column)?;
                let field = &self.columns[at].field;
                let default = default.as_ref();
                let default = default.map(|expr| default_of(&self.table, field, expr, self.zone));
                self.columns[at].default = default.transpose()?;
                let what = if self.columns[at].default.is_some() {
                    "another"
                } else {
                    "no"
                };
                self.did(format!("column {column} has {what} default now"));
            }
            Alteration::SetNullable { column, nullable } => {
                let at = self.position(column)?;
                if *nullable && self.key.contains(column) {
                    return Err(self.of_key(column, "DROP NOT NULL", "may not be NULL"));
                }
                let field = &mut self.columns[at].field;
                self.looks_at_rows |= field.is_nullable() && !nullable;
                *field = field.clone().with_nullable(*nullable);
                let what = if *nullable { "may be NULL" } else { "is NOT NULL" };
                self.did(format!("column {column} {what} now"));
            }
            Alteration::AddConstraint(constraint) => {
                self.add_constraint(constraint)?;
                let name = self.rules.last().and_then(TableRule::name);
                let text = format!("constraint {} added", name.unwrap_or_default());
                self.did(text);
            }
            Alteration::DropConstraint { name, if_exists } => {
                if is_taken(&self.rules, name) {
                    self.rules.retain(|rule| rule.name() != Some(name.as_str()));
                    self.did(format!("constraint {name} dropped"));
                } else if *if_exists {
                    self.done.push(format!("there is no constraint {name}"));
                } else {
                    return Err(self.no_constraint(name));
                }
            }
            Alteration::Cluster(columns) => self.cluster_by(columns)?,
        }
        Ok(())
    }

    fn add_column(
        &mut self,
        field: &Field,
        default: Option<&Expr>,
        length: Option<u64>,
    ) -> Result<(), EngineError> {
        let field = Field::new(
            field.name(),
            storable_type(field.data_type()),
            field.is_nullable(),
        );
        let default = default.map(|expr| default_of(&self.table, &field, expr, self.zone));
        let default = default.transpose()?;
        if let Some(characters) = length {
            // The default may be too long.
            self.looks_at_rows |= default.is_some();
            self.rules.push(TableRule::Length {
                column: field.name().clone(),
                characters,
            });
        }
        self.columns.push(DraftColumn {
            field,
            source: ColumnSource::Added(default.clone()),
            default,
        });
        Ok(())
    }

    fn add_constraint(&mut self, constraint: &NewConstraint) -> Result<(), EngineError> {
        add_constraint(&self.table, &mut self.rules, constraint)?;
        if let Some(TableRule::Unique { columns, .. }) = self.rules.last() {
            if self.key.is_empty() {
                return Err(unique_without_key(&self.table));
            }
            for column in columns {
                self.position(column)?;
            }
        }
        self.looks_at_rows = true;
        Ok(())
    }

    fn drop_column(&mut self, column: &str) -> Result<(), EngineError> {
        let at = self.position(column)?;
        if self.key.iter().any(|key| key == column) {
            return Err(self.of_key(column, "DROP COLUMN", "cannot be dropped"));
        }
        if self.columns.len() == 1 {
            return Err(EngineError::Unsupported {
                what: format!(
                    "ALTER TABLE {} DROP COLUMN {column}, its only column,",
                    self.table
                ),
                instead: "DROP TABLE drops the table".into(),
            });
        }
        let mut text = format!("column {column} dropped");
        for rule in std::mem::take(&mut self.rules) {
            match &rule {
                TableRule::Check { name, condition } if columns_of(condition)?.contains(column) => {
                    text += &format!(", with constraint {name}");
                }
                TableRule::Unique { name, columns, .. } if columns.iter().any(|of| of == column) => {
                    text += &format!(", with constraint {name}");
                }
                TableRule::Length { column: of, .. } if of == column => {}
                _ => self.rules.push(rule),
            }
        }
        if let Some(cluster) = &mut self.cluster
            && let Some(at) = cluster.iter().position(|name| name == column)
        {
            // The rows stay in the order of the columns before.
            cluster.truncate(at);
        }
        self.columns.remove(at);
        self.rewrites = true;
        self.did(text);
        Ok(())
    }

    fn rename_column(&mut self, at: usize, from: &str, to: &str) -> Result<(), EngineError> {
        let field = &mut self.columns[at].field;
        *field = field.clone().with_name(to);
        let names = self.cluster.iter_mut().flatten().chain(&mut self.key);
        names
            .filter(|name| name.as_str() == from)
            .for_each(|name| *name = to.to_owned());
        for rule in &mut self.rules {
            match rule {
                TableRule::Check { condition, .. } => *condition = with_renamed(condition, from, to)?,
                TableRule::Length { column, .. } if column.as_str() == from => *column = to.to_owned(),
                TableRule::Unique { columns, .. } => columns
                    .iter_mut()
                    .filter(|column| column.as_str() == from)
                    .for_each(|column| *column = to.to_owned()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives a column the type of `to`.
    fn set_type(
        &mut self,
        at: usize,
        to: Field,
        length: Option<u64>,
        using: Option<&Expr>,
    ) -> Result<(), EngineError> {
        let column = &mut self.columns[at];
        let ColumnSource::Stored(from) = column.source else {
            return Err(EngineError::Unsupported {
                what: format!(
                    "another type for {}, which the same statement changes,",
                    to.name()
                ),
                instead: "give it the type at once".into(),
            });
        };
        if let Some(default) = &column.default {
            let converted = convert(default, to.data_type(), false, self.zone);
            column.default = Some(converted.map_err(|_| EngineError::Default {
                table: self.table.clone(),
                column: to.name().clone(),
                reason: format!(
                    "is not a value of type {}; DROP DEFAULT first",
                    sql_name(to.data_type())
                ),
            })?);
        }
        if let Some(using) = using {
            column.source = ColumnSource::Computed(from, Box::new(using.clone()));
        }
        let had = self
            .rules
            .iter()
            .position(|rule| matches!(rule, TableRule::Length { column, .. } if column == to.name()));
        let had = had.map(|at| self.rules.remove(at));
        if let Some(characters) = length {
            let fits = matches!(had, Some(TableRule::Length { characters: had, .. }) if had <= characters);
            self.rewrites |= !fits;
            self.rules.push(TableRule::Length {
                column: to.name().clone(),
                characters,
            });
        }
        self.rewrites |= using.is_some() || column.field.data_type() != to.data_type();
        column.field = column.field.clone().with_data_type(to.data_type().clone());
        Ok(())
    }

    fn cluster_by(&mut self, columns: &[String]) -> Result<(), EngineError> {
        if !self.key.is_empty() {
            return Err(EngineError::Unsupported {
                what: "CLUSTER BY of a table with a primary key".into(),
                instead: "its rows are in the order of the key".into(),
            });
        }
        for column in columns {
            self.position(column)?;
        }
        self.cluster = Some(columns.to_vec());
        let text = if columns.is_empty() {
            "rows are kept as they come from now on".to_owned()
        } else {
            format!(
                "rows are kept in the order of {} from now on; VACUUM FULL {} sorts those there are",
                columns.join(", "),
                self.table
            )
        };
        self.did(text);
        Ok(())
    }

    fn did(&mut self, text: String) {
        self.is_changed = true;
        self.done.push(text);
    }

    fn find(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|other| other.field.name() == column)
    }

    fn position(&self, column: &str) -> Result<usize, EngineError> {
        let found = self.find(column);
        found.ok_or_else(|| EngineError::no_column(&self.table, &self.schema(), column))
    }

    fn of_key(&self, column: &str, what: &str, reason: &str) -> EngineError {
        EngineError::Unsupported {
            what: format!(
                "ALTER TABLE {} with {what} of {column}, which belongs to the primary key and {reason},",
                self.table
            ),
            instead: "create a table with another key, and INSERT the rows into it".into(),
        }
    }

    fn no_constraint(&self, name: &str) -> EngineError {
        let names: Vec<&str> = self.rules.iter().filter_map(TableRule::name).collect();
        let known = match names.as_slice() {
            [] => "it has none that can be dropped".to_owned(),
            names => format!("its constraints are {}", names.join(", ")),
        };
        EngineError::Query(format!(
            "table '{}' has no constraint '{name}'; {known}",
            self.table
        ))
    }

    /// Returns the name of the table.
    pub(super) fn table(&self) -> &str {
        &self.table
    }

    /// Returns the columns as they are stored.
    pub(super) fn stored(&self) -> &SchemaRef {
        &self.stored
    }

    /// Returns the columns.
    pub(super) fn columns(&self) -> &[DraftColumn] {
        &self.columns
    }

    /// Returns the columns of the table.
    pub(super) fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self.columns.iter().map(|column| column.field.clone()).collect();
        Arc::new(Schema::new(fields))
    }

    /// Returns the rules that the rows obey.
    pub(super) fn rules(&self) -> &[TableRule] {
        &self.rules
    }

    /// Returns the names of the columns of the primary key.
    pub(super) fn key(&self) -> Vec<&str> {
        self.key.iter().map(String::as_str).collect()
    }

    /// Returns the columns by which rows are sorted when they are written.
    pub(super) fn cluster(&self) -> Option<&[String]> {
        self.cluster.as_deref().filter(|columns| !columns.is_empty())
    }

    /// Returns the name that a stored column has now; `None` if it is dropped.
    pub(super) fn name_of(&self, stored: &str) -> Option<&str> {
        let at = self.stored.index_of(stored).ok()?;
        let is_it = |column: &&DraftColumn| match column.source {
            ColumnSource::Stored(from) | ColumnSource::Computed(from, _) => from == at,
            ColumnSource::Added(_) => false,
        };
        let column = self.columns.iter().find(is_it)?;
        Some(column.field.name())
    }

    /// Returns true if anything is changed.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns true if values that are there change, or go.
    pub(super) fn rewrites(&self) -> bool {
        self.rewrites
    }

    /// Returns true if rows that are there may disobey the definition, so that they have to be read.
    pub(super) fn looks_at_rows(&self) -> bool {
        self.looks_at_rows
    }

    /// Returns an added column that is NOT NULL and has no value.
    pub(super) fn without_value(&self) -> Option<&str> {
        let lacks = |column: &&DraftColumn| {
            let ColumnSource::Added(value) = &column.source else {
                return false;
            };
            !column.field.is_nullable() && value.as_ref().is_none_or(|value| value.is_null(0))
        };
        let column = self.columns.iter().find(lacks)?;
        Some(column.field.name())
    }

    /// Returns what brings the rows of [`plan_rows`](super::draft_rows::plan_rows) into the columns of the
    /// table, and applies its rules.
    pub(super) fn fitter(&self) -> BatchFitter {
        let all = (0..self.columns.len()).map(Some).collect();
        let rules: Arc<TableRules> = Arc::new(self.rules.clone().into());
        BatchFitter::new(self.statement(), &self.schema(), all)
            .in_zone(self.zone)
            .with_rules(&self.table, &rules)
    }

    /// Returns the statement in short.
    pub(super) fn statement(&self) -> String {
        format!("ALTER TABLE {}", self.table)
    }

    /// Returns the message of the statement.
    pub(super) fn message(&self) -> String {
        format!("table {}: {}", self.table, self.done.join("; "))
    }
}
