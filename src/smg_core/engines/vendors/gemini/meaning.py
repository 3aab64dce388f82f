"""The meaning of a client's generateContent fields, in the words of `body`. Pure. Above: body."""

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
    if not isinstance(content, dict):
        return content
    return {"role": "user", **content, **_parts_of(content)}


def _parts_of(holder: dict[str, object]) -> dict[str, object]:
    """The parts of a turn or of a result, with media in the alphabet that `body` has for them."""
    parts = holder.get("parts")
    return {"parts": [_part(each) for each in parts]} if isinstance(parts, list) else {}


def _part(part: object) -> object:
    if not isinstance(part, dict):
        return part
    inline, result = part.get("inlineData"), part.get("functionResponse")
    if isinstance(inline, dict) and isinstance(data := inline.get("data"), str):
        return {**part, "inlineData": {**inline, "data": _standard(data)}}
    if isinstance(result, dict):
        return {**part, "functionResponse": {**result, **_parts_of(result)}}
    return part


def _standard(data: str) -> str:
    """Base64 in the alphabet of URLs, or without its padding, in the one that has neither: Google's libraries write the first."""
    plain = data.replace("-", "+").replace("_", "/")
    missing = -len(plain) % 4
    return plain + "=" * missing if missing < 3 else plain
