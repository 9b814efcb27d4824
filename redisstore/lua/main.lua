-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The operations, as in algo/decide.go. The reply is a list: a status, the server's
-- instant, and for each limit the state that was found or, for a log, the parts that the
-- operations have read. Statuses are 0: decided; 1: the instant is outside the calendar
-- edges; 2: another limit wrote a state, or the start of a rule still counts, and all
-- states are in the reply; 3: takes.lua leaves the take to this script; 4: a slot denies.

local mode, instant, charges, flags = unpack('>dddd', ARGV[1])
local clock = 0
if mode == 1 then
	now = instant
else
	-- In mode 2 keys on other nodes are decided at this instant, too. It is used here
	-- unless it is too long ago. States that became idle since are still stored, as keys
	-- outlive them by a second.
	local time = call('TIME')
	clock, how = time[1] * 1000000 + time[2], 'PXAT'
	now = clock
	if mode == 2 and now >= instant and now - instant < 1000000 then
		now = instant
	end
end

now = min(now, LATEST)

local limits = #KEYS
-- The last keys, one for each charge, hold the instants up to which receipts are void.
local void, voids = false, {}
if flags >= 2 then
	void, flags, limits = {}, flags - 2, limits - charges
	for c = 1, charges do
		voids[c] = call('GET', KEYS[limits + c]) or ''
		void[c] = tonumber(voids[c]) or 0
	end
