//! The dimension `date`, and the days that orders are made on.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, Int32Array, StringArray};
use arrow_schema::DataType;

/// Days from 1992-01-01 to 1998-12-31.
pub(super) const DAYS: usize = 2557;

pub(super) const COLUMNS: [(&str, DataType); 17] = [
    ("d_datekey", DataType::Int32),
    ("d_date", DataType::Utf8),
    ("d_dayofweek", DataType::Utf8),
    ("d_month", DataType::Utf8),
    ("d_year", DataType::Int32),
    ("d_yearmonthnum", DataType::Int32),
    ("d_yearmonth", DataType::Utf8),
    ("d_daynuminweek", DataType::Int32),
    ("d_daynuminmonth", DataType::Int32),
    ("d_daynuminyear", DataType::Int32),
    ("d_monthnuminyear", DataType::Int32),
    ("d_weeknuminyear", DataType::Int32),
    ("d_sellingseason", DataType::Utf8),
    ("d_lastdayinweekfl", DataType::Int32),
    ("d_lastdayinmonthfl", DataType::Int32),
    ("d_holidayfl", DataType::Int32),
    ("d_weekdayfl", DataType::Int32),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEK: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Month and day of the ten holidays.
const HOLIDAYS: [(usize, i32); 10] = [
    (1, 1),
    (2, 20),
    (4, 20),
    (5, 20),
    (7, 20),
    (8, 20),
    (9, 20),
    (10, 20),
    (11, 20),
    (12, 24),
];

#[derive(Debug, Clone, Copy)]
struct CalendarDay {
    year: i32,
    /// 1 to 12.
    month: usize,
    /// 1 to 31.
    day: i32,
    /// From 1.
    of_year: i32,
    /// 0 is Sunday.
    of_week: usize,
    ends_month: bool,
}

impl CalendarDay {
    fn key(&self) -> i32 {
        self.year * 10_000 + self.month as i32 * 100 + self.day
    }

    fn season(&self) -> &'static str {
        match self.month {
            1..=3 => "Winter",
            4 => "Spring",
            5..=8 => "Summer",
            9..=10 => "Fall",
            _ => "Christmas",
        }
    }
}

static CALENDAR: LazyLock<Vec<CalendarDay>> = LazyLock::new(|| {
    let mut days = Vec::with_capacity(DAYS);
    for year in 1992..=1998 {
        let mut of_year = 0;
        for month in 1..=12 {
            let len = match month {
                2 if year % 4 == 0 => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            for day in 1..=len {
                of_year += 1;
                days.push(CalendarDay {
                    year,
                    month,
                    day,
                    of_year,
                    of_week: (days.len() + 3) % 7, // 1992-01-01 was a Wednesday
                    ends_month: day == len,
                });
            }
        }
    }
    days
});

/// Returns the `yyyymmdd` number of a day, counted from 1992-01-01.
///
/// # Panics
/// Panics for days from 1999 on.
pub(super) fn datekey(day: usize) -> i32 {
    CALENDAR[day].key()
}

/// Generates the columns of these rows of `date`.
pub(super) fn columns(rows: Range<u64>) -> Vec<ArrayRef> {
    let days = &CALENDAR[rows.start as usize..rows.end as usize];
    let number = |value: fn(&CalendarDay) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(days.iter().map(value)))
    };
    let flag = number;
    let name = |value: fn(&CalendarDay) -> &'static str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(days.iter().map(value)))
    };
    let text = |value: fn(&CalendarDay) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(days.iter().map(value)))
    };
    vec![
        number(CalendarDay::key),
        text(|d| format!("{} {}, {}", MONTHS[d.month - 1], d.day, d.year)),
        name(|d| WEEK[d.of_week]),
        name(|d| MONTHS[d.month - 1]),
        number(|d| d.year),
        number(|d| d.year * 100 + d.month as i32),
        text(|d| format!("{}{}", &MONTHS[d.month - 1][..3], d.year)),
        number(|d| d.of_week as i32 + 1),
        number(|d| d.day),
        number(|d| d.of_year),
        number(|d| d.month as i32),
        number(|d| (d.of_year - 1) / 7 + 1),
        name(CalendarDay::season),
        flag(|d| i32::from(d.of_week == 6)),
        flag(|d| i32::from(d.ends_month)),
        flag(|d| i32::from(HOLIDAYS.contains(&(d.month, d.day)))),
        flag(|d| i32::from((1..=5).contains(&d.of_week))),
    ]
}
