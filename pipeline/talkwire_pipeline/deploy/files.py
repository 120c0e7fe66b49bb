"""Finds and reads a deploy file and the chain of files that it is laid over."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from talkwire_pipeline.deploy.tree import Leaf, Section, parse
from talkwire_pipeline.errors import DeployError

MAX_FILE_BYTES = 1 << 20
"""A deploy file has some kilobytes."""


def profiles() -> list[str]:
    """Names of the profiles that are shipped."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _folder().iterdir() if entry.name.endswith(".yaml"))


def read_chain(profile: str) -> list[Section]:
    """The file of a profile and all that it is based on, the oldest first; each one's layer is its place.

    Raises `DeployError` for a file that is not there, cannot be read, or is based on itself.
    """
    found: _File | None = _locate(profile, "", None)
    chain: list[_File] = []
    while found is not None:
        chain.append(found)
        found = _base(found, chain)
    chain.reverse()
    return [parse(file.text(), file.name, layer) for layer, file in enumerate(chain)]


@dataclass(frozen=True)
class _File:
    """`name` is how messages call it, `folder` where its bases are looked for: None among the shipped ones."""

    name: str
    path: Traversable
    folder: Path | None

    def text(self) -> str:
        try:
            data = self.path.read_bytes()
            if len(data) > MAX_FILE_BYTES:
                raise DeployError(f"{self.name}: has {len(data)} bytes, which is no deploy file")
            return data.decode("utf-8-sig")
        except OSError as error:
            raise DeployError(f"{self.name}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise DeployError(f"{self.name}: not UTF-8 at byte {error.start}") from error


def _base(file: _File, chain: list[_File]) -> _File | None:
    """What a file says it is based on. Another type than a string is the schema's to refuse."""
    node = parse(file.text(), file.name).items.get("base_config")
    if not isinstance(node, Leaf) or not isinstance(node.value, str) or not node.value:
        return None
    base = _locate(node.value, f"{node.origin}: base_config: ", file.folder)
    if any(each.path == base.path for each in chain):
        circle = " -> ".join([*(each.name for each in chain), base.name])
        raise DeployError(f"{node.origin}: base_config: {circle} goes in a circle")
    return base


def _locate(name: str, asked: str, folder: Path | None) -> _File:
    """A file by its path, from the folder of the file that asks, or a shipped profile by its name."""
    if name in profiles():
        return _File(f"profiles/{name}.yaml", _folder() / f"{name}.yaml", None)
    if name.endswith((".yaml", ".yml")) and "\0" not in name:
        path = ((folder or Path()) / name).resolve()
        if path.is_file():
            return _File(name, path, path.parent)
    known = ", ".join(profiles())
    raise DeployError(f"{asked}{name}: no such profile, nor a .yaml file; shipped profiles: {known}")


def _folder() -> Traversable:
    return files("talkwire_pipeline.deploy") / "profiles"
