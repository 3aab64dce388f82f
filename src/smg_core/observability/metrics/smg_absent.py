"""SMG's names of metrics that `metrics.names: smg` does not have, each with the reason or with what says it under our names.

Read by who moves a dashboard: a panel over one of these stays empty. With the table of `smg_names` these are all names that SMG
declares, but for those of a mesh of routers, which begin with `router_mesh_`. Pure. Above: `dashboard`, which writes the page.
Below: nothing.
"""

from collections.abc import Iterator

__all__ = ["SMG_ABSENT"]


def _each(layer: str, names: str, reason: str) -> Iterator[tuple[str, str]]:
    """Names without what they begin with, in one text, all for one reason."""
    return ((f"smg_{layer}_{name}", reason) for name in names.split())


SMG_ABSENT: tuple[tuple[str, str], ...] = (
    *_each(
        "tokio",
        "event_loop_delay_seconds event_loop_stalls_total global_queue_depth alive_tasks workers worker_busy_ratio "
        "worker_parks_total",
        "There is no such runtime here: `smg_process_event_loop_lag_seconds`, `smg_process_event_loop_blocks_total`",
    ),
    *_each("http", "inflight_request_age_count", "Not measured: `smg_http_requests_in_flight` has their number"),
    *_each("router", "stage_duration_seconds", "SMG never records it: the spans of [traces](#traces) have stages"),
    *_each(
        "pd",
        "prefill_duration_seconds ttft_seconds",
        "`smg_worker_call_duration_seconds` with the role `prefill`, `smg_worker_time_to_first_token_seconds`",
    ),
    *_each("pd", "kv_transfer_duration_seconds kv_connector_mode_total", "Not measured"),
    *_each(
        "pd",
        "bootstrap_failures_total kv_transfer_failures_total",
        "`smg_worker_calls_total` by role and outcome",
    ),
    *_each("mm", "tensors_total tensor_bytes_total shm_write_failures_total", "`smg_router_media_total` counts media"),
    *_each("worker", "pool_size", "`smg_discovery_workers` by state"),
    *_each("worker", "connections_active", "SMG never sets it"),
    *_each("worker", "routing_keys_active", "Not measured"),
    *_each("worker", "health_checks_total", "`smg_worker_state_changes_total` says what they found"),
    *_each(
        "worker",
        "cb_state cb_transitions_total cb_outcomes_total",
        "`smg_worker_breaker_changes_total`, `smg_worker_calls_total` by outcome",
    ),
    *_each("worker", "cb_consecutive_failures cb_consecutive_successes", "Not measured"),
    *_each("worker", "retries_exhausted_total", "`smg_worker_calls_total` by outcome"),
    *_each("worker", "retry_backoff_seconds", "The event `retry` of [traces](#traces) has `smg.retry.delay`"),
    *_each("manual", "policy_cache_entries policy_branch_total", "`smg_router_selections_total` by policy"),
    *_each("consistent_hashing", "policy_branch_total", "`smg_router_selections_total` by policy"),
    *_each("prefix_hash", "policy_branch_total", "`smg_router_selections_total` by policy"),
    *_each("kv", "event_subscription_failures_total", "The log says them; `smg_router_prefix_basis_total`"),
    *_each("engine", "waiting_requests", "`smg_worker_requests_waiting`"),
    *_each(
        "engine",
        "running_requests token_usage gen_throughput cache_hit_rate pd_kv_transfer_latency_ms "
        "pd_kv_transfer_speed_gb_s pd_prefill_queue_reqs pd_decode_queue_reqs",
        "Scrape the engines themselves",
    ),
    *_each("discovery", "deregistrations_total", "`smg_discovery_changes_total`"),
    *_each("discovery", "sync_duration_seconds", "Not measured: `smg_discovery_source_age_seconds`"),
    *_each("mcp", "servers_active tool_iterations_total", "Not measured: `smg_mcp_calls_total`"),
    *_each("db", "connections_active items_stored", "SMG never records them"),
    *_each(
        "scheduler",
        "admit_total queue_wait_seconds preemption_total clamp_total unknown_priority_value_total "
        "starvation_promotion_total inflight queue_depth utilization queue_size_limit class_capacity_pressure",
        "There is no scheduler by classes here: `smg_limits_refusals_total` counts what was refused",
    ),
)
"""Names of samples with reasons, in the order of SMG's layers."""
