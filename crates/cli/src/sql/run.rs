//! Running one statement: rows printed as they come, Ctrl-C ends it, repetitions are timed.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::StreamExt;
use halocline_engine::{Database, EngineError};
use halocline_terminal::CliError;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::output::{Sink, Style};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::args::OutputFormat;
use crate::sql::building::Building;
use crate::sql::timer::{Timer, Took};

/// How long an interrupted query may take to stop before the prompt returns without it.
const PATIENCE: Duration = Duration::from_millis(200);
/// Batches that may wait between the query and the printer.
const MAX_WAITING_BATCHES: usize = 4;

/// State that the statements of one `sql` command share.
pub(crate) struct Session {
    pub(crate) database: Database,
    pub(crate) style: Style,
    pub(crate) timing: bool,
    pub(crate) repeat: u32,
}

/// The outcome of a running statement.
enum Event {
    /// Rows with these columns will follow.
    Columns(SchemaRef),
    Rows(RecordBatch),
    /// It gave no rows, but this message.
    Message(String),
}

impl Session {
    /// Runs a statement `repeat` times, prints the first answer, and the times if wanted.
    pub(crate) async fn run(&self, text: &str) -> Result<(), CliError> {
        for run in 0..self.repeat {
            let took = self.run_once(text, run == 0).await?;
            if self.timing {
                writeln!(io::stderr(), "time_ms {:.3}", took.time.as_secs_f64() * 1e3)?;
                if let Some(device) = took.device {
                    writeln!(io::stderr(), "device_ms {:.3}", device.as_secs_f64() * 1e3)?;
                }
            }
        }
        Ok(())
    }

    /// Runs a statement once. When times are wanted the rows are printed after the last one, so that
    /// printing does not count.
    async fn run_once(&self, text: &str, print: bool) -> Result<Took, CliError> {
        let guard = Guard::new();
        let (sender, mut receiver) = mpsc::channel(MAX_WAITING_BATCHES);
        let query = tokio::spawn(produce(self.database.clone(), text.to_owned(), sender));
        let mut printer = Printer::new(self.style);
        let mut kept = Vec::new();
        let mut building = Building::new(&self.database);
        loop {
            let event = tokio::select! {
                event = receiver.recv() => event,
                () = building.watch() => continue,
                () = guard.wait() => {
                    query.abort();
                    // Wait for what stops soon, so that the next statement finds the pool at rest. An
                    // operator that is in the middle of a large batch is left behind: it ends when it next
                    // gives way, unseen.
                    let _ = timeout(PATIENCE, query).await;
                    return Err(CliError::Interrupted);
                }
            };
            building.clear();
            match event {
                None => break,
                Some(_) if !print => {}
                Some(event) if self.timing => kept.push(event),
                Some(event) => printer.print(event)?,
            }
        }
        let took = query
            .await
            .map_err(|error| CliError::failed(format!("the query died: {error}")))??;
        for event in kept {
            printer.print(event)?;
        }
        printer.finish()?;
        guard.end()?;
        Ok(took)
    }
}

/// Runs the statement to its end, and says how long that took.
async fn produce(database: Database, text: String, events: mpsc::Sender<Event>) -> Result<Took, EngineError> {
    let timer = Timer::start(&database);
    let result = database.sql(&text).await?;
    // The receiver is gone only when nobody wants the answer any more.
    if let Some(message) = result.message() {
        let _ = events.send(Event::Message(message.to_owned())).await;
        return Ok(timer.stop());
    }
    let _ = events.send(Event::Columns(result.schema())).await;
    let mut rows = result.stream();
    while let Some(batch) = rows.next().await {
        if events.send(Event::Rows(batch?)).await.is_err() {
            break;
        }
    }
    Ok(timer.stop())
}

/// Prints the events of one statement.
struct Printer {
    style: Style,
    sink: Option<Sink<BufWriter<io::Stdout>>>,
}

impl Printer {
    fn new(style: Style) -> Self {
        Self { style, sink: None }
    }

    fn print(&mut self, event: Event) -> Result<(), CliError> {
        match (event, &mut self.sink) {
            (Event::Columns(schema), sink) => {
                *sink = Some(Sink::new(self.style, schema, BufWriter::new(io::stdout())));
            }
            (Event::Rows(batch), Some(sink)) => sink.write(&batch)?,
            (Event::Rows(_), None) => {}
            // What a program reads from stdout is rows only.
            (Event::Message(text), _) if self.style.format == OutputFormat::Table => {
                writeln!(io::stdout(), "{text}")?;
            }
            (Event::Message(text), _) => writeln!(io::stderr(), "{text}")?,
        }
        Ok(())
    }

    fn finish(self) -> Result<(), CliError> {
        self.sink.map_or(Ok(()), Sink::finish)
    }
}
