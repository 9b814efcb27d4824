-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- What windows have in common: see clampWindow in algo/counter.go.

--<more>
local function windowStepped(it)
	return it.idle - now > it.horizon
end

local function windowClamp(it)
	local units = max(it.full + it.debt, it.kind.counted(it, it.kind.instant(it)))
	clear(it)
	it.kind.spend(it, now, units)
end
--</more>
