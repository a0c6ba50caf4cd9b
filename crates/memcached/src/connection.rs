//! Connections: bytes in, requests to a [`Session`], replies out.
//!
//! All complete requests that have arrived are executed before their replies are sent together. A reply is
//! sent only after everything that it acknowledges is as durable as the settings say.
//!
//! No client can hold the server: handshakes end in time, and a client that does not read its replies is
//! closed after the idle timeout, and soon after the server begins to stop.
//!
//! Buffers that have grown are given back as soon as what is in them fits into less, and the rest of them
//! when the connection has waited for a moment.

use std::os::unix;
use std::sync::Arc;
use std::time::Duration;
use std::{io, net};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;

use crate::receiving::FREE;
use crate::replies::Next;
use crate::server::Shared;
use crate::session::{Served, Session};
use crate::stats::Counter;
use crate::tls;

/// Bytes that are read at once at least.
const MIN_READ_BYTES: usize = 16 << 10;
/// Time to wait after the system could not accept a connection, such as for want of file descriptors.
const BACK_OFF: Duration = Duration::from_millis(50);
/// Time for the handshake of TLS; the idle timeout if that is shorter.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time without progress after which replies are given up when the server stops.
const LAST_REPLIES: Duration = Duration::from_millis(500);
/// Time for the end of a line that is longer than those of clients.
const LONG_LINE: Duration = Duration::from_secs(1);
/// Time without requests after which buffers are given back.
const IDLE_BUFFER_TIME: Duration = Duration::from_secs(1);
/// Time and bytes that a client may go on sending after the last reply of a connection that the server ends.
const LINGER: Duration = Duration::from_secs(1);
const MAX_LINGER_BYTES: usize = 1 << 20;

/// A connection that was accepted, and does not belong to a thread yet.
pub(crate) enum Connection {
    Tcp(net::TcpStream),
    Unix(unix::net::UnixStream),
    /// A handshake is to follow.
    Tls(net::TcpStream, tls::Acceptor),
}

/// Accepts connections, as many at a time as the limit allows, until the server stops.
pub(crate) async fn accept(
    shared: Arc<Shared>,
    limit: Arc<Semaphore>,
    mut next: impl AsyncFnMut() -> io::Result<Connection>,
) {
    let mut stop = shared.stop.subscribe();
    loop {
        let connection = tokio::select! {
            connection = next() => connection,
            _ = stop.wait_for(|stops| *stops) => return,
        };
        match connection {
            Ok(connection) => match Arc::clone(&limit).try_acquire_owned() {
                Ok(permit) => {
                    let worker = shared.workers.next();
                    worker.spawn(serve(Arc::clone(&shared), connection, permit));
                }
                Err(_) => {
                    shared.items.counters.rejected_connections.add(1);
                    tokio::spawn(reject(connection));
                }
            },
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                let counters = &shared.items.counters;
                counters.listen_disabled_num.add(1);
                counters
                    .time_in_listen_disabled_us
                    .add(BACK_OFF.as_micros() as u64);
                sleep(BACK_OFF).await;
            }
        }
    }
}

/// Tells the client of a connection that there are too many.
async fn reject(connection: Connection) {
    const REPLY: &[u8] = b"ERROR Too many open connections\r\n";
    let written = async {
        match connection {
            Connection::Tcp(stream) => TcpStream::from_std(stream)?.write_all(REPLY).await,
            Connection::Unix(stream) => UnixStream::from_std(stream)?.write_all(REPLY).await,
            // Without a handshake there is nothing that it would understand.
            Connection::Tls(..) => Ok(()),
        }
    };
    // The client may be gone already.
    let _: io::Result<()> = written.await;
}

/// Serves a connection to its end.
async fn serve(shared: Arc<Shared>, connection: Connection, _permit: OwnedSemaphorePermit) {
    let _open = OpenConnection::new(&shared.connections);
    shared.total_connections.add(1);
    let served = async {
        match connection {
            Connection::Tcp(stream) => requests(&shared, TcpStream::from_std(stream)?).await,
            Connection::Unix(stream) => requests(&shared, UnixStream::from_std(stream)?).await,
            Connection::Tls(stream, acceptor) => {
                let stream = handshake(&shared, TcpStream::from_std(stream)?, &acceptor).await?;
                requests(&shared, stream).await
            }
        }
    };
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection has ended");
    }
}

/// Counts a connection as open, also if serving it ends in a panic.
struct OpenConnection<'a>(&'a Counter);

