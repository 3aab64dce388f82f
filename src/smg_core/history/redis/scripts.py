"""The scripts that the history runs in Redis or Valkey, in Lua. A script is done whole before anything else is.

Pure. Above: `store`.
"""

__all__ = ["BEHIND", "CHAIN", "FIELDS", "HASHES", "LEASE", "NOT_DUE", "NOT_PENDING", "RUN"]

RUN = """
local at = 2
for _ = 1, tonumber(ARGV[1]) do
  if (redis.call('HGET', ARGV[at], ARGV[at + 1]) or '') ~= ARGV[at + 2] then return 0 end
  at = at + 3
end
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end
return 1
"""

BEHIND = """
local function precedes(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = one:byte(at), other:byte(at)
    if a ~= b then return a < b end
  end
  return #one < #other
end
local key, score, member, limit, falls = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local first = 0
if score ~= '' then
  local low, high = redis.call('ZCOUNT', key, '-inf', '(' .. score), redis.call('ZCOUNT', key, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes(redis.call('ZRANGE', key, middle, middle)[1], member) then low = middle + 1 else high = middle end
  end
  if falls then
    first = redis.call('ZCARD', key) - low
  else
    local at = redis.call('ZSCORE', key, member)
    first = (at and tonumber(at) == tonumber(score)) and low + 1 or low
  end
end
return redis.call(falls and 'ZREVRANGE' or 'ZRANGE', key, first, first + limit - 1, 'WITHSCORES')
"""
"""Members of a sorted set behind a score and a member, which need not be there any more, with their scores. Members of one score
are ordered by their bytes, as the set has them; how Lua compares texts depends on the server's locale."""

CHAIN = """
local found, seen, id, total = {}, {}, ARGV[2], 0
while #found <= tonumber(ARGV[3]) and total <= tonumber(ARGV[4]) do
  local link = redis.call('HMGET', ARGV[1] .. id, 'version', 'expires_at', 'previous_id', 'status', 'model', 'created_at',
    'input', 'output')
  if not link[1] or (link[2] ~= '' and tonumber(link[2]) <= tonumber(ARGV[5])) then break end
  total = total + #link[7] + #link[8]
  found[#found + 1] = {id, link[3], link[4], link[5], link[6], link[7], link[8]}
  if seen[id] or link[3] == '' then break end
  seen[id] = true
  id = link[3]
end
return found
"""

FIELDS = """
local found, total = {}, 0
for at = 2, #ARGV do
  total = total + redis.call('HSTRLEN', KEYS[1], ARGV[at])
  if at > 2 and total > tonumber(ARGV[1]) then break end
  found[#found + 1] = redis.call('HGET', KEYS[1], ARGV[at])
end
return found
"""

HASHES = """
local found, total = {}, 0
for at, key in ipairs(KEYS) do
  for field = 2, #ARGV do total = total + redis.call('HSTRLEN', key, ARGV[field]) end
  if at > 1 and total > tonumber(ARGV[1]) then break end
  found[#found + 1] = redis.call('HGETALL', key)
end
return found
"""

NOT_PENDING = """
local found = redis.call('HMGET', KEYS[2], 'pending', 'expires_at')
local live = found[1] and (found[2] == '' or tonumber(found[2]) > tonumber(ARGV[2]))
if live and found[1] ~= '' then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
"""

NOT_DUE = """
local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
if at and tonumber(at) > tonumber(ARGV[2]) then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
"""

LEASE = """
local held = redis.call('HMGET', KEYS[1], 'owner', 'token', 'expires_at')
local live = held[1] and tonumber(held[3]) > tonumber(ARGV[1])
local token = tonumber(held[2] or '0')
if ARGV[3] == '' then
  if live then return 0 end
  token = token + 1
elseif not live or held[1] ~= ARGV[2] or held[2] ~= ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'token', token, 'expires_at', ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return token
"""
