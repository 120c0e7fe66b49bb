"""The HTTP port beside gRPC: `/metrics` for Prometheus, `/healthz` (the process lives), `/readyz` (it can speak).

It runs in a thread of its own, on the standard library's WSGI server: scrapes never wait for the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from talkwire_pipeline.errors import UnavailableError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = 10.0  # a connection that says nothing must not keep its thread

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a line for every scrape helps nobody."""


class Probes:
    """Serves the three pages until `close`. Raises `UnavailableError` where the port cannot be had."""

    def __init__(self, host: str, port: int, metrics: WSGIApplication, ready: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._ready = ready
        try:
            self._server = make_server(host, port, self._answer, _Server, _Handler)
        except OSError as error:
            raise port_error("metrics", host, port, error) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="talkwire-probes", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is bound."""
        port: int = self._server.server_port
        return port

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        match environment.get("PATH_INFO"):
            case "/metrics":
                return self._metrics(environment, respond)
            case "/healthz":
                return _plain(respond, "200 OK")
            case "/readyz":
                return _plain(respond, "200 OK" if self._ready() else "503 Service Unavailable")
            case _:
                return _plain(respond, "404 Not Found")


def _plain(respond: StartResponse, status: str) -> Iterable[bytes]:
    respond(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [status[4:].encode() + b"\n"]


def port_error(what: str, host: str, port: int, cause: Exception) -> UnavailableError:
    """Why a port cannot be had, and the way out."""
    option = "--metrics-port" if what == "metrics" else "--port"
    text = f"{what}: cannot listen on {host}:{port} ({cause}); give another {option}, or 0 for any free one"
    return UnavailableError(text, reason="PORT_IN_USE")
