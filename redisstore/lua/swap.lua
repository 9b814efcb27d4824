-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Reads values that the caller decides on itself, or replaces those that have not changed
-- since.
--
-- KEYS     one for each limit, all in one slot
-- ARGV[1]  1 to read, 2 to replace
-- then, to replace, 'PXAT' or, if the clock is the caller's, 'PX', the instant of the
-- decision, and for each limit the value read, its replacement and its expiry: in ms since
-- 1970 for 'PXAT', in ms from now for 'PX'
--
-- It returns whether it has replaced them, the time in seconds and µs, and, if not, the
-- values.

local call = redis.call
local time = call('TIME')
local reply, how = {0, time[1], time[2]}, ARGV[2]
-- States that became idle since the decision are still stored: keys outlive them.
local same = ARGV[1] == '2' and (how ~= 'PXAT' or time[1] * 1000000 + time[2] - ARGV[3] < 1000000)
for i, key in ipairs(KEYS) do
	reply[i + 3] = call('GET', key) or ''
	same = same and reply[i + 3] == ARGV[3 * i + 1]
end
if not same then
	return reply
end
for i, key in ipairs(KEYS) do
	local old, new = ARGV[3 * i + 1], ARGV[3 * i + 2]
	if new == '' and old ~= '' then
		call('DEL', key)
	elseif new ~= old then
		call('SET', key, new, how, ARGV[3 * i + 3])
	end
end
return {1, time[1], time[2]}
