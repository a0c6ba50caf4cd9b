//! Names of columns from a header line.
//!
//! Names that cannot be used are replaced as DuckDB does it: an empty one by `column0`, `column1` and so on by
//! its place, one that is there already, in any case, by `name_1`, `name_2` and so on.

use std::collections::HashMap;

use super::records::TextRecord;

/// Returns the names of the first `columns` fields of a header line, without blanks around them and all of
/// them distinct; `None` if one is not UTF-8.
pub(super) fn header_names(record: &TextRecord, columns: usize) -> Option<Vec<String>> {
    // How often each name was met again, by its lower case.
    let mut repeated: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::with_capacity(columns);
    for (i, field) in record.fields().take(columns).enumerate() {
        let mut name = match std::str::from_utf8(field.bytes).ok()?.trim() {
            "" => format!("column{i}"),
            name => name.to_string(),
        };
        while let Some(count) = repeated.get_mut(&name.to_lowercase()) {
            *count += 1;
            name = format!("{name}_{count}");
        }
        repeated.insert(name.to_lowercase(), 0);
        names.push(name);
    }
    Some(names)
}
