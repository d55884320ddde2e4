"""Proxies that fail on command, in front of each ClickHouse node and of the object store.

Each parses just enough HTTP to separate one request from the next. A request reaches its server whole or not at all:
the fault is meant for the load, not for the engine's HTTP parser.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")

_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding: *chunked", re.IGNORECASE | re.MULTILINE)
_LARGEST_HEADER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_SLOW_SECONDS = 1.0
_STATUS = {"500": b"500 Internal Server Error", "503": b"503 Slow Down"}
_CODE = {"500": b"InternalError", "503": b"SlowDown"}
_LISTING = re.compile(rb"GET [^ ]*[?&]list-type=2")
_EMPTY = b"<?xml version='1.0'?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


class Loop:
    """A thread with an event loop, which all proxies share."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def call(self, work: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(work)

    def close(self) -> None:
        async def cancel_all() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


class Hold:
    """A request that is held back: it arrives, is released, and finally gets the server's response."""

    def __init__(self, loop: Loop) -> None:
        self.has_arrived = threading.Event()
        self.is_answered = threading.Event()
        self._loop = loop
        self._may_go = asyncio.Event()
        self._has_answer = asyncio.Event()

    def release(self) -> None:
        self._loop.call(self._may_go.set)

    async def pass_through(self) -> None:
        self.has_arrived.set()
        await self._may_go.wait()

    def take_answer(self) -> None:
        self._has_answer.set()
        self.is_answered.set()

    async def wait_for_answer(self) -> None:
        await self._has_answer.wait()


@dataclass
class Proxy:
    """Forwards 127.0.0.1:``port`` to 127.0.0.1:``upstream_port``, unchanged until a fault is requested."""

    loop: Loop
    upstream_port: int
    port: int = field(default=0, init=False)
    _server: asyncio.Server | None = field(default=None, init=False)
    _clients: set[asyncio.StreamWriter] = field(default_factory=set, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _is_cut: bool = field(default=False, init=False)
    _flows: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _trouble: str = field(default="", init=False)
    _troubled_requests: int = field(default=0, init=False)
    _holds: dict[bytes, Hold] = field(default_factory=dict, init=False)

    def start(self) -> None:
        async def listen() -> None:
            self._flows.set()
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LARGEST_HEADER_BYTES)
            self.port = self._server.sockets[0].getsockname()[1]

        self.loop.run(listen())

    def cut(self) -> None:
        """Reset all connections, and each new one."""

        def reset_all() -> None:
            for client in list(self._clients):
                _reset(client)

        self._is_cut = True
        self.loop.call(reset_all)

    def stall(self) -> None:
        """Let no byte through, but keep all connections open."""
        self.loop.call(self._flows.clear)

    def trouble(self, kind: str, requests: int) -> None:
        """Corrupt the next responses: ``500``, ``503``, ``slow``, ``reset``, ``truncated``, or ``empty`` listings."""
        self._trouble, self._troubled_requests = kind, requests

    def hold(self, mark: str) -> Hold:
        """Hold back the request that contains ``mark`` until it is released; its sender may be dead by then."""
        self._holds[mark.encode()] = hold = Hold(self.loop)
        return hold

    def heal(self) -> None:
        self._is_cut, self._troubled_requests = False, 0
        self._holds.clear()
        self.loop.call(self._flows.set)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)  # the event loop itself does not keep the task alive
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = None
        self._clients.add(writer)
        try:
            if self._is_cut:
                _reset(writer)
                return
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self.upstream_port)
            held: list[Hold] = []
            answers = asyncio.ensure_future(self._pump(upstream_reader, writer, held))
            while request := await _read_message(reader):
                await self._flows.wait()
                held[:] = [hold for mark, hold in self._holds.items() if mark in request]
                for hold in held:
                    await hold.pass_through()
                if not await self._spoil(request, writer):
                    upstream.write(request)
                    await upstream.drain()
                for hold in held:
                    # its sender is gone, and a server that notices this might drop the request
                    await hold.wait_for_answer()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            _reset(writer)
        finally:
            self._clients.discard(writer)
            if upstream is not None:
                with suppress(OSError, RuntimeError):
                    upstream.write_eof()
                await answers
                upstream.close()
            writer.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, held: list[Hold]) -> None:
        """Forward the responses; keep reading when the client has gone, so that the server is not disturbed."""
        with suppress(OSError):
            while data := await source.read(_CHUNK_BYTES):
                for hold in held:
                    hold.take_answer()
                await self._flows.wait()
                with suppress(OSError, RuntimeError):
                    sink.write(data)
                    await sink.drain()
        for hold in held:
            hold.take_answer()
        with suppress(OSError, RuntimeError):
            sink.close()

    async def _spoil(self, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer a request in place of the server, if trouble is due."""
        is_spared = {
            "truncated": request.startswith(b"HEAD"),
            "empty": not _LISTING.match(request),
        }
        if self._troubled_requests <= 0 or is_spared.get(self._trouble):
            return False
        self._troubled_requests -= 1
        match self._trouble:
            case "slow":
                await asyncio.sleep(_SLOW_SECONDS)
                return False
            case "reset":
                _reset(writer)
            case "truncated":
                writer.write(await self._half_answer(request))
                await writer.drain()
                writer.close()
            case status:
                body = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>Later.</Message></Error>"
                body = _EMPTY if status == "empty" else body % _CODE[status]
                head = b"HTTP/1.1 %s\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n"
                head %= _STATUS.get(status, b"200 OK"), len(body)
                writer.write(head + (b"" if request.startswith(b"HEAD") else body))
                await writer.drain()
        return True

    async def _half_answer(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        writer.write(request)
        await writer.drain()
        answer = await _read_message(reader)
        writer.close()
        head_bytes = answer.index(b"\r\n\r\n") + 4
        return answer[: head_bytes + (len(answer) - head_bytes) // 2]


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """Read one HTTP message; empty at the end of the connection."""
    try:
        message = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return b""
    if found := _LENGTH.search(message):
        return message + await reader.readexactly(int(found[1]))
    while _CHUNKED.search(message):
        line = await reader.readuntil(b"\r\n")
        chunk = await reader.readexactly(int(line, 16) + 2)
        message += line + chunk
        if chunk == b"\r\n":
            break
    return message


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST."""
    if (connection := writer.get_extra_info("socket")) is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
