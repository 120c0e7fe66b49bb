"""Holds a tree against the schema: every fault of a file at once, each with its place, its path and a way out. Pure."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from talkwire_pipeline import sampling
from talkwire_pipeline.deploy.tree import Leaf, Node, Origin, Section, plain
from talkwire_pipeline.errors import DeployError

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: where, at which path, and what."""

    origin: Origin
    path: Path
    text: str

    def __str__(self) -> str:
        return f"{self.origin}: {'.'.join(self.path)}: {self.text}"


def refuse(problems: Iterable[Problem]) -> None:
    """Raises one `DeployError` with all of them, in the order of their places; nothing where there are none."""
    found = sorted(set(problems), key=lambda each: (each.origin.layer, each.origin.line, each.path))
    if found:
        raise DeployError("\n".join(map(str, found)))


def problems(section: Section, schema: type[msgspec.Struct], path: Path = ()) -> Iterator[Problem]:
    """What of a section does not fit its schema. `sampling` sections are held against the table of parameters."""
    fields = {field.name: field for field in msgspec.structs.fields(schema)}
    for key, node in section.items.items():
        here = (*path, key)
        if key not in fields:
            yield Problem(node.origin, here, _unknown(key, list(fields), path))
        elif key == "sampling":
            yield from _sampling(node, here)
        else:
            yield from _field(node, fields[key].type, here)


def _field(node: Node, kind: Any, path: Path) -> Iterator[Problem]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if isinstance(node, Section):
            yield from problems(node, kind, path)
        else:
            yield Problem(node.origin, path, _no_mapping(node))
        return
    value = plain(node)
    if value is None:
        yield Problem(node.origin, path, "null clears nothing: leave the key out, or give it a value")
    elif fault := _misfit(value, kind):
        yield Problem(node.origin, path, fault)


def _no_mapping(node: Leaf) -> str:
    if node.value is None:
        return "a mapping of keys belongs here, not null: nothing that is inherited can be cleared"
    return f"a mapping of keys belongs here, not {node.value!r}"


def _misfit(value: object, kind: Any) -> str | None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        names = _names(kind)
        if names and isinstance(value, str):
            return f"{value!r} is not known; {_hint(value, names)}"
        allowed = f" ({', '.join(names)})" if names else ""
        return f"{value!r}: {str(error).replace('`', '')}{allowed}"
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return f"{value} is no finite number"
    return None


def _names(kind: Any) -> list[str]:
    """The words that a type allows."""
    origin = get_origin(kind)
    if origin is Literal:
        return [word for word in get_args(kind) if isinstance(word, str)]
    if origin in (Union, types.UnionType):
        return [word for part in get_args(kind) for word in _names(part)]
    return []


def _sampling(node: Node, path: Path) -> Iterator[Problem]:
    if isinstance(node, Leaf):
        yield Problem(node.origin, path, _no_mapping(node))
        return
    # What only one runner refuses is for later, when it is known which one runs.
    for name, fault in sampling.problems(plain(node), "v1"):
        yield Problem(node.items[name].origin, (*path, name), fault)


def _unknown(key: str, known: Sequence[str], path: Path) -> str:
    what = {(): "section", ("platforms",): "platform", ("stages",): "stage", ("connectors",): "connector"}
    return f"no such {what.get(path[-1:], 'key')}; {_hint(key, known)}"


def _hint(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
