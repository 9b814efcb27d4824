-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- See algo/slidinglog.go and algo/ring.go, for the log and the histogram.
-- State: idle; reserved; a, the sum of units; b, the number of words at which a histogram
-- merges next; and a ring of cap words, of which len from first on are used. A word is two
-- numbers: hi of 32 bits, and lo. A small ring is read and written whole. The words of a
-- large ring are read when they are needed, and written if they have changed. In memory,
-- raw is the whole ring or nil, hi and lo are the words that were read or changed, and
-- dirty marks the changed ones.

local log = {}
kinds[5] = log

local FORM, SIZE = '>I7BI7I7I4I4I4', 34

-- In the result of seen it is added to the instants of denied units.
local REFUSED = 4503599627370496

function log.new(key, head, s)
	local _, charge, window, full, debt, quota, horizon, precision, countDenied, most, size, low = unpack('>dddddddddddd', s)
	local rest = 2 ^ (8 * size - 32)
	return {
		key = key, head = head, kind = log, charge = charge, window = window, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, held = 0, queues = 0, written = false, exists = false,
		swapped = false, since = 0, last = 0,
		precision = precision, countDenied = countDenied, most = most, size = size, pair = size == 8 and 'I4I4' or 'I4I3',
		low = low, high = rest / low, span = rest / low * 4294967296, many = low / 2 - 1, half = rest / 2, ring = true, hi = {}, lo = {}, dirty = {},
		first = 0, len = 0, cap = 0, chunk = 4, base = 0, raw = false, clear = log.clear,
	}
end

function log.clear(it)
	it.first, it.len = 0, 0
end

