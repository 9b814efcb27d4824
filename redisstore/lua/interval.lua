-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The part of algo/interval.go for a balance that the limit wrote itself. State: idle; a,
-- the missing units; since.

local interval = {balance = true, load = load, save = save}
kinds[2] = interval

function interval.new(key, head, s)
	local _, charge, window, full, debt, quota, horizon, sight, several, lent, aligned, countDenied = unpack('>dddddddddddd', s)
	return {
		key = key, head = head, kind = interval, charge = charge, window = window, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, held = 0, queues = 0, written = false, exists = false,
		swapped = false, since = 0, last = 0, sight = sight, several = several, lent = lent, aligned = aligned, countDenied = countDenied, form = '>I7I7',
	}
end

local function writtenAt(it)
	return it.idle - ceildiv(it.a, it.quota) * it.window
end

interval.written = writtenAt

local function missing(it, at)
	if it.idle == 0 then
		return 0, 0
	end
	local refills = max(ceildiv(it.idle - at, it.window), 0)
	local passed = ceildiv(it.a, it.quota) - refills
	return max(it.a - passed * it.quota, 0), refills
end

-- base returns the instant from which refills are counted if the first unit is missing at
-- an instant.
local function base(it, at)
	return it.aligned == 1 and at - at % it.window or at
end

local function setMissing(it, at, units, refills)
	local last = base(it, at)
	if refills > 0 then
		last = it.idle - refills * it.window
	end
	it.a = units
	it.idle = last + ceildiv(units, it.quota) * it.window
end

function interval.instant()
	return 0
end

function interval.stepped(it)
	local most = ceildiv(max(it.full + it.debt, it.a), it.quota) * it.window
	return it.since - now > MAXWAIT or it.idle - now > most + (it.last > 0 and MAXWAIT or 0)
end

--<more>
function interval.clamp(it)
	if it.a <= it.full + it.debt then
		it.a = it.full + it.lent
	end
	it.last = 0
	it.idle = base(it, now) + ceildiv(it.a, it.quota) * it.window
	if it.since > 0 then
		it.since = now
	end
end

function interval.counted(it)
	return (missing(it, now))
end
--</more>

function interval.earliest(it, cost)
	local written = writtenAt(it)
	-- No take overtakes a reservation in another limit's balance.
	return max(it.since > now and max(written, it.since) or now, now, written + ceildiv(it.a - (it.full - cost), it.quota) * it.window)
end

function interval.spend(it, at, cost)
	local units, refills = missing(it, at)
	setMissing(it, at, units + cost, refills)
	if at > now then
		it.last = 1
	elseif writtenAt(it) <= now then
		it.last = 0
	end
	if at <= now and it.since + it.horizon <= now then
		it.since = 0
	end
end

function interval.record(it, cost)
	if it.since > now or it.idle > 0 and writtenAt(it) > now then
		return false
	end
	local units, refills = missing(it, now)
	if cost < it.full - units then
		setMissing(it, now, units + cost, refills)
		it.last = 0
	else
		it.a = max(units, it.full)
		it.idle = now + ceildiv(it.a, it.quota) * it.window
	end
	if it.since + it.horizon <= now then
		it.since = 0
	end
	return true
end

--<more>
function interval.refund(it, at, _, cost, held)
	local gone, refills = missing(it, now)
	if gone == 0 or at < it.since then
		return false
	end
	held = min(held, it.full + it.debt)
	local written = writtenAt(it)
	local untl = max(now, written)
	local passed = floor((untl - it.idle) / it.window) - floor((min(at, untl) - it.idle) / it.window)
	if passed >= ceildiv(held, it.quota) then
		return false
	end
	local back = min(gone, cost, held - passed * it.quota)
	if back <= 0 then
		return false
	end
	if now < written then
		back = min(back, it.a)
		it.a = it.a - back
		it.idle = written + ceildiv(it.a, it.quota) * it.window
	elseif gone == back then
		rest(it)
	else
		setMissing(it, now, gone - back, refills)
	end
	return back > 0
end
--</more>
