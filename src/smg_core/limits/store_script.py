"""The script of a Valkey or Redis for limits: the function that counts there, and its arguments in the form that it reads.

Pure. All operations of a batch are one call: a claim charges all its rules or none, what is put right always counts. Rates are
counted by the server's own clock. Numbers in the server are doubles, exact to 2^53: products are worked out here, so that the
function only adds and compares. What a process has reserved in windows of the calendar, and its requests at once, stand beside
the process's name until a time, so that those of a process that is gone come back. Above: `limits.store`. Below: the counters.
"""

from collections.abc import Sequence
from hashlib import blake2b

from smg_core.limits.calendar import window_of
from smg_core.limits.counters import Counter, Instant
from smg_core.limits.decision import LimitClaim, LimitRefusal

__all__ = ["FUNCTION", "LIBRARY", "SCRIPT", "claim_parts", "key_of", "put_right_parts", "refusal_in"]

FUNCTION = "smg_limits_1"
_EXACT = 1 << 52
_RATE, _CALENDAR, _AT_ONCE = range(3)
_DAY_MS = 86_400_000
_WINDOW_ENDS = -2

_BODY = """
local function whole(number) return string.format('%.0f', number) end
local function reserved(key, now, member)
  local found = redis.call('HGETALL', key)
  local first, second, sum, own, gone = 0, 0, 0, 0, {}
  local amounts, ends = {}, {}
  for at = 1, #found, 2 do
    local name, value = found[at], tonumber(found[at + 1])
    if name == 'f' then first = value elseif name == 's' then second = value
    elseif string.sub(name, 1, 1) == 'r' then amounts[string.sub(name, 2)] = value
    else ends[string.sub(name, 2)] = value end
  end
  for name, value in pairs(amounts) do
    if (ends[name] or 0) > now then
      sum = sum + value
      if name == member then own = value end
    else gone[#gone + 1] = name end
  end
  for _, name in ipairs(gone) do redis.call('HDEL', key, 'r' .. name, 'x' .. name) end
  return first, second, sum, own
end
local function begin_window(key, first, begins)
  if first == begins then return end
  local found = redis.call('HKEYS', key)
  for _, name in ipairs(found) do redis.call('HDEL', key, name) end
end
local function rate(key, now, more, rest, amount)
  local found = redis.call('HMGET', key, 'f', 's')
  local first, second = tonumber(found[1] or '0'), tonumber(found[2] or '0')
  local ahead, parts = first - now, second
  if ahead < 0 then ahead, parts = 0, 0 elseif parts >= amount then parts = amount - 1 end
  ahead, parts = ahead + more, parts + rest
  if parts >= amount then ahead, parts = ahead + 1, parts - amount end
  if ahead < 0 then ahead, parts = 0, 0 end
  return first, second, ahead, parts
end
local function write_rate(key, now, ahead, parts)
  redis.call('HSET', key, 'f', whole(now + ahead), 's', whole(parts))
  redis.call('PEXPIRE', key, whole(math.floor(ahead / 1000) + 1000))
end
local function write_own(key, now, ttl, member, own, life)
  redis.call('HSET', key, 'r' .. member, whole(math.max(0, own)), 'x' .. member, whole(now + ttl))
  if life > 0 then redis.call('PEXPIRE', key, whole(life)) else redis.call('PERSIST', key) end
end
local function claim(keys, now, ttl, member, parts, told)
  local refused, steps = 0, {}
  for at, each in ipairs(parts) do
    local key, kind, wait = keys[each[1]], each[2], 0
    if kind == 0 then
      local first, second, ahead, rest = rate(key, now, each[3], each[4], each[5])
      local over = ahead - each[6]
      if rest > each[7] then over = over + 1 end
      if over > 0 then wait = over end
      steps[at] = {first, second, ahead, rest, wait}
    else
      local first, second, sum, own = reserved(key, now, member)
      if kind == 1 and first ~= each[5] then first, second, sum, own = first, 0, 0, 0 end
      if second + sum + each[3] > each[4] then wait = kind == 1 and -2 or -1 end
      steps[at] = {first, second, sum, own, wait}
    end
    if wait ~= 0 then refused = 1 end
  end
  told[#told + 1] = refused
  for at, each in ipairs(parts) do
    local key, kind, step = keys[each[1]], each[2], steps[at]
    local first, second = step[1], step[2]
    if kind == 0 then
      if refused == 0 then
        write_rate(key, now, step[3], step[4])
        first, second = now + step[3], step[4]
      end
    else
      local cost = refused == 0 and each[3] or 0
      if refused == 0 then
        if kind == 1 then
          begin_window(key, first, each[5])
          redis.call('HSET', key, 'f', whole(each[5]), 's', whole(second))
        end
        write_own(key, now, ttl, member, step[4] + cost, kind == 1 and each[6] or ttl / 1000)
      end
      if kind == 1 then first, second = each[5], second + step[3] + cost
      else first, second = step[3] + cost, 0 end
    end
    told[#told + 1] = first
    told[#told + 1] = second
    told[#told + 1] = step[5]
  end
end
local function put_right(keys, now, ttl, member, parts)
  for _, each in ipairs(parts) do
    local key, kind = keys[each[1]], each[2]
    if kind == 0 then
      local _, _, ahead, rest = rate(key, now, each[3], each[4], each[5])
      write_rate(key, now, ahead, rest)
    else
      local first, second, sum, own = reserved(key, now, member)
      if kind == 2 then
        write_own(key, now, ttl, member, own + each[3], ttl / 1000)
      elseif first <= each[5] then
        if first ~= each[5] then second, own = 0, 0 end
        begin_window(key, first, each[5])
        redis.call('HSET', key, 'f', whole(each[5]), 's', whole(math.max(0, second + each[4])))
        write_own(key, now, ttl, member, own + each[3], each[6])
      end
    end
  end
end
local function count(keys, args)
  local asked = cmsgpack.unpack(args[1])
  local now, deadline, member, ttl, number = asked[1], asked[2], asked[3], asked[4], asked[5]
  if now == 0 then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  local told = {now, 1}
  if deadline > 0 and now > deadline then
    told[2] = 0
    return cmsgpack.pack(told)
  end
  if number > 0 and tonumber(redis.call('GET', keys[1]) or '0') < number then
    redis.call('SET', keys[1], whole(number), 'PX', '86400000')
    for _, parts in ipairs(asked[6]) do put_right(keys, now, ttl, member, parts) end
  end
  for _, parts in ipairs(asked[7]) do claim(keys, now, ttl, member, parts, told) end
  return cmsgpack.pack(told)
end
"""
LIBRARY = f"#!lua name={FUNCTION}\n{_BODY}\nredis.register_function('{FUNCTION}', count)\n"
SCRIPT = f"if redis.replicate_commands then redis.replicate_commands() end\n{_BODY}\nreturn count(KEYS, ARGV)\n"
"""The same for a server that has no functions."""

