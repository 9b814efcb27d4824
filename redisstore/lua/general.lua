-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The frame of every algorithm: loading states, all operations, writing. It
-- does what algo.Decide does, name by name, and leaves out what only describes
-- the outcome: that the caller works out from the states returned.
--
-- KEYS     one for each limit, all in one slot
-- ARGV[1]  numbers: clock mode, instant, how many charges, flags
-- ARGV[2]  the operations, in numbers: op, MaxWait, At, Due, least wait, costs
-- ARGV[3…] for each limit its numbers and the head of its states
-- then, if flags say so, for each limit a state to replace and its replacement

local call, floor, max, min = redis.call, math.floor, math.max, math.min
local pack, unpack, sub = struct.pack, struct.unpack, string.sub
local NEVER = math.huge
local TAKE, PEEK, REFUND, CHARGE, UPTO, RESERVE, RESET, DENY, REFUSE = 0, 1, 2, 3, 4, 5, 6, 7, 8
local now, how = 0, 'PX'
local kinds = {}

local function ceildiv(a, b)
	if a > 0 then
		return floor((a - 1) / b) + 1
	end
	return -floor(-a / b)
end

local function clear(it)
	it.idle, it.a, it.b, it.reserved = 0, 0, 0, false
	if it.clear then
		it:clear()
	end
end

-- write keeps value until the state is idle. Keys outlive that by a little:
-- see hint below.
local function ttl(it)
	if how == 'PX' then
		return floor((it.idle - now) / 1000) + 3600101
	end
	return floor(it.idle / 1000) + 1001
end

local function set(it, value)
	call('SET', it.key, value, how, ttl(it))
end
