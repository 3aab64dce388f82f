"""What a model writes, cut anywhere, becomes reasoning, text and calls of tools.

python examples/parse_output.py
"""

from smg_parsers import CallArguments, CallEnd, CallStart, Parser, Reasoning, Text

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
WRITTEN = (
    "The user wants the weather.</think>I shall look.\n<tool_call>\n"
    '{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
)

parser = Parser.for_model("Qwen/Qwen3-8B", tools=TOOLS, in_reasoning=True, call_id=lambda: "call_1")
chunks = [WRITTEN[at : at + 16] for at in range(0, len(WRITTEN), 16)]  # as they come from an engine
for piece in [piece for chunk in chunks for piece in parser.feed(chunk)] + [*parser.finish()]:
    match piece:
        case Reasoning(text):
            print("reasoning", repr(text))
        case Text(text):
            print("text     ", repr(text))
        case CallStart(name=name):
            print("call     ", name)
        case CallArguments(delta=text):
            print("arguments", text)
        case CallEnd():
            print("end")
