-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- The common part of windows: see tooFar, stuck and clampWindow in algo/counter.go.

--<more>
-- windowStepped is for a state that stands at the instant at, under a limit of a window.
local function windowStepped(it, at, window)
	if it.reserved or at <= now then
		return at - now > window + MAXWAIT
	end
	return at - now > window or it.kind.earliest(it, 1) - now > window
end

local function windowClamp(it)
	clear(it)
	it.kind.spend(it, now, it.full)
end
--</more>
