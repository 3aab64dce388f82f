"""Plugins that are WebAssembly components, in a sandbox.

    from smg_core.wasm import About, RequestHead, WasmHost

    async with WasmHost() as host:
        session = (await host.load("auth.wasm")).begin(About("r-1", "POST", "/v1/models"))

`loading` makes of an entry and a file a middleware; `plugin` is that middleware; `instances` says who gets which instance;
`running` calls guests, in steps or in threads; `joining` puts an adapter before a component, which passes one text in and one out
(`fields`) and has bounds for the answers (`bounds`); `worlds` has the two worlds that a component may be of: ours
(`sdk/plugin.wit`) and `smg:gateway`. `host` runs components for programs. The names below load
their modules when they are first used.
"""

from typing import TYPE_CHECKING

from smg_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from smg_core.middleware.base import About as About
    from smg_core.middleware.base import AnswerPiece as AnswerPiece
    from smg_core.middleware.base import ChangeHead as ChangeHead
    from smg_core.middleware.base import ChangeText as ChangeText
    from smg_core.middleware.base import Continue as Continue
    from smg_core.middleware.base import End as End
    from smg_core.middleware.base import Failure as Failure
    from smg_core.middleware.base import MiddlewareFault as MiddlewareFault
    from smg_core.middleware.base import Reject as Reject
    from smg_core.middleware.base import RequestBody as RequestBody
    from smg_core.middleware.base import RequestHead as RequestHead
    from smg_core.middleware.base import ResponseHead as ResponseHead
    from smg_core.middleware.entries import Limits as Limits
    from smg_core.middleware.settings import MiddlewareConfig as MiddlewareConfig
    from smg_core.settings import ConfigError as ConfigError
    from smg_core.wasm.guest_report import GuestReport as GuestReport
    from smg_core.wasm.host import WasmHost as WasmHost
    from smg_core.wasm.plugin import WasmPlugin as WasmPlugin

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "smg_core.middleware.base": (
            *("About", "AnswerPiece", "ChangeHead", "ChangeText", "Continue", "End"),
            *("Failure", "MiddlewareFault", "Reject", "RequestBody", "RequestHead", "ResponseHead"),
        ),
        "smg_core.middleware.entries": ("Limits",),
        "smg_core.middleware.settings": ("MiddlewareConfig",),
        "smg_core.settings": ("ConfigError",),
        "smg_core.wasm.host": ("WasmHost",),
        "smg_core.wasm.plugin": ("WasmPlugin",),
        "smg_core.wasm.guest_report": ("GuestReport",),
    },
)
