//! [`Server`]: listens, serves connections, and does what is due in the background.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, fs, io};

use halocline_store::Clock;
use rustix::fs::{Mode, fchmod};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};

use crate::auth::Users;
use crate::background;
use crate::connection::{self, Connection};
use crate::error::{MemcachedError, Result};
use crate::eviction::{Evictor, items_within};
use crate::items::{HotItems, Items, system_clock};
use crate::receiving::ReceiveMemory;
use crate::settings::ServerSettings;
use crate::stats::Counter;
use crate::storage::{self, ItemStorage};
use crate::tls;
use crate::workers::Workers;

/// Time that connections have to finish when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Connections that the system keeps for a socket until they are accepted.
pub(crate) const BACKLOG: u32 = 1024;

/// State that all connections share.
pub(crate) struct Shared {
    pub(crate) items: Items,
    pub(crate) settings: ServerSettings,
    pub(crate) users: Option<Users>,
    pub(crate) started: Instant,
    pub(crate) connections: Counter,
    pub(crate) total_connections: Counter,
    /// Memory for requests that have begun to arrive.
    pub(crate) receiving: ReceiveMemory,
    /// Commands wait for the medium: other connections need threads of their own meanwhile.
    pub(crate) blocks: bool,
    pub(crate) workers: Workers,
    /// Becomes true when the server stops.
    pub(crate) stop: watch::Sender<bool>,
    /// Wakes the background work after a flush.
    pub(crate) flushed: tokio::sync::Notify,
}

impl Shared {
    pub(crate) fn new(
        items: Items,
        settings: ServerSettings,
        users: Option<Users>,
        workers: Workers,
        blocks: bool,
    ) -> Shared {
        Shared {
            items,
            blocks,
            workers,
            users,
            started: Instant::now(),
            connections: Counter::default(),
            receiving: ReceiveMemory::new(settings.receive_memory),
            total_connections: Counter::default(),
            stop: watch::Sender::new(false),
            flushed: tokio::sync::Notify::new(),
            settings,
        }
    }

    /// Removes all items at a time.
    pub(crate) fn flush(&self, delay: i64) -> Result<()> {
        self.items.flush(delay)?;
        self.flushed.notify_one();
        Ok(())
    }
}

