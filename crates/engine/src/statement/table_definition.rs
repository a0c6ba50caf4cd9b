//! The part of a `CREATE TABLE` as parsed that does not depend on whether it has a query.

use datafusion::sql::sqlparser::ast::{self, CreateTableOptions, Expr, SqlOption, Value};
use halocline_columns::TableEncoding;
use halocline_sql::EngineError;
use halocline_sql::parse::{object_name, refuse};
use halocline_sql::table_spec::TableSpec;

use super::columns::ListedColumns;

/// Reads the definition of the table, and the list of its columns.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn read_definition(create: &ast::CreateTable) -> Result<(TableSpec, ListedColumns), EngineError> {
    let name = object_name(&create.name)?;
    if create.external {
        return refuse(
            "this form of CREATE EXTERNAL TABLE",
            "write CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'file'",
        );
    }
    if create.like.is_some() || create.clone.is_some() {
        return refuse(
            "LIKE or CLONE in CREATE TABLE",
            "use CREATE TABLE … AS SELECT … LIMIT 0",
        );
    }
    refuse_options(create)?;
    if create.or_replace && create.if_not_exists {
        return refuse("OR REPLACE with IF NOT EXISTS", "use one of them");
    }
    let with = table_options(&create.table_options)?;
    let spec = TableSpec {
        cluster: with.cluster,
        encoding: with.encoding.unwrap_or_default(),
        if_not_exists: create.if_not_exists,
        or_replace: create.or_replace,
        name,
    };
    let listed = ListedColumns::read(create)?;
    if !listed.key.is_empty() && (spec.cluster.is_some() || spec.encoding != TableEncoding::default()) {
        return refuse(
            "WITH in the CREATE TABLE of a table with a primary key",
            "leave it out; its rows are in the order of the key",
        );
    }
    Ok((spec, listed))
}

/// Refuses what a table of a pool does not have. Destructured field by field: one that the parser adds fails
/// to compile until it is handled.
fn refuse_options(create: &ast::CreateTable) -> Result<(), EngineError> {
    let ast::CreateTable {
        or_replace: _,
        temporary: _,
        external: _,
        dynamic,
        global,
        if_not_exists: _,
        transient,
        volatile,
        iceberg,
        snapshot,
        name: _,
        columns: _,
        constraints: _,
        hive_distribution,
        // Given to every table.
        hive_formats: _,
        table_options: _,
        file_format,
        location,
        query: _,
        without_rowid,
        like: _,
        clone: _,
        version,
        comment,
        on_commit,
        on_cluster,
        primary_key,
        order_by,
        partition_by,
        cluster_by,
        clustered_by,
        inherits,
        partition_of,
        for_values,
        strict,
        copy_grants,
        enable_schema_evolution,
        change_tracking,
        data_retention_time_in_days,
        max_data_extension_time_in_days,
        default_ddl_collation,
        with_aggregation_policy,
        with_row_access_policy,
        with_storage_lifecycle_policy,
        with_tags,
        external_volume,
        base_location,
        catalog,
        catalog_sync,
        storage_serialization_policy,
        target_lag,
        warehouse,
        refresh_mode,
        initialize,
        require_user,
        diststyle,
        distkey,
        sortkey,
        backup,
    } = create;
    let sorted = "write WITH (cluster = 'column, column')";
    let kinds = [
        (*dynamic, "DYNAMIC"),
        (global.is_some(), "GLOBAL or LOCAL"),
        (*transient, "TRANSIENT"),
        (*volatile, "VOLATILE"),
        (*iceberg, "ICEBERG"),
        (*snapshot, "SNAPSHOT"),
        (*without_rowid, "WITHOUT ROWID"),
        (*strict, "STRICT"),
        (*copy_grants, "COPY GRANTS"),
        (
            *hive_distribution != ast::HiveDistributionStyle::NONE,
            "PARTITIONED BY",
        ),
        (
            file_format.is_some() || location.is_some(),
            "STORED AS or LOCATION",
        ),
        (version.is_some(), "a version"),
        (comment.is_some(), "COMMENT"),
        (on_commit.is_some(), "ON COMMIT"),
        (on_cluster.is_some(), "ON CLUSTER"),
        (partition_by.is_some(), "PARTITION BY"),
        (inherits.is_some(), "INHERITS"),
        (partition_of.is_some() || for_values.is_some(), "PARTITION OF"),
        (default_ddl_collation.is_some(), "a collation"),
        (diststyle.is_some() || distkey.is_some(), "a distribution"),
        (backup.is_some(), "BACKUP"),
    ];
    if let Some((_, kind)) = kinds.iter().find(|(given, _)| *given) {
        return refuse(format!("{kind} in CREATE TABLE"), "leave it out");
    }
    if primary_key.is_some() {
        return refuse(
            "PRIMARY KEY outside of the column list",
            "write it in the list: CREATE TABLE t (a bigint, PRIMARY KEY (a)), or with a query \
             CREATE TABLE t (PRIMARY KEY (a)) AS SELECT …",
        );
    }
    for (given, what) in [
        (order_by.is_some(), "ORDER BY"),
        (cluster_by.is_some(), "CLUSTER BY"),
        (clustered_by.is_some(), "CLUSTERED BY"),
        (sortkey.is_some(), "SORTKEY"),
    ] {
        if given {
            return refuse(format!("{what} in CREATE TABLE"), sorted);
        }
    }
    let others = enable_schema_evolution.is_some()
        || change_tracking.is_some()
        || data_retention_time_in_days.is_some()
        || max_data_extension_time_in_days.is_some()
        || with_aggregation_policy.is_some()
        || with_row_access_policy.is_some()
        || with_storage_lifecycle_policy.is_some()
        || with_tags.is_some()
        || external_volume.is_some()
        || base_location.is_some()
        || catalog.is_some()
        || catalog_sync.is_some()
        || storage_serialization_policy.is_some()
        || target_lag.is_some()
        || warehouse.is_some()
        || refresh_mode.is_some()
        || initialize.is_some()
        || *require_user;
    if others {
        refuse("an option of CREATE TABLE", "leave it out")
    } else {
        Ok(())
    }
}

