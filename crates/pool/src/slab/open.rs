//! Creation and opening of slabs.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use halocline_media::LINE;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::directory::ObjectRecord;
use crate::fault::{PoolFault, injected};
use crate::features::Features;
use crate::layout::{
    MAX_NODE_SIZE, MIN_NODE_SIZE, SLAB_CLOSED, SLAB_HEAD, SLAB_OPEN, SLAB_VERSION, SlabHead, SlabMeta,
};
use crate::object::{ExtentRef, ObjectKind};
use crate::txn::check_name;
use crate::{Pool, PoolError, ReserveUse};

use super::growth::chunk_len;
use super::node_sums::has_sums;
use super::nodes::NodeAllocator;
use super::{Slab, SlabOptions};

/// The purpose of opening a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlabOpenMode {
    Read,
    /// Reading beside a writer.
    Observe,
    Write,
    /// Writing, whatever power loss may have left.
    Accept,
}

/// A slab whose owner has yet to report the nodes that its links lead to. Until then none can be allocated.
#[derive(Debug)]
pub struct SlabRecovery {
    slab: Slab,
}

impl Pool {
    /// Creates and publishes an empty slab. Does not wait for other writers.
    ///
    /// # Errors
    /// [`PoolError::AlreadyThere`] if an object has this name, [`PoolError::InvalidSlab`],
    /// [`PoolError::InvalidName`], [`PoolError::NameTooLong`], and all of [`begin`](Pool::begin) and
    /// [`Txn::commit`](crate::Txn::commit).
    pub fn create_slab(&self, name: &str, options: &SlabOptions) -> Result<Slab, PoolError> {
        self.create_slab_as(name, options, None)
    }

    /// Creates a slab like [`create_slab`](Pool::create_slab), on a full disk in the reserve of the pool: for
    /// a slab that stands for what is deleted, such as the empty one of a tree that replaces another.
    ///
    /// # Errors
    /// Fails like [`create_slab`](Pool::create_slab).
    pub fn create_slab_using_reserve(
        &self,
        name: &str,
        options: &SlabOptions,
        purpose: ReserveUse,
    ) -> Result<Slab, PoolError> {
        self.create_slab_as(name, options, Some(purpose))
    }

    fn create_slab_as(
        &self,
        name: &str,
        options: &SlabOptions,
        reserve_use: Option<ReserveUse>,
    ) -> Result<Slab, PoolError> {
        check_name(name)?;
        let SlabOptions {
            node_size,
            owner,
            chunk,
        } = *options;
        if !node_size.is_multiple_of(MIN_NODE_SIZE) || !(MIN_NODE_SIZE..=MAX_NODE_SIZE).contains(&node_size) {
            return Err(PoolError::InvalidSlab {
                name: name.to_owned(),
                node_size,
            });
        }
        let inner = &*self.inner;
        let txn = self.begin()?;
        if txn.get(name).is_some() {
            return Err(PoolError::AlreadyThere {
                path: inner.path.to_path_buf(),
                name: name.to_owned(),
            });
        }
        if let Some(purpose) = reserve_use {
            txn.use_reserve(purpose);
        }
        let len = chunk_len(chunk.clamp(SLAB_HEAD + u64::from(node_size) + LINE, u64::MAX / 4));
        let offset = txn.reserve(len)?;
        inner.medium.store(offset, &[0; SLAB_HEAD as usize]);
        inner.medium.store_u64(offset + SlabHead::STATE, SLAB_OPEN);
        if !injected(PoolFault::UnflushedSlabHead) {
            // The commit's fence makes it durable.
            inner.medium.flush(offset, SLAB_HEAD);
        }
        let meta = SlabMeta {
            version: U32::new(SLAB_VERSION),
            node_size: U32::new(node_size),
            owner,
        };
        let chunk = ExtentRef::plain(offset, len, 0);
        let record = ObjectRecord::new(ObjectKind::SLAB, meta.as_bytes().into(), Box::new([chunk]));
        txn.state().put_slab(name, record);
        txn.require(Features::NODE_SUMS);
        txn.commit()?;
        Ok(self.open_slab(name, owner)?.finish())
    }

    /// Opens a slab for its owner, who then reports the nodes in use. Until it is closed, no other handle can
    /// open it and it cannot be removed.
    ///
    /// # Errors
    /// [`PoolError::NoSuchObject`], [`PoolError::NotASlab`], [`PoolError::WrongSlab`] if it belongs to
    /// another owner, [`PoolError::SlabInUse`], [`PoolError::DamagedSlab`], [`PoolError::SlabUnsynced`]
    /// if the machine went down before the last stores were synced, [`PoolError::ReadOnly`], and all of
    /// [`snapshot`](Pool::snapshot).
    pub fn open_slab(&self, name: &str, owner: [u8; 8]) -> Result<SlabRecovery, PoolError> {
        self.open_slab_as(name, owner, SlabOpenMode::Write)
    }

