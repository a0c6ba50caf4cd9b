use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use std::collections::{HashMap, HashSet};

/// A whole table in one batch.
struct Whole(RecordBatch);

impl Whole {
    fn generate(table: SsbTable, scale_factor: f64) -> Self {
        Self::of_parts(table, scale_factor, 1)
    }

    fn of_parts(table: SsbTable, scale_factor: f64, parts: u32) -> Self {
        let batches: Vec<RecordBatch> = (0..parts)
            .flat_map(|part| table.reader(scale_factor, part, parts))
            .map(Result::unwrap)
            .collect();
        Self(arrow_select::concat::concat_batches(&table.schema(), &batches).unwrap())
    }

    fn rows(&self) -> usize {
        self.0.num_rows()
    }

    fn numbers(&self, column: &str) -> &[i32] {
        let column = self.0.column_by_name(column).expect("a column");
        column.as_primitive::<Int32Type>().values()
    }

    fn texts(&self, column: &str) -> Vec<&str> {
        let column = self.0.column_by_name(column).expect("a column");
        column.as_string::<i32>().iter().map(Option::unwrap).collect()
    }

    /// Returns the fraction of the rows whose value in a numeric column satisfies `wanted`.
    fn share(&self, column: &str, wanted: impl Fn(i32) -> bool) -> f64 {
        self.numbers(column).iter().filter(|&&v| wanted(v)).count() as f64 / self.rows() as f64
    }

    fn text_share(&self, column: &str, wanted: impl Fn(&str) -> bool) -> f64 {
        self.texts(column).iter().filter(|v| wanted(v)).count() as f64 / self.rows() as f64
    }

    fn distinct(&self, column: &str) -> usize {
        self.texts(column).into_iter().collect::<HashSet<_>>().len()
    }

    /// Returns the FNV-1a hash of all values.
    fn checksum(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for field in self.0.schema().fields() {
            match field.data_type() {
                DataType::Int32 => self
                    .numbers(field.name())
                    .iter()
                    .for_each(|v| add(&v.to_le_bytes())),
                _ => self.texts(field.name()).iter().for_each(|v| {
                    add(v.as_bytes());
                    add(b"|");
                }),
            }
        }
        hash
    }
}

fn near(got: f64, expected: f64, tolerance: f64) {
    assert!(
        (got / expected - 1.0).abs() < tolerance,
        "{got} instead of {expected}"
    );
}

#[test]
fn row_counts_follow_the_scale_factor() {
    for (scale_factor, parts) in [
        (0.01, 2_000),
        (1.0, 200_000),
        (1.5, 200_000),
        (2.0, 400_000),
        (10.0, 800_000),
    ] {
        assert_eq!(SsbTable::Part.approximate_rows(scale_factor), parts);
    }
    for table in SsbTable::ALL {
        let whole = Whole::generate(table, 0.02);
        near(whole.rows() as f64, table.approximate_rows(0.02) as f64, 0.01);
        assert_eq!(whole.0.schema(), table.schema());
        assert_eq!(table.name().parse::<SsbTable>(), Ok(table));
        assert!(Whole::generate(table, 1e-9).rows() > 0, "{table} is never empty");
    }
    assert!("lineorders".parse::<SsbTable>().is_err());
    assert_eq!(Whole::generate(SsbTable::Date, 5.0).rows(), 2557);
}

#[test]
fn parts_make_up_the_whole_and_seeds_matter() {
    for table in SsbTable::ALL {
        let whole = Whole::generate(table, 0.003);
        for parts in [2, 3, 7, 5_000] {
            assert_eq!(
                Whole::of_parts(table, 0.003, parts).0,
                whole.0,
                "{table} in {parts}"
            );
        }
        let other: Vec<RecordBatch> = table.reader_of_seed(1, 0.003, 0, 1).map(Result::unwrap).collect();
        assert_eq!(
            other[0] == whole.0.slice(0, other[0].num_rows()),
            table == SsbTable::Date
        );
    }
}

#[test]
fn the_data_are_those_of_earlier_releases() {
    let got = SsbTable::ALL.map(|table| (table.name(), Whole::generate(table, 0.01).checksum()));
    assert_eq!(
        got,
        [
            ("date", 0xc2cf_b612_5fe8_ab36),
            ("supplier", 0x5b9d_f76c_4a7f_d1ae),
            ("customer", 0xaa94_872e_a6d4_c36e),
            ("part", 0x0240_da79_dde7_edbd),
            ("lineorder", 0xa51e_6836_4f7c_47bc),
        ]
    );
}

