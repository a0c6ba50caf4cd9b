//! The facts: `lineorder`, order by order.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::DataType;

use super::calendar::{DAYS, datekey};
use super::lists::{PRIORITIES, SHIP_MODES, names};
use super::part::price;
use super::{LINES_PER_ORDER, streams};
use crate::SplitMix64;

pub(super) const COLUMNS: [(&str, DataType); 17] = [
    ("lo_orderkey", DataType::Int32),
    ("lo_linenumber", DataType::Int32),
    ("lo_custkey", DataType::Int32),
    ("lo_partkey", DataType::Int32),
    ("lo_suppkey", DataType::Int32),
    ("lo_orderdate", DataType::Int32),
    ("lo_orderpriority", DataType::Utf8),
    ("lo_shippriority", DataType::Int32),
    ("lo_quantity", DataType::Int32),
    ("lo_extendedprice", DataType::Int32),
    ("lo_ordtotalprice", DataType::Int32),
    ("lo_discount", DataType::Int32),
    ("lo_revenue", DataType::Int32),
    ("lo_supplycost", DataType::Int32),
    ("lo_tax", DataType::Int32),
    ("lo_commitdate", DataType::Int32),
    ("lo_shipmode", DataType::Utf8),
];

/// Days at the end of the calendar without orders, as in TPC-H (the last order is of 1998-08-02).
const WITHOUT_ORDERS: usize = 151;

/// The numbers of keys of the dimensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct DimensionSizes {
    pub(super) customers: u64,
    pub(super) parts: u64,
    pub(super) suppliers: u64,
}

/// Generates the lines of these orders, counted from 0.
pub(super) fn columns(seed: u64, keys: &DimensionSizes, orders: Range<u64>) -> Vec<ArrayRef> {
    let expected = ((orders.end - orders.start) * (LINES_PER_ORDER + 1)) as usize;
    let mut numbers: [Vec<i32>; 15] = std::array::from_fn(|_| Vec::with_capacity(expected));
    let [
        order_key,
        line_number,
        customer,
        part,
        supplier,
        order_date,
        ship_priority,
        quantity,
        extended_price,
        total_price,
        discount,
        revenue,
        supply_cost,
        tax,
        commit_date,
    ] = &mut numbers;
    let (mut priorities, mut ship_modes) = (Vec::with_capacity(expected), Vec::with_capacity(expected));
    for order in orders {
        let mut rng = SplitMix64::stream(seed, streams::LINEORDER + order);
        let mut below = |bound: u64| rng.below(bound) as i32;
        let lines = 1 + below(7);
        let buyer = 1 + below(keys.customers);
        let ordered = below((DAYS - WITHOUT_ORDERS) as u64);
        let priority = PRIORITIES[below(5) as usize];
        let mut total = 0;
        for line in 1..=lines {
            let key = 1 + below(keys.parts);
            let price = price(key as u64) as i32;
            let (pieces, percent_off, percent_tax) = (1 + below(50), below(11), below(9));
            let extended = pieces * price;
            let paid = (i64::from(extended) * i64::from(100 - percent_off) / 100) as i32;
            total += (i64::from(paid) * i64::from(100 + percent_tax) / 100) as i32;
            order_key.push(order as i32 + 1);
            line_number.push(line);
            customer.push(buyer);
            part.push(key);
            supplier.push(1 + below(keys.suppliers));
            order_date.push(datekey(ordered as usize));
            priorities.push(priority);
            ship_priority.push(0);
            quantity.push(pieces);
            extended_price.push(extended);
            discount.push(percent_off);
            revenue.push(paid);
            supply_cost.push(6 * price / 10);
            tax.push(percent_tax);
            commit_date.push(datekey((ordered + 30 + below(61)) as usize));
            ship_modes.push(SHIP_MODES[below(7) as usize]);
        }
        total_price.resize(order_key.len(), total);
    }
    let mut columns: Vec<ArrayRef> = numbers
        .into_iter()
        .map(|column| Arc::new(Int32Array::from(column)) as ArrayRef)
        .collect();
    columns.insert(6, names(priorities));
    columns.push(names(ship_modes));
    columns
}
