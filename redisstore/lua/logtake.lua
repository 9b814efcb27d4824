-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The usual take of a log or histogram, in one stretch: a state is there, no
-- clock stepped back, nothing is reserved, merged or grown, and few words have
-- to be read. What is not usual has written nothing here, and goes on to
-- log.lua and takes.lua, whose arguments these are. It replies as take.lua does,
-- but with what the take has seen of the state.

-- following returns the words after so many of a ring that begins at base, a
-- few at first, or nothing where the ring ends or too many have been read.
local function following(key, base, first, len, cap, read)
	if read >= len or read > 128 then
		return nil
	end
	local p = first + read
	if p >= cap then
		p = p - cap
	end
	local n = min(read == 0 and 4 or 16, cap - p, len - read)
	return call('GETRANGE', key, base + p * 8, base + (p + n) * 8 - 1)
end

-- instantAndUnits returns what the word at pos says, or nothing if it does not
-- hold all of its entry.
local function instantAndUnits(words, pos)
	local hi, lo = unpack('>I4I4', words, pos)
	local low = lo % 4096
	local units = floor(low / 2)
	if units < 2047 then
		return hi * 1048576 + (lo - low) / 4096, units
	end
end

local function usual()
	local key, args, head, costs = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
	local header = call('GETRANGE', key, 0, #head + 33)
	if costs and #costs ~= 24 or #header ~= #head + 34 or sub(header, 1, #head) ~= head then
		return nil
	end
	local mode, cost, time = 0, 1, nil
	if costs then
		mode, now, cost = unpack('>ddd', costs)
	end
	local window, _, _, quota, horizon, precision, countDenied = unpack('>ddddddd', args, 17)
	local idle, flags, a, mark, first, len, cap = unpack('>I7BI7I7I4I4I4', header, #head + 1)
	if mode == 1 then
		time = {'0', '0'}
	else
		time = call('TIME')
		now, how = time[1] * 1000000 + time[2], 'PXAT'
	end
	now = min(now, LATEST)
	local newest = idle - window
	if flags == 1 or idle <= now or newest >= now or idle - now > horizon or countDenied == 1 or cost < 1 or cost > min(quota, 2046)
		or now == LATEST or a > MOST - cost then
		return nil
	end

	-- Words from the oldest on, a few or many at a time.
	local words, pos, at, units, read = '', 1, 0, 0, 0
	local live, gone = a, 0
	repeat
		if pos > #words then
			words, pos = following(key, #head + 34, first, len, cap, read), 1
			if not words then
				return nil
			end
			read = read + #words / 8
		end
		at, units = instantAndUnits(words, pos)
		if not at then
			return nil
		end
		pos = pos + 8
		local old = at <= now - window
		if old then
			live, gone = live - units, gone + 1
		end
	until not old

	if cost <= quota - live then
		if precision > 0 and len - gone >= max(mark, 64) or len - gone >= cap then
			return nil
		end
		first = first + gone
		if first >= cap then
			first = first - cap
		end
		len = len - gone
		local p = first + len
		if p >= cap then
			p = p - cap
		end
		local hi = floor(now / 1048576)
		call('SETRANGE', key, #head + 34 + p * 8, pack('>I4I4', hi, (now - hi * 1048576) * 4096 + cost * 2))
		call('SETRANGE', key, #head, pack('>I7BI7I7I4I4I4', now + window, 0, live + cost, mark, first, len + 1, cap))
		-- Half a second of the time to live to spare is enough: so once in half a
		-- second will do.
		if floor(newest / 500000) ~= floor(now / 500000) then
			call('PEXPIRE', key, string.format('%d', window / 1000 + (how == 'PX' and 3600101 or 1002)))
		end
		return time[1] .. ' ' .. time[2] .. ' ' .. pack('>I7BI7I7', idle, 0, newest, live)
	end
	local sum = units
	while live - sum > quota - cost do
		if pos > #words then
			words, pos = following(key, #head + 34, first, len, cap, read), 1
			if not words then
				return nil
			end
			read = read + #words / 8
		end
		at, units = instantAndUnits(words, pos)
		if not at then
			return nil
		end
		pos, sum = pos + 8, sum + units
	end
	local seen = time[1] .. ' ' .. time[2] .. ' ' .. pack('>I7BI7I7', idle, 0, at, sum)
	return live > sum and seen .. pack('>I7I7', newest, live - sum) or seen
end

local seen = usual()
if seen then
	return seen
end
