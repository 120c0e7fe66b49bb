"""The Kubernetes objects fit together, and say what the server does: no cluster is needed for that."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from talkwire_pipeline.deploy import Deploy, load
from talkwire_pipeline.keeper import Limits
from talkwire_server import cli
from talkwire_server.app import STOP_GRACE_S
from talkwire_server.servicer import SERVICE
from tools import dockerfile, metrics_table

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "kubernetes"
FOLDERS = ("base", "monitoring", "gateway", "higgs-v3")
NOT_APPLIED = {"monitoring/prometheus-adapter.yaml"}
"""No objects of Kubernetes: values of a Helm chart."""
VERSIONS = ("1.30", "1.37")
"""The oldest that the objects are for, since `preStop.sleep` is there, and the newest whose schema we have."""
LABELS = {"app.kubernetes.io/name": "talkwire"}
ENVIRONMENT = {"base": {"TALKWIRE_PLATFORM": "cpu"}, "higgs-v3": {"TALKWIRE_PLATFORM": "cuda"}}
"""What the images say beside the objects."""

Object = dict[str, Any]


def documents(path: str) -> list[Object]:
    return list(yaml.safe_load_all((KUBERNETES / path).read_text()))


OBJECTS = {
    (each["kind"], each["metadata"]["name"]): each
    for folder in FOLDERS[:3]
    for path in sorted((KUBERNETES / folder).glob("*.yaml"))
    for each in documents(f"{folder}/{path.name}")
    if "metadata" in each
}
DEPLOYMENT = OBJECTS["Deployment", "talkwire"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
(PATCH,) = documents("higgs-v3/deployment.yaml")
POD_PATCH = PATCH["spec"]["template"]["spec"]
CONTAINERS: dict[str, Object] = {"base": CONTAINER, "higgs-v3": POD_PATCH["containers"][0]}


def deployed(name: str) -> Deploy:
    """What the server makes of a container's arguments and environment."""
    container = CONTAINERS[name]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    options = cli._parser().parse_args(container["args"])
    environment = ENVIRONMENT[name] | given
    return load(options.profile, platform=None, overrides=cli._overrides(options), environment=environment)


def merged(name: str, probe: str) -> Object:
    return {**CONTAINER[probe], **CONTAINERS[name].get(probe, {})}


# ---- files


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_kustomization_names_its_folder_whole(folder: str) -> None:
    (kustomization,) = documents(f"{folder}/kustomization.yaml")
    named = [*kustomization["resources"], *(patch["path"] for patch in kustomization.get("patches", ()))]
    here = {path.name for path in (KUBERNETES / folder).iterdir()} - {Path(path).name for path in NOT_APPLIED}
    assert {"kustomization.yaml", *(path for path in named if "/" not in path)} == here
    assert all((KUBERNETES / folder / path).exists() for path in named)


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_what_kubernetes_takes(version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    own = [
        each for each in OBJECTS.values() if each["apiVersion"].split("/")[0] in {"v1", "apps", "policy", "autoscaling"}
    ]
    assert len(own) == 5
    for each in own:
        kubernetes_validate.validate(each, version, strict=True)


# ---- the deployment


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_ports_are_those_of_the_server(name: str) -> None:
    options = cli._parser().parse_args(CONTAINERS[name]["args"])
    assert CONTAINERS[name]["args"][0] == "serve"
    assert options.host == "0.0.0.0"
    assert options.port == cli._parser().parse_args(["serve"]).port
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"grpc": options.port, "metrics": deployed(name).server.metrics_port}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert merged(name, probe)["grpc"] == {"port": options.port, "service": ""}


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_grace_period_is_longer_than_a_drain(name: str) -> None:
    sleep_s = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    limits = Limits()
    ends_s = STOP_GRACE_S + limits.stop_s + limits.terminate_s
    grace_s = POD_PATCH.get("terminationGracePeriodSeconds", POD["terminationGracePeriodSeconds"])
    assert grace_s > sleep_s + deployed(name).server.drain_timeout_s + ends_s


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe"])
def test_nobody_is_killed_while_a_stage_starts(name: str, probe: str) -> None:
    patience_s = merged(name, probe)["periodSeconds"] * merged(name, probe)["failureThreshold"]
    stages = deployed(name).stages
    assert patience_s > max(stages.talker.start_timeout_s, stages.codec.start_timeout_s)


def test_a_replica_of_the_demo_voice_takes_as_many_as_it_has_slots() -> None:
    deploy = deployed("base")
    assert deploy.server.max_live_utterances == deploy.stages.talker.max_num_seqs


