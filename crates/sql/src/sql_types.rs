//! Column lists in SQL (`a int, b decimal(15,2) not null`) as Arrow schemas.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, DataType as SqlType, ExactNumberInfo, TimezoneInfo,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::EngineError;
use crate::syntax::SqlDialect;

/// Parses a column list in SQL: `id int not null, price decimal(15,2), note varchar`.
///
/// # Errors
/// The text is not a column list, or names a type that cannot be stored.
pub fn parse_schema(text: &str) -> Result<SchemaRef, EngineError> {
    let wrong = |reason: String| {
        EngineError::Query(format!(
            "cannot read the column list '{text}': {reason}; write it as in SQL: a int, b decimal(15,2) not null, c varchar"
        ))
    };
    let inner = text.trim();
    let inner = inner
        .strip_prefix('(')
        .and_then(|t| t.strip_suffix(')'))
        .unwrap_or(inner);
    let list = format!("({inner})");
    let mut parser = Parser::new(&SqlDialect)
        .try_with_sql(&list)
        .map_err(|e| wrong(e.to_string()))?;
    let (columns, constraints) = parser.parse_columns().map_err(|e| wrong(e.to_string()))?;
    if !constraints.is_empty() {
        return Err(wrong("constraints are not kept".into()));
    }
    if parser.peek_token().token != Token::EOF {
        return Err(wrong(format!(
            "nothing was expected at '{}'",
            parser.peek_token()
        )));
    }
    read_columns(&columns).map_err(wrong)
}

/// Parses `COLUMN=TYPE` with a type of SQL. The column's name is as in the file.
///
/// # Errors
/// The text has no `=`, or names a type that cannot be stored.
pub fn parse_column(text: &str) -> Result<(String, DataType), EngineError> {
    let wrong = |reason: &str| {
        EngineError::Query(format!(
            "cannot read the type '{text}': {reason}; write COLUMN=TYPE, as zip=varchar"
        ))
    };
    let (column, name) = text.rsplit_once('=').ok_or_else(|| wrong("there is no '='"))?;
    let mut parser = Parser::new(&SqlDialect)
        .try_with_sql(name)
        .map_err(|e| wrong(&e.to_string()))?;
    let sql = parser.parse_data_type().map_err(|e| wrong(&e.to_string()))?;
    if parser.peek_token().token != Token::EOF {
        return Err(wrong(&format!(
            "nothing was expected at '{}'",
            parser.peek_token()
        )));
    }
    Ok((column.trim().to_string(), data_type(&sql).map_err(|e| wrong(&e))?))
}

