//! `regexp_extract(text, pattern[, group[, flags]])`: what a group of a regular expression matches first in a
//! text; the whole match without a group. The result is empty if nothing matches, as in DuckDB.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_cast::cast::cast;
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::regex::compile_regex;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{
    AcceptedType, by_columns, check_types, documentation, failed, is_text, is_whole, texts,
};

const NAME: &str = "regexp_extract";
const SYNTAX: &str = "regexp_extract(text, pattern[, group[, flags]])";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RegexpExtract {
    signature: Signature,
    documentation: Documentation,
}

impl RegexpExtract {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
            documentation: documentation(
                "Returns what a group of a regular expression matches first in a text.",
                SYNTAX,
            ),
        }
    }
}

/// Returns what the groups match, for each row.
fn extracted(
    values: &StringArray,
    patterns: &StringArray,
    groups: Option<&Int64Array>,
    flags: Option<&StringArray>,
) -> Result<StringArray> {
    let mut last: Option<((&str, &str), _)> = None;
    let extract = |row: usize| {
        let group = match groups {
            Some(groups) if groups.is_null(row) => return Ok(None),
            Some(groups) => groups.value(row),
            None => 0,
        };
        let flags = match flags {
            Some(flags) if flags.is_null(row) => return Ok(None),
            Some(flags) => flags.value(row),
            None => "",
        };
        if values.is_null(row) || patterns.is_null(row) {
            return Ok(None);
        }
        let key = (patterns.value(row), flags);
        let regex = match last.take() {
            Some((known, regex)) if known == key => regex,
            _ => {
                if let Some(unknown) = flags.chars().find(|flag| !matches!(flag, 'i' | 'm' | 's' | 'x')) {
                    return failed(format!(
                        "{NAME}: there is no flag '{unknown}'; the flags are i (case does not matter), m (^ and $ \
                         match at lines), s (. matches the end of a line) and x (blanks do not count)"
                    ));
                }
                compile_regex(key.0, Some(key.1))?
            }
        };
        let number = usize::try_from(group)
            .ok()
            .filter(|group| *group < regex.captures_len());
        let Some(number) = number else {
            return failed(format!(
                "{NAME}: the pattern '{}' has no group {group}; its groups are 0 (the whole match) to {}",
                key.0,
                regex.captures_len() - 1
            ));
        };
        let found = regex
            .captures(values.value(row))
            .and_then(|found| found.get(number));
        last = Some((key, regex));
        Ok(Some(found.map_or("", |found| found.as_str())))
    };
    (0..values.len()).map(extract).collect()
}

impl ScalarUDFImpl for RegexpExtract {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let accepted: [AcceptedType<'_>; 4] = [
            ("a text", is_text),
            ("a text", is_text),
            ("an integer", is_whole),
            ("a text", is_text),
        ];
        check_types(SYNTAX, types, 2, &accepted)?;
        Ok(DataType::Utf8)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_columns(&args, |columns| {
            let groups = columns.get(2).map(|groups| cast(groups, &DataType::Int64));
            let groups = groups.transpose()?;
            let groups = groups.as_ref().map(|groups| groups.as_primitive::<Int64Type>());
            let flags = columns.get(3).map(texts).transpose()?;
            let (values, patterns) = (texts(&columns[0])?, texts(&columns[1])?);
            let extracted = extracted(&values, &patterns, groups, flags.as_ref())?;
            Ok(Arc::new(extracted) as ArrayRef)
        })
    }
}
