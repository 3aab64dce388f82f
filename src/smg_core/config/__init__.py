"""The settings of all packages in one record, and checks of the whole.

The names below are the front door: `from smg_core.config import Config, ServerConfig`. Each section is a record that the room
which reads it defines. `config` gathers them, `check` finds what could never work.
"""

from smg_core.admin.settings import AdminConfig
from smg_core.apis.realtime.settings import RealtimeConfig
from smg_core.auth.settings import AuthConfig, OidcConfig
from smg_core.channel.settings import ChannelConfig
from smg_core.config.config import (
    Config,
    Resolved,
    config_of,
    describe,
    describe_arguments,
    in_python_alone,
    load_config,
    masked,
    parse_file,
    resolve,
    to_yaml,
    without_password,
)
from smg_core.containers.settings import ContainersConfig
from smg_core.discovery.settings import DiscoveryConfig
from smg_core.engines.settings import EnginesConfig
from smg_core.guardrails.settings import GuardrailsConfig
from smg_core.history.settings import HistoryConfig
from smg_core.http.file_settings import FilesConfig
from smg_core.http.proxies.settings import ProxiesConfig
from smg_core.http.settings import (
    BatchesConfig,
    DocumentsConfig,
    MediaConfig,
    ModelConfig,
    ResponsesConfig,
    ServerConfig,
)
from smg_core.idempotency.settings import IdempotencyConfig
from smg_core.ledger.settings import LedgerConfig
from smg_core.mesh.settings import MeshConfig
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.observability.settings import AuditConfig, MetricsConfig, ObservabilityConfig, TracesConfig
from smg_core.pipeline.settings import DisaggregationConfig, McpConfig, PoolingConfig, StructuredConfig, TimeoutsConfig
from smg_core.queueing.settings import QueueConfig
from smg_core.response_cache.settings import ResponseCacheConfig
from smg_core.routing.settings import RoutingConfig
from smg_core.sealing.settings import SealingConfig
from smg_core.server.tls.settings import TlsConfig
from smg_core.settings import ConfigError, Setting, Value
from smg_core.tokenizer.settings import TokenizerConfig
from smg_core.vector_stores.settings import VectorStoresConfig
from smg_core.wire.settings import LimitsConfig, MessagesConfig
from smg_core.workers.settings import BreakerConfig, WorkersConfig

__all__ = [
    "AdminConfig",
    "AuditConfig",
    "AuthConfig",
    "BatchesConfig",
    "BreakerConfig",
    "ChannelConfig",
    "Config",
    "ConfigError",
    "ContainersConfig",
    "DisaggregationConfig",
    "DiscoveryConfig",
    "DocumentsConfig",
    "EnginesConfig",
    "FilesConfig",
    "GuardrailsConfig",
    "HistoryConfig",
    "IdempotencyConfig",
    "LedgerConfig",
    "LimitsConfig",
    "McpConfig",
    "MediaConfig",
    "MeshConfig",
    "MessagesConfig",
    "MetricsConfig",
    "MiddlewareConfig",
    "ModelConfig",
    "ObservabilityConfig",
    "OidcConfig",
    "PoolingConfig",
    "ProxiesConfig",
    "QueueConfig",
    "RealtimeConfig",
    "Resolved",
    "ResponseCacheConfig",
    "ResponsesConfig",
    "RoutingConfig",
    "SealingConfig",
    "ServerConfig",
    "Setting",
    "StructuredConfig",
    "TimeoutsConfig",
    "TlsConfig",
    "TokenizerConfig",
    "TracesConfig",
    "Value",
    "VectorStoresConfig",
    "WorkersConfig",
    "config_of",
    "describe",
    "describe_arguments",
    "in_python_alone",
    "load_config",
    "masked",
    "parse_file",
    "resolve",
    "to_yaml",
    "without_password",
]
