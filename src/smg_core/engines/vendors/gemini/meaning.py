"""What the fields of a client's generateContent body mean in the words that `body` has for them. Pure. Above: body."""

from smg_core.engines.vendors.client_bytes import ABSENT

__all__ = ["meant"]


def meant(name: str, value: object) -> object:
    """What a field's value means; ABSENT where it is as if it were not there."""
    if value is None or (name in ("tools", "safetySettings") and value == []) or value == {}:
        return ABSENT
    match name:
        case "contents" if isinstance(value, list):
            return [_content(each) for each in value]
        case "systemInstruction" if isinstance(value, dict):
            return {"parts": value.get("parts")}
        case "generationConfig" if isinstance(value, dict):
            config = {
                key: each for key, each in value.items() if each is not None and (key, each) != ("candidateCount", 1)
            }
            return config or ABSENT
        case "toolConfig" if value == {"functionCallingConfig": {"mode": "AUTO"}}:
            return ABSENT
    return value


def _content(content: object) -> object:
    return {"role": "user", **content} if isinstance(content, dict) else content