function log.read(it)
	return call('GETRANGE', it.key, 0, #it.head + SIZE - 1)
end

function log.load(it, raw, pos)
	local flags
	it.idle, flags, it.a, it.b, it.first, it.len, it.cap = unpack(FORM, raw, pos)
	it.reserved = flags == 1
	it.base = pos + SIZE - 1
	if #raw == it.base + it.cap * it.size then
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

-- arrive sets the state to its newest entry.
function log.arrive(it)
	if it.len == 0 then
		clear(it)
	else
		it.idle = entry(it, newestOf(it)) + it.window
	end
end

-- live returns the position of the first entry that counts at an instant, and the units
-- from there on.
local function live(it, at)
	local i, left = 0, it.a
	while i < it.len do
		local e, units, words = entry(it, i)
		if e > at - it.window then
			break
		end
		left, i = left - units, i + words
	end
	return i, left
end

--<more>
log.clamp = windowClamp

function log.stepped(it)
	return windowStepped(it, it.idle - it.window, it.window)
end

-- refused returns the number of denied units, which do not count in the debt, among the
-- left units from the i-th word on.
local function refused(it, i, left)
	local sum = 0
	if it.countDenied == 1 and left > it.quota then
		while i < it.len do
			local _, units, words, denied = entry(it, i)
			sum, i = sum + (denied and units or 0), i + words
		end
		sum = min(sum, left - it.quota)
	end
	return sum
end

function log.counted(it, at)
	if it.idle == 0 then
		return 0
	end
	local i, left = live(it, max(at, it.idle - it.window))
	return left - refused(it, i, left)
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
		if both <= floor((newer - both - 2) / (it.precision - 2)) then
			at, units = e, both
		else
			newer = newer - units
			write = write + put(it, write, at, units, false)
			at, units = e, more
		end
	end
	write = write + put(it, write, at, units, false)
	it.len = write
	it.b = write + max(32, floor(write / 12))
end

local function add(it, at, units, denied)
	it.a = it.a + units
	if it.len > 0 and at == it.idle - it.window then
		local i = newestOf(it)
		local e, more, _, refusal = entry(it, i)
		if e == at and refusal == denied then
			it.len, units = i, units + more
		end
	end
	local need = it.len + (units < (denied and 2 or it.many) and 1 or 2)
	if need > it.cap then
		local most = it.most
		if it.precision > 0 then
			most = min(most, max(it.b, 64) + 1)
		end
		grow(it, max(need, min(it.cap + max(floor(it.cap / 2), 4), most)))
	end
	it.len = it.len + put(it, it.len, at, units, denied)
end

function log.spend(it, at, cost, denied)
	local reserved = it.reserved or at > now
	if it.idle ~= 0 then
		at = max(at, it.idle - it.window)
	end
	expire(it, at)
	if it.precision > 0 then
		merge(it)
	end
	add(it, at, cost, denied or false)
	it.idle = at + it.window
	it.reserved = reserved and at > now
end

-- renew counts a denied cost in a histogram. If the histogram is full it drops as many of
-- the oldest units.
local function renew(it, cost)
	local over = cost - max(it.quota - it.a, 0)
	while over > 0 do
		local at, units, words = entry(it, 0)
		if units > over then
			drop(it, over, words - (units - over < it.many and 1 or 2))
			put(it, 0, at, units - over, false)
			break
		end
		over = over - units
		drop(it, units, words)
	end
	log.spend(it, now, cost)
	return true
end

-- record counts a denied cost, and now and then drops denied units that are too old to
-- count.
function log.record(it, cost)
	cost = min(cost, it.quota)
	if it.idle ~= 0 then
		expire(it, max(now, it.idle - it.window))
	end
	if it.precision > 0 then
		return renew(it, cost)
	end
	if it.len >= it.most - 2 then
		local newer, write, i = it.a, 0, 0
		while i < it.len do
			local _, units, words, denied = entry(it, i)
			newer = newer - units
			if denied and newer >= it.quota - cost then
				it.a = it.a - units
			else
				write = move(it, write, i, words)
			end
			i = i + words
		end
		it.len = write
	end
	log.spend(it, now, cost, true)
	return true
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
	local back, i, write = 0, find(it, at), nil
	while i < it.len do
		local e, had, words, denied = entry(it, i)
		local n = min(units - back, had)
		if n > 0 and not denied and (e == at or it.precision > 0 and back == 0) then
			write = write or i
			back, it.a = back + n, it.a - n
			if had > n then
				write = write + put(it, write, e, had - n, false)
			end
		elseif write then
			write = move(it, write, i, words)
		elseif e > at or back == units then
			break
		end
		i = i + words
	end
	it.len = write or it.len
	if not it.reserved then
		log.arrive(it)
	end
	return back > 0
end

-- found returns, for a refund of units spent at an instant, the units that it may give back
-- among the left units from the i-th word on, and the newest entry without them.
local function found(it, at, i, left)
	local newest, k, j = entry(it, newestOf(it)), find(it, at), nil
	local got, denied, had = 0, 0, at
	j = k
	while j < it.len do
		local e, units, words, refusal = entry(it, j)
		if e ~= at and (it.precision == 0 or j > k) then
			break
		end
		if refusal then
			denied = denied + units
		else
			got, had = got + units, e
		end
		j = j + words
	end
	if got == 0 then
		return pack('>I7I7', newest == at and at + REFUSED or newest, left)
	end
	local newer, parts = 0, {}
	if it.len - j < k - i then
		while j < it.len do
			local _, units, words = entry(it, j)
			newer, j = newer + units, j + words
		end
	else
		newer = left - got - denied
		while i < k do
			local _, units, words = entry(it, i)
			newer, i = newer - units, i + words
		end
	end
	local older = left - got - denied - newer
	if older > 0 then
		local _, lo = word(it, k - 1)
		parts[1] = pack('>I7I7', entry(it, lo % 2 == 1 and k - 2 or k - 1), older)
	end
	parts[#parts + 1] = pack('>I7I7', had, got)
	if denied > 0 then
		parts[#parts + 1] = pack('>I7I7', at + REFUSED, denied)
	end
	if newer > 0 then
		parts[#parts + 1] = pack('>I7I7', newest, newer)
	end
	return table.concat(parts)
end
--</more>

-- seen returns the part of the state from which the caller describes the outcome: the
-- units that must be dropped for cost to fit, with the instant of the last of them, and
-- the same for a counted denial; for a charge, the denied units; for a refund, the entry
-- found; and the rest as one entry.
function log.seen(it, op, cost, at)
	local header = pack('>I7B', it.idle, it.reserved and 1 or 0)
	if it.idle <= now then
		return header
	end
	local newest = it.idle - it.window
	local from = max(now, newest)
	local i, left = live(it, from)
	if left == 0 then
		return header
	end
	if it.reserved and newest <= now then
		newest = entry(it, newestOf(it))
	end
	local parts = {header}
--<more>
	local stepped = log.stepped(it)
	if newest > now and not it.reserved and not stepped then
		while i < it.len do -- all of it has a say in whether the clock stepped back
			local e, units, words, denied = entry(it, i)
			parts[#parts + 1] = pack('>I7I7', e + (denied and REFUSED or 0), units)
			i = i + words
		end
		return table.concat(parts)
	elseif op == CHARGE or stepped then
		local denied = refused(it, i, left)
		left = left - denied
		if denied > 0 then
			parts[2] = pack('>I7I7', newest + REFUSED, denied)
		end
		cost = NEVER
	elseif op == REFUND then
		if at > from - it.window then
			return header .. found(it, at, i, left)
		end
		cost = NEVER
	end
--</more>
	if op == TAKE and it.countDenied == 0 and cost <= it.quota - left then
		return header .. pack('>I7I7', newest, left)
	end
	if op ~= RESET and cost <= it.quota then
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
	local changed, size, word = {}, it.size, '>' .. it.pair
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
				parts[#parts + 1] = sub(raw, pos * size + 1, p * size)
				parts[#parts + 1] = string.rep('\0', p * size - max(#raw, pos * size))
			end
			parts[#parts + 1] = pack(word, it.hi[p], it.lo[p])
			pos = p + 1
		end
		parts[#parts + 1] = sub(raw, pos * size + 1)
		parts[#parts + 1] = string.rep('\0', it.cap * size - max(#raw, pos * size))
		set(it, table.concat(parts))
		return
	end
	local k = 1
	while k <= #changed do
		local p, parts = changed[k], {}
		while changed[k] == p + #parts do
			parts[#parts + 1] = pack(word, it.hi[changed[k]], it.lo[changed[k]])
			k = k + 1
		end
		call('SETRANGE', it.key, it.base + p * size, table.concat(parts))
	end
	call('SETRANGE', it.key, #it.head, header)
	if how == 'PX' then
		call('PEXPIRE', it.key, ttl(it))
	else
		call('PEXPIREAT', it.key, ttl(it))
	end
end
