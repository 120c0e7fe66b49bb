"""The two wheels hold what they should, and the demo voice loads from its wheel as it does from the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO_FILES = {
    "LICENSE",
    "README.md",
    "__init__.py",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "sentences.txt",
    "tokenizer.json",
    "tokenizer_config.json",
}
FIND = "import talkwire_demo; print(talkwire_demo.PATH)"


def build(folder: Path, out: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    return zipfile.ZipFile(wheel)


def names(wheel: zipfile.ZipFile, package: str) -> set[str]:
    return {name.removeprefix(f"{package}/") for name in wheel.namelist() if name.startswith(f"{package}/")}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT / "pipeline" / "talkwire_demo", tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT, tmp_path_factory.mktemp("product"))


def test_the_demo_wheel_is_the_voice_without_its_training(demo: zipfile.ZipFile) -> None:
    assert names(demo, "talkwire_demo") == DEMO_FILES


def test_the_demo_voice_is_the_same_from_wheel_and_checkout(demo: zipfile.ZipFile, tmp_path: Path) -> None:
    demo.extractall(tmp_path)
    installed = _found(tmp_path)
    assert installed == tmp_path / "talkwire_demo"
    checkout = _found(ROOT / "pipeline")
    for name in DEMO_FILES:
        assert (installed / name).read_bytes() == (checkout / name).read_bytes()


def _found(place: Path) -> Path:
    """Where a fresh interpreter that has `place` on its path finds the voice."""
    code = f"import sys; sys.path.insert(0, {str(place)!r}); {FIND}"
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    return Path(ran.stdout.strip())


def test_the_product_wheel_holds_three_packages(product: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in product.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "talkwire",
        "talkwire_pipeline",
        "talkwire_server",
    }
    assert {"py.typed", "cli.py", "v1/speech_pb2.pyi"} <= names(product, "talkwire")
    assert {"py.typed", "deploy/profiles/demo.yaml"} <= names(product, "talkwire_pipeline")
    assert "py.typed" in names(product, "talkwire_server")


def test_a_plain_install_is_light(product: zipfile.ZipFile) -> None:
    (place,) = (name for name in product.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(product.read(place).decode())
    needs = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {line.split("<")[0].split(">")[0] for line in needs} == {"grpcio", "protobuf", "googleapis-common-protos"}