    /// Opens a slab for reading, by any number of handles at once, also in a pool that is opened read-only.
    /// Until it is closed, no handle can write it and it cannot be removed. Stores nothing: unfinished
    /// work of a crash stays unfinished.
    ///
    /// # Errors
    /// Fails like [`open_slab`](Pool::open_slab), except for [`PoolError::ReadOnly`];
    /// [`PoolError::SlabInUse`] if another handle has it open for writing.
    pub fn open_slab_read_only(&self, name: &str, owner: [u8; 8]) -> Result<SlabRecovery, PoolError> {
        self.open_slab_as(name, owner, SlabOpenMode::Read)
    }

    /// Opens a slab like [`open_slab`](Pool::open_slab) even if the machine went down before everything was
    /// synced. Any part of the stores since the last sync may be missing, which the owner has to detect.
    ///
    /// # Errors
    /// Fails like [`open_slab`](Pool::open_slab), except for [`PoolError::SlabUnsynced`].
    pub fn open_slab_unsynced(&self, name: &str, owner: [u8; 8]) -> Result<SlabRecovery, PoolError> {
        self.open_slab_as(name, owner, SlabOpenMode::Accept)
    }

    pub(super) fn open_slab_as(
        &self,
        name: &str,
        owner: [u8; 8],
        opening: SlabOpenMode,
    ) -> Result<SlabRecovery, PoolError> {
        let inner = &*self.inner;
        let read_only = matches!(opening, SlabOpenMode::Read | SlabOpenMode::Observe);
        if !read_only {
            inner.writable()?;
        }
        let path = || inner.path.to_path_buf();
        let name_owned = || name.to_owned();
        let (lock, record, meta) = loop {
            let (head, _) = self.slab_record(name)?;
            let lock = match opening {
                SlabOpenMode::Observe => None,
                _ => {
                    let lock = inner.access.lock_slab(head, read_only)?;
                    Some(lock.ok_or_else(|| inner.access.slab_in_use(head, name))?)
                }
            };
            // The slab may have been replaced or have grown before the lock was taken.
            let (again, record) = self.slab_record(name)?;
            if again == head {
                let meta = SlabMeta::read_from_bytes(&record.meta).map_err(|_| PoolError::NotASlab {
                    path: path(),
                    name: name_owned(),
                    kind: record.kind,
                })?;
                break (lock, record, meta);
            }
        };
        if meta.version.get() > SLAB_VERSION {
            return Err(PoolError::NewerFormat {
                path: path(),
                found: meta.version.get(),
                supported: SLAB_VERSION,
            });
        }
        if meta.owner != owner {
            return Err(PoolError::WrongSlab {
                path: path(),
                name: name_owned(),
                found: tag(meta.owner),
                expected: tag(owner),
            });
        }
        let node_size = u64::from(meta.node_size.get());
        let has_sums = has_sums(meta.version.get());
        let mut nodes = NodeAllocator::new(node_size, has_sums);
        for (index, extent) in record.extents.iter().enumerate() {
            if !read_only {
                inner.medium.reserve(extent.offset, extent.len)?;
            }
            let skip = if index == 0 { SLAB_HEAD } else { 0 };
            nodes.add(extent.offset + skip, extent.offset + extent.len, extent.len);
        }
        let first = record.extents[0];
        let mut slab = Slab {
            medium: inner.medium.clone(),
            pool: self.clone(),
            name: name.into(),
            node_size,
            head: first.offset,
            chunk: first.len,
            nodes: Mutex::new(nodes),
            growing: Mutex::default(),
            gatherer: super::gather::Gatherer::default(),
            marked: false,
            read_only,
            has_sums,
            root_changed: false,
            root_sum_before: 0,
            owner_word: 0,
            next_owner_word: 0,
            open_word: AtomicU64::new(0),
            at_rest: None,
            written: AtomicBool::new(false),
            _lock: lock,
        };
        slab.mark(opening)?;
        if !read_only {
            let chunks = record.extents.iter().map(|extent| (extent.offset, extent.len));
            slab.gatherer.add(&slab.medium, chunks);
        }
        Ok(SlabRecovery { slab })
    }

    /// Returns true if a slab was closed cleanly after its last write, so that opening it finds nothing
    /// unfinished. False for slabs of earlier programs, which did not record it. Another handle may write
    /// the slab at any time.
    ///
    /// # Errors
    /// [`PoolError::NoSuchObject`], [`PoolError::NotASlab`], and all of [`snapshot`](Pool::snapshot).
    pub fn slab_is_closed(&self, name: &str) -> Result<bool, PoolError> {
        let (head, record) = self.slab_record(name)?;
        let version = SlabMeta::read_from_bytes(&record.meta).map_or(0, |meta| meta.version.get());
        Ok(has_sums(version) && self.inner.medium.load_u64(head + SlabHead::STATE) == SLAB_CLOSED)
    }

