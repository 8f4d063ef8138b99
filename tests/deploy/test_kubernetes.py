"""The manifests in `deploy/kubernetes`, against Kubernetes's schemas and what they start."""

import copy
import re
import types
import urllib.error
import urllib.request

import pytest
import yaml

from keras_transformer.toolkit.cli import make_parser
from tests.external_data import ROOT
from tests.pages.page import Page

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="not installed")

PAGE = Page("docs/scaling.md")
FOLDER = ROOT / "deploy" / "kubernetes"
MANIFESTS = {
    (path.stem, manifest["kind"]): manifest
    for path in sorted(FOLDER.glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text("utf-8"))
}
VERSIONS = ("1.31", kubernetes_validate.latest_version())
# Of TFJob, whose schema is no part of Kubernetes:
# manifests/base/crds/kubeflow.org_tfjobs.yaml of https://github.com/kubeflow/training-operator
TFJOB = {
    "spec": {"enableDynamicWorker", "runPolicy", "successPolicy", "tfReplicaSpecs"},
    "runPolicy": {
        "activeDeadlineSeconds",
        "backoffLimit",
        "cleanPodPolicy",
        "schedulingPolicy",
        "suspend",
        "ttlSecondsAfterFinished",
    },
    "replica": {"replicas", "restartPolicy", "template"},
    "restartPolicy": {"Always", "OnFailure", "Never", "ExitCode"},
}


class Misspelt(Exception):
    """A field that a kind does not have."""


def validate(manifest, version):
    """Raise an error if a manifest is not one of Kubernetes or a TFJob."""
    if manifest["kind"] == "TFJob":
        for template in validate_tfjob(manifest):
            template = {"kind": "PodTemplate", "apiVersion": "v1", "template": template}
            kubernetes_validate.validate(template, version, strict=True)
    else:
        kubernetes_validate.validate(manifest, version, strict=True)


def validate_tfjob(manifest):
    """Check the fields of a TFJob; returns the templates of its pods."""
    spec = manifest["spec"]
    assert manifest["apiVersion"] == "kubeflow.org/v1"
    replicas = list(spec.get("tfReplicaSpecs", {}).values())
    parts = [("spec", spec), ("runPolicy", spec.get("runPolicy", {}))]
    for name, part in [*parts, *(("replica", replica) for replica in replicas)]:
        if set(part) - TFJOB[name]:
            raise Misspelt(set(part) - TFJOB[name])
    assert {replica["restartPolicy"] for replica in replicas} <= TFJOB["restartPolicy"]
    return [replica["template"] for replica in replicas]


def pod(manifest):
    """The specification of the pods that a manifest makes; None if it makes none."""
    spec = manifest["spec"]
    spec = spec.get("tfReplicaSpecs", {}).get("Worker", spec)
    return spec["template"]["spec"] if "template" in spec else None


PODS = {name: pod(manifest) for name, manifest in MANIFESTS.items() if pod(manifest)}
TRAININGS = [name for name in PODS if name[0].startswith("train")]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS, ids="-".join)
def test_it_fits_the_schema(name, version):
    validate(MANIFESTS[name], version)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (("volume", "PersistentVolumeClaim"), ["spec", "accessModes"]),
        (("train-tensorflow", "TFJob"), ["spec", "tfReplicaSpecs"]),
        (("train-tensorflow", "TFJob"), ["spec", "runPolicy", "backoffLimit"]),
        (
            ("train-tensorflow", "TFJob"),
            ["spec", "tfReplicaSpecs", "Worker", "template", "spec", "volumes"],
        ),
        (("train-jax", "Job"), ["spec", "completionMode"]),
        (("train-jax", "Job"), ["spec", "template", "spec", "containers", 0, "env", 3, "name"]),
        (("train-jax", "Service"), ["spec", "clusterIP"]),
        (
            ("serve", "Deployment"),
            ["spec", "template", "spec", "containers", 0, "readinessProbe", "httpGet"],
        ),
    ],
    ids=lambda value: str(value[-1]),
)
def test_a_misspelt_field_is_found(name, path):
    manifest = copy.deepcopy(MANIFESTS[name])
    part = manifest
    for key in path[:-1]:
        part = part[key]
    part[path[-1] + "s"] = part.pop(path[-1])
    with pytest.raises((Misspelt, kubernetes_validate.ValidationError)):
        validate(manifest, VERSIONS[-1])


