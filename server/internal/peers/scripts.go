// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package peers

import "github.com/sluicegate/sluice/server/internal/fleet"

// Names of the keys. Values begin with the time of the write, in microseconds by the store's
// clock, in stampDigits digits.
const (
	keyNodes   = "nodes"   // a field for each node, by its id
	keyReports = "reports" // two fields for each node: "at:ID" has the time alone
	keyWatch   = "watch"   // the end of the watch; and "r:RULE", for each rule of the watch

	fieldUntil  = "until"
	fieldChange = "change" // when a rule was last added to the watch
	stampDigits = 16
)

const now = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function stamp(at) return string.format('%016.0f', at) end
`

// beatScript writes the line ARGV[2] of the node ARGV[1]. The lines expire ARGV[3] ms after
// the last write. If ARGV[4] is 1, it removes nodes that have written nothing for that time.
// Beyond ARGV[5] nodes it removes any that has written nothing for a minute. It returns
// "watched" and the rules of the watch, or nothing without a watch.
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
  out[1] = 'watched'
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'r:' and (tonumber(all[i + 1]) or 0) > now then out[#out + 1] = string.sub(all[i], 3) end
  end
end
return out`)

// leaveScript removes the node ARGV[1].
var leaveScript = fleet.NewScript(`
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1], 'at:' .. ARGV[1])
return {}`)

// publishScript writes the report ARGV[2] of the node ARGV[1]. The reports expire ARGV[3]
// ms after the last write.
var publishScript = fleet.NewScript(now + `
redis.call('HSET', KEYS[1], ARGV[1], stamp(now) .. ARGV[2], 'at:' .. ARGV[1], stamp(now))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {}`)

// watchScript writes a watch of ARGV[1] ms at the rules ARGV[3] and so on. A watch has at most
// ARGV[2] rules.
var watchScript = fleet.NewScript(now + `
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

// listScript returns the time, then for each node but ARGV[1] its id, its line, and the time
// of its report, empty if it has none. It returns at most ARGV[2] nodes, and an empty text
// in place of one longer than ARGV[3].
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
// bytes together. It returns "later" in place of each further report.
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
