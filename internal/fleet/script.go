// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import "fmt"

// All scripts have the keys of the records, a hash, and of the log, a list with the
// latest first. A record is "COUNTER WRITER BODY", an entry "NUMBER RANDOM WRITER
// RECORD BODY". BODY begins with its format: see [Conn.pack]. RECORD is - for no record, * where records were put back, and ! where
// the store had lost its head before. The field !head is "NUMBER:RANDOM" of the last
// entry.

// reading tells what nodes could have written from anything else, by its size before it
// is read: what they could not counts as absent.
var reading = fmt.Sprintf(`
local time = redis.call('TIME')
local floor = time[1] * 1000 + math.floor(time[2] / 1000)
local bound = floor + %.0f
local function counter(text)
  if not text or #text > 15 or tonumber(text) > bound then return nil end
  return tonumber(text)
end
local function kept(id)
  local size = redis.call('HSTRLEN', KEYS[1], id)
  if size == 0 or size > %d then return nil end
  local text = redis.call('HGET', KEYS[1], id)
  local count, writer = string.match(text, '^([1-9]%%d*) ([A-Z2-7]+) ')
  if not counter(count) or #writer > 32 then return nil end
  return count, writer, text
end
local function version(id)
  local count, writer = kept(id)
  return count and count .. ' ' .. writer or ''
end
local function head()
  if redis.call('HSTRLEN', KEYS[1], '!head') > %d then return '' end
  return redis.call('HGET', KEYS[1], '!head') or ''
end
`, float64(counterStep), longestKept, longestMark)

// numbering finds the largest number there is, or was to who asks: known. It is at least
// the time, so that a store that has lost its head counts on above what it had.
const numbering = `
local seq = counter(string.match(head(), '^([1-9]%d*):%S')) or 0
known = counter(known) or 0
local lost = seq == 0 or seq < known
seq = math.max(seq, known, floor)
local function log(writer, random, record, entry, most)
  seq = seq + 1
  if lost and record ~= '*' then record = '!' end
  local s = string.format('%.0f', seq)
  redis.call('LPUSH', KEYS[2], s .. ' ' .. random .. ' ' .. writer .. ' ' .. record .. ' ' .. entry)
  redis.call('LTRIM', KEYS[2], 0, most - 1)
  redis.call('HSET', KEYS[1], '!head', s .. ':' .. random)
  return s
end
`

// publishScript writes an entry.
var publishScript = NewScript(`
local writer, record, entry, random, known, entries = unpack(ARGV)
` + reading + numbering + `
return {'done', log(writer, random, record, entry, entries)}`)

// changeScript writes a record, if it is in version ARGV[2], and an entry.
var changeScript = NewScript(`
local id, was, writer, body, entry, random, known, most, entries = unpack(ARGV)
` + reading + numbering + `
local count, by, text = kept(id)
if (count and count .. ' ' .. by or '') ~= was then return {'conflict', text or ''} end
if redis.call('HLEN', KEYS[1]) > tonumber(most) and redis.call('HEXISTS', KEYS[1], id) == 0 then return {'full'} end
seq = math.max(seq, counter(count) or 0)
local s = log(writer, random, id, entry, entries)
redis.call('HSET', KEYS[1], id, s .. ' ' .. writer .. ' ' .. body)
return {'done', s}`)

// logScript returns the entries from number ARGV[1] on, at most ARGV[2] and about
// ARGV[3] bytes, the latest first. An entry that is longer than nodes write is empty.
var logScript = NewScript(fmt.Sprintf(`
local from, most, room = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local out = {}
for at = 0, most - 1, 8 do
  local list = redis.call('LRANGE', KEYS[2], at, math.min(at + 8, most) - 1)
  for i = 1, #list do
    local entry = #list[i] <= %d and list[i] or ''
    room = room - #entry
    if room < 0 then return out end
    out[#out + 1] = entry
    local number = tonumber(string.match(entry, '^(%%d+) '))
    if number and number <= from then return out end
  end
  if #list < 8 then return out end
end
return out`, longestKept))

// fetchScript returns the records ARGV[2..], empty where there is none, and no more of
// them than ARGV[1] bytes hold.
var fetchScript = NewScript(reading + `
local room, out = tonumber(ARGV[1]), {}
for i = 2, #ARGV do
  local count, writer, text = kept(ARGV[i])
  text = text or ''
  room = room - #text
  if room < 0 and i > 2 then return out end
  out[#out + 1] = text
end
return out`)

// namesScript returns the head, then the IDs of all records, unless there are more
// fields than ARGV[1]. Values are not read: HSCAN reads them.
var namesScript = NewScript(reading + fmt.Sprintf(`
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then return {} end
local out = {head()}
local list = redis.call('HKEYS', KEYS[1])
for i = 1, #list do
  if #list[i] == %d then out[#out + 1] = list[i] end
end
return out`, idLength))

// versionsScript returns the versions of the records ARGV, empty where there is none.
var versionsScript = NewScript(reading + `
local out = {}
for i = 1, #ARGV do out[i] = version(ARGV[i]) end
return out`)

// mergeScript writes those of the records ARGV[7..] that are newer than what is there:
// of each ID, counter, writer and body. It returns how many were. With an entry it is
// written then, and if there are no records.
var mergeScript = NewScript(`
local writer, random, known, most, entries, entry = unpack(ARGV, 1, 6)
` + reading + numbering + `
local n = 0
for i = 7, #ARGV, 4 do
  local count, by = kept(ARGV[i])
  local there, mine = counter(count) or 0, counter(ARGV[i + 1]) or 0
  if there < mine or there == mine and there > 0 and by < ARGV[i + 2] then
    if redis.call('HLEN', KEYS[1]) <= tonumber(most) or redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
      redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3])
      n = n + 1
    end
  end
end
if entry ~= '' then log(writer, random, '*', entry, entries) end
return {string.format('%.0f', n)}`)

// dropScript removes the records ARGV, of each ID and version.
var dropScript = NewScript(reading + `
for i = 1, #ARGV, 2 do
  if version(ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return {'done'}`)
