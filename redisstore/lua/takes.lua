-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes of one key under one limit, like most requests: the parts of main.lua that they
-- need.
--
-- KEYS[1]  the state's key
-- ARGV[1]  the limit's numbers
-- ARGV[2]  the head of its states
-- ARGV[3]  numbers: clock mode, now or 0, then the costs; or nothing for one take
--          of a unit at the server's time
--
-- It replies as main.lua does.

local args, costs = ARGV[1], ARGV[3] or pack('>ddd', 0, 0, 1)
local mode, instant = unpack('>dd', costs)
if mode == 1 then
	now = instant
else
	local time = call('TIME')
	now, how = time[1] * 1000000 + time[2], 'PXAT'
end
now = min(now, LATEST)
local k = kinds[unpack('>d', args)]
local it = k.new(KEYS[1], ARGV[2], args)
local reply = {0, string.format('%.0f', now)}
if k.outside and k.outside(it, now) then
	return {1, reply[2]}
end
if it.sight and it.sight > now then
	return {2, reply[2], call('GET', it.key) or ''}
end
local raw = k.read and k.read(it) or call('GET', it.key) or ''
reply[3] = raw
if raw ~= '' then
	it.exists = true
	if not own(it, raw) then
		return {2, reply[2], k.read and call('GET', it.key) or raw}
	end
	k.load(it, raw, #it.head + 1)
	if k.instant(it) - now > (it.reserved and MAXWAIT or 0) or it.since - now > MAXWAIT or k == kinds[2] and k.stepped(it) then
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
	if it.idle <= now and (it.idle > 0 or it.several == 1) then
		local since, several = it.since, it.several == 1
		it.written = it.written or it.idle > 0 and not several and not it.arrived
		clear(it)
		it.since = several and now or since
	elseif it.reserved and k.instant(it) <= now then
		it.reserved, it.arrived = false, true
		k.arrive(it)
	end
	if k.pay then
		k.pay(it, now)
	end
	if cost <= it.full and (it.idle == 0 or k.earliest(it, cost) <= now) then
		if cost > 0 then
			k.spend(it, now, cost)
			it.written = true
		end
	elseif it.countDenied == 1 and cost > 0 then
		it.written = k.record(it, cost) or it.written
	end
end

if it.written then
	if it.idle > now or it.since > 0 and it.since + it.horizon - MAXWAIT > now then
		k.save(it)
	elseif it.exists then
		call('DEL', it.key)
	end
end
return reply
