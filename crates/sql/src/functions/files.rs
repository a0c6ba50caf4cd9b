//! `read_csv('path')`, `read_parquet('path')` and `read_json('path')` in FROM: the files of a path or a
//! pattern, as if that stood in place of a table's name.

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Value};

use crate::EngineError;

/// A function that reads files of a format.
struct FileReader {
    names: &'static [&'static str],
    /// The format as `STORED AS` has it.
    format: &'static str,
    /// Endings of the names of its files.
    endings: &'static [&'static str],
}

const READERS: [FileReader; 3] = [
    FileReader {
        names: &["read_csv", "read_csv_auto"],
        format: "CSV",
        endings: &["csv", "tsv"],
    },
    FileReader {
        names: &["read_parquet", "parquet_scan"],
        format: "PARQUET",
        endings: &["parquet"],
    },
    FileReader {
        names: &["read_json", "read_json_auto", "read_ndjson"],
        format: "JSON",
        endings: &["json"],
    },
];

/// Returns the path that a table function reads; `None` if it reads no files.
///
/// # Errors
/// [`EngineError::Unsupported`]: the arguments are others than one path, or the name of the file ends in
/// another way than those of the format.
pub(super) fn path(function: &str, args: &[FunctionArg]) -> Result<Option<String>, EngineError> {
    let Some(reader) = READERS.iter().find(|reader| reader.names.contains(&function)) else {
        return Ok(None);
    };
    let external = format!(
        "CREATE EXTERNAL TABLE t STORED AS {} LOCATION 'path'",
        reader.format
    );
    let refuse = |what: String, instead: String| Err(EngineError::Unsupported { what, instead });
    if !matches!(args, [FunctionArg::Unnamed(_)]) {
        return refuse(
            format!("{function} with other arguments than a path"),
            format!("write {external} OPTIONS (…) for files with options"),
        );
    }
    let path = match args {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::SingleQuotedString(path) => path,
            _ => {
                return refuse(
                    format!("{function} of {value}"),
                    "write a path as a text".to_owned(),
                );
            }
        },
        _ => {
            return refuse(
                format!("{function} of an expression"),
                "write one path or a pattern such as 'data/*.csv' as a text".to_owned(),
            );
        }
    };
    let ending = Path::new(path).extension();
    let is_known = ending.is_none_or(|ending| {
        let mut endings = reader.endings.iter();
        endings.any(|known| ending.eq_ignore_ascii_case(known))
    });
    if is_known {
        return Ok(Some(path.clone()));
    }
    refuse(
        format!(
            "{function} of '{path}', whose name does not end in .{},",
            reader.endings.join(" or .")
        ),
        format!("rename the file, or write {external}"),
    )
}

/// The entry of a function in the list of functions; calls of it have become paths when they are planned.
#[derive(Debug)]
struct ListedReader;

impl TableFunctionImpl for ListedReader {
    fn call_with_args(&self, _: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        Err(DataFusionError::Plan(
            "files are read in FROM; write SELECT * FROM 'path'".to_owned(),
        ))
    }
}

/// Returns the names of the functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    READERS.iter().flat_map(|reader| reader.names).copied()
}

/// Adds the functions to the list of functions.
pub(super) fn register(state: &mut SessionState) {
    for name in names() {
        state.register_udtf(name, Arc::new(ListedReader));
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::FunctionArguments;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::syntax::SqlDialect;

    fn read(text: &str) -> Result<Option<String>, String> {
        let parser = Parser::new(&SqlDialect).try_with_sql(text);
        let expr = parser.and_then(|mut parser| parser.parse_expr()).unwrap();
        let Expr::Function(function) = expr else {
            panic!("{text}");
        };
        let FunctionArguments::List(list) = function.args else {
            panic!("{text}");
        };
        path(&function.name.to_string(), &list.args).map_err(|error| error.to_string())
    }

    #[test]
    fn one_path_of_the_format_is_read() {
        for (text, found) in [
            ("read_csv('a.csv')", Some("a.csv")),
            ("read_csv_auto('data/*.TSV')", Some("data/*.TSV")),
            ("read_parquet('directory')", Some("directory")),
            ("read_json('a.json')", Some("a.json")),
            ("range(3)", None),
        ] {
            assert_eq!(read(text), Ok(found.map(str::to_owned)), "{text}");
        }
        for (text, part) in [
            ("read_csv('a.csv', header => true)", "OPTIONS"),
            ("read_csv()", "OPTIONS"),
            ("read_parquet(['a.parquet'])", "one path or a pattern"),
            ("read_parquet(7)", "as a text"),
            ("read_parquet('a.csv')", ".parquet"),
            ("read_csv('a.txt')", ".csv or .tsv"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains(part) && error.contains("is not supported"),
                "{text}: {error}"
            );
        }
    }
}
