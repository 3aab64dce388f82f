"""An engine without a model, over real gRPC: for notebooks, tests and measurements. Exports nothing here; import the modules.

server            `SimulatedEngine`: the gRPC server, the only module that waits, besides `remote` and `shared_memory` (edge)
engine            `SimulatorConfig`, and `EngineCore`: what is refused, and the tokens of every answer
replies, prose    scripted replies, rules and tool calls; sentences
shapes            text that satisfies a constraint: JSON schema here, the others in `expressions` and `structural_tags`
vocabulary        the tokenizer and the numbers of the model's folder (`model` is the shipped one)
prefix_cache      the blocks of prompts it has seen; `kv_feed` numbers their changes for subscribers
clockwork         when tokens are due, and how many requests run at once
faults            what goes wrong, and for which request; `control` and `remote` set it from another process
server_codec      the role of a dialect, implemented by one module a dialect; `all_codecs` makes them
choice_messages   the messages of one choice
media             checks of media; `neutral_media` and `tensor_names` for one dialect each, `shared_memory` reads tensors (edge)
fleet             a whole fleet under a virtual clock, for comparing routing policies; it uses none of the modules above
refusal           `Refused`, what all modules raise for a request that is not taken
"""
