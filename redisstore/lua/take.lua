-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes of one key under one bucket with continuous refill, like most requests. It equals
-- algo.Decide; general.lua decides everything else.
--
-- KEYS     the state's key or, in the form for several keys with the same arguments,
--          the keys of the states
-- ARGV[1]  the start of the value: version, flags, and the limit that writes it
-- ARGV[2]  numbers: horizon, den, a unit's span, Burst units' span, num, the span of
--          all debt; then pairs of a number of takes and their cost, or nothing for
--          one take of a unit
-- ARGV[3]  '1' if there may be receipts of other limits, so that a new balance stores
--          its start
-- ARGV[4]  now, in tests
--
-- It returns the server's time in seconds and µs and the state that it found, as one text,
-- from which the caller computes the rest. If another limit wrote the state it changes
-- nothing and puts a '!' in front. For several keys it returns a list: see each.lua.

local unpack, call = struct.unpack, redis.call
local head, args = ARGV[1], ARGV[2]
local horizon, den, one, oneRem, reach, reachRem = unpack('>dddddd', args)
local now, time, grace = ARGV[4], nil, 1002
if now then
	now, time, grace = tonumber(now), {'0', '0'}, 3600101
else
	time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
if now > 4503599627370495 - 3600000000 then
	now = 4503599627370495 - 3600000000
end
local form = den > 65536 and '>I7I7' or '>I7I2'

--<one>
local key = KEYS[1]
--</one>
--<each>
local function take(key)
--</each>
local raw = call('GET', key)

-- ahead + aheadRem/den is the time until the bucket is full.
local ahead, aheadRem, written, since, last = 0, 0, false, 0, 0
local stepped = false
if raw then
	if string.sub(raw, 1, #head) ~= head then
		if string.sub(raw, 1, 2) ~= '\1\2' or string.sub(raw, 3, #head) ~= string.sub(head, 3) then
			return '!' .. time[1] .. ' ' .. time[2] .. ' ' .. raw
		end
		since, last = unpack('>I7I7', raw, #raw - 13)
	end
	ahead, aheadRem = unpack(form, raw, #head + 1)
	ahead = ahead - now
	if ahead <= 0 then
		ahead, aheadRem, written, last = 0, 0, true, 0
		stepped = since - now > 3600000000
	else
		if aheadRem > 0 then
			ahead = ahead - 1
		end
		if last > 0 and last - now > 3600000000 or last == 0 and ahead + (aheadRem > 0 and 1 or 0) > horizon - 3600000000 then
			-- Written before the clock stepped back: empty, except for later charges.
			local most, mostRem = unpack('>dd', args, 57)
			local owed = ahead + now - last
			if last == 0 or owed < most or owed == most and aheadRem <= mostRem then
				ahead, aheadRem = reach, reachRem
			else
				ahead = owed
			end
			if last > 0 or since > 0 then
				since, last = now, now
			end
			written = true
		end
	end
end
if ARGV[3] == '1' and ahead == 0 and aheadRem == 0 then
	since, written = now, false
end

local pos, stop, count, cost, spent = 73, #args, 1, 1, false
repeat
	if pos < stop then
		count, cost = unpack('>dd', args, pos)
	end
	-- Takes that all fit equal one take of their sum. Otherwise half of them is tried.
	-- None fits before a reservation in another limit's balance is due.
	local some = since > now and last > now and (ahead > 0 or aheadRem > 0) and 0 or count
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
			spent = spent or units > 0
			count = count - some
			some = math.min(some, count)
		else
			some = math.floor(some / 2)
		end
	end
	pos = pos + 16
until pos > stop

if written or spent then
	if stepped and spent then
		since = now -- the clock stepped back: nothing is reserved for so long
	end
	local withSince, ends, idle = since > 0 or last > 0, ahead, now + ahead
	if aheadRem > 0 then
		ends, idle = ahead + 1, idle + 1
	end
	if withSince then
		local most = horizon - 3600000000
		if spent and last <= now and since + most <= now then
			withSince = false
		else
			last = spent and math.max(last, now) or last
			ends = since > 0 and math.max(ends, since + most - now) or ends
		end
	end
	if ends <= 0 then
		if raw then
			call('DEL', key)
		end
	else
		if idle <= now then
			idle = 0
		end
		local state = head .. struct.pack(form, idle, aheadRem)
		if withSince then
			state = '\1\2' .. string.sub(state, 3) .. struct.pack('>I7I7', since, last)
		end
		-- string.format is faster than the conversion of Redis.
		call('SET', key, state, 'PX', string.format('%d', ends / 1000 + grace))
	end
end
return time[1] .. ' ' .. time[2] .. ' ' .. (raw or '')
--<each>
end
--</each>
