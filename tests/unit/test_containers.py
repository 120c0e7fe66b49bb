"""Images and the compose file say what the server does: no Docker engine is needed for that."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml

from talkwire import cli as client
from talkwire_pipeline.deploy import Deploy, load
from talkwire_server import cli as server
from tools import dockerfile
from tools.dockerfile import Instruction

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILES = ("Dockerfile", "Dockerfile.cuda")
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+\.\d+(-[\w.-]+)?")
"""A name with a whole version: no `latest`, no version that moves."""


def lines(name: str) -> list[Instruction]:
    return dockerfile.instructions((DOCKER / name).read_text())


def last_stage(name: str) -> list[Instruction]:
    return dockerfile.stages((DOCKER / name).read_text())[-1]


def said(stage: list[Instruction], name: str) -> str:
    (argument,) = (each.argument for each in stage if each.name == name)
    return argument


def environment(stage: list[Instruction]) -> dict[str, str]:
    return dict(pair.split("=", 1) for each in stage if each.name == "ENV" for pair in each.argument.split())


def command(stage: list[Instruction]) -> Namespace:
    """What the server makes of the image's command."""
    return server._parser().parse_args(json.loads(said(stage, "CMD")))


def deployed(options: Namespace, env: dict[str, str]) -> Deploy:
    return load(options.profile, platform=options.platform, overrides=server._overrides(options), environment=env)


# ---- Dockerfiles


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_image_starts_a_server_on_the_usual_ports(name: str) -> None:
    stage = last_stage(name)
    assert json.loads(said(stage, "ENTRYPOINT")) == ["talkwire-server"]
    assert said(stage, "STOPSIGNAL") == "SIGTERM"
    options = command(stage)
    assert options.port == server._parser().parse_args(["serve"]).port
    assert said(stage, "EXPOSE").split() == [str(options.port), str(options.metrics_port)]
    assert options.host == "0.0.0.0"
    deploy = deployed(options, environment(stage))
    assert deploy.server.metrics_port == options.metrics_port
    assert deploy.platform == ("cuda" if name == "Dockerfile.cuda" else "cpu")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_health_check_asks_that_server(name: str) -> None:
    stage = last_stage(name)
    options, _, check = said(stage, "HEALTHCHECK").partition("CMD ")
    program, *arguments = json.loads(check)
    assert program == "talkwire"
    asked = client.parser().parse_args(arguments)
    assert asked.command is client._health
    assert asked.target == f"127.0.0.1:{command(stage).port}"
    start_s = int(re.findall(r"--start-period=(\d+)s", options)[0])
    assert start_s >= deployed(command(stage), environment(stage)).stages.talker.start_timeout_s


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_image_runs_as_a_fixed_user(name: str) -> None:
    stage = last_stage(name)
    uid, gid = said(stage, "USER").split(":")
    assert uid == gid != "0"
    assert any(each.name == "RUN" and f"useradd --uid {uid} " in each.argument for each in stage)
    folders = [each.argument for each in stage if each.name == "WORKDIR"]
    assert environment(stage)["HOME"] == folders[-1] == "/tmp"  # the only place that can be written


@pytest.mark.parametrize("name", DOCKERFILES)
def test_base_images_are_pinned(name: str) -> None:
    values = dict(each.argument.split("=", 1) for each in lines(name) if each.name == "ARG")
    for each in lines(name):
        if each.name == "FROM":
            image = re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], each.argument.split()[0])
            assert PINNED.fullmatch(image)


