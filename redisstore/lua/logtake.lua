-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The usual take of a log or histogram, without functions: no clock stepped back, nothing
-- is reserved, all entries have one word, and of a log few entries must be read and its
-- ring has room. Any other take writes nothing here: log.lua and takes.lua follow,
-- which have the same arguments. It replies as take.lua does, but with the part of the
-- state that the take has read.

do
	local unpack, pack, call, sub, floor = struct.unpack, struct.pack, redis.call, string.sub, math.floor
	local key, args, head, costs = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
	local window, _, _, quota, horizon, precision, countDenied, most, size, low = unpack('>dddddddddd', args, 17)
	-- See ring.lua.
	local base, high, many, pair = #head + 34, 2 ^ (8 * size - 32) / low, low / 2 - 1, size == 8 and '>I4I4' or '>I4I3'
	local span = high * 4294967296
	local clock, now, cost, time, grace = 0, 0, 1, nil, 1002
	if costs then
		clock, now, cost = unpack('>ddd', costs)
	end
	if clock == 1 then
		time, grace = {'0', '0'}, 3600101
	else
		time = call('TIME')
		now = time[1] * 1000000 + time[2]
	end
	local usual = (not costs or #costs == 24) and countDenied ~= 1 and cost >= 1 and cost <= quota and cost < many and now < 4503599627370495 - 3600000000
	local raw = usual and call('GETRANGE', key, 0, base - 1) or ''
	local idle, flags, count, mark, first, len, cap = 0, 0, 0, 0, 0, 0, 0
	if #raw >= base and sub(raw, 1, #head) == head then
		idle, flags, count, mark, first, len, cap = unpack('>I7BI7I7I4I4I4', raw, #head + 1)
		usual = idle > now and idle - now <= horizon and flags == 0 and idle - window < now and count <= 9007199254740991 - cost
	elseif raw ~= '' then
		usual = false
	end

	-- Read entries from the oldest on, until it is known whether the cost fits, or how
	-- many units must be dropped first. Entries that are a window old do not count. Words
	-- are read a few or many at a time; the next entry among them is at pos.
	local newest, left, gone, sum, at = idle - window, count, 0, 0, 0
	local words, pos, read, fits = '', 1, 0, idle == 0
	while usual and not fits and (sum == 0 or left - sum > quota - cost) do
		if pos > #words then
			local p = first + read
			if p >= cap then
				p = p - cap
			end
			local n = math.min(cap - p, len - read, read == 0 and 4 or 16)
			if n > 0 and read <= 128 then
				words, pos = call('GETRANGE', key, base + p * size, base + (p + n) * size - 1), 1
				read = read + n
			else
				usual = false
			end
		end
		if usual then
			local hi, lo = unpack(pair, words, pos)
			local part = lo % low
			at = newest - (newest - hi * high - (lo - part) / low) % span
			local units = floor(part / 2)
			pos, usual = pos + size, units < many
			if at > now - window then
				fits = sum == 0 and cost <= quota - left
				sum = sum + units
			else
				left, gone = left - units, gone + 1
			end
		end
	end

	if usual and not fits then
		local seen = time[1] .. ' ' .. time[2] .. ' ' .. pack('>I7BI7I7', idle, 0, at, sum)
		return left > sum and seen .. pack('>I7I7', newest, left - sum) or seen
	end

	-- ring is all entries that count, in one piece, if the ring must be written whole.
	local ring
	if usual then
		first, len = first + gone, len - gone
		if first >= cap then
			first = first - cap
		end
		if idle == 0 then
			ring = ''
		elseif precision == 0 then
			usual = len < cap
		elseif len >= cap or len >= math.max(mark, 64) then
			ring = call('GETRANGE', key, base + first * size, base + math.min(first + len, cap) * size - 1)
			if first + len > cap then
				ring = ring .. call('GETRANGE', key, base, base + (first + len - cap) * size - 1)
			end
		end
	end

	-- Merge: see algo/slidinglog.go. Unchanged words, from the run-th on, are copied in
	-- one piece.
	if usual and ring and precision > 0 and len >= math.max(mark, 64) then
		local parts, merged, run, newer, kept = {}, false, 0, left, len
		local units, last, rest = 0, 0, 0 -- of the entry before, and the word of its instant
		local i = 0
		while usual and i < len do
			local n = math.min(len - i, 100)
			local list = {unpack('>' .. string.rep(sub(pair, 2), n), ring, i * size + 1)}
			for k = 1, 2 * n, 2 do
				local lo = list[k + 1]
				local part = lo % low
				local more = part / 2
				local both = units + more
				if i == 0 then
					units = more
				elseif both * (precision - 2) <= newer - both - 2 then
					if not merged then
						parts[#parts + 1] = sub(ring, run * size + 1, (i - 1) * size)
						merged = true
					end
					units, last, rest, kept = both, list[k], lo - part, kept - 1
				else
					newer = newer - units
					if merged then
						parts[#parts + 1] = pack(pair, last, rest + units * 2)
						merged, run = false, i
					end
					units = more
				end
				if more >= many or both >= many then
					usual = false
				end
				i = i + 1
			end
		end
		if merged then
			parts[#parts + 1] = pack(pair, last, rest + units * 2)
		else
			parts[#parts + 1] = sub(ring, run * size + 1)
		end
		ring, len = table.concat(parts), kept
		mark = len + math.max(32, floor(len / 12))
	end

	if usual then
		local hi = floor(now % span / high)
		local word = pack(pair, hi, (now % span - hi * high) * low + cost * 2)
		if ring then
			first = 0
		end
		local full = len >= cap
		if full then
			if precision > 0 then
				most = math.min(most, math.max(mark, 64) + 1)
			end
			cap = math.max(len + 1, math.min(cap + math.max(floor(cap / 2), 4), most))
		end
		local header = pack('>I7BI7I7I4I4I4', now + window, 0, left + cost, mark, first, len + 1, cap)
		if full then
			-- string.format is faster than the conversion of Redis.
			local how, ends = 'PXAT', now + window + 1001000
			if clock == 1 then
				how, ends = 'PX', window + 3600101000
			end
			call('SET', key, head .. header .. ring .. word .. string.rep('\0', (cap - len - 1) * size), how, string.format('%d', ends / 1000))
		else
			if ring then
				call('SETRANGE', key, #head, header .. ring .. word)
			else
				local p = first + len
				if p >= cap then
					p = p - cap
				end
				call('SETRANGE', key, base + p * size, word)
				call('SETRANGE', key, #head, header)
			end
			-- The time to live has a second to spare, so it is set once in half a second.
			if floor(newest / 500000) ~= floor(now / 500000) then
				call('PEXPIRE', key, string.format('%d', window / 1000 + grace))
			end
		end
		local seen = time[1] .. ' ' .. time[2] .. ' '
		return idle == 0 and seen .. pack('>I7B', 0, 0) or seen .. pack('>I7BI7I7', idle, 0, newest, left)
	end
end
