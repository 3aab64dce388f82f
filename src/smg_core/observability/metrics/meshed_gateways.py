"""Metrics of the mesh of gateways: a part of the table.

Pure. Above: `table`. Below: `metric`, hooks.
"""

from smg_core.fleet_moments import MeshSampled
from smg_core.observability.metrics.metric import Metric, from_fields

__all__ = ["MESH_METRICS"]

MESH_METRICS = (
    Metric(
        "smg_mesh_members",
        "gauge",
        "Gateways on this side of a split of the mesh, this one included.",
        "mesh",
        MeshSampled,
        merge="max",
        amount=from_fields("here"),
    ),
    Metric(
        "smg_mesh_whole",
        "gauge",
        "Gateways of the mesh, with those that went without a word a while ago.",
        "mesh",
        MeshSampled,
        merge="max",
        amount=from_fields("whole"),
    ),
    Metric(
        "smg_mesh_kept_bytes",
        "gauge",
        "Bytes of what is kept of all gateways.",
        "mesh",
        MeshSampled,
        unit="bytes",
        merge="max",
        amount=from_fields("size"),
    ),
    Metric(
        "smg_mesh_silent_seconds",
        "gauge",
        "Time since another gateway was heard, of the one where that is longest.",
        "mesh",
        MeshSampled,
        unit="seconds",
        merge="max",
        amount=from_fields("silent"),
    ),
)
