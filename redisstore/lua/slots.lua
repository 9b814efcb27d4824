-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Who holds slots of one key: see algo/slots.go.
--
-- KEYS[1]  the leases: for each 17 bytes of owner, its end and its units
-- ARGV[1]  numbers: clock mode, now or 0, op, lifetime, cap, cost, longest
--          lifetime
-- ARGV[2]  the owner
--
-- It returns the leases it found and the server's time in seconds and µs.

local pack, unpack, call, floor = struct.pack, struct.unpack, redis.call, math.floor
local ACQUIRE, RELEASE, PEEK = 0, 2, 3
local mode, now, op, life, cap, cost, longest = unpack('>ddddddd', ARGV[1])
local me = ARGV[2]
local time = {'0', '0'}
if mode == 0 then
	time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
now = math.min(now, LATEST)
local raw = call('GET', KEYS[1]) or ''
if #raw % 28 ~= 0 then
	return redis.error_reply('ERR sluice: the leases are cut short: another program wrote this key')
end

local list, held, written, mine = {}, 0, false, nil
for pos = 1, #raw, 28 do
	local owner, stop, units = unpack('>c17I7I4', raw, pos)
	list[#list + 1] = {owner, stop, units}
	held = held + units
end
local function remove(i)
	held = held - list[i][3]
	list[i] = list[#list]
	list[#list] = nil
	written = true
end
for i = #list, 1, -1 do
	local e = list[i]
	if e[2] <= now then
		remove(i)
		if mine == #list + 1 then
			mine = i
		end
	else
		if e[2] > now + longest then
			e[2] = now + life
			written = true
		end
		if e[1] == me then
			mine = i
		end
	end
end
if op == RELEASE then
	if mine then
		remove(mine)
	end
elseif mine and op ~= PEEK then
	list[mine][2] = now + life
	written = true
elseif op == ACQUIRE and held + cost <= cap then
	list[#list + 1] = {me, now + life, cost}
	written = true
end
if written then
	if #list == 0 then
		if raw ~= '' then
			call('DEL', KEYS[1])
		end
	else
		local parts, last = {}, 0
		for i, e in ipairs(list) do
			parts[i] = pack('>c17I7I4', e[1], e[2], e[3])
			last = math.max(last, e[2])
		end
		if mode == 0 then
			call('SET', KEYS[1], table.concat(parts), 'PXAT', floor(last / 1000) + 1001)
		else
			call('SET', KEYS[1], table.concat(parts), 'PX', floor((last - now) / 1000) + 3600101)
		end
	end
end
return {raw, time[1], time[2]}
