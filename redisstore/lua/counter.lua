-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- See algo/slidingcounter.go. State: idle, reserved, and the counts of the
-- sub-windows from the newest on: c[0] to c[n].

local counter = {}
kinds[4] = counter

function counter.new(key, head, s)
	local _, charge, window, full, debt, quota, horizon, sight, size, n, conservative, strict, countDenied = unpack('>ddddddddddddd', s)
	local c = {}
	for k = 0, n do
		c[k] = 0
	end
	return {
		key = key, head = head, kind = counter, charge = charge, window = window, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, held = 0, queues = 0, written = false, exists = false,
		swapped = false, since = 0, last = 0, sight = sight, sub = size, n = n, conservative = conservative, strict = strict, countDenied = countDenied, c = c,
		clear = counter.clear,
	}
end

function counter.clear(it)
	for k = 0, it.n do
		it.c[k] = 0
	end
end

function counter.load(it, raw, pos)
	local flags
	it.idle, flags = unpack('>I7B', raw, pos)
	it.reserved = flags == 1
	pos = pos + 8
	for k = 0, it.n do
		it.c[k] = unpack('>I7', raw, pos)
		pos = pos + 7
	end
end

function counter.save(it)
	local parts = {it.head, pack('>I7B', it.idle, it.reserved and 1 or 0)}
	for k = 0, it.n do
		parts[k + 3] = pack('>I7', it.c[k])
	end
	set(it, table.concat(parts))
end

-- owed returns the units of the newest sub-window above the quota, and owes the time until
-- all of them have moved to later sub-windows.
local function owed(it)
	if it.debt == 0 or it.idle == 0 then
		return 0
	end
	local over = -it.quota
	for k = 0, it.n - 1 + it.conservative do
		over = over + it.c[k]
	end
	return max(min(over, it.debt, it.c[0]), 0)
end

local function owes(it)
	local n = owed(it)
	if n == 0 then
		return 0
	end
	local run, steps = it.n + it.conservative, 1
	local runs = floor((n - 1) / it.quota)
	local left = n - runs * it.quota
	for k = run - 1, 1, -1 do
		left = left - it.c[k]
		if left <= 0 then
			break
		end
		steps = steps + 1
	end
	return (runs * run + steps) * it.sub
end

local function start(it)
	return it.idle - it.sub - it.window - owes(it)
end

local function setStart(it, at)
	it.idle = at + it.sub + it.window
	it.idle = it.idle + owes(it)
end

local function shift(it, steps)
	for k = it.n, 0, -1 do
		it.c[k] = it.c[k - steps] or 0
	end
end

-- pay moves owed units to later sub-windows as time passes.
local function pay(it, at)
	if owed(it) == 0 then
		return
	end
	local from, run, i = start(it), it.n + it.conservative, 0
	local steps = floor((at - from) / it.sub)
	while steps > 0 do
		local n = owed(it)
		if n == 0 then
			break
		end
		local runs = min(floor(steps / run), floor(n / it.quota))
		if i >= 2 * run and runs > 0 then
			it.c[0] = it.c[0] - runs * it.quota
			from, steps = from + runs * run * it.sub, steps - runs * run
		else
			it.c[0] = it.c[0] - n
			shift(it, 1)
			it.c[0] = n
			from, steps = from + it.sub, steps - 1
		end
		i = i + 1
	end
	setStart(it, from)
end
counter.pay = pay

counter.instant = start

-- view returns the units of the sub-windows that lie wholly within the window at an instant,
-- those of the oldest, which lies partly within it, the number of sub-windows by which the
-- newest one is older than the instant's, and the start of the instant's sub-window.
local function view(it, at)
	local from, shift = start(it), 0
	if at >= from + it.sub then
		local steps = floor((at - from) / it.sub)
		from = from + steps * it.sub
		shift = min(steps, it.n + 1)
	end
	local whole = 0
	for k = 0, it.n - shift - 1 do
		whole = whole + it.c[k]
	end
	return whole, it.c[it.n - shift] or 0, shift, from
end

