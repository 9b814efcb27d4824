-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The part of algo/bucket.go for a balance that the limit wrote itself. State: idle; a, the
-- remainder that was rounded away; since and last. If the limit has credit and its bucket
-- is full, b is the credit, negative, and idle the instant when it lapses: see
-- algo/credit.go.

local bucket = {balance = true, load = load, save = save}
kinds[1] = bucket

function bucket.new(key, head, s)
	local _, charge, window, full, debt, quota, horizon, sight, several, num, den, one, oneRem, reach, reachRem, most, mostRem, before, beforeRem, queues, free, size, lent, countDenied, credit, lasts =
		unpack('>dddddddddddddddddddddddddd', s)
	local form = size == 2 and '>I7I2' or '>I7I7'
	if credit > 0 then
		form = form .. 'I7'
	end
	return {
		key = key, head = head, kind = bucket, charge = charge, window = window, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, held = 0, queues = queues, written = false, exists = false,
		swapped = false, since = 0, last = 0, sight = sight, several = several,
		num = num, den = den, one = one, oneRem = oneRem, reach = reach, reachRem = reachRem, most = most, mostRem = mostRem,
		before = before, beforeRem = beforeRem, free = free, lent = lent, countDenied = countDenied, form = form,
		credit = credit, lasts = lasts, remembers = horizon - MAXWAIT,
	}
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

local function less(m, r, m2, r2)
	if m2 < m or m2 == m and r2 < r then
		return m2, r2
	end
	return m, r
end

-- whenFull returns the exact instant at which the bucket is full.
local function whenFull(it)
	if it.a > 0 then
		return it.idle - 1, it.a
	end
	return it.idle, 0
end

local function setFull(it, m, r)
	it.idle, it.a = ceil(m, r), r
end

local function debt(it, at)
	if it.b < 0 then
		return 0, 0
	end
	local m, r = whenFull(it)
	if m < at then
		return 0, 0
	end
	return m - at, r
end

function bucket.instant()
	return 0
end

function bucket.stepped(it)
	if it.b < 0 then
		return it.last - now > MAXWAIT or it.idle - now > it.lasts
	end
	if it.last > 0 then
		return it.last - now > MAXWAIT
	end
	return it.idle - now > ceil(it.most, it.mostRem)
end

function bucket.clamp(it)
	if it.b < 0 then
		it.idle, it.since, it.last = min(it.idle, now + it.lasts), min(it.since, now), min(it.last, now)
		return
	end
	local m, r = it.reach, it.reachRem
	if it.lent > 0 then
		m, r = it.most, it.mostRem
	end
	if it.last > 0 then
		local owed, owedRem = debt(it, it.last)
		if it.most < owed or it.most == owed and it.mostRem < owedRem then
			m, r = owed, owedRem
		end
	end
	if it.last > 0 or it.since > 0 then
		it.since, it.last = now, now
	end
	setFull(it, now + m, r)
end

-- counted returns the units that count, rounded up; credit is negative.
function bucket.counted(it)
	if it.b < 0 then
		return it.b
	end
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
	if it.b < 0 then
		local at = it.since > now and it.last or now
		return cost > it.full and at >= it.idle and NEVER or at
	end
	local m, r = whenFull(it)
	m, r = plus(it, m, r, times(it, cost))
	-- No take overtakes a reservation in another limit's balance.
	return max(it.since > now and it.last or now, ceil(minus(it, m, r, it.reach, it.reachRem)))
end

-- owe sets the debt at an instant.
local function owe(it, at, m, r)
	setFull(it, at + m, r)
	it.b = 0
	if at <= now and it.last == 0 and it.since == 0 then
		return
	end
	if at <= now and it.last <= now and it.since + it.remembers <= now then
		it.since, it.last = 0, 0
	elseif at > now or it.last > 0 or it.credit == 0 then
		it.last = max(it.last, at)
	end
end

function bucket.spend(it, at, cost)
	if it.b < 0 then
		local spent = min(cost, -it.b)
		local left = it.idle > at and -it.b - spent or 0
		if left == 0 or spent < cost then
			owe(it, at, times(it, cost - spent))
			if it.idle <= now then
				rest(it)
			end
			return
		end
		it.b = -left
		if at > now then
			it.last = max(it.last, at)
		end
		return
	end
	local m, r = debt(it, at)
	owe(it, at, plus(it, m, r, times(it, cost)))
end

function bucket.record(it, cost)
	local m, r = debt(it, now)
	local after, afterRem = plus(it, m, r, times(it, min(cost, it.full)))
	after, afterRem = less(after, afterRem, it.reach, it.reachRem)
	if it.since > now or after < m or after == m and afterRem <= r then
		return false
	end
	owe(it, now, after, afterRem)
	return true
end

function bucket.refund(it, at, due, cost, held)
	if at < it.since then
		return false
	end
	held = min(held, it.full + it.debt + it.credit)
	if it.b < 0 then
		local back = min(cost, held, it.credit + it.b)
		it.b = it.b - back
		return back > 0
	end
	local start, early, rounded = at, 0, min(it.den - 1, 1)
	if it.queues == 1 and due > at then
		local behind = due - ceil(times(it, max(held - it.free, 0)))
		if behind > start then
			start, early = behind, rounded
		end
	end
	local gone = max(now - start + early, 0)
	if it.last > max(at, now) then
		gone = max(gone, it.last - start + early)
	end
	if it.queues == 1 then
		local m, r = whenFull(it)
		local last = ceil(minus(it, m, r, it.before, it.beforeRem))
		if last > due + rounded then
			gone = max(gone, last - start + rounded)
		end
	end
	local m, r = times(it, held)
	m, r = less(m - gone, r, times(it, min(cost, held)))
	m, r = less(m, r, debt(it, max(it.last, now)))
	if m < 0 or m == 0 and r == 0 then
		return false
	end
	local fm, fr = whenFull(it)
	setFull(it, minus(it, fm, fr, m, r))
	if it.last > 0 then
		it.last = max(it.last, now)
	end
	if it.idle <= now then
		rest(it)
	end
	return true
end

-- delay returns the time by which a leaky bucket that queues would delay cost.
function bucket.delay(it, cost)
	if it.queues == 0 then
		return 0
	end
	local m, r = debt(it, now)
	m, r = plus(it, m, r, times(it, cost))
	return max(ceil(minus(it, m, r, it.before, it.beforeRem)), 0)
end
