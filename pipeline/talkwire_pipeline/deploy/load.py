"""Loads a deployment: profile or file, then environment, then `--set`; one typed result. Pure.

The overlays, chains and near-name hints of docs/design.md section 5 grow here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import yaml

from talkwire_pipeline.deploy.schema import Deploy, resolve_geometry
from talkwire_pipeline.errors import DeployError, InvalidArgumentError
from talkwire_pipeline.sampling import check

ENVIRONMENT_PREFIX = "TALKWIRE_"
"""`TALKWIRE_TALKER__MAX_NUM_SEQS=8` sets `stages.talker.max_num_seqs`."""
_STAGES = ("talker", "codec")
_BOOL = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
    """YAML whose only booleans are true and false, as in YAML 1.2: `continuity: off` names a choice."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def load(
    profile: str = "demo",
    *,
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Deploy:
    """The deployment of a shipped profile (by name) or of a file (by path).

    `overrides` are `path.to.key=value` as `--set` takes them, their values YAML; `environment` defaults to
    `os.environ`. Raises `DeployError` with the source and the key's path.
    """
    tree, sources = _read(profile), [profile]
    env = os.environ if environment is None else environment
    for name, text in sorted(env.items()):
        if name.startswith(ENVIRONMENT_PREFIX) and "__" in name:
            _assign(tree, name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"), text, name)
            sources.append(name)
    for item in overrides:
        path, sign, text = item.partition("=")
        if not sign:
            raise DeployError(f"--set {item}: expected path.to.key=value")
        _assign(tree, path.strip().split("."), text, f"--set {item}")
        sources.append(f"--set {item}")
    return _convert(tree, profile, " + ".join(sources))


def profiles() -> list[str]:
    """Names of the profiles that are shipped."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _folder().iterdir() if entry.name.endswith(".yaml"))


def _folder() -> Any:
    return files("talkwire_pipeline.deploy") / "profiles"


def _read(profile: str) -> dict[str, Any]:
    path: Any = Path(profile) if profile.endswith((".yaml", ".yml")) else _folder() / f"{profile}.yaml"
    if not path.is_file():
        raise DeployError(f"{profile}: no such profile, nor a .yaml file; shipped profiles: {', '.join(profiles())}")
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.YAMLError as error:
        raise DeployError(f"{profile}: not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise DeployError(f"{profile}: expected a mapping of sections at the top")
    return tree


def _assign(tree: dict[str, Any], path: list[str], text: str, source: str) -> None:
    """Puts a value given as text at `path`; `stages.` may be left out."""
    if path[0] in _STAGES:
        path = ["stages", *path]
    node = tree
    for key in path[:-1]:
        node = node.setdefault(key, {})
        if not isinstance(node, dict):
            raise DeployError(f"{source}: {key} is not a section")
    node[path[-1]] = yaml.load(text, _Loader)


def _convert(tree: dict[str, Any], profile: str, source: str) -> Deploy:
    try:
        deploy = msgspec.convert({"profile": profile, **tree}, Deploy)
        check(deploy.sampling)
        resolve_geometry(deploy.connectors.codes)
    except (msgspec.ValidationError, InvalidArgumentError) as error:
        raise DeployError(f"{source}: {error}") from error
    return deploy
