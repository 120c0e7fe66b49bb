"""Writes the generated Python of the contract into the client package, and an image for `buf lint`.

Run by `make protos`. The proto path equals the import path, so the generated imports need no fixing.
"""

import sys
from importlib.resources import files
from pathlib import Path

import google.rpc
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent
OUT = ROOT.parent / "clients"
SOURCES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("talkwire/**/*.proto"))


def main(image: str | None) -> int:
    """Generates messages, stubs and type stubs; with `image`, a descriptor set with comments instead."""
    includes = [
        f"-I{ROOT}",
        f"-I{Path(next(iter(google.rpc.__path__))).parents[1]}",
        f"-I{files('grpc_tools') / '_proto'}",
    ]
    outputs = (
        ["--include_imports", "--include_source_info", f"--descriptor_set_out={image}"]
        if image
        else [f"--{kind}={OUT}" for kind in ("python_out", "grpc_python_out", "mypy_out", "mypy_grpc_out")]
    )
    return int(protoc.main(["protoc", *includes, *outputs, *SOURCES]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
