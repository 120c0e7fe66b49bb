"""Loads a deployment: files, the platform's overlay, environment, then `--set`; one typed, resolved result."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import msgspec

from talkwire_pipeline import sampling
from talkwire_pipeline.deploy import platforms, runner, security
from talkwire_pipeline.deploy.check import Path, Problem, problems, refuse
from talkwire_pipeline.deploy.files import read_chain
from talkwire_pipeline.deploy.schema import (
    GEOMETRY_KEYS,
    Body,
    Codes,
    Deploy,
    File,
    Platform,
    geometry_keys,
    resolve_geometry,
)
from talkwire_pipeline.deploy.tree import Leaf, Node, Origin, Section, merge, parse_value, plain, put, without
from talkwire_pipeline.errors import DeployError, InvalidArgumentError
from talkwire_pipeline.geometry import Geometry

ENVIRONMENT_PREFIX = "TALKWIRE_"
"""`TALKWIRE_TALKER__MAX_NUM_SEQS=8` sets `stages.talker.max_num_seqs`."""
_STAGES = ("talker", "codec")
_CODES: Path = ("connectors", "codes")


def load(
    profile: str = "demo",
    *,
    platform: str | None = None,
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Deploy:
    """The deployment of a shipped profile (by name) or of a file (by path).

    Args:
        profile: the name or path.
        platform: where it will run; None: `TALKWIRE_PLATFORM`, else what this machine is.
        overrides: `path.to.key=value` as `--set` takes them, their values YAML.
        environment: None: the process's own.

    Raises `DeployError` with every fault: file and line, path of the key, what is wrong and the way out.
    """
    env = os.environ if environment is None else environment
    chain = read_chain(profile)
    settings = [_settings(_from_environment(env)), _settings(_from_command_line(overrides))]
    refuse(
        [
            *(problem for tree in chain for problem in problems(tree, File)),
            *(problem for tree in settings for problem in problems(tree, Body)),
        ]
    )
    where = _platform(platform, env)
    merged, hidden = lay_over(chain, settings, where)
    return resolve(profile, where, merged, hidden)


def _platform(given: str | None, env: Mapping[str, str]) -> Platform:
    if given is not None:
        return platforms.named(given, "--platform")
    if name := env.get(platforms.ENVIRONMENT_NAME):
        return platforms.named(name, platforms.ENVIRONMENT_NAME)
    return platforms.detect(platforms.installed_torch())


# ---- what is laid over what


def lay_over(chain: Iterable[Section], settings: Iterable[Section], platform: Platform) -> tuple[Section, list[str]]:
    """Files, then their overlays for the platform, then the settings; and what an overlay hid."""
    files = list(chain)
    body = _merge_all(expand_geometry(without(tree, "base_config", "platforms")) for tree in files)
    overlay = _merge_all(expand_geometry(each) for tree in files if (each := _section(tree, "platforms", platform)))
    hidden = list(_hidden(body, overlay, platform))
    return _merge_all([body, overlay, *map(expand_geometry, settings)]), hidden


def _merge_all(trees: Iterable[Section]) -> Section:
    return reduce(merge, trees, Section(Origin("default")))


def _section(tree: Section, *path: str) -> Section | None:
    node = tree.find(*path)
    return node if isinstance(node, Section) else None


def expand_geometry(tree: Section) -> Section:
    """The tree with every number that its geometry preset stands for, so that a preset replaces what is below it."""
    codes = _section(tree, *_CODES)
    name = codes.items.get("geometry") if codes else None
    if not codes or not isinstance(name, Leaf):
        return tree
    numbers = {key: Leaf(value, name.origin) for key, value in geometry_keys(name.value).items()}
    return merge(tree, put(_CODES, Section(codes.origin, {**numbers, **codes.items})))


def _hidden(body: Section, overlay: Section, platform: str) -> Iterator[str]:
    """One warning for each place of a later file whose value an earlier file's overlay replaces."""
    told: set[Origin] = set()
    for path, above in overlay.leaves():
        below = body.find(*path)
        if not isinstance(below, Leaf) or below.origin in told or below.value == above.value:
            continue
        if below.origin.layer > above.origin.layer:
            told.add(below.origin)
            yield (
                f"{below.origin}: {'.'.join(path)}: {below.value} is not used on {platform}, where {above.origin} "
                f"says {above.value}: put it under platforms.{platform} to change it there"
            )


