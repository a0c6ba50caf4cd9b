//! Conditions of every kind, with NULL in each place, beside an evaluation by the truth tables of three-valued
//! logic: what the optimizer makes of an expression means the same for every row.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use halocline_engine::Database;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::support::{new_pool, query, run};

/// The values of a row; `n` is never NULL.
#[derive(Debug, Clone)]
struct Row {
    i: Option<i64>,
    n: i64,
    b: Option<bool>,
    c: Option<bool>,
    s: Option<&'static str>,
    f: Option<f64>,
}

/// An expression with integers as values.
#[derive(Debug, Clone, PartialEq)]
enum Number {
    I,
    N,
    Literal(Option<i64>),
    Binary(&'static str, Box<Number>, Box<Number>),
    Coalesce(Box<Number>, Box<Number>),
    Nullif(Box<Number>, Box<Number>),
}

/// A condition on a text, and its truth.
type TextCondition = (&'static str, fn(&str) -> bool);
/// A condition on a float, and its truth.
type FloatCondition = (&'static str, fn(f64) -> bool);

/// A condition.
#[derive(Debug, Clone)]
enum Condition {
    B,
    C,
    Literal(Option<bool>),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Is(Box<Condition>, &'static str),
    IsNull(Number, bool),
    Compare(Number, &'static str, Number),
    In(Number, bool, Vec<Option<i64>>),
    Between(Number, bool, Number, Number),
    Case(Vec<(Condition, Condition)>, Option<Box<Condition>>),
    /// Of `s`, by its truth for texts.
    Text(&'static str, fn(&str) -> bool),
    /// Of `f`, by its truth for floats.
    Float(&'static str, fn(f64) -> bool),
}

fn binary(op: &'static str, left: Number, right: Number) -> Number {
    Number::Binary(op, Box::new(left), Box::new(right))
}

impl Number {
    fn value(&self, row: &Row) -> Option<i64> {
        match self {
            Self::I => row.i,
            Self::N => Some(row.n),
            Self::Literal(value) => *value,
            Self::Binary(op, left, right) => {
                let (left, right) = (left.value(row)?, right.value(row)?);
                Some(match *op {
                    "+" => left + right,
                    "-" => left - right,
                    "*" => left * right,
                    "#" => left ^ right,
                    "&" => left & right,
                    "|" => left | right,
                    "//" => left / right,
                    "%" => left % right,
                    ">>" => left >> right,
                    other => panic!("{other}"),
                })
            }
            Self::Coalesce(left, right) => left.value(row).or_else(|| right.value(row)),
            Self::Nullif(left, right) => {
                let value = left.value(row)?;
                (right.value(row) != Some(value)).then_some(value)
            }
        }
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn not(value: Option<bool>) -> Option<bool> {
    value.map(|value| !value)
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    not(and(not(left), not(right)))
}

fn compared(left: Option<i64>, op: &str, right: Option<i64>) -> Option<bool> {
    match op {
        "IS DISTINCT FROM" => return Some(left != right),
        "IS NOT DISTINCT FROM" => return Some(left == right),
        _ => {}
    }
    let (left, right) = (left?, right?);
    Some(match op {
        "=" => left == right,
        "<>" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        other => panic!("{other}"),
    })
}

impl Condition {
    fn value(&self, row: &Row) -> Option<bool> {
        match self {
            Self::B => row.b,
            Self::C => row.c,
            Self::Literal(value) => *value,
            Self::Not(of) => not(of.value(row)),
            Self::And(left, right) => and(left.value(row), right.value(row)),
            Self::Or(left, right) => or(left.value(row), right.value(row)),
            Self::Is(of, what) => {
                let value = of.value(row);
                Some(match *what {
                    "TRUE" => value == Some(true),
                    "NOT TRUE" => value != Some(true),
                    "FALSE" => value == Some(false),
                    "NOT FALSE" => value != Some(false),
                    "NULL" | "UNKNOWN" => value.is_none(),
                    "NOT NULL" | "NOT UNKNOWN" => value.is_some(),
                    other => panic!("{other}"),
                })
            }
            Self::IsNull(of, negated) => Some(of.value(row).is_none() != *negated),
            Self::Compare(left, op, right) => compared(left.value(row), op, right.value(row)),
            Self::In(of, negated, list) => {
                let equals = list.iter().map(|item| compared(of.value(row), "=", *item));
                let found = equals.fold(Some(false), or);
                if *negated { not(found) } else { found }
            }
            Self::Between(of, negated, low, high) => {
                let value = of.value(row);
                let within = and(
                    compared(value, ">=", low.value(row)),
                    compared(value, "<=", high.value(row)),
                );
                if *negated { not(within) } else { within }
            }
            Self::Case(whens, otherwise) => {
                let first = whens.iter().find(|(when, _)| when.value(row) == Some(true));
                match (first, otherwise) {
                    (Some((_, then)), _) => then.value(row),
                    (None, Some(otherwise)) => otherwise.value(row),
                    (None, None) => None,
                }
            }
            Self::Text(_, is) => row.s.map(is),
            Self::Float(_, is) => row.f.map(is),
        }
    }
}

fn literal<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "NULL".to_string(), |value| value.to_string())
}

/// Returns the text of an operand, of which NULL has a type.
fn typed(of: &Number) -> String {
    match of {
        Number::Literal(None) => "CAST(NULL AS bigint)".to_string(),
        other => other.to_string(),
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I => f.write_str("i"),
            Self::N => f.write_str("n"),
            Self::Literal(value) => f.write_str(&literal(*value)),
            Self::Binary(op, left, right) => write!(f, "({} {op} {})", typed(left), typed(right)),
            Self::Coalesce(left, right) => write!(f, "coalesce({}, {})", typed(left), typed(right)),
            Self::Nullif(left, right) => write!(f, "nullif({}, {})", typed(left), typed(right)),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let negation = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Self::B => f.write_str("b"),
            Self::C => f.write_str("c"),
            Self::Literal(value) => f.write_str(&literal(*value)),
            Self::Not(of) => write!(f, "NOT ({of})"),
            Self::And(left, right) => write!(f, "({left} AND {right})"),
            Self::Or(left, right) => write!(f, "({left} OR {right})"),
            Self::Is(of, what) => write!(f, "(({of}) IS {what})"),
            Self::IsNull(of, negated) => write!(f, "({of} IS {}NULL)", negation(negated)),
            Self::Compare(left, op, right) => write!(f, "({left} {op} {right})"),
            Self::In(of, negated, list) => {
                let list: Vec<String> = list.iter().map(|item| literal(*item)).collect();
                write!(f, "({of} {}IN ({}))", negation(negated), list.join(", "))
            }
            Self::Between(of, negated, low, high) => {
                write!(f, "({of} {}BETWEEN {low} AND {high})", negation(negated))
            }
            Self::Case(whens, otherwise) => {
                f.write_str("CASE")?;
                for (when, then) in whens {
                    write!(f, " WHEN {when} THEN {then}")?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {otherwise}")?;
                }
                f.write_str(" END")
            }
            Self::Text(text, _) | Self::Float(text, _) => write!(f, "({text})"),
        }
    }
}

/// Conditions without AND, OR and NOT.
fn atoms() -> Vec<Condition> {
    use Condition as C;
    use Number::{I, N};
    let number = |value| Number::Literal(Some(value));
    let mut atoms = vec![
        C::B,
        C::C,
        C::Literal(None),
        C::Literal(Some(true)),
        C::Literal(Some(false)),
    ];
    for of in [I, N] {
        for op in ["=", "<>", "<", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"] {
            atoms.push(C::Compare(of.clone(), op, number(1)));
            atoms.push(C::Compare(of.clone(), op, Number::Literal(None)));
        }
        atoms.push(C::Compare(of.clone(), "=", of.clone()));
        atoms.push(C::Compare(of.clone(), "<>", of.clone()));
        atoms.push(C::Compare(of.clone(), "=", number(2)));
        atoms.push(C::Compare(binary("#", of.clone(), of.clone()), "=", number(0)));
        atoms.push(C::Compare(
            binary("#", binary("#", of.clone(), N), of.clone()),
            ">=",
            number(0),
        ));
        atoms.push(C::Compare(binary("*", of.clone(), number(0)), "=", number(0)));
        atoms.push(C::Compare(binary("%", of.clone(), number(1)), "=", number(0)));
        atoms.push(C::Compare(binary("&", of.clone(), number(0)), "=", number(0)));
        atoms.push(C::Compare(
            binary("|", of.clone(), binary("&", of.clone(), I)),
            ">=",
            number(0),
        ));
        for negated in [false, true] {
            atoms.push(C::IsNull(of.clone(), negated));
            atoms.push(C::In(of.clone(), negated, vec![Some(1)]));
            atoms.push(C::In(of.clone(), negated, vec![Some(1), Some(2)]));
            atoms.push(C::In(
                of.clone(),
                negated,
                vec![Some(0), Some(3), Some(4), Some(5)],
            ));
            atoms.push(C::In(of.clone(), negated, vec![Some(1), None]));
            atoms.push(C::Between(of.clone(), negated, number(1), number(2)));
            atoms.push(C::Between(of.clone(), negated, number(1), Number::Literal(None)));
        }
    }
    let texts: [TextCondition; 16] = [
        ("s LIKE '%'", |_| true),
        ("s NOT LIKE '%%'", |_| false),
        ("s LIKE 'a%'", |s| s.starts_with('a')),
        ("s LIKE 'ab'", |s| s == "ab"),
        ("s ILIKE 'A_'", |s| s.len() == 2 && s.starts_with('a')),
        ("s ~ '.*'", |_| true),
        ("s !~ '.*'", |_| false),
        ("s ~* '.*'", |_| true),
        ("s ~ ''", |_| true),
        ("s ~ '^a'", |s| s.starts_with('a')),
        ("s ~ 'b$'", |s| s.ends_with('b')),
        ("s ~ '^(a|ab)$'", |s| s == "a" || s == "ab"),
        ("s !~ '^(a|x)$'", |s| s != "a"),
        ("s ~* '^AB$'", |s| s == "ab"),
        (r"s ~ 'a\\b'", |s| s.contains(r"a\b")),
        ("s IN ('a', 'x')", |s| s == "a"),
    ];
    atoms.extend(texts.map(|(text, is)| C::Text(text, is)));
    let floats: [FloatCondition; 6] = [
        ("f = 0e0", |f| f == 0.0),
        ("f >= 0e0", |f| f >= 0.0 || f.is_nan()),
        ("f < 1e0", |f| f < 1.0),
        ("f IN (0e0, 1.5e0)", |f| f == 0.0 || f == 1.5),
        ("f NOT IN (1.5e0, 2e0)", |f| f != 1.5),
        ("f BETWEEN 0e0 AND 1.5e0", |f| (0.0..=1.5).contains(&f)),
    ];
    atoms.extend(floats.map(|(text, is)| C::Float(text, is)));
    atoms
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for i in [None, Some(0), Some(1), Some(2)] {
        for n in [1, 3] {
            for b in [None, Some(true), Some(false)] {
                for c in [None, Some(true)] {
                    for s in [None, Some("a"), Some("ab"), Some(r"a\b")] {
                        for f in [None, Some(-0.0), Some(f64::NAN)] {
                            rows.push(Row { i, n, b, c, s, f });
                        }
                    }
                }
            }
        }
    }
    rows
}

async fn table(db: &Database, rows: &[Row]) {
    run(
        db,
        "CREATE TABLE t (id INT NOT NULL, i BIGINT, n BIGINT NOT NULL, b BOOLEAN, c BOOLEAN, s TEXT, f DOUBLE)",
    )
    .await;
    let row = |(id, row): (usize, &Row)| {
        let text = row.s.map(|s| format!("'{s}'"));
        let float = row.f.map(|f| format!("CAST('{f}' AS double)"));
        format!(
            "({id}, {}, {}, {}, {}, {}, {})",
            literal(row.i),
            row.n,
            literal(row.b),
            literal(row.c),
            literal(text),
            literal(float)
        )
    };
    let values: Vec<String> = rows.iter().enumerate().map(row).collect();
    run(db, &format!("INSERT INTO t VALUES {}", values.join(", "))).await;
}

/// Compares conditions in a SELECT list.
async fn check(db: &Database, rows: &[Row], conditions: &[Condition]) {
    for some in conditions.chunks(50) {
        let list: Vec<String> = some
            .iter()
            .enumerate()
            .map(|(at, condition)| format!("{condition} AS c{at}"))
            .collect();
        let found = query(db, &format!("SELECT {} FROM t ORDER BY id", list.join(", "))).await;
        assert_eq!(found.len(), rows.len());
        for (row, line) in rows.iter().zip(found) {
            for (condition, found) in some.iter().zip(line.split('|')) {
                let expected = condition
                    .value(row)
                    .map_or("NULL", |value| if value { "true" } else { "false" });
                assert_eq!(found, expected, "{condition} of {row:?}");
            }
        }
    }
}

/// Compares conditions in WHERE.
async fn check_where(db: &Database, rows: &[Row], conditions: &[Condition]) {
    for condition in conditions {
        let found = query(db, &format!("SELECT id FROM t WHERE {condition}")).await;
        let mut found: Vec<usize> = found.iter().map(|id| id.parse().unwrap()).collect();
        found.sort_unstable();
        let expected: Vec<usize> = (0..rows.len())
            .filter(|id| condition.value(&rows[*id]) == Some(true))
            .collect();
        assert_eq!(found, expected, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_survives_simplification_of_two_conditions() {
    let (_dir, db) = new_pool();
    let (rows, atoms) = (rows(), atoms());
    table(&db, &rows).await;
    let boxed = |condition: &Condition| Box::new(condition.clone());
    let mut conditions = atoms.clone();
    conditions.extend(atoms.iter().map(|atom| Condition::Not(boxed(atom))));
    check_where(&db, &rows, &conditions).await;
    for (at, left) in atoms.iter().enumerate() {
        // Each pair once, in an order that changes.
        for right in &atoms[..at] {
            let both = Condition::And(boxed(left), boxed(right));
            let either = Condition::Or(boxed(right), boxed(left));
            match (at + conditions.len()) % 3 {
                0 => conditions.extend([Condition::Not(Box::new(both)), either]),
                1 => conditions.extend([both, Condition::Not(Box::new(either))]),
                _ => conditions.push(Condition::And(
                    Box::new(Condition::Not(boxed(left))),
                    boxed(right),
                )),
            }
        }
    }
    check(&db, &rows, &conditions).await;
}

/// Returns random numbers that begin anew each time, or with the seed of `HALOCLINE_SEED`.
fn seeded() -> StdRng {
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos() as u64)
    };
    let seed = std::env::var("HALOCLINE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    #[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
    {
        println!("HALOCLINE_SEED={seed}");
    }
    StdRng::seed_from_u64(seed)
}

fn number(random: &mut StdRng, depth: usize) -> Number {
    if depth == 0 {
        return match random.random_range(0..4) {
            0 => Number::I,
            1 => Number::N,
            2 => Number::Literal(Some(random.random_range(0..3))),
            _ => Number::Literal(None),
        };
    }
    let (left, right) = (number(random, depth - 1), number(random, depth - 1));
    match random.random_range(0..8) {
        0 => Number::Coalesce(Box::new(left), Box::new(right)),
        1 => Number::Nullif(Box::new(left), Box::new(right)),
        // The only divisor and shift that are allowed for every row.
        2 => binary("//", left, Number::N),
        3 => binary("%", left, Number::N),
        _ => {
            let ops = ["+", "-", "*", "#", "&", "|"];
            binary(ops.choose(random).unwrap(), left, right)
        }
    }
}

fn condition(random: &mut StdRng, atoms: &[Condition], depth: usize) -> Condition {
    if depth == 0 {
        return atoms.choose(random).unwrap().clone();
    }
    let of = |random: &mut StdRng| Box::new(condition(random, atoms, depth - 1));
    match random.random_range(0..12) {
        0..3 => Condition::And(of(random), of(random)),
        3..6 => Condition::Or(of(random), of(random)),
        6..8 => Condition::Not(of(random)),
        8 => {
            let what = [
                "TRUE",
                "NOT TRUE",
                "FALSE",
                "NOT FALSE",
                "NULL",
                "NOT NULL",
                "UNKNOWN",
                "NOT UNKNOWN",
            ];
            Condition::Is(of(random), what.choose(random).unwrap())
        }
        9 => {
            let ops = [
                "=",
                "<>",
                "<",
                "<=",
                ">",
                ">=",
                "IS DISTINCT FROM",
                "IS NOT DISTINCT FROM",
            ];
            let op = ops.choose(random).unwrap();
            Condition::Compare(number(random, depth - 1), op, number(random, 1))
        }
        _ => {
            let whens = (0..random.random_range(1..4)).map(|_| (*of(random), *of(random)));
            let whens = whens.collect();
            Condition::Case(whens, random.random_bool(0.6).then(|| of(random)))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_survives_simplification_of_random_conditions() {
    let (_dir, db) = new_pool();
    let (rows, atoms) = (rows(), atoms());
    table(&db, &rows).await;
    let mut random = seeded();
    let conditions: Vec<Condition> = (0..600)
        .map(|at| condition(&mut random, &atoms, 1 + at % 3))
        .collect();
    check(&db, &rows, &conditions).await;
    check_where(&db, &rows, &conditions[..100]).await;
}
