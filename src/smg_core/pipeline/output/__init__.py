"""From an engine's output to events: decode, stop strings, reasoning, tool calls, counts."""
