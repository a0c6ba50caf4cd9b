//! Running one statement: rows printed as they come, Ctrl-C ends it, repetitions are timed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::StreamExt;
use halocline_engine::{Database, EngineError};
use halocline_terminal::CliError;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::output::{AnswerFormat, Sink, Style};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::sql::building::Building;
use crate::sql::plan::PlanSink;
use crate::sql::statements;
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
    /// The file that answers go to instead of stdout.
    pub(crate) output: Option<Arc<File>>,
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
        let mut printer = Printer::new(self, text);
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

    /// Returns where answers go.
    pub(crate) fn out(&self) -> Box<dyn Write> {
        match &self.output {
            None => Box::new(BufWriter::new(io::stdout())),
            Some(file) => Box::new(BufWriter::new(Arc::clone(file))),
        }
    }

    /// Returns how answers are printed where they go.
    fn style_of_output(&self) -> Style {
        Style {
            screen: self.style.screen.filter(|_| self.output.is_none()),
            ..self.style
        }
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
struct Printer<'a> {
    session: &'a Session,
    style: Style,
    /// The statement is `EXPLAIN`, and its plans are drawn to fit a terminal.
    draws_plans: bool,
    answer: Option<AnswerSink>,
}

/// The printer of the rows of a statement.
enum AnswerSink {
    Rows(Sink<Box<dyn Write>>),
    Plans(PlanSink),
}

impl<'a> Printer<'a> {
    fn new(session: &'a Session, text: &str) -> Self {
        let style = session.style_of_output();
        Self {
            session,
            style,
            draws_plans: style.format == AnswerFormat::Table && statements::explains(text),
            answer: None,
        }
    }

    fn print(&mut self, event: Event) -> Result<(), CliError> {
        match (event, &mut self.answer) {
            (Event::Columns(schema), answer) => {
                let out = self.session.out();
                *answer = Some(match self.style.screen {
                    Some(screen) if self.draws_plans && PlanSink::can_draw(&schema) => {
                        AnswerSink::Plans(PlanSink::new(screen.width, out))
                    }
                    _ => AnswerSink::Rows(Sink::new(self.style, schema, out)),
                });
            }
            (Event::Rows(batch), Some(AnswerSink::Rows(sink))) => sink.write(&batch)?,
            (Event::Rows(batch), Some(AnswerSink::Plans(sink))) => sink.write(&batch)?,
            (Event::Rows(_), None) => {}
            // What a program reads from stdout is rows only.
            (Event::Message(text), _) if self.style.format.is_for_people() => {
                let mut out = self.session.out();
                writeln!(out, "{text}")?;
                out.flush()?;
            }
            (Event::Message(text), _) => writeln!(io::stderr(), "{text}")?,
        }
        Ok(())
    }

    fn finish(self) -> Result<(), CliError> {
        match self.answer {
            Some(AnswerSink::Rows(sink)) => sink.finish(),
            Some(AnswerSink::Plans(sink)) => sink.finish(),
            None => Ok(()),
        }
    }
}
