"""What make_references.py wrote down, and how tensors are held against it."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

REFERENCES = Path(__file__).with_name("references.json.gz")
SAMPLE = 56


@cache
def written_references() -> dict[str, Any]:
    """The file."""
    read: dict[str, Any] = json.loads(gzip.decompress(REFERENCES.read_bytes()))
    return read


def assert_tensors(expected: Mapping[str, Any], tensors: Mapping[str, np.ndarray[Any, Any]], label: str) -> None:
    """Every tensor of a row has its shape and its bytes; the overview of the Phi families, and floats that were
    interpolated, lie within a tolerance."""
    for name, row in expected.items():
        array = np.ascontiguousarray(tensors[name])
        assert list(array.shape) == row["shape"], (label, name)
        if "values" in row:
            assert array.tolist() == row["values"], (label, name)
            continue
        if "floats" in row:
            assert np.allclose(array.ravel()[:: row["step"]], row["floats"], atol=2e-5, rtol=1e-6), (label, name)
            continue
        if "overview" in row:
            near = np.allclose(array[0, 0].ravel()[:: SAMPLE * SAMPLE + 5], row["overview"], atol=2e-5, rtol=0)
            assert near, (label, name)
            array = np.ascontiguousarray(array[:, 1:])
        array = array if np.issubdtype(array.dtype, np.floating) else array.astype(np.int64)
        assert hashlib.sha256(array.tobytes()).hexdigest()[:32] == row["sha256"], (label, name)
