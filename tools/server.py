"""Runs a real server as a child process: for the demo, the benchmarks and the system tests."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import grpc
from grpc_health.v1 import health_pb2

READY_S = 120.0
"""A server that serves nothing by then is broken."""
STOP_S = 40.0
"""A server that has not left by then is killed."""
_LISTENS = re.compile(r"listens on (\S+:\d+)")
_LOG_LINES = 30


@dataclass(frozen=True, slots=True)
class Server:
    """A server that serves.

    Attributes:
        target: host and port for a client.
        process: the child; its own children are the stages.
        start_s: seconds from the start of the process to SERVING.
        line: what it printed when its ports were bound.
    """

    target: str
    process: subprocess.Popen[str]
    start_s: float
    line: str


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    """Starts `talkwire-server serve` on a free port of loopback and stops it by SIGTERM.

    Raises `RuntimeError` with the end of its log where it does not come up, or leaves with an error.
    """
    command = (sys.executable, "-m", "talkwire_server.cli", "serve", "--port", "0", *arguments)
    with tempfile.TemporaryFile("w+") as log:
        began_s = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = _announcement(process, log)
            target = _LISTENS.findall(line)[0]
            _wait_until_serving(target, log)
            yield Server(target, process, time.perf_counter() - began_s, line)
        finally:
            status = _stop(process)
        if status != 0:
            raise RuntimeError(f"the server left with status {status}:\n{_tail(log)}")


def _announcement(process: subprocess.Popen[str], log: IO[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if _LISTENS.search(line):
            return line
    raise RuntimeError(f"the server did not start:\n{_tail(log)}")


def _wait_until_serving(target: str, log: IO[str]) -> None:
    request = health_pb2.HealthCheckRequest()
    with grpc.insecure_channel(target) as channel:
        watch = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            for response in watch(request, timeout=READY_S):
                if response.status == health_pb2.HealthCheckResponse.SERVING:
                    return
        except grpc.RpcError as error:
            raise RuntimeError(f"the server did not become ready ({error.code().name}):\n{_tail(log)}") from error
    raise RuntimeError(f"the server ended its health service before it was ready:\n{_tail(log)}")


def _stop(process: subprocess.Popen[str]) -> int:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode


def _tail(log: IO[str]) -> str:
    log.seek(0)
    return "".join(log.readlines()[-_LOG_LINES:])
