-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- See algo/slidinglog.go and algo/ring.go, for the log and the histogram.
-- State: idle, reserved, a the sum of units, b the words at which a histogram
-- merges next, and a ring of len words from first on, of cap words in all. A
-- word is two numbers of 32 bits: hi and lo. A small ring is read and written
-- whole; of a large one words are read as they are needed, and written where
-- they have changed. In memory, raw is the ring if all of it is there, hi and lo
-- are the words that were looked at or changed, and dirty says which changed.

local log = {}
kinds[5] = log

local FORM, SIZE, SMALL = '>I7BI7I7I4I4I4', 34, 0

function log.new(key, head, s)
	local _, charge, window, lag, full, debt, quota, horizon, precision, countDenied, most =
		unpack('>ddddddddddd', s)
	return {
		key = key, head = head, kind = log, charge = charge, window = window, lag = lag, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, queues = 0, written = false, exists = false,
		swapped = false,
		precision = precision, countDenied = countDenied, most = most, ring = true, hi = {}, lo = {}, dirty = {},
		first = 0, len = 0, cap = 0, chunk = 4, base = 0, raw = false, clear = log.clear,
	}
end

function log.clear(it)
	it.first, it.len = 0, 0
end

function log.read(it)
	return call('GETRANGE', it.key, 0, #it.head + SIZE + SMALL * 8 - 1)
end

function log.load(it, raw, pos)
	local flags
	it.idle, flags, it.a, it.b, it.first, it.len, it.cap = unpack(FORM, raw, pos)
	it.reserved = flags == 1
	it.base = pos + SIZE - 1
	if #raw == it.base + it.cap * 8 then
		it.raw = sub(raw, it.base + 1)
	end
end

function log.instant(it)
	return it.idle - it.window
end

local function expire(it, at)
	while it.len > 0 do
		local e, units, words = entry(it, 0)
		if e > at - it.window then
			return
		end
		drop(it, units, words)
	end
end

--<more>
function log.counted(it)
	if it.idle == 0 then
		return 0
	end
	local at, i, a = max(now, it.idle - it.window), 0, it.a
	while i < it.len do
		local e, units, words = entry(it, i)
		if e > at - it.window then
			break
		end
		a, i = a - units, i + words
	end
	return a
end
--</more>

function log.earliest(it, cost)
	local from = max(now, it.idle - it.window)
	local at, left, i = from, it.a, 0
	while i < it.len and cost > it.quota - left do
		local e, units, words = entry(it, i)
		at = max(at, e + it.window)
		left, i = left - units, i + words
	end
	if at == from and not it.reserved then
		return now
	end
	return at
end

local function merge(it)
	if it.len < max(it.b, 64) then
		return
	end
	local words, newer, write = it.len, it.a, 0
	local at, units, i = entry(it, 0)
	while i < words do
		local e, more, size = entry(it, i)
		i = i + size
		local both = units + more
		if both <= floor((newer - both) / (it.precision - 1)) then
			at, units = e, both
		else
			newer = newer - units
			write = write + put(it, write, at, units)
			at, units = e, more
		end
	end
	write = write + put(it, write, at, units)
	it.len = write
	it.b = write + max(32, floor(write / 8))
end

local function add(it, at, units)
	it.a = it.a + units
	if it.len > 0 and at == it.idle - it.window then
		local i = it.len - 1
		local _, lo = word(it, i)
		if lo % 2 == 1 then
			i = i - 1
		end
		local e, more = entry(it, i)
		if e == at then
			it.len, units = i, units + more
		end
	end
	local need = it.len + (units < MANY and 1 or 2)
	if need > it.cap then
		grow(it, max(need, min(it.cap + max(floor(it.cap / 2), 4), it.most)))
	end
	it.len = it.len + put(it, it.len, at, units)
end

function log.spend(it, at, cost)
	local reserved = it.reserved or at > now
	if it.idle ~= 0 then
		at = max(at, it.idle - it.window)
	end
	expire(it, at)
	if it.precision > 0 then
		merge(it)
	end
	add(it, at, cost)
	it.idle = at + it.window
	it.reserved = reserved and at > now
end

-- record counts a denied cost: the log keeps the newest units, quota of them.
function log.record(it, cost)
	cost = min(cost, it.quota)
	if it.idle ~= 0 then
		expire(it, max(now, it.idle - it.window))
	end
	local keep = max(it.quota, it.a) - cost
	while it.a > keep do
		local at, units, words = entry(it, 0)
		local over = it.a - keep
		drop(it, units, words)
		if units > over then
			words = units - over < MANY and 1 or 2
			it.first = it.first - words
			if it.first < 0 then
				it.first = it.first + it.cap
			end
			it.len, it.a = it.len + words, it.a + units - over
			put(it, 0, at, units - over)
		end
	end
	log.spend(it, now, cost)
end

--<more>
function log.refund(it, at, _, units)
	if it.idle == 0 then
		return false
	end
	local seen = max(now, it.idle - it.window)
	expire(it, seen)
	if at <= seen - it.window then
		return false
	end
	local back, i = 0, find(it, at)
	if i < it.len then
		local e, had, words = entry(it, i)
		if it.precision > 0 or e == at then
			back = min(units, had)
			it.a = it.a - back
			local write = i
			if had > back then
				write = write + put(it, i, e, had - back)
			end
			for j = i + words, it.len - 1 do
				if write ~= j then
					putWord(it, write, word(it, j))
				end
				write = write + 1
			end
			it.len = write
		end
	end
	if it.len == 0 and not it.reserved then
		clear(it)
	end
	return back > 0
end
--</more>

-- seen returns as much of the state as the caller needs to describe the
-- outcome: the units that must be forgotten for cost to fit, with the instant
-- of the last of them, and the same for the denial counted; of a refund the
-- entry found; the rest as one.
function log.seen(it, op, cost, at)
	local flag = it.reserved and 1 or 0
	if it.idle <= now or it.idle - now > it.horizon then
		return pack('>I7B', it.idle, flag)
	end
	local newest = it.idle - it.window
	local from = max(now, newest)
	local i, left = 0, it.a
	while i < it.len do
		local e, units, words = entry(it, i)
		if e > from - it.window then
			break
		end
		left, i = left - units, i + words
	end
	if op == TAKE and it.countDenied == 0 and cost <= it.quota - left then
		return left == 0 and pack('>I7B', it.idle, flag) or pack('>I7BI7I7', it.idle, flag, newest, left)
	end
	local parts = {pack('>I7B', it.idle, flag)}
	if op == REFUND then
--<more>
		local k = at > from - it.window and find(it, at) or it.len
		-- Where no entry is found, the rest must not be taken for it.
		local rest = it.precision > 0 and max(from - it.window + 1, 0) or max(at, from - it.window) + 1
		if k < it.len then
			local e, units, words = entry(it, k)
			if it.precision > 0 or e == at then
				-- What is older has no say, but it must not be taken for newer.
				local older = left - units
				if it.len - k - words < k - i then
					local m = k + words
					while m < it.len do
						local _, u, w = entry(it, m)
						older, m = older - u, m + w
					end
				else
					local j, sum = i, 0
					while j < k do
						local _, u, w = entry(it, j)
						sum, j = sum + u, j + w
					end
					older = sum
				end
				if older > 0 then
					parts[2] = pack('>I7I7', max(from - it.window + 1, 0), older)
				end
				parts[#parts + 1] = pack('>I7I7', e, units)
				left = left - older - units
				rest = newest
			end
		end
		newest = rest
--</more>
	elseif op ~= CHARGE and op ~= RESET and cost <= it.quota then
		-- By differences: the sum of units and cost may pass 2^53.
		for step = 1, it.countDenied == 1 and 2 or 1 do
			local units, e = 0, newest
			local keep = it.quota - step * cost
			while i < it.len and left - units > keep do
				local u, w
				e, u, w = entry(it, i)
				units, i = units + u, i + w
			end
			if units > 0 then
				parts[#parts + 1] = pack('>I7I7', e, units)
				left = left - units
			end
		end
	end
	if left > 0 then
		parts[#parts + 1] = pack('>I7I7', newest, left)
	end
	return table.concat(parts)
end

-- save writes what has changed.
function log.save(it)
	local header = pack(FORM, it.idle, it.reserved and 1 or 0, it.a, it.b, it.first, it.len, it.cap)
	local changed = {}
	for p in pairs(it.dirty) do
		changed[#changed + 1] = p
	end
	if #changed > 1 then
		table.sort(changed)
	end
	if it.raw or not it.exists then
		local raw, parts, pos = it.raw or '', {it.head, header}, 0
		for _, p in ipairs(changed) do
			if pos < p then
				parts[#parts + 1] = sub(raw, pos * 8 + 1, p * 8)
				parts[#parts + 1] = string.rep('\0', p * 8 - max(#raw, pos * 8))
			end
			parts[#parts + 1] = pack('>I4I4', it.hi[p], it.lo[p])
			pos = p + 1
		end
		parts[#parts + 1] = sub(raw, pos * 8 + 1)
		parts[#parts + 1] = string.rep('\0', it.cap * 8 - max(#raw, pos * 8))
		set(it, table.concat(parts))
		return
	end
	local k = 1
	while k <= #changed do
		local p, parts = changed[k], {}
		while changed[k] == p + #parts do
			parts[#parts + 1] = pack('>I4I4', it.hi[changed[k]], it.lo[changed[k]])
			k = k + 1
		end
		call('SETRANGE', it.key, it.base + p * 8, table.concat(parts))
	end
	call('SETRANGE', it.key, #it.head, header)
	if how == 'PX' then
		call('PEXPIRE', it.key, ttl(it))
	else
		call('PEXPIREAT', it.key, ttl(it))
	end
end
