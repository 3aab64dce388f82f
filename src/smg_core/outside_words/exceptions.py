"""The words of an exception of users' code, by who may read them: the author, in a notebook or a test.

Its text may have a part of a request in it, so logs have it only with `observability.fault_words`. Pure. Above:
middleware.asking, observability.policy_failures. Below: nothing.
"""

__all__ = ["FaultWords", "words_of_fault"]

_LONGEST = 1000


class FaultWords(str):  # noqa: SLOT000  # one more field, which a str can have in its __dict__ alone
    """A failure in words that anybody may read: its class and its place. `outside_text` is what the exception itself says."""

    outside_text: str = ""

    @classmethod
    def of(cls, words: str, error: BaseException) -> "FaultWords":
        """`words` about `error`."""
        made = cls(words)
        made.outside_text = words_of_fault(error)
        return made


def words_of_fault(error: BaseException) -> str:
    """What an error says, at most 1,000 characters of it. Its class may be users' code."""
    try:
        return str(error)[:_LONGEST]
    except Exception:  # noqa: BLE001  # code of others, which may raise anything
        return "(it cannot be shown)"
