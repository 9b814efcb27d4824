// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

// All scripts have the keys of the records, a hash, and of the log, a list with the
// latest first. A record is "COUNTER WRITER BODY", an entry "NUMBER RANDOM WRITER
// RECORD BODY", with - for no record and * for several. The field !head is "NUMBER:RANDOM" of the last
// entry.

// numbering reads the largest number there is, or was to who asks: known.
const numbering = `
local head = redis.call('HGET', KEYS[1], '!head') or '0:'
local seq = tonumber(string.match(head, '^(%d+):')) or 0
if seq > 2^50 then seq = 0 end -- nobody counts so far
seq = math.max(seq, tonumber(known))
local function log(writer, random, record, entry, most)
  seq = seq + 1
  local s = string.format('%.0f', seq)
  redis.call('LPUSH', KEYS[2], s .. ' ' .. random .. ' ' .. writer .. ' ' .. record .. ' ' .. entry)
  redis.call('LTRIM', KEYS[2], 0, most - 1)
  redis.call('HSET', KEYS[1], '!head', s .. ':' .. random)
  return s
end
`

// changeScript writes a record, if ARGV[1] names one and it is in version ARGV[2],
// and an entry.
var changeScript = NewScript(`
local id, was, writer, body, entry, random, known, most, entries = unpack(ARGV)
` + numbering + `
if id == '' then return {'done', log(writer, random, '-', entry, entries)} end
local now = redis.call('HGET', KEYS[1], id)
if (now and string.match(now, '^(%d+ %S+) ') or '') ~= was then return {'conflict', now or ''} end
if not now and redis.call('HLEN', KEYS[1]) > tonumber(most) then return {'full'} end
local s = log(writer, random, id, entry, entries)
redis.call('HSET', KEYS[1], id, s .. ' ' .. writer .. ' ' .. body)
return {'done', s}`)

// logScript returns the entries from number ARGV[1] on, at most ARGV[2], the latest
// first.
var logScript = NewScript(`
local most, from = tonumber(ARGV[2]), tonumber(ARGV[1])
if from > 0 then
  local head = redis.call('HGET', KEYS[1], '!head') or '0:'
  most = math.min(most, (tonumber(string.match(head, '^(%d+):')) or 0) - from + 1)
end
if most < 1 then return {} end
return redis.call('LRANGE', KEYS[2], 0, most - 1)`)

// fetchScript returns the records ARGV, empty where there is none.
var fetchScript = NewScript(`
local out = redis.call('HMGET', KEYS[1], unpack(ARGV))
for i = 1, #out do out[i] = out[i] or '' end
return out`)

// scanScript returns the cursor after ARGV[1], then in turn the IDs and versions of
// some records. The first is that of the head.
var scanScript = NewScript(`
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local out = {page[1], redis.call('HGET', KEYS[1], '!head') or ''}
local list = page[2]
for i = 1, #list, 2 do
  if string.sub(list[i], 1, 1) ~= '!' then
    out[#out + 1] = list[i]
    out[#out + 1] = string.match(list[i + 1], '^%d+ %S+') or ''
  end
end
return out`)

// mergeScript writes those of the records ARGV[7..] that are newer than what is there:
// of each ID, counter, writer and body. It returns how many were, and the head. With an
// entry it is written then, and if there are no records.
var mergeScript = NewScript(`
local writer, random, known, most, entries, entry = unpack(ARGV, 1, 6)
` + numbering + `
local n = 0
for i = 7, #ARGV, 4 do
  local now = redis.call('HGET', KEYS[1], ARGV[i])
  local counter, by = string.match(now or '', '^(%d+) (%S+) ')
  counter = tonumber(counter) or 0
  if counter > 2^50 then counter = 0 end
  local mine = tonumber(ARGV[i + 1])
  if counter < mine or counter == mine and by < ARGV[i + 2] then
    if now or redis.call('HLEN', KEYS[1]) <= tonumber(most) then
      redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3])
      seq = math.max(seq, mine)
      n = n + 1
    end
  end
end
if entry ~= '' and (n > 0 or #ARGV == 6) then log(writer, random, '*', entry, entries) end
return {string.format('%.0f', n), redis.call('HGET', KEYS[1], '!head') or ''}`)

// dropScript removes the records ARGV, of each ID and version.
var dropScript = NewScript(`
for i = 1, #ARGV, 2 do
  local now = redis.call('HGET', KEYS[1], ARGV[i])
  if now and string.match(now, '^(%d+ %S+) ') == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return {'done'}`)
