-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Records the start of a rule, unless an earlier one is recorded, and renews its time to
-- live.
--
-- KEYS[1]  the key of the start
-- ARGV[1]  the instant, in µs
-- ARGV[2]  the time to live, in ms
--
-- It returns the instant that was recorded before, or nothing.

local recorded = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if recorded and (tonumber(recorded) or 0) > tonumber(ARGV[1]) then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif recorded then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return recorded or ''
