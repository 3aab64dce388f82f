"""Text to token ids, through the cache, and back, with stop strings; conversations to prompts.

Begin with `base`: the roles `Tokenizer`, `IncrementalDecoder` and `PromptTemplate`. `loader` (edge) reads a model's folder into
them: `huggingface` and `tiktoken` are the tokenizers, `chat_template` the template with `messages`, `template_facts` and
`text_changes`. `cache` remembers prompts by `prefix_tree`, `stream` makes text of ids as they arrive and finds stop strings,
`protection` with `control` and `stand_ins` keeps control tokens out of a request's text. Import from the modules.
"""
