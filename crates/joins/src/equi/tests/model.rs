//! Random inputs, and the joined rows by nested loops over their values.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int16Type, Int64Type};
use arrow_array::*;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, SchemaRef};
use rand::Rng;
use rand::rngs::StdRng;

use crate::JoinResult;
use crate::equi::*;

/// Types of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyType {
    Int64,
    Int32,
    Boolean,
    Decimal,
    WideDecimal,
    Utf8,
    /// Of different types on both sides.
    Views,
    Dictionary,
    TwoInt32,
    TwoInt64,
    FiveInt64,
    TextAndInt,
    List,
}

impl KeyType {
    pub(super) const ALL: [KeyType; 13] = [
        KeyType::Int64,
        KeyType::Int32,
        KeyType::Boolean,
        KeyType::Decimal,
        KeyType::WideDecimal,
        KeyType::Utf8,
        KeyType::Views,
        KeyType::Dictionary,
        KeyType::TwoInt32,
        KeyType::TwoInt64,
        KeyType::FiveInt64,
        KeyType::TextAndInt,
        KeyType::List,
    ];

    /// Returns the key columns of these values, of which NULL is that of all columns.
    fn arrays(self, keys: &[Option<i64>], is_build: bool) -> Vec<ArrayRef> {
        let int64 = || Arc::new(Int64Array::from(keys.to_vec())) as ArrayRef;
        let constant = || Arc::new(Int64Array::from(vec![7; keys.len()])) as ArrayRef;
        let narrow = || keys.iter().map(|key| key.map(|key| key as i32));
        let int32 = || Arc::new(narrow().collect::<Int32Array>()) as ArrayRef;
        let text = |key: i64| match key % 3 {
            0 => format!("{key}"),
            1 => format!("key number {key} with more than twelve bytes"),
            _ => "x".repeat(key as usize % 40),
        };
        let texts = || keys.iter().map(|key| key.map(text));
        let decimals = |precision| {
            let values = keys.iter().map(|key| key.map(|key| i128::from(key) * 101 - 50));
            let array = values.collect::<Decimal128Array>();
            Arc::new(array.with_precision_and_scale(precision, 2).unwrap()) as ArrayRef
        };
        match self {
            KeyType::Int64 => vec![int64()],
            KeyType::Int32 => vec![int32()],
            KeyType::Boolean => {
                let bits = keys.iter().map(|key| key.map(|key| key % 2 == 1));
                vec![Arc::new(bits.collect::<BooleanArray>())]
            }
            KeyType::Decimal => vec![decimals(if is_build { 12 } else { 18 })],
            KeyType::WideDecimal => vec![decimals(if is_build { 12 } else { 30 })],
            KeyType::Utf8 => vec![Arc::new(texts().collect::<StringArray>())],
            KeyType::Views if is_build => vec![Arc::new(texts().collect::<StringViewArray>())],
            KeyType::Views => vec![Arc::new(texts().collect::<LargeStringArray>())],
            KeyType::Dictionary if is_build => {
                let texts: Vec<_> = texts().collect();
                let array: DictionaryArray<Int16Type> = texts.iter().map(|text| text.as_deref()).collect();
                vec![Arc::new(array)]
            }
            KeyType::Dictionary => vec![Arc::new(texts().collect::<StringArray>())],
            KeyType::TwoInt32 => {
                let other = narrow().map(|key| Some(key? / 3));
                vec![int32(), Arc::new(other.collect::<Int32Array>())]
            }
            KeyType::TwoInt64 => vec![constant(), int64()],
            KeyType::FiveInt64 => vec![constant(), int64(), constant(), constant(), constant()],
            KeyType::TextAndInt => vec![Arc::new(texts().collect::<StringArray>()), int32()],
            KeyType::List => {
                let lists = keys.iter().map(|key| Some(vec![Some(1), Some((*key)?)]));
                vec![Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))]
            }
        }
    }

    /// Returns the number that the values of a key are equal by.
    fn identity(self, key: i64) -> i64 {
        match self {
            KeyType::Boolean => key % 2,
            KeyType::Utf8 | KeyType::Views | KeyType::Dictionary if key % 3 == 2 => -1 - key % 40,
            _ => key,
        }
    }

    pub(super) fn columns(self) -> Vec<usize> {
        let columns = match self {
            KeyType::TwoInt32 | KeyType::TwoInt64 | KeyType::TextAndInt => 2,
            KeyType::FiveInt64 => 5,
            _ => 1,
        };
        // After the payload.
        (PAYLOAD..PAYLOAD + columns).collect()
    }
}

