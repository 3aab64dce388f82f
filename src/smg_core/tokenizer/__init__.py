"""Text to token ids and back, and conversations to prompts.

    base             the roles `Tokenizer`, `IncrementalDecoder` and `PromptTemplate`, and the records they share
    loader           reads a model folder, or an engine's archive, into a tokenizer and its chat template (edge)
    huggingface      a tokenizer.json as a `Tokenizer`
    vocabulary       what the structure of a tokenizer.json says: its decoder, and where a text may be cut
    proof, prover    the texts on which fastokens is compared with the reference, and the process that does it (edge)
    tiktoken         a tiktoken vocabulary as a `Tokenizer`
    stream           ids to text as they arrive, and stop strings found in that text
    cache            a `Tokenizer` that remembers the prompts it encoded
    prefix_tree      the beginnings of prompts that the cache keeps
    chat_template    a Jinja chat template: messages to a prompt
    template_facts   what a template's syntax tree says about the input it takes
    text_changes     how a template changes the text that it is given
    messages         messages and tools in the form that templates read
    protection       keeps control tokens in a request's text from becoming control tokens
    stand_ins        protects the text of templates that take text apart
    control          finds control tokens in text
    fill_in_middle   the prompt for the text between a beginning and an end
    settings         the settings of this room

Nothing is exported here; import from the modules.
"""
