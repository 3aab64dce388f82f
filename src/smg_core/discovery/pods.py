"""The workers among the pods of a Kubernetes cluster.

A pod that runs and is ready is to be used. One that is not ready is not added, though it stays where it is there already: the
gateway's own health checks are quicker and see more. One that is being deleted, or has ended, is to get no new requests.

Pure. Above: watching, which keeps the pods; config.check. Below: base.
"""

import ipaddress
import re
from collections.abc import Callable

import attrs
from msgspec import Struct, field

from smg_core.discovery.base import Condition, Wanted
from smg_core.engines.connections.target import Tls
from smg_core.workers.worker import WorkerRole, WorkerSpec

__all__ = ["Pod", "PodMeta", "PodRules", "model_reader", "workers_of_pod"]

_PORTS = 65535
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_ENDED = frozenset({"Succeeded", "Failed"})
_HANDS_OVER = frozenset({"prefill", "encode"})


class PodMeta(Struct, rename="camel"):
    """The metadata of a pod. Only what is of use here is read; the rest is passed over."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class PodCondition(Struct):
    """A condition of a pod, such as Ready; `status` is "True", "False" or "Unknown"."""

    type: str
    status: str


class PodStatus(Struct):
    """How a pod is. `pod_ip` is "" before it has an address."""

    phase: str = ""
    pod_ip: str = field(name="podIP", default="")
    conditions: list[PodCondition] | None = None


class Pod(Struct):
    """A pod, or the bookmark of a watch, which has a resource version alone. Those of a list do not say their kind."""

    kind: str = "Pod"
    metadata: PodMeta = field(default_factory=PodMeta)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from all others that are there at the same time."""
        return self.metadata.namespace, self.metadata.name

    @property
    def condition(self) -> Condition:
        if self.metadata.deletion_timestamp is not None or self.status.phase in _ENDED:
            return "leaving"
        ready = any(each.type == "Ready" and each.status == "True" for each in self.status.conditions or ())
        return "ready" if ready and self.status.phase == "Running" else "unready"


@attrs.frozen
class PodRules:
    """How a pod becomes workers: `port` where its annotation `ports` names none; `bootstrap` is the annotation of the ports where
    decode engines find caches; `model` gives the model's name of a pod, None for what the engine says; with `namespaced` the
    worker's name begins with the pod's namespace."""

    role: WorkerRole
    scheme: str = "grpc"
    port: int = 50051
    ports: str = ""
    bootstrap: str = ""
    model: Callable[[PodMeta], str | None] = lambda pod: None
    namespaced: bool = False
    tls: Tls | None = None


def model_reader(text: str) -> Callable[[PodMeta], str | None]:
    """Where a pod's model is said: "namespace", "label:KEY", "annotation:KEY", or "" for what the engine says. Raises
    ValueError."""
    kind, mark, key = text.partition(":")
    if not text:
        return lambda pod: None
    if text == "namespace":
        return lambda pod: pod.namespace or None
    if not (mark and key) or kind not in ("label", "annotation"):
        raise ValueError(f"{text!r} is none of namespace, label:KEY and annotation:KEY")
    if kind == "label":
        return lambda pod: (pod.labels or {}).get(key)
    return lambda pod: (pod.annotations or {}).get(key)


def workers_of_pod(pod: Pod, rules: PodRules) -> tuple[Wanted, ...]:
    """The workers of a pod, one for each of its ports; none before it has an address. Raises ValueError for an annotation that
    says nothing of use, and for an address that is none."""
    if not pod.status.pod_ip:
        return ()
    if not _is_address(pod.status.pod_ip):
        raise ValueError("its podIP is no address")
    written = (pod.metadata.annotations or {}).get(rules.ports, "") if rules.ports else ""
    ports = _ports(rules.ports, written) if written else (rules.port,)
    handover = _bootstrap(pod, rules, len(ports))
    host = f"[{pod.status.pod_ip}]" if ":" in pod.status.pod_ip else pod.status.pod_ip
    name = f"{pod.metadata.namespace}/{pod.metadata.name}" if rules.namespaced else pod.metadata.name
    model, condition = rules.model(pod.metadata), pod.condition
    labels = tuple(sorted((pod.metadata.labels or {}).items()))
    return tuple(
        Wanted(
            WorkerSpec(
                f"{rules.scheme}://{host}:{port}",
                name=name if len(ports) == 1 else f"{name}:{port}",
                role=None if rules.role == "regular" else rules.role,
                model=model,
                tls=rules.tls,
                bootstrap_port=handover[at],
                labels=labels,
            ),
            condition,
        )
        for at, port in enumerate(ports)
    )


def _bootstrap(pod: Pod, rules: PodRules, count: int) -> tuple[int, ...]:
    """The port of each worker's caches, 0 for what its engine says. One port in the annotation is that of all."""
    written = (pod.metadata.annotations or {}).get(rules.bootstrap, "") if rules.bootstrap else ""
    if not written or rules.role not in _HANDS_OVER:
        return (0,) * count
    found = _ports(rules.bootstrap, written)
    if len(found) == 1:
        return found * count
    if len(found) != count:
        raise ValueError(f"annotation {rules.bootstrap} has {len(found)} ports for {count} workers")
    return found


def _is_address(text: str) -> bool:
    try:
        return "%" not in str(ipaddress.ip_address(text))
    except ValueError:
        return False


def _ports(annotation: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(_PORT.fullmatch(part) and int(part) <= _PORTS for part in parts):
        raise ValueError(f"annotation {annotation} is no list of ports")
    found = tuple(int(part) for part in parts)
    if len(set(found)) < len(found):
        raise ValueError(f"annotation {annotation} has a port twice")
    return found