def test_the_user_is_that_of_the_image_and_has_few_rights() -> None:
    for name in ("Dockerfile", "Dockerfile.cuda"):
        stage = dockerfile.stages((ROOT / "docker" / name).read_text())[-1]
        (user,) = (each.argument for each in stage if each.name == "USER")
        assert user == f"{POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}"
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["automountServiceAccountToken"] is False
    assert CONTAINER["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]


def test_images_are_pinned_to_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert CONTAINERS["base"]["image"] == f"talkwire:{version}"
    assert CONTAINERS["higgs-v3"]["image"] == f"talkwire-cuda:{version}"


def test_the_models_are_mounted_where_the_image_looks() -> None:
    stage = dockerfile.stages((ROOT / "docker" / "Dockerfile.cuda").read_text())[-1]
    (environment,) = (each.argument for each in stage if each.name == "ENV")
    (mount,) = CONTAINERS["higgs-v3"]["volumeMounts"]
    assert f"HF_HOME={mount['mountPath']} " in environment
    assert mount["readOnly"] is True
    assert {mount["name"], "tmp"} == {volume["name"] for volume in POD_PATCH["volumes"]}


# ---- who finds it


def test_everybody_means_the_same_pods() -> None:
    assert (
        DEPLOYMENT["spec"]["selector"]["matchLabels"] == DEPLOYMENT["spec"]["template"]["metadata"]["labels"] == LABELS
    )
    for name in ("talkwire", "talkwire-headless"):
        service = OBJECTS["Service", name]
        assert service["spec"]["selector"] == service["metadata"]["labels"] == LABELS
        for port in service["spec"]["ports"]:
            assert port["port"] in {
                each["containerPort"] for each in CONTAINER["ports"] if each["name"] == port["targetPort"]
            }
    assert OBJECTS["Service", "talkwire-headless"]["spec"]["clusterIP"] == "None"
    assert OBJECTS["PodDisruptionBudget", "talkwire"]["spec"]["selector"]["matchLabels"] == LABELS
    target = OBJECTS["HorizontalPodAutoscaler", "talkwire"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", DEPLOYMENT["metadata"]["name"])
    assert "replicas" not in DEPLOYMENT["spec"]  # they are the autoscaler's


def test_each_replica_is_scraped_once() -> None:
    monitor = OBJECTS["ServiceMonitor", "talkwire"]["spec"]
    assert monitor["selector"]["matchLabels"] == LABELS
    (endpoint,) = monitor["endpoints"]
    ports = [
        port["name"] for kind, name in OBJECTS if kind == "Service" for port in OBJECTS[kind, name]["spec"]["ports"]
    ]
    assert ports.count(endpoint["port"]) == 1


def test_the_autoscaler_asks_for_what_the_adapter_makes_of_our_metrics() -> None:
    (rule,) = documents("monitoring/prometheus-adapter.yaml")[0]["rules"]["custom"]
    (metric,) = OBJECTS["HorizontalPodAutoscaler", "talkwire"]["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]
    ours = {each.name: each for each in metrics_table.catalogue()}
    used = re.findall(r"talkwire_\w+", rule["metricsQuery"])
    assert used == ["talkwire_live_utterances", "talkwire_capacity"]
    assert all(ours[name].kind == "gauge" for name in used)
    assert ours["talkwire_capacity"].labels == ("of",)
    assert rule["seriesQuery"].startswith(used[0] + "{")


def test_the_gateway_leads_to_the_service_and_ends_no_stream() -> None:
    gateway, route = OBJECTS["Gateway", "talkwire"]["spec"], OBJECTS["GRPCRoute", "talkwire"]["spec"]
    (parent,), (rule,) = route["parentRefs"], route["rules"]
    assert parent == {"name": "talkwire", "sectionName": gateway["listeners"][0]["name"]}
    assert [each["method"]["service"] for each in rule["matches"]] == [SERVICE, "grpc.health.v1.Health"]
    (backend,) = rule["backendRefs"]
    assert backend["port"] in {port["port"] for port in OBJECTS["Service", backend["name"]]["spec"]["ports"]}
    policy = OBJECTS["BackendTrafficPolicy", "talkwire"]["spec"]
    assert policy["targetRefs"] == [{"group": "gateway.networking.k8s.io", "kind": "GRPCRoute", "name": "talkwire"}]
    assert policy["timeout"]["http"] == {"requestTimeout": "0s", "maxStreamDuration": "0s"}