/// Returns the columns of a parsed list.
///
/// # Errors
/// There is none, or one cannot be stored; the text is the reason.
pub fn read_columns(columns: &[ColumnDef]) -> Result<SchemaRef, String> {
    if columns.is_empty() {
        return Err("it names no column".into());
    }
    let fields = columns.iter().map(read_field).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// Returns one column of a parsed list.
///
/// # Errors
/// It cannot be stored; the text is the reason.
pub fn read_field(column: &ColumnDef) -> Result<Field, String> {
    let mut nullable = true;
    for option in &column.options {
        match &option.option {
            ColumnOption::NotNull => nullable = false,
            ColumnOption::Null => {}
            other => return Err(format!("'{other}' is not kept; leave it out")),
        }
    }
    let name = match column.name.quote_style {
        Some(_) => column.name.value.clone(),
        None => column.name.value.to_lowercase(),
    };
    Ok(Field::new(name, data_type(&column.data_type)?, nullable))
}

/// Returns the Arrow type of a SQL type.
///
/// # Errors
/// It cannot be stored; the text is the reason.
pub fn data_type(sql: &SqlType) -> Result<DataType, String> {
    Ok(match sql {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(_) => DataType::Int8,
        SqlType::SmallInt(_) | SqlType::Int2(_) => DataType::Int16,
        SqlType::Int(_) | SqlType::Integer(_) | SqlType::Int4(_) => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int8(_) => DataType::Int64,
        SqlType::TinyIntUnsigned(_) => DataType::UInt8,
        SqlType::SmallIntUnsigned(_) | SqlType::Int2Unsigned(_) => DataType::UInt16,
        SqlType::IntUnsigned(_) | SqlType::IntegerUnsigned(_) | SqlType::Int4Unsigned(_) => DataType::UInt32,
        SqlType::BigIntUnsigned(_) | SqlType::Int8Unsigned(_) => DataType::UInt64,
        SqlType::Real | SqlType::Float4 | SqlType::Float(_) => DataType::Float32,
        SqlType::Double(_) | SqlType::DoublePrecision | SqlType::Float8 => DataType::Float64,
        SqlType::Decimal(info) | SqlType::Numeric(info) | SqlType::Dec(info) => decimal(*info)?,
        SqlType::Date | SqlType::Date32 => DataType::Date32,
        SqlType::Time(_, TimezoneInfo::None) => DataType::Time64(TimeUnit::Nanosecond),
        SqlType::Timestamp(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
        | SqlType::Datetime(precision) => DataType::Timestamp(time_unit(*precision)?, None),
        SqlType::Timestamp(precision, _) => {
            DataType::Timestamp(time_unit(*precision)?, Some("+00:00".into()))
        }
        SqlType::Char(_)
        | SqlType::Character(_)
        | SqlType::CharVarying(_)
        | SqlType::CharacterVarying(_)
        | SqlType::Varchar(_)
        | SqlType::Text
        | SqlType::String(_) => DataType::Utf8,
        SqlType::Bytea | SqlType::Blob(_) | SqlType::Binary(_) | SqlType::Varbinary(_) => DataType::Binary,
        other => return Err(format!("the type {other} cannot be stored")),
    })
}

fn decimal(info: ExactNumberInfo) -> Result<DataType, String> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (38, 10),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p @ 1..=38), Ok(s)) if i64::from(s) <= i64::from(p) && s >= 0 => Ok(DataType::Decimal128(p, s)),
        _ => Err(format!(
            "decimal({precision},{scale}) is not within decimal(38,38)"
        )),
    }
}

fn time_unit(precision: Option<u64>) -> Result<TimeUnit, String> {
    match precision {
        Some(0) => Ok(TimeUnit::Second),
        Some(3) => Ok(TimeUnit::Millisecond),
        Some(6) => Ok(TimeUnit::Microsecond),
        None | Some(9) => Ok(TimeUnit::Nanosecond),
        Some(other) => Err(format!("timestamp({other}) is not one of 0, 3, 6, 9")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_lists_are_sql() {
        let schema =
            parse_schema("a int, B decimal(15,2) not null, \"C\" varchar(10), d timestamp(3)").unwrap();
        assert_eq!(schema.field(0), &Field::new("a", DataType::Int32, true));
        assert_eq!(
            schema.field(1),
            &Field::new("b", DataType::Decimal128(15, 2), false)
        );
        assert_eq!(schema.field(2), &Field::new("C", DataType::Utf8, true));
        assert_eq!(
            schema.field(3),
            &Field::new("d", DataType::Timestamp(TimeUnit::Millisecond, None), true)
        );
    }

    #[test]
    fn wrong_lists_say_what_is_wrong() {
        for (text, part) in [
            ("", "names no column"),
            ("a", "cannot read the column list 'a'"),
            ("a decimal(99,2)", "not within decimal(38,38)"),
            ("a int primary key", "is not kept"),
            ("a int array", "cannot"),
            ("a int) b", "cannot read"),
        ] {
            let error = parse_schema(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn types_of_columns() {
        let zip = parse_column("Zip=varchar").unwrap();
        assert_eq!(zip, ("Zip".to_owned(), DataType::Utf8));
        for (text, part) in [
            ("zip", "no '='"),
            ("zip=bigger", "bigger"),
            ("zip=int int", "nothing was expected"),
        ] {
            let error = parse_column(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
