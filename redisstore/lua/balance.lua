-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The code that all balances share. A value with the flag 2 ends with two instants:
-- when its limit became the only writer, and when its last reservation is due. See
-- value.go.

--<more>
-- rest clears a state, except the instant that decides which receipts count.
local function rest(it)
	local since = it.since
	clear(it)
	it.since = since
end
--</more>

local function loadSince(it, raw)
	if string.byte(raw, 2) == 2 then
		it.since, it.last = unpack('>I7I7', raw, #raw - 13)
	end
end

-- saveBalance writes a state and, if they are set, the two instants.
local function saveBalance(it, state)
	local value = it.head .. state
	if it.since > 0 or it.last > 0 then
		value = '\1\2' .. sub(value, 3) .. pack('>I7I7', it.since, it.last)
	end
	set(it, value)
end

local function load(it, raw, pos)
	local credit
	it.idle, it.a, credit = unpack(it.form, raw, pos)
	if (it.credit or 0) > 0 then
		it.b = -credit
	end
	loadSince(it, raw)
end

local function save(it)
	saveBalance(it, pack(it.form, it.idle, it.a, -it.b))
end