ScriptPart = list[int]


def key_of(scope: str) -> str:
    """The key of a counter. All have one hash tag, so that a cluster has those of one request in one place; no name is in it."""
    return "smg:{limits}:" + blake2b(scope.encode(), digest_size=16).hexdigest()


def claim_parts(claims: Sequence[LimitClaim], keys: dict[str, int], at: Instant, zone: str) -> list[ScriptPart]:
    """What the function is asked to charge; `keys` are those of the call, with their places."""
    found: list[ScriptPart] = []
    for claim in claims:
        rule, place = claim.rule, _place(claim, keys)
        if rule.width_us:
            whole, rest = _divided(claim.cost * rule.width_us, rule.amount)
            most, most_rest = _divided(rule.burst * rule.width_us, rule.amount)
            found.append([place, _RATE, whole, rest, rule.amount, most, most_rest])
        elif rule.calendar:
            begins, ends = window_of(rule.window, zone, at.wall_s)
            found.append([place, _CALENDAR, claim.cost, rule.amount, begins, _life(ends, at)])
        else:
            found.append([place, _AT_ONCE, claim.cost, rule.amount])
    return found


def put_right_parts(
    claims: Sequence[LimitClaim],
    costs: Sequence[int],
    keys: dict[str, int],
    taken_at: Instant,
    at: Instant,
    zone: str,
    *,
    ends: bool,
) -> list[ScriptPart]:
    """What the function is asked to put right of what was charged at `taken_at`. In a window that is over nothing changes."""
    found: list[ScriptPart] = []
    for claim, cost in zip(claims, costs, strict=True):
        rule, more = claim.rule, cost - claim.cost
        if rule.width_us:
            if more:
                found.append([_place(claim, keys), _RATE, *_divided(more * rule.width_us, rule.amount), rule.amount])
        elif rule.calendar:
            begins, ending = window_of(rule.window, zone, taken_at.wall_s)
            if begins == window_of(rule.window, zone, at.wall_s)[0]:
                reserved, settled = (-claim.cost, cost) if ends else (more, 0)
                found.append([_place(claim, keys), _CALENDAR, reserved, settled, begins, _life(ending, at)])
        elif more:
            found.append([_place(claim, keys), _AT_ONCE, more])
    return found


def refusal_in(
    claims: Sequence[LimitClaim], answer: Sequence[int], at: Instant, zone: str
) -> tuple[list[Counter], LimitRefusal | None]:
    """The counters that the function tells of one claim, and why it was refused, if it was."""
    counters: list[Counter] = []
    worst = None
    for place, claim in enumerate(claims):
        first, second, wait = answer[1 + place * 3 : 4 + place * 3]
        counters.append(Counter(first, second))
        if wait == _WINDOW_ENDS:
            ending = window_of(claim.rule.window, zone, at.wall_s)[1]
            wait = -1 if ending is None else max(1, int((ending - at.wall_s) * 1_000_000))
        if wait and (worst is None or (worst.wait_us != -1 and (wait == -1 or wait > worst.wait_us))):
            worst = LimitRefusal(claim, wait, claim.cost > claim.rule.capacity)
    return counters, worst


def _place(claim: LimitClaim, keys: dict[str, int]) -> int:
    return keys.setdefault(key_of(claim.scope), len(keys) + 1)


def _divided(total: int, amount: int) -> tuple[int, int]:
    whole, rest = divmod(total, amount)
    return (whole, rest) if -_EXACT < whole < _EXACT else (_EXACT if whole > 0 else -_EXACT, 0)


def _life(ends: int | None, at: Instant) -> int:
    """How long a window of the calendar is kept, in milliseconds; 0: for good."""
    return 0 if ends is None else max(1, int((ends - at.wall_s) * 1000)) + _DAY_MS
