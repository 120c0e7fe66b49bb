"""YAML as trees whose every value knows where it was written, and the merge of two of them. Pure.

A tree is a `Section`; what is not a mapping is a `Leaf`. Trees are never changed: `merge` and `put` make new ones, and
no two values share a container, whatever the file's anchors do.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from talkwire_pipeline.errors import DeployError

MAX_NODES = 20_000
"""Values of one file, aliases counted each time: a file of a few lines can stand for billions."""
_BOOL = "tag:yaml.org,2002:bool"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written.

    Attributes:
        source: name of a file, of an environment variable, a `--set` argument, or what it is the default of.
        line: from 1; 0 where the source has no lines.
        layer: place of the source in the order of merging; the defaults have -1.
    """

    source: str
    line: int = 0
    layer: int = -1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or a list, as Python's own types."""

    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping."""

    origin: Origin
    items: Mapping[str, Node] = field(default_factory=dict)

    def leaves(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
        """Every leaf below, with its path."""
        for key, node in self.items.items():
            if isinstance(node, Section):
                yield from node.leaves((*path, key))
            else:
                yield (*path, key), node

    def find(self, *path: str) -> Node | None:
        """What lies at a path; None: nothing."""
        node: Node | None = self
        for key in path:
            node = node.items.get(key) if isinstance(node, Section) else None
        return node


Node: TypeAlias = Leaf | Section


def plain(node: Node) -> Any:
    """The node as Python's own types, sharing nothing with it."""
    if isinstance(node, Section):
        return {key: plain(child) for key, child in node.items.items()}
    return copy.deepcopy(node.value)


def merge(lower: Section, upper: Section) -> Section:
    """Both, deeply: where both have a leaf, or one has a leaf and the other a section, the upper one's stands."""
    items = dict(lower.items)
    for key, above in upper.items.items():
        below = items.get(key)
        both = isinstance(below, Section) and isinstance(above, Section)
        items[key] = merge(below, above) if both else above  # type: ignore[arg-type]
    return Section(upper.origin, items)


def put(path: tuple[str, ...], node: Node) -> Section:
    """A tree that has nothing but `node`, at `path` (at least one key)."""
    for key in reversed(path):
        node = Section(node.origin, {key: node})
    assert isinstance(node, Section)
    return node


def without(section: Section, *keys: str) -> Section:
    """The section without some of its keys."""
    return Section(section.origin, {key: node for key, node in section.items.items() if key not in keys})


def parse(text: str, source: str, layer: int = 0) -> Section:
    """The tree of a YAML file. Raises `DeployError` with the line for what is no YAML, or no mapping of names."""
    node = _parse(text, Origin(source, 1, layer))
    if not isinstance(node, Section):
        raise DeployError(f"{source}: expected a mapping of sections at the top, such as `stages:`")
    return node


def parse_value(text: str, source: str, layer: int = 0) -> Node:
    """The node of a value that is given on a command line or in an environment variable, as YAML. May be null."""
    return _parse(text, Origin(source, 0, layer))


def _parse(text: str, origin: Origin) -> Node:
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        return Leaf(None, origin) if root is None else _Reader(loader, origin).read(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DeployError(f"{_at(origin, mark)}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise DeployError(f"{origin.source}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise DeployError(f"{origin.source}: nested too deeply") from error
    finally:
        if loader is not None:
            loader.dispose()


def _at(origin: Origin, mark: Any) -> str:
    return origin.source if mark is None or not origin.line else f"{origin.source}:{mark.line + 1}"


class _Loader(yaml.SafeLoader):
    """YAML whose only booleans are true and false, as in YAML 1.2 (`continuity: off` names a choice), without dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, _TIMESTAMP)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


class _Reader:
    """Turns YAML's nodes into ours. An alias is read anew each time, so that nothing is shared."""

    def __init__(self, loader: _Loader, origin: Origin) -> None:
        self._loader = loader
        self._origin = origin
        self._count = 0
        self._open: list[yaml.Node] = []

    def read(self, node: yaml.Node) -> Node:
        origin = self._where(node)
        if isinstance(node, yaml.MappingNode):
            return Section(origin, self._pairs(node))
        return Leaf(self._value(node), origin)

    def _where(self, node: yaml.Node) -> Origin:
        line = node.start_mark.line + 1 if self._origin.line else 0
        return Origin(self._origin.source, line, self._origin.layer)

    def _fault(self, node: yaml.Node, text: str) -> DeployError:
        return DeployError(f"{self._where(node)}: {text}")

    def _pairs(self, node: yaml.MappingNode) -> dict[str, Node]:
        self._enter(node)
        self._refuse_doubles(node)
        self._loader.flatten_mapping(node)
        items = {self._key(key): self.read(value) for key, value in node.value}
        self._open.pop()
        return items

    def _refuse_doubles(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            name = self._key(key)
            if name in seen:
                raise self._fault(key, f"{name} is there twice in one mapping")
            seen.add(name)

    def _key(self, node: yaml.Node) -> str:
        value = self._loader.construct_object(node) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(value, str):
            raise self._fault(node, f"{_source_text(node)} is no name of a key: quote it if it is meant")
        return value

    def _value(self, node: yaml.Node) -> Any:
        """A scalar or list, or a mapping within a list, as Python's own types."""
        self._enter(node)
        value: Any
        if isinstance(node, yaml.SequenceNode):
            value = [self._value(child) for child in node.value]
        elif isinstance(node, yaml.MappingNode):
            self._open.pop()
            return plain(self.read(node))
        else:
            value = self._scalar(node)
        self._open.pop()
        return value

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            value = self._loader.construct_object(node)
        except (ValueError, OverflowError) as error:
            raise self._fault(node, f"{_source_text(node)} cannot be read: {error}") from error
        if not isinstance(value, str | int | float | bool | None):
            raise self._fault(node, f"a {type(value).__name__} has no place in a deploy file")
        return value

    def _enter(self, node: yaml.Node) -> None:
        self._count += 1
        if any(each is node for each in self._open):
            raise self._fault(node, "an anchor that contains itself")
        if self._count > MAX_NODES:
            raise self._fault(node, f"more than {MAX_NODES} values")
        self._open.append(node)


def _source_text(node: yaml.Node) -> str:
    return repr(node.value) if isinstance(node, yaml.ScalarNode) else "a list or mapping"
