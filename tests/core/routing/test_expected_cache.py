"""How much of a prompt a cache is expected to have, by what engines tell and by what was sent."""

from collections.abc import Sequence

from tests.core.routing.candidates import asking

from smg_core.engines.kv_events import KvBlocksStored, KvCacheCleared, KvTier
from smg_core.routing import RoutingContext
from smg_core.routing.expected_cache import ExpectedCache
from smg_core.routing.kv_index import CachePlace
from smg_core.routing.settings import RoutingConfig

PROMPT = list(range(256))
TELLS, SILENT = ("tells", 0), ("silent", 0)
PLACES: list[CachePlace] = [TELLS, SILENT]


def cache(**fields: object) -> ExpectedCache:
    return ExpectedCache(RoutingConfig(host_cost=0.25, disk_cost=0.5, kv_pending_s=5.0, block_tokens=16, **fields), 7)  # type: ignore[arg-type]


def stored(tokens: Sequence[int], tier: KvTier = "device") -> KvBlocksStored:
    return KvBlocksStored([*range(len(tokens) // 16)], tokens, 16, tier=tier)


def asked(now: float = 0.0, **fields: object) -> RoutingContext:
    return asking(PROMPT, now=now, **fields)


def test_what_is_told_is_exact_and_what_was_sent_is_approximate_for_each_worker_by_itself() -> None:
    caches = cache()
    caches.know(TELLS, "all", salted=True)
    caches.apply(TELLS, [stored(PROMPT[:128])], 10.0)
    caches.sent(SILENT, caches.of(asked(11.0), PLACES), 0, 11.0)
    expected = caches.of(asked(13.0), PLACES)

    assert list(expected.gains) == [128, 256]
    assert list(expected.bases) == ["exact", "approximate"]
    assert list(expected.stale) == [3.0, None]


def test_what_was_sent_a_moment_ago_counts_until_the_engine_had_the_time_to_tell_of_it() -> None:
    caches = cache()
    caches.know(TELLS, "all", salted=True)
    caches.apply(TELLS, [stored(PROMPT[:64])], 0.0)
    caches.sent(TELLS, caches.of(asked(100.0), [TELLS]), 0, 100.0)
    soon, later = (caches.of(asked(now), [TELLS]) for now in (104.0, 111.0))

    assert (list(soon.gains), list(soon.bases)) == ([256], ["approximate"])
    assert (list(later.gains), list(later.bases)) == ([64], ["exact"])


def test_what_was_sent_before_a_cache_was_cleared_does_not_count() -> None:
    caches = cache()
    caches.know(TELLS, "all", salted=True)
    caches.apply(TELLS, [stored(PROMPT[:64])], 0.0)
    caches.sent(TELLS, caches.of(asked(1.0), [TELLS]), 0, 1.0)
    caches.apply(TELLS, [KvCacheCleared()], 2.0)

    assert list(caches.of(asked(2.0), [TELLS]).gains) == [0]


def test_a_hit_is_worth_what_is_left_after_fetching_it() -> None:
    for tier, worth in (("device", 256), ("", 256), ("host", 192), ("disk", 128)):
        caches = cache()
        caches.know(TELLS, "all", salted=True)
        caches.apply(TELLS, [stored(PROMPT, tier)], 0.0)  # type: ignore[arg-type]
        assert list(caches.of(asked(), [TELLS]).gains) == [worth]


def test_where_a_part_is_told_the_better_of_what_is_told_and_what_was_sent_counts() -> None:
    caches = cache()
    caches.sent(TELLS, caches.of(asked(), [TELLS]), 0, 0.0)
    caches.know(TELLS, "part", salted=True)
    caches.apply(TELLS, [stored(PROMPT[:64])], 0.0)
    assert (list(caches.of(asked(99.0), [TELLS]).gains), list(caches.of(asked(), [TELLS]).bases)) == (
        [256],
        ["approximate"],
    )

    caches.know(TELLS, "nothing", salted=True)
    assert list(caches.of(asked(99.0), [TELLS]).gains) == [256]


def test_a_worker_that_has_left_is_expected_to_have_nothing() -> None:
    caches = cache()
    caches.know(TELLS, "all", salted=True)
    caches.apply(TELLS, [stored(PROMPT)], 0.0)
    caches.sent(SILENT, caches.of(asked(), PLACES), 0, 0.0)
    caches.worker_left("tells")
    caches.cache_lost("silent")

    assert list(caches.of(asked(), PLACES).gains) == [0, 0]


def test_a_salt_and_an_adapter_part_what_engines_tell() -> None:
    caches = cache()
    caches.know(TELLS, "all", salted=True)
    tokens = KvBlocksStored([*range(16)], PROMPT, 16, salt="tenant", lora="adapter")
    caches.apply(TELLS, [tokens], 0.0)

    assert list(caches.of(asked(engine_salt="tenant", lora="adapter"), [TELLS]).gains) == [256]
    assert list(caches.of(asked(engine_salt="other", lora="adapter"), [TELLS]).gains) == [0]
    assert list(caches.of(asked(engine_salt="tenant"), [TELLS]).gains) == [0]