/// A memcached server over a pool.
///
/// ```
/// use halocline_memcached::{Server, ServerSettings};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let mut settings = ServerSettings::new(directory.path().join("cache.pool"));
/// settings.listen = vec!["127.0.0.1:0".parse()?];
/// let server = Server::start(settings)?;
/// println!("listening on {}", server.addresses()[0]);
/// server.stop();
/// server.wait()?;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    runtime: Runtime,
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// Stops a server from another thread or a signal handler.
#[derive(Debug, Clone)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Lets connections finish the requests that have arrived, and ends the server.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Opens or creates the pool and begins to listen.
    ///
    /// # Errors
    /// The pool cannot be opened, an address not listened on, or a file of users or keys not be read.
    pub fn start(settings: ServerSettings) -> Result<Server> {
        Server::start_with_clock(settings, Arc::new(system_clock))
    }

    /// Starts with a clock, in milliseconds since 1970, by which items expire.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_clock(settings: ServerSettings, clock: Clock) -> Result<Server> {
        let storage = storage::open(&settings, Arc::clone(&clock))?;
        Server::begin(settings, storage, clock)
    }

    /// Starts with a storage of the program. The pool of the settings and its options have no meaning.
    ///
    /// # Errors
    /// The storage failed, an address cannot be listened on, or a file of users or keys not be read.
    pub fn with_storage(settings: ServerSettings, storage: Arc<dyn ItemStorage>) -> Result<Server> {
        Server::begin(settings, storage, Arc::new(system_clock))
    }

    /// Begins to listen.
    fn begin(settings: ServerSettings, storage: Arc<dyn ItemStorage>, clock: Clock) -> Result<Server> {
        let users = settings.auth_file.as_deref().map(Users::read).transpose()?;
        let acceptor = settings.tls.as_ref().map(tls::acceptor).transpose()?;
        let bounded = settings.memory_limit.filter(|_| settings.evicts);
        let evictor = bounded.map(|bytes| Evictor::new(settings.eviction, bytes));
        let limit = settings
            .memory_limit
            .filter(|_| !settings.evicts)
            .map(items_within);
        let hot = (settings.hot_items > 0).then(|| HotItems::new(settings.hot_items));
        let hot = hot.transpose()?.map(|hot| {
            if settings.hot_items_always {
                hot.always_on()
            } else {
                hot
            }
        });
        let blocks = storage.waits();
        let runtime = Builder::new_multi_thread()
            .worker_threads(if blocks { settings.threads.max(1) } else { 1 })
            .thread_name("memcached")
            .enable_all()
            .build();
        let io = |what| move |source| MemcachedError::Io { what, source };
        let failed = io("threads could not be started");
        let runtime = runtime.map_err(failed)?;
        let workers = if blocks {
            Workers::shared(runtime.handle())
        } else {
            Workers::start(settings.threads).map_err(failed)?
        };
        let items = Items::open(storage, clock, evictor, limit, hot)?;
        let shared = Arc::new(Shared::new(items, settings, users, workers, blocks));
        let addresses = runtime.block_on(listen(&shared, acceptor))?;
        background::start(&runtime, &shared);
        Ok(Server {
            runtime,
            shared,
            addresses,
        })
    }

    /// Returns the addresses that are listened on, with the ports that the system has chosen.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Begins to stop.
    pub fn stop(&self) {
        self.stopper().stop();
    }

    /// Returns what stops this server.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.shared.stop.clone())
    }

    /// Waits until the server has stopped, and closes the pool.
    ///
    /// # Errors
    /// The pool cannot be closed.
    pub fn wait(self) -> Result<()> {
        let mut stop = self.shared.stop.subscribe();
        self.runtime.block_on(async {
            // The sender lives as long as `shared`.
            let _ = stop.wait_for(|stops| *stops).await;
            let deadline = Instant::now() + GRACE;
            while self.shared.connections.get() > 0 && Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        self.shared.workers.end();
        self.runtime.shutdown_timeout(GRACE);
        if let Some(path) = &self.shared.settings.socket {
            // A socket that is gone already needs no removal.
            let _ = std::fs::remove_file(path);
        }
        self.shared.items.storage.close()
    }
}

/// Listens on a Unix socket with these permissions.
fn bind(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    // The file gets no more permissions than the socket has, so that nobody else has a moment to connect.
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    socket.bind(path)?;
    // The umask of the process may have taken some away.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)
}

/// Listens on an address.
fn bind_address(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of a former server that wait for their end do not hold the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn listen(shared: &Arc<Shared>, acceptor: Option<tls::Acceptor>) -> Result<Vec<SocketAddr>> {
    let connections = shared.settings.max_connections.min(Semaphore::MAX_PERMITS);
    let limit = Arc::new(Semaphore::new(connections));
    let mut addresses = Vec::new();
    if let Some(path) = &shared.settings.socket {
        let failed = |source| MemcachedError::Listen {
            at: path.display().to_string(),
            source,
        };
        if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
            // A server that was killed has left it.
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = bind(path, shared.settings.socket_mode).map_err(failed)?;
        let (shared, limit) = (Arc::clone(shared), Arc::clone(&limit));
        tokio::spawn(connection::accept(shared, limit, async move || {
            let (stream, _) = listener.accept().await?;
            stream.into_std().map(Connection::Unix)
        }));
        return Ok(addresses);
    }
    for address in &shared.settings.listen {
        let failed = |source| MemcachedError::Listen {
            at: address.to_string(),
            source,
        };
        let listener = bind_address(*address).map_err(failed)?;
        addresses.push(listener.local_addr().map_err(failed)?);
        let (shared, limit, acceptor) = (Arc::clone(shared), Arc::clone(&limit), acceptor.clone());
        tokio::spawn(connection::accept(shared, limit, async move || {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let stream = stream.into_std()?;
            Ok(match &acceptor {
                None => Connection::Tcp(stream),
                Some(acceptor) => Connection::Tls(stream, acceptor.clone()),
            })
        }));
    }
    Ok(addresses)
}