/// Number of payload columns: number of the row, text, small number, flag, wide decimal.
pub(super) const PAYLOAD: usize = 5;

/// One side.
#[derive(Debug, Clone)]
pub(super) struct RandomInput {
    pub(super) keys: Vec<Option<i64>>,
    pub(super) batches: Vec<RecordBatch>,
    schema: SchemaRef,
}

impl RandomInput {
    /// Creates rows of these keys, in batches of random lengths.
    pub(super) fn new(
        key_type: KeyType,
        keys: Vec<Option<i64>>,
        is_build: bool,
        random: &mut StdRng,
    ) -> RandomInput {
        let whole = Self::batch(key_type, &keys, 0, is_build);
        let (mut batches, mut start) = (Vec::new(), 0);
        while start < keys.len() {
            let len = random
                .random_range(1..=keys.len() / 3 + 1)
                .min(keys.len() - start);
            batches.push(if random.random() {
                whole.slice(start, len)
            } else {
                Self::batch(key_type, &keys[start..start + len], start as i64, is_build)
            });
            start += len;
        }
        RandomInput {
            schema: whole.schema(),
            keys,
            batches,
        }
    }

    fn batch(key_type: KeyType, keys: &[Option<i64>], first: i64, is_build: bool) -> RecordBatch {
        let ids = || first..first + keys.len() as i64;
        let flags = ids().map(|id| (id % 4 != 0).then_some(id % 3 == 0));
        let decimals = ids().map(|id| (id % 6 != 0).then(|| i128::from(id) << 70));
        let decimals = decimals.collect::<PrimitiveArray<Decimal128Type>>();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(ids().collect::<Int64Array>()),
            Arc::new(ids().map(text_of).collect::<StringArray>()),
            Arc::new(
                ids()
                    .map(|id| (id % 5 != 0).then_some(id as i16))
                    .collect::<Int16Array>(),
            ),
            Arc::new(flags.collect::<BooleanArray>()),
            Arc::new(decimals.with_precision_and_scale(38, 0).unwrap()),
        ];
        columns.extend(key_type.arrays(keys, is_build));
        let named = columns
            .into_iter()
            .enumerate()
            .map(|(number, column)| (format!("c{number}"), column, true));
        RecordBatch::try_from_iter_with_nullable(named).unwrap()
    }

    pub(super) fn source(&self) -> BatchSource {
        BatchSource::new(self.schema.clone(), self.batches.clone())
    }
}

fn text_of(id: i64) -> Option<String> {
    (id % 7 != 0).then(|| "ab".repeat(id as usize % 9) + &id.to_string())
}

/// Returns the payload of a row as text.
fn row_of(id: Option<usize>) -> String {
    let Some(id) = id.map(|id| id as i64) else {
        return "- - - - - ".to_owned();
    };
    let show = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    format!(
        "{id} {} {} {} {} ",
        show(text_of(id)),
        show((id % 5 != 0).then(|| (id as i16).to_string())),
        show((id % 4 != 0).then(|| (id % 3 == 0).to_string())),
        show((id % 6 != 0).then(|| (i128::from(id) << 70).to_string())),
    )
}

/// Evaluates the condition of the tests' residual; returns `None` for NULL.
fn residual_of(build: i64, probe: i64) -> Option<bool> {
    ((build + probe) % 5 != 0).then_some((build * 3 + probe) % 4 != 1)
}

/// Returns a residual that reads the first columns of both sides.
pub(super) fn residual() -> Residual {
    Residual {
        build_columns: vec![0],
        probe_columns: vec![0],
        filter: Arc::new(|batch| {
            let (build, probe) = (batch.column(0), batch.column(1));
            let pairs = build
                .as_primitive::<Int64Type>()
                .iter()
                .zip(probe.as_primitive::<Int64Type>());
            Ok(pairs.map(|(build, probe)| residual_of(build?, probe?)).collect())
        }),
    }
}

/// Returns the join of a kind, of all payload columns.
pub(super) fn join(kind: JoinKind, key_type: KeyType) -> EquiJoin {
    let payload = || (0..PAYLOAD).collect();
    EquiJoin::new(kind, key_type.columns(), key_type.columns()).with_output(payload(), payload())
}

