-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Records when a rule started, unless it is known to have started earlier, and
-- has that live on.
--
-- KEYS[1]  where it is recorded
-- ARGV[1]  the instant, in µs
-- ARGV[2]  how long it lives, in ms
--
-- It returns the instant that was recorded before, or nothing.

local recorded = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if recorded and (tonumber(recorded) or 0) > tonumber(ARGV[1]) then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif recorded then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return recorded or ''
