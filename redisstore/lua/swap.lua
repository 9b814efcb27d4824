-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Values that the caller decides on itself: it looks, and then replaces what is
-- still as it saw it.
--
-- KEYS     one for each limit, all in one slot
-- ARGV[1]  1 to look and 2 to replace
-- then, to replace, the instant of the decision and for each limit the value
-- seen, what replaces it and when that ends, in ms since 1970, or so many ms
-- from now if the clock is the caller's, as 'PX' or 'PXAT' shows
--
-- It returns whether it has replaced them, the time in seconds and µs, and, if
-- not, the values.

local call = redis.call
local time = call('TIME')
local reply, how = {0, time[1], time[2]}, ARGV[2]
-- States that were idle since the decision are not gone yet: keys outlive them.
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
