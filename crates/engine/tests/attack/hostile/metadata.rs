//! Lies of metadata: JSON with numbers, names and shapes that nobody wrote.

use halocline_workloads::SplitMix64;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::damage::Owner;
use crate::image::{BLOCK, set_word, word};

use super::{Draft, number, seal};

pub(super) fn lie(draft: &mut Draft<'_>, rng: &mut SplitMix64) {
    let image = draft.image;
    let stored = [image.of_kind("table/"), image.of_kind("index/")].concat();
    let object = stored[rng.below(stored.len() as u64) as usize];
    draft.owners.insert(Owner::Object(object.name.clone()));
    let honest = &image.bytes[object.meta.clone()];
    let meta = match rng.below(12) {
        0 => honest[..rng.below(honest.len() as u64) as usize].to_vec(),
        1 => "[".repeat(1 << rng.below(20)).into_bytes(),
        2 => {
            let mut text = honest.to_vec();
            text[rng.below(honest.len() as u64) as usize] = rng.next_u64() as u8;
            text
        }
        _ => {
            let mut value: Value = serde_json::from_slice(honest).unwrap();
            for _ in 0..=rng.below(3) {
                let mut places = count(&value);
                places = rng.below(places) + 1;
                change(&mut value, &mut places, rng);
            }
            serde_json::to_vec(&value).unwrap()
        }
    };
    draft.story = format!(
        "metadata of {}: {}",
        object.name,
        String::from_utf8_lossy(&meta[..meta.len().min(400)])
    );
    replace(draft, object.entry, &meta);
}

/// Values within a value.
fn count(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the value that is the `left`-th one.
fn change(value: &mut Value, left: &mut u64, rng: &mut SplitMix64) {
    *left -= 1;
    if *left == 0 {
        *value = lie_for(value, rng);
        return;
    }
    let inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => return,
    };
    for item in inner {
        if *left > 0 {
            change(item, left, rng);
        }
    }
}

fn lie_for(value: &Value, rng: &mut SplitMix64) -> Value {
    match value {
        Value::Number(honest) => match rng.below(8) {
            0 => json!(-1),
            1 => json!(1e300),
            2 => json!("7"),
            _ => json!(number(rng, honest.as_u64().unwrap_or(0))),
        },
        Value::Array(items) => match rng.below(4) {
            0 => json!([]),
            1 => json!(items.iter().chain(items).collect::<Vec<_>>()),
            2 => json!(items.iter().skip(1).collect::<Vec<_>>()),
            _ => json!(vec![items.first(); 1 << rng.below(14)]),
        },
        Value::Object(fields) => {
            let mut fields = fields.clone();
            let name = fields
                .keys()
                .nth(rng.below(fields.len().max(1) as u64) as usize)
                .cloned();
            match (name, rng.below(3)) {
                (Some(name), 0..2) => drop(fields.remove(&name)),
                _ => drop(fields.insert("more".to_owned(), json!([[{}]]))),
            }
            json!(fields)
        }
        Value::String(_) => match rng.below(6) {
            0 => json!("decimal128(200,-300)"),
            1 => json!("i64"),
            2 => json!("utf8"),
            3 => json!(""),
            4 => json!("x".repeat(1 << rng.below(18))),
            _ => json!("\u{0}\u{202e}"),
        },
        _ => json!(null),
    }
}

/// Puts metadata after all else in the directory, which moves to the end of the file.
fn replace(draft: &mut Draft<'_>, entry: usize, meta: &[u8]) {
    let image = draft.image;
    let mut directory = image.bytes[image.directory.clone()].to_vec();
    let heap = word(&directory, 32);
    let tail = super::directory_tail(image);
    let at = directory.len() - tail;
    directory.splice(at..at, meta.iter().copied());
    let entry = entry - image.directory.start;
    set_word(&mut directory, 32, heap + meta.len() as u64);
    set_word(&mut directory, entry + 8, heap);
    directory[entry + 20..entry + 24].copy_from_slice(&(meta.len() as u32).to_le_bytes());
    let start = draft.bytes.len().next_multiple_of(BLOCK);
    draft.bytes.resize(start, 0);
    draft.bytes.extend_from_slice(&directory);
    let end = draft.bytes.len().next_multiple_of(BLOCK);
    draft.bytes.resize(end, 0);
    for (offset, value) in [
        (64, end as u64),
        (72, start as u64),
        (80, directory.len() as u64),
        (88, xxh3_64(&directory)),
    ] {
        set_word(&mut draft.bytes, image.superblock + offset, value);
    }
    seal::superblocks(&mut draft.bytes, image.superblock);
}
