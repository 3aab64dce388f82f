"""`RealtimeEngine`: a server that speaks the Realtime API, its sessions and its health (edge).

Waits for the network and for credentials. Above: the rows of kinds, which make it; the sessions that are passed through. Below:
engines.http, connection, the signers.
"""

import asyncio
from collections.abc import Awaitable, Sequence

from smg_core.credentials.renewal.signing import SentFields, Signer
from smg_core.engines.base import EngineFacts, EngineSink, ModelInfo
from smg_core.engines.calls import AnswerCall
from smg_core.engines.connections.certificates import TlsContexts
from smg_core.engines.connections.secrets import SecretHeaders
from smg_core.engines.connections.target import Tls
from smg_core.engines.elsewhere import Elsewhere
from smg_core.engines.http.address import proxy_for
from smg_core.engines.http.client import HttpClient
from smg_core.engines.realtime.connection import PeerRefused, PeerSocket, connect_peer
from smg_core.engines.realtime.forms import OPENAI_REALTIME, SessionForm, SessionSocket
from smg_core.engines.realtime.turn import RelayedTurns
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.unasked import Unasked
from smg_core.errors import EngineFailed, UnsupportedParameter
from smg_core.events import Event
from smg_core.request import GenerationRequest

__all__ = ["RealtimeEngine"]

_DEFAULTS = EnginesConfig()
_UNKNOWN = (401, 403)
"""What a server answers that knows its customer no more. Any other answer below 500 is one of a server that is well: not every
one lists its models."""
_WELL_S = 60.0
"""How long a server that was found well is not asked again: its questions have limits too."""


class RealtimeEngine(Unasked):
    """Opens sessions of `model` at the server at `url`, a server of that `form`, as the customer whom `signer` proves. `headers`
    are sent with every handshake; `tls` is for https, where the system's certificates do not do; `connect_timeout` is in seconds.
    `sessions` are those of this process that are open now, as whoever holds them says."""

    def __init__(
        self,
        url: str,
        signer: Signer,
        *,
        model: str,
        form: SessionForm = OPENAI_REALTIME,
        usual_path: str = "/v1",
        headers: Sequence[tuple[str, str]] = (),
        tls: Tls | None = None,
        connect_timeout: float = 5.0,
        limits: EnginesConfig = _DEFAULTS,
    ) -> None:
        self._http = HttpClient(url, headers=headers, tls=tls, limits=limits, connect_timeout=connect_timeout)
        self.address = self._http.address
        has_path = url.partition("://")[2].partition("/")[2].strip("/")
        self._api = self.address.api if has_path or self.address.socket else usual_path
        self._signer = signer
        self._form = form
        self.model = model
        self._limits = limits
        self._tls = tls or Tls()
        self._contexts = TlsContexts(self._tls, "http/1.1")
        self.sessions = 0
        self._well_until = 0.0  # by the loop's clock

    async def open(self, session: str, intent: str = "") -> SessionSocket:
        """A session of the model, or one of that `intent`, called `session` here. Raises what kept it from being opened."""

        async def again() -> PeerSocket:
            return await self._connected(intent)

        socket, seconds = await self._connected(intent), self._limits.question_timeout_s
        return self._form.session(socket, self._api, self.model, session, again, seconds)

    async def _connected(self, intent: str) -> PeerSocket:
        """A connection to the server. Raises what kept it from being opened."""
        path, query = self._form.asked(self._api, self.model, intent)
        asked = "".join(("?" if not at else "&") + "=".join(each) for at, each in enumerate(query))
        tried = False
        while True:
            signed = await self._signed("GET", f"{path}{asked}")
            secrets = SecretHeaders((*self._http.headers.fields, *signed))
            try:
                return await connect_peer(
                    self.address,
                    path,
                    query,
                    secrets.fields,
                    contexts=self._contexts,
                    server_name=self._tls.server_name or self.address.host,
                    proxy=proxy_for(self.address, self._limits.http_proxy, self._limits.http_direct),
                    most=self._limits.http_event_bytes,
                    seconds=self._http.connect_timeout,
                )
            except PeerRefused as refused:
                if tried or not self._signer.refused(signed, refused.status, refused.headers, refused.body):
                    raise secrets.hide(refused.meaning()) from None
                tried = True

    async def chat(
        self,
        request: GenerationRequest,
        sink: EngineSink[Event],
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float | None = None,
        connect_timeout: float | None = None,
        lora: str | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> AnswerCall:
        """Have the response made that the request is of, in the session that it is of; its events go to `sink`."""
        turns = request.live
        if not isinstance(turns, RelayedTurns):
            raise UnsupportedParameter("This model's engine has Realtime sessions alone.", param="model")
        turn = turns.next(request)
        await turn.begin(sink)
        return turn

    async def describe(self) -> tuple[ModelInfo, EngineFacts]:
        """The model that the operator names."""
        if not self.model:
            raise EngineFailed(
                "The provider serves many models.", detail="name the one to use: the worker's model, or model.name"
            )
        facts = EngineFacts(
            dialect=self._form.dialect,
            takes_ids=False,
            transport="http",
            constraints=frozenset(),
            prompt_logprobs=False,
            loads=False,
            kv_events=False,
            realtime=True,
        )
        return ModelInfo(model=self.model), facts

    async def health(self, timeout: float | None = None) -> bool:
        """Whether the server answers, asked once a minute at most while it does."""
        now = asyncio.get_running_loop().time()
        if now < self._well_until:
            return True
        path = f"{self._api}/models"
        signed = await self._signed("GET", path)
        limit = self._limits.question_timeout_s if timeout is None else timeout
        reply = await self._http.ask("GET", path, headers=signed, timeout=limit, question=True)
        if well := reply.status < 500 and reply.status not in _UNKNOWN:
            self._well_until = now + _WELL_S
        return well

    async def close(self) -> None:
        """Let go of connections that ask how the server is; sessions are closed by those that hold them."""
        await self._http.close()
        await self._signer.close()

    async def _signed(self, method: str, path: str) -> SentFields:
        found = self._signer.authorise(method, f"{self.address.origin}{path}", self._http.headers.fields, b"")
        return await found if isinstance(found, Awaitable) else found
