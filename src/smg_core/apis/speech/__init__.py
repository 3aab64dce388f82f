"""Speech: a text that is spoken by an engine, as OpenAI's API has it."""
