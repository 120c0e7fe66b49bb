"""What a process really loads."""

import subprocess
import sys

CLIENT = """
import sys
for name in ("numpy", "rich", "torch", "yaml", "msgspec", "talkwire_pipeline"):
    sys.modules[name] = None  # importing it fails from here on
import talkwire, talkwire.cli
"""
SERVER = """
import importlib, pkgutil, sys
import talkwire_server
for module in pkgutil.walk_packages(talkwire_server.__path__, "talkwire_server."):
    importlib.import_module(module.name)
heavy = {"torch", "transformers", "jax", "tensorflow"} & set(sys.modules)
assert not heavy, heavy
"""


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_client_runs_on_its_three_dependencies() -> None:
    run(CLIENT)


def test_the_server_loads_no_torch() -> None:
    run(SERVER)
