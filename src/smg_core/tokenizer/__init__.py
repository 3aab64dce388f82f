"""Text to token ids, through the cache, and back; conversations to prompts.

    from smg_core.tokenizer import CachedTokenizer, Prompt, StopMatcher, load_tokenizer

Begin with `base`: the roles `Tokenizer`, `IncrementalDecoder` and `PromptTemplate`. `loader` (edge) reads a model's folder into
them: `huggingface` and `tiktoken` are the tokenizers, `chat_template` the template with `messages`, `template_facts` and
`text_changes`. `cache` remembers prompts by `prefix_tree`, around a program's own vocabulary too (`own`); `stream` makes text of
ids as they arrive and finds stop strings, `protection` with `control` and `stand_ins` keeps control tokens out of a request's
text. The names below load their modules when they are first used; inside the gateway, names are imported from the modules.
"""

from typing import TYPE_CHECKING

from smg_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from smg_core.tokenizer.base import EncodeReport as EncodeReport
    from smg_core.tokenizer.base import IncrementalDecoder as IncrementalDecoder
    from smg_core.tokenizer.base import Prompt as Prompt
    from smg_core.tokenizer.base import SpecialTokens as SpecialTokens
    from smg_core.tokenizer.base import Tokenizer as Tokenizer
    from smg_core.tokenizer.cache import CachedTokenizer as CachedTokenizer
    from smg_core.tokenizer.chat_template import ChatTemplate as ChatTemplate
    from smg_core.tokenizer.loader import TokenizerBundle as TokenizerBundle
    from smg_core.tokenizer.loader import TokenizerFolderError as TokenizerFolderError
    from smg_core.tokenizer.loader import load_tokenizer as load_tokenizer
    from smg_core.tokenizer.own import Vocabulary as Vocabulary
    from smg_core.tokenizer.own import VocabularyTokenizer as VocabularyTokenizer
    from smg_core.tokenizer.settings import TokenizerConfig as TokenizerConfig
    from smg_core.tokenizer.stream import StopMatcher as StopMatcher
    from smg_core.tokens import TokenIds as TokenIds

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "smg_core.tokenizer.base": ("EncodeReport", "IncrementalDecoder", "Prompt", "SpecialTokens", "Tokenizer"),
        "smg_core.tokenizer.cache": ("CachedTokenizer",),
        "smg_core.tokenizer.chat_template": ("ChatTemplate",),
        "smg_core.tokenizer.loader": ("TokenizerBundle", "TokenizerFolderError", "load_tokenizer"),
        "smg_core.tokenizer.own": ("Vocabulary", "VocabularyTokenizer"),
        "smg_core.tokenizer.settings": ("TokenizerConfig",),
        "smg_core.tokenizer.stream": ("StopMatcher",),
        "smg_core.tokens": ("TokenIds",),
    },
)
