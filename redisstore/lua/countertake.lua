-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The usual take of a sliding counter, in one stretch: its window is not divided, no
-- clock stepped back, nothing is reserved, and all products are exact. What is not
-- usual has written nothing here, and goes on to counter.lua and takes.lua, whose
-- arguments and reply these are.

do
	local unpack, call, floor = struct.unpack, redis.call, math.floor
	local key, costs, args, head = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
	local clock, now, cost = unpack('>ddd', costs)
	local _, _, window, full, _, quota, horizon, lag, sight, size, n, conservative, strict, countDenied = unpack('>dddddddddddddd', args)
	if clock ~= 1 then
		local time = call('TIME')
		now = time[1] * 1000000 + time[2]
	end
	local raw = call('GET', key) or ''
	-- idle is when the state ends, first the start of its newest sub-window, and
	-- newer and older are the counts of that and of the one before.
	local idle, flags, newer, older, pos = 0, 0, 0, 0, #head + 1
	local usual = #costs == 24 and n == 1 and countDenied ~= 1 and sight <= now and now < 4503599627370495 - 3600000000
	if usual and raw ~= '' then
		if #raw == #head + 22 and string.sub(raw, 1, #head) == head then
			idle, flags, newer, older = unpack('>I7BI7I7', raw, pos)
			if lag > 0 then
				idle = math.max(idle - lag, 1)
			end
		else
			usual = false
		end
	end
	local first = idle - size - window
	if idle > now then
		usual = usual and flags == 0 and first <= now and idle - now <= horizon
	end
	if usual and newer + older < 4503599627370496 then
		local written, fits = false, cost <= full
		if idle <= now then
			written = idle > 0
			idle, newer, older, first = 0, 0, 0, now - now % size
		elseif now >= first + size then
			-- A denial keeps the state as it is.
			local steps = floor((now - first) / size)
			first = first + steps * size
			older = steps == 1 and newer or 0
			newer = 0
		end
		local room = quota - newer - cost
		if room < 0 then
			fits = false
		elseif older > room then
			local below = 1 - strict
			local product = (room + below) * size
			if conservative == 1 then
				fits = false
			elseif product >= 9007199254740992 then
				usual = false
			else
				-- How much of the older sub-window may be in sight.
				local inSight = floor(product / older)
				if product == inSight * older then
					inSight = inSight - below
				end
				fits = fits and inSight > 0 and first + size - inSight <= now
			end
		end
		if usual then
			local how, grace = 'PXAT', 1001000
			if clock == 1 then
				how, grace = 'PX', 3600101000 - now
			end
			if fits and cost > 0 then
				idle = first + size + window
				-- A format is quicker than Redis' own way with numbers.
				call('SET', key, head .. struct.pack('>I7BI7I7', idle + lag, 0, newer + cost, older), how, string.format('%d', (idle + grace) / 1000))
			elseif written then
				call('DEL', key)
			end
			return {0, string.format('%.0f', now), raw}
		end
	end
end