end
--<slot>
-- The last key is that of a slot, which is acquired with the units. The last two arguments
-- are its numbers (lifetime, cap, cost and longest lifetime) and its owner. The last element
-- of the reply is the leases that were found.
limits = limits - 1
local life, cap, units, longest = unpack('>dddd', ARGV[#ARGV - 1])
local granted = false
local slot, err = holders(KEYS[#KEYS], ARGV[#ARGV], now, life, longest)
if not slot then
	return err
end
if not slot.mine and slot.held + units > cap then
	keep(slot, mode == 1)
	return {4, string.format('%.0f', now), slot.raw}
end
--</slot>
local its, foreign, reply = {}, false, {0, string.format('%.0f', now)}
local swaps = 3 + 2 * limits
local undo = flags == 1
for i = 1, limits do
	local s = ARGV[2 * i + 1]
	local k = kinds[unpack('>d', s)]
	local it = k.new(KEYS[i], ARGV[2 * i + 2], s)
	local raw
	if k.read then
		raw = k.read(it)
	else
		raw = call('GET', it.key) or ''
	end
	if it.sight and it.sight > now then
		foreign = true
	elseif raw ~= '' then
		it.exists = true
		if undo and raw == ARGV[swaps + 2 * i - 2] then
			it.swapped, it.written, raw = true, true, ARGV[swaps + 2 * i - 1]
		end
		if raw ~= '' and own(it, raw) then
			k.load(it, raw, #it.head + 1)
		elseif raw ~= '' then
			foreign = true
		end
	end
	reply[i + 2] = raw
	its[i] = it
end
for c = 1, #voids do
	reply[limits + 2 + c] = voids[c]
end
-- Decide no earlier than the latest entry of a log. Otherwise the receipt would name an
-- instant at which the log has no entry.
for _, it in ipairs(its) do
	local newest = it.idle - it.window
	if it.ring and not it.reserved and newest > now and newest <= clock then
		now = newest
	end
	if now < clock and it.idle > now and it.kind.stepped(it) then
		now = max(now, min(clock, LATEST)) -- another call came first: no clock stepped back
	end
end
reply[2] = string.format('%.0f', now)
for _, it in ipairs(its) do
	if it.kind.outside and it.kind.outside(it, now) then
		return {1, reply[2]}
	end
end
if foreign then
	reply[1] = 2
	for i = 1, limits do
		reply[i + 2] = call('GET', KEYS[i]) or ''
	end
	--<slot>
	reply[limits + 3] = slot.raw
	--</slot>
	return reply
end

local function remaining(it)
	if it.reserved or it.since > now or it.kind.pending and it.kind.pending(it) then
		return 0
	end
	local left = it.full - it.kind.counted(it, now)
	return left < 0 and 0 or left + (it.lent or 0)
end

local function delay(it, cost)
	return it.queues == 1 and it.kind.delay(it, cost) or 0
end

local function wait(it, cost, op, maxWait)
	local lent = it.lent or 0
	local most = it.full + lent
	if it.credit and it.b < 0 then
		most = most - it.b
	end
	if cost > most then
		return NEVER
	end
	local w = it.idle == 0 and 0 or it.kind.earliest(it, max(cost - lent, 0)) - now
	if maxWait > 0 or op == RESERVE then
		w = max(w, delay(it, cost) - maxWait)
	end
	return w
end

local function spend(it, at, cost)
	if cost > 0 and it.kind.spend then -- a block counts no units
		it.kind.spend(it, at, cost)
		it.written = true
	end
end

local function deny(op, maxWait)
	if op == RESERVE then
		return
	end
	if kinds[6] then
		kinds[6].count(its, function(it)
			return wait(it, it.cost, op, maxWait)
		end)
	end
	for _, it in ipairs(its) do
		if it.countDenied == 1 and it.cost > 0 then
			it.written = it.kind.record(it, it.cost) or it.written
		end
	end
end

local ops = {}

local function take(op, maxWait, _, _, least)
	local longest, held = least, 0
	for _, it in ipairs(its) do
		local w = wait(it, it.cost, op, maxWait)
		longest = max(longest, w)
		if w < NEVER then
			held = max(held, delay(it, it.cost))
		end
	end
	local allowed = longest == 0
	if op == RESERVE then
		allowed = max(held, longest) <= maxWait
	end
	if not allowed then
		return deny(op, maxWait)
	end
	--<slot>
	granted = true
	--</slot>
	for _, it in ipairs(its) do
		spend(it, now + longest, it.cost)
	end
end

ops[TAKE], ops[RESERVE], ops[DENY] = take, take, deny
ops[REFUSE] = function() end

ops[UPTO] = function(op, maxWait)
	local n = NEVER
	for _, it in ipairs(its) do
		if it.cost > 0 then
			n = min(n, it.cost, remaining(it))
		elseif wait(it, 0, op, maxWait) > 0 then
			n = 0
		end
	end
	if n == 0 then
		for _, it in ipairs(its) do
			it.cost = min(it.cost, 1)
		end
		return deny(op, maxWait)
	end
	for _, it in ipairs(its) do
		spend(it, now, min(it.cost, n))
	end
end

ops[CHARGE] = function(_, _, _, _, least)
	-- Units count no earlier than earlier reservations.
	local at = now + least
	for _, it in ipairs(its) do
		if it.reserved then
			at = max(at, it.kind.instant(it))
		end
		at = max(at, min(it.since, now + MAXWAIT)) -- more is from before the clock stepped back
	end
	for _, it in ipairs(its) do
		spend(it, at, max(min(it.cost, it.full + it.debt - it.kind.counted(it, now)), 0))
	end
end

ops[REFUND] = function(_, _, at, due)
	local queues = 0
	for _, it in ipairs(its) do
		queues = queues + it.queues
	end
	for _, it in ipairs(its) do
		if at > void[it.charge + 1] and (not it.swapped or not undo) then
			-- With several limits the due instant may belong to another one, and it
			-- does not belong to a part.
			local went, held = at, max(it.held, it.cost)
			if queues == 1 and it.queues == 1 and it.cost == held then
				went = max(at, due)
			end
			if it.kind.refund(it, at, went, it.cost, held) then
				it.written = true
			end
		end
	end
end

-- ahead returns an instant up to which units may be reserved. It is in the past if none
-- are.
local function ahead(it)
	local at = max(it.since, it.last)
	if it.idle == 0 then
		return it.since
	elseif it.kind.written then
		return max(at, it.kind.written(it) + it.window)
	elseif not it.reserved then
		return at
	elseif it.ring then
		return max(at, it.kind.instant(it))
	elseif it.sub then
		return max(at, it.kind.instant(it) + it.sub)
	end
	return max(at, it.idle)
end

ops[RESET] = function()
	for _, it in ipairs(its) do
		local c = it.charge + 1
		void[c] = max(void[c], now, ahead(it))
		clear(it)
		it.written = true
	end
end

local list, seen = ARGV[2], {}
local size = 40 + 16 * charges
for pos = 1, #list, size do
	local op, maxWait, at, due, least = unpack('>ddddd', list, pos)
	for i, it in ipairs(its) do
		it.cost, it.held = unpack('>dd', list, pos + 40 + 16 * it.charge)
		if it.ring then
			local cost = it.cost
			if op == UPTO then
				cost = min(cost, 1)
			end
			seen[i] = seen[i] or {}
			table.insert(seen[i], it.kind.seen(it, op, cost, at))
		end
	end
	if op ~= PEEK then
		for _, it in ipairs(its) do
			ready(it)
		end
		ops[op](op, maxWait, at, due, least)
		for _, it in ipairs(its) do
			if it.earlier and it.idle == 0 and op ~= RESET then
				it.since = it.earlier -- nothing was spent of a new balance
			end
			it.earlier = nil
			if it.written and not matters(it) then
				it.since = 0
			end
		end
	end
end

for c = 1, #voids do
	local text, ends = string.format('%.0f', void[c]), 0
	for _, it in ipairs(its) do
		ends = max(ends, it.charge == c - 1 and it.horizon - MAXWAIT or 0)
	end
	if void[c] > 0 and text ~= voids[c] then
		call('SET', KEYS[limits + c], text, how, lasts(void[c] + ends))
	end
end
for i, it in ipairs(its) do
	if it.ring then
		reply[i + 2] = seen[i]
	end
	if it.written then
		if matters(it) then
			it.kind.save(it)
		elseif it.exists then
			call('DEL', it.key)
		end
	end
end
--<slot>
if granted then
	hold(slot, units)
end
keep(slot, mode == 1)
reply[limits + 3] = slot.raw
--</slot>
return reply
