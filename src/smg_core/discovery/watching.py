"""The pods of a cluster as a list and a watch tell them.

A list comes in pages and says of which version it is; a watch goes on from that version with one event a line. A version that the
server no longer has (410 Gone) means that the list must be read again; until that has been read whole, what was known holds.

Pure: bytes are handed in. Above: kubernetes, which reads them. Below: pods.
"""

import re

import msgspec
from msgspec import Raw, Struct, field

from smg_core.discovery.base import Wanted, WorkersSeen
from smg_core.discovery.pods import Pod, PodRules, workers_of_pod

__all__ = ["GONE", "Expired", "Garbled", "Lines", "PodPage", "PodSet", "ServerRefused", "page_of"]

_Found = tuple[Wanted, ...] | str
"""The workers of a pod, or what is wrong with it."""

GONE = 410


class Expired(Exception):
    """The version that the watch was to go on from is no longer there: the pods have to be listed again."""


class Garbled(Exception):
    """What the server sent is not what it is to send; the text is for the operator."""


class ServerRefused(Exception):
    """The server ended the watch with an error; the text is for the operator. `retry_after`: seconds to wait, if it says so."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class _Event(Struct):
    type: str
    object: Raw


class _Details(Struct, rename="camel"):
    retry_after_seconds: float = 0.0


class _Status(Struct):
    """An error, in the place of a pod."""

    code: int = 0
    message: str = ""
    details: _Details | None = None


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    following: str = field(name="continue", default="")


class PodPage(Struct):
    """A page of a list: what each of its pods means, where the next page goes on ("" after the last), and the list's version."""

    found: dict[tuple[str, str], _Found]
    following: str
    version: str


class _WirePage(Struct):
    """A page as it is sent. `kind` tells it from what else may come with the status 200, such as an error in a `Status`."""

    metadata: _ListMeta
    kind: str = ""
    items: list[Pod] | None = None


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NAME_CHARACTERS = 253
"""Most characters of a name: the bound of Kubernetes itself, which is that of DNS."""
_EVENT = msgspec.json.Decoder(_Event)
_POD = msgspec.json.Decoder(Pod)
_STATUS = msgspec.json.Decoder(_Status)
_PAGE = msgspec.json.Decoder(_WirePage)


class Lines:
    """Cuts a watch into lines, of at most `most` bytes each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now. A line that is cut off by the end of the watch is never given. Raises Garbled."""
        first, *others = data.split(b"\n")
        lines = []
        self._begun += first
        if others:
            lines = [bytes(self._begun), *others[:-1]]
            self._begun = bytearray(others[-1])
        if len(self._begun) > self._most:
            raise Garbled(f"an object has more than {self._most} bytes")
        return [line for line in lines if line.strip()]


def page_of(data: bytes | bytearray, rules: PodRules) -> PodPage:
    """A page of a list. Takes some milliseconds for hundreds of pods. Raises Garbled for what is no list of pods: taken for an
    empty one it would drain all workers."""
    try:
        page = _PAGE.decode(data)
    except msgspec.MsgspecError as error:
        raise Garbled(f"a list of pods is none: {error}") from None
    if page.kind != "PodList":
        raise Garbled(f"a list of pods is of the kind {page.kind[:40]!r}")
    if not page.metadata.resource_version:
        raise Garbled("a list of pods does not say of which version it is")
    found = {}
    for pod in page.items or ():
        _check(pod)
        found[pod.key] = _meaning(pod, rules)
    return PodPage(found, page.metadata.following, page.metadata.resource_version)


def _meaning(pod: Pod, rules: PodRules) -> _Found:
    try:
        return workers_of_pod(pod, rules)
    except ValueError as error:
        return str(error)


def _check(pod: Pod) -> None:
    """Raise Garbled for what is no pod."""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    if pod.kind != "Pod":
        raise Garbled(f"a pod is of the kind {pod.kind[:40]!r}")
    if any(len(each) > _NAME_CHARACTERS or _NAME.fullmatch(each) is None for each in (name, namespace or name)):
        raise Garbled(f"a pod has a name that no pod can have: {name[:40]!r} in {namespace[:40]!r}")


class PodSet:
    """The workers of all pods that match. `version` is where the watch goes on, "" before the first list and after it has
    expired; `events` counts what watches brought; `problems` has, by pod, what is wrong with it. At most `most` pods are kept."""

    def __init__(self, rules: PodRules, most: int) -> None:
        self._rules = rules
        self._most = most
        self._workers: dict[tuple[str, str], tuple[Wanted, ...]] = {}
        self._seen: WorkersSeen | None = None
        self._listed: dict[tuple[str, str], _Found] = {}
        self.version = ""
        self.events = 0
        self.problems: dict[tuple[str, str], str] = {}

    @property
    def count(self) -> int:
        """How many workers there are."""
        return sum(len(each) for each in self._workers.values())

    def begin(self) -> None:
        """A list is to be read from its beginning."""
        self._listed = {}

    def page(self, page: PodPage) -> str:
        """Take the next page of a list. Returns where the following one goes on, "" after the last: then the list holds. Raises
        Garbled for too many pods."""
        self._listed.update(page.found)
        self._bound(len(self._listed))
        if page.following:
            return page.following
        listed, self._listed = self._listed, {}
        for key in [key for key in (*self._workers, *self.problems) if key not in listed]:
            self._forget(key)
        for key, found in listed.items():
            self._take(key, found)
        self.version = page.version
        return ""

    def event(self, line: bytes) -> None:
        """Take a line of the watch. Raises Expired, ServerRefused or Garbled."""
        try:
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                self._failed(_STATUS.decode(event.object))
            pod = _POD.decode(event.object)
        except msgspec.MsgspecError as error:
            raise Garbled(f"an event of the watch is none: {error}") from None
        self.events += 1
        if event.type != "BOOKMARK":
            _check(pod)
        if event.type in ("ADDED", "MODIFIED"):
            new = pod.key not in self._workers and pod.key not in self.problems
            self._bound(len(self._workers) + len(self.problems) + new)
            self._take(pod.key, _meaning(pod, self._rules))
        elif event.type == "DELETED":
            self._forget(pod.key)
        elif event.type != "BOOKMARK":
            raise Garbled(f"an event of the watch is of the unknown kind {event.type[:20]!r}")
        if pod.metadata.resource_version:
            self.version = pod.metadata.resource_version

    def _bound(self, pods: int) -> None:
        if pods > self._most:
            raise Garbled(f"more than {self._most} pods match; see discovery.kubernetes_pods")

    def _failed(self, status: _Status) -> None:
        if status.code == GONE:
            self.expire()
            raise Expired
        after = status.details.retry_after_seconds if status.details is not None else 0.0
        raise ServerRefused(f"the watch ended with {status.code}", after)

    def expire(self) -> None:
        """The pods have to be listed again; until then those that are known hold."""
        self.version = ""

    def _take(self, key: tuple[str, str], found: _Found) -> None:
        if isinstance(found, str):
            self._forget(key)
            self.problems[key] = found
            return
        self.problems.pop(key, None)
        if not found:
            self._forget(key)
        elif self._workers.get(key) != found:
            self._workers[key] = found
            self._seen = None

    def _forget(self, key: tuple[str, str]) -> None:
        self.problems.pop(key, None)
        if self._workers.pop(key, None) is not None:
            self._seen = None

    def seen(self) -> WorkersSeen:
        """The workers now; the same object as long as they are the same."""
        if self._seen is None:
            self._seen = WorkersSeen(tuple(worker for each in self._workers.values() for worker in each))
        return self._seen