/// The options of a table in `WITH (…)`.
#[derive(Debug, Default)]
struct TableWith {
    cluster: Option<Vec<String>>,
    encoding: Option<TableEncoding>,
}

/// Reads `WITH (cluster = 'a, b', encoding = 'plain')`; `sort` is a synonym of `cluster`.
fn table_options(options: &CreateTableOptions) -> Result<TableWith, EngineError> {
    let instead =
        "there are WITH (cluster = 'column, column'), also called sort, and WITH (encoding = 'plain')";
    let options = match options {
        CreateTableOptions::None => return Ok(TableWith::default()),
        CreateTableOptions::With(options) => options.as_slice(),
        _ => return refuse("an option of CREATE TABLE", instead),
    };
    let mut with = TableWith::default();
    for option in options {
        let unknown = || refuse(format!("the table option {option}"), instead);
        let SqlOption::KeyValue {
            key,
            value: Expr::Value(value),
        } = option
        else {
            return unknown();
        };
        let (Value::SingleQuotedString(text) | Value::DoubleQuotedString(text)) = &value.value else {
            return unknown();
        };
        let key = key.value.to_ascii_lowercase();
        let known = match key.as_str() {
            "cluster" | "sort" => with.cluster.replace(names_in(text)).is_some(),
            "encoding" => {
                let encoding = text.parse().map_err(EngineError::Query)?;
                with.encoding.replace(encoding).is_some()
            }
            _ => return unknown(),
        };
        if known {
            return refuse(format!("the table option {key} twice"), "name it once");
        }
    }
    with.cluster = with.cluster.filter(|names| !names.is_empty());
    Ok(with)
}

/// Returns the names in a text, separated by commas.
fn names_in(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(
            |name| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                Some(quoted) => quoted.to_string(),
                None => name.to_lowercase(),
            },
        )
        .collect()
}
