"""The built-in kinds of engines that take token ids, by the name of their dialect."""

from smg_core.engines.kinds.grpc import GRPC_KINDS
from smg_core.engines.kinds.http import HTTP_KINDS

DIALECTS = {each.name: each for each in GRPC_KINDS}
HTTP_DIALECTS = {each.name: each for each in HTTP_KINDS if each.codec is not None}