local function fits(it, whole, oldest, from, cost)
	local room = it.quota - whole - cost
	if room < 0 then
		return nil
	end
	if oldest <= room then
		return from
	end
	if it.conservative == 1 then
		return nil
	end
	local below = 1 - it.strict
	local inSight, rem = muldiv(room + below, it.sub, oldest)
	if rem == 0 then
		inSight = inSight - below
	end
	if inSight > 0 then
		return from + it.sub - inSight
	end
	return nil
end

--<more>
function counter.stepped(it)
	return windowStepped(it, start(it), it.window)
end

function counter.counted(it, at)
	if it.idle == 0 then
		return 0
	end
	at = max(at, start(it))
	local whole, oldest, _, from = view(it, at)
	if it.conservative == 1 then
		return whole + oldest
	end
	local n, rem = muldiv(oldest, it.sub - (at - from), it.sub)
	return whole + n + (rem > 0 and it.strict or 0)
end

function counter.clamp(it)
	clear(it)
	setStart(it, now - now % it.sub - it.sub)
	it.c[0] = it.full
	local unseen = it.full - counter.counted(it, now)
	if unseen > 0 then
		counter.spend(it, now, unseen)
	end
end
--</more>

function counter.earliest(it, cost)
	local first = max(now, start(it))
	local begin, paid = first, it
	local whole, oldest, steps, from = view(it, begin)
	if owed(it) > 0 then
		paid = {c = {}}
		for _, name in ipairs({'idle', 'sub', 'window', 'n', 'conservative', 'debt', 'quota'}) do
			paid[name] = it[name]
		end
		for k = 0, it.n do
			paid.c[k] = it.c[k]
		end
	end
	while true do
		local at = fits(it, whole, oldest, from, cost)
		if at then
			at = max(at, begin)
			if at == first and not it.reserved then
				return now
			end
			return at
		end
		if owed(paid) > 0 then
			-- Pay the excess of the newest sub-window first.
			local runs = max(floor(min(paid.c[0] + cost - it.quota, owed(paid)) / it.quota) - 2, 0)
			begin = start(paid) + (runs * (it.n + it.conservative) + 1) * it.sub
			pay(paid, begin)
			whole, oldest, steps, from = view(paid, begin)
		else
			steps = steps + 1
			from = from + it.sub
			oldest = paid.c[it.n - steps] or 0
			-- Counts that another program wrote may be too large for an exact difference.
			whole = steps > paid.n and 0 or whole - oldest
		end
	end
end

local function turn(it, at)
	pay(it, at)
	local from = start(it)
	if at < from + it.sub then
		return
	end
	local steps = floor((at - from) / it.sub)
	shift(it, steps)
	setStart(it, from + steps * it.sub)
end

-- add adds units to a sub-window.
local function add(it, k, units)
	local from = start(it)
	it.c[k] = it.c[k] + units
	setStart(it, from)
end

function counter.spend(it, at, cost)
	if it.idle == 0 then
		it:clear()
		setStart(it, at - at % it.sub)
	end
	turn(it, at)
	add(it, 0, cost)
	it.reserved = it.reserved or at > now and start(it) > now
end

function counter.record(it, cost)
	local room = it.quota + 1 - max(it.conservative, it.strict)
	if it.idle > 0 and now < start(it) + it.sub then
		room = room - it.c[0]
	end
	cost = min(cost, room)
	if it.reserved or cost <= 0 then
		return false
	end
	counter.spend(it, now, cost)
	return true
end

-- arrive makes the newest sub-window that has units the state's newest.
function counter.arrive(it)
	if it.reserved then
		return
	end
	local newest = 0
	while newest <= it.n and it.c[newest] == 0 do
		newest = newest + 1
	end
	if newest > it.n then
		clear(it)
		return
	end
	if newest > 0 then
		local from = start(it) - newest * it.sub
		for k = 0, it.n do
			it.c[k] = it.c[k + newest] or 0
		end
		setStart(it, from)
	end
end

--<more>
function counter.refund(it, at, _, units)
	if it.idle == 0 then
		return false
	end
	local from = start(it)
	if at >= from + it.sub then
		return false
	end
	local k = min(ceildiv(from - at, it.sub), it.n + 1)
	local shift = max(floor((now - from) / it.sub), 0)
	if k < 0 or k + shift > it.n then
		return false
	end
	local back = min(units, it.c[k])
	add(it, k, -back)
	counter.arrive(it)
	return back > 0
end
--</more>
