//! The columns of a table that a terminal has room for, and their widths.
//!
//! Texts are narrowed before a column is left out, numbers never: a part of a number reads as another one.

/// Width to which a column of texts is narrowed before others are left out.
const NARROW_WIDTH: usize = 12;

/// Width of the blanks around a value, and of the line to its right.
const FRAME_WIDTH: usize = 3;

/// The widths of the values in a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnWidth {
    /// Width of its longest value or its name.
    content: usize,
    /// Width below which it is not shown.
    least: usize,
}

impl ColumnWidth {
    /// Describes a column of texts whose longest one, or its name, has this width.
    pub(super) fn of_texts(content: usize) -> Self {
        Self {
            content,
            least: content.min(NARROW_WIDTH),
        }
    }

    /// Describes a column of numbers, the longest of which has the width `values`; `content` includes the
    /// name of the column, which may be cut.
    pub(super) fn of_numbers(content: usize, values: usize) -> Self {
        Self {
            content,
            least: values.max(content.min(NARROW_WIDTH)),
        }
    }
}

/// Returns the widths of the first columns, as many as a line of `terminal` characters has room for, and one
/// at least.
pub(super) fn fit(columns: &[ColumnWidth], terminal: usize) -> Vec<usize> {
    let mut used = 1;
    let fitting = columns.iter().take_while(|column| {
        used += column.least + FRAME_WIDTH;
        used <= terminal
    });
    let fitting = fitting.count().max(1).min(columns.len());
    let shown = &columns[..fitting];
    let room = terminal.saturating_sub(1 + fitting * FRAME_WIDTH);
    let widths = |cap: usize| -> Vec<usize> {
        let widths = shown
            .iter()
            .map(|column| column.content.min(cap).max(column.least));
        widths.collect()
    };
    let mut caps = (1..=terminal).rev().map(widths);
    let fitted = caps.find(|widths| widths.iter().sum::<usize>() <= room);
    // A single column that is wider than the terminal.
    fitted.unwrap_or_else(|| vec![room.max(1); fitting])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(widths: &[usize]) -> Vec<ColumnWidth> {
        widths.iter().map(|width| ColumnWidth::of_texts(*width)).collect()
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        assert_eq!(fit(&texts(&[3, 20]), 80), [3, 20]);
        assert_eq!(fit(&texts(&[3, 20]), 30), [3, 20]);
        assert!(fit(&[], 80).is_empty());
    }

    #[test]
    fn the_widest_texts_are_narrowed_first() {
        assert_eq!(fit(&texts(&[5, 100, 30]), 60), [5, 22, 22]);
        assert_eq!(fit(&texts(&[100]), 60), [56]);
    }

    #[test]
    fn columns_without_room_are_left_out() {
        assert_eq!(fit(&texts(&[20; 9]), 62), [12, 12, 12, 12]);
        assert_eq!(fit(&texts(&[2, 20, 20]), 21), [2, 12]);
    }

    #[test]
    fn numbers_are_not_narrowed() {
        let wide = ColumnWidth::of_numbers(40, 18);
        assert_eq!(fit(&[wide], 80), [40]);
        assert_eq!(fit(&[ColumnWidth::of_texts(40), wide], 50), [21, 21]);
        assert_eq!(fit(&[wide, wide], 40), [36]);
        assert_eq!(fit(&[wide], 20), [16]);
    }
}
