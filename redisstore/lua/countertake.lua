-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The usual take of a sliding counter, without functions: its window is not divided, no
-- clock stepped back, nothing is reserved, and all products are exact. Any other take
-- writes nothing here. With one key counter.lua and takes.lua follow, which have the same
-- arguments; with several keys a later call runs them. It replies as take.lua does.

--<one>
do
--</one>
	local unpack, call, floor = struct.unpack, redis.call, math.floor
	local args, head, costs = ARGV[1], ARGV[2], ARGV[3]
	local debt, quota, horizon, sight, size, n, conservative, strict, countDenied = unpack('>ddddddddd', args, 33)
	local clock, now, cost, time = 0, 0, 1, nil
	if costs then
		clock, now, cost = unpack('>ddd', costs)
	end
	if clock == 1 then
		time = {'0', '0'}
	else
		time = call('TIME')
		now = time[1] * 1000000 + time[2]
	end
	--<one>
	local key = KEYS[1]
	--</one>
	--<each>
	local function take(key)
	--</each>
	local raw = call('GET', key) or ''
	-- idle is the end of the state, first the start of its newest sub-window, and newer
	-- and older are the counts of that sub-window and the one before.
	local idle, flags, newer, older = 0, 0, 0, 0
	local usual = n == 1 and (not costs or #costs == 24) and countDenied ~= 1 and sight <= now and now < 4503599627370495 - 3600000000
	if usual and raw ~= '' then
		if #raw == #head + 22 and string.sub(raw, 1, #head) == head then
			idle, flags, newer, older = unpack('>I7BI7I7', raw, #head + 1)
			usual = debt == 0 or newer + older * conservative <= quota -- nothing is owed
		else
			usual = false
		end
	end
	local first = idle - 2 * size
	local kept = first
	if idle > now then
		usual = usual and flags == 0 and first <= now and idle - now <= horizon
	end
	if usual and newer + older < 4503599627370496 then
		local written, fits = false, true
		if idle <= now then
			written = idle > 0
			newer, older, first = 0, 0, now - now % size
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
				-- The part of the older sub-window that may still count.
				local inSight = floor(product / older)
				if product == inSight * older then
					inSight = inSight - below
				end
				fits = inSight > 0 and first + size - inSight <= now
			end
		end
		if usual then
			if fits and cost > 0 then
				idle = first + 2 * size
				local state = head .. struct.pack('>I7BI7I7', idle, 0, newer + cost, older)
				if first == kept then
					call('SET', key, state, 'KEEPTTL') -- it ends when it did
				else
					local how, grace = 'PXAT', 1001000
					if clock == 1 then
						how, grace = 'PX', 3600101000 - now
					end
					-- string.format is faster than the conversion of Redis.
					call('SET', key, state, how, string.format('%d', (idle + grace) / 1000))
				end
			elseif written then
				call('DEL', key)
			end
			return time[1] .. ' ' .. time[2] .. ' ' .. raw
		end
	end
	--<each>
	local other = sight > now or raw ~= '' and string.sub(raw, 1, #head) ~= head
	return {other and 2 or 3, string.format('%.0f', math.min(now, 4503599627370495 - 3600000000)), raw}
	--</each>
end
