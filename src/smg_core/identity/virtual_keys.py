"""Creates, rotates, revokes and lists virtual keys, and knows whose a request is by them (edge).

The store of the history keeps them, under an owner that no tenant can be. Each process remembers the keys in use for
`auth.key_fresh_s`, at most a second, and reads them anew beside the requests; so a key that one process has revoked is known
to all within that time. A secret that does not fit what is remembered is compared with the store before it is refused, so that a
rotated key is good in every process at once. Where the store does not answer, nothing is let in that is not remembered: the
client gets 503. Above: identity.identity asks for every request; the admin listener calls the operations. Below: the pure records
in `auth.virtual_keys`, the history.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import attrs
import msgspec

from smg_core.auth.base import Head
from smg_core.auth.credentials import Credential
from smg_core.auth.names import LONGEST_NAME, is_caller_name
from smg_core.auth.roles import USER, Roles, check_giving
from smg_core.auth.settings import AuthConfig
from smg_core.auth.virtual_keys import KeyHash, VirtualKey, is_id, key_text, named_id, virtual_id
from smg_core.clock import Clock
from smg_core.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound, StoreFailed
from smg_core.grants import Grants
from smg_core.history.store.base import KEYS_OWNER, Page, PutRecord, StaleVersion, Store, StoredRecord
from smg_core.request import Caller
from smg_core.settings import ConfigError

__all__ = ["NewKey", "VirtualKeys", "read_key"]

_KIND = "key"
_decode = msgspec.json.Decoder(VirtualKey).decode
_CENTURY = 36_500 * 86400.0  # seconds that a key is kept which never expires
_TRIES = 8  # how often a change is made anew that another has come before
_ID_BYTES, _SECRET_BYTES = 8, 32
_EVERYTHING = Grants()


@attrs.frozen
class NewKey:
    """A key that was created or rotated. `text` is the key itself: it is told now and never again."""

    key: VirtualKey
    text: str = attrs.field(repr=False)


@attrs.define(eq=False)
class _Remembered:
    """A key in use, and when the read of it began (on the monotonic clock). `good` has until when each of its secrets is good, by
    their hashes."""

    key: VirtualKey
    version: int
    caller: Caller | None
    read_at: float
    good: Mapping[bytes, float]


class VirtualKeys:
    """The virtual keys of a gateway. `random` returns that many random bytes; `on_revoked`, which may be set, is told of each
    that is revoked here."""

    def __init__(
        self,
        settings: AuthConfig,
        store: Store,
        clock: Clock,
        roles: Roles,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._settings, self._store, self._clock, self._roles, self._random = settings, store, clock, roles, random
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()
        self._reading: dict[str, asyncio.Future[_Remembered | None]] = {}
        self._tasks: set[asyncio.Task[_Remembered | None]] = set()
        self.on_revoked: Callable[[str], None] = lambda id: None

    async def close(self) -> None:
        """Give up what is being read. Called when the gateway stops."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------------- operations

    async def create(
        self,
        *,
        tenant: str,
        principal: str = "",
        name: str = "",
        roles: Sequence[str] = (USER,),
        models: Sequence[str] = (),
        tools: Sequence[str] = (),
        expires_at: float | None = None,
        by: Grants = _EVERYTHING,
    ) -> NewKey:
        """Make a key. `by` is what who makes it may do: nobody gives a permission of admins that they lack. Raises InvalidRequest
        for a tenant or a role that is none and for a time that is over, PermissionDenied, StoreFailed."""
        now = self._clock.time()
        if not tenant:
            raise InvalidRequest("A key names its tenant.", param="tenant")
        for param, value in (("tenant", tenant), ("principal", principal), ("name", name)):
            if value and not is_caller_name(value):
                raise InvalidRequest(f"A name has at most {LONGEST_NAME} printable characters.", param=param)
        if expires_at is not None and expires_at <= now:
            raise InvalidRequest("The time at which the key expires is over.", param="expires_at")
        try:
            given = self._roles.grants(roles)
        except ConfigError as error:
            raise InvalidRequest(f"{error}.", param="roles") from None
        check_giving(by, given)
        id = self._random(_ID_BYTES).hex()
        text = key_text(id, self._random(_SECRET_BYTES))
        key = VirtualKey(
            id=id,
            tenant=tenant,
            principal=principal or name or id,
            created_at=now,
            hashes=(KeyHash(_hash(text).hex()),),
            name=name,
            roles=tuple(roles),
            models=tuple(models),
            tools=tuple(tools),
            expires_at=expires_at,
        )
        await self._put(key, 0)
        return NewKey(key, text)

    async def rotate(self, id: str, overlap_s: float = 0.0, by: Grants = _EVERYTHING) -> NewKey:
        """Give a key a new secret; the earlier ones stay good for `overlap_s` more seconds. Who rotates it (`by`) has its secret
        then, so what `create` says of permissions holds here too. Raises NotFound, StoreFailed, PermissionDenied, and Conflict
        for a key that is not active."""
        text = key_text(id, self._random(_SECRET_BYTES))
        digest = _hash(text)
        return NewKey(
            await self._change(id, lambda key, now: self._mine(key, by).rotated(digest, now, overlap_s)), text
        )

    async def revoke(self, id: str) -> VirtualKey:
        """End a key; every process knows within `auth.key_fresh_s`. Raises NotFound, StoreFailed."""
        key = await self._change(id, lambda key, now: key.revoked(now))
        self.on_revoked(id)
        return key

    def forget(self, id: str) -> None:
        """Look a key up in the store before it is taken again: another gateway has said that it is revoked."""
        self._remembered.pop(id, None)

    async def expire(self, id: str, expires_at: float | None, by: Grants = _EVERYTHING) -> VirtualKey:
        """Say when a key expires; None: never. Raises NotFound, StoreFailed, PermissionDenied as `rotate` does, and Conflict for
        a key that was revoked."""
        return await self._change(id, lambda key, now: self._mine(key, by).expiring(expires_at))

    def _mine(self, key: VirtualKey, by: Grants) -> VirtualKey:
        """The key, if somebody who may do what `by` says may hand it out. Raises PermissionDenied."""
        try:
            check_giving(by, self._roles.grants(key.roles))
        except ConfigError:  # a role that this gateway does not have may be one of admins elsewhere
            check_giving(by, _EVERYTHING)
        return key

    async def get(self, id: str) -> VirtualKey:
        """One key. Raises NotFound, StoreFailed."""
        return (await self._read(id))[0]

    async def list_page(self, *, after: str | None = None, limit: int = 100) -> Page[StoredRecord]:
        """Keys behind the key `after`, newest first, as they are stored: `read_key` reads one. Raises StoreFailed."""
        return await self._store.records(KEYS_OWNER, _KIND, after=after, limit=limit)

    async def _change(self, id: str, change: Callable[[VirtualKey, float], VirtualKey]) -> VirtualKey:
        for _ in range(_TRIES):
            key, version = await self._read(id)
            changed = change(key, self._clock.time())
            if changed is key:
                return key
            try:
                await self._put(changed, version)
            except StaleVersion:
                continue
            return changed
        raise Conflict("The key is being changed by others; try again.")

    async def _read(self, id: str) -> tuple[VirtualKey, int]:
        record = await self._store.record(KEYS_OWNER, _KIND, id) if is_id(id) else None
        if record is None:
            raise NotFound("There is no such key.")
        return read_key(record.body), record.version

    async def _put(self, key: VirtualKey, version: int) -> None:
        body = msgspec.json.encode(key)
        record = StoredRecord(
            kind=_KIND, id=key.id, body=body, created_at=key.created_at, expires_at=key.created_at + _CENTURY
        )
        began = self._clock.monotonic()
        await self._store.write(KEYS_OWNER, [PutRecord(record, if_version=version)])
        self._remember(key, version + 1, began)

    # ---------------------------------------------------------------------------------------------------- authentication

    def known(self, credential: Credential) -> Caller | None:
        """The caller with this key, where it was read a moment ago. Raises AuthenticationFailed for one that is known to be
        revoked or expired."""
        id = named_id(credential.text)
        entry = self._remembered.get(id)
        if entry is None:
            return None
        until = entry.good.get(credential.digest)
        age, most = self._clock.monotonic() - entry.read_at, self._settings.key_fresh_s
        if until is None or age > most:
            return None
        if age > most / 2 and id not in self._reading:
            self._read_in_background(id)
        self._remembered.move_to_end(id)
        if entry.caller is not None and self._clock.time() < until:
            return entry.caller
        return self._caller(entry, credential)

    def was_good(self, credential: Credential) -> bool:
        """Whether the key was good when it was read last, however long ago that is."""
        entry = self._remembered.get(named_id(credential.text))
        return entry is not None and credential.digest in entry.good

    async def __call__(self, head: Head) -> Caller | None:
        """The caller with the virtual key of the request, as the store has it now."""
        credential = head.credential
        id = virtual_id(credential.text) if credential is not None else None
        if credential is None or id is None:
            return None
        joined = id in self._reading
        entry = await self._looked_up(id)
        if joined and (entry is None or credential.digest not in entry.good):
            entry = await self._looked_up(id)  # the read may have begun before the key was made or rotated
        if entry is None:
            raise AuthenticationFailed("Incorrect API key.")
        return self._caller(entry, credential)

    def _caller(self, entry: _Remembered, credential: Credential) -> Caller:
        entry.key.check(credential.digest, self._clock.time())
        if entry.caller is None:
            raise AuthenticationFailed("The API key has a role that does not exist any more.")
        return entry.caller

    async def _looked_up(self, id: str) -> _Remembered | None:
        """The key as the store has it, read once for all who ask meanwhile. One who leaves while he reads for all is followed by
        the next. Raises StoreFailed."""
        while (reading := self._reading.get(id)) is not None:
            await asyncio.wait([reading])
            if not reading.cancelled():
                return reading.result()
        reading = self._reading[id] = asyncio.get_running_loop().create_future()
        try:
            entry = await self._refresh(id)
        except StoreFailed as error:
            reading.set_exception(error)
            reading.exception()  # whoever waits has it; perhaps nobody does
            raise
        else:
            reading.set_result(entry)
        finally:
            del self._reading[id]
            reading.cancel()
        return entry

    def _read_in_background(self, id: str) -> None:
        """Read a key in use anew, beside the requests. Where the store fails, the next request that waits for it says so."""
        task = asyncio.create_task(self._looked_up(id))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[_Remembered | None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def _refresh(self, id: str) -> _Remembered | None:
        began = self._clock.monotonic()
        try:
            key, version = await self._read(id)
        except NotFound:
            self._remembered.pop(id, None)
            return None
        except StoreFailed as error:
            raise StoreFailed(
                error.reason, f"virtual keys: {error.detail}", outside_text=error.outside_text, retry_after=1.0
            ) from error
        return self._remember(key, version, began)

    def _remember(self, key: VirtualKey, version: int, read_at: float) -> _Remembered:
        """Remember this version of a key, as it was at `read_at`, unless a later one is remembered: of a read and a write that go
        on at once, either may end last."""
        before = self._remembered.get(key.id)
        if before is not None and (before.version, before.read_at) > (version, read_at):
            return before
        try:
            caller = Caller(key.tenant, key.principal, self._roles.grants(key.roles, key.models, key.tools))
        except ConfigError:
            caller = None
        entry = self._remembered[key.id] = _Remembered(key, version, caller, read_at, key.good())
        self._remembered.move_to_end(key.id)
        if len(self._remembered) > self._settings.keys_remembered:
            self._remembered.popitem(last=False)
        return entry


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def read_key(body: bytes) -> VirtualKey:
    """A key's record, as it was kept."""
    return _decode(body)
