//! A server over a storage of the program: maps in DRAM.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use halocline_memcached::{
    ItemChange, ItemGeneration, ItemStorage, ItemStorageStats, MemcachedError, ScannedItem, Server,
    ServerSettings, StorageNumber, StoredItem,
};

use crate::support::Client;

type Result<T> = std::result::Result<T, MemcachedError>;

#[derive(Default)]
struct MemoryStorage {
    current: Mutex<Arc<MemoryGeneration>>,
    numbers: Mutex<HashMap<StorageNumber, u64>>,
    closed: AtomicU64,
    is_divisible: bool,
}

/// Items, of which one with the key `broken` cannot be read, and values that end with `!` cannot be stored.
#[derive(Default)]
struct MemoryGeneration(RwLock<BTreeMap<Vec<u8>, StoredItem>>);

fn broken() -> MemcachedError {
    MemcachedError::Storage("the map is broken".into())
}

impl ItemStorage for MemoryStorage {
    fn current(&self) -> Result<Arc<dyn ItemGeneration>> {
        let current: Arc<MemoryGeneration> = Arc::clone(&self.current.lock().unwrap());
        Ok(current)
    }

    fn flush(&self) -> Result<Arc<dyn ItemGeneration>> {
        *self.current.lock().unwrap() = Arc::default();
        self.numbers.lock().unwrap().remove(&StorageNumber::FlushAt);
        self.current()
    }

    fn reclaim(&self) -> Result<bool> {
        Ok(false)
    }

    fn number(&self, number: StorageNumber) -> Result<Option<u64>> {
        Ok(self.numbers.lock().unwrap().get(&number).copied())
    }

    fn set_number(&self, number: StorageNumber, value: u64) -> Result<()> {
        self.numbers.lock().unwrap().insert(number, value);
        Ok(())
    }

    fn is_atomic(&self) -> bool {
        !self.is_divisible
    }

    fn waits(&self) -> bool {
        false
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        self.closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn name(&self) -> String {
        "maps".to_owned()
    }

    fn stats(&self) -> ItemStorageStats {
        ItemStorageStats::default()
    }
}

impl ItemGeneration for MemoryGeneration {
    fn get(&self, key: &[u8]) -> Result<Option<StoredItem>> {
        if key == b"broken" {
            return Err(broken());
        }
        Ok(self.0.read().unwrap().get(key).cloned())
    }

    fn write(&self, changes: &[ItemChange<'_>]) -> Result<()> {
        let mut items = self.0.write().unwrap();
        let fails = |change: &ItemChange<'_>| matches!(change, ItemChange::Put { value, .. } if value.ends_with(b"!"));
        if changes.iter().any(fails) {
            return Err(broken());
        }
        for change in changes {
            match *change {
                ItemChange::Put { key, value, expires } => {
                    let value = value.to_vec();
                    items.insert(key.to_vec(), StoredItem { value, expires });
                }
                ItemChange::Delete { key } => _ = items.remove(key),
            }
        }
        Ok(())
    }

    fn scan(&self, visit: &mut dyn FnMut(ScannedItem<'_>) -> Result<bool>) -> Result<()> {
        let items = self.0.read().unwrap().clone();
        for (key, item) in &items {
            let found = ScannedItem {
                key,
                value_bytes: item.value.len(),
                expires: item.expires,
            };
            if !visit(found)? {
                break;
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.read().unwrap().len() as u64
    }

    fn bytes(&self) -> u64 {
        let items = self.0.read().unwrap();
        items
            .iter()
            .map(|(key, item)| (key.len() + item.value.len()) as u64)
            .sum()
    }
}

fn start(storage: &Arc<MemoryStorage>) -> (Server, Client<TcpStream>) {
    let mut settings = ServerSettings::new("no pool");
    settings.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings.memory_limit = Some(1 << 20);
    settings.hot_items_always = true;
    let storage: Arc<MemoryStorage> = Arc::clone(storage);
    let server = Server::with_storage(settings, storage).unwrap();
    let stream = TcpStream::connect(server.addresses()[0]).unwrap();
    (server, Client { stream })
}

#[test]
fn a_program_brings_its_own_storage() {
    let storage = Arc::new(MemoryStorage::default());
    let (server, mut client) = start(&storage);
    client.talk(
        "set a 5 0 3\r\nabc\r\nget a\r\n",
        "STORED\r\nVALUE a 5 3\r\nabc\r\nEND\r\n",
    );
    client.talk(
        "set c 0 0 1\r\nx\r\nappend d 0 0 1\r\nx\r\nset d 0 0 1\r\ny\r\nappend d 0 0 1\r\nz\r\nget c d\r\n",
        "STORED\r\nNOT_STORED\r\nSTORED\r\nSTORED\r\nVALUE c 0 1\r\nx\r\nVALUE d 0 2\r\nyz\r\nEND\r\n",
    );
    // The server knows that it has expired.
    client.talk("set b 0 -1 1\r\nx\r\nget b\r\n", "STORED\r\nEND\r\n");
    client.talk(
        "get broken\r\n",
        "SERVER_ERROR the storage of the items failed: the map is broken\r\n",
    );
    assert_eq!(client.stats("stats settings\r\n")["storage"], "maps");
    let cas = client.cas("a");
    server.stop();
    server.wait().unwrap();
    assert_eq!(storage.closed.load(Ordering::SeqCst), 1);
    let (server, mut client) = start(&storage);
    assert_eq!(client.cas("a"), cas);
    client.talk("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    assert!(client.cas("a") > cas);
    client.talk("flush_all\r\nget a\r\n", "OK\r\nEND\r\n");
    server.stop();
    server.wait().unwrap();
}

#[test]
fn a_group_that_fails_is_stored_as_far_as_it_can_be() {
    for is_divisible in [false, true] {
        let storage = Arc::new(MemoryStorage {
            is_divisible,
            ..MemoryStorage::default()
        });
        let (server, mut client) = start(&storage);
        client.talk("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\n", "STORED\r\nSTORED\r\n");
        // They have copies.
        for _ in 0..2 {
            client.talk("get a b\r\n", "VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n");
        }
        client.talk(
            "append a 0 0 1\r\n3\r\nset b 0 0 1\r\n!\r\nadd c 0 0 1\r\n5\r\n",
            "STORED\r\nSERVER_ERROR the storage of the items failed: the map is \
             broken\r\nSTORED\r\n",
        );
        for _ in 0..2 {
            client.talk(
                "get a b c\r\n",
                "VALUE a 0 2\r\n13\r\nVALUE b 0 1\r\n2\r\nVALUE c 0 1\r\n5\r\nEND\r\n",
            );
        }
        assert_ne!(client.stats("stats\r\n")["hot_hits"], "0");
        server.stop();
        server.wait().unwrap();
    }
}
