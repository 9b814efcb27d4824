// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import "fmt"

// All scripts have two keys: the hash of the records, and the log, a list with the latest
// entry first. A record is "VERSION BODY", an entry "VERSION NODE RECORD BODY"; see
// [Conn.pack] for BODY. RECORD is the field of a record that was changed, "~" and the field if
// it was removed, "*" where nodes compare all records, and "-" in other entries. The field
// !revision has the version of the last entry. Each script returns it first.

// reading reads versions and records. It checks the size of a value before it reads it. A
// value that no node has written has version 0 and the text "?".
var reading = fmt.Sprintf(`
local time = redis.call('TIME')
local floor = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(text)
  if not text or #text > 15 or not string.find(text, '^[1-9]%%d*$') then return 0 end
  local n = tonumber(text)
  return n <= floor + %.0f and n or 0
end
local function shown(n) return n > 0 and string.format('%%.0f', n) or '' end
local function kept(id)
  local size = redis.call('HSTRLEN', KEYS[1], id)
  if size == 0 then return 0, '' end
  if size > %d then return 0, '?' end
  local text = redis.call('HGET', KEYS[1], id)
  local version = number(string.match(text, '^(%%d+) '))
  return version, version > 0 and text or '?'
end
local revision = 0
if redis.call('HSTRLEN', KEYS[1], '!revision') <= 15 then
  revision = number(redis.call('HGET', KEYS[1], '!revision'))
end
`, float64(versionStep), longestKept)

// logging writes entries. A node knows a revision: a store that has a smaller one, or none,
// has lost its data.
const logging = `
local function lost(known) return revision == 0 or revision < number(known) end
local function log(known, node, record, entry, entries)
  revision = math.max(revision + 1, number(known) + 1, floor)
  redis.call('LPUSH', KEYS[2], shown(revision) .. ' ' .. node .. ' ' .. record .. ' ' .. entry)
  redis.call('LTRIM', KEYS[2], 0, entries - 1)
  redis.call('HSET', KEYS[1], '!revision', shown(revision))
end
local function room(id, most)
  return redis.call('HLEN', KEYS[1]) <= tonumber(most) or redis.call('HEXISTS', KEYS[1], id) == 1
end
`

// publishScript writes an entry.
var publishScript = NewScript(`
local known, node, entry, entries = unpack(ARGV)
` + reading + logging + `
if lost(known) then return {shown(revision), 'lost'} end
log(known, node, '-', entry, entries)
return {shown(revision), 'done'}`)

// changeScript writes a record that has version ARGV[4], and an entry. It removes the record
// if the body is empty.
var changeScript = NewScript(`
local known, node, id, was, body, entry, most, entries = unpack(ARGV)
` + reading + logging + `
if lost(known) then return {shown(revision), 'lost'} end
local version, text = kept(id)
if shown(version) ~= was then return {shown(revision), 'conflict', text} end
revision = math.max(revision, version)
if body == '' then
  log(known, node, '~' .. id, entry, entries)
  redis.call('HDEL', KEYS[1], id)
elseif room(id, most) then
  log(known, node, id, entry, entries)
  redis.call('HSET', KEYS[1], id, shown(revision) .. ' ' .. body)
else
  return {shown(revision), 'full'}
end
return {shown(revision), 'done'}`)

// logScript returns the entries back to version ARGV[1], at most ARGV[2], the latest first. An
// entry that is longer than nodes write is empty.
var logScript = NewScript(reading + fmt.Sprintf(`
local from, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local out = {shown(revision)}
for at = 0, most - 1, 8 do
  local list = redis.call('LRANGE', KEYS[2], at, math.min(at + 8, most) - 1)
  for i = 1, #list do
    local entry = #list[i] <= %d and list[i] or ''
    out[#out + 1] = entry
    local version = number(string.match(entry, '^(%%d+) '))
    if version > 0 and version <= from then return out end
  end
  if #list < 8 then return out end
end
return out`, longestKept))

// fetchScript returns the records ARGV[2..], empty where there is none, and no more of
// them than ARGV[1] bytes hold.
var fetchScript = NewScript(reading + `
local left, out = tonumber(ARGV[1]), {shown(revision)}
for i = 2, #ARGV do
  local _, text = kept(ARGV[i])
  left = left - #text
  if left < 0 and i > 2 then return out end
  out[#out + 1] = text
end
return out`)

// namesScript returns the IDs of all records, or 'full' if there are more fields than
// ARGV[1]. It does not read values, as HSCAN does.
var namesScript = NewScript(reading + fmt.Sprintf(`
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[1]) then return {shown(revision), 'full'} end
local out = {shown(revision)}
local list = redis.call('HKEYS', KEYS[1])
for i = 1, #list do
  if #list[i] == %d then out[#out + 1] = list[i] end
end
return out`, idLength))

// putBackScript writes those of the records ARGV[7..] that are newer than the store's: of
// each the ID, the version and the body. It writes an entry if it wrote a record or if the
// store has lost its data. It writes nothing if the store's revision is not ARGV[6]: another
// node may have removed a record.
var putBackScript = NewScript(`
local known, node, most, entries, entry, at = unpack(ARGV, 1, 6)
` + reading + logging + `
if shown(revision) ~= at then return {shown(revision), 'changed'} end
local wrote, emptied = 0, lost(known)
for i = 7, #ARGV, 3 do
  local version = number(ARGV[i + 1])
  if kept(ARGV[i]) < version and room(ARGV[i], most) then
    revision = math.max(revision, version)
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1] .. ' ' .. ARGV[i + 2])
    wrote = wrote + 1
  end
end
if wrote > 0 or emptied then log(known, node, '*', entry, entries) end
return {shown(revision), string.format('%.0f', wrote)}`)

// dropScript removes the records ARGV, of each the ID and the version.
var dropScript = NewScript(reading + `
for i = 1, #ARGV, 2 do
  if shown((kept(ARGV[i]))) == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return {shown(revision)}`)
