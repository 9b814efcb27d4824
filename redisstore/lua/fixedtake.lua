-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes and charges of one key under one fixed window: takes.lua and fixed.lua, without
-- functions. The arguments are those of takes.lua, with one key or, as for take.lua, several;
-- the cost of a charge is negative. It replies as take.lua does if it has decided, and else as
-- takes.lua does.

local unpack, call = struct.unpack, redis.call
local args, head, costs = ARGV[1], ARGV[2], ARGV[3]
local clock, now, time = 0, 0, nil
if costs then
	clock, now = unpack('>dd', costs)
end
if clock == 1 then
	time = {'0', '0'}
else
	time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
if now > 4503599627370495 - 3600000000 then
	now = 4503599627370495 - 3600000000
end
local window, full, debt, quota, horizon, sight, countDenied, mode = unpack('>dddddddd', args, 17)

--<one>
local key = KEYS[1]
--</one>
--<each>
local function take(key)
--</each>

-- ends is the end of the present window.
local ends = now + window
if mode == 0 then
	ends = ends - now % window
elseif mode == 2 then
	local start
	start, ends = unpack('>dd', args, 81)
	if now < start or now >= ends then
		return {1, string.format('%.0f', now)}
	end
end
if sight > now then
	return {2, string.format('%.0f', now), call('GET', key) or ''}
end

local raw = call('GET', key) or ''
local idle, reserved, count, written, kept = 0, 0, 0, false, 0
if raw ~= '' then
	if string.sub(raw, 1, #head) ~= head then
		return {2, string.format('%.0f', now), raw}
	end
	idle, reserved, count = unpack('>I7BI7', raw, #head + 1)
	kept = idle
	if idle - now > horizon - (reserved == 1 and 0 or 3600000000) then
		return {3, string.format('%.0f', now)}
	end
	if idle <= now then
		idle, reserved, count, written = 0, 0, 0, true
	elseif reserved == 1 then
		-- The window of a reservation may have begun since.
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
			if count == 0 then -- the rest of a cancelled reservation
				idle = 0
			end
		end
	end
end

local pos, stop, cost = 17, costs and #costs or 0, 1
repeat
	if costs then
		cost = unpack('>d', costs, pos)
	end
	if cost < 0 then -- a charge, whether it fits or not
		cost = math.min(-cost, full + debt - (idle == 0 and 0 or count))
		if cost > 0 then
			if idle == 0 then
				idle, count = ends, 0
			end
			count, written = count + cost, true
		end
	elseif cost <= full and (idle == 0 or reserved == 0 and cost <= quota - count) then
		if cost > 0 then
			if idle == 0 then
				idle, count = ends, 0
			end
			count, written = count + cost, true
		end
	elseif countDenied == 1 and cost > 0 and reserved == 0 then
		cost = math.min(cost, quota)
		if idle == 0 then
			idle, count, written = ends, cost, true
		elseif cost < quota - count then
			count, written = count + cost, true
		elseif mode == 1 then
			idle, count, written = ends, math.max(count, quota), true
		elseif count < quota then
			count, written = quota, true
		end
	end
	pos = pos + 8
until pos > stop

if written then
	if idle > now then
		local state = head .. struct.pack('>I7BI7', idle, reserved, count)
		if idle == kept then
			call('SET', key, state, 'KEEPTTL') -- it ends when it did
		else
			-- A second after the state is idle: see main.lua, mode 2.
			local how, grace = 'PXAT', 1001000
			if clock == 1 then
				how, grace = 'PX', 3600101000 - now
			end
			-- string.format is faster than the conversion of Redis.
			call('SET', key, state, how, string.format('%d', (idle + grace) / 1000))
		end
	elseif raw ~= '' then
		call('DEL', key)
	end
end
return time[1] .. ' ' .. time[2] .. ' ' .. raw
--<each>
end
--</each>