    /// Returns true if some handle has a slab open for writing, or for reading without a writer. It may be
    /// closed at any time.
    ///
    /// # Errors
    /// [`PoolError::NoSuchObject`], [`PoolError::NotASlab`], and all of [`snapshot`](Pool::snapshot).
    pub fn slab_is_in_use(&self, name: &str) -> Result<bool, PoolError> {
        let (head, _) = self.slab_record(name)?;
        self.inner.access.is_slab_locked(head)
    }

    /// Returns the offset of a slab's head and its record in the newest generation.
    fn slab_record(&self, name: &str) -> Result<(u64, Arc<ObjectRecord>), PoolError> {
        let inner = &*self.inner;
        let (_, pinned) = inner.pin_newest()?;
        let path = || inner.path.to_path_buf();
        let Some(record) = pinned.directory().objects.get(name) else {
            return Err(PoolError::NoSuchObject {
                path: path(),
                name: name.to_owned(),
            });
        };
        if record.kind != ObjectKind::SLAB {
            return Err(PoolError::NotASlab {
                path: path(),
                name: name.to_owned(),
                kind: record.kind,
            });
        }
        Ok((record.extents[0].offset, Arc::clone(record)))
    }
}

impl SlabRecovery {
    /// Returns the slab, for following the links in it.
    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// Marks a node that a link leads to as in use.
    ///
    /// # Errors
    /// [`PoolError::NotANode`] if there is no node at this offset or it was reported before: the link is
    /// damaged.
    pub fn keep(&mut self, offset: u64) -> Result<(), PoolError> {
        let nodes = self.nodes();
        if nodes.set(offset) {
            return Ok(());
        }
        let reason = if nodes.is_node(offset) {
            "two links lead there"
        } else {
            "there is no node"
        };
        Err(PoolError::NotANode {
            path: self.slab.pool.path().to_path_buf(),
            name: self.slab.name.to_string(),
            offset,
            reason,
        })
    }

    /// Marks all present nodes as in use, because links are lost. New nodes come from further chunks.
    pub fn keep_all(&mut self) {
        self.nodes().set_all();
    }

    pub(super) fn nodes(&mut self) -> &mut NodeAllocator {
        let nodes = self.slab.nodes.get_mut();
        nodes.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Ends the recovery: nodes that were not reported are free.
    pub fn finish(self) -> Slab {
        self.slab
    }
}

impl Slab {
    /// Makes sure that torn nodes are detected after a power loss: where fences are not durable, the head
    /// records that the slab is being written before anything is stored to a node. Readers store nothing.
    fn mark(&mut self, opening: SlabOpenMode) -> Result<(), PoolError> {
        let medium = self.medium.clone();
        let medium = &medium;
        let accept = opening == SlabOpenMode::Accept;
        let mut head = SlabHead::new_zeroed();
        medium.load(self.head, head.as_mut_bytes());
        let boot_id = self.pool.inner.boot_id;
        let unsynced = head.unsynced.get() != 0;
        if unsynced && head.boot_id != boot_id && !accept && !injected(PoolFault::TrustSlabAfterReboot) {
            return Err(PoolError::SlabUnsynced {
                path: self.pool.path().to_path_buf(),
                name: self.name.to_string(),
            });
        }
        self.rest_at_opening(&head, accept)?;
        if self.read_only {
            return Ok(());
        }
        if medium.fence_is_durable() {
            return if unsynced { self.unmark() } else { Ok(()) };
        }
        self.marked = true;
        if !unsynced || head.boot_id != boot_id {
            if unsynced {
                // The state after the power loss becomes the base of further work.
                medium.sync()?;
            }
            let head = SlabHead {
                boot_id,
                unsynced: 1.into(),
                ..self.head_now()
            };
            medium.store(self.head, head.as_bytes());
            medium.flush(self.head, SLAB_HEAD);
            // Only a sync makes the mark durable before later stores to nodes.
            if !injected(PoolFault::MarkSlabLate) {
                medium.sync()?;
            }
        }
        Ok(())
    }

    /// Makes everything durable and records that in the head.
    pub(super) fn unmark(&self) -> Result<(), PoolError> {
        let medium = &self.medium;
        if !injected(PoolFault::UnmarkSlabFirst) {
            medium.sync()?;
        }
        medium.store(self.head, self.head_now().as_bytes());
        medium.flush(self.head, SLAB_HEAD);
        medium.sync()?;
        Ok(())
    }
}

fn tag(owner: [u8; 8]) -> String {
    let text = String::from_utf8_lossy(&owner);
    text.trim_end_matches('\0').escape_debug().to_string()
}
