"""Where everything is put together: the gateway, its ASGI app, and the processes that serve it.

Exports nothing: `smg_core` exports `Gateway`. Above: the command line. Below: every other room.

- Ways in: `gateway` (what users hold), `simulated` and `launched` (gateways with engines of their own), `inprocess` (HTTP
  clients without a socket), `serve` (processes that share a port), `announcing` (what `serve` tells its operator).
- Wiring: `runtime` (builds, starts and stops all), `onboarding` (workers and models that come and go), `loading` (makes a
  model), `reaching` (makes an engine's client), `config_check`, `scratch` (temporary files), `memory` (the C allocator).
- HTTP: `http_protocol` (one connection), `exchange` (one request and its response), `app` (the ASGI app), `routes` and
  `endpoint` (which handler answers), `framing` (what a head must be), `browsers` and `identity` (who may ask), `admission` and
  `bodies` (how much at once).
- Handlers: `inference` (all generating APIs), `apis` and `generating` (tables of APIs and routes), `answering` (makes the
  answer), `timeouts`, `envelopes` (errors), `gemini` (the routes of Google's API), `counting` and `tokenizing` (tokens of a
  prompt), `explain`, `parsing`, `status`, `front_page`, `describing`, `descriptions`, `stored_descriptions` and `docs_page` (the
  API's description).
- Responses: `responses_api` and `responses_flow` (the API's record and its flow), `remembering` (loads and keeps what requests
  refer to), `stored` (the routes of kept responses and conversations), `background`, `background_create`, `background_run`,
  `background_states` and `background_store` (responses that outlive their client), `following` and `news` (streams of what is
  kept), `outcomes` (how a request ended).
- Keys and history: `sealing_keys` (where the keys of sealed content come from), `keeping` (opens, sweeps, closes the history),
  `default_store` (where it is when nobody said).
- `settings`: the settings of this room.
- Media: `media` (shared by all models), `model_media` (of one model), `media_errors`, `sharing` (shared memory).
"""
