//! `CREATE INDEX`.

use datafusion::sql::sqlparser::ast::{self, Expr, IndexType};
use halocline_elf::{Layout, Order};
use halocline_sql::parse::{identifier, object_name, option_of, refuse};
use halocline_sql::placement_spec::PlacementSpec;

use super::alter_table::AlterTableStatement;
use super::build_index::build_index;
use super::constraints::NewConstraint;
use super::place_index::{read_placed, set_placement};
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_changes::{Alter, Alteration, Alterations};
use crate::{IndexSpec, Placement, QueryResult};

/// `CREATE INDEX` in the list of statements.
pub(super) const CREATE_INDEX: StatementKind = StatementKind {
    name: "CREATE INDEX",
    example: "CREATE INDEX i ON t USING elf (a)",
    syntax: &[StatementSyntax::Tree(parse)],
};

/// A `CREATE INDEX` as parsed.
#[derive(Debug)]
pub(crate) struct CreateIndexStatement {
    /// The index.
    pub(crate) spec: IndexSpec,
    /// Do nothing if there is one.
    pub(super) if_not_exists: bool,
    /// Its placement.
    pub(super) placed: PlacementSpec,
}

impl RunStatement for CreateIndexStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        let Self {
            spec,
            if_not_exists,
            placed,
        } = *self;
        Box::pin(async move {
            if run.session.temporaries().table(&spec.table).is_some() {
                return refuse(
                    format!("an index on the temporary table {}", spec.table),
                    "create the table without TEMP",
                );
            }
            let cancel = run.cancel_flag();
            let build = run.change_large("CREATE INDEX", move |transaction| {
                let volatile = placed.placement == Some(Placement::Volatile);
                if !build_index(transaction, &spec, if_not_exists, volatile, &cancel)? {
                    return Ok(format!("index {} is there already", spec.name));
                }
                if !placed.is_nothing() {
                    set_placement(transaction, &spec.name, false, placed, &cancel)?;
                }
                Ok(format!("index {} on {}", spec.name, spec.table))
            });
            Ok(QueryResult::done(build.await?))
        })
    }
}

/// Parses `CREATE INDEX`; `None` for any other statement.
///
/// # Errors
/// Something in it is not offered.
fn parse(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::CreateIndex(create) = statement else {
        return Ok(None);
    };
    let Some(name) = &create.name else {
        return refuse("CREATE INDEX without a name", "write CREATE INDEX name ON …");
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
    if create.predicate.is_some() || !create.include.is_empty() {
        return refuse(
            "WHERE or INCLUDE in CREATE INDEX",
            "an Elf holds all rows; leave it out",
        );
    }
    if create.concurrently {
        return refuse(
            "CONCURRENTLY in CREATE INDEX",
            "leave it out: queries go on beside the build",
        );
    }
    if create.nulls_distinct.is_some() || !create.index_options.is_empty() || !create.alter_options.is_empty()
    {
        return refuse(
            "NULLS DISTINCT or another option after CREATE INDEX",
            "leave it out",
        );
    }
    let mut columns = Vec::new();
    for column in &create.columns {
        if column.operator_class.is_some() || column.column.with_fill.is_some() {
            return refuse(
                "an operator class in CREATE INDEX",
                "an Elf has none; leave it out",
            );
        }
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
    let index = object_name(name)?;
    let (mut layout, mut order, mut placed) = (Layout::default(), Order::default(), PlacementSpec::default());
    for option in &create.with {
        match option_of(option)
            .as_ref()
            .map(|(key, value)| (key.as_str(), value.as_str()))
        {
            Some(("layout", "packed")) => layout = Layout::Packed,
            Some(("layout", "published")) => layout = Layout::Published,
            Some(("order", "auto")) => order = Order::Auto,
            Some(("order", "given")) => order = Order::Given,
            Some((key, value)) if read_placed(&index, key, value, &mut placed)? => {}
            _ => {
                let instead = "the options are layout = 'packed' or 'published', order = 'auto' or 'given', \
                               placement = 'static' (or another one) and dram = '64MiB'";
                return refuse(format!("the index option {option}"), instead);
            }
        }
    }
    let table = object_name(&create.table_name)?;
    if create.unique {
        if create.if_not_exists || create.using.is_some() || !create.with.is_empty() {
            return refuse(
                "IF NOT EXISTS, USING or WITH in CREATE UNIQUE INDEX",
                "leave it out: it adds a constraint to a table with a primary key",
            );
        }
        let constraint = NewConstraint::unique(index, columns);
        return boxed(AlterTableStatement(Alter {
            table,
            if_exists: false,
            what: Alterations::Definition(vec![Alteration::AddConstraint(constraint)]),
        }));
    }
    let spec = IndexSpec::new(index, table, columns)
        .with_layout(layout)
        .with_order(order);
    boxed(CreateIndexStatement {
        spec,
        if_not_exists: create.if_not_exists,
        placed,
    })
}
