-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- States that the caller decides itself, as they count beyond 2^53: it looks,
-- and then replaces what is still as it saw it.
--
-- KEYS     one for each limit, all in one slot
-- ARGV[1]  1 to look and 2 to replace
-- then, to replace, the instant of the decision and for each limit the state
-- seen, what replaces it and when that ends, in ms since 1970, or so many ms
-- from now if the clock is the caller's, which 'PX' or 'PXAT' tells
--
-- It returns whether it was done, the time in seconds and µs, and, of a look,
-- the states.

local call = redis.call
local time = call('TIME')
local reply = {1, time[1], time[2]}
if ARGV[1] == '1' then
	for i, key in ipairs(KEYS) do
		reply[i + 3] = call('GET', key) or ''
	end
	return reply
end
local how = ARGV[2]
-- States that were idle since the decision are not gone yet: keys outlive them.
if how == 'PXAT' and time[1] * 1000000 + time[2] - ARGV[3] >= 1000000 then
	return {0, time[1], time[2]}
end
for i, key in ipairs(KEYS) do
	if (call('GET', key) or '') ~= ARGV[3 * i + 1] then
		return {0, time[1], time[2]}
	end
end
for i, key in ipairs(KEYS) do
	local old, new = ARGV[3 * i + 1], ARGV[3 * i + 2]
	if new == '' and old ~= '' then
		call('DEL', key)
	elseif new ~= old then
		call('SET', key, new, how, ARGV[3 * i + 3])
	end
end
return reply
