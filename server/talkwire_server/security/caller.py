"""Who calls. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

MAX_NAME_CHARS = 128

caller: ContextVar[str] = ContextVar("caller", default="")
"""Name of the key, or of the certificate, that this RPC came with; empty: it came with none. Fit for logs."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token stands for: the name of its key, and the methods it may call; None: all of them."""

    name: str = ""
    methods: frozenset[str] | None = None

    def allows(self, method: str) -> bool:
        """Whether it may call the method, which is named without its service."""
        return self.methods is None or method in self.methods


def is_name(text: str) -> bool:
    """Whether a name from elsewhere, such as a certificate's, may stand in a line of a log."""
    return 0 < len(text) <= MAX_NAME_CHARS and text.isprintable()


def certificate_name(auth_context: Mapping[str, Iterable[bytes]]) -> str:
    """The name in the certificate that a caller showed, by gRPC's knowledge of the connection; empty: there is none."""
    for key in ("x509_common_name", "x509_subject_alternative_name"):
        for value in auth_context.get(key, ()):
            if is_name(name := value.decode("utf-8", "replace")):
                return name
    return ""
