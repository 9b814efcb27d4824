// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import "github.com/sluicegate/sluice/internal/fleet"

// Names of the keys. What is written begins with when, in microseconds by the store's
// clock, in stampDigits.
const (
	keyNodes   = "nodes"   // a field for each node, by its id
	keyReports = "reports" // two fields: "at:ID" has the time alone
	keyLook    = "look"    // until when somebody looks; and "r:RULE", for each rule that is looked at

	fieldUntil  = "until"
	fieldChange = "change" // when a rule came to those that are looked at
	stampDigits = 16
)

const now = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function stamp(at) return string.format('%016.0f', at) end
`

// beatScript writes the node ARGV[1] as ARGV[2]; all are forgotten ARGV[3] ms after the
// last. Nodes that have written nothing for that long are forgotten if ARGV[4] is 1, and
// beyond ARGV[5] nodes any that has not for a minute. It returns the rules that are
// looked at, behind "looked at" if somebody looks at all.
var beatScript = fleet.NewScript(now + `
redis.call('HSET', KEYS[1], ARGV[1], stamp(now) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if ARGV[4] == '1' then
  local life = tonumber(ARGV[3]) * 1000
  if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[5]) then life = 60000000 end
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local at = tonumber(string.sub(all[i + 1], 1, 16)) or 0
    if at < now - life or at > now + life then
      redis.call('HDEL', KEYS[1], all[i])
      redis.call('HDEL', KEYS[2], all[i], 'at:' .. all[i])
    end
  end
end
local out = {}
if (tonumber(redis.call('HGET', KEYS[3], 'until') or '0') or 0) > now then
  out[1] = 'looked at'
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'r:' and (tonumber(all[i + 1]) or 0) > now then out[#out + 1] = string.sub(all[i], 3) end
  end
end
return out`)

// leaveScript forgets the node ARGV[1].
var leaveScript = fleet.NewScript(`
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1], 'at:' .. ARGV[1])
return {}`)

// publishScript writes the report ARGV[2] of the node ARGV[1]. All are forgotten ARGV[3]
// ms after the last.
var publishScript = fleet.NewScript(now + `
redis.call('HSET', KEYS[1], ARGV[1], stamp(now) .. ARGV[2], 'at:' .. ARGV[1], stamp(now))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {}`)

// lookScript says that somebody looks for ARGV[1] ms, at the rules ARGV[3] and so on.
// There are ARGV[2] at most.
var lookScript = fleet.NewScript(now + `
local till = string.format('%.0f', now + ARGV[1] * 1000)
redis.call('HSET', KEYS[1], 'until', till)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local all = redis.call('HGETALL', KEYS[1])
local left = tonumber(ARGV[2])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'r:' then
    if (tonumber(all[i + 1]) or 0) < now then redis.call('HDEL', KEYS[1], all[i]) else left = left - 1 end
  end
end
for i = 3, #ARGV do
  if redis.call('HEXISTS', KEYS[1], 'r:' .. ARGV[i]) == 1 then
    redis.call('HSET', KEYS[1], 'r:' .. ARGV[i], till)
  elseif left > 0 then
    redis.call('HSET', KEYS[1], 'r:' .. ARGV[i], till, 'change', stamp(now))
    left = left - 1
  end
end
return {stamp(now)}`)

// listScript returns the time, then of each node but ARGV[1] its id, what it has written,
// and when it has written a report, empty if it has not: of ARGV[2] nodes at most. In the
// place of what is longer than ARGV[3] there is nothing.
var listScript = fleet.NewScript(now + `
local out = {stamp(now)}
local ids = redis.call('HKEYS', KEYS[1])
for i = 1, #ids do
  if ids[i] ~= ARGV[1] and #out < ARGV[2] * 3 and #ids[i] <= 64 then
    out[#out + 1] = ids[i]
    out[#out + 1] = redis.call('HSTRLEN', KEYS[1], ids[i]) <= tonumber(ARGV[3]) and redis.call('HGET', KEYS[1], ids[i]) or ''
    out[#out + 1] = redis.call('HGET', KEYS[2], 'at:' .. ids[i]) or ''
  end
end
return out`)

// takeScript returns the reports of the nodes ARGV[2] and so on, until they are ARGV[1]
// bytes together. In the place of what comes then there is "later".
var takeScript = fleet.NewScript(`
local out, left = {}, tonumber(ARGV[1])
for i = 2, #ARGV do
  local n = redis.call('HSTRLEN', KEYS[1], ARGV[i])
  if i > 2 and n > left then
    out[#out + 1] = 'later'
  elseif n > tonumber(ARGV[1]) then
    out[#out + 1] = ''
  else
    out[#out + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or ''
  end
  left = left - n
end
return out`)