/// Returns the joined rows, sorted.
pub(super) fn expected(
    join: &EquiJoin,
    key_type: KeyType,
    build: &RandomInput,
    probe: &RandomInput,
) -> Vec<String> {
    let identity = |key: &Option<i64>| key.map(|key| key_type.identity(key));
    let build_keys: Vec<_> = build.keys.iter().map(identity).collect();
    let probe_keys: Vec<_> = probe.keys.iter().map(identity).collect();
    let mut rows = Vec::new();
    let mut has_partner = [vec![false; build_keys.len()], vec![false; probe_keys.len()]];
    for (build, build_key) in build_keys.iter().enumerate() {
        for (probe, probe_key) in probe_keys.iter().enumerate() {
            let holds = || residual_of(build as i64, probe as i64) == Some(true);
            if (build_key.is_some() || join.null_equals_null)
                && build_key == probe_key
                && (join.residual.is_none() || holds())
            {
                has_partner[0][build] = true;
                has_partner[1][probe] = true;
                if join.kind.returns_pairs() {
                    rows.push(row_of(Some(build)) + &row_of(Some(probe)));
                }
            }
        }
    }
    let has_partner = &has_partner;
    let lone = |side: usize| {
        let (own, others) = [(&build_keys, &probe_keys), (&probe_keys, &build_keys)][side];
        let has_partner = &has_partner[side];
        (0..own.len()).filter(move |row| {
            let passes = !join.null_aware
                || others.is_empty()
                || own[*row].is_some() && others.iter().all(Option::is_some);
            !has_partner[*row] && passes
        })
    };
    let matched = |side: usize| (0..has_partner[side].len()).filter(move |row| has_partner[side][*row]);
    let one = |row: usize| row_of(Some(row));
    let marks = |side: usize| {
        let marks = has_partner[side].iter().enumerate();
        marks.map(|(row, mark)| row_of(Some(row)) + &format!("{mark} "))
    };
    match join.kind {
        JoinKind::Inner => {}
        JoinKind::ProbeOuter => rows.extend(lone(1).map(|row| row_of(None) + &one(row))),
        JoinKind::BuildOuter => rows.extend(lone(0).map(|row| one(row) + &row_of(None))),
        JoinKind::FullOuter => {
            rows.extend(lone(1).map(|row| row_of(None) + &one(row)));
            rows.extend(lone(0).map(|row| one(row) + &row_of(None)));
        }
        JoinKind::ProbeSemi => rows.extend(matched(1).map(one)),
        JoinKind::BuildSemi => rows.extend(matched(0).map(one)),
        JoinKind::ProbeAnti => rows.extend(lone(1).map(one)),
        JoinKind::BuildAnti => rows.extend(lone(0).map(one)),
        JoinKind::ProbeMark => rows.extend(marks(1)),
        JoinKind::BuildMark => rows.extend(marks(0)),
    }
    rows.sort_unstable();
    rows
}

/// Joins with a memory limit and a spill space.
pub(super) fn run_with(
    join: &EquiJoin,
    algorithm: Algorithm,
    (build, probe): (&dyn JoinSource, &dyn JoinSource),
    (budget, spill): (&Arc<JoinBudget>, &dyn SpillSpace),
) -> JoinResult<Vec<String>> {
    let cancelled = AtomicBool::new(false);
    let context = JoinContext {
        threads: NonZeroUsize::new(3).unwrap(),
        budget: budget.clone(),
        spill,
        writers: NonZeroUsize::new(2).unwrap(),
        cancelled: &cancelled,
    };
    let schema = join.schema(&build.schema(), &probe.schema())?;
    let rows = Mutex::new(Vec::new());
    let result = join.run(algorithm, build, probe, &context, &|batch| {
        assert!(batch.num_rows() > 0 && batch.num_rows() <= OUTPUT_ROWS);
        assert_eq!(batch.schema(), schema);
        rows.lock().unwrap().extend(texts(&batch));
        Ok(())
    });
    assert_eq!(budget.used(), 0, "memory is given back");
    result?;
    let mut rows = rows.into_inner().unwrap();
    rows.sort_unstable();
    Ok(rows)
}

/// Returns the rows of a batch as text.
pub(super) fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("-");
    let columns = batch.columns().iter();
    let formatters: Vec<_> = columns
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    let row = |row| {
        formatters
            .iter()
            .map(|column| format!("{} ", column.value(row)))
            .collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Returns `rows` keys below `keys`, of which some are NULL.
pub(super) fn random_keys(random: &mut StdRng, rows: usize, keys: i64, nulls: f64) -> Vec<Option<i64>> {
    let key = |_| (!random.random_bool(nulls)).then(|| random.random_range(0..keys));
    (0..rows).map(key).collect()
}

/// Returns the type of a column of a schema.
pub(super) fn type_of(schema: &SchemaRef, column: usize) -> &DataType {
    schema.field(column).data_type()
}
