-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes of one key under one limit, which most requests are: main.lua without
-- what they do not need.
--
-- KEYS[1]  the state's key
-- ARGV[1]  numbers: clock mode, now or 0, then the costs
-- ARGV[2]  the limit's numbers
-- ARGV[3]  the head of its states
--
-- It returns what main.lua does.

local costs, args = ARGV[1], ARGV[2]
local mode, instant = unpack('>dd', costs)
if mode == 1 then
	now = instant
else
	local time = call('TIME')
	now, how = time[1] * 1000000 + time[2], 'PXAT'
end
now = min(now, LATEST)
local k = kinds[unpack('>d', args)]
local it = k.new(KEYS[1], ARGV[3], args)
local reply = {0, string.format('%.0f', now)}
if k.outside and k.outside(it, now) then
	return {1, reply[2]}
end
local raw = k.read and k.read(it) or call('GET', it.key) or ''
reply[3] = raw
if raw ~= '' then
	it.exists = true
	if sub(raw, 1, #it.head) ~= it.head then
		return {2, reply[2], k.read and call('GET', it.key) or raw}
	end
	k.load(it, raw, #it.head + 1)
	if it.a > MOST then
		return {3, reply[2]}
	end
end
if it.ring then
	reply[3] = {}
end

for pos = 17, #costs, 8 do
	local cost = unpack('>d', costs, pos)
	if it.ring then
		reply[3][(pos - 9) / 8] = k.seen(it, TAKE, cost, 0)
	end
	if it.idle ~= 0 then
		local ahead = it.idle - now
		if ahead <= 0 then
			clear(it)
			it.written = true
		elseif ahead > it.horizon then
			clear(it)
			k.spend(it, now, it.full + it.debt)
			it.written = true
		elseif it.reserved and k.instant(it) <= now then
			it.reserved = false
		end
	end
	if cost <= it.full and (it.idle == 0 or k.earliest(it, cost) <= now) then
		if cost > 0 then
			k.spend(it, now, cost)
			it.written = true
		end
	elseif it.countDenied == 1 and cost > 0 then
		k.record(it, cost)
		it.written = true
	end
end

if it.written then
	if it.idle > now then
		k.save(it)
	elseif it.exists then
		call('DEL', it.key)
	end
end
return reply
