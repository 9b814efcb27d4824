-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What balances have in common: where it matters, behind the state stand since
-- when its writer has been the only one and when its last reservation is due. See
-- value.go. Idle instants of limits that withhold units are stored a window later.

--<more>
-- rest makes it a state that owes nothing, which still shows whose receipts
-- count.
local function rest(it)
	local since = it.since
	clear(it)
	it.since = since
end
--</more>

local function load(it, raw, pos)
	local credit
	it.idle, it.a, credit = unpack(it.form, raw, pos)
	if (it.credit or 0) > 0 then
		it.b = -credit
	end
	if it.lag > 0 and it.idle > 0 then
		it.idle = max(it.idle - it.lag, 1)
	end
	if pos > #it.head + 1 then
		it.since, it.last = unpack('>I7I7', raw, #raw - 13)
	end
end

local function save(it)
	local value = it.head .. pack(it.form, it.idle > 0 and it.idle + it.lag or 0, it.a, -it.b)
	if it.since > 0 or it.last > 0 then
		value = '\255\7' .. value .. pack('>I7I7', it.since, it.last)
	end
	set(it, value)
end