def test_a_wrong_type_is_found():
    manifest = copy.deepcopy(MANIFESTS["train-jax", "Job"])
    pod(manifest)["containers"][0]["env"][2]["value"] = 2  # must be a string
    with pytest.raises(kubernetes_validate.ValidationError, match="not of type 'string'"):
        validate(manifest, VERSIONS[-1])


@pytest.mark.parametrize("name", PODS, ids="-".join)
def test_its_volumes_are_there(name):
    (container,) = PODS[name]["containers"]
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in PODS[name]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    claim = MANIFESTS["volume", "PersistentVolumeClaim"]
    assert claims == [claim["metadata"]["name"]]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    mounted = [mount["name"] for mount in container["volumeMounts"]]
    assert mounted == [volume["name"] for volume in PODS[name]["volumes"]]


@pytest.mark.parametrize("name", TRAININGS, ids="-".join)
def test_a_training_goes_on_after_a_restart(name):
    (container,) = PODS[name]["containers"]
    options = make_parser().parse_args(container["args"])
    assert options.verb.__name__ == "train"
    assert options.resume
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "work"]
    assert str(options.run).startswith(mount["mountPath"] + "/")
    workers = MANIFESTS[name]["spec"].get("tfReplicaSpecs", {}).get("Worker", PODS[name])
    assert workers["restartPolicy"] == "OnFailure"
    assert PODS[name]["terminationGracePeriodSeconds"] >= 60


@pytest.mark.parametrize("name", [*TRAININGS, ("export", "Job")], ids="-".join)
def test_its_program_is_not_process_1_which_would_hear_no_sigterm(name):
    assert PODS[name]["shareProcessNamespace"]


def test_the_commands_of_the_page_name_what_the_manifests_make():
    commands = [line for block in PAGE.blocks("sh") for line in block.splitlines()]
    commands += re.findall(r"`(kubectl [^`]+)`", PAGE.text)
    words = [line.split() for line in commands if line.startswith("kubectl")]
    applied = [line[-1] for line in words if line[1] == "apply"]
    assert len(applied) == 4
    assert all((ROOT / path).is_file() for path in applied)
    named = {word for line in words for word in line if re.fullmatch(r"\w+/[\w-]+", word)}
    made = {f"{kind}/{one['metadata']['name']}".lower() for (_, kind), one in MANIFESTS.items()}
    assert named == {"job/train", "job/export", "tfjob/train", "deployment/translate"}
    assert named <= made


def test_the_operator_finds_the_container():
    (container,) = PODS["train-tensorflow", "TFJob"]["containers"]
    assert container["name"] == "tensorflow"
    assert list(MANIFESTS["train-tensorflow", "TFJob"]["spec"]["tfReplicaSpecs"]) == ["Worker"]


