-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The entries of a log, oldest first: see algo/ring.go and internal/logentry. If an instant
-- has b of a word's bits, span is 2^b, and low is 2 to the power of the other bits. A word
-- has size bytes: four are hi, which holds high of span, and the others are lo, below
-- half·2.

local DENIED = 2147483648

-- fetch reads words from the p-th of the ring on.
local function fetch(it, p)
	local s, pos, size = it.raw, p * it.size + 1, it.size
	local n = min(it.chunk, (s and #s / size or it.cap) - p)
	it.chunk = min(it.chunk * 2, 128)
	if not s then
		s, pos = call('GETRANGE', it.key, it.base + p * size, it.base + (p + n) * size - 1), 1
	end
	if n == 4 and not it.hi[p + 1] and not it.hi[p + 2] and not it.hi[p + 3] then
		local hi, lo = it.hi, it.lo
		hi[p], lo[p], hi[p + 1], lo[p + 1], hi[p + 2], lo[p + 2], hi[p + 3], lo[p + 3] = unpack(size == 8 and '>I4I4I4I4I4I4I4I4' or '>I4I3I4I3I4I3I4I3', s, pos)
		return
	end
	local words = {unpack('>' .. string.rep(it.pair, n), s, pos)}
	for k = 0, n - 1 do
		if not it.hi[p + k] then
			it.hi[p + k], it.lo[p + k] = words[2 * k + 1], words[2 * k + 2]
		end
	end
end

-- word returns the i-th word from the oldest.
local function word(it, i)
	local p = it.first + i
	if p >= it.cap then
		p = p - it.cap
	end
	local hi = it.hi[p]
	if not hi then
		fetch(it, p)
		hi = it.hi[p]
	end
	return hi, it.lo[p]
end

local function putWord(it, i, hi, lo)
	local p = it.first + i
	if p >= it.cap then
		p = p - it.cap
	end
	it.hi[p], it.lo[p], it.dirty[p] = hi, lo, true
end

-- entry returns the instant, units and number of words of the entry that begins at the i-th
-- word, and whether the units were denied.
local function entry(it, i)
	local hi, lo = word(it, i)
	local low = lo % it.low
	local last, units = it.idle - it.window, floor(low / 2)
	local at = last - (last - hi * it.high - (lo - low) / it.low) % it.span
	if units == 0 then
		return at, 1, 1, true
	end
	if units < it.many then
		return at, units, 1, false
	end
	hi, lo = word(it, i + 1)
	if hi >= DENIED then
		return at, (hi - DENIED) * 2147483648 + floor(lo / 2), 2, true
	end
	return at, hi * it.half + floor(lo / 2), 2, false
end

local function put(it, i, at, units, denied)
	at = at % it.span
	local hi = floor(at / it.high)
	local lo = (at - hi * it.high) * it.low
	if denied and units == 1 then
		putWord(it, i, hi, lo)
		return 1
	end
	if units < it.many and not denied then
		putWord(it, i, hi, lo + units * 2)
		return 1
	end
	putWord(it, i, hi, lo + it.many * 2)
	hi = floor(units / it.half)
	putWord(it, i + 1, hi + (denied and DENIED or 0), (units - hi * it.half) * 2 + 1)
	return 2
end

local function drop(it, units, words)
	it.len, it.a = it.len - words, it.a - units
	it.first = it.first + words
	if it.first >= it.cap then
		it.first = it.first - it.cap
	end
end

-- grow replaces the ring by one of that many words, the oldest first.
local function grow(it, words)
	local first, cap, stop = it.first, it.cap, it.first + it.len
	local function part(from, to)
		if it.raw then
			return sub(it.raw, from * it.size + 1, to * it.size)
		end
		if it.exists and from < to then
			return call('GETRANGE', it.key, it.base + from * it.size, it.base + to * it.size - 1)
		end
		return ''
	end
	local raw = part(first, min(stop, cap))
	if stop > cap then
		raw = raw .. part(0, stop - cap)
	end
	local hi, lo, dirty = {}, {}, {}
	for p in pairs(it.dirty) do
		local i = p - first
		if i < 0 then
			i = i + cap
		end
		if i < it.len then
			hi[i], lo[i], dirty[i] = it.hi[p], it.lo[p], true
		end
	end
	it.raw, it.hi, it.lo, it.dirty, it.first, it.cap = raw, hi, lo, dirty, 0, words
end

-- newestOf returns the position of the newest entry.
local function newestOf(it)
	local i = it.len - 1
	local _, lo = word(it, i)
	return lo % 2 == 1 and i - 1 or i
end

-- move copies words within the ring, towards its head.
local function move(it, to, from, words)
	if to ~= from then
		for k = 0, words - 1 do
			putWord(it, to + k, word(it, from + k))
		end
	end
	return to + words
end

--<more>
-- find returns the position of the first entry that is not older than at, or len.
local function find(it, at)
	local from, to = 0, it.len
	while from < to do
		local i = floor((from + to) / 2)
		local _, lo = word(it, i)
		if lo % 2 == 1 then
			i = i - 1
		end
		local e, _, words = entry(it, i)
		if e < at then
			from = i + words
		else
			to = i
		end
	end
	return from
end
--</more>
