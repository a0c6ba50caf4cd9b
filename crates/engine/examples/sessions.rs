//! Answers one query in several sessions of a process at once, with the default settings, each to a CSV file.
//!
//! ```text
//! cargo run --release -p halocline-engine --example sessions -- POOL QUERY FILE...
//! ```
//! As many sessions as there are files. `cargo xtask budget --sessions 4` measures their memory.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};

use datafusion::arrow::csv::Writer;
use futures::StreamExt;
use halocline_engine::{Database, DatabaseOptions};

async fn answer(session: Database, query: String, file: PathBuf) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut answer = session.sql(&query).await?.stream();
    let mut file = Writer::new(File::create(file)?);
    while let Some(batch) = answer.next().await {
        file.write(&batch?)?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(pool), Some(query)) = (arguments.next(), arguments.next()) else {
        return Err("usage: sessions POOL QUERY FILE...".into());
    };
    let options = DatabaseOptions::default().with_read_only(true);
    let database = Database::open(Path::new(&pool), &options)?;
    let answers: Vec<_> = arguments
        .map(|file| tokio::spawn(answer(database.session(), query.clone(), file.into())))
        .collect();
    for answer in answers {
        answer.await??;
    }
    Ok(())
}
