-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes of one key under one fixed window: takes.lua with fixed.lua, in one stretch.
-- Arguments and reply are those of takes.lua.

local unpack, call = struct.unpack, redis.call
local key, costs, args, head = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local clock, now = unpack('>dd', costs)
if clock ~= 1 then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
if now > 4503599627370495 - 3600000000 then
	now = 4503599627370495 - 3600000000
end
local at = string.format('%.0f', now)
local _, _, window, full, _, quota, horizon, sight, countDenied, mode = unpack('>dddddddddd', args)

-- stop is the end of the window that now is in.
local stop = now + window
if mode == 0 then
	stop = stop - now % window
elseif mode == 2 then
	local start
	start, stop = unpack('>dd', args, 81)
	if now < start or now >= stop then
		return {1, at}
	end
end
if sight > now then
	return {2, at, call('GET', key) or ''}
end

local raw = call('GET', key) or ''
local idle, reserved, count, written, arrived = 0, 0, 0, false, false
if raw ~= '' then
	if string.sub(raw, 1, #head) ~= head then
		return {2, at, raw}
	end
	idle, reserved, count = unpack('>I7BI7', raw, #head + 1)
	if count > 9007199254740991 then
		return {3, at}
	end
	if idle - now > horizon then
		return {4, at}
	end
	if idle <= now then
		idle, reserved, count, written = 0, 0, 0, true
	elseif reserved == 1 then
		-- Of what was reserved, the window may have begun since.
		local start = idle - window
		if mode == 2 then
			for pos = 81, #args - 8, 8 do
				local edge = unpack('>d', args, pos)
				if edge < idle or pos == 81 then
					start = edge
				end
			end
		end
		if start <= now then
			reserved = 0
			if count == 0 then -- what a reservation that was cancelled has left
				idle = 0
			end
		end
	end
end

for pos = 17, #costs, 8 do
	local cost = unpack('>d', costs, pos)
	if cost <= full and (idle == 0 or reserved == 0 and cost <= quota - count) then
		if cost > 0 then
			if idle == 0 then
				idle, count = stop, 0
			end
			count, written = count + cost, true
		end
	elseif countDenied == 1 and cost > 0 and reserved == 0 then
		cost = math.min(cost, quota)
		if idle == 0 then
			idle, count, written = stop, cost, true
		elseif cost < quota - count then
			count, written = count + cost, true
		elseif mode == 1 then
			idle, count, written = stop, math.max(count, quota), true
		elseif count < quota then
			count, written = quota, true
		end
	end
end

if written then
	if idle > now then
		-- A second after it says anything: see main.lua on what other nodes decide.
		local how, ends = 'PXAT', idle / 1000 + 1001
		if clock == 1 then
			how, ends = 'PX', (idle - now) / 1000 + 3600101
		end
		-- A format is quicker than Redis' own way with numbers.
		call('SET', key, head .. struct.pack('>I7BI7', idle, reserved, count), how, string.format('%d', ends))
	elseif raw ~= '' then
		call('DEL', key)
	end
end
return {0, at, raw}
