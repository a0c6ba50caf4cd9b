//! What is aggregated: expressions over integer columns of the fact table.
//!
//! Values wrap at the width of the expression's type, as they do in SQL here; a NULL operand makes a NULL.

/// The type an expression is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

impl Width {
    #[inline(always)]
    fn wrap(self, value: i64) -> i64 {
        match self {
            Width::W32 => i64::from(value as i32),
            Width::W64 => value,
        }
    }
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Measure {
    /// A column, by its number in the list of [`StarJoin::measured`](super::StarJoin::measured).
    Column(usize),
    /// A constant.
    Literal(i64),
    /// A sum.
    Add(Width, Box<Measure>, Box<Measure>),
    /// A difference.
    Subtract(Width, Box<Measure>, Box<Measure>),
    /// A product.
    Multiply(Width, Box<Measure>, Box<Measure>),
}

/// Values of a column or of an expression, one for each selected row; where `valid` is not empty, whether it is not NULL.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Values {
    pub(super) values: Vec<i64>,
    pub(super) valid: Vec<bool>,
}

impl Values {
    /// Values; `valid` says which are not NULL, and is empty if all are.
    ///
    /// # Panics
    /// If it is of another length, and not empty.
    pub fn new(values: Vec<i64>, valid: Vec<bool>) -> Values {
        assert!(
            valid.is_empty() || valid.len() == values.len(),
            "one for each value"
        );
        Values { values, valid }
    }

    /// Bytes of DRAM.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.values) + size_of_val(&*self.valid)
    }

    fn set(&mut self, other: &Values) {
        self.values.clone_from(&other.values);
        self.valid.clone_from(&other.valid);
    }

    /// Makes them those of codes, which are numbers less `base`; 0 is NULL, if there is one.
    pub(super) fn set_codes(&mut self, codes: impl Iterator<Item = u64> + Clone, base: i64, has_null: bool) {
        self.valid.clear();
        if has_null {
            self.valid.extend(codes.clone().map(|code| code != 0));
        }
        self.values.clear();
        self.values
            .extend(codes.map(|code| (code as i64).wrapping_add(base)));
    }

    /// The value of a row, unless it is NULL.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let valid = self.valid.get(row).is_none_or(|valid| *valid);
        valid.then(|| self.values[row])
    }

    /// Those of some rows.
    pub(super) fn of(&self, rows: &[usize]) -> Values {
        let valid = rows.iter().filter_map(|row| self.valid.get(*row).copied());
        Values {
            values: rows.iter().map(|row| self.values[*row]).collect(),
            valid: valid.collect(),
        }
    }
}

impl Measure {
    /// Its values for rows whose columns are these. `room` lends what it needs in between.
    pub(super) fn evaluate(&self, columns: &[Values], rows: usize, out: &mut Values, room: &mut Vec<Values>) {
        match self {
            Measure::Column(number) => out.set(&columns[*number]),
            Measure::Literal(value) => {
                out.values.clear();
                out.values.resize(rows, *value);
                out.valid.clear();
            }
            Measure::Add(width, a, b) => {
                combine((a, b), columns, rows, out, room, |a, b| {
                    width.wrap(a.wrapping_add(b))
                });
            }
            Measure::Subtract(width, a, b) => {
                combine((a, b), columns, rows, out, room, |a, b| {
                    width.wrap(a.wrapping_sub(b))
                });
            }
            Measure::Multiply(width, a, b) => {
                combine((a, b), columns, rows, out, room, |a, b| {
                    width.wrap(a.wrapping_mul(b))
                });
            }
        }
    }
}

fn combine(
    (left, right): (&Measure, &Measure),
    columns: &[Values],
    rows: usize,
    out: &mut Values,
    room: &mut Vec<Values>,
    operator: impl Fn(i64, i64) -> i64,
) {
    left.evaluate(columns, rows, out, room);
    let mut lent = room.pop().unwrap_or_default();
    let right = match right {
        Measure::Column(number) => &columns[*number],
        other => {
            other.evaluate(columns, rows, &mut lent, room);
            &lent
        }
    };
    for (left, right) in out.values.iter_mut().zip(&right.values) {
        *left = operator(*left, *right);
    }
    if out.valid.is_empty() {
        out.valid.clone_from(&right.valid);
    } else {
        out.valid
            .iter_mut()
            .zip(&right.valid)
            .for_each(|(left, right)| *left &= right);
    }
    room.push(lent);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_and_overflow() {
        let column = |values: &[i64], valid: &[bool]| Values {
            values: values.to_vec(),
            valid: valid.to_vec(),
        };
        let columns = [
            column(&[1, i64::from(i32::MAX), 3], &[true, true, false]),
            column(&[4, 2, 6], &[]),
        ];
        let of = |measure: Measure| {
            let (mut values, mut room) = (Values::default(), vec![column(&[7; 9], &[false; 9])]);
            measure.evaluate(&columns, 3, &mut values, &mut room);
            values
        };
        let pair = || (Box::new(Measure::Column(0)), Box::new(Measure::Column(1)));
        let (a, b) = pair();
        let product = of(Measure::Multiply(Width::W32, a, b));
        assert_eq!(product.values[..2], [4, -2]);
        assert_eq!(product.valid, [true, true, false]);
        let (a, b) = pair();
        let product = of(Measure::Multiply(Width::W64, b, a));
        assert_eq!(product.values[1], 2 * i64::from(i32::MAX));
        assert_eq!(product.valid, [true, true, false]);
        let (_, b) = pair();
        let rest = of(Measure::Subtract(Width::W64, Box::new(Measure::Literal(10)), b));
        assert_eq!((rest.values, rest.valid), (vec![6, 8, 4], vec![]));
    }
}
