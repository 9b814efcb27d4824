-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes of one key under one bucket with continuous refill: what most requests
-- are. It equals algo.Decide; general.lua decides everything else.
--
-- KEYS[1]  the state's key
-- ARGV[1]  the limit that writes the state, as it stands at the head of it
-- ARGV[2]  numbers: horizon, den, a unit's span, Burst units' span, num, the
--          span of all debt; then how many takes of which cost, one pair after
--          the other, or nothing for one take of a unit
-- ARGV[3]  now, in tests
--
-- It returns the server's time in seconds and µs and the state it found, one
-- text: the caller works out the rest. If another limit wrote the state it
-- changes nothing and puts a '!' in front.

local unpack, call = struct.unpack, redis.call
local key, head, args = KEYS[1], ARGV[1], ARGV[2]
local horizon, den, one, oneRem, reach, reachRem = unpack('>dddddd', args)
local now, time, grace = ARGV[3], nil, 1002
if now then
	now, time, grace = tonumber(now), {'0', '0'}, 3600101
else
	time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
if now > 4503599627370495 - 3600000000 then
	now = 4503599627370495 - 3600000000
end
local raw, form = call('GET', key), den > 65536 and '>I7I7' or '>I7I2'

-- ahead + aheadRem/den is how long until the bucket is full.
local ahead, aheadRem, written = 0, 0, false
if raw then
	if string.sub(raw, 1, #head) ~= head then
		return '!' .. time[1] .. ' ' .. time[2] .. ' ' .. raw
	end
	ahead, aheadRem = unpack(form, raw, #head + 1)
	ahead = ahead - now
	if ahead <= 0 then
		ahead, aheadRem, written = 0, 0, true
	elseif ahead > horizon then
		-- Written before the clock stepped back: fully in debt.
		ahead, aheadRem = unpack('>dd', args, 57)
		written = true
	elseif aheadRem > 0 then
		ahead = ahead - 1
	end
end

local pos, last, count, cost = 73, #args, 1, 1
repeat
	if pos < last then
		count, cost = unpack('>dd', args, pos)
	end
	-- Takes that all fit are worth one of their sum. Of others half is tried.
	local some = count
	while some >= 1 do
		local after, afterRem = one, oneRem
		local units = some * cost
		if units ~= 1 then
			local num = unpack('>d', args, 49)
			if units * num < 9007199254740992 then
				after = math.floor(units * num / den)
				afterRem = units * num - after * den
			else
				--<core>
				after, afterRem = muldiv(units, num, den)
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
			written = written or units > 0
			count = count - some
			some = math.min(some, count)
		else
			some = math.floor(some / 2)
		end
	end
	pos = pos + 16
until pos > last

if written then
	if ahead == 0 and aheadRem == 0 then
		if raw then
			call('DEL', key)
		end
	else
		if aheadRem > 0 then
			ahead = ahead + 1
		end
		-- A format is quicker than Redis' own way with numbers.
		call('SET', key, head .. struct.pack(form, now + ahead, aheadRem), 'PX', string.format('%d', ahead / 1000 + grace))
	end
end
return time[1] .. ' ' .. time[2] .. ' ' .. (raw or '')
