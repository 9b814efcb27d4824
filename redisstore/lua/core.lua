-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Arithmetic. Numbers are doubles: integers below 2^53 are exact, and sums that
-- could pass it are compared by differences.

-- The latest instant: see algo.
local LATEST = 4503599627370495 - 3600000000

-- muldiv returns floor(a*b/c) and the remainder, exactly, where the quotient
-- is below 2^53. Products beyond 2^53 are added up bit by bit, modulo c.
local function muldiv(a, b, c)
	local p = a * b
	if p < 9007199254740992 then
		local q = math.floor(p / c)
		return q, p - q * c
	end
	local bq = math.floor(b / c)
	local br = b - bq * c
	local q, r = 0, 0
	local _, e = math.frexp(a)
	local bit = 2 ^ (e - 1)
	while bit >= 1 do
		q = q + q
		if r >= c - r then
			q, r = q + 1, r - (c - r)
		else
			r = r + r
		end
		if a >= bit then
			a, q = a - bit, q + bq
			if r >= c - br then
				q, r = q + 1, r - (c - br)
			else
				r = r + br
			end
		end
		bit = bit / 2
	end
	return q, r
end
