-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- See algo/interval.go. State: idle, a the units missing.

local interval = {}
kinds[2] = interval

function interval.new(key, head, s)
	local _, charge, window, lag, full, debt, quota, horizon, withheld =
		unpack('>ddddddddd', s)
	return {
		key = key, head = head, kind = interval, charge = charge, window = window, lag = lag, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, queues = 0, written = false, exists = false,
		swapped = false, withheld = withheld,
	}
end

function interval.load(it, raw, pos)
	it.idle, it.a = unpack('>I7I7', raw, pos)
end

function interval.save(it)
	set(it, it.head .. pack('>I7I7', it.idle, it.a))
end

local function writtenAt(it)
	return it.idle - it.lag - ceildiv(it.a, it.quota) * it.window
end

local function missing(it, at)
	if it.idle == 0 then
		return 0, 0
	end
	local refills = max(ceildiv(it.idle - it.lag - at, it.window), 0)
	local passed = ceildiv(it.a, it.quota) - refills
	return max(it.a - passed * it.quota, 0), refills
end

local function setMissing(it, at, units, refills)
	local last = at
	if refills > 0 then
		last = it.idle - it.lag - refills * it.window
	end
	it.a = units
	it.idle = last + ceildiv(units, it.quota) * it.window + it.lag
end

--<more>
function interval.first(it)
	it.a = it.withheld
	it.idle = now + ceildiv(it.withheld, it.quota) * it.window + it.lag
end
--</more>

function interval.instant()
	return 0
end

--<more>
function interval.counted(it)
	return (missing(it, now))
end
--</more>

function interval.earliest(it, cost)
	return max(now, writtenAt(it) + ceildiv(it.a - (it.full - cost), it.quota) * it.window)
end

function interval.spend(it, at, cost)
	local units, refills = missing(it, at)
	setMissing(it, at, units + cost, refills)
end

--<more>
function interval.refund(it, at, _, units)
	local gone, refills = missing(it, now)
	if gone == 0 then
		return false
	end
	local written = writtenAt(it)
	local grid, untl = it.idle - it.lag, max(now, written)
	local passed = floor((untl - grid) / it.window) - floor((min(at, untl) - grid) / it.window)
	local back = min(gone, units)
	if passed > 0 then
		if passed >= ceildiv(units, it.quota) then
			return false
		end
		back = min(gone, units - passed * it.quota)
	end
	if now < written then
		back = min(back, it.a)
		it.a = it.a - back
		it.idle = written + ceildiv(it.a, it.quota) * it.window + it.lag
	elseif gone == back and it.lag == 0 then
		clear(it)
	else
		setMissing(it, now, gone - back, refills)
	end
	return back > 0
end
--</more>