impl<'a> OpenConnection<'a> {
    fn new(count: &'a Counter) -> OpenConnection<'a> {
        count.add(1);
        OpenConnection(count)
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.sub(1);
    }
}

/// Performs the handshake of TLS, unless the client takes too long or the server stops.
async fn handshake(
    shared: &Shared,
    stream: TcpStream,
    acceptor: &tls::Acceptor,
) -> io::Result<TlsStream<TcpStream>> {
    let idle = shared.settings.idle_timeout;
    let longest = if idle.is_zero() {
        HANDSHAKE
    } else {
        idle.min(HANDSHAKE)
    };
    let mut stop = shared.stop.subscribe();
    tokio::select! {
        accepted = within(longest, acceptor.accept(stream)) => accepted,
        _ = stop.wait_for(|stops| *stops) => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Fails an operation that takes longer than a time, unless that is zero.
async fn within<T>(longest: Duration, operation: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    if longest.is_zero() {
        operation.await
    } else {
        timeout(longest, operation)
            .await
            .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Performs a write to a client, unless it does not read within the idle timeout, or soon after the server
/// stops.
async fn write<T>(
    shared: &Shared,
    stop: &mut watch::Receiver<bool>,
    write: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let given_up = async {
        // The sender lives as long as `shared`.
        let _ = stop.wait_for(|stops| *stops).await;
        sleep(LAST_REPLIES).await;
    };
    tokio::select! {
        biased;
        written = within(shared.settings.idle_timeout, write) => written,
        () = given_up => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Ends a connection after its last reply. Closing a socket with bytes that nobody has read resets the
/// connection, and the client may lose the reply: so what it still sends is read, for a while.
async fn end(
    shared: &Shared,
    stop: &mut watch::Receiver<bool>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    write(shared, stop, stream.shutdown()).await?;
    let rest = async {
        let (mut buffer, mut read) = ([0; 4096], 0);
        while read < MAX_LINGER_BYTES {
            match stream.read(&mut buffer).await {
                Ok(bytes) if bytes > 0 => read += bytes,
                // It has ended the connection, too.
                _ => return,
            }
        }
    };
    tokio::select! {
        _ = timeout(LINGER, rest) => {}
        _ = stop.wait_for(|stops| *stops) => {}
    }
    Ok(())
}

/// Gives memory of a buffer back if what it holds, or is to hold, fits into less.
fn shrink(buffer: &mut Vec<u8>, most: usize) {
    if buffer.capacity() > most {
        buffer.shrink_to(most);
    }
}

async fn requests(shared: &Arc<Shared>, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut session = Session::new(Arc::clone(shared));
    let mut stop = shared.stop.subscribe();
    let mut received = Vec::with_capacity(MIN_READ_BYTES);
    let mut replies = Vec::new();
    loop {
        let Served {
            consumed,
            next,
            needs,
            is_impatient,
        } = if shared.blocks {
            tokio::task::block_in_place(|| session.serve(&received, &mut replies))
        } else {
            session.serve(&received, &mut replies)
        };
        received.drain(..consumed);
        shrink(&mut received, needs.unwrap_or(0).max(FREE));
        if !replies.is_empty() {
            let mut written = 0;
            while written < replies.len() {
                match write(shared, &mut stop, stream.write(&replies[written..])).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    bytes => written += bytes,
                }
            }
            write(shared, &mut stop, stream.flush()).await?;
            shared.items.counters.bytes_written.add(replies.len() as u64);
            replies.clear();
            shrink(&mut replies, FREE);
        }
        match next {
            Next::Continue => {}
            Next::Quit => return end(shared, &mut stop, stream).await,
            Next::Shutdown => {
                shared.stop.send_replace(true);
                return end(shared, &mut stop, stream).await;
            }
        }
        let Some(needs) = needs else {
            shared.items.counters.conn_yields.add(1);
            tokio::task::yield_now().await;
            continue;
        };
        received.reserve_exact(needs.saturating_sub(received.len()).max(MIN_READ_BYTES));
        let read = tokio::select! {
            read = receive(shared, is_impatient, &mut stream, &mut received, &mut replies) => read,
            _ = stop.wait_for(|stops| *stops) => return Ok(()),
        };
        match read {
            // The replies to what has arrived were sent. A client that has ended its side alone gets an end.
            Ok(0) => return write(shared, &mut stop, stream.shutdown()).await,
            Ok(bytes) => shared.items.counters.bytes_read.add(bytes as u64),
            // As in memcached, such a line is no request that would be answered.
            Err(error) if error.kind() == io::ErrorKind::TimedOut && is_impatient => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                shared.items.counters.idle_kicks.add(1);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Reads what has arrived, unless the client takes too long. If nothing is there for a while, the buffers are
/// given back as far as they are not needed.
async fn receive(
    shared: &Shared,
    is_impatient: bool,
    stream: &mut (impl AsyncRead + Unpin),
    received: &mut Vec<u8>,
    replies: &mut Vec<u8>,
) -> io::Result<usize> {
    let idle = shared.settings.idle_timeout;
    if is_impatient {
        let longest = if idle.is_zero() {
            LONG_LINE
        } else {
            idle.min(LONG_LINE)
        };
        return within(longest, stream.read_buf(received)).await;
    }
    let is_large =
        received.is_empty() && (received.capacity() > MIN_READ_BYTES || replies.capacity() > MIN_READ_BYTES);
    if is_large && (idle.is_zero() || idle > IDLE_BUFFER_TIME) {
        if let Ok(read) = timeout(IDLE_BUFFER_TIME, stream.read_buf(received)).await {
            return read;
        }
        shrink(received, MIN_READ_BYTES);
        shrink(replies, MIN_READ_BYTES);
        return within(idle.saturating_sub(IDLE_BUFFER_TIME), stream.read_buf(received)).await;
    }
    within(idle, stream.read_buf(received)).await
}
