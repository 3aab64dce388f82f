"""Text from outside, such as an engine's error, as a log may have it.

Begin with `filtering`; `vocabulary` has the known words, `exceptions` what users' code says when it fails.
"""

from smg_core.outside_words.filtering import Outside, in_log, known_words

__all__ = ["Outside", "in_log", "known_words"]