def test_pytorch_is_the_one_of_the_checkout() -> None:
    values = [each.argument for each in lines("Dockerfile") if each.name == "ARG"]
    torch = re.findall(r"^TORCH \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0]
    assert f"TORCH={torch}" in values
    assert "TORCH_INDEX_URL=" in values  # no host is named here


def test_vllm_is_one_that_we_support() -> None:
    (version,) = (each.argument.partition("=")[2] for each in lines("Dockerfile.cuda") if each.name == "ARG")
    least, most = re.findall(r"\d+\.\d+", PROJECT["optional-dependencies"]["vllm"][0])
    number = [int(part) for part in version.split(".")]
    assert [int(part) for part in least.split(".")] <= number < [int(part) for part in most.split(".")]


def test_the_build_gets_what_it_needs_and_no_more() -> None:
    ignored = (ROOT / ".dockerignore").read_text()
    assert ignored.splitlines()[2] == "*"
    copied = set(dockerfile.context(ignored))
    assert {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "clients", "pipeline", "server"} == copied
    assert all((ROOT / path).exists() for path in copied)


@pytest.mark.parametrize("index", ["", "https://an.index/cpu"])
def test_the_steps_run_in_a_shell(tmp_path: Path, index: str) -> None:
    stage = dockerfile.stages((DOCKER / "Dockerfile").read_text())[0]
    tools, root, log = tmp_path / "bin", tmp_path / "root", tmp_path / "log"
    tools.mkdir()
    for name in ("python", "pip", "talkwire-server"):
        (tools / name).write_text(
            f'#!/bin/sh\nfor word in {name} "$@"; do printf "[%s]" "$word"; done >>{log}\necho >>{log}\n'
        )
        (tools / name).chmod(0o755)
    script = dockerfile.script(stage, ["pyproject.toml", "pipeline"])
    env = {"PATH": f"{tools}:/usr/bin:/bin", "ROOT": str(root), "TORCH_INDEX_URL": index}
    subprocess.run(["sh", "-c", script], cwd=ROOT, env=env, check=True, capture_output=True)
    ran = log.read_text().splitlines()
    assert ran[0] == f"[python][-m][venv][{root}/opt/talkwire]"
    assert ran[1].startswith(
        "[pip][install][--no-cache-dir]" + (f"[--index-url][{index}]" if index else "") + "[torch=="
    )
    assert ran[2] == "[pip][install][--no-cache-dir][.[server]][./pipeline/talkwire_demo]"
    assert ran[3].startswith("[talkwire-server][config]")
    assert (root / "src" / "pipeline" / "talkwire_demo" / "pyproject.toml").exists()


@pytest.mark.skipif(shutil.which("hadolint", path=Path(sys.executable).parent) is None, reason="hadolint is missing")
def test_hadolint_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    files = [str(DOCKER / name) for name in DOCKERFILES]
    ran = subprocess.run([hadolint, "--config", DOCKER / "hadolint.yaml", *files], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")


# ---- compose


def bound(service: dict[str, Any]) -> dict[str, Path]:
    """Folders and files of the checkout that a service gets: where, and which."""
    mounts = (volume.split(":") for volume in service.get("volumes", ()))
    return {parts[1]: DOCKER / parts[0] for parts in mounts if parts[0].startswith(".")}


def seconds(text: str) -> float:
    (number,) = re.fullmatch(r"(\d+)s", text).groups()  # type: ignore[union-attr]
    return float(number)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_and_has_few_rights(name: str) -> None:
    service = SERVICES[name]
    assert PINNED.fullmatch(service["image"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "healthcheck" in service or "build" in service
    for place in bound(service).values():
        assert place.exists()
    for volume in service.get("volumes", ()):
        assert volume.startswith(".") == volume.endswith(":ro")
        assert volume.startswith(".") or volume.split(":")[0] in COMPOSE["volumes"]


def test_the_speech_service_is_our_image() -> None:
    service, stage = SERVICES["talkwire"], last_stage("Dockerfile")
    assert service["image"] == f"talkwire:{PROJECT['version']}"
    build = service["build"]
    assert (DOCKER / build["context"] / build["dockerfile"]).samefile(DOCKER / "Dockerfile")
    assert set(build["args"]) <= {each.argument.split("=")[0] for each in lines("Dockerfile") if each.name == "ARG"}
    port = command(stage).port
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert seconds(service["stop_grace_period"]) > deployed(command(stage), environment(stage)).server.drain_timeout_s


def test_prometheus_scrapes_the_server_and_reads_the_rules() -> None:
    service = SERVICES["prometheus"]
    options = dict(each.removeprefix("--").split("=") for each in service["command"])
    ((folder, place),) = bound(service).items()
    config = yaml.safe_load((place / Path(options["config.file"]).relative_to(folder)).read_text())
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"talkwire:{command(last_stage('Dockerfile')).metrics_port}"]}]
    assert config["rule_files"] == ["rules/*.yml"]
    assert any(volume.endswith(f":{options['storage.tsdb.path']}") for volume in service["volumes"])


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    service = SERVICES["grafana"]
    ((folder, place),) = bound(service).items()
    assert service["environment"]["GF_PATHS_PROVISIONING"] == f"{folder}/provisioning"
    (source,) = yaml.safe_load((place / "provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    assert source["uid"] == "prometheus"
    assert source["url"] == "http://prometheus:" + SERVICES["prometheus"]["ports"][0].split(":")[2]
    (provider,) = yaml.safe_load((place / "provisioning/dashboards/talkwire.yaml").read_text())["providers"]
    assert provider["options"]["path"] == f"{folder}/dashboards"


def test_the_compose_file_is_one_by_its_schema() -> None:
    pytest.importorskip("check_jsonschema")
    arguments = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(DOCKER / "compose.yaml")]
    ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