#[test]
fn days_are_those_of_the_calendar() {
    let days = Whole::generate(SsbTable::Date, 1.0);
    let (keys, texts) = (days.numbers("d_datekey"), days.texts("d_date"));
    let row = |key: i32| keys.binary_search(&key).expect("a day");
    assert!(keys.is_sorted());
    assert_eq!((keys[0], texts[0]), (19_920_101, "January 1, 1992"));
    assert_eq!((keys[2556], texts[2556]), (19_981_231, "December 31, 1998"));
    let day = row(19_960_229);
    assert_eq!(days.texts("d_dayofweek")[day], "Thursday");
    assert_eq!(days.texts("d_yearmonth")[day], "Feb1996");
    assert_eq!(days.numbers("d_yearmonthnum")[day], 199_602);
    assert_eq!(days.numbers("d_daynuminyear")[day], 60);
    assert_eq!(days.numbers("d_lastdayinmonthfl")[day], 1);
    assert_eq!(days.numbers("d_weekdayfl")[day], 1);
    let weeks = days.numbers("d_weeknuminyear");
    assert_eq!(
        (
            weeks[row(19_940_204)],
            weeks[row(19_940_205)],
            weeks[row(19_940_212)]
        ),
        (5, 6, 7)
    );
    assert_eq!(weeks.iter().max(), Some(&53));
    assert_eq!(days.texts("d_sellingseason")[row(19_971_224)], "Christmas");
    assert_eq!(days.numbers("d_holidayfl").iter().sum::<i32>(), 70);
    let saturday = row(19_981_226);
    assert_eq!(days.numbers("d_daynuminweek")[saturday], 7);
    assert_eq!(days.numbers("d_lastdayinweekfl")[saturday], 1);
    near(days.share("d_year", |year| year == 1993), 1.0 / 7.0, 0.01);
}

#[test]
fn dimensions_have_the_filter_factors_of_the_benchmark() {
    let (customers, suppliers) = (
        Whole::generate(SsbTable::Customer, 4.0),
        Whole::generate(SsbTable::Supplier, 30.0),
    );
    for (table, prefix) in [(&customers, 'c'), (&suppliers, 's')] {
        let column = |name: &str| format!("{prefix}_{name}");
        near(table.text_share(&column("region"), |r| r == "ASIA"), 0.2, 0.05);
        near(
            table.text_share(&column("nation"), |n| n == "UNITED STATES"),
            0.04,
            0.1,
        );
        near(
            table.text_share(&column("city"), |c| c == "UNITED KI1"),
            1.0 / 250.0,
            0.25,
        );
        assert_eq!(table.distinct(&column("city")), 250);
        assert_eq!(table.distinct(&column("nation")), 25);
        assert!(table.texts(&column("city")).iter().all(|city| city.len() == 10));
        let nations = table.texts(&column("nation"));
        for (city, nation) in table.texts(&column("city")).iter().zip(nations) {
            assert_eq!(city[..9].trim_end(), nation[..nation.len().min(9)].trim_end());
        }
        assert!(
            table
                .texts(&column("address"))
                .iter()
                .all(|a| (10..=25).contains(&a.len()))
        );
        assert!(
            table
                .texts(&column("phone"))
                .iter()
                .all(|phone| phone.len() == 15)
        );
    }
    assert_eq!(customers.distinct("c_mktsegment"), 5);
    let parts = Whole::generate(SsbTable::Part, 1.0);
    near(parts.text_share("p_mfgr", |m| m == "MFGR#1"), 0.2, 0.05);
    near(parts.text_share("p_category", |c| c == "MFGR#12"), 0.04, 0.1);
    near(parts.text_share("p_brand1", |b| b == "MFGR#2239"), 0.001, 0.25);
    near(
        parts.text_share("p_brand1", |b| ("MFGR#2221"..="MFGR#2228").contains(&b)),
        0.008,
        0.1,
    );
    assert_eq!(parts.distinct("p_brand1"), 1000);
    assert_eq!(parts.distinct("p_type"), 150);
    assert_eq!(parts.distinct("p_container"), 40);
    assert_eq!(parts.distinct("p_color"), 92);
    let (mfgrs, categories) = (parts.texts("p_mfgr"), parts.texts("p_category"));
    for (i, brand) in parts.texts("p_brand1").iter().enumerate() {
        assert!(brand.starts_with(categories[i]) && categories[i].starts_with(mfgrs[i]));
    }
}

