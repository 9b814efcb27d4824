-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- See algo/bucket.go. State: idle, a the remainder that was rounded away.

local bucket = {}
kinds[1] = bucket

function bucket.new(key, head, s)
	local _, charge, window, lag, full, debt, quota, horizon, num, den, one, oneRem, reach, reachRem, before, beforeRem, queues, free, withheld, size =
		unpack('>dddddddddddddddddddd', s)
	return {
		key = key, head = head, kind = bucket, charge = charge, window = window, lag = lag, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, queues = queues, written = false, exists = false,
		swapped = false,
		num = num, den = den, one = one, oneRem = oneRem, reach = reach, reachRem = reachRem, before = before,
		beforeRem = beforeRem, free = free, withheld = withheld, form = size == 2 and '>I7I2' or '>I7I7',
	}
end

function bucket.load(it, raw, pos)
	it.idle, it.a = unpack(it.form, raw, pos)
end

function bucket.save(it)
	set(it, it.head .. pack(it.form, it.idle, it.a))
end

local function times(it, n)
	if n == 1 then
		return it.one, it.oneRem
	end
	return muldiv(n, it.num, it.den)
end

local function plus(it, m, r, m2, r2)
	if r >= it.den - r2 then
		return m + m2 + 1, r - (it.den - r2)
	end
	return m + m2, r + r2
end

local function minus(it, m, r, m2, r2)
	if r < r2 then
		return m - m2 - 1, r + (it.den - r2)
	end
	return m - m2, r - r2
end

local function ceil(m, r)
	return r > 0 and m + 1 or m
end

-- full returns the exact instant at which the bucket is full.
local function whenFull(it)
	local m = it.idle - it.lag
	if it.a > 0 then
		m = m - 1
	end
	return m, it.a
end

local function setFull(it, m, r)
	it.idle, it.a = ceil(m, r) + it.lag, r
end

local function debt(it, at)
	if it.idle == 0 then
		return 0, 0
	end
	local m, r = whenFull(it)
	if m < at then
		return 0, 0
	end
	return m - at, r
end

function bucket.first(it)
	local m, r = times(it, it.withheld)
	setFull(it, now + m, r)
end

function bucket.instant()
	return 0
end

-- counted returns the units that count, rounded up.
function bucket.counted(it)
	local m, r = debt(it, now)
	local q, rem = muldiv(m, it.den, it.num)
	local rq = floor(r / it.num)
	local rr = r - rq * it.num
	q = q + rq
	if rem >= it.num - rr then
		q, rem = q + 1, rem - (it.num - rr)
	else
		rem = rem + rr
	end
	return rem > 0 and q + 1 or q
end

function bucket.earliest(it, cost)
	local m, r = whenFull(it)
	m, r = plus(it, m, r, times(it, cost))
	return max(now, ceil(minus(it, m, r, it.reach, it.reachRem)))
end

function bucket.spend(it, at, cost)
	local m, r = debt(it, at)
	m, r = plus(it, at + m, r, times(it, cost))
	setFull(it, m, r)
end

function bucket.refund(it, at, due, units)
	units = min(units, it.full + it.debt)
	local start, rounded = at, 0
	if due > at then
		start = max(at, due + (times(it, it.free)) - ceil(times(it, units)))
		rounded = 1
	end
	local m, r = debt(it, now)
	local bm, br = minus(it, now + m, r, times(it, it.free + it.debt))
	bm = bm - due
	local gm, gr = max(now - start, 0), 0
	if bm > rounded or bm == rounded and br > 0 then
		units = min(units, it.free)
		if gm < bm or gm == bm and gr < br then
			gm, gr = bm, br
		end
	end
	bm, br = times(it, units)
	bm, br = minus(it, bm, br, gm, gr)
	if m < bm or m == bm and r < br then
		bm, br = m, r
	end
	if bm < 0 or bm == 0 and br == 0 then
		return false
	end
	m, r = minus(it, m, r, bm, br)
	if m == 0 and r == 0 and it.lag == 0 then
		clear(it)
	else
		setFull(it, now + m, r)
	end
	return true
end

-- delay returns how long a leaky bucket that queues would hold cost back.
function bucket.delay(it, cost)
	if it.queues == 0 then
		return 0
	end
	local m, r = debt(it, now)
	m, r = plus(it, m, r, times(it, cost))
	return max(ceil(minus(it, m, r, it.before, it.beforeRem)), 0)
end
