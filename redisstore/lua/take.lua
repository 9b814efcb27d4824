-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes of one key under one bucket with continuous refill: what most requests
-- are. It equals algo.WordTake; general.lua decides everything else.
--
-- KEYS[1]  the state's key
-- ARGV[1]  the limit that writes the state, as it stands at the head of it
-- ARGV[2]  numbers: clock mode, now or 0, horizon, num, den, a unit's span,
--          Burst units' span, bytes of the remainder, then the costs
--
-- It returns the state it found and the server's time in seconds and µs: the
-- caller works out the rest. If another limit wrote the state it changes
-- nothing and returns a fourth value.

local unpack, call, floor = struct.unpack, redis.call, math.floor
local head, args = ARGV[1], ARGV[2]
local mode, now, horizon, num, den, one, oneRem, reach, reachRem, size = unpack('>dddddddddd', args)
local time, how = {'0', '0'}, 'PX'
if mode == 0 then
	time, how = call('TIME'), 'PXAT'
	now = time[1] * 1000000 + time[2]
end
now = math.min(now, LATEST)
local raw = call('GET', KEYS[1])
local idle, rem = 0, 0
if raw then
	if string.sub(raw, 1, #head) ~= head then
		return {raw, time[1], time[2], 1}
	end
	idle, rem = unpack(size == 2 and '>I7I2' or '>I7I7', raw, #head + 1)
end

-- ahead + remAhead/den is how long until the bucket is full.
local ahead, aheadRem, written = 0, 0, false
if idle > now then
	if idle - now > horizon then
		-- Written before the clock stepped back: fully in debt.
		ahead, aheadRem = unpack('>dd', args, 81)
		written = true
	else
		ahead, aheadRem = idle - now, rem
		if rem > 0 then
			ahead = ahead - 1
		end
	end
elseif raw then
	written = true
end

for pos = 97, #args, 8 do
	local cost = unpack('>d', args, pos)
	local after, afterRem = one, oneRem
	if cost ~= 1 then
		if cost * num < 9007199254740992 then
			after = floor(cost * num / den)
			afterRem = cost * num - after * den
		else
			after, afterRem = muldiv(cost, num, den)
		end
	end
	after = after + ahead
	if afterRem >= den - aheadRem then
		after, afterRem = after + 1, afterRem - (den - aheadRem)
	else
		afterRem = afterRem + aheadRem
	end
	if after < reach or after == reach and afterRem <= reachRem then
		ahead, aheadRem = after, afterRem
		written = written or cost > 0
	end
end

if written then
	if ahead == 0 and aheadRem == 0 then
		if raw then
			call('DEL', KEYS[1])
		end
	else
		if aheadRem > 0 then
			ahead = ahead + 1
		end
		idle = now + ahead
		call('SET', KEYS[1], head .. struct.pack(size == 2 and '>I7I2' or '>I7I7', idle, aheadRem),
			how, how == 'PXAT' and floor(idle / 1000) + 1001 or floor(ahead / 1000) + 3600101)
	end
end
return {raw, time[1], time[2]}
