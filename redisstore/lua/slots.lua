-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Requests for slots only.
--
-- KEYS[1]  the leases
-- ARGV[1]  numbers: clock mode, now or 0, op, lifetime, cap, cost, longest
--          lifetime
-- ARGV[2]  the owner
--
-- It returns the leases that it found and the server's time in seconds and µs.

local ACQUIRE, RELEASE, PEEK = 0, 2, 3
local mode, now, op, life, cap, cost, longest = struct.unpack('>ddddddd', ARGV[1])
local time = {'0', '0'}
if mode == 0 then
	time = redis.call('TIME')
	now = time[1] * 1000000 + time[2]
end
local h, err = holders(KEYS[1], ARGV[2], math.min(now, LATEST), life, longest)
if not h then
	return err
end
if op == RELEASE then
	if h.mine then
		drop(h, h.mine)
	end
elseif h.mine and op ~= PEEK or op == ACQUIRE and h.held + cost <= cap then
	hold(h, cost)
end
keep(h, mode == 1)
return {h.raw, time[1], time[2]}
