"""The sources of workers beyond the settings, and the interval of asking them.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["DiscoveryConfig", "PodRole"]

PodRole = Literal["regular", "prefill", "decode", "encode"]
"""What the engine in a pod computes: that of a worker (`workers.worker.WorkerRole`)."""


@attrs.frozen
class DiscoveryConfig:
    """Workers that come and go by themselves: in the file of workers, in DNS, in Kubernetes."""

    drain_s: float = bound(
        300.0,
        "Seconds that a worker which its source names no more may take to finish its requests; what is left then goes on "
        "elsewhere.",
        at_least=0,
        at_most=86400,
    )
    look_s: float = bound(
        1.0,
        "Seconds between two looks at whether the workers are those that the sources name.",
        at_least=0.05,
        at_most=3600,
    )
    most: int = bound(
        1024, "Most workers that one source may name; one that names more is not believed.", at_least=1, at_most=1 << 20
    )
    file_interval_s: float = bound(
        1.0,
        "Seconds between two looks at the file of workers; 0 reads it at the start alone.",
        at_least=0,
        at_most=3600,
    )
    dns: tuple[str, ...] = option(
        (),
        "Name in DNS whose records are engines: grpc://NAME:PORT for its addresses, grpc+srv://NAME for its SRV records, with "
        "?role=, model=, dialect= where wanted; may be repeated.",
        flag="--discover-dns",
    )
    dns_servers: tuple[str, ...] = bound(
        (), "DNS server to ask in place of the system's, ADDRESS or ADDRESS:PORT; may be repeated."
    )
    dns_families: Literal["both", "ipv4", "ipv6"] = bound("both", "Which addresses of a name in DNS count.")
    dns_least_s: float = bound(
        1.0,
        "Least seconds between two questions for a name in DNS, however short its records hold.",
        at_least=0.05,
        at_most=3600,
    )
    dns_most_s: float = bound(
        300.0,
        "Most seconds between two questions for a name in DNS, however long its records hold.",
        at_least=0.05,
        at_most=86400,
    )
    dns_retry_s: float = bound(
        5.0, "Seconds until a name in DNS is asked for again that got no answer.", at_least=0.05, at_most=3600
    )
    dns_timeout_s: float = bound(5.0, "Seconds that DNS servers may take to answer.", at_least=0.05, at_most=600)
    kubernetes: bool = option(False, "Take pods of a Kubernetes cluster for engines.", flag="--discover-kubernetes")
    kubernetes_namespace: str | None = option(
        None, 'Namespace of the pods; "*" for all. Without it, that of the pod that the gateway runs in.'
    )
    selector: str = option(
        "",
        "Label selector of the pods that do everything, as kubectl takes it (app=vllm,tier!=test).",
        flag="--selector",
    )
    prefill_selector: str = option("", "Label selector of the pods that read prompts.", flag="--prefill-selector")
    decode_selector: str = option("", "Label selector of the pods that write answers.", flag="--decode-selector")
    encode_selector: str = option("", "Label selector of the pods that encode media.", flag="--encode-selector")
    pod_port: int = option(50051, "Port of the engine in each pod.", at_least=1, at_most=65535)
    pod_scheme: Literal["grpc", "grpcs", "http", "https"] = option("grpc", "How the engines in pods are spoken to.")
    pod_server_name: str | None = option(
        None, "Name that the certificates of engines in pods have, since pods are reached by their address (grpcs)."
    )
    ports_annotation: str = bound(
        "smg.ai/worker-ports",
        "Annotation of pods with other ports than discovery.pod_port, commas between them; one worker each.",
    )
    bootstrap_annotation: str = bound(
        "sglang.ai/bootstrap-port",
        "Annotation of prefill and encode pods with the ports where their caches are found: one, or one for each worker.",
    )
    model_from: str = option(
        "",
        "Where the name of a pod's model is: namespace, label:KEY or annotation:KEY. Without it, the engine says it.",
    )
    kubernetes_url: str | None = bound(
        None, "API server of Kubernetes, https://HOST:PORT. Without it, the one that Kubernetes tells every pod."
    )
    kubernetes_token_file: str | None = bound(
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "File of the token that the API server of Kubernetes is shown; read before each request, since it is replaced.",
    )
    kubernetes_ca_file: str | None = bound(
        "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
        "File of certificates (PEM) that the API server of Kubernetes is checked against.",
    )
    kubernetes_namespace_file: str = bound(
        "/var/run/secrets/kubernetes.io/serviceaccount/namespace", "File with the namespace of the gateway's own pod."
    )
    kubernetes_watch_s: float = bound(
        240.0, "Seconds after which a watch of pods is begun anew, from where it was.", at_least=1, at_most=3600
    )
    kubernetes_timeout_s: float = bound(
        10.0, "Seconds that the API server of Kubernetes may take to answer.", at_least=0.05, at_most=600
    )
    kubernetes_page_s: float = bound(
        60.0,
        "Seconds that a page of the list of pods may take as a whole, however its bytes come.",
        at_least=0.05,
        at_most=3600,
    )
    kubernetes_retry_s: float = bound(
        1.0,
        "Seconds until the API server of Kubernetes is asked again that failed; doubled each time.",
        at_least=0.01,
        at_most=3600,
    )
    kubernetes_retry_most_s: float = bound(
        30.0,
        "Most seconds until the API server is asked again that failed, whatever it says.",
        at_least=0.01,
        at_most=3600,
    )
    kubernetes_page: int = bound(250, "Pods in a page of the list of pods.", at_least=1, at_most=10_000)
    kubernetes_pods: int = bound(
        20_000, "Most pods that a selector may match; a list with more is not believed.", at_least=1, at_most=1 << 20
    )
    kubernetes_page_bytes: int = bound(
        64 * MIB, "Largest page of the list of pods, in bytes.", at_least=1024, at_most=1 << 32
    )
    kubernetes_object_bytes: int = bound(
        4 * MIB, "Largest event of a watch of pods, in bytes.", at_least=1024, at_most=1 << 30
    )
    file_bytes: int = bound(1 << 20, "Largest file of workers, in bytes.", at_least=1, at_most=1 << 30)

    def selectors(self) -> dict[PodRole, str]:
        """The selectors of pods by the role of their engines."""
        found: dict[PodRole, str] = {
            "regular": self.selector,
            "prefill": self.prefill_selector,
            "decode": self.decode_selector,
            "encode": self.encode_selector,
        }
        return {role: selector for role, selector in found.items() if selector}
