//! Metadata of Parquet files without what cannot be trusted.
//!
//! - NaN is greater than all other numbers, but no part of the minimum and maximum that writers keep: a
//!   maximum of floats says nothing.
//! - Statistics without a number of NULLs would be read as if there were none.
//! - A dictionary at offset 0, or after the first data page, is none.
//!
//! Statistics that are left out only make queries read more.

use std::sync::Arc;

use parquet::basic::{LogicalType, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};

/// Returns the metadata without what cannot be trusted.
pub fn sound_metadata(metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
    if is_sound(&metadata) {
        return metadata;
    }
    let metadata = Arc::unwrap_or_clone(metadata);
    let mut builder = metadata.into_builder();
    let groups = builder.take_row_groups();
    let index = builder.take_column_index().map(|index| {
        let of_group = |(group, columns): (&RowGroupMetaData, Vec<ColumnIndexMetaData>)| {
            let columns = group.columns().iter().zip(columns);
            let sound = |(column, index): (&ColumnChunkMetaData, ColumnIndexMetaData)| {
                if is_sound_index(column, &index) {
                    index
                } else {
                    ColumnIndexMetaData::NONE
                }
            };
            columns.map(sound).collect::<Vec<_>>()
        };
        groups.iter().zip(index).map(of_group).collect::<Vec<_>>()
    });
    let groups = groups.into_iter().map(sound_group).collect();
    let metadata = builder.set_row_groups(groups).set_column_index(index).build();
    Arc::new(metadata)
}

/// Returns true if nothing needs to be left out.
fn is_sound(metadata: &ParquetMetaData) -> bool {
    let mut columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let mut indexes = metadata.column_index().into_iter().flatten().flatten();
    columns.all(|column| is_sound_chunk(column) && !may_have_unsound_index(column)) && {
        let unsound = |index: &ColumnIndexMetaData| {
            !matches!(index, ColumnIndexMetaData::NONE) && index.null_counts().is_none()
        };
        !indexes.any(unsound)
    }
}

fn is_sound_chunk(column: &ColumnChunkMetaData) -> bool {
    let statistics = column.statistics().is_none_or(|statistics| {
        let counted = statistics.null_count_opt().is_some() || !is_nullable(column);
        let ends = statistics.min_bytes_opt().is_some() || statistics.max_bytes_opt().is_some();
        counted && !(is_float(column) && ends)
    });
    statistics && has_sound_dictionary(column)
}

fn has_sound_dictionary(column: &ColumnChunkMetaData) -> bool {
    let offset = column.dictionary_page_offset();
    offset.is_none_or(|offset| offset > 0 && offset < column.data_page_offset())
}

/// Returns true if the index of the pages, which may be read later, must not be used.
fn may_have_unsound_index(column: &ColumnChunkMetaData) -> bool {
    column.column_index_offset().is_some() && (is_float(column) || lacks_null_count(column))
}

fn is_sound_index(column: &ColumnChunkMetaData, index: &ColumnIndexMetaData) -> bool {
    !is_float(column) && !lacks_null_count(column) && index.null_counts().is_some()
}

fn lacks_null_count(column: &ColumnChunkMetaData) -> bool {
    let counted = |statistics: &Statistics| statistics.null_count_opt().is_some();
    is_nullable(column) && !column.statistics().is_some_and(counted)
}

fn is_nullable(column: &ColumnChunkMetaData) -> bool {
    column.column_descr().max_def_level() > 0
}

fn is_float(column: &ColumnChunkMetaData) -> bool {
    matches!(column.column_type(), Type::FLOAT | Type::DOUBLE)
        || matches!(
            column.column_descr().logical_type_ref(),
            Some(LogicalType::Float16)
        )
}

fn sound_group(group: RowGroupMetaData) -> RowGroupMetaData {
    if group
        .columns()
        .iter()
        .all(|column| is_sound_chunk(column) && !may_have_unsound_index(column))
    {
        return group;
    }
    let columns = group.columns().iter().cloned().map(sound_chunk).collect();
    let unchanged = group.clone();
    // This cannot fail: the number of columns is the same.
    group
        .into_builder()
        .set_column_metadata(columns)
        .build()
        .unwrap_or(unchanged)
}

fn sound_chunk(column: ColumnChunkMetaData) -> ColumnChunkMetaData {
    let unchanged = column.clone();
    let statistics = column.statistics().cloned();
    let mut builder = column.into_builder();
    if !has_sound_dictionary(&unchanged) {
        builder = builder.set_dictionary_page_offset(None);
    }
    if may_have_unsound_index(&unchanged) {
        builder = builder
            .set_column_index_offset(None)
            .set_column_index_length(None);
    }
    builder = match statistics {
        Some(_) if lacks_null_count(&unchanged) => builder.clear_statistics(),
        Some(statistics) if is_float(&unchanged) => match without_maximum(&statistics) {
            Some(sound) => builder.set_statistics(sound),
            None => builder.clear_statistics(),
        },
        _ => builder,
    };
    builder.build().unwrap_or(unchanged)
}

/// Returns statistics of floats with nothing but the minimum, which is the smallest number even where there
/// are NaN, and the number of NULLs.
fn without_maximum(statistics: &Statistics) -> Option<Statistics> {
    let nulls = statistics.null_count_opt();
    Some(match statistics {
        Statistics::Float(values) => {
            let least = values.min_opt().copied().filter(|least| !least.is_nan());
            Statistics::Float(ValueStatistics::new(least, None, None, nulls, false))
        }
        Statistics::Double(values) => {
            let least = values.min_opt().copied().filter(|least| !least.is_nan());
            Statistics::Double(ValueStatistics::new(least, None, None, nulls, false))
        }
        Statistics::FixedLenByteArray(_) => {
            Statistics::FixedLenByteArray(ValueStatistics::new(None, None, None, nulls, false))
        }
        _ => return None,
    })
}
