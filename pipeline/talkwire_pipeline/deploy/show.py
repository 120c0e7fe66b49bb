"""A resolved deployment as a deploy file that says where each value came from, and the difference of two. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from talkwire_pipeline.deploy.schema import Deploy
from talkwire_pipeline.deploy.server import Auth, Quotas, Tls

_SECTIONS = ("model", "stages", "connectors", "sampling", "text", "server")
_OURS = ("server.tls", "server.auth", "server.quotas")
"""Nobody's but the operator's."""
_MAX_COLUMN = 48
"""Where the comments begin, if no value is longer."""


def render(deploy: Deploy) -> str:
    """The deployment as YAML that loads again to the same: each value with a comment, the rest in comments on top."""
    lines = list(_lines(_tree(deploy), deploy, ()))
    column = min(_MAX_COLUMN, max(len(text) for text, _ in lines)) + 2
    body = [f"{text:<{column}}# {comment}" if comment else text for text, comment in lines]
    return "\n".join([*_head(deploy), *body]) + "\n"


def difference(one: Deploy, other: Deploy) -> str:
    """Every value that is not the same in both, a line each: path, both values, where each was written."""
    left, right = dict(_flat(one)), dict(_flat(other))
    rows = [
        f"{path}: {_told(left, path, one)} -> {_told(right, path, other)}"
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path)
    ]
    return "".join(f"{row}\n" for row in rows)


def public(deploy: Deploy) -> Deploy:
    """What callers may know of it: all but who may call, and the files that say so."""
    return msgspec.structs.replace(
        deploy,
        server=msgspec.structs.replace(deploy.server, tls=Tls(), auth=Auth(), quotas=Quotas()),
        provenance={path: origin for path, origin in deploy.provenance.items() if not path.startswith(_OURS)},
        warnings=tuple(text for text in deploy.warnings if not any(name in text for name in _OURS)),
    )


def features(deploy: Deploy) -> dict[str, bool]:
    """The runner's switches as they are."""
    return {name: value for name, value in msgspec.structs.asdict(deploy.runner).items() if isinstance(value, bool)}


def _head(deploy: Deploy) -> Iterator[str]:
    switches = ", ".join(f"{name} {'on' if value else 'off'}" for name, value in features(deploy).items())
    yield f"# profile {deploy.profile}, platform {deploy.platform}"
    yield f"# runner {deploy.runner.model_runner}: {switches}"
    for warning in deploy.warnings:
        yield f"# warning: {warning}"


def _tree(deploy: Deploy) -> dict[str, Any]:
    """The sections, without what is unset."""
    tree = {name: msgspec.to_builtins(getattr(deploy, name)) for name in _SECTIONS}
    tree["stages"]["talker"]["model_runner"] = deploy.runner.model_runner
    return tree


def _lines(tree: dict[str, Any], deploy: Deploy, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    indent = "  " * len(path)
    for key, value in tree.items():
        here = (*path, key)
        if isinstance(value, dict):
            below = list(_lines(value, deploy, here))
            yield from [(f"{indent}{key}:", ""), *below] if below else []
        elif value is not None:
            yield f"{indent}{key}: {_text(value)}", _origin(deploy, ".".join(here))


def _text(value: object) -> str:
    line = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000)
    return line.removesuffix("...\n").strip()


def _origin(deploy: Deploy, path: str) -> str:
    unsaid = f"default of {deploy.platform}" if path.endswith(".model_runner") else "default"
    return deploy.provenance.get(path, unsaid)


def _flat(deploy: Deploy) -> Iterator[tuple[str, Any]]:
    yield "platform", deploy.platform
    for name, value in features(deploy).items():
        yield f"runner.{name}", value
    yield from _leaves(_tree(deploy), ())


def _leaves(tree: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        elif value is not None:
            yield ".".join((*path, key)), value


def _told(values: dict[str, Any], path: str, deploy: Deploy) -> str:
    if path not in values:
        return "unset"
    resolved = path == "platform" or path.startswith("runner.")
    return f"{_text(values[path])}{'' if resolved else f' ({_origin(deploy, path)})'}"
