-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The holders of the slots of one key: see algo/slots.go. A value is the version of its
-- format and, for each holder, 16 bytes of owner, the end of its lease and its units.

local function drop(h, i)
	local list = h.list
	h.held = h.held - list[i][3]
	list[i] = list[#list]
	list[#list] = nil
	h.written = true
end

-- holders returns the present holders of slots, or nil and an error if they cannot be
-- read. mine is the position of the owner me.
local function holders(key, me, now, life, longest)
	local raw = redis.call('GET', key) or ''
	local version = string.byte(raw) or 1
	if version ~= 1 then
		return nil, redis.error_reply('ERR sluice: the value has format ' .. version .. ', this program knows format 1: upgrade the program, or delete the key if another one wrote it')
	end
	if raw ~= '' and #raw % 27 ~= 1 then
		return nil, redis.error_reply('ERR sluice: the state is cut short or has bytes too many: another program wrote this key')
	end
	local list, held = {}, 0
	for pos = 2, #raw, 27 do
		local owner, stop, units = struct.unpack('>c16I7I4', raw, pos)
		list[#list + 1] = {owner, stop, units}
		held = held + units
	end
	local h = {key = key, raw = raw, me = me, now = now, life = life, list = list, held = held}
	for i = #list, 1, -1 do
		local e = list[i]
		if e[2] <= now then
			drop(h, i)
			if h.mine == #list + 1 then
				h.mine = i
			end
		else
			if e[2] > now + longest then
				e[2] = now + life
				h.written = true
			end
			if e[1] == me then
				h.mine = i
			end
		end
	end
	return h
end

-- hold acquires units for the owner, or renews its lease.
local function hold(h, units)
	if h.mine then
		h.list[h.mine][2] = h.now + h.life
	else
		h.list[#h.list + 1] = {h.me, h.now + h.life, units}
	end
	h.written = true
end

-- keep writes the holders if they have changed. The time is the server's, except in tests.
local function keep(h, test)
	if not h.written then
		return
	end
	if #h.list == 0 then
		if h.raw ~= '' then
			redis.call('DEL', h.key)
		end
		return
	end
	local parts, last = {'\1'}, 0
	for i, e in ipairs(h.list) do
		parts[i + 1] = struct.pack('>c16I7I4', e[1], e[2], e[3])
		last = math.max(last, e[2])
	end
	if test then
		redis.call('SET', h.key, table.concat(parts), 'PX', math.floor((last - h.now) / 1000) + 3600101)
	else
		redis.call('SET', h.key, table.concat(parts), 'PXAT', math.floor(last / 1000) + 1001)
	end
end
