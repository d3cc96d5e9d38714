"""Messages between the ranks of one host over unix sockets, matched in the order they were posted."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Client, Connection, Listener

import torch.distributed as dist

Received = Callable[[int, bytes], None]
Failed = Callable[[Exception], None]
ANY = -1


class _Post:
    """A receive that waits for its message. ``source`` may be ANY."""

    def __init__(self, source: int, key: Hashable, received: Received, failed: Failed) -> None:
        self.source, self.key, self.received, self.failed = source, key, received, failed

    def takes(self, source: int, key: Hashable) -> bool:
        return self.key == key and self.source in (ANY, source)


class Mailbox:
    """One rank's post office. Callbacks run on reader threads or in ``expect``, never under the lock.

    Only ``close`` closes a pipe, and only when its reader has ended and nobody sends: a thread on its way into a read
    would else take the first bytes of whatever is opened next under the same number.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        self._rank = rank
        self._lock, self._closing = threading.Lock(), threading.Lock()
        self._posts: list[_Post] = []
        self._early: list[tuple[int, Hashable, bytes]] = []
        self._pipes: dict[int, Connection] = {}
        self._send_locks: dict[int, threading.Lock] = {peer: threading.Lock() for peer in range(size)}
        self._gone: set[int] = set()
        self._connect(store, size, timeout)
        self._readers = {
            peer: threading.Thread(target=self._read, args=(peer, pipe), daemon=True)
            for peer, pipe in self._pipes.items()
        }
        for reader in self._readers.values():
            reader.start()

    def _connect(self, store: dist.Store, size: int, timeout: timedelta) -> None:
        address = f"\0reference-{secrets.token_hex(12)}"
        with Listener(address, "AF_UNIX", backlog=size) as listener:
            store.set(f"mailbox/{self._rank}", address)
            store.wait([f"mailbox/{peer}" for peer in range(size)], timeout)
            for peer in range(self._rank):
                self._pipes[peer] = Client(store.get(f"mailbox/{peer}").decode(), "AF_UNIX")
                self._pipes[peer].send(self._rank)
            for _ in range(self._rank + 1, size):
                pipe = listener.accept()
                self._pipes[int(pipe.recv())] = pipe

    def send(self, peer: int, key: Hashable, payload: bytes) -> None:
        """Send; to oneself too. A peer that is gone raises ConnectionError."""
        if peer == self._rank:
            self._arrive(peer, key, payload)
            return
        if peer in self._gone:
            raise ConnectionError(f"rank {peer} has left")
        with self._send_locks[peer]:
            self._pipes[peer].send((key, payload))

    def expect(self, source: int, key: Hashable, received: Received, failed: Failed) -> None:
        """Call ``received`` once with the next matching message, or ``failed`` if its sender has left."""
        with self._lock:
            for index, (sender, early_key, early) in enumerate(self._early):
                if early_key == key and source in (ANY, sender):
                    payload = early
                    del self._early[index]
                    break
            else:
                gone = source in self._gone
                if not gone:
                    self._posts.append(_Post(source, key, received, failed))
                    return
                sender, payload = ANY, b""
        if sender == ANY:
            failed(ConnectionError(f"rank {source} has left"))
        else:
            received(sender, payload)

    def close(self, error: Exception) -> None:
        """Fail everything that waits and hang up."""
        self.fail(error)
        with self._closing:
            for peer, pipe in self._pipes.items():
                with suppress(OSError), socket.socket(fileno=os.dup(pipe.fileno())) as wire:
                    wire.shutdown(socket.SHUT_RDWR)
                if self._readers[peer] is not threading.current_thread():
                    self._readers[peer].join()
                with self._send_locks[peer]:
                    pipe.close()

    def fail(self, error: Exception, kind: str = "") -> None:
        """Fail what waits, or only what waits for messages of one kind."""
        with self._lock:
            posts = [post for post in self._posts if not kind or (isinstance(post.key, tuple) and post.key[0] == kind)]
            self._posts = [post for post in self._posts if post not in posts]
        for post in posts:
            post.failed(error)

    def _read(self, peer: int, pipe: Connection) -> None:
        try:
            while True:
                key, payload = pipe.recv()
                self._arrive(peer, key, payload)
        except (EOFError, OSError, TypeError, ValueError):
            self._lost(peer)

    def _arrive(self, source: int, key: Hashable, payload: bytes) -> None:
        with self._lock:
            for index, post in enumerate(self._posts):
                if post.takes(source, key):
                    del self._posts[index]
                    break
            else:
                self._early.append((source, key, payload))
                return
        post.received(source, payload)

    def _lost(self, peer: int) -> None:
        with self._lock:
            self._gone.add(peer)
            lost = [post for post in self._posts if post.source == peer]
            self._posts = [post for post in self._posts if post.source != peer]
        for post in lost:
            post.failed(ConnectionError(f"rank {peer} has left"))