#[test]
fn facts_have_the_filter_factors_of_the_benchmark() {
    let facts = Whole::generate(SsbTable::Lineorder, 0.05);
    near(
        facts.share("lo_discount", |d| (1..=3).contains(&d)),
        3.0 / 11.0,
        0.02,
    );
    near(facts.share("lo_quantity", |q| q < 25), 0.48, 0.02);
    near(facts.share("lo_quantity", |q| (26..=35).contains(&q)), 0.2, 0.02);
    // 365 of the 2406 days with orders.
    near(
        facts.share("lo_orderdate", |d| d / 10_000 == 1993),
        365.0 / 2406.0,
        0.02,
    );
    near(
        facts.text_share("lo_shipmode", |mode| mode == "AIR"),
        1.0 / 7.0,
        0.03,
    );
    near(facts.text_share("lo_orderpriority", |p| p == "5-LOW"), 0.2, 0.03);
    assert_eq!(facts.numbers("lo_discount").iter().max(), Some(&10));
    assert_eq!(facts.numbers("lo_tax").iter().max(), Some(&8));
    assert_eq!(facts.numbers("lo_quantity").iter().min(), Some(&1));
    assert_eq!(facts.numbers("lo_quantity").iter().max(), Some(&50));
}

#[test]
fn facts_refer_to_rows_of_their_dimensions() {
    let facts = Whole::generate(SsbTable::Lineorder, 0.01);
    for (foreign, table, key) in [
        ("lo_custkey", SsbTable::Customer, "c_custkey"),
        ("lo_suppkey", SsbTable::Supplier, "s_suppkey"),
        ("lo_partkey", SsbTable::Part, "p_partkey"),
        ("lo_orderdate", SsbTable::Date, "d_datekey"),
        ("lo_commitdate", SsbTable::Date, "d_datekey"),
    ] {
        let dimension = Whole::generate(table, 0.01);
        let keys: HashSet<i32> = dimension.numbers(key).iter().copied().collect();
        assert_eq!(keys.len(), dimension.rows(), "{key} is unique");
        let used: HashSet<i32> = facts.numbers(foreign).iter().copied().collect();
        assert!(used.is_subset(&keys), "{foreign}");
        // All keys but the dates are drawn; at 60,000 lines few are left out.
        assert!(used.len() as f64 > 0.9 * keys.len() as f64, "{foreign}");
    }
}

#[test]
fn amounts_follow_the_formulas() {
    let facts = Whole::generate(SsbTable::Lineorder, 0.01);
    let of = |column: &str| facts.numbers(column).to_vec();
    let (orders, lines) = (of("lo_orderkey"), of("lo_linenumber"));
    let (quantity, extended, part) = (of("lo_quantity"), of("lo_extendedprice"), of("lo_partkey"));
    let (discount, revenue, tax) = (of("lo_discount"), of("lo_revenue"), of("lo_tax"));
    let (cost, total) = (of("lo_supplycost"), of("lo_ordtotalprice"));
    let (ordered, committed) = (of("lo_orderdate"), of("lo_commitdate"));
    let days = Whole::generate(SsbTable::Date, 0.01);
    let day = |key: i32| days.numbers("d_datekey").binary_search(&key).expect("a day");
    let mut sums: HashMap<i32, (i64, i32)> = HashMap::new();
    for row in 0..facts.rows() {
        let key = part[row];
        let price = 90_000 + key / 10 % 20_001 + 100 * (key % 1000);
        assert_eq!(extended[row], quantity[row] * price);
        assert_eq!(
            i64::from(revenue[row]),
            i64::from(extended[row]) * i64::from(100 - discount[row]) / 100
        );
        assert_eq!(cost[row], 6 * price / 10);
        assert!((30..=90).contains(&(day(committed[row]) - day(ordered[row]))));
        assert!(ordered[row] <= 19_980_802);
        let sum = sums.entry(orders[row]).or_default();
        sum.0 += i64::from(revenue[row]) * i64::from(100 + tax[row]) / 100;
        sum.1 += 1;
        assert_eq!(lines[row], sum.1, "lines are numbered");
    }
    for row in 0..facts.rows() {
        assert_eq!(i64::from(total[row]), sums[&orders[row]].0);
    }
    assert!(orders.is_sorted());
    assert_eq!(sums.len(), 15_000, "order keys are dense");
    assert_eq!((orders[0], orders[facts.rows() - 1]), (1, 15_000));
    assert!(sums.values().all(|(_, lines)| (1..=7).contains(lines)));
    near(facts.rows() as f64 / sums.len() as f64, 4.0, 0.02);
}

#[test]
fn queries_name_columns_of_the_tables() {
    let columns: HashSet<String> = SsbTable::ALL
        .iter()
        .flat_map(|table| {
            table
                .schema()
                .fields()
                .iter()
                .map(|f| f.name().clone())
                .collect::<Vec<_>>()
        })
        .collect();
    let queries = ssb_queries();
    assert_eq!(queries.len(), 13);
    assert!(queries.is_sorted_by_key(|query| query.name));
    for query in queries {
        let words = query.sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names = words.filter(|word| word.contains('_'));
        for name in names {
            assert!(columns.contains(name), "{}: {name}", query.name);
        }
    }
}