def test_the_pods_of_jax_join(monkeypatch):
    from keras_transformer.training.devices import jax_devices

    job, service = (MANIFESTS["train-jax", kind] for kind in ("Job", "Service"))
    name, spec = job["metadata"]["name"], job["spec"]
    assert service["metadata"]["name"] == pod(job)["subdomain"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert spec["completionMode"] == "Indexed"

    fields = {"metadata.annotations['batch.kubernetes.io/job-completion-index']": "1"}
    variables = {
        entry["name"]: entry.get("value") or fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        for entry in pod(job)["containers"][0]["env"]
    }
    assert variables.pop("KERAS_BACKEND") == "jax"
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert jax_devices.is_one_of_several()

    calls = []
    monkeypatch.setattr(
        jax_devices.jax.distributed, "initialize", lambda *args, **rest: calls.append((args, rest))
    )
    monkeypatch.setattr(jax_devices.jax.config, "update", lambda *_: None)
    jax_devices._join()
    ((arguments, options),) = calls
    # Else JAX asks the cluster, with rights and a library that the pod lacks.
    assert arguments == (f"{name}-0.{service['metadata']['name']}:12345", 2, 1)
    assert options["cluster_detection_method"] == "deactivate"
    assert spec["completions"] == spec["parallelism"] == arguments[1]


def test_the_export_is_what_the_server_reads():
    options = make_parser().parse_args(PODS["export", "Job"]["containers"][0]["args"])
    (training,) = {
        make_parser().parse_args(PODS[name]["containers"][0]["args"]).run for name in TRAININGS
    }
    assert [str(run) for run in options.runs] == [str(training)]
    (server,) = PODS["serve", "Deployment"]["containers"]
    (mount,) = server["volumeMounts"]
    exported = str(options.directory).replace(f"/data/{mount['subPath']}", mount["mountPath"])
    assert f"--model_base_path={exported}" in server["args"]


def test_the_server_is_started_as_by_the_command_serve(served):
    (server,) = PODS["serve", "Deployment"]["containers"]
    options, arguments = served(server["image"])
    assert server["args"] == arguments
    assert [f"--entrypoint={word}" for word in server["command"]] == [
        word for word in options if word.startswith("--entrypoint")
    ]


def test_the_service_leads_to_the_server():
    service, deployment = (MANIFESTS["serve", kind]["spec"] for kind in ("Service", "Deployment"))
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"] == deployment["selector"]["matchLabels"] == labels
    (server,) = PODS["serve", "Deployment"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert ports == {"grpc": 8500, "rest": 8501}
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports


@pytest.mark.tensorflow
def test_the_server_is_ready_once_a_version_is_loaded():
    from tests.serving.servers.model_servers import ModelServer

    (container,) = PODS["serve", "Deployment"]["containers"]
    probes = [container[name]["httpGet"] for name in ("readinessProbe", "startupProbe")]
    assert probes[0] == probes[1]
    answers = []
    for versions in ({}, {1: types.SimpleNamespace(signatures={})}):
        with ModelServer({"en_de": versions}) as server:
            try:
                with urllib.request.urlopen(server.rest_address + probes[0]["path"]) as answer:
                    answers.append(answer.status)
            except urllib.error.HTTPError as error:
                answers.append(error.code)
                error.close()
    assert answers == [404, 200]


@pytest.mark.parametrize("name", PODS, ids="-".join)
def test_a_pod_has_no_more_rights_than_it_needs(name):
    spec = PODS[name]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        own = container["securityContext"]
        assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert re.fullmatch(r"\d+Gi", container["resources"]["limits"]["memory"])


def test_only_clients_reach_the_server():
    spec = MANIFESTS["serve", "NetworkPolicy"]["spec"]
    (rule,) = spec["ingress"]
    ((name, value),) = rule["from"][0]["podSelector"]["matchLabels"].items()
    assert f'`{name}: "{value}"`' in PAGE.text
    pod_labels = MANIFESTS["serve", "Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"] == {"matchLabels": pod_labels}
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in spec
    ports = [port["name"] for port in PODS["serve", "Deployment"]["containers"][0]["ports"]]
    assert [port["port"] for port in rule["ports"]] == ports


def test_the_server_is_of_one_release_as_new_as_tensorflow():
    constraints = (ROOT / "constraints.txt").read_text("utf-8")
    (version,) = re.findall(r"^tensorflow==(.*)$", constraints, flags=re.M)
    compose = (ROOT / "deploy" / "compose" / "compose.yaml").read_text("utf-8")
    (image,) = re.findall(r"image: (tensorflow/serving.*)", compose)
    assert image == f"tensorflow/serving:{version}"
    assert PODS["serve", "Deployment"]["containers"][0]["image"] == image
    manifest = (FOLDER / "serve.yaml").read_text("utf-8")
    assert re.findall(r"imagetools inspect (\S+) ", manifest) == [image]
