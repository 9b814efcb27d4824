-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The frame of every algorithm: it loads states, does all operations and writes. It equals
-- algo.Decide, name by name, except for the description of the outcome, which the caller
-- computes from the states returned.
--
-- KEYS     one for each limit, all in one slot
-- ARGV[1]  numbers: clock mode, instant, number of charges, flags
-- ARGV[2]  the operations, in numbers: op, MaxWait, At, Due, least wait, costs
-- ARGV[3…] for each limit its numbers and the head of its states
-- then, if flags say so, for each limit a state to replace and its replacement

local call, floor, max, min = redis.call, math.floor, math.max, math.min
local pack, unpack, sub = struct.pack, struct.unpack, string.sub
local NEVER, MAXWAIT = math.huge, 3600000000
local TAKE, PEEK, REFUND, CHARGE, UPTO, RESERVE, RESET, DENY, REFUSE = 0, 1, 2, 3, 4, 5, 6, 11, 12
local now, how = 0, 'PX'
local kinds = {}

local function ceildiv(a, b)
	if a > 0 then
		return floor((a - 1) / b) + 1
	end
	return -floor(-a / b)
end

local function clear(it)
	it.idle, it.a, it.b, it.reserved, it.since, it.last = 0, 0, 0, false, 0, 0
	if it.clear then
		it:clear()
	end
end

-- lasts returns the expiry of a key that is needed until an instant.
local function lasts(ends)
	if how == 'PX' then
		return floor((ends - now) / 1000) + 3600101
	end
	return floor(ends / 1000) + 1001
end

-- ttl returns the expiry of the state's key, a second after the state is no longer needed:
-- see main.lua, mode 2. A balance also decides which receipts count, so it is needed as
-- long as these may be refunded.
local function ttl(it)
	local ends = it.idle
	if it.since > 0 then
		ends = max(ends, it.since + it.horizon - MAXWAIT)
	end
	return lasts(ends)
end

local function set(it, value)
	call('SET', it.key, value, how, ttl(it))
end

-- own reports whether this limit wrote a value. The value begins with the version of the
-- format and the flags, 0 or, for a balance, 2. See value.go.
local function own(it, raw)
	local n = #it.head
	return sub(raw, 1, n) == it.head or it.kind.balance and sub(raw, 1, 2) == '\1\2' and sub(raw, 3, n) == sub(it.head, 3)
end

--<more>
-- matters reports whether the state is still needed.
local function matters(it)
	return it.idle > now or it.since > 0 and it.since + it.horizon - MAXWAIT > now
end

-- ready brings the state to now. If there may be receipts of other limits, it replaces a
-- balance without debt by a new one.
local function ready(it)
	if it.idle <= now and it.since - now > MAXWAIT then
		it.since = now -- the clock stepped back
	end
	if it.several == 1 and it.idle <= now then
		local before = it.since
		clear(it)
		it.since, it.earlier = now, before
	elseif it.idle == 0 then
		return
	elseif it.idle <= now then
		local since = it.since
		clear(it)
		it.since, it.written = since, it.written or not it.arrived
	elseif it.kind.stepped(it) then
		it.kind.clamp(it)
		it.written = true
	elseif it.reserved and it.kind.instant(it) <= now then
		it.reserved, it.arrived = false, true -- which is not kept for its own sake
		it.kind.arrive(it)
	end
	if it.kind.pay then
		it.kind.pay(it, now)
	end
end
--</more>
