-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What balances have in common: where it matters, behind the state stand since
-- when its writer has been the only one and when its last reservation is due, and
-- the flag 2 says so. See value.go.

--<more>
-- rest makes it a state that owes nothing, which still shows whose receipts
-- count.
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

-- saveBalance writes what stands behind the head.
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
