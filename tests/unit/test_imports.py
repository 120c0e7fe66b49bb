"""Imports run one way, and heavy libraries stay where they belong (docs/design.md, section 2)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"talkwire": "clients", "talkwire_pipeline": "pipeline", "talkwire_server": "server"}
CLIENT_NEEDS = {"grpc", "google", "talkwire"}


class Import(NamedTuple):
    """A module that is imported, and whether just by importing the file."""

    name: str
    at_once: bool


def modules(package: str) -> dict[str, Path]:
    """Dotted names of a package's modules and their files."""
    root = ROOT / PACKAGES[package]
    found = {}
    for path in (root / package).rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


ALL = {name: path for package in PACKAGES for name, path in modules(package).items()}


@cache
def imports(path: Path) -> tuple[Import, ...]:
    return tuple(_walk(ast.parse(path.read_text(encoding="utf-8")), at_once=True))


def _walk(node: ast.AST, at_once: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, at_once) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0 and child.module, "absolute imports only"  # noqa: PT018
            yield Import(child.module, at_once)
            yield from (Import(f"{child.module}.{alias.name}", at_once) for alias in child.names)
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from _walk(child, False)
        else:
            later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _walk(child, at_once and not later)


def users(package: str, *libraries: str) -> dict[str, set[str]]:
    """Modules of a package, without its own name, that import one of these anywhere, and what they import."""
    found = {}
    for name, path in modules(package).items():
        used = {item.name for item in imports(path) if item.name.split(".")[0] in libraries}
        if used:
            found[name.removeprefix(package).lstrip(".")] = used
    return found


def reached(start: str) -> set[str]:
    """All modules and libraries that importing `start` brings in at once, packages on the way included."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo += [parent for parent in [name.rpartition(".")[0]] if parent]
        if name in ALL:
            todo += [item.name for item in imports(ALL[name]) if item.at_once]
    return seen


def test_the_modules_are_found() -> None:
    assert {"talkwire", "talkwire.client", "talkwire_pipeline.messages"} <= set(ALL)


def test_the_pipeline_knows_neither_server_nor_client() -> None:
    assert users("talkwire_pipeline", "talkwire_server", "talkwire", "grpc", "google") == {}


def test_the_server_takes_the_contract_alone_from_the_client() -> None:
    used = {name for names in users("talkwire_server", "talkwire").values() for name in names}
    assert {name for name in used if not name.startswith("talkwire.v1")} == set()


def test_the_client_needs_three_libraries_and_one_to_play() -> None:
    used = {item.name.split(".")[0] for path in modules("talkwire").values() for item in imports(path)}
    assert used - set(sys.stdlib_module_names) == {*CLIENT_NEEDS, "sounddevice"}
    assert set(users("talkwire", "sounddevice")) == {"sinks"}


def test_torch_stays_in_the_stages() -> None:
    places = users("talkwire_pipeline", "torch", "transformers")
    homes = ("talker", "codec", "weights", "devices")
    assert {name for name in places if name.split(".")[0] not in homes} == set()
    assert users("talkwire_server", "torch", "transformers") == {}


def test_grpc_stays_at_the_edge() -> None:
    edge = {"app", "servicer", "errors", "security.tls", "security.interceptor"}
    places = set(users("talkwire_server", "grpc", "grpc_health", "grpc_reflection"))
    assert {name for name in places if name not in edge and not name.startswith("compat")} == set()


def test_prometheus_has_one_place() -> None:
    assert set(users("talkwire_server", "prometheus_client")) <= {"metrics.front", "metrics.stages"}
    assert users("talkwire_pipeline", "prometheus_client") == {}


@pytest.mark.parametrize("name", sorted(modules("talkwire_server")))
def test_no_module_of_the_server_reaches_torch(name: str) -> None:
    assert reached(name) & {"torch", "transformers", "safetensors.torch"} == set()


def test_reaching_follows_packages_and_modules() -> None:
    assert "grpc" in reached("talkwire.v1.speech_pb2_grpc")
    assert "talkwire.client" in reached("talkwire.v1")
    assert "torch" in reached("talkwire_pipeline.weights")
