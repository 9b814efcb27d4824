-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The part of algo/warmup.go for a balance that the limit wrote itself: a bucket whose idle
-- includes b. State: idle, a, b, since and last.

local warm = {balance = true, instant = bucket.instant}
kinds[7] = warm

function warm.new(key, head, s)
	local _, charge, window, full, debt, quota, horizon, several, num, den, one, oneRem, reach, reachRem, most, mostRem, lent, all =
		unpack('>dddddddddddddddddd', s)
	return {
		key = key, head = head, kind = warm, charge = charge, window = window, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, held = 0, queues = 0, written = false, exists = false,
		swapped = false, since = 0, last = 0, several = several,
		num = num, den = den, one = one, oneRem = oneRem, reach = reach, reachRem = reachRem, most = most, mostRem = mostRem,
		lent = lent, all = all, credit = 0, lasts = 0, remembers = ceil(most, mostRem),
	}
end

function warm.load(it, raw, pos)
	it.idle, it.a, it.b = unpack('>I7I7I7', raw, pos)
	loadSince(it, raw)
end

function warm.save(it)
	saveBalance(it, pack('>I7I7I7', it.idle, it.a, it.b))
end

-- unwarmed calls a bucket's function on the state without its warm-up part.
local function unwarmed(it, what, ...)
	local used = it.b
	it.idle, it.b = it.idle - used, 0
	local result = what(it, ...)
	it.idle, it.b = it.idle + used, used
	return result
end

-- chill returns the additional time, compared with a warm key, that all units take until
-- the key is warm.
local function chill(it, used)
	local above = it.all - 2 * used
	if above <= 0 then
		return 0
	end
	return (muldiv(above, above, 2 * it.all))
end

function warm.stepped(it)
	if it.last > 0 then
		return it.last - now > MAXWAIT
	end
	return it.idle - it.b - now > ceil(it.most, it.mostRem) + chill(it, 0)
end

function warm.clamp(it)
	unwarmed(it, bucket.clamp)
end

function warm.counted(it)
	return unwarmed(it, bucket.counted)
end

function warm.earliest(it, cost)
	return unwarmed(it, bucket.earliest, cost)
end

function warm.spend(it, at, cost)
	local before = min(it.b, max(it.idle - at, 0))
	it.idle = it.idle - it.b
	local m, r = debt(it, at)
	local after, afterRem = plus(it, m, r, times(it, cost))
	owe(it, at, after, afterRem)
	it.b = min(before + ceil(after, afterRem) - ceil(m, r), it.all)
	it.idle = it.idle + chill(it, before) - chill(it, it.b) + it.b
end

function warm.refund(it, at, due, cost, held)
	return unwarmed(it, function()
		local back = bucket.refund(it, at, due, cost, held)
		if back then
			it.idle = max(it.idle, now)
		end
		return back
	end)
end
