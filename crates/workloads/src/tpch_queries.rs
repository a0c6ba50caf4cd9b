//! The 22 queries of TPC-H with the substitution parameters of its validation (specification 3.0.1, chapter
//! 2.4).

/// A query of TPC-H.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpchQuery {
    /// Its number, 1 to 22.
    pub number: u32,
    /// The query, over tables with the names of [`TpchTable::name`](crate::TpchTable::name).
    pub sql: String,
}

/// Returns the queries in order. The scale factor determines a fraction in Q11. Q15 has its view as a
/// `WITH` clause, so that all queries are single statements.
#[must_use]
pub fn tpch_queries(scale_factor: f64) -> Vec<TpchQuery> {
    let fraction = format!("{:.10}", 0.0001 / scale_factor);
    (1..)
        .zip(TEXTS)
        .map(|(number, text)| TpchQuery {
            number,
            sql: text.trim_end().replace(":fraction", &fraction),
        })
        .collect()
}

const TEXTS: [&str; 22] = [
    include_str!("tpch_queries/q01.sql"),
    include_str!("tpch_queries/q02.sql"),
    include_str!("tpch_queries/q03.sql"),
    include_str!("tpch_queries/q04.sql"),
    include_str!("tpch_queries/q05.sql"),
    include_str!("tpch_queries/q06.sql"),
    include_str!("tpch_queries/q07.sql"),
    include_str!("tpch_queries/q08.sql"),
    include_str!("tpch_queries/q09.sql"),
    include_str!("tpch_queries/q10.sql"),
    include_str!("tpch_queries/q11.sql"),
    include_str!("tpch_queries/q12.sql"),
    include_str!("tpch_queries/q13.sql"),
    include_str!("tpch_queries/q14.sql"),
    include_str!("tpch_queries/q15.sql"),
    include_str!("tpch_queries/q16.sql"),
    include_str!("tpch_queries/q17.sql"),
    include_str!("tpch_queries/q18.sql"),
    include_str!("tpch_queries/q19.sql"),
    include_str!("tpch_queries/q20.sql"),
    include_str!("tpch_queries/q21.sql"),
    include_str!("tpch_queries/q22.sql"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_22_and_none_has_a_gap() {
        let queries = tpch_queries(10.0);
        assert_eq!(
            queries.iter().map(|query| query.number).collect::<Vec<_>>(),
            (1..=22).collect::<Vec<_>>()
        );
        for query in &queries {
            assert!(!query.sql.contains([':', ';']), "{}", query.sql);
        }
        assert!(queries[10].sql.contains("* 0.0000100000"));
        assert!(tpch_queries(0.01)[10].sql.contains("* 0.0100000000"));
    }
}