# ---- environment and command line


def _settings(given: Iterable[tuple[list[str], Node]]) -> Section:
    """One tree of what is set, the later ones over the earlier; `stages.` may be left out."""
    tree = Section(Origin("default"))
    for path, node in given:
        whole = (*(("stages",) if path[0] in _STAGES else ()), *path)
        tree = merge(tree, put(whole, node))
    return tree


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[list[str], Node]]:
    for name, text in sorted(env.items()):
        if name.startswith(ENVIRONMENT_PREFIX) and "__" in name:
            path = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
            yield path, parse_value(text, name, 1 << 20)


def _from_command_line(overrides: Iterable[str]) -> Iterator[tuple[list[str], Node]]:
    for item in overrides:
        path, sign, text = item.partition("=")
        if not sign:
            raise DeployError(f"--set {item}: expected path.to.key=value")
        yield path.strip().split("."), parse_value(text, f"--set {item}", 1 << 21)


# ---- from a tree to a deployment


def resolve(profile: str, platform: Platform, tree: Section, warnings: Iterable[str] = ()) -> Deploy:
    """The deployment of a merged tree that fits the schema. Raises `DeployError` for what does not go together."""

    def origin(path: Path) -> Origin:
        node = tree.find(*path)
        return Origin(f"default of {platform}") if node is None else node.origin

    body = msgspec.convert(plain(tree), Body)
    name = body.stages.talker.model_runner or platforms.DEFAULT_RUNNER[platform]
    has_triton = importlib.util.find_spec("triton") is not None
    options, findings = runner.resolve(body.stages, name, platform, origin, has_triton)
    choice, faults = _choice(body.sampling, name)
    found = [Problem(origin(("sampling", key)), ("sampling", key), fault) for key, fault in faults]
    try:
        geometry = resolve_geometry(body.connectors.codes)
    except InvalidArgumentError as error:
        found.append(Problem(*_geometry_fault(error, origin)))
        geometry = Geometry()
    refuse([*findings.problems, *found, *security.problems(body.server, origin)])
    rough = [f"{origin((*_CODES, 'geometry'))}: {warning}" for warning in _rough(geometry)]
    return Deploy(
        profile=profile,
        platform=platform,
        runner=options,
        model=body.model,
        stages=body.stages,
        connectors=msgspec.structs.replace(body.connectors, codes=_explicit(body.connectors.codes, geometry)),
        sampling=choice,
        text=body.text,
        server=body.server,
        provenance={".".join(path): str(leaf.origin) for path, leaf in tree.leaves()},
        warnings=(*warnings, *findings.warnings, *rough, *security.warnings(body.server, origin)),
    )


def _choice(values: Mapping[str, Any], name: sampling.Runner) -> tuple[sampling.SamplingChoice, list[tuple[str, str]]]:
    """The values that a draw takes (a neutral one of another kind is none), and what is wrong with them."""
    faults = list(sampling.problems(values, name))
    taken = {key: values[key] for key in sampling.SamplingChoice.__struct_fields__ if key in values}
    return sampling.SamplingChoice() if faults else msgspec.convert(taken, sampling.SamplingChoice), faults


def _geometry_fault(error: InvalidArgumentError, origin: Any) -> tuple[Origin, Path, str]:
    ours = error.field.rpartition(".")[2]
    key = next((key for key, name in GEOMETRY_KEYS.items() if name == ours), ours)
    return origin((*_CODES, key)), (*_CODES, key), error.description


def _explicit(codes: Codes, geometry: Geometry) -> Codes:
    numbers = {key: getattr(geometry, name) for key, name in GEOMETRY_KEYS.items()}
    return msgspec.structs.replace(codes, geometry=geometry.preset, **numbers)


def _rough(geometry: Geometry) -> Iterator[str]:
    """A warning for a geometry with which borders of chunks differ from the offline decode."""
    error = geometry.seam_error
    if error:
        yield (
            f"connectors.codes.geometry: {geometry.preset} (left {geometry.left}, holdback {geometry.holdback}) is not "
            f"seam-exact: {error}; exact and exact-fast are"
        )
