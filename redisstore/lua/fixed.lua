-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- See algo/fixed.go. State: idle, the end of the window; a, the count.

local fixed = {}
kinds[3] = fixed

-- mode 0 is a window on the clock, 1 on the first request, 2 on the calendar. The edges of
-- calendar windows follow; the first is the start of the caller's window.
function fixed.new(key, head, s)
	local _, charge, window, full, debt, quota, horizon, sight, countDenied, mode = unpack('>dddddddddd', s)
	local edges = false
	if mode == 2 then
		edges = {}
		for pos = 81, #s, 8 do
			edges[#edges + 1] = unpack('>d', s, pos)
		end
	end
	return {
		key = key, head = head, kind = fixed, charge = charge, window = window, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, held = 0, queues = 0, written = false, exists = false,
		swapped = false, since = 0, last = 0, sight = sight, countDenied = countDenied, mode = mode, edges = edges,
	}
end

function fixed.load(it, raw, pos)
	local flags
	it.idle, flags, it.a = unpack('>I7BI7', raw, pos)
	it.reserved = flags == 1
end

function fixed.save(it)
	set(it, it.head .. pack('>I7BI7', it.idle, it.reserved and 1 or 0, it.a))
end

-- outside reports whether at is outside the edges.
function fixed.outside(it, at)
	return it.mode == 2 and (at < it.edges[1] or at >= it.edges[2])
end

local function windowOf(it, at)
	if it.mode == 1 then
		return at, at + it.window
	end
	if it.mode == 0 then
		local start = at - at % it.window
		return start, start + it.window
	end
	local i = #it.edges - 1
	while i > 1 and it.edges[i] > at do
		i = i - 1
	end
	return it.edges[i], it.edges[i + 1]
end

function fixed.instant(it)
	if it.mode == 2 then
		return (windowOf(it, it.idle - 1))
	end
	return it.idle - it.window
end

-- arrive drops the rest of a cancelled reservation.
function fixed.arrive(it)
	if it.a == 0 then
		clear(it)
	end
end

--<more>
fixed.clamp = windowClamp

function fixed.stepped(it)
	local longest = it.horizon - MAXWAIT
	return windowStepped(it, it.idle - longest, longest)
end

function fixed.counted(it, at)
	return at >= it.idle and 0 or it.a
end
--</more>

function fixed.earliest(it, cost)
	if cost > it.quota - it.a then
		return it.idle
	end
	if it.reserved then
		return max(now, fixed.instant(it))
	end
	return now
end

function fixed.spend(it, at, cost)
	if it.idle == 0 or at >= it.idle then
		local start, stop = windowOf(it, at)
		it.a, it.idle, it.reserved = 0, stop, start > now
	end
	it.a = it.a + cost
end

function fixed.record(it, cost)
	if it.reserved then
		return false
	end
	cost = min(cost, it.quota)
	local room = it.quota - it.a
	if it.idle == 0 or now >= it.idle then
		fixed.spend(it, now, cost)
	elseif cost < room then
		it.a = it.a + cost
	elseif it.mode == 1 then
		it.a, it.idle = max(it.a, it.quota), now + it.window
	elseif room <= 0 then
		return false
	else
		it.a = it.quota
	end
	return true
end

--<more>
function fixed.refund(it, at, _, units)
	if it.idle == 0 or at >= it.idle or at < fixed.instant(it) then
		return false
	end
	local back = min(units, it.a)
	it.a = it.a - back
	if it.a == 0 and not it.reserved then
		clear(it)
	end
	return back > 0
end
--</more>
