"""Plugins that are WebAssembly components, in a sandbox of memory, stack and time.

`loading` makes of an entry and a file a middleware; `plugin` is that middleware; `instances` says who gets which instance;
`running` calls guests, in steps or in threads; `joining` puts an adapter before a component, which passes one text in and one out
(`fields`) and has bounds for the answers (`bounds`); `worlds` has the two worlds that a component may be of: ours
(`sdk/plugin.wit`) and `smg:gateway`.
"""
