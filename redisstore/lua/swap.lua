-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Reads values on which the caller decides itself, or replaces those that have not changed
-- since.
--
-- KEYS     one for each limit, all in one slot
-- ARGV[1]  1 to read, 2 to replace
-- then, to replace, 'PXAT' or, if the clock is the caller's, 'PX', the instant of the
-- decision, and for each limit the value read, its replacement and its expiry: in ms since
-- 1970 for 'PXAT', in ms from now for 'PX'
--
-- and, in both cases, for each key the name of the field that has the value if the key is a
-- hash, else ''. With 3 in ARGV[1] it returns the whole hash KEYS[1].
--
-- It returns whether it has replaced them, the time in seconds and µs, and, if not, the
-- values.

local call = redis.call
local time = call('TIME')
local reply, how = {0, time[1], time[2]}, ARGV[2]
-- States that became idle since the decision are still stored: keys outlive them.
local first = ARGV[1] == '2' and 3 + 3 * #KEYS or 1
if ARGV[1] == '3' then
	reply[4] = call('HGETALL', KEYS[1])
	return reply
end
local same = ARGV[1] == '2' and (how ~= 'PXAT' or time[1] * 1000000 + time[2] - ARGV[3] < 1000000)
for i, key in ipairs(KEYS) do
	local field = ARGV[first + i] or ''
	reply[i + 3] = (field == '' and call('GET', key) or field ~= '' and call('HGET', key, field)) or ''
	same = same and reply[i + 3] == ARGV[3 * i + 1]
end
if not same then
	return reply
end
for i, key in ipairs(KEYS) do
	local old, new = ARGV[3 * i + 1], ARGV[3 * i + 2]
	local field = ARGV[first + i] or ''
	if field ~= '' and new == '' then
		call('HDEL', key, field)
	elseif field ~= '' and new ~= old then
		call('HSET', key, field, new)
		call(how == 'PX' and 'PEXPIRE' or 'PEXPIREAT', key, ARGV[3 * i + 3])
	elseif new == '' and old ~= '' then
		call('DEL', key)
	elseif new ~= old then
		call('SET', key, new, how, ARGV[3 * i + 3])
	end
end
return {1, time[1], time[2]}
