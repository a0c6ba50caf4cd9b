//! The columns of the tables of TPC-H, whose files have no header.

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// The types of these columns.
#[derive(Clone, Copy)]
enum Type {
    Bigint,
    Int,
    Decimal,
    Date,
    Varchar,
}

use Type::{Bigint, Date, Decimal, Int, Varchar};

/// Tables with their columns, none of which is NULL.
const TABLES: &[(&str, &[(&str, Type)])] = &[
    (
        "region",
        &[
            ("r_regionkey", Bigint),
            ("r_name", Varchar),
            ("r_comment", Varchar),
        ],
    ),
    (
        "nation",
        &[
            ("n_nationkey", Bigint),
            ("n_name", Varchar),
            ("n_regionkey", Bigint),
            ("n_comment", Varchar),
        ],
    ),
    (
        "supplier",
        &[
            ("s_suppkey", Bigint),
            ("s_name", Varchar),
            ("s_address", Varchar),
            ("s_nationkey", Bigint),
            ("s_phone", Varchar),
            ("s_acctbal", Decimal),
            ("s_comment", Varchar),
        ],
    ),
    (
        "customer",
        &[
            ("c_custkey", Bigint),
            ("c_name", Varchar),
            ("c_address", Varchar),
            ("c_nationkey", Bigint),
            ("c_phone", Varchar),
            ("c_acctbal", Decimal),
            ("c_mktsegment", Varchar),
            ("c_comment", Varchar),
        ],
    ),
    (
        "part",
        &[
            ("p_partkey", Bigint),
            ("p_name", Varchar),
            ("p_mfgr", Varchar),
            ("p_brand", Varchar),
            ("p_type", Varchar),
            ("p_size", Int),
            ("p_container", Varchar),
            ("p_retailprice", Decimal),
            ("p_comment", Varchar),
        ],
    ),
    (
        "partsupp",
        &[
            ("ps_partkey", Bigint),
            ("ps_suppkey", Bigint),
            ("ps_availqty", Int),
            ("ps_supplycost", Decimal),
            ("ps_comment", Varchar),
        ],
    ),
    (
        "orders",
        &[
            ("o_orderkey", Bigint),
            ("o_custkey", Bigint),
            ("o_orderstatus", Varchar),
            ("o_totalprice", Decimal),
            ("o_orderdate", Date),
            ("o_orderpriority", Varchar),
            ("o_clerk", Varchar),
            ("o_shippriority", Int),
            ("o_comment", Varchar),
        ],
    ),
    (
        "lineitem",
        &[
            ("l_orderkey", Bigint),
            ("l_partkey", Bigint),
            ("l_suppkey", Bigint),
            ("l_linenumber", Int),
            ("l_quantity", Decimal),
            ("l_extendedprice", Decimal),
            ("l_discount", Decimal),
            ("l_tax", Decimal),
            ("l_returnflag", Varchar),
            ("l_linestatus", Varchar),
            ("l_shipdate", Date),
            ("l_commitdate", Date),
            ("l_receiptdate", Date),
            ("l_shipinstruct", Varchar),
            ("l_shipmode", Varchar),
            ("l_comment", Varchar),
        ],
    ),
];

/// Returns the columns of a table, by its name.
pub(super) fn tpch_schema(table: &str) -> Option<SchemaRef> {
    let (_, columns) = TABLES.iter().find(|(name, _)| *name == table)?;
    let field = |(name, column): &(&str, Type)| {
        let data_type = match column {
            Bigint => DataType::Int64,
            Int => DataType::Int32,
            Decimal => DataType::Decimal128(15, 2),
            Date => DataType::Date32,
            Varchar => DataType::Utf8,
        };
        Field::new(*name, data_type, false)
    };
    Some(Schema::new(columns.iter().map(field).collect::<Vec<_>>()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tpch_table_has_a_schema() {
        for (table, columns) in [
            ("region", 3),
            ("nation", 4),
            ("supplier", 7),
            ("customer", 8),
            ("part", 9),
            ("partsupp", 5),
            ("orders", 9),
            ("lineitem", 16),
        ] {
            assert_eq!(tpch_schema(table).unwrap().fields().len(), columns, "{table}");
        }
        assert!(tpch_schema("other").is_none());
    }
}
